//! Addresses that moved, and rewriting the words that hold them.

use crate::device::AddressRange;

/// Ranges that lie elsewhere than they were recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Disjoint, ascending: where it was, and where it begins now.
    moved: Vec<(AddressRange, u64)>,
}

impl Translation {
    /// From recorded ranges and their new starts. Ranges that did not move are left out, and so is
    /// each one that overlaps another.
    pub fn new(moves: impl IntoIterator<Item = (AddressRange, u64)>) -> Self {
        let mut moved: Vec<_> = moves
            .into_iter()
            .filter(|(range, to)| range.start() != *to)
            .collect();
        moved.sort_unstable();
        moved.dedup_by(|later, earlier| earlier.0.overlaps(later.0));
        Self { moved }
    }

    /// Whether nothing moved.
    pub fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// The new value of a word that points into, or just behind, a range that moved.
    pub fn apply(&self, word: u64) -> Option<u64> {
        let after = self
            .moved
            .partition_point(|(range, _)| range.start() <= word);
        let (range, to) = self.moved.get(after.checked_sub(1)?)?;
        let offset = word.checked_sub(range.start())?;
        (offset <= range.len()).then(|| to.wrapping_add(offset))
    }

    /// Rewrites the words of `bytes` that lie at addresses divisible by 8 if `bytes` begins at
    /// `address`. Returns how many.
    pub fn rewrite(&self, address: u64, bytes: &mut [u8]) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let skip = (address.wrapping_neg() % 8) as usize;
        let Some(bytes) = bytes.get_mut(skip..) else {
            return 0;
        };
        let mut count = 0;
        for word in bytes.as_chunks_mut::<8>().0 {
            if let Some(new) = self.apply(u64::from_le_bytes(*word)) {
                *word = new.to_le_bytes();
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translation() -> Translation {
        Translation::new([
            (AddressRange::new(0x1000, 0x100).unwrap(), 0x9000),
            (AddressRange::new(0x2000, 0x100).unwrap(), 0x2000),
            (AddressRange::new(0x3000, 0x10).unwrap(), 0x100),
        ])
    }

    #[test]
    fn words_into_moved_ranges_follow_them() {
        let t = translation();
        assert_eq!(t.apply(0x1000), Some(0x9000));
        assert_eq!(t.apply(0x10ff), Some(0x90ff));
        assert_eq!(t.apply(0x3008), Some(0x108));
    }

    #[test]
    fn an_end_pointer_follows_its_range() {
        assert_eq!(translation().apply(0x1100), Some(0x9100));
        assert_eq!(translation().apply(0x1101), None);
    }

    #[test]
    fn ranges_that_stay_and_words_outside_are_left_alone() {
        let t = translation();
        assert_eq!(t.apply(0x2010), None);
        assert_eq!(t.apply(0), None);
        assert_eq!(t.apply(u64::MAX), None);
    }

    #[test]
    fn only_words_at_aligned_addresses_are_rewritten() {
        let mut bytes = [0u8; 28];
        bytes[4..12].copy_from_slice(&0x1010u64.to_le_bytes());
        bytes[12..20].copy_from_slice(&0x3000u64.to_le_bytes());
        // The buffer begins at an address that is 4 modulo 8, so these two words are aligned.
        assert_eq!(translation().rewrite(0x5004, &mut bytes), 2);
        assert_eq!(bytes[4..12], 0x9010u64.to_le_bytes());
        assert_eq!(bytes[12..20], 0x100u64.to_le_bytes());
        // Now the same words are not.
        assert_eq!(translation().rewrite(0x5000, &mut bytes.map(|b| b)), 0);
    }
}
