//! The parent's side of one child: starting it, talking with it under time limits, ending it with all that it started.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::environment::Environment;
use super::pool::{Limits, WorkerCommand};
use super::protocol::{self, Answer, MAX_FRAME, Message, Setup};
use super::tail::Tail;
use crate::assemble::scratch::Scratch;
use crate::recipe::Stage;

/// How long a child whose connection closed may take until the system says how it ended.
const PATIENCE: Duration = Duration::from_millis(500);

/// A worker process.
#[derive(Debug)]
pub(super) struct Child {
    process: std::process::Child,
    connection: UnixStream,
    stderr: OwnedFd,
    /// What it said that is not a whole message yet.
    inbox: Vec<u8>,
    log: Tail,
    /// How it ended, once it was waited for.
    ended: Option<ExitStatus>,
    /// Recipes that it was given.
    pub(super) jobs: u32,
    /// LLVM's options in it, which are those of its first recipe.
    pub(super) options: Vec<String>,
    /// Its working directory; removed after its end.
    _scratch: Scratch,
}

/// What came of a conversation.
pub(super) enum Outcome {
    /// An answer.
    Answer(Box<Answer>),
    /// The child closed the connection while it was in this stage; `None`: before it had the recipe.
    Ended(Option<Stage>),
    /// A limit was exceeded: that of a recipe or that of a stage.
    Timeout(Stage, Duration, &'static str),
    /// It said what cannot be understood.
    Garbled(Stage, io::Error),
}

impl Child {
    /// Starts a child. The calling thread has to live as long as the child, which ends with it.
    pub(super) fn start(
        command: &WorkerCommand,
        environment: &Environment,
        memory: u64,
        options: Vec<String>,
    ) -> io::Result<Child> {
        let scratch = Scratch::new().map_err(|error| {
            let folder = std::env::temp_dir();
            io::Error::other(format!(
                "no folder can be made in {}: {error}; TMPDIR names another place for temporary files",
                folder.display()
            ))
        })?;
        let (connection, theirs) = UnixStream::pair()?;
        let mut process = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env("TMPDIR", scratch.path())
            .current_dir(scratch.path())
            .stdin(OwnedFd::from(theirs.try_clone()?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let stderr = process.stderr.take().map(OwnedFd::from);
        let stderr = stderr.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        let child = Child {
            process,
            connection,
            stderr,
            inbox: Vec::new(),
            log: Tail::default(),
            ended: None,
            jobs: 0,
            options,
            _scratch: scratch,
        };
        child.connection.set_nonblocking(true)?;
        set_nonblocking(child.stderr.as_raw_fd())?;
        // A few bytes: they fit into the empty connection.
        send(&child.connection, &protocol::encode(&Setup { memory })?)?;
        Ok(child)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// It has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        self.ended.is_none() && matches!(self.has_ended(), Ok(false))
    }

    /// Sends a recipe and waits for the answer.
    pub(super) fn converse(&mut self, recipe: &[u8], limits: &Limits) -> Outcome {
        self.jobs += 1;
        self.drain_log();
        self.log.clear();
        let began = Instant::now();
        let mut stage = None;
        let mut entered = began;
        let mut rest = recipe;
        loop {
            let now = stage.unwrap_or(Stage::Worker);
            let mut left = limits.time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Outcome::Timeout(now, limits.time, "recipe");
            }
            if let Some(limit) = limits.stage_time {
                let of_stage = limit.saturating_sub(entered.elapsed());
                if of_stage.is_zero() {
                    return Outcome::Timeout(now, limit, "stage");
                }
                left = left.min(of_stage);
            }
            if let Err(error) = self.wait_for_events(!rest.is_empty(), left) {
                return Outcome::Garbled(now, error);
            }
            self.drain_log();
            if !rest.is_empty() {
                match send(&self.connection, rest) {
                    Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                    // What it said before is still there to be read.
                    Err(_) => rest = &[],
                }
            }
            let open = self.receive();
            loop {
                match protocol::decode::<Message>(&self.inbox) {
                    Ok(Some((Message::Enter(next), used))) => {
                        self.inbox.drain(..used);
                        stage = Some(next);
                        entered = Instant::now();
                    }
                    Ok(Some((Message::Answer(answer), _))) => {
                        self.inbox.clear();
                        self.drain_log();
                        return Outcome::Answer(answer);
                    }
                    Ok(None) => break,
                    Err(error) => return Outcome::Garbled(stage.unwrap_or(Stage::Worker), error),
                }
            }
            if !open {
                return Outcome::Ended(stage);
            }
        }
    }

    /// Ends it, if it has not ended, and everything that it started. Returns how it ended and the end of its log.
    pub(super) fn end(&mut self, patience: bool) -> (ExitStatus, String) {
        let status = match self.ended {
            Some(status) => status,
            None => self.wait(patience),
        };
        self.ended = Some(status);
        self.drain_log();
        (status, self.log.text())
    }

    /// The end of its log.
    pub(super) fn log(&mut self) -> String {
        self.log.text()
    }

    fn wait(&mut self, patience: bool) -> ExitStatus {
        let until = Instant::now() + if patience { PATIENCE } else { Duration::ZERO };
        // Its number stays taken until `wait`, so that the group is surely its own.
        while Instant::now() < until && matches!(self.has_ended(), Ok(false)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Ok(id) = libc::pid_t::try_from(self.process.id()) {
            // SAFETY: takes numbers.
            unsafe { libc::kill(-id, libc::SIGKILL) };
        }
        // In case that it left its group.
        _ = self.process.kill();
        self.process.wait().unwrap_or_default()
    }

    /// Whether it has ended, without taking its status from the system.
    fn has_ended(&self) -> io::Result<bool> {
        // SAFETY: all zeros are a value of this structure of numbers.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the structure lives here; its process number is valid to read after success.
        unsafe {
            match libc::waitid(libc::P_PID, self.process.id(), &mut info, flags) {
                0 => Ok(info.si_pid() != 0),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    fn wait_for_events(&self, sending: bool, limit: Duration) -> io::Result<()> {
        let interest = if sending {
            libc::POLLIN | libc::POLLOUT
        } else {
            libc::POLLIN
        };
        let mut events = [
            (self.connection.as_raw_fd(), interest),
            (self.stderr.as_raw_fd(), libc::POLLIN),
        ]
        .map(|(fd, events)| libc::pollfd {
            fd,
            events,
            revents: 0,
        });
        // A closed log would wake us for ever; the connection closes with it or soon after.
        let count = 2;
        let millis = libc::c_int::try_from(limit.as_millis().saturating_add(1)).unwrap_or(1 << 30);
        // SAFETY: the structures live here, and there are as many.
        if unsafe { libc::poll(events.as_mut_ptr(), count, millis) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if events[0].revents == 0 && events[1].revents & libc::POLLHUP != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Takes what it said. `false` when it will say no more.
    fn receive(&mut self) -> bool {
        read_all(self.connection.as_raw_fd(), |part| {
            // A frame may be so long, and no longer; `decode` refuses one that says it is.
            if self.inbox.len() <= MAX_FRAME + 4 {
                self.inbox.extend_from_slice(part);
            }
        })
    }

    fn drain_log(&mut self) {
        read_all(self.stderr.as_raw_fd(), |part| self.log.push(part));
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Sends what fits. A closed connection is an error and no signal.
fn send(connection: &UnixStream, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the bytes are valid for their length.
    let sent = unsafe {
        libc::send(
            connection.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags,
        )
    };
    match usize::try_from(sent) {
        Ok(sent) => Ok(sent),
        Err(_) => match io::Error::last_os_error() {
            error if is_nothing_yet(&error) => Ok(0),
            error => Err(error),
        },
    }
}

/// Reads what is there. `false` at the end.
fn read_all(fd: RawFd, mut take: impl FnMut(&[u8])) -> bool {
    // As much as a pipe holds. More than some turns would leave the time limits unwatched.
    let mut part = [0u8; 64 << 10];
    for _ in 0..64 {
        // SAFETY: the buffer is valid for its length.
        let got = unsafe { libc::read(fd, part.as_mut_ptr().cast(), part.len()) };
        match usize::try_from(got) {
            Ok(0) => return false,
            Ok(got) => take(part.get(..got).unwrap_or_default()),
            Err(_) => return is_nothing_yet(&io::Error::last_os_error()),
        }
    }
    true
}

fn is_nothing_yet(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
