//! Running programs that compile or assemble.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::recipe::{Failure, FailureKind, Stage};
use crate::worker::Tail;

/// What a program that succeeded said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Standard output.
    pub output: Vec<u8>,
    /// End of standard error.
    pub log: String,
}

/// What a program may write to standard output.
const MAX_OUTPUT: u64 = 1 << 30;

/// How logs say that there was no memory.
const NO_MEMORY: &[&str] = &[
    "out of memory",
    "Memory allocation failure",
    "std::bad_alloc",
    "Cannot allocate memory",
];

/// Runs `command` to its end, without input, and ends it when the calling thread ends. How long it may take and how much
/// memory it may use is limited where this runs: in a worker.
pub fn run(command: &mut Command, stage: Stage) -> Result<Said, Failure> {
    run_keeping(command, stage, Tail::KEEP, None)
}

/// As [`run`], with so many bytes of the end of standard error, and a time limit where no worker has one.
pub(crate) fn run_keeping(
    command: &mut Command,
    stage: Stage,
    keep: usize,
    limit: Option<Duration>,
) -> Result<Said, Failure> {
    let name = Path::new(command.get_program())
        .file_name()
        .unwrap_or_else(|| OsStr::new("the program"))
        .to_string_lossy()
        .into_owned();
    let (status, said) = collect(command, keep, limit).map_err(|error| Failure {
        stage,
        kind: match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => FailureKind::MissingTool,
            io::ErrorKind::TimedOut => FailureKind::Timeout,
            _ => FailureKind::Crash,
        },
        message: format!(
            "{} could not be run: {error}",
            command.get_program().display()
        ),
        log: String::new(),
    })?;
    if status.success() {
        return Ok(said);
    }
    // Some say what is wrong on standard output.
    let said = if said.log.is_empty() {
        &said.output[..]
    } else {
        said.log.as_bytes()
    };
    let log = Tail::of(said);
    Err(refusal(
        stage,
        &name,
        &format!("{name} failed: {status}"),
        log,
        status.code().is_none(),
    ))
}

/// A failure of a tool, from its log: the first line that says what is wrong.
pub(crate) fn refusal(
    stage: Stage,
    name: &str,
    otherwise: &str,
    log: String,
    died: bool,
) -> Failure {
    let line = |words: &[&str]| {
        log.lines()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| line.trim().to_owned())
    };
    let kind = if line(NO_MEMORY).is_some() {
        FailureKind::Memory
    } else if died {
        FailureKind::Crash
    } else {
        FailureKind::Refused
    };
    let message = line(NO_MEMORY)
        .or_else(|| line(&["error", "fatal", "ERROR"]))
        .or_else(|| log.lines().next().map(str::to_owned))
        .filter(|line| !line.is_empty() && !died)
        .map_or_else(|| otherwise.to_owned(), |line| format!("{name}: {line}"));
    Failure {
        stage,
        kind,
        message,
        log,
    }
}

fn collect(
    command: &mut Command,
    keep: usize,
    limit: Option<Duration>,
) -> io::Result<(ExitStatus, Said)> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: the one call between fork and exec takes numbers and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let mut child = command.spawn()?;
    let id = child.id();
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let mut said = Said {
        output: Vec::new(),
        log: String::new(),
    };
    let (done, is_done) = mpsc::channel::<()>();
    let late = std::thread::scope(|scope| {
        let log = scope.spawn(move || tail_of(errors, keep));
        let watch = limit.map(|limit| {
            scope.spawn(move || {
                let late = is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
                if late && let Ok(id) = libc::pid_t::try_from(id) {
                    // SAFETY: takes numbers. The program was not waited for, so that the number is its own.
                    unsafe { libc::kill(id, libc::SIGKILL) };
                }
                late
            })
        });
        let read = output.map_or(Ok(0), |output| {
            output.take(MAX_OUTPUT).read_to_end(&mut said.output)
        });
        said.log = log.join().unwrap_or_default();
        await_end(id);
        drop(done);
        let late = watch.is_some_and(|watch| watch.join().unwrap_or(false));
        read.map(|_| late)
    });
    let status = child.wait()?;
    match late? {
        true => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("not done after {:?}", limit.unwrap_or_default()),
        )),
        false => Ok((status, said)),
    }
}

fn tail_of(from: Option<impl Read>, keep: usize) -> String {
    let mut tail = Tail::keeping(keep);
    let mut part = [0; 16 << 10];
    if let Some(mut from) = from {
        loop {
            match from.read(&mut part) {
                Ok(0) => break,
                Ok(got) => tail.push(part.get(..got).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
    tail.text()
}

/// Returns when a child has ended, and leaves its status with the system.
fn await_end(id: u32) {
    // SAFETY: all zeros are a value of this structure of numbers, which lives here.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(libc::P_PID, id, &mut info, libc::WEXITED | libc::WNOWAIT) != 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, limit: Option<Duration>) -> Result<Said, Failure> {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        run_keeping(&mut command, Stage::Assemble, Tail::KEEP, limit)
    }

    #[test]
    fn what_a_program_says_is_kept_apart_and_its_input_is_empty() {
        let said = shell("cat; echo out; echo err >&2", None).unwrap();
        assert_eq!(said.output, b"out\n");
        assert_eq!(said.log, "err");
    }

    #[test]
    fn a_failure_has_the_line_that_says_why() {
        let text = "echo note: x >&2; echo 'k.ptx, line 3; error : bad' >&2; exit 1";
        let failure = shell(text, None).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert_eq!(failure.message, "sh: k.ptx, line 3; error : bad");
        assert!(failure.log.starts_with("note: x"));
        // Some have it on standard output.
        let failure = shell("echo 'error: there'; exit 1", None).unwrap_err();
        assert_eq!(failure.message, "sh: error: there");
        let failure = shell("kill -9 $$", None).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Crash);
        let failure = shell("echo 'fatal: Memory allocation failure' >&2; exit 1", None);
        assert_eq!(failure.unwrap_err().kind, FailureKind::Memory);
    }

    #[test]
    fn a_program_that_hangs_is_ended_even_when_it_says_no_more() {
        let limit = Some(Duration::from_millis(100));
        for text in ["exec sleep 1000", "exec sleep 1000 >&- 2>&-"] {
            let failure = shell(text, limit).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Timeout, "{failure:?}");
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_missing() {
        let failure = run(&mut Command::new("/nonexistent/x"), Stage::Source).unwrap_err();
        assert_eq!(failure.kind, FailureKind::MissingTool);
        assert_eq!(failure.stage, Stage::Source);
        assert!(failure.message.contains("/nonexistent/x"));
    }
}
