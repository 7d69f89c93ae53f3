//! Starting a program, waiting for it, and what came of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A program that runs longer hangs. Generous: the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// What came of a process.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub end: End,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}\n--- stdout\n{}--- stderr\n{}",
            self.end, self.stdout, self.stderr
        )
    }
}

/// A program to be started. Its environment is empty but for what is set here.
pub struct Program {
    command: Command,
}

impl Program {
    pub(crate) fn new(path: &Path, folder: &Path) -> Self {
        let mut command = Command::new(path);
        command.current_dir(folder).env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", folder)
            .env("TMPDIR", folder);
        command.env("LD_LIBRARY_PATH", crate::library_path(crate::driver()));
        // In a group of its own, so that it can be ended with all its children.
        command.stdin(Stdio::null()).process_group(0);
        Self { command }
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: &[S]) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Puts the layer of `layer/` in front of the driver.
    pub fn on_layer(self) -> Self {
        let layer = crate::programs().join("layer");
        self.env("LD_LIBRARY_PATH", crate::library_path(&layer))
    }

    /// The same, with a setting of the layer's: `LAYER_` and this name.
    pub fn layer(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.on_layer().env(&format!("LAYER_{name}"), value)
    }

    /// Runs it on a driver that lacks functions.
    pub fn on(self, driver: &crate::OldDriver) -> Self {
        self.env("LD_LIBRARY_PATH", crate::library_path(driver.folder()))
            .env("LAYER_HIDE", driver.hidden())
    }

    /// Removes every variable that is not needed to find the libraries.
    pub fn bare_environment(mut self) -> Self {
        for name in ["PATH", "HOME", "TMPDIR"] {
            self.command.env_remove(name);
        }
        self
    }

    /// Starts it in another directory.
    pub fn current_dir(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The variables that are set.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let set = |(name, value): (&OsStr, Option<&OsStr>)| {
            value.map(|value| (name.to_owned(), value.to_owned()))
        };
        self.command.get_envs().filter_map(set).collect()
    }

    /// Runs it to its end.
    pub fn run(self) -> Run {
        self.start().wait()
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let name = format!("{:?}", self.command);
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = child.stderr.take().expect("a pipe");
        Running {
            name,
            child,
            stdout,
            first_lines: String::new(),
            stderr: read_all(stderr),
        }
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A process that was started.
pub struct Running {
    name: String,
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    first_lines: String,
    stderr: JoinHandle<String>,
}

impl Running {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has written another line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a readable pipe");
        self.first_lines.push_str(&line);
        line
    }

    /// Whether it and its children have ended: their pipe is closed. It has not been waited for.
    pub fn has_ended(&self) -> bool {
        self.stderr.is_finished()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Waits for its end. One that hangs is ended, which fails the test.
    pub fn wait(self) -> Run {
        self.wait_within(PATIENCE)
    }

    /// The same for one that takes longer than programs here do.
    pub fn wait_within(mut self, patience: Duration) -> Run {
        let group = self.child.id().cast_signed();
        let stdout = read_all(self.stdout);
        let (ended, watch) = mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            let hung = watch.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout);
            if hung {
                // SAFETY: the group was made for this child, which is still waited for.
                unsafe { libc::kill(-group, libc::SIGKILL) };
            }
            hung
        });
        // The pipes close when the last process of the group has ended.
        let stdout = self.first_lines + &stdout.join().expect("the reader does not panic");
        let stderr = self.stderr.join().expect("the reader does not panic");
        let status = self.child.wait().expect("the child can be waited for");
        drop(ended);
        let hung = guard.join().expect("the guard does not panic");
        let end = match status.signal() {
            Some(signal) => End::Signal(signal),
            None => End::Exit(status.code().unwrap_or(-1)),
        };
        let run = Run {
            end,
            stdout,
            stderr,
        };
        assert!(!hung, "{} did not end: {run}", self.name);
        run
    }
}
