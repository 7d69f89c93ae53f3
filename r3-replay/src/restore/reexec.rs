//! Starting over with another address-space layout.
//!
//! Libraries, heap and stacks of this process lie where the kernel's layout randomisation puts
//! them. Where one of them takes an address that a launch needs, the same process image started
//! with the other setting almost always leaves it free.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set in a process that was started over; its value is the first collision.
pub const GUARD: &str = "R3_REPLAY_STARTED_OVER";

/// Whether this process was started over already.
pub fn started_over() -> bool {
    std::env::var_os(GUARD).is_some()
}

/// Starts this process over with address-space randomisation switched, keeping its process id.
/// Returns only when that fails.
pub fn start_over(reason: &str) -> io::Result<Infallible> {
    let flag = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
    // SAFETY: the argument asks for the current value.
    let current = unsafe { libc::personality(0xffff_ffff) };
    if current == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: changes only how the next program image is laid out.
    if unsafe { libc::personality(current as libc::c_ulong ^ flag) } == -1 {
        return Err(io::Error::last_os_error());
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(arguments).env(GUARD, reason);
    Err(command.exec())
}
