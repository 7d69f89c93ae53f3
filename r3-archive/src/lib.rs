//! The `.r3` file: captured device code, launches, and the memory before and after them.
//!
//! # What flows in and out
//!
//! A tracer creates an [`ArchiveWriter`] and gives it two kinds of things: memory, which is cut
//! into [chunks](chunk) and stored once by content, and [records](model), which are small and
//! name chunks by their identity. A tool opens an [`Archive`] and gets the records back as plain
//! structs, and memory on demand. [`ops`] cuts, merges and checks whole files.
//!
//! # The way of the data
//!
//! | | |
//! |---|---|
//! | [`chunk`], [`model`] | what is stored |
//! | `codec`, `compress` | records to bytes, bytes to fewer bytes, and back |
//! | [`format`](mod@format), [`index`] | the layout of a file, without reading or writing one |
//! | `write` | workers, chunk store, growing file |
//! | `read` | bytes, scan, opening, launches, memory |
//! | [`ops`] | trim, merge, fsck |
//!
//! # What holds
//!
//! - A block whose state is *committed* is whole, whenever the writer was killed.
//! - A launch that [`Archive::launches`] returns names only chunks that are in the file, each of
//!   the length that its place requires, and a kernel whose record is there.
//! - No byte of memory is handed out before its hash was checked.
//! - Nothing that a file says makes the reader panic, or allocate more than [`Limits`] or the
//!   file's own length allow.
//! - The writer never panics, never writes to standard output or error, keeps no global state,
//!   and does nothing in a child made by `fork`.
//!
//! `docs/archive-format.md` describes the bytes for other implementations.

pub mod chunk;
mod codec;
mod compress;
pub mod format;
pub mod index;
pub mod model;
pub mod ops;
mod read;
mod write;

pub use codec::Record;
pub use read::{
    Archive, DamagedBlock, DroppedLaunch, Limits, MAX_NAMED, ReadError, Salvage, SalvageReason,
};
pub use write::{ArchiveWriter, Ticket, WriteError, WriterOptions, room_for_a_thread};

/// For the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz {
    pub use crate::codec::fuzz_record as record;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
