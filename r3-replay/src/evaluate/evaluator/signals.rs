//! Being asked to end, by a terminal or another program.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// `SIGINT`, `SIGTERM` and `SIGHUP`, to be waited for instead of ending the process.
#[derive(Debug)]
pub struct Terminations(OwnedFd);

impl Terminations {
    /// From here on, these signals do not end the process. To be called before other threads are started: they inherit
    /// that; programs that are started do not.
    pub fn block() -> io::Result<Self> {
        // SAFETY: all zeros are a value of this set, which lives here; the descriptor is owned by nobody else.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// Whether one has come. Waits for it no longer than `limit`; without a limit as long as it takes.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        let millis = limit.map_or(-1, |limit| {
            libc::c_int::try_from(limit.as_millis()).unwrap_or(libc::c_int::MAX)
        });
        let mut watched = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the structure lives here, and there is one.
        if unsafe { libc::poll(&mut watched, 1, millis) } <= 0 {
            return false;
        }
        let mut told = [0u8; size_of::<libc::signalfd_siginfo>()];
        // SAFETY: the buffer is valid for its length.
        let got = unsafe { libc::read(self.0.as_raw_fd(), told.as_mut_ptr().cast(), told.len()) };
        usize::try_from(got).is_ok_and(|got| got == told.len())
    }
}
