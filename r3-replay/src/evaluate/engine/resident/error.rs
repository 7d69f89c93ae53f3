//! What can go wrong with code on a launch that is ready.

use super::super::Lost;
use crate::device::DeviceError;
use crate::error::{Cause, ReplayError};

/// Why something could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The code cannot be loaded or launched so. The device is as it was.
    #[error("{0}")]
    Refused(String),
    /// The kernel stopped. The device stays usable.
    #[error("{0}")]
    Fault(String),
    /// It ran past the limit of a device that has one of its own. The device stays usable.
    #[error("{0}")]
    Timeout(String),
    /// This kind of device cannot do it, which says nothing about the code.
    #[error("{0}")]
    CannotRun(String),
    /// The device cannot be used any more by this process.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The machine failed, or the archive.
    #[error("{0}")]
    Machine(String),
}

/// Errors after which a context can do nothing more.
const STICKY: [i32; 11] = [214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719];

/// Errors about the code or the launch that was asked for: invalid values, images and PTX, nothing for this GPU,
/// symbols that are not there, too many resources, too large cooperative launches, cluster sizes, and what the driver does
/// not support of it.
const REFUSALS: [i32; 15] = [
    1, 98, 200, 209, 218, 220, 222, 223, 300, 301, 500, 701, 720, 801, 912,
];

impl Trouble {
    /// Of the device, in whose hands the code of a candidate or the original was.
    pub fn of_device(error: DeviceError, candidate: bool) -> Self {
        let text = error.to_string();
        match error {
            DeviceError::Fault(fault) => match fault.kind {
                r3_emu::FaultKind::InstructionLimit(_) => Self::Timeout(text),
                _ => Self::Fault(text),
            },
            DeviceError::CannotRun(_) => Self::CannotRun(text),
            DeviceError::Code(_) => Self::Refused(text),
            DeviceError::Call { code, .. } if STICKY.contains(&code) => Self::Lost(Lost {
                reason: text,
                by_candidate: candidate,
                poisoned: None,
            }),
            // Of what a launch takes itself: stacks, above all.
            DeviceError::Call { code: 2, .. } if candidate => Self::Refused(text),
            DeviceError::Call { code, .. } if REFUSALS.contains(&code) => Self::Refused(text),
            _ => Self::Machine(text),
        }
    }

    /// Of replaying.
    pub fn of_replay(error: ReplayError, candidate: bool) -> Self {
        let text = error.cause.to_string();
        match *error.cause {
            Cause::Device(error) => Self::of_device(error, candidate),
            Cause::KernelNotFound { .. }
            | Cause::NoVariable { .. }
            | Cause::VariableLength { .. }
                if candidate =>
            {
                Self::Refused(text)
            }
            cause if cause.cannot_run_here() => Self::CannotRun(text),
            _ => Self::Machine(text),
        }
    }

    /// The same, saying what was being done.
    pub fn during(self, what: &str) -> Self {
        let add = |text: String| format!("{what}: {text}");
        match self {
            Self::Refused(text) => Self::Refused(add(text)),
            Self::Fault(text) => Self::Fault(add(text)),
            Self::Timeout(text) => Self::Timeout(add(text)),
            Self::CannotRun(text) => Self::CannotRun(add(text)),
            Self::Lost(lost) => Self::Lost(Lost {
                reason: add(lost.reason),
                ..lost
            }),
            Self::Machine(text) => Self::Machine(add(text)),
        }
    }
}
