//! Exact arithmetic on integers, rounded once to any format.
//!
//! A finite value is `significand · 2^exponent`. Where an exact result has no such form (division, square root, sums over a
//! wide range of exponents), the lowest bit of the significand is set when anything was lost below it ("jamming"). All
//! results have at least 70 significant bits before that one, and no format more than 53: rounding sees the truth.

use super::Round;

/// What the highest exponent field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Infinity and NaN, as in IEEE 754.
    Ieee,
    /// A number, but for one NaN with all bits set: `e4m3`.
    NanOnly,
    /// A number: `e2m1`, `e2m3`, `e3m2`.
    None,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the fraction field.
    pub fraction_bits: u32,
    /// The highest exponent field.
    pub special: Special,
}

impl Format {
    const fn new(exponent_bits: u32, fraction_bits: u32, special: Special) -> Self {
        Self {
            exponent_bits,
            fraction_bits,
            special,
        }
    }

    /// `.f64`
    pub const F64: Self = Self::new(11, 52, Special::Ieee);
    /// `.f32`
    pub const F32: Self = Self::new(8, 23, Special::Ieee);
    /// `.tf32`, in the upper 19 bits of 32.
    pub const TF32: Self = Self::new(8, 10, Special::Ieee);
    /// `.f16`
    pub const F16: Self = Self::new(5, 10, Special::Ieee);
    /// `.bf16`
    pub const BF16: Self = Self::new(8, 7, Special::Ieee);
    /// `.e5m2`
    pub const E5M2: Self = Self::new(5, 2, Special::Ieee);
    /// `.e4m3`
    pub const E4M3: Self = Self::new(4, 3, Special::NanOnly);
    /// `.e3m2`
    pub const E3M2: Self = Self::new(3, 2, Special::None);
    /// `.e2m3`
    pub const E2M3: Self = Self::new(2, 3, Special::None);
    /// `.e2m1`
    pub const E2M1: Self = Self::new(2, 1, Special::None);

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn magnitude_bits(self) -> u32 {
        self.exponent_bits + self.fraction_bits
    }

    const fn sign_bit(self) -> u64 {
        1 << self.magnitude_bits()
    }

    /// Bits of the largest finite number.
    pub const fn max_finite(self) -> u64 {
        let all = self.sign_bit() - 1;
        match self.special {
            Special::Ieee => self.infinity() - 1,
            Special::NanOnly => all - 1,
            Special::None => all,
        }
    }

    /// Bits of infinity, where there is one.
    pub const fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// Bits of the NaN that arithmetic gives: all ones but the sign. A format without NaN has its largest number there.
    pub const fn nan(self) -> u64 {
        self.sign_bit() - 1
    }

    /// Takes bits apart.
    pub fn decode(self, bits: u64) -> Value {
        let negative = bits & self.sign_bit() != 0;
        let magnitude = bits & (self.sign_bit() - 1);
        match self.special {
            Special::Ieee if magnitude > self.infinity() => return Value::Nan,
            Special::Ieee if magnitude == self.infinity() => return Value::Infinite { negative },
            Special::NanOnly if magnitude == self.nan() => return Value::Nan,
            _ => {}
        }
        let field = (magnitude >> self.fraction_bits) as i32;
        let fraction = u128::from(magnitude & ((1 << self.fraction_bits) - 1));
        let hidden = u128::from(field != 0) << self.fraction_bits;
        Value::Finite(Real {
            negative,
            exponent: field.max(1) - self.bias() - self.fraction_bits as i32,
            significand: fraction | hidden,
        })
    }

    /// Rounds a value to this format. What is too large becomes infinity or the largest number as the rounding says, or
    /// always the largest number when `saturate` is set or the format has nothing beyond.
    pub fn encode(self, value: Value, round: Round, saturate: bool) -> u64 {
        match value {
            Value::Nan => self.nan(),
            Value::Infinite { negative } => self.with_sign(negative, self.beyond(saturate)),
            Value::Finite(real) => {
                self.with_sign(real.negative, self.encode_magnitude(real, round, saturate))
            }
        }
    }

