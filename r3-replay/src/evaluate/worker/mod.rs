//! One process for each device, with a watchdog.
//!
//! ```text
//!  Worker (in a thread of the evaluator)                  serve() (in the process)
//!    order ──────────── frames over a socket pair ──────────► engine
//!    answer ◄────────────────────────────────────────────────┘   │ within(limit, what)
//!    "limit passed" · beats ◄──────────────────────────────── watchdog, which then ends the process
//! ```
//!
//! # What holds
//!
//! - A launch that hangs, or faults for good, costs this process. The other side is told in which way it ended
//!   ([`Ended`]), starts another one, and goes on.
//! - The process is a group of its own and does not outlive who started it: see [`r3_codegen::worker`], whose isolation
//!   it shares. Device code has no way to the connection: it cannot make system calls, and what it prints goes to the log.
//! - Limits are watched twice: by the watchdog inside, which knows what is running, and from outside, in case that the
//!   process as a whole stands still.
//! - Where recorded addresses are taken in the process, it starts over in place with another layout, and is given its
//!   order again.

mod engines;
mod parent;
mod protocol;
mod serve;
mod watchdog;

pub use engines::{DeviceEngine, Devices, Engines};
pub use parent::{Ended, Worker};
pub use protocol::{Answer, ArchiveRef, Made, Order, Setup, Trouble};
pub use serve::{serve, serve_with};

/// First argument of this program when it is started as a device's worker.
pub const DEVICE_WORKER: &str = "device-worker";
