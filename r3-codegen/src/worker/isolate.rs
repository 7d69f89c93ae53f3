//! The child's side of what every worker process does: cutting itself off from what it inherited, and ending in time.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;

use crate::assemble::scratch;

/// Cuts this process off from what it inherited, and ties its life to its parent's. Returns the connection, to be read and to be
/// written. To be called before anything else: all other descriptors are closed.
pub fn cut_off() -> io::Result<(File, File)> {
    if std::io::IsTerminal::is_terminal(&std::io::stdin()) {
        return Err(io::Error::other(
            "this is a worker process: its input is what the program that started it sends",
        ));
    }
    close_others();
    let input = File::from(away(libc::STDIN_FILENO)?);
    let output = File::from(away(libc::STDOUT_FILENO)?);
    let nothing = File::open("/dev/null")?;
    // From here on a `printf` in LLVM or in an assembler's library is part of the log.
    replace(nothing.as_raw_fd(), libc::STDIN_FILENO)?;
    replace(libc::STDERR_FILENO, libc::STDOUT_FILENO)?;

    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
    // No core dumps: too little for a file, and for the system the sign to start no program with it either.
    limit(libc::RLIMIT_CORE, 1);
    Ok((input, output))
}

/// Bytes of memory that this process occupies.
pub fn resident() -> u64 {
    statm(1)
}

/// A number of `/proc/self/statm`, in bytes: 0 is the address space, 1 what is resident, 5 data.
pub fn statm(position: usize) -> u64 {
    // SAFETY: takes a number, returns one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages
        .and_then(|text| text.split_whitespace().nth(position)?.parse::<u64>().ok())
        .unwrap_or(0)
        .saturating_mul(u64::try_from(page).unwrap_or(4096))
}

/// Sets a limit of the system for this process, for good.
pub fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a structure that lives here. What fails leaves the old limit.
    unsafe {
        if libc::getrlimit(resource, &mut now) == 0 {
            let bytes = now.rlim_max.min(bytes);
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            libc::setrlimit(resource, &limit);
        }
    }
}

/// Closes all descriptors but the standard ones.
pub fn close_others() {
    // SAFETY: nothing in this process uses other descriptors yet: `serve` is called first.
    unsafe {
        if libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) == 0 {
            return;
        }
        // Linux before 5.9.
        let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|&fd| fd > 2)
            .collect();
        for fd in open {
            libc::close(fd);
        }
    }
}

/// A copy of a descriptor above the standard ones, which programs that this process starts do not get.
fn away(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers; the new descriptor is owned by nobody else.
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

/// Puts a descriptor in place of another one. Programs that this process starts get it.
pub fn replace(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes numbers. Nothing owns the standard descriptors.
    match unsafe { libc::dup2(from, to) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A descriptor that becomes readable when this process is asked to end: by the system, when its parent is gone, or by
/// somebody. The signal is blocked in all threads, which inherit this one's mask; programs that they start get none.
pub fn terminations() -> io::Result<RawFd> {
    // SAFETY: all zeros are a value of this set, which lives here.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        match libc::signalfd(-1, &set, libc::SFD_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(fd),
        }
    }
}

/// Returns when the other end of the connection is closed, or this process is asked to end.
pub fn wait_for_end([connection, signals]: [RawFd; 2]) {
    let mut watched = [(connection, 0), (signals, libc::POLLIN)].map(|(fd, events)| libc::pollfd {
        fd,
        events,
        revents: 0,
    });
    // SAFETY: the structures live here, and there are two.
    while unsafe { libc::poll(watched.as_mut_ptr(), 2, -1) } <= 0 {}
}

/// Ends this process and every program that it started.
pub fn end_group() -> ! {
    remove_folder();
    // SAFETY: takes numbers. In a group of somebody else only this process ends.
    unsafe {
        if libc::getpgrp() == libc::getpid() {
            libc::kill(0, libc::SIGKILL);
        }
    }
    exit(0)
}

/// Removes this process's folder, once: the thread that works sees the end of the connection as the one that watches it does.
/// Usually the parent removes it; one that was killed cannot.
fn remove_folder() {
    static REMOVED: Once = Once::new();
    REMOVED.call_once(scratch::remove_inherited);
}

/// Ends this process without the destructors of LLVM's and assemblers' globals, which other threads may still use.
pub fn exit(code: i32) -> ! {
    remove_folder();
    // SAFETY: takes a number.
    unsafe { libc::_exit(code) }
}
