//! The `.r3` file.
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
pub use write::{ArchiveWriter, Ticket, WriteError, WriterOptions};

/// For the fuzz targets.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz {
    pub use crate::codec::fuzz_record as record;
}
