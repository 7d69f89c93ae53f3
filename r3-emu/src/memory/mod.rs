//! The device's memory: which addresses exist, and the host bytes behind them.
//!
//! A device address is not a host address: each mapping has its own host base, so that captured addresses never
//! collide with what lives in this process. (A caller that wants them equal maps host memory at its own address.)
//!
//! # Why raw pointers
//! Kernels may race, and the host may read what a kernel writes, as on a device. So nobody ever forms a reference to
//! device memory: all accesses go through raw pointers, plain ones for plain loads and stores, host atomics for atomic
//! and ordered ones. A race of the program then costs it the value that it raced for, and nothing else: no length,
//! index or pointer of this crate is ever read from device memory without being checked.

mod describe;
mod heap;
pub mod racecheck;
mod region;
pub mod textures;
mod view;
pub mod window;

pub use heap::{BadFree, HEAP_BASE};
use region::Region;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use view::Snapshot;
pub use view::{Span, View};
use window::GLOBAL_END;
pub use window::{LOCAL_BASE, PARAM_BASE, SHARED_BASE};

/// The address space of a device. Cheap to clone; clones are the same memory. Thread-safe.
///
/// [`read`](Self::read), [`write`](Self::write) and [`copy`](Self::copy) cross from one mapping to an adjacent one; a single access
/// of a kernel does not, so what was one allocation should be one mapping.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    inner: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Counts changes of the mappings.
    version: AtomicU64,
    table: RwLock<Table>,
    heap: Mutex<heap::Heap>,
    handles: RwLock<textures::Handles>,
}

#[derive(Debug, Default)]
struct Table {
    /// By first address; they do not overlap.
    mappings: BTreeMap<u64, Mapping>,
    /// The last snapshot: made when a launch asks and the mappings have changed.
    snapshot: Arc<Snapshot>,
}

#[derive(Clone, Debug)]
struct Mapping {
    span: Span,
    region: Arc<Region>,
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
    /// The host has no memory for it, or the device has no such address.
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

/// A part of one mapping, held alive.
struct Piece {
    host: *mut u8,
    len: usize,
    _region: Arc<Region>,
}

impl Memory {
    /// An empty address space.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps `len` bytes of zeros at `address`, in host memory of its own (reserved lazily). No alignment is asked for.
    pub fn map(&self, address: u64, len: u64) -> Result<(), MemoryError> {
        check_range(address, len)?;
        // First the host memory, then the lock: mmap can take a while. A collision costs a mapping that is thrown away.
        let (region, first) = Region::new(address, len).map_err(|reason| MemoryError::Host {
            address,
            len,
            reason,
        })?;
        self.insert(address, len, first, region)
    }

    /// Makes `len` bytes of the caller's at `host` visible to kernels at `address`. The two addresses must be equal
    /// modulo 16, so that what is aligned for a kernel is aligned for the host.
    ///
    /// # Safety
    /// They stay valid for reads and writes until [`Self::unmap`] and until no launch runs that began before it.
    pub unsafe fn map_host(
        &self,
        address: u64,
        len: u64,
        host: *mut u8,
    ) -> Result<(), MemoryError> {
        check_range(address, len)?;
        let refuse = |reason: &str| MemoryError::Host {
            address,
            len,
            reason: reason.to_owned(),
        };
        let first = NonNull::new(host).ok_or_else(|| refuse("the host address is null"))?;
        if (address ^ host as u64) & 15 != 0 {
            return Err(refuse("device and host address differ modulo 16"));
        }
        if (host as u64).checked_add(len).is_none() {
            return Err(refuse("the host range wraps around"));
        }
        self.insert(address, len, first, Region::borrowed(first))
    }

    fn insert(
        &self,
        address: u64,
        len: u64,
        first: NonNull<u8>,
        region: Region,
    ) -> Result<(), MemoryError> {
        let mut table = self
            .inner
            .table
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if table.overlaps(address, len) {
            return Err(MemoryError::InUse { address, len });
        }
        let span = Span {
            start: address,
            len,
            delta: (first.as_ptr() as u64).wrapping_sub(address),
        };
        let region = Arc::new(region);
        table.mappings.insert(address, Mapping { span, region });
        self.inner.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Takes away exactly one earlier mapping, or, for [`Self::map`], a part of one. Launches that began before it
    /// keep what they had.
    pub fn unmap(&self, address: u64, len: u64) -> Result<(), MemoryError> {
        let missing = MemoryError::NotMapped { address, len };
        let mut table = self
            .inner
            .table
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let old = match table.containing(address) {
            Some(m) if len > 0 && m.span.holds(address, len) => m.clone(),
            _ => return Err(missing),
        };
        let whole = old.span.start == address && old.span.len == len;
        if !whole && !old.region.owned() {
            return Err(missing);
        }
        table.mappings.remove(&old.span.start);
        let (end, old_end) = (address + len, old.span.start + old.span.len);
        for (start, end) in [(old.span.start, address), (end, old_end)] {
            if start < end {
                let span = Span {
                    start,
                    len: end - start,
                    delta: old.span.delta,
                };
                let region = old.region.clone();
                table.mappings.insert(start, Mapping { span, region });
            }
        }
        // The last snapshot would keep the region alive, and with it the host memory, although no launch needs it.
        table.snapshot = Arc::default();
        self.inner.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Reads; the range may span adjacent mappings.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let mut at = 0;
        for piece in self.pieces(address, out.len() as u64)? {
            let part = &mut out[at..at + piece.len];
            // SAFETY: the piece holds its region, so `len` bytes at `host` are mapped; `part` is the caller's.
            unsafe { std::ptr::copy(piece.host, part.as_mut_ptr(), piece.len) };
            at += piece.len;
        }
        Ok(())
    }

    /// Writes; the range may span adjacent mappings. Nothing is written when a part is not mapped.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let mut at = 0;
        for piece in self.pieces(address, bytes.len() as u64)? {
            let part = &bytes[at..at + piece.len];
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy(part.as_ptr(), piece.host, piece.len) };
            at += piece.len;
        }
        Ok(())
    }

