//! Which memory a launch can reach: the words that look like pointers, and where they point.

use std::collections::BTreeSet;

use r3_archive::model::AllocationId;

use crate::allocations::{Allocation, Ranges};

/// Ranges farther apart than this are looked for separately.
const CLUSTER_GAP: u64 = 4 << 30;

/// All tracked memory at one moment, for looking up every word of a snapshot.
pub struct Map {
    allocations: Vec<Allocation>,
    /// Address spans with memory in them: first address, length, index of the first allocation, count.
    clusters: Vec<(u64, u64, usize, usize)>,
}

impl Map {
    pub fn new(ranges: &Ranges) -> Self {
        Self::of(ranges.iter().cloned().collect())
    }

    /// `allocations` ascend by address and do not overlap.
    fn of(allocations: Vec<Allocation>) -> Self {
        let mut clusters: Vec<(u64, u64, usize, usize)> = Vec::new();
        for (index, allocation) in allocations.iter().enumerate() {
            match clusters.last_mut() {
                Some((start, len, _, count))
                    if allocation.address - (*start + *len) < CLUSTER_GAP =>
                {
                    *len = allocation.end() - *start;
                    *count += 1;
                }
                _ => clusters.push((allocation.address, allocation.len, index, 1)),
            }
        }
        Self {
            allocations,
            clusters,
        }
    }

    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// Spans of addresses that hold memory: first address, length, index of the first allocation, count.
    pub fn clusters(&self) -> &[(u64, u64, usize, usize)] {
        &self.clusters
    }

    /// Index of the allocation that contains `address`.
    #[inline]
    pub fn find(&self, address: u64) -> Option<usize> {
        self.clusters
            .iter()
            .find(|(start, len, _, _)| address.wrapping_sub(*start) < *len)
            .and_then(|cluster| self.find_in(cluster, address))
    }

    fn find_in(&self, cluster: &(u64, u64, usize, usize), address: u64) -> Option<usize> {
        let (_, _, first, count) = *cluster;
        let allocations = &self.allocations[first..first + count];
        let at = allocations
            .partition_point(|a| a.address <= address)
            .checked_sub(1)?;
        (address < allocations[at].end()).then_some(first + at)
    }

    /// Whether the allocation `id` is still at `address`.
    pub fn holds(&self, address: u64, id: AllocationId) -> bool {
        self.find(address)
            .is_some_and(|index| self.allocations[index].id == id)
    }

    /// Adds to `found` the allocations that words of `bytes` point into.
    pub fn scan(&self, bytes: &[u8], found: &mut BTreeSet<usize>) {
        let mut last = usize::MAX;
        for word in bytes.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            for cluster in &self.clusters {
                if word.wrapping_sub(cluster.0) >= cluster.1 {
                    continue;
                }
                if let Some(index) = self.find_in(cluster, word)
                    && index != last
                {
                    last = index;
                    found.insert(index);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use r3_archive::model::AllocationKind;

    use super::*;

    fn map(ranges: &[(u64, u64)]) -> Map {
        let allocation = |&(address, len): &(u64, u64)| Allocation {
            id: AllocationId(address),
            address,
            len,
            kind: AllocationKind::Device,
            device: 0,
            context: 0,
            host: 0,
            is_plain: true,
        };
        Map::of(ranges.iter().map(allocation).collect())
    }

    #[test]
    fn pointers_in_far_apart_areas_are_found() {
        // cuMemAllocAsync and cuMemAlloc, as seen on a driver 580.
        let map = map(&[
            (0x3_0200_0000, 0x1000),
            (0x7f12_0000_0000, 0x100),
            (0x7f12_0000_0200, 8),
        ]);
        assert_eq!(map.clusters.len(), 2);
        let mut bytes = Vec::new();
        for word in [0x3_0200_0fff_u64, 0x7f12_0000_0100, 0x7f12_0000_0207, 42] {
            bytes.extend(word.to_le_bytes());
        }
        let mut found = BTreeSet::new();
        map.scan(&bytes, &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0, 2]);
    }

    proptest! {
        /// The clusters only save time: a scan finds what a look at every range finds.
        #[test]
        fn scanning_agrees_with_a_plain_search(
            starts in prop::collection::btree_set(0u64..1 << 40, 1..20),
            words in prop::collection::vec(0u64..1 << 40, 0..50),
        ) {
            let starts: Vec<u64> = starts.into_iter().collect();
            let ranges: Vec<(u64, u64)> = starts.iter().enumerate().map(|(i, start)| {
                let room = starts.get(i + 1).map_or(1 << 30, |next| next - start);
                (*start, room.clamp(1, 1 << 32))
            }).collect();
            let map = map(&ranges);
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let mut found = BTreeSet::new();
            map.scan(&bytes, &mut found);
            let expected: BTreeSet<usize> = words.iter().filter_map(|word| {
                ranges.iter().position(|(start, len)| (*start..start + len).contains(word))
            }).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
