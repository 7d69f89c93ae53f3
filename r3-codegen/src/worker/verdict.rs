//! What the end of a child means.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::passes::FATAL;
use crate::recipe::{Failure, FailureKind, Stage};

/// How lines begin that say that there was no more memory: of LLVM, C++ and Rust. The last is said of a C++ exception that
/// arrives in Rust: LLVM is built without exceptions, so that only `new` throws any.
const NO_MEMORY: &[&str] = &[
    "LLVM ERROR: out of memory",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "memory allocation of ",
    "fatal runtime error: Rust cannot catch foreign exceptions",
];

/// Lines of a log that say more than the way in which the process ended.
const TELLING: &[&str] = &[FATAL, "LLVM ERROR: ", "worker: "];

/// A child that ended before it answered.
pub(super) fn of_end(stage: Stage, status: ExitStatus, memory: u64, log: String) -> Failure {
    let how = describe(status);
    let line = |starts: &[&str]| {
        log.lines()
            .rev()
            .find(|line| starts.iter().any(|start| line.starts_with(start)))
    };
    let (kind, message) = if line(NO_MEMORY).is_some() {
        let limit = memory >> 20;
        (
            FailureKind::Memory,
            format!("out of memory: the limit is {limit} MiB"),
        )
    } else if log.contains("has overflowed its stack") {
        (
            FailureKind::Crash,
            "the stack overflowed: something is nested too deeply".into(),
        )
    } else if let Some(line) = line(TELLING) {
        (FailureKind::Crash, line.trim_end().to_owned())
    } else if log.contains("error while loading shared libraries") {
        let line = log.lines().next().unwrap_or_default();
        (FailureKind::MissingTool, line.to_owned())
    } else {
        (FailureKind::Crash, format!("the worker {how}"))
    };
    Failure {
        stage,
        kind,
        message,
        log,
    }
}

/// A child that was killed because its time was over.
pub(super) fn of_timeout(stage: Stage, limit: Duration, of: &str, log: String) -> Failure {
    Failure {
        stage,
        kind: FailureKind::Timeout,
        message: format!("not done after {limit:?}, the limit of a {of}"),
        log,
    }
}

/// A child that could not be started or understood.
pub(super) fn of_worker(kind: FailureKind, message: String, log: String) -> Failure {
    Failure {
        stage: Stage::Worker,
        kind,
        message,
        log,
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(libc::SIGKILL), _) => {
            "was killed (SIGKILL): by somebody, or by the kernel for want of memory".into()
        }
        (Some(signal), _) => format!("died of {}", signal_name(signal)),
        (None, Some(code)) => format!("ended with exit code {code} and without an answer"),
        (None, None) => "ended without an answer".into(),
    }
}

fn signal_name(signal: i32) -> String {
    let known = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGXCPU, "SIGXCPU"),
    ];
    known
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).into())
}
