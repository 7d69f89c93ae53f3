//! Fingerprints of device memory, made on the device.
//!
//! Programs allocate far more than a launch changes: JAX reserves three quarters of the device at
//! start. Copying that to the host for each snapshot takes seconds; reading it on the device takes
//! milliseconds. So each chunk of a large region is hashed where it is, and only chunks with content
//! that the archive does not hold yet are copied. The same pass finds the words that point into
//! tracked memory.
//!
//! The fingerprint (128 bits, not cryptographic) stays inside this process: it says whether two chunks
//! are the same, the archive identifies chunks by its own hash. Where the kernel cannot be loaded or
//! run, everything is copied.

use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use r3_archive::chunk::{CHUNK_SIZE, ChunkRef};

use crate::copy::{Copier, CopyError, Range};
use crate::driver::{DeviceFunction, DeviceMemory, DriverError};
use crate::reach::Map;
use crate::staging::SLOT;

const KERNEL: &str = concat!(include_str!("fingerprint.ptx"), "\0");
const THREADS: u32 = 256;
/// Bytes that the kernel writes for each chunk.
const RESULT: usize = 16;
/// Chunks whose results fit into one slot of staging memory: 16 GiB of memory.
const BATCH: usize = SLOT / RESULT;
/// Room for some 60,000 allocations. It is not made larger later: the driver may wait for the whole
/// device to allocate memory.
const TABLES: usize = 1 << 20;
/// Smaller regions are copied: that costs less than a launch.
pub const WORTHWHILE: u64 = 512 << 10;

/// What identifies a chunk's content: two sums and the length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(u64, u64, u32);

impl Fingerprint {
    /// Of no content: no chunk has this length.
    pub const UNKNOWN: Self = Self(0, 0, u32::MAX);

    /// Of a full chunk of zeros, by far the most frequent content.
    pub fn of_zero_chunk() -> Self {
        static ZEROS: LazyLock<Fingerprint> = LazyLock::new(|| Fingerprint::of(&[0; CHUNK_SIZE]));
        *ZEROS
    }

    /// The same as the kernel's, on the host.
    pub fn of(bytes: &[u8]) -> Self {
        let (mut a, mut b) = (0u64, 0u64);
        for (index, word) in (0u64..).zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            let salt = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = mix(u64::from_le_bytes(padded).wrapping_add(salt));
            a = a.wrapping_add(mixed);
            b = b.wrapping_add(mixed.wrapping_mul(2 * index + 1));
        }
        Self(a, b, bytes.len() as u32)
    }
}

/// The finaliser of MurmurHash3: a bijection of 64 bits.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// Entries that are remembered: 1 Mi chunks are 64 GiB of different contents and some 60 MiB here.
const KNOWN_LIMIT: usize = 1 << 20;

/// Contents that the archive holds, and as what.
static KNOWN: LazyLock<RwLock<HashMap<Fingerprint, ChunkRef>>> = LazyLock::new(RwLock::default);

/// The contents that the archive holds.
pub fn known() -> RwLockReadGuard<'static, HashMap<Fingerprint, ChunkRef>> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Remembers what contents are stored as.
pub fn learn(entries: impl Iterator<Item = (Fingerprint, ChunkRef)>) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for (fingerprint, chunk) in entries {
        if known.len() < KNOWN_LIMIT {
            known.insert(fingerprint, chunk);
        }
    }
}

/// The kernel in one context, with its buffers.
pub struct Fingerprinter {
    function: DeviceFunction,
    results: DeviceMemory,
    tables: DeviceMemory,
}

/// Tracked memory, as the kernel wants it.
pub struct Tables {
    spans: u64,
    span_count: u32,
    ranges: u64,
    hits: u64,
    count: usize,
}

impl Fingerprinter {
    /// Loads the kernel into the current context.
    pub fn new() -> Result<Self, DriverError> {
        Ok(Self {
            function: DeviceFunction::load(KERNEL, c"r3_fingerprint")?,
            results: DeviceMemory::new(SLOT)?,
            tables: DeviceMemory::new(TABLES)?,
        })
    }

