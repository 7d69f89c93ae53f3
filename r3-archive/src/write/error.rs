//! What can go wrong while writing.

use std::{io, path::PathBuf, sync::Arc};

/// Why something could not be written. Cheap to clone: the first error that concerns the file
/// is kept and returned by every later call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The file exists; it is never overwritten.
    #[error("{path} exists already")]
    Exists {
        /// The file.
        path: Arc<PathBuf>,
    },
    /// The file could not be created.
    #[error("cannot create {path}: {error}")]
    Create {
        /// The file.
        path: Arc<PathBuf>,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The file system, the quota or the file size limit (`ulimit -f`) is exhausted.
    #[error(
        "no space for {path}: {needed} more bytes are needed after {written}: {error}; what is written so far can be read"
    )]
    Full {
        /// The file.
        path: Arc<PathBuf>,
        /// Bytes that were to be added.
        needed: u64,
        /// Bytes in use before.
        written: u64,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The chunk would make the file larger than its budget. Records can still be written.
    #[error("{path} is at its budget of {budget} bytes")]
    Budget {
        /// The file.
        path: Arc<PathBuf>,
        /// The budget.
        budget: u64,
    },
    /// The file could not be grown, mapped or closed.
    #[error("cannot {action} {path}: {error}; what is written so far can be read")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: Arc<PathBuf>,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The file's descriptor was closed or taken by something else in this process, and the file
    /// is no longer under its name.
    #[error("{path} was moved, removed or closed by something else; nothing more is written")]
    Lost {
        /// The file.
        path: Arc<PathBuf>,
    },
    /// A chunk is longer than [`CHUNK_SIZE`](crate::chunk::CHUNK_SIZE).
    #[error("a chunk of {len} bytes is too long")]
    ChunkTooLong {
        /// Its length.
        len: usize,
    },
    /// A record could not be encoded or compressed.
    #[error("cannot encode a {record} record: {reason}")]
    Encode {
        /// Kind of the record.
        record: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// The archive is finished.
    #[error("{path} is finished already")]
    Finished {
        /// The file.
        path: Arc<PathBuf>,
    },
    /// Called in a child process: the file belongs to the parent.
    #[error("the archive belongs to process {owner}; a child made by fork cannot write to it")]
    Forked {
        /// The process that created the file.
        owner: u32,
    },
    /// A worker thread failed in a way that it should not.
    #[error("a thread that writes the archive failed: {reason}")]
    Worker {
        /// What is known.
        reason: String,
    },
}

impl WriteError {
    /// Whether the file can take nothing more. [`Budget`](Self::Budget) and faults of a single
    /// call are not final.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Exists { .. }
            | Self::Create { .. }
            | Self::Full { .. }
            | Self::File { .. }
            | Self::Lost { .. }
            | Self::Finished { .. }
            | Self::Forked { .. } => true,
            Self::Budget { .. }
            | Self::ChunkTooLong { .. }
            | Self::Encode { .. }
            | Self::Worker { .. } => false,
        }
    }
}
