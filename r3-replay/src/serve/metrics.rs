//! Numbers of a server in the text format of Prometheus.

use std::fmt::Write;

use super::protocol::{ServerStatus, StatusAnswer};

/// Names are `r3_…`; times are in seconds, sizes in bytes, as is usual there.
pub(super) fn text(status: &StatusAnswer) -> String {
    let StatusAnswer { server, evaluator } = status;
    let ServerStatus {
        connections,
        refused_connections,
        unauthorized,
        requests,
        sequence,
        event_bytes,
        ..
    } = server;
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        // Writing to a text cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let plain = |value: f64| vec![(String::new(), value)];
    let state = |name: &str, value: usize| (format!("{{state=\"{name}\"}}"), value as f64);
    metric(
        "r3_jobs",
        "gauge",
        "Jobs that are not done, by how far they are.",
        &[
            state("queued", evaluator.queued),
            state("compiling", evaluator.compiling),
            state("waiting", evaluator.waiting),
            state("running", evaluator.running),
        ],
    );
    let verdicts: Vec<(String, f64)> = evaluator
        .verdicts
        .iter()
        .map(|(verdict, count)| (format!("{{verdict=\"{}\"}}", label(verdict)), *count as f64))
        .collect();
    metric(
        "r3_jobs_done_total",
        "counter",
        "Jobs that are done, by verdict.",
        &verdicts,
    );
    metric(
        "r3_compilations_total",
        "counter",
        "Compilations asked for, by whether the cache had them.",
        &[
            ("{cache=\"hit\"}".to_owned(), evaluator.cache_hits as f64),
            ("{cache=\"miss\"}".to_owned(), evaluator.cache_misses as f64),
        ],
    );
    let rest: [(&str, &str, &str, f64); 13] = [
        (
            "r3_jobs_equal_total",
            "counter",
            "Jobs that were not measured since an equal one was.",
            evaluator.equal as f64,
        ),
        (
            "r3_worker_restarts_total",
            "counter",
            "Times that a device's worker was started again.",
            evaluator.restarts as f64,
        ),
        (
            "r3_compilers_busy_ratio",
            "gauge",
            "Part of the time in which compile workers were busy.",
            evaluator.compilers_busy,
        ),
        (
            "r3_devices_busy_ratio",
            "gauge",
            "Part of the time in which devices were busy.",
            evaluator.devices_busy,
        ),
        (
            "r3_worker_memory_bytes",
            "gauge",
            "Resident memory of the workers of devices.",
            evaluator.worker_memory as f64,
        ),
        (
            "r3_device_memory_bytes",
            "gauge",
            "Memory in use on the devices, where it is known.",
            evaluator.device_memory as f64,
        ),
        (
            "r3_uptime_seconds",
            "counter",
            "Time since the start.",
            evaluator.uptime,
        ),
        (
            "r3_connections",
            "gauge",
            "Connections that are open.",
            *connections as f64,
        ),
        (
            "r3_connections_refused_total",
            "counter",
            "Connections that were refused since there were too many.",
            *refused_connections as f64,
        ),
        (
            "r3_requests_total",
            "counter",
            "Requests that were answered.",
            *requests as f64,
        ),
        (
            "r3_unauthorized_total",
            "counter",
            "Requests without the token, or of other users.",
            *unauthorized as f64,
        ),
        (
            "r3_events_total",
            "counter",
            "Events so far.",
            *sequence as f64,
        ),
        (
            "r3_event_bytes",
            "gauge",
            "Bytes of events that are kept.",
            *event_bytes as f64,
        ),
    ];
    for (name, kind, help, value) in rest {
        metric(name, kind, help, &plain(value));
    }
    out
}

/// The value of a label, escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
