//! Starting over with another address-space layout.
//!
//! Libraries, heap and stacks of this process lie where the kernel's layout randomisation puts
//! them. Where one of them takes an address that a launch needs, the same program started with
//! the other setting almost always leaves it free; where the setting cannot be changed (some
//! containers forbid it), or did not help, other random places may.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set in a process that was started over: how often.
pub const GUARD: &str = "_R3_REPLAY_STARTED_OVER";

/// Most times that a process is started over.
const MOST: u32 = 3;

/// How often this process was started over.
pub fn started_over() -> u32 {
    std::env::var(GUARD)
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// Whether it may be started over once more.
pub fn may_start_over() -> bool {
    started_over() < MOST
}

/// Starts this program over with another layout, keeping the process id. Returns only when that
/// fails.
pub fn start_over() -> io::Result<Infallible> {
    let count = started_over();
    // First the other setting; then random places, again and again.
    if count == 0 {
        switch_randomisation(|flags| flags ^ libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
    } else {
        switch_randomisation(|flags| flags & !(libc::ADDR_NO_RANDOMIZE as libc::c_ulong));
    }
    Err(same_program().env(GUARD, (count + 1).to_string()).exec())
}

/// This program with its arguments, for a fresh start in the same process.
pub fn same_program() -> Command {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).args(arguments);
    command
}

/// Changes how the next program image is laid out. Where that is forbidden, the layout stays
/// random, which is an attempt as well.
fn switch_randomisation(change: impl FnOnce(libc::c_ulong) -> libc::c_ulong) {
    // SAFETY: the argument asks for the current value.
    let current = unsafe { libc::personality(0xffff_ffff) };
    if current != -1 {
        // SAFETY: changes only how the next program image is laid out.
        unsafe { libc::personality(change(current as libc::c_ulong)) };
    }
}