    /// Puts the map on the device, with no hits; `None` when it has too many allocations.
    pub fn upload(&mut self, map: &Map, copier: &Copier<'_>) -> Result<Option<Tables>, CopyError> {
        let mut words: Vec<u64> = Vec::new();
        for &(start, len, first, count) in map.clusters() {
            words.extend([start, len, first as u64, count as u64]);
        }
        let ranges_at = words.len() * 8;
        for allocation in map.allocations() {
            words.extend([allocation.address, allocation.end()]);
        }
        let hits_at = words.len() * 8;
        let count = map.allocations().len();
        words.resize(words.len() + count.div_ceil(8), 0);
        if words.len() * 8 > self.tables.len() {
            return Ok(None);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let base = self.tables.address();
        copier.through_slot(bytes.len(), |stream, slot| {
            // SAFETY: both have this many bytes, and the slot is ours until the stream is waited for.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), slot, bytes.len());
                stream.copy_to_device(base, slot, bytes.len())
            }
        })?;
        Ok(Some(Tables {
            spans: base,
            span_count: map.clusters().len() as u32,
            ranges: base + ranges_at as u64,
            hits: base + hits_at as u64,
            count,
        }))
    }

    /// Fingerprints of all chunks of `range`, which kernels of the current context may read.
    pub fn run(
        &mut self,
        range: Range,
        tables: &Tables,
        copier: &Copier<'_>,
    ) -> Result<Vec<Fingerprint>, CopyError> {
        let mut fingerprints = Vec::new();
        let mut offset = 0u64;
        while offset < range.len {
            let len = (range.len - offset).min((BATCH * CHUNK_SIZE) as u64);
            let chunks = len.div_ceil(CHUNK_SIZE as u64) as usize;
            let mut arguments = [
                range.address + offset,
                len,
                self.results.address(),
                tables.spans,
                u64::from(tables.span_count),
                tables.ranges,
                tables.hits,
            ];
            self.function
                .launch(chunks as u32, THREADS, &mut arguments, copier.stream)?;
            let results = copier.read(self.results.address(), chunks * RESULT)?;
            for (index, result) in results.as_ref().chunks_exact(RESULT).enumerate() {
                let word = |at: usize| {
                    u64::from_le_bytes(result[at..at + 8].try_into().unwrap_or_default())
                };
                let left = len - (index * CHUNK_SIZE) as u64;
                let bytes = left.min(CHUNK_SIZE as u64) as u32;
                fingerprints.push(Fingerprint(word(0), word(8), bytes));
            }
            offset += len;
        }
        Ok(fingerprints)
    }

    /// Adds to `found` the allocations into which words of the memory pointed.
    pub fn hits(
        &self,
        tables: &Tables,
        copier: &Copier<'_>,
        found: &mut BTreeSet<usize>,
    ) -> Result<(), CopyError> {
        if tables.count > 0 {
            let hits = copier.read(tables.hits, tables.count)?;
            let hits = hits.as_ref().iter().enumerate();
            found.extend(hits.filter(|(_, hit)| **hit != 0).map(|(index, _)| index));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_differ_a_little_have_other_fingerprints() {
        let zeros = Fingerprint::of(&[0; 4096]);
        let mut seen = std::collections::HashSet::from([zeros]);
        for at in 0..4096 {
            let mut bytes = [0u8; 4096];
            bytes[at] = 1;
            assert!(seen.insert(Fingerprint::of(&bytes)), "byte {at}");
        }
        // Words that change places.
        let mut bytes = [0u8; 4096];
        bytes[0] = 1;
        bytes[8] = 2;
        let there = Fingerprint::of(&bytes);
        bytes[0] = 2;
        bytes[8] = 1;
        assert_ne!(there, Fingerprint::of(&bytes));
    }

    #[test]
    fn zeros_of_another_length_are_another_content() {
        assert_ne!(Fingerprint::of(&[0; 64]), Fingerprint::of(&[0; 72]));
    }
}
