//! Outcomes for people.

use super::super::Failure;
use super::super::output::{Output, bytes, shorten};
use super::Summary;
use crate::evaluate::describe::DeviceDescription;
use crate::evaluate::outcome::{Outcome, Score};
use crate::names::printable;

/// Columns that labels get.
const LABEL: usize = 20;

/// Columns that a reason gets.
const REASON: usize = 160;

/// What is evaluated, and the names of the columns.
pub fn header(out: &mut Output, kernel: &str, device: &DeviceDescription) -> Result<(), Failure> {
    out.line(format!(
        "{kernel} on {} (time of the candidate ÷ that of the original, with its interval)",
        printable(&device.name)
    ))?;
    out.line(format!(
        "{:LABEL$}  {:12}  {:>7}  {:>17}  {:>5}  {:>9}  {}",
        "candidate", "verdict", "ratio", "interval", "regs", "ms", "remarks"
    ))?;
    out.flush()
}

/// One outcome.
pub fn outcome(out: &mut Output, label: &str, outcome: &Outcome) -> Result<(), Failure> {
    let score = outcome.score.as_ref();
    let (ratio, interval) = match score {
        Some(Score { ratio, .. }) => (
            format!("{:.4}", ratio.median),
            format!("{:.4} … {:.4}", ratio.low, ratio.high),
        ),
        None => Default::default(),
    };
    let code = outcome.code.as_ref();
    let registers = code
        .and_then(|code| code.resources.as_ref())
        .map(|used| used.registers.to_string())
        .unwrap_or_default();
    let cost = &outcome.cost;
    let mut remarks = Vec::new();
    if let Some(reason) = &outcome.reason {
        let line = reason.lines().next().unwrap_or_default();
        remarks.push(shorten(&printable(line), REASON));
    }
    if score.is_some_and(|score| score.dropped) {
        remarks.push("dropped from the race".to_owned());
    }
    if let Some(equal) = code.and_then(|code| code.equal_to) {
        let id = equal.to_string();
        remarks.push(format!("equal code as {}", id.get(..8).unwrap_or_default()));
    }
    let line = format!(
        "{:LABEL$}  {:12}  {ratio:>7}  {interval:>17}  {registers:>5}  {:>9.1}  {}",
        shorten(&printable(label), LABEL),
        outcome.verdict.word(),
        cost.compile + cost.device,
        remarks.join("; ")
    );
    out.line(line.trim_end())?;
    out.flush()
}

/// What came of all.
pub fn summary(out: &mut Output, summary: &Summary) -> Result<(), Failure> {
    let verdicts: Vec<String> = summary
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{count} {}", verdict.replace('_', " ")))
        .collect();
    let status = &summary.status;
    out.line("")?;
    out.line(format!(
        "{} in {:.1} s ({:.1} per second){}: {}",
        super::super::output::count(summary.candidates, "candidate", "candidates"),
        summary.seconds,
        summary.per_second,
        if summary.interrupted {
            ", interrupted"
        } else {
            ""
        },
        verdicts.join(", ")
    ))?;
    out.line(format!(
        "compilers busy {:.0} %, devices busy {:.0} %; cache: {} of {} compilations; equal code: {}; workers restarted: {}; memory of workers {}",
        100.0 * status.compilers_busy,
        100.0 * status.devices_busy,
        status.cache_hits,
        status.cache_hits + status.cache_misses,
        status.equal,
        status.restarts,
        bytes(status.worker_memory),
    ))
}
