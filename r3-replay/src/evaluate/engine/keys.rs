//! Numbers that a candidate cannot guess: keys of sealed copies and of poison, and what else is left to chance.

/// Where keys come from.
#[derive(Debug)]
pub struct Keys(Source);

#[derive(Debug)]
enum Source {
    /// The operating system, for each key anew: from one key no other follows.
    System,
    /// A sequence, for tests that must repeat.
    Sequence(u64),
}

impl Keys {
    /// From the operating system, or a sequence that a seed decides.
    pub fn new(seed: Option<u64>) -> Self {
        Self(match seed {
            Some(seed) => Source::Sequence(seed),
            None => Source::System,
        })
    }

    /// Another key; never 0.
    pub fn key(&mut self) -> u64 {
        loop {
            let key = match &mut self.0 {
                Source::System => system(),
                Source::Sequence(state) => split_mix(state),
            };
            if key != 0 {
                return key;
            }
        }
    }

    /// A number below `limit`, each as likely as the others as far as 64 bits go; 0 for a limit of 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.key().checked_rem(limit).unwrap_or(0)
    }

    /// A number from 0 up to, not including, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.key() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The next number of the sequence that is called splitmix64.
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn system() -> u64 {
    let mut bytes = [0u8; 8];
    loop {
        // SAFETY: the buffer has the length that is given.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if got == bytes.len() as isize {
            return u64::from_ne_bytes(bytes);
        }
        // Only a signal before the kernel has gathered randomness after boot stops so short a request.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_sequence() {
        // The first numbers of splitmix64 from 1234567, as its author's reference program prints them.
        let mut keys = Keys::new(Some(1_234_567));
        let first: Vec<u64> = (0..3).map(|_| keys.key()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn keys_of_the_system_differ_in_two_engines() {
        let take = || {
            let mut keys = Keys::new(None);
            [keys.key(), keys.key()]
        };
        let (one, other) = (take(), take());
        assert!(one[0] != one[1] && one != other);
    }
}
