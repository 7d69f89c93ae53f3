//! Video instructions: parts of registers, and SIMD within one.

/// A part of a register, or all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All 32 bits.
    #[default]
    Word,
    /// `.h0`, `.h1`
    Half(u8),
    /// `.b0` … `.b3`
    Byte(u8),
}

impl Part {
    fn bits(self) -> u32 {
        match self {
            Self::Word => 32,
            Self::Half(_) => 16,
            Self::Byte(_) => 8,
        }
    }

    fn shift(self) -> u32 {
        match self {
            Self::Word => 0,
            Self::Half(n) => 16 * u32::from(n & 1),
            Self::Byte(n) => 8 * u32::from(n & 3),
        }
    }

    /// The part as a number.
    #[inline(always)]
    pub fn extract(self, word: u32, signed: bool) -> i64 {
        extend(word >> self.shift(), self.bits(), signed)
    }

    /// `value` in this part of `word`.
    #[inline(always)]
    pub fn insert(self, word: u32, value: u32) -> u32 {
        let mask = (((1_u64 << self.bits()) - 1) as u32) << self.shift();
        (word & !mask) | ((value << self.shift()) & mask)
    }
}

/// The low `bits` of `word` as a number.
#[inline(always)]
fn extend(word: u32, bits: u32, signed: bool) -> i64 {
    let unused = 64 - bits;
    let top = u64::from(word) << unused;
    if signed {
        top as i64 >> unused
    } else {
        (top >> unused) as i64
    }
}

/// Clamps to the range of `bits` bits.
#[inline(always)]
fn clamp(value: i64, bits: u32, signed: bool) -> i64 {
    super::convert::clamp_integer(value, bits, signed)
}

/// What a video instruction computes of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `vadd`
    Add,
    /// `vsub`
    Sub,
    /// `vabsdiff`
    AbsDiff,
    /// `vmin`
    Min,
    /// `vmax`
    Max,
    /// `vavrg`: half the sum, rounded away from zero.
    Average,
    /// `vshl`
    ShiftLeft {
        /// `.clamp`: counts above 32 are 32; else (`.wrap`) modulo 32.
        clamp: bool,
    },
    /// `vshr`
    ShiftRight {
        /// As above.
        clamp: bool,
    },
    /// `vset`
    Set(Relation),
}

/// Comparison of `vset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Operation {
    #[inline(always)]
    fn apply(self, a: i64, b: i64) -> i64 {
        let count = |clamp: bool| {
            if clamp { b.clamp(0, 32) } else { b & 31 }
        };
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::AbsDiff => (a - b).abs(),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Average => (a + b + i64::from(a + b >= 0)) >> 1,
            Self::ShiftLeft { clamp } => a << count(clamp),
            Self::ShiftRight { clamp } => a >> count(clamp),
            Self::Set(relation) => i64::from(match relation {
                Relation::Eq => a == b,
                Relation::Ne => a != b,
                Relation::Lt => a < b,
                Relation::Le => a <= b,
                Relation::Gt => a > b,
                Relation::Ge => a >= b,
            }),
        }
    }
}

/// What is done with the result and the third operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Second {
    /// Nothing.
    #[default]
    None,
    /// `.add`
    Add,
    /// `.min`
    Min,
    /// `.max`
    Max,
    /// The result goes to a part of it.
    Merge(Part),
}

/// A scalar video instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// What it computes.
    pub operation: Operation,
    /// Part of the first operand, and whether it is signed.
    pub a: (Part, bool),
    /// Part of the second operand, and whether it is signed.
    pub b: (Part, bool),
    /// The result is signed.
    pub signed: bool,
    /// `.sat`
    pub sat: bool,
    /// What follows.
    pub second: Second,
}

