//! The heap that `malloc` and `free` of device code use.
//!
//! Addresses do not depend on how blocks fall on host threads: each block has a stripe of the heap of its own, by its
//! index. Freed memory goes back to its stripe and is used again, the last freed first. The limit is on bytes that are
//! in use, over all stripes, as `CU_LIMIT_MALLOC_HEAP_SIZE` is; stripes are address space, which costs nothing.

use super::{Memory, MemoryError};
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

/// Address of the heap: no driver gives out such a one.
pub const HEAP_BASE: u64 = 0x0400_0000_0000_0000;

/// CUDA's default limit.
const DEFAULT_LIMIT: u64 = 8 << 20;
/// Alignment of what `malloc` returns.
const UNIT: u64 = 16;
/// Address space of the heap.
const SPACE: u64 = 1 << 40;
/// Most stripes.
const STRIPES: u64 = 1 << 16;

/// Why `free` failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFree(pub u64);

#[derive(Debug)]
pub(super) struct Heap {
    limit: u64,
    in_use: u64,
    /// Bytes of a stripe; 0 while nothing was allocated.
    stripe: u64,
    stripes: BTreeMap<u64, Stripe>,
    /// Size of each allocation, by address.
    live: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
struct Stripe {
    /// Bytes that were ever given out.
    used: u64,
    /// Freed ones, by size.
    free: BTreeMap<u64, Vec<u64>>,
}

impl Default for Heap {
    fn default() -> Self {
        Self {
            limit: DEFAULT_LIMIT,
            in_use: 0,
            stripe: 0,
            stripes: BTreeMap::new(),
            live: BTreeMap::new(),
        }
    }
}

impl Memory {
    fn heap(&self) -> MutexGuard<'_, Heap> {
        self.inner
            .heap
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Most bytes that device code may have allocated at once.
    pub fn heap_limit(&self) -> u64 {
        self.heap().limit
    }

    /// Sets the limit. `false` when the heap was used already: it stays as it is.
    pub fn set_heap_limit(&self, bytes: u64) -> bool {
        let mut heap = self.heap();
        if heap.stripe != 0 {
            return false;
        }
        heap.limit = bytes.min(SPACE);
        true
    }

    /// `malloc` of a thread in block `block` (its linear index). `None` is a null pointer.
    pub fn heap_malloc(&self, block: u64, size: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(UNIT)?;
        let mut heap = self.heap();
        if heap.in_use.checked_add(size)? > heap.limit {
            return None;
        }
        if heap.stripe == 0 {
            heap.stripe = self.map_heap(heap.limit).ok()?;
        }
        let count = (SPACE / heap.stripe).min(STRIPES);
        // Its own stripe has room for the whole limit, unless blocks share it or holes are in the way.
        let address = (0..count).find_map(|i| heap.take((block + i) % count, size))?;
        heap.in_use += size;
        heap.live.insert(address, size);
        Some(address)
    }

    /// `free` of a pointer that [`Self::heap_malloc`] returned; 0 is no pointer and fine.
    pub fn heap_free(&self, address: u64) -> Result<(), BadFree> {
        if address == 0 {
            return Ok(());
        }
        let mut heap = self.heap();
        let size = heap.live.remove(&address).ok_or(BadFree(address))?;
        heap.in_use -= size;
        let stripe = (address - HEAP_BASE) / heap.stripe;
        let free = &mut heap.stripes.entry(stripe).or_default().free;
        free.entry(size).or_default().push(address);
        Ok(())
    }

    /// Maps the heap and returns the size of a stripe.
    fn map_heap(&self, limit: u64) -> Result<u64, MemoryError> {
        let stripe = limit.clamp(1 << 20, SPACE).next_power_of_two();
        let mut size = (stripe * STRIPES).min(SPACE);
        loop {
            match self.map(HEAP_BASE, size) {
                // Where address space is limited, fewer stripes, and smaller ones at last.
                Err(MemoryError::Host { .. }) if size > 1 << 20 => size /= 2,
                Err(e) => return Err(e),
                Ok(()) => return Ok(stripe.min(size)),
            }
        }
    }
}

impl Heap {
    fn take(&mut self, index: u64, size: u64) -> Option<u64> {
        let base = HEAP_BASE + index * self.stripe;
        let stripe = self.stripes.entry(index).or_default();
        if let Some(address) = stripe.reuse(size, size) {
            return Some(address);
        }
        if self.stripe - stripe.used >= size {
            stripe.used += size;
            return Some(base + stripe.used - size);
        }
        stripe.reuse(size, u64::MAX)
    }
}

impl Stripe {
    /// A freed piece of `size` to `most` bytes; what is left of it stays free.
    fn reuse(&mut self, size: u64, most: u64) -> Option<u64> {
        let (&found, list) = self.free.range_mut(size..=most).next()?;
        let address = list.pop()?;
        if list.is_empty() {
            self.free.remove(&found);
        }
        if found > size {
            let rest = self.free.entry(found - size).or_default();
            rest.push(address + size);
        }
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_depend_on_the_block_only() {
        let run = |order: [u64; 3]| {
            let memory = Memory::new();
            let mut got: Vec<_> = order
                .iter()
                .map(|b| (*b, memory.heap_malloc(*b, 40), memory.heap_malloc(*b, 1)))
                .collect();
            got.sort_unstable();
            got
        };
        let a = run([0, 1, 2]);
        assert_eq!(a, run([2, 0, 1]));
        let mut all: Vec<_> = a.iter().flat_map(|g| [g.1, g.2]).collect();
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn the_limit_is_on_bytes_in_use_and_freed_ones_come_back() {
        let memory = Memory::new();
        assert!(memory.set_heap_limit(4096));
        let a = memory.heap_malloc(0, 4000).unwrap();
        assert!(!memory.set_heap_limit(8192));
        assert_eq!(memory.heap_malloc(7, 200), None);
        memory.write(a, &[1; 4000]).unwrap();
        memory.heap_free(a).unwrap();
        assert_eq!(memory.heap_free(a), Err(BadFree(a)));
        assert_eq!(memory.heap_free(0), Ok(()));
        assert_eq!(memory.heap_malloc(0, 4000), Some(a));
    }

    #[test]
    fn a_full_stripe_uses_holes_and_then_its_neighbours() {
        let memory = Memory::new();
        let limit = 1 << 20;
        assert!(memory.set_heap_limit(limit));
        let all: Vec<_> = (0..limit / 1024)
            .map(|_| memory.heap_malloc(3, 1024).unwrap())
            .collect();
        assert_eq!(memory.heap_malloc(3, 16), None);
        for address in &all[..2] {
            memory.heap_free(*address).unwrap();
        }
        let half = memory.heap_malloc(3, 512).unwrap();
        assert_eq!(half, all[1]);
        assert_eq!(memory.heap_malloc(3, 512), Some(all[1] + 512));
        assert_eq!(memory.heap_malloc(3, 1024), Some(all[0]));
    }
}