    fn with_sign(self, negative: bool, magnitude: u64) -> u64 {
        // The NaN of a format without infinity has no sign of its own here.
        if negative && !(self.special == Special::NanOnly && magnitude == self.nan()) {
            magnitude | self.sign_bit()
        } else {
            magnitude
        }
    }

    fn beyond(self, saturate: bool) -> u64 {
        match self.special {
            _ if saturate => self.max_finite(),
            Special::Ieee => self.infinity(),
            Special::NanOnly => self.nan(),
            Special::None => self.max_finite(),
        }
    }

    fn encode_magnitude(self, real: Real, round: Round, saturate: bool) -> u64 {
        if real.significand == 0 {
            return 0;
        }
        let top = real.exponent + 127 - real.significand.leading_zeros() as i32;
        let lowest = 1 - self.bias();
        let binade = top.max(lowest);
        let drop = binade - self.fraction_bits as i32 - real.exponent;
        let (kept, rest, half) = if drop <= 0 {
            (real.significand << -drop, 0, 1)
        } else if drop < 128 {
            let mask = (1 << drop) - 1;
            (
                real.significand >> drop,
                real.significand & mask,
                1 << (drop - 1),
            )
        } else {
            // All of it is below half of the lowest bit: 2^127 cannot be reached by less than 128 bits shifted by more.
            let rest = if drop == 128 { real.significand } else { 1 };
            (0, rest, 1 << 127)
        };
        let away = match round {
            Round::NearestEven => rest > half || (rest == half && kept & 1 == 1),
            Round::NearestAway => rest >= half && rest != 0,
            Round::Zero => false,
            Round::Down => rest != 0 && real.negative,
            Round::Up => rest != 0 && !real.negative,
        };
        if binade > (1 << self.exponent_bits) - 1 - self.bias() {
            return self.overflow(real.negative, round, saturate);
        }
        let kept = kept as u64 + u64::from(away);
        // The hidden bit of a normal number adds one to the exponent field, and so does a carry out of the fraction.
        let magnitude = (((binade - lowest) as u64) << self.fraction_bits) + kept;
        if magnitude > self.max_finite() {
            self.overflow(real.negative, round, saturate)
        } else {
            magnitude
        }
    }

    fn overflow(self, negative: bool, round: Round, saturate: bool) -> u64 {
        let stays = match round {
            Round::NearestEven | Round::NearestAway => false,
            Round::Zero => true,
            Round::Down => !negative,
            Round::Up => negative,
        };
        self.beyond(saturate || stays)
    }
}

/// A value of any format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// NaN; payloads are not kept.
    Nan,
    /// Infinity.
    Infinite {
        /// Its sign.
        negative: bool,
    },
    /// A number.
    Finite(Real),
}

/// `significand · 2^exponent` with a sign; zero has a sign too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Real {
    /// Sign.
    pub negative: bool,
    /// Exponent of the lowest bit.
    pub exponent: i32,
    /// Significand.
    pub significand: u128,
}

impl Real {
    /// Shifts the significand so that its highest bit is at `bit`, which is above where it was.
    fn raised(self, bit: u32) -> Self {
        if self.significand == 0 {
            return self;
        }
        let shift = bit.saturating_sub(127 - self.significand.leading_zeros());
        Self {
            exponent: self.exponent - shift as i32,
            significand: self.significand << shift,
            ..self
        }
    }
}

impl Value {
    /// An integer.
    pub fn from_integer(negative: bool, magnitude: u64) -> Self {
        Self::Finite(Real {
            negative,
            exponent: 0,
            significand: u128::from(magnitude),
        })
    }

    /// The opposite.
    pub fn opposite(self) -> Self {
        match self {
            Self::Nan => Self::Nan,
            Self::Infinite { negative } => Self::Infinite {
                negative: !negative,
            },
            Self::Finite(real) => Self::Finite(Real {
                negative: !real.negative,
                ..real
            }),
        }
    }

