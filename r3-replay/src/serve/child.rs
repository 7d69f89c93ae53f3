//! A server of one's own: started as a child process, on a socket in a folder that nobody else can enter, and ended with its
//! parent.
//!
//! The child holds the reading end of a pipe and ends when nobody holds the other one any more. Unlike a parent-death
//! signal, which the system sends when the *thread* that started the child ends, that is when the parent's process ends, however it does.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::address::{Address, AddressError};
use super::client::{Client, ClientError};
use super::ending::{self, Ending};
use super::token::random_hex;

/// How long a server that was asked to end may take before it is killed.
const FAREWELL: Duration = Duration::from_secs(20);

/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The option of `serve` that ends it when standard input does.
pub const UNTIL_STDIN_CLOSES: &str = "--until-stdin-closes";

/// How to start one.
#[derive(Clone, Debug)]
pub struct ChildOptions {
    /// `r3-replay`: [`program`] finds it.
    pub program: PathBuf,
    /// Archives to open at the start.
    pub archives: Vec<PathBuf>,
    /// More options of `r3-replay serve`: `--device`, `--gpus`, `--workers`, `--cache`, …
    pub arguments: Vec<OsString>,
    /// File for what it says on standard error; without one it says it on that of its parent.
    pub log: Option<PathBuf>,
    /// How long it may take until it answers. Opening archives is part of it.
    pub patience: Duration,
}

impl Default for ChildOptions {
    fn default() -> Self {
        Self {
            program: program(),
            archives: Vec::new(),
            arguments: Vec::new(),
            log: None,
            patience: Duration::from_secs(120),
        }
    }
}

/// A server that ends when this value does.
#[derive(Debug)]
pub struct ServerChild {
    process: Child,
    /// The end of the pipe that keeps it alive.
    hold: Option<ChildStdin>,
    client: Client,
    end: End,
    _folder: Folder,
}

/// Why no server could be started.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The program cannot be started.
    #[error("{program}: the server cannot be started: {source}. R3_REPLAY names the program")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no place for its socket.
    #[error(
        "no private folder for the server's socket can be made in {place}: {source}. TMPDIR names another place"
    )]
    Folder {
        /// Where it was tried.
        place: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path of its socket cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Its log cannot be written.
    #[error("{path}: the server's log cannot be written: {source}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It ended at once.
    #[error("the server ended at its start {0}")]
    Ended(Ending),
    /// It does not answer.
    #[error(
        "the server was not ready within {} s, and was ended{}. A driver that hangs, or a disk that is slow, may be why{}",
        patience.as_secs(),
        told(said),
        tried(check)
    )]
    Late {
        /// How long it was waited for.
        patience: Duration,
        /// The end of its log, when it has a file.
        said: String,
        /// A command that tries the same without a server.
        check: Option<String>,
    },
    /// It answers, but not as it should.
    #[error(transparent)]
    Client(#[from] ClientError),
}

fn told(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    }
}

fn tried(check: &Option<String>) -> String {
    let said = |check| format!(": `{check}` tries the same without a server");
    check.as_ref().map(said).unwrap_or_default()
}

/// What `serve --json` prints when it is ready, on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// Where it listens.
    pub listening: Vec<String>,
    /// This start of the server.
    pub instance: String,
    /// Its process.
    pub process: u32,
    /// The token, when the server made one up.
    #[serde(default)]
    pub token: Option<String>,
}

/// `r3-replay`: what `R3_REPLAY` names, else the one beside this program, else the one in `PATH`.
pub fn program() -> PathBuf {
    const NAME: &str = "r3-replay";
    if let Some(named) = std::env::var_os("R3_REPLAY").filter(|path| !path.is_empty()) {
        return PathBuf::from(named);
    }
    std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name(NAME))
        .filter(|beside| beside.is_file())
        .unwrap_or_else(|| PathBuf::from(NAME))
}

