//! Going on after a launch that broke the GPU context: the program starts over in the same process
//! and finds the reports so far in a file in memory, which stays open.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::output::complain;
use crate::restore::reexec;

/// Names the open file that holds the reports.
const VARIABLE: &str = "_R3_REPLAY_REPORTS";

/// The reports of what was done before this program started over. The file stays for the case that it does so again.
pub fn reports<T: DeserializeOwned>() -> Vec<T> {
    let read = || {
        let number: u32 = std::env::var(VARIABLE).ok()?.parse().ok()?;
        let text = std::fs::read_to_string(format!("/proc/self/fd/{number}")).ok()?;
        serde_json::from_str(&text).ok()
    };
    read().unwrap_or_default()
}

/// Starts the program over to do what is left. Returns only when that fails; what is left is
/// then reported as not run.
pub fn go_on<T: Serialize>(reports: &[T]) {
    let failed = |error: std::io::Error| {
        complain(&format!("cannot go on in a fresh process: {error}"));
    };
    let Ok(text) = serde_json::to_string(reports) else {
        return;
    };
    // SAFETY: makes a file in memory; it stays open over exec, since no flag says otherwise.
    let descriptor = unsafe { libc::memfd_create(c"r3-replay reports".as_ptr(), 0) };
    if descriptor == -1 {
        return failed(std::io::Error::last_os_error());
    }
    // SAFETY: just made, owned by nobody else.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    if let Err(error) = file.write_all(text.as_bytes()) {
        return failed(error);
    }
    let mut command = reexec::same_program();
    command
        .env(VARIABLE, file.as_raw_fd().to_string())
        .env_remove(reexec::GUARD);
    failed(command.exec());
}