    /// `a · b`, exactly.
    pub fn product(a: Self, b: Self) -> Self {
        match (a, b) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(Real {
                negative: a.negative != b.negative,
                exponent: a.exponent + b.exponent,
                significand: a.significand * b.significand,
            }),
            (Self::Infinite { negative }, Self::Finite(real))
            | (Self::Finite(real), Self::Infinite { negative }) => {
                if real.significand == 0 {
                    Self::Nan
                } else {
                    Self::Infinite {
                        negative: negative != real.negative,
                    }
                }
            }
            (Self::Infinite { negative: a }, Self::Infinite { negative: b }) => {
                Self::Infinite { negative: a != b }
            }
        }
    }

    /// `a + b`, jammed. The rounding decides the sign of a zero that comes from cancelling.
    pub fn sum(a: Self, b: Self, round: Round) -> Self {
        match (a, b) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { negative: a }, Self::Infinite { negative: b }) if a != b => Self::Nan,
            (Self::Infinite { .. }, _) => a,
            (_, Self::Infinite { .. }) => b,
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(add_real(a, b, round)),
        }
    }

    /// `a · b + c`, jammed.
    pub fn product_sum(a: Self, b: Self, c: Self, round: Round) -> Self {
        Self::sum(Self::product(a, b), c, round)
    }

    /// `a / b`, jammed.
    pub fn quotient(a: Self, b: Self) -> Self {
        match (a, b) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { .. }, Self::Infinite { .. }) => Self::Nan,
            (Self::Infinite { negative }, Self::Finite(b)) => Self::Infinite {
                negative: negative != b.negative,
            },
            (Self::Finite(a), Self::Infinite { negative }) => Self::Finite(Real {
                negative: a.negative != negative,
                exponent: 0,
                significand: 0,
            }),
            (Self::Finite(a), Self::Finite(b)) if b.significand == 0 => {
                if a.significand == 0 {
                    Self::Nan
                } else {
                    Self::Infinite {
                        negative: a.negative != b.negative,
                    }
                }
            }
            (Self::Finite(a), Self::Finite(b)) => {
                let a = a.raised(126);
                let quotient = a.significand / b.significand;
                let inexact = a.significand % b.significand != 0;
                Self::Finite(Real {
                    negative: a.negative != b.negative,
                    exponent: a.exponent - b.exponent,
                    significand: quotient | u128::from(inexact),
                })
            }
        }
    }

    /// Square root, jammed.
    pub fn root(self) -> Self {
        match self {
            Self::Infinite { negative: false } => self,
            Self::Finite(real) if real.significand == 0 => self,
            Self::Finite(real) if !real.negative => {
                let mut real = real.raised(126);
                if real.exponent % 2 != 0 {
                    real.significand >>= 1;
                    real.exponent += 1;
                }
                let root = real.significand.isqrt();
                // 63 bits of root; three more below, so that the jammed bit stays away from what is rounded.
                let inexact = root * root != real.significand;
                Self::Finite(Real {
                    negative: false,
                    exponent: real.exponent / 2 - 3,
                    significand: (root << 3) | u128::from(inexact),
                })
            }
            _ => Self::Nan,
        }
    }
}

fn add_real(a: Real, b: Real, round: Round) -> Real {
    if a.significand == 0 && b.significand == 0 {
        return Real {
            negative: if a.negative == b.negative {
                a.negative
            } else {
                round == Round::Down
            },
            ..a
        };
    }
    if a.significand == 0 {
        return b;
    }
    if b.significand == 0 {
        return a;
    }
    let (a, b) = (a.raised(125), b.raised(125));
    let (high, low) = if a.exponent >= b.exponent {
        (a, b)
    } else {
        (b, a)
    };
    let shift = (high.exponent - low.exponent) as u32;
    // A product has at most 106 bits, so 19 zeros are below it: after a shift by one nothing is lost, and after more
    // the sum keeps its highest bit at 123 at least.
    let aligned = if shift >= 127 {
        1
    } else {
        let lost = low.significand & ((1 << shift) - 1) != 0;
        (low.significand >> shift) | u128::from(lost)
    };
    if high.negative == low.negative {
        return Real {
            significand: high.significand + aligned,
            ..high
        };
    }
    if high.significand == aligned {
        return Real {
            negative: round == Round::Down,
            exponent: 0,
            significand: 0,
        };
    }
    Real {
        negative: high.negative != (aligned > high.significand),
        exponent: high.exponent,
        significand: high.significand.abs_diff(aligned),
    }
}
