//! The device's memory: which addresses exist, and the host bytes behind them.
//!
//! A device address is not a host address: each mapping has its own host base, so that captured addresses never
//! collide with what lives in this process. (A caller that wants them equal maps host memory at its own address.)

use std::sync::Arc;

/// The address space of a device. Cheap to clone; clones are the same memory. Thread-safe.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    inner: Arc<()>,
}

/// Why memory could not be mapped, read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The range overlaps a mapping.
    #[error("{address:#x}, {len} bytes: in use")]
    InUse {
        /// Start.
        address: u64,
        /// Bytes.
        len: u64,
    },
    /// Nothing, or not everything, is mapped there.
    #[error("{address:#x}, {len} bytes: not mapped")]
    NotMapped {
        /// Start.
        address: u64,
        /// Bytes.
        len: u64,
    },
    /// The host has no memory for it.
    #[error("{address:#x}, {len} bytes: {reason}")]
    Host {
        /// Start.
        address: u64,
        /// Bytes.
        len: u64,
        /// What the system said.
        reason: String,
    },
}

impl Memory {
    /// An empty address space.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `len` bytes of zeros at `address`, in host memory of its own (reserved lazily). No alignment is asked for.
    pub fn map(&self, address: u64, len: u64) -> Result<(), MemoryError> {
        let _ = (&self.inner, address, len);
        todo!()
    }

    /// Makes `len` bytes of the caller's at `host` visible to kernels at `address`.
    ///
    /// # Safety
    /// They stay valid for reads and writes until [`Self::unmap`] and until no launch runs that began before it.
    pub unsafe fn map_host(
        &self,
        address: u64,
        len: u64,
        host: *mut u8,
    ) -> Result<(), MemoryError> {
        let _ = (address, len, host);
        todo!()
    }

    /// Takes away exactly one earlier mapping, or, for [`Self::map`], a part of one. Launches that began before it
    /// keep what they had.
    pub fn unmap(&self, address: u64, len: u64) -> Result<(), MemoryError> {
        let _ = (address, len);
        todo!()
    }

    /// Reads; the range may span adjacent mappings.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let _ = (address, out);
        todo!()
    }

    /// Writes; the range may span adjacent mappings.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let _ = (address, bytes);
        todo!()
    }

    /// Copies `len` bytes; the ranges may overlap.
    pub fn copy(&self, from: u64, to: u64, len: u64) -> Result<(), MemoryError> {
        let _ = (from, to, len);
        todo!()
    }

    /// Fills `len` bytes with `byte`.
    pub fn fill(&self, address: u64, len: u64, byte: u8) -> Result<(), MemoryError> {
        let _ = (address, len, byte);
        todo!()
    }

    /// The host pointer behind `address`, when `len` bytes from there are one mapping.
    pub fn host(&self, address: u64, len: u64) -> Option<*mut u8> {
        let _ = (address, len);
        todo!()
    }
}