impl ServerChild {
    /// Starts a server and waits until it answers.
    pub fn start(options: &ChildOptions) -> Result<Self, ChildError> {
        let began = Instant::now();
        let folder = Folder::new()?;
        let address = Address::unix(folder.path.join("serve.sock"))?;
        let mut command = Command::new(&options.program);
        command
            .arg("serve")
            .args(&options.archives)
            .arg("--listen")
            .arg(address.to_string())
            .args(["--json", UNTIL_STDIN_CLOSES])
            .args(&options.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C on the terminal is for the parent, which decides when its server ends.
            .process_group(0);
        let end = End {
            // What a server before it said is not its own.
            from: options.log.as_ref().map_or(0, |path| {
                std::fs::metadata(path).map_or(0, |about| about.len())
            }),
            log: options.log.clone(),
            check: ending::check(&options.program, &options.archives, &options.arguments),
        };
        if let Some(path) = &options.log {
            let log = File::options()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(path)
                .map_err(|source| ChildError::Log {
                    path: path.clone(),
                    source,
                })?;
            command.stderr(log);
        }
        let process = command.spawn().map_err(|source| ChildError::Start {
            program: options.program.clone(),
            source,
        })?;
        // From here on it is ended whatever happens.
        let mut started = Starting {
            process: Some(process),
        };
        let process = started.process.as_mut();
        let (hold, output) = match process {
            Some(process) => (process.stdin.take(), process.stdout.take()),
            None => (None, None),
        };
        let (tell, ready) = mpsc::channel();
        if let Some(output) = output {
            // Ends with the child, whose standard output is closed then.
            std::thread::spawn(move || {
                let mut line = String::new();
                let read = BufReader::new(output.take(64 << 10)).read_line(&mut line);
                let ready = read
                    .ok()
                    .and_then(|_| serde_json::from_str::<Ready>(&line).ok());
                // Nobody waits any more when it was too late.
                let _ = tell.send(ready);
            });
        }
        loop {
            match ready.recv_timeout(LOOK) {
                Ok(Some(_)) => break,
                Ok(None) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                    let status = started.end();
                    // Its log may go with what never began.
                    return Err(ChildError::Ended(Ending {
                        log: None,
                        ..end.ending(status)
                    }));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if began.elapsed() > options.patience => {
                    started.end();
                    return Err(ChildError::Late {
                        patience: options.patience,
                        said: end.said(),
                        check: end.check,
                    });
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        let client = Client::connect(address, None)?;
        match started.process.take() {
            Some(process) => Ok(Self {
                process,
                hold,
                client,
                end,
                _folder: folder,
            }),
            None => Err(ChildError::Late {
                patience: options.patience,
                said: String::new(),
                check: end.check,
            }),
        }
    }

    /// Speaks with it. Clones of it may outlive the server, and then find nobody.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// How it ended, with its last words and what can be done, when it has ended or does within so long.
    pub fn ending(&mut self, patience: Duration) -> Option<Ending> {
        let until = Instant::now() + patience;
        loop {
            if let Some(status) = self.has_ended() {
                return Some(self.end.ending(status));
            }
            if Instant::now() >= until {
                return None;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks it to end, and waits until it has; after a while it is killed.
    pub fn end(mut self) -> ExitStatus {
        self.finish()
    }

    fn finish(&mut self) -> ExitStatus {
        self.hold = None;
        finish(&mut self.process, FAREWELL)
    }
}

impl Drop for ServerChild {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A child that may not be ready.
struct Starting {
    process: Option<Child>,
}

impl Starting {
    fn end(&mut self) -> ExitStatus {
        match self.process.take() {
            // One that said nothing useful may be about to end by itself, with a reason.
            Some(mut process) => finish(&mut process, Duration::from_secs(2)),
            None => ExitStatus::default(),
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits for the end of a child that was told to end, and kills it and its group when it does not.
fn finish(process: &mut Child, patience: Duration) -> ExitStatus {
    let until = Instant::now() + patience;
    loop {
        match process.try_wait() {
            Ok(Some(status)) => return status,
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            _ => break,
        }
    }
    if let Ok(id) = libc::pid_t::try_from(process.id()) {
        // SAFETY: takes numbers. The child was not waited for yet, so that its group is its own.
        unsafe { libc::kill(-id, libc::SIGKILL) };
    }
    process.wait().unwrap_or_default()
}

/// What there is to be told when it ends.
#[derive(Debug)]
struct End {
    /// File with what it says on standard error.
    log: Option<PathBuf>,
    /// Where its own words begin in it.
    from: u64,
    /// A command that tries the same without a server.
    check: Option<String>,
}

impl End {
    fn ending(&self, status: ExitStatus) -> Ending {
        Ending {
            status,
            said: self.said(),
            log: self.log.clone(),
            check: self.check.clone(),
        }
    }

    /// The last lines of its log.
    fn said(&self) -> String {
        const KEEP: u64 = 2 << 10;
        let read = || -> std::io::Result<String> {
            let log = self.log.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
            let mut file = File::open(log)?;
            let len = file.metadata()?.len();
            let start = len.saturating_sub(KEEP).max(self.from);
            file.seek(SeekFrom::Start(start))?;
            let mut end = Vec::new();
            file.take(KEEP).read_to_end(&mut end)?;
            let end = String::from_utf8_lossy(&end);
            // A line of which the beginning is missing says little.
            let whole = end.split_once('\n').filter(|_| start > self.from);
            Ok(whole.map_or(&*end, |(_, rest)| rest).trim().to_owned())
        };
        crate::names::printable_lines(&read().unwrap_or_default())
    }
}

/// A folder that only this user can enter, and that goes away.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Self, ChildError> {
        let failed = |place: &Path, source| ChildError::Folder {
            place: place.to_owned(),
            source,
        };
        let place = std::env::temp_dir();
        let random = random_hex(6).map_err(|error| failed(&place, error))?;
        // A socket's path has to be short: a long TMPDIR is passed over.
        let place = if place.as_os_str().len() > 70 {
            PathBuf::from("/tmp")
        } else {
            place
        };
        let path = place.join(format!("r3-serve-{random}"));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| failed(&place, error))?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is only a folder in a place for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
