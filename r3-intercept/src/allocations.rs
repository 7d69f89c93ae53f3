//! Device-visible memory, by address.
//!
//! Every allocation family ends here. Look-ups by any address inside a range are what launches need;
//! nothing here calls the driver while the lock is held.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use r3_archive::model::{AllocationId, AllocationKind};

use crate::driver;

/// One range of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub id: AllocationId,
    pub address: u64,
    pub len: u64,
    pub kind: AllocationKind,
    /// Device ordinal; -1 for host memory.
    pub device: i32,
    /// Context in which it was made, as an opaque number.
    pub context: usize,
    /// For host memory, its host address, by which the program frees it.
    pub host: u64,
    /// For mapped memory: physical memory of this process, and not a multicast object or something
    /// imported, which ordinary loads may not be meant for.
    pub is_plain: bool,
}

impl Allocation {
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.len)
    }
}

/// Ranges by start address; disjoint.
#[derive(Default)]
pub struct Ranges {
    by_address: BTreeMap<u64, Allocation>,
}

impl Ranges {
    const fn new() -> Self {
        Self {
            by_address: BTreeMap::new(),
        }
    }

    /// The range that contains `address`.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.by_address.range(..=address).next_back()?;
        (address < allocation.end()).then_some(allocation)
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.by_address.values()
    }

    /// Adds a range. The driver does not hand out memory twice: what overlaps was freed in a way
    /// that was not seen.
    pub fn insert(&mut self, allocation: Allocation) {
        let (start, end) = (allocation.address, allocation.end());
        if allocation.len == 0 {
            return;
        }
        while let Some(stale) = self
            .by_address
            .range(..end)
            .next_back()
            .filter(|(_, a)| a.end() > start)
            .map(|(k, _)| *k)
        {
            self.by_address.remove(&stale);
        }
        self.by_address.insert(start, allocation);
    }

    /// Removes the range that starts at `address`.
    pub fn remove(&mut self, address: u64) -> Option<Allocation> {
        self.by_address.remove(&address)
    }

    /// Adds mapped memory. Neighbours become one range: programs grow a buffer by mapping more
    /// memory behind it, and a pointer to its start means all of it.
    pub fn map(&mut self, mut allocation: Allocation) {
        let id = allocation.id;
        self.unmap(allocation.address, allocation.len, || id);
        let mergeable = |a: &Allocation, b: &Allocation| {
            a.kind == AllocationKind::Mapped
                && a.context == b.context
                && a.device == b.device
                && a.is_plain == b.is_plain
        };
        if let Some(before) = self
            .by_address
            .range(..allocation.address)
            .next_back()
            .map(|(_, a)| a)
            && before.end() == allocation.address
            && mergeable(before, &allocation)
        {
            let before = before.clone();
            self.by_address.remove(&before.address);
            allocation.address = before.address;
            allocation.len += before.len;
        }
        if let Some(behind) = self.by_address.get(&allocation.end())
            && mergeable(behind, &allocation)
        {
            let behind = behind.clone();
            self.by_address.remove(&behind.address);
            allocation.len += behind.len;
        }
        self.insert(allocation);
    }

    /// Removes mapped memory, which can be a part of a range; `new_id` names what remains.
    pub fn unmap(&mut self, address: u64, len: u64, mut new_id: impl FnMut() -> AllocationId) {
        let end = address.saturating_add(len);
        while let Some(hit) = self
            .by_address
            .range(..end)
            .next_back()
            .filter(|(_, a)| a.end() > address && a.kind == AllocationKind::Mapped)
            .map(|(_, a)| a.clone())
        {
            self.by_address.remove(&hit.address);
            if hit.address < address {
                let len = address - hit.address;
                self.by_address.insert(
                    hit.address,
                    Allocation {
                        id: new_id(),
                        len,
                        ..hit.clone()
                    },
                );
            }
            if hit.end() > end {
                let rest = Allocation {
                    id: new_id(),
                    address: end,
                    len: hit.end() - end,
                    ..hit
                };
                self.by_address.insert(end, rest);
            }
        }
    }
}

static RANGES: RwLock<Ranges> = RwLock::new(Ranges::new());
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

fn next_id() -> AllocationId {
    AllocationId(NEXT_ID.fetch_add(1, Ordering::Relaxed))
}

/// Whether memory was ever tracked in this process.
pub fn any_seen() -> bool {
    NEXT_ID.load(Ordering::Relaxed) > 1
}

/// All ranges, for reading.
pub fn ranges() -> RwLockReadGuard<'static, Ranges> {
    RANGES.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Ranges> {
    RANGES.write().unwrap_or_else(PoisonError::into_inner)
}

/// An allocation in the current context.
fn made_here(kind: AllocationKind, address: u64, len: u64) -> Allocation {
    let device = driver::current_device().unwrap_or(0);
    let context = driver::current_context();
    Allocation {
        id: next_id(),
        address,
        len,
        kind,
        device,
        context,
        host: 0,
        is_plain: true,
    }
}

/// Device memory that the program has just allocated.
pub fn add(kind: AllocationKind, address: u64, len: u64) {
    let allocation = made_here(kind, address, len);
    write().insert(allocation);
}

