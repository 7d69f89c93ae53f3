//! The parent's side of one worker process: starting it, passing bytes, ending it with all that it started.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::frame::{self, MAX_FRAME};
use super::pool::WorkerCommand;
use super::tail::Tail;
use crate::assemble::scratch::Scratch;

/// How long a process whose connection closed may take until the system says how it ended.
const PATIENCE: Duration = Duration::from_millis(500);

/// A worker process, with a connection, a log and a folder of its own.
#[derive(Debug)]
pub struct Process {
    process: std::process::Child,
    connection: UnixStream,
    stderr: OwnedFd,
    /// What it said that is not a whole message yet.
    inbox: Vec<u8>,
    log: Tail,
    /// How it ended, once it was waited for.
    ended: Option<ExitStatus>,
    /// Its working directory; removed after its end.
    _scratch: Scratch,
}

impl Process {
    /// Starts a process in a group of its own, with these variables and no others, and its folder as `TMPDIR`. Its standard
    /// input and output are the connection. The calling thread has to live as long as the process, which ends with it.
    pub fn start(
        command: &WorkerCommand,
        environment: &[(&'static str, OsString)],
    ) -> io::Result<Process> {
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
        let started = Process {
            process,
            connection,
            stderr,
            inbox: Vec::new(),
            log: Tail::default(),
            ended: None,
            _scratch: scratch,
        };
        started.connection.set_nonblocking(true)?;
        set_nonblocking(started.stderr.as_raw_fd())?;
        Ok(started)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// It has not ended.
    pub fn is_alive(&mut self) -> bool {
        self.ended.is_none() && matches!(self.has_ended(), Ok(false))
    }

    /// Sends what fits of a frame, and says how much that is. A closed connection is an error and no signal.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        send(&self.connection, bytes)
    }

    /// Takes what it said. `false` when it will say no more.
    pub fn receive(&mut self) -> bool {
        read_all(self.connection.as_raw_fd(), |part| {
            // A frame may be so long, and no longer; `decode` refuses one that says it is.
            if self.inbox.len() <= MAX_FRAME + 4 {
                self.inbox.extend_from_slice(part);
            }
        })
    }

    /// The next whole message of what it said.
    pub fn message<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((message, used)) = frame::decode::<T>(&self.inbox)? else {
            return Ok(None);
        };
        self.inbox.drain(..used);
        Ok(Some(message))
    }

    /// Forgets what it said that was not asked for.
    pub fn clear_inbox(&mut self) {
        self.inbox.clear();
    }

    /// Waits until it says something or can be sent more, but no longer than `limit`.
    pub fn wait_for_events(&self, sending: bool, limit: Duration) -> io::Result<()> {
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
        let millis = libc::c_int::try_from(limit.as_millis().saturating_add(1)).unwrap_or(1 << 30);
        // SAFETY: the structures live here, and there are as many.
        if unsafe { libc::poll(events.as_mut_ptr(), 2, millis) } < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // A closed log would wake us for ever; the connection closes with it or soon after.
        if events[0].revents == 0 && events[1].revents & libc::POLLHUP != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Takes what it wrote into its log.
    pub fn drain_log(&mut self) {
        read_all(self.stderr.as_raw_fd(), |part| self.log.push(part));
    }

    /// The end of its log.
    pub fn log(&mut self) -> String {
        self.log.text()
    }

    /// Forgets its log so far.
    pub fn clear_log(&mut self) {
        self.drain_log();
        self.log.clear();
    }

    /// Ends it, if it has not ended, and everything that it started. Returns how it ended and the end of its log.
    pub fn end(&mut self, patience: bool) -> (ExitStatus, String) {
        let status = match self.ended {
            Some(status) => status,
            None => self.wait(patience),
        };
        self.ended = Some(status);
        self.drain_log();
        (status, self.log.text())
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
}

impl Drop for Process {
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
