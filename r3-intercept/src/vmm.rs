//! Which mapped addresses are plain memory of this process.
//!
//! `cuMemMap` also maps multicast objects, which ordinary loads are not meant for, and memory that
//! another process exported, which may be such an object. Only handles from `cuMemCreate` are known to
//! be plain memory.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
struct Plain {
    handles: HashSet<u64>,
    /// End by start; disjoint.
    ranges: BTreeMap<u64, u64>,
}

static PLAIN: Mutex<Option<Plain>> = Mutex::new(None);

fn with<T>(work: impl FnOnce(&mut Plain) -> T) -> T {
    let mut plain = PLAIN.lock().unwrap_or_else(PoisonError::into_inner);
    work(plain.get_or_insert_with(Plain::default))
}

/// `cuMemCreate`.
pub fn created(handle: u64) {
    with(|plain| plain.handles.insert(handle));
}

/// `cuMemRelease`: the number can be given to another object. What is mapped stays mapped.
pub fn released(handle: u64) {
    with(|plain| plain.handles.remove(&handle));
}

/// `cuMemMap`.
pub fn mapped(address: u64, len: u64, handle: u64) {
    with(|plain| {
        plain.remove(address, address.saturating_add(len));
        if plain.handles.contains(&handle) {
            plain.ranges.insert(address, address.saturating_add(len));
        }
    });
}

/// `cuMemUnmap`.
pub fn unmapped(address: u64, len: u64) {
    with(|plain| plain.remove(address, address.saturating_add(len)));
}

/// Whether all of a range is plain memory.
pub fn is_plain(address: u64, len: u64) -> bool {
    with(|plain| plain.covers(address, address.saturating_add(len)))
}

impl Plain {
    fn remove(&mut self, start: u64, end: u64) {
        while let Some((&from, &to)) = self.ranges.range(..end).next_back() {
            if to <= start {
                break;
            }
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, start);
            }
            if to > end {
                self.ranges.insert(end, to);
                // The rest begins where the search ends, so this range is not met again.
            }
            if from < start {
                break;
            }
        }
    }

    fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.ranges.range(..=at).next_back() {
                Some((_, &to)) if to > at => at = to,
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_of_several_pieces_is_plain_when_all_of_them_are() {
        let mut plain = Plain::default();
        plain.ranges.insert(0, 10);
        plain.ranges.insert(10, 20);
        plain.ranges.insert(30, 40);
        assert!(plain.covers(5, 20));
        assert!(!plain.covers(5, 31));
    }

    proptest! {
        #[test]
        fn removal_agrees_with_a_byte_map(ops in prop::collection::vec((0u64..40, 1u64..10, any::<bool>()), 1..30)) {
            let mut plain = Plain::default();
            let mut bytes = [false; 64];
            for (start, len, add) in ops {
                plain.remove(start, start + len);
                if add {
                    plain.ranges.insert(start, start + len);
                }
                bytes[start as usize..(start + len) as usize].fill(add);
            }
            for (address, is_plain) in bytes.iter().enumerate() {
                prop_assert_eq!(plain.covers(address as u64, address as u64 + 1), *is_plain);
            }
        }
    }
}