/// Pinned host memory, at the address that kernels see.
pub fn add_host(kind: AllocationKind, host: u64, device_address: Option<u64>, len: u64) {
    let address = device_address.unwrap_or(host);
    let allocation = Allocation {
        device: -1,
        host,
        ..made_here(kind, address, len)
    };
    write().insert(allocation);
}

/// Adds memory that was allocated unseen; gives the range that holds from now on.
pub fn adopt(address: u64, len: u64) -> Allocation {
    let allocation = made_here(AllocationKind::Foreign, address, len);
    write().insert(allocation.clone());
    allocation
}

/// The start by which host memory is tracked, given the host pointer.
pub fn host_key(host: u64) -> u64 {
    let ranges = ranges();
    if ranges.by_address.get(&host).is_some_and(|a| a.device == -1) {
        return host;
    }
    ranges
        .iter()
        .find(|a| a.device == -1 && a.host == host)
        .map_or(host, |a| a.address)
}

/// The program is about to free what starts at `address`.
pub fn remove(address: u64) -> Option<Allocation> {
    write().remove(address)
}

/// The driver refused to free it.
pub fn restore(allocation: Option<Allocation>) {
    if let Some(allocation) = allocation {
        write().insert(allocation);
    }
}

/// Memory that was mapped for `device`, or is now readable for it.
pub fn map(address: u64, len: u64, device: i32, is_plain: bool) {
    let allocation = Allocation {
        device,
        is_plain,
        ..made_here(AllocationKind::Mapped, address, len)
    };
    write().map(allocation);
}

pub fn unmap(address: u64, len: u64) {
    write().unmap(address, len, next_id);
}

/// A context has ended, and its memory with it; mapped memory belongs to the process.
pub fn forget_context(context: usize) {
    write()
        .by_address
        .retain(|_, a| a.context != context || a.kind == AllocationKind::Mapped);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(kind: AllocationKind, address: u64, len: u64) -> Allocation {
        Allocation {
            id: next_id(),
            address,
            len,
            kind,
            device: 0,
            context: 1,
            host: 0,
            is_plain: true,
        }
    }

    #[test]
    fn a_pointer_into_the_middle_finds_its_allocation_and_one_behind_it_does_not() {
        let mut ranges = Ranges::default();
        ranges.insert(range(AllocationKind::Device, 0x1000, 0x100));
        assert!(ranges.find(0xfff).is_none());
        assert_eq!(ranges.find(0x10ff).map(|a| a.address), Some(0x1000));
        assert!(ranges.find(0x1100).is_none());
    }

    #[test]
    fn memory_handed_out_again_replaces_what_was_freed_unseen() {
        let mut ranges = Ranges::default();
        ranges.insert(range(AllocationKind::Device, 0x1000, 0x100));
        ranges.insert(range(AllocationKind::Device, 0x1200, 0x100));
        ranges.insert(range(AllocationKind::Device, 0x1080, 0x200));
        assert_eq!(
            ranges.iter().map(|a| a.address).collect::<Vec<_>>(),
            [0x1080]
        );
    }

    #[test]
    fn memory_mapped_for_a_second_device_is_still_one_range() {
        let mut ranges = Ranges::default();
        ranges.map(range(AllocationKind::Mapped, 0x2000, 0x2000));
        ranges.map(range(AllocationKind::Mapped, 0x2000, 0x1000));
        assert_eq!(
            ranges
                .iter()
                .map(|a| (a.address, a.len))
                .collect::<Vec<_>>(),
            [(0x2000, 0x2000)]
        );
    }

    #[test]
    fn neighbouring_mappings_are_one_range_and_can_be_taken_apart() {
        let mut ranges = Ranges::default();
        ranges.map(range(AllocationKind::Mapped, 0x2000, 0x1000));
        ranges.map(range(AllocationKind::Mapped, 0x4000, 0x1000));
        ranges.map(range(AllocationKind::Mapped, 0x3000, 0x1000));
        assert_eq!(
            ranges.find(0x2000).map(|a| (a.address, a.len)),
            Some((0x2000, 0x3000))
        );
        ranges.unmap(0x3000, 0x1000, next_id);
        let left: Vec<_> = ranges.iter().map(|a| (a.address, a.len)).collect();
        assert_eq!(left, [(0x2000, 0x1000), (0x4000, 0x1000)]);
    }

    proptest! {
        /// Against a byte map: after any sequence of maps and unmaps, an address is found exactly
        /// when it is mapped, and ranges never overlap.
        #[test]
        fn mapping_agrees_with_a_byte_map(ops in prop::collection::vec((any::<bool>(), 0u64..32, 1u64..8), 1..40)) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 64];
            for (map, start, len) in ops {
                let span = start as usize..(start + len) as usize;
                if map {
                    if bytes[span.clone()].iter().any(|b| *b) { continue; }
                    ranges.map(range(AllocationKind::Mapped, start, len));
                } else {
                    ranges.unmap(start, len, next_id);
                }
                bytes[span].fill(map);
            }
            for (address, mapped) in bytes.iter().enumerate() {
                prop_assert_eq!(ranges.find(address as u64).is_some(), *mapped);
            }
            let all: Vec<_> = ranges.iter().collect();
            prop_assert!(all.windows(2).all(|w| w[0].end() <= w[1].address));
        }
    }
}
