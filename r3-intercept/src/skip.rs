//! Why a selected launch is not recorded.

use crate::copy::CopyError;
use crate::driver;

/// Why a selected launch is not recorded.
#[derive(Default)]
pub struct Skip {
    pub reason: String,
    /// The user asked for it: nothing to warn of.
    pub wanted: bool,
    /// The kernel's later launches would fare no better.
    pub for_good: bool,
}

impl From<&str> for Skip {
    fn from(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            ..Self::default()
        }
    }
}

impl From<driver::DriverError> for Skip {
    fn from(error: driver::DriverError) -> Self {
        error.to_string().as_str().into()
    }
}

impl From<CopyError> for Skip {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Driver(error) => error.into(),
            CopyError::Backlog => {
                "the archive could not be written as fast within R3_TIMEOUT".into()
            }
            // A kernel that does not end until the program does something else waits each time.
            CopyError::Timeout => Self {
                for_good: true,
                .."its stream did not get there within R3_TIMEOUT".into()
            },
        }
    }
}

impl From<r3_archive::WriteError> for Skip {
    fn from(error: r3_archive::WriteError) -> Self {
        error.to_string().as_str().into()
    }
}
