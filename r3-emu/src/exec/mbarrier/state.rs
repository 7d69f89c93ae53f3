//! The 64 bits of an mbarrier.
//!
//! The ISA leaves them open. Here: arrivals that the phase still waits for (20 bits), arrivals that each phase expects (20),
//! bytes of asynchronous copies that are outstanding (21, signed), a bit that says "initialised", and the parity of the
//! phase. The state that an arrival returns is the whole word of before it.

/// Most arrivals of a phase, and most bytes that are outstanding.
pub(crate) const MOST: u32 = (1 << 20) - 1;

const COUNT: u64 = MOST as u64;
const TX_AT: u32 = 40;
const TX_BITS: u32 = 21;
const VALID: u64 = 1 << 62;
const PHASE: u64 = 1 << 63;

/// An mbarrier, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Arrivals until the phase completes.
    pub pending: u32,
    /// Arrivals that the next phase expects.
    pub expected: u32,
    /// Outstanding bytes; negative when they came before they were expected.
    pub bytes: i32,
    /// Parity of the current phase.
    pub parity: bool,
}

/// Why an operation on an mbarrier is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadBarrier {
    /// Never initialised, invalidated, or overwritten.
    #[error("the 8 bytes are no initialised mbarrier ({0:#018x}): mbarrier.init comes first")]
    NotInitialised(u64),
    /// A count outside its range.
    #[error("count {0} of an mbarrier: 1 to {MOST} are allowed")]
    Count(u32),
    /// More arrivals than the phase waits for.
    #[error("{arriving} arrivals at an mbarrier whose phase waits for {pending}")]
    TooMany {
        /// New arrivals.
        arriving: u32,
        /// Those that are left.
        pending: u32,
    },
    /// Too many bytes expected or completed.
    #[error("{0} bytes outstanding at an mbarrier: at most {MOST} are allowed")]
    Bytes(i64),
    /// `.noComplete` would complete the phase.
    #[error(
        "mbarrier.arrive.noComplete with {arriving} arrivals would complete the phase, which waits for {pending}"
    )]
    WouldComplete {
        /// New arrivals.
        arriving: u32,
        /// Those that are left.
        pending: u32,
    },
}

impl State {
    /// A new one.
    pub fn new(count: u32) -> Result<Self, BadBarrier> {
        if count == 0 || count > MOST {
            return Err(BadBarrier::Count(count));
        }
        Ok(Self {
            pending: count,
            expected: count,
            bytes: 0,
            parity: false,
        })
    }

    /// From its word.
    pub fn unpack(word: u64) -> Result<Self, BadBarrier> {
        if word & VALID == 0 {
            return Err(BadBarrier::NotInitialised(word));
        }
        let tx = (word >> TX_AT) as u32 & ((1 << TX_BITS) - 1);
        Ok(Self {
            pending: (word & COUNT) as u32,
            expected: (word >> 20 & COUNT) as u32,
            bytes: (tx << (32 - TX_BITS)) as i32 >> (32 - TX_BITS),
            parity: word & PHASE != 0,
        })
    }

    /// Its word.
    pub fn pack(self) -> u64 {
        let tx = u64::from(self.bytes as u32 & ((1 << TX_BITS) - 1));
        let phase = if self.parity { PHASE } else { 0 };
        u64::from(self.pending) | u64::from(self.expected) << 20 | tx << TX_AT | VALID | phase
    }

    /// `count` arrivals; `drop` takes them away from all later phases too.
    pub fn arrive(mut self, count: u32, drop: bool) -> Result<Self, BadBarrier> {
        if count == 0 || count > MOST {
            return Err(BadBarrier::Count(count));
        }
        let pending = self.pending;
        let too_many = BadBarrier::TooMany {
            arriving: count,
            pending,
        };
        self.pending = pending.checked_sub(count).ok_or(too_many)?;
        if drop {
            self.expected = self.expected.checked_sub(count).ok_or(too_many)?;
        }
        Ok(self.settle())
    }

    /// `bytes` more are expected.
    pub fn expect(mut self, bytes: u32) -> Result<Self, BadBarrier> {
        self.bytes = within(i64::from(self.bytes) + i64::from(bytes))?;
        Ok(self)
    }

    /// `bytes` have come.
    pub fn complete(mut self, bytes: u32) -> Result<Self, BadBarrier> {
        self.bytes = within(i64::from(self.bytes) - i64::from(bytes))?;
        Ok(self.settle())
    }

    /// The next phase, if nothing is pending.
    fn settle(mut self) -> Self {
        if self.pending == 0 && self.bytes == 0 {
            self.pending = self.expected;
            self.parity = !self.parity;
        }
        self
    }
}

/// Parity of the phase in a state word; `None` when it is none.
pub(crate) fn parity_of(word: u64) -> Option<bool> {
    State::unpack(word).ok().map(|s| s.parity)
}

fn within(bytes: i64) -> Result<i32, BadBarrier> {
    if bytes.unsigned_abs() > u64::from(MOST) {
        return Err(BadBarrier::Bytes(bytes));
    }
    Ok(bytes as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_completes_with_the_last_arrival_and_the_last_byte() {
        let s = State::new(2).unwrap();
        let s = s.expect(100).unwrap().arrive(1, false).unwrap();
        let s = s.arrive(1, false).unwrap();
        assert!(!s.parity, "bytes are missing");
        let s = s.complete(60).unwrap();
        assert!(!s.parity);
        let s = s.complete(40).unwrap();
        assert!(s.parity);
        assert_eq!((s.pending, s.expected, s.bytes), (2, 2, 0));
    }

    #[test]
    fn bytes_may_come_before_they_are_expected() {
        let s = State::new(1).unwrap().complete(16).unwrap();
        assert_eq!(s.bytes, -16);
        assert_eq!(State::unpack(s.pack()), Ok(s));
        let s = s.expect(16).unwrap().arrive(1, false).unwrap();
        assert!(s.parity);
    }

    #[test]
    fn dropped_arrivals_are_missing_in_the_next_phase_too() {
        let s = State::new(3).unwrap().arrive(1, true).unwrap();
        let s = s.arrive(2, false).unwrap();
        assert!(s.parity);
        assert_eq!(s.pending, 2);
    }

    #[test]
    fn wrong_uses_are_told() {
        assert_eq!(State::new(0), Err(BadBarrier::Count(0)));
        assert_eq!(State::unpack(0), Err(BadBarrier::NotInitialised(0)));
        let s = State::new(1).unwrap();
        assert!(matches!(
            s.arrive(2, false),
            Err(BadBarrier::TooMany { .. })
        ));
        assert!(matches!(s.expect(MOST + 1), Err(BadBarrier::Bytes(_))));
    }

    #[test]
    fn words_keep_all_fields() {
        let s = State {
            pending: MOST,
            expected: 77,
            bytes: -(MOST as i32),
            parity: true,
        };
        assert_eq!(State::unpack(s.pack()), Ok(s));
    }
}