impl Scalar {
    /// The result.
    #[inline(always)]
    pub fn run(self, a: u32, b: u32, c: u32) -> u32 {
        let (a, b) = (self.a.0.extract(a, self.a.1), self.b.0.extract(b, self.b.1));
        let value = self.operation.apply(a, b);
        // What is clamped is 34 bits, as ptxas computes it.
        let value = if self.sat { value << 30 >> 30 } else { value };
        let part = match self.second {
            Second::Merge(part) => part,
            _ => Part::Word,
        };
        let shifts = matches!(self.operation, Operation::ShiftLeft { .. });
        let value = if !self.sat {
            value
        } else if part == Part::Word && !self.signed && !shifts {
            // What ptxas makes of it clamps only from below, and an H200 wraps above.
            value.max(0)
        } else {
            clamp(value, part.bits(), self.signed)
        };
        // The second operation sees more than 32 bits of the first's result: only sums are cut and extended with sign.
        let wide = match self.operation {
            Operation::Add | Operation::Sub => i64::from(value as i32),
            _ => value,
        };
        let third = extend(c, 32, self.signed);
        // Flipped, numbers without sign are in the order of those with sign.
        let flip = if self.signed { 0 } else { i64::MIN };
        let less = wide ^ flip < third ^ flip;
        let value = value as u32;
        match self.second {
            Second::None => value,
            Second::Add => value.wrapping_add(c),
            Second::Min => {
                if less {
                    value
                } else {
                    c
                }
            }
            Second::Max => {
                if less {
                    c
                } else {
                    value
                }
            }
            Second::Merge(part) => part.insert(c, value),
        }
    }
}

/// `vmad`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiplyAdd {
    /// Part of the first factor, and whether it is signed.
    pub a: (Part, bool),
    /// Part of the second factor, and whether it is signed.
    pub b: (Part, bool),
    /// The product is negated.
    pub negate_product: bool,
    /// The addend is negated.
    pub negate_addend: bool,
    /// `.po`: one is added.
    pub plus_one: bool,
    /// `.shr7`, `.shr15`: bits shifted out of the result.
    pub shift: u32,
    /// `.sat`
    pub sat: bool,
}

impl MultiplyAdd {
    /// The result.
    #[inline(always)]
    pub fn run(self, a: u32, b: u32, c: u32) -> u32 {
        let signed = self.a.1 || self.b.1 || self.negate_product || self.negate_addend;
        // What ptxas makes of it multiplies and extends with sign whatever the types say, and so does an H200.
        let factor = |(part, signed): (Part, bool), x| part.extract(x, signed) as i32;
        let product = i128::from(factor(self.a, a)) * i128::from(factor(self.b, b));
        let product = if self.negate_product {
            -product
        } else {
            product
        };
        let addend = if self.negate_addend { !c } else { c };
        let one = i128::from(self.plus_one || self.negate_addend);
        let sum = product + i128::from(addend as i32) + one;
        let result = sum >> self.shift;
        let result = if self.sat && signed {
            result.clamp(i128::from(i32::MIN), i128::from(i32::MAX))
        } else if self.sat {
            result.clamp(0, i128::from(u32::MAX))
        } else {
            result
        };
        result as u32
    }
}

/// A SIMD video instruction on 2 halves or 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd {
    /// What it computes.
    pub operation: Operation,
    /// 2 or 4.
    pub lanes: u8,
    /// For each lane of the first operand, from the lowest: its place among the lanes of both registers.
    pub a: [u8; 4],
    /// The same of the second operand.
    pub b: [u8; 4],
    /// Whether lanes of the first operand, of the second, of the result are signed.
    pub signed: [bool; 3],
    /// `.sat`
    pub sat: bool,
    /// `.add`: the lanes are summed, on top of the third operand.
    pub add: bool,
    /// Which lanes take part, bit 0 the lowest.
    pub mask: u8,
}

impl Simd {
    /// The result.
    #[inline(always)]
    pub fn run(self, a: u32, b: u32, c: u32) -> u32 {
        let bits = 32 / u32::from(self.lanes.max(1));
        let both = u64::from(b) << 32 | u64::from(a);
        let lane =
            |place: u8, signed| extend((both >> (bits * u32::from(place))) as u32, bits, signed);
        let mut result = c;
        for i in 0..usize::from(self.lanes.min(4)) {
            if self.mask >> i & 1 == 0 {
                continue;
            }
            let value = self.operation.apply(
                lane(self.a[i], self.signed[0]),
                lane(self.b[i], self.signed[1]),
            );
            let value = if self.sat {
                clamp(value, bits, self.signed[2])
            } else {
                value
            };
            if self.add {
                result = result.wrapping_add(value as u32);
            } else {
                let shift = bits * i as u32;
                let mask = (((1_u64 << bits) - 1) as u32) << shift;
                result = (result & !mask) | ((value as u32) << shift & mask);
            }
        }
        result
    }
}
