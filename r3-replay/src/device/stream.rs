//! Streams of bytes that anybody with the key can compute at any place: what seals copies, poisons outputs and
//! guards the space behind buffers.
//!
//! Word `i` of a stream (8 bytes, little endian) is `mix(key + (i + 1) · G) ^ mix(key ^ W)`, where `mix` and `G` are those of
//! SplitMix64. The second part keeps a known byte from telling the key by plain inversion. It is no cipher: it
//! keeps results from lying about in the clear, and makes leftovers recognisable.

/// The increment of SplitMix64: 2⁶⁴ divided by the golden ratio.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Any number: what makes the second part differ from a word of the stream.
const WHITEN: u64 = 0xd1b5_4a32_d192_ed03;

/// A place in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Which stream.
    pub key: u64,
    /// Which byte of it comes first.
    pub offset: u64,
    /// Whether all its bits are turned: no byte of it is then that of the stream as it is.
    pub inverted: bool,
}

impl Stream {
    /// A stream from its beginning.
    pub fn new(key: u64) -> Self {
        Self {
            key,
            offset: 0,
            inverted: false,
        }
    }

    /// `bytes` further on.
    pub fn after(self, bytes: u64) -> Self {
        Self {
            offset: self.offset.wrapping_add(bytes),
            ..self
        }
    }

    /// The same with all bits turned.
    pub fn inverted(self) -> Self {
        Self {
            inverted: !self.inverted,
            ..self
        }
    }

    /// What is combined with each mixed word.
    pub(crate) fn whitening(self) -> u64 {
        let whitening = mix(self.key ^ WHITEN);
        if self.inverted { !whitening } else { whitening }
    }

    /// Combines the stream with `bytes` by exclusive or: seals them, or takes a seal off.
    pub fn apply(self, bytes: &mut [u8]) {
        let whitening = self.whitening();
        let word = |index: u64| {
            mix(self
                .key
                .wrapping_add(index.wrapping_add(1).wrapping_mul(STEP)))
                ^ whitening
        };
        let mut index = self.offset / 8;
        let skip = (self.offset % 8) as usize;
        let mut rest = bytes;
        if skip > 0 {
            let first = word(index).to_le_bytes();
            let head = rest.len().min(8 - skip);
            let (now, later) = rest.split_at_mut(head);
            for (byte, with) in now.iter_mut().zip(first.iter().skip(skip)) {
                *byte ^= with;
            }
            rest = later;
            index = index.wrapping_add(1);
        }
        let (words, tail) = rest.as_chunks_mut::<8>();
        for bytes in words {
            *bytes = (u64::from_le_bytes(*bytes) ^ word(index)).to_le_bytes();
            index = index.wrapping_add(1);
        }
        for (byte, with) in tail.iter_mut().zip(word(index).to_le_bytes()) {
            *byte ^= with;
        }
    }
}

/// SplitMix64's finaliser: a permutation of 64-bit words.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The checksum of `bytes`, which begin at byte `offset` of a range, a multiple of 8. Sums of stretches add up to the
/// sum of the range. One changed byte always changes it: each word is permuted by its own permutation, and added.
pub(crate) fn checksum(key: u64, offset: u64, bytes: &[u8]) -> u64 {
    let mut index = offset / 8;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut sum = 0u64;
    let mut add = |bytes: [u8; 8]| {
        index = index.wrapping_add(1);
        let own = key.wrapping_add(index.wrapping_mul(STEP));
        sum = sum.wrapping_add(mix(u64::from_le_bytes(bytes) ^ own));
    };
    for bytes in words {
        add(*bytes);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(tail) {
            *to = *from;
        }
        add(word);
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mixing_is_that_of_splitmix64() {
        // The first numbers of SplitMix64 from seed 1234567, as its author's test vectors have them.
        let numbers: Vec<u64> = (1..=3u64)
            .map(|index| mix(1_234_567u64.wrapping_add(index.wrapping_mul(STEP))))
            .collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    proptest! {
        #[test]
        fn pieces_of_a_stream_are_the_stream(key: u64, offset in 0u64..64, cut in 0usize..64, len in 0usize..96) {
            let stream = Stream::new(key).after(offset);
            let mut whole = vec![0; len];
            stream.apply(&mut whole);
            let cut = cut.min(len);
            let mut pieces = vec![0; len];
            let (first, second) = pieces.split_at_mut(cut);
            stream.apply(first);
            stream.after(cut as u64).apply(second);
            prop_assert_eq!(&whole, &pieces);
            stream.apply(&mut whole);
            prop_assert!(whole.iter().all(|byte| *byte == 0));
            stream.inverted().apply(&mut whole);
            prop_assert!(whole.iter().zip(&pieces).all(|(a, b)| *a == !*b));
        }

        #[test]
        fn one_changed_byte_changes_a_checksum(
            key: u64, bytes in prop::collection::vec(any::<u8>(), 1..80), at: prop::sample::Index, by in 1u8..,
        ) {
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= by;
            prop_assert_ne!(checksum(key, 0, &bytes), checksum(key, 0, &changed));
        }

        #[test]
        fn checksums_of_stretches_add_up(key: u64, bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0usize..10) {
            let cut = (8 * cut).min(bytes.len() / 8 * 8);
            let parts = checksum(key, 0, &bytes[..cut])
                .wrapping_add(checksum(key, cut as u64, &bytes[cut..]));
            prop_assert_eq!(parts, checksum(key, 0, &bytes));
        }
    }
}
