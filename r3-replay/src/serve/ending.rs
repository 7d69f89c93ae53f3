//! How a server of one's own ended: its status by name, its last words, and what can be done.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::names;

/// What most often sends a signal.
enum Kind {
    Killed,
    Crash,
    Limit,
    Asked,
}

impl Kind {
    fn of(signal: i32) -> Self {
        match signal {
            libc::SIGKILL => Self::Killed,
            libc::SIGSEGV
            | libc::SIGBUS
            | libc::SIGILL
            | libc::SIGFPE
            | libc::SIGABRT
            | libc::SIGTRAP => Self::Crash,
            libc::SIGSYS | libc::SIGXCPU | libc::SIGXFSZ => Self::Limit,
            _ => Self::Asked,
        }
    }
}

/// The end of a server that was started as a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How the process ended.
    pub status: ExitStatus,
    /// The last lines that it said on standard error, when that went into a file.
    pub said: String,
    /// That file.
    pub log: Option<PathBuf>,
    /// A command that tries the same without a server.
    pub check: Option<String>,
}

impl Ending {
    fn how(&self) -> String {
        match (self.status.signal(), self.status.code()) {
            (Some(signal), _) if self.status.core_dumped() => {
                format!("{}, core dumped", names::signal(signal))
            }
            (Some(signal), _) => names::signal(signal),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => self.status.to_string(),
        }
    }

    /// What can be done; `None` where the server says it itself.
    fn advice(&self) -> Option<&'static str> {
        let kind = self.status.signal().map(Kind::of);
        match (kind, self.status.code()) {
            (Some(Kind::Killed), _) => Some(
                "It was killed: by somebody, or by the system for want of memory, which the system's log tells (`dmesg`); with fewer \
                 --workers it needs less",
            ),
            (Some(Kind::Crash), _) => Some(
                "It crashed, most often in the GPU's driver: `nvidia-smi` tells whether that is well, --device cpu does without it",
            ),
            (Some(Kind::Limit), _) => Some(
                "A limit of the surroundings ended it: `ulimit -a`, or those of a container or a batch system",
            ),
            (Some(Kind::Asked), _) => Some("Somebody, or a batch system, ended it"),
            (None, Some(126 | 127)) => Some(
                "The program, or a library that it needs, cannot be loaded: `r3-replay --version` tries it, R3_REPLAY names another one",
            ),
            (None, Some(101)) => {
                Some("That is a fault of r3-replay: please report it with its log")
            }
            (None, Some(0)) => {
                Some("It was asked to end, by another client or by its surroundings")
            }
            // It said what is wrong, and what to do.
            _ if !self.said.is_empty() => None,
            _ => Some("It may have said why, above"),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({})", self.how())?;
        if !self.said.is_empty() {
            write!(f, ": {}", self.said)?;
        }
        let Some(advice) = self.advice() else {
            return Ok(());
        };
        // A text that ends with a full stop or a line of its own goes on with another sentence.
        write!(
            f,
            "{}{advice}",
            if self.said.contains('\n') { "\n" } else { ". " }
        )?;
        if let Some(check) = &self.check {
            write!(f, "; `{check}` tries the same without a server")?;
        }
        match &self.log {
            Some(log) => write!(f, "; its log is {}", log.display()),
            None => Ok(()),
        }
    }
}

/// The command that tries the device and the archive of a server with such options.
pub(super) fn check(
    program: &Path,
    archives: &[PathBuf],
    arguments: &[std::ffi::OsString],
) -> Option<String> {
    let archive = archives.first()?;
    let after = |name: &str| {
        let at = arguments.iter().position(|one| one == name)?;
        arguments.get(at + 1).map(|value| value.to_string_lossy())
    };
    let mut command = format!("{} verify {}", program.display(), archive.display());
    if let Some(device) = after("--device") {
        command.push_str(&format!(" --device {device}"));
    }
    if let Some(gpu) = after("--gpus") {
        command.push_str(&format!(" --gpu {gpu}"));
    }
    Some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(status: i32, said: &str) -> String {
        Ending {
            status: ExitStatus::from_raw(status),
            said: said.to_owned(),
            log: Some(PathBuf::from("run/serve.log")),
            check: check(
                Path::new("r3-replay"),
                &[PathBuf::from("a.r3")],
                &["--device", "cuda", "--gpus", "1"].map(Into::into),
            ),
        }
        .to_string()
    }

    #[test]
    fn each_end_has_its_name_and_its_advice() {
        for (status, names) in [
            (libc::SIGKILL, &["SIGKILL", "memory", "--workers"][..]),
            (libc::SIGSEGV, &["SIGSEGV", "nvidia-smi"]),
            (
                libc::SIGSEGV | 0x80,
                &["SIGSEGV, core dumped", "nvidia-smi"],
            ),
            (libc::SIGABRT, &["SIGABRT", "driver"]),
            (libc::SIGXFSZ, &["SIGXFSZ", "ulimit"]),
            (libc::SIGTERM, &["SIGTERM", "Somebody"]),
            (63, &["signal 63"]),
            (127 << 8, &["exit code 127", "R3_REPLAY"]),
            (101 << 8, &["exit code 101", "report"]),
            (0, &["exit code 0", "asked to end"]),
        ] {
            let text = ending(status, "the last words");
            let always = [
                "the last words",
                "`r3-replay verify a.r3 --device cuda --gpu 1`",
                "run/serve.log",
            ];
            for name in names.iter().chain(&always) {
                assert!(text.contains(name), "{name}: {text}");
            }
        }
        // It said it itself.
        let text = ending(2 << 8, "there is no GPU 7");
        assert_eq!(text, "(exit code 2): there is no GPU 7");
        assert!(ending(2 << 8, "").contains("above"));
    }
}
