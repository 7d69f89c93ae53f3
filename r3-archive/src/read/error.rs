//! What can go wrong while reading.

use std::{io, path::PathBuf, sync::Arc};

use crate::{
    chunk::ChunkId,
    model::{LaunchId, RegionOwner},
};

/// Why something could not be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file.
        path: Arc<PathBuf>,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The file is not an archive, or nothing of one is left in it.
    #[error("{path} is not an R3 archive: {reason}")]
    NotAnArchive {
        /// The file.
        path: Arc<PathBuf>,
        /// How it was recognised.
        reason: String,
    },
    /// The file was written by a newer R3.
    #[error(
        "{path} has {what} version {found}, and this R3 ({}) reads up to {supported}; it was written by R3 {writer}: use that version or a newer one",
        env!("CARGO_PKG_VERSION")
    )]
    TooNew {
        /// The file.
        path: Arc<PathBuf>,
        /// What is too new: the format, or a kind of record.
        what: &'static str,
        /// Its version.
        found: u32,
        /// The newest version that this crate reads.
        supported: u32,
        /// Version of R3 that wrote the file.
        writer: String,
    },
    /// A part of the file is damaged.
    #[error("{path} is damaged at offset {offset}: {reason}")]
    Damaged {
        /// The file.
        path: Arc<PathBuf>,
        /// Where the block starts.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A chunk is not in the file.
    #[error("{path} has no chunk {chunk:?}")]
    NoChunk {
        /// The file.
        path: Arc<PathBuf>,
        /// The chunk.
        chunk: ChunkId,
    },
    /// A chunk does not have the length that its place requires.
    #[error("chunk {chunk:?} of {path} has {found} bytes where {wanted} belong")]
    ChunkLength {
        /// The file.
        path: Arc<PathBuf>,
        /// The chunk.
        chunk: ChunkId,
        /// Its length.
        found: u64,
        /// The length that its place requires.
        wanted: u64,
    },
    /// A list of chunks does not fit the length that it is for.
    #[error("{path}: {len} bytes need {needed} chunks, and {found} are listed")]
    ListLength {
        /// The file.
        path: Arc<PathBuf>,
        /// Length in bytes.
        len: u64,
        /// Chunks that this takes.
        needed: u64,
        /// Chunks in the list.
        found: u64,
    },
    /// Something is larger than the reader's limit.
    #[error("{path}: {what} of {needed} exceeds the limit of {limit}; see Archive::open_with")]
    Limit {
        /// The file.
        path: Arc<PathBuf>,
        /// What.
        what: &'static str,
        /// Its size.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// There is no such launch.
    #[error("{path} has no launch {launch}")]
    NoLaunch {
        /// The file.
        path: Arc<PathBuf>,
        /// The launch.
        launch: LaunchId,
    },
    /// A launch has no such region.
    #[error("launch {launch} of {path} has no region {region} ({regions} regions)")]
    NoRegion {
        /// The file.
        path: Arc<PathBuf>,
        /// The launch.
        launch: LaunchId,
        /// Index of the region.
        region: usize,
        /// Number of regions.
        regions: usize,
    },
    /// A range lies outside of its region.
    #[error("bytes {start}..{end} are outside of the {len} bytes of {owner:?}")]
    OutOfRegion {
        /// What the region belongs to.
        owner: RegionOwner,
        /// First byte.
        start: u64,
        /// End of the range.
        end: u64,
        /// Length of the region.
        len: u64,
    },
}
