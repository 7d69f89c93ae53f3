//! Operations on whole archives.

mod copy;
mod fsck;
mod merge;
mod references;
mod report;
mod trim;

use crate::{ReadError, WriteError};

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