    /// Copies `len` bytes; the ranges may overlap.
    pub fn copy(&self, from: u64, to: u64, len: u64) -> Result<(), MemoryError> {
        let source = self.pieces(from, len)?;
        let target = self.pieces(to, len)?;
        // The smallest steps in which both sides are in one piece; backwards when the target is ahead of the source.
        let mut steps = Vec::new();
        let (mut s, mut t) = (source.iter(), target.iter());
        let (mut a, mut b) = (s.next().map(part), t.next().map(part));
        while let (Some((from, n)), Some((to, m))) = (a, b) {
            let step = n.min(m);
            steps.push((from, to, step));
            a = rest(from, n, step).or_else(|| s.next().map(part));
            b = rest(to, m, step).or_else(|| t.next().map(part));
        }
        let mut run = |&(from, to, n): &(*mut u8, *mut u8, usize)| {
            // SAFETY: both sides are in pieces that hold their regions; `copy` allows overlap.
            unsafe { std::ptr::copy(from, to, n) }
        };
        if to <= from {
            steps.iter().for_each(&mut run);
        } else {
            steps.iter().rev().for_each(&mut run);
        }
        Ok(())
    }

    /// Fills `len` bytes with `byte`.
    pub fn fill(&self, address: u64, len: u64, byte: u8) -> Result<(), MemoryError> {
        for piece in self.pieces(address, len)? {
            // SAFETY: as in `read`.
            unsafe { std::ptr::write_bytes(piece.host, byte, piece.len) };
        }
        Ok(())
    }

    /// The host pointer behind `address`, when `len` bytes from there are one mapping. Valid until that is unmapped.
    pub fn host(&self, address: u64, len: u64) -> Option<*mut u8> {
        let table = self
            .inner
            .table
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let span = table.containing(address)?.span;
        span.holds(address, len).then(|| span.host(address))
    }

    /// The mapping in which `address` lies: its first address and its size.
    pub fn mapping(&self, address: u64) -> Option<(u64, u64)> {
        let table = self
            .inner
            .table
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        table
            .containing(address)
            .map(|m| (m.span.start, m.span.len))
    }

    /// The memory as a worker of a launch uses it.
    pub fn view(&self) -> View {
        View::new(self.clone())
    }

    fn version(&self) -> u64 {
        self.inner.version.load(Ordering::Acquire)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        {
            let table = self
                .inner
                .table
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            if table.snapshot.version == self.version() {
                return table.snapshot.clone();
            }
        }
        let mut table = self
            .inner
            .table
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let version = self.version();
        if table.snapshot.version != version {
            table.snapshot = Arc::new(Snapshot {
                version,
                spans: table.mappings.values().map(|m| m.span).collect(),
                _regions: table.mappings.values().map(|m| m.region.clone()).collect(),
            });
        }
        table.snapshot.clone()
    }

    /// The pieces of mappings that make up the range.
    fn pieces(&self, address: u64, len: u64) -> Result<Vec<Piece>, MemoryError> {
        let missing = MemoryError::NotMapped { address, len };
        let Some(end) = address.checked_add(len) else {
            return Err(missing);
        };
        let table = self
            .inner
            .table
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut pieces = Vec::new();
        let mut at = address;
        while at < end {
            let Some(mapping) = table.containing(at) else {
                return Err(missing);
            };
            let span = mapping.span;
            let n = (end - at).min(span.start + span.len - at);
            pieces.push(Piece {
                host: span.host(at),
                len: n as usize,
                _region: mapping.region.clone(),
            });
            at += n;
        }
        Ok(pieces)
    }
}

impl Table {
    fn containing(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.mappings.range(..=address).next_back()?;
        mapping.span.holds(address, 1).then_some(mapping)
    }

    fn overlaps(&self, address: u64, len: u64) -> bool {
        let before = self.mappings.range(..address + len).next_back();
        before.is_some_and(|(_, m)| m.span.start + m.span.len > address)
    }
}

fn part(piece: &Piece) -> (*mut u8, usize) {
    (piece.host, piece.len)
}

fn rest(host: *mut u8, len: usize, done: usize) -> Option<(*mut u8, usize)> {
    // SAFETY: `done` is at most `len`, which is mapped behind `host`.
    (done < len).then(|| (unsafe { host.add(done) }, len - done))
}

/// No empty range, none that wraps around, none in the windows of the other spaces.
fn check_range(address: u64, len: u64) -> Result<(), MemoryError> {
    let refuse = |reason: &str| {
        Err(MemoryError::Host {
            address,
            len,
            reason: reason.to_owned(),
        })
    };
    match address.checked_add(len) {
        _ if len == 0 => refuse("an empty mapping"),
        Some(end) if end <= GLOBAL_END => Ok(()),
        _ => refuse("a device has no such address"),
    }
}

#[cfg(test)]
mod tests;
