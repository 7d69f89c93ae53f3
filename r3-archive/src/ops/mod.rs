//! Operations on whole archives.

mod attach;
mod copy;
mod fsck;
mod merge;
mod references;
mod report;
mod trim;

use crate::{ReadError, WriteError};

pub use attach::{NewAttachment, attach};
pub use fsck::{check, fsck};
pub use merge::merge;
pub use report::{BlockCount, Finding, MAX_FINDINGS, Report, Severity};
pub use trim::trim;

/// Why an operation failed. Its output file is removed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpError {
    /// An input cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// No launch was selected.
    #[error("no launch is selected, so there is nothing to write")]
    NothingSelected,
    /// An attachment is for nothing that the archive has.
    #[error("the archive has no kernel {0}, to which code was to be attached")]
    NoKernel(crate::model::KernelId),
    /// There is no input.
    #[error("no archive to merge")]
    NoInput,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Written {
    /// Launches.
    pub launches: u64,
    /// Kernels.
    pub kernels: u64,
    /// Modules.
    pub modules: u64,
    /// Chunks, each counted once.
    pub chunks: u64,
    /// Length of the file.
    pub bytes: u64,
}
