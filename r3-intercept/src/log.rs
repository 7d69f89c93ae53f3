//! Messages to the user, on standard error, each one a line that starts with `r3:`.

use std::fmt::Arguments;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Severity; `R3_LOG` names the lowest one that is printed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);

pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Standard error as it was at the start: device and inode, or nothing when it was closed.
static STDERR: OnceLock<Option<(u64, u64)>> = OnceLock::new();

fn stderr_now() -> Option<(u64, u64)> {
    // SAFETY: a zeroed `stat` is one, and the pointer is ours.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(libc::STDERR_FILENO, &raw mut stat) == 0).then_some((stat.st_dev, stat.st_ino))
    }
}

/// Remembers what standard error is. Called once, at start.
pub fn remember_stderr() {
    let _ = STDERR.set(stderr_now());
}

fn print(level: Level, message: Arguments<'_>) {
    if level as u8 > LEVEL.load(Ordering::Relaxed) {
        return;
    }
    // A program can close the descriptor and open a file of its own under its number.
    let now = stderr_now();
    if now.is_none() || STDERR.get().is_some_and(|then| *then != now) {
        return;
    }
    let line = format!("r3: {message}\n");
    // One write, so that lines of several processes and threads do not mix.
    without_sigpipe(|| {
        // SAFETY: the bytes are ours.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    });
}

/// A reader of standard error that has gone is no reason to end the program.
fn without_sigpipe(work: impl FnOnce()) {
    // SAFETY: zeroed sets are valid, all pointers are ours; the mask is put back at the end.
    unsafe {
        let (mut pipe, mut old, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed());
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::sigpending(&raw mut pending);
        let was_pending = libc::sigismember(&raw const pending, libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut old);
        work();
        if !was_pending {
            // Takes back the signal that our own write may have raised on this thread.
            let at_once = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut());
    }
}

pub fn error(message: Arguments<'_>) {
    print(Level::Error, message);
}

pub fn warn(message: Arguments<'_>) {
    print(Level::Warn, message);
}

pub fn info(message: Arguments<'_>) {
    print(Level::Info, message);
}

pub fn debug(message: Arguments<'_>) {
    print(Level::Debug, message);
}
