//! What registers of fragments hold.

use half::{bf16, f16};

use crate::values::Random;

/// What a register of a fragment holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    F16x2,
    Bf16x2,
    /// Single precision; as `.tf32` in a `.b32` register.
    F32,
    Tf32,
    F64,
    /// Four of e4m3 or e5m2.
    E4m3x4,
    E5m2x4,
    /// Integers of any width below 32, packed: random bits.
    Packed,
    S32,
}

impl Kind {
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            _ => "b32",
        }
    }

    pub(super) fn bytes(self) -> usize {
        if matches!(self, Self::F64) { 8 } else { 4 }
    }

    /// Values over 24 powers of two; rarely anything, infinities and NaN included.
    pub(super) fn wild(self, random: &mut Random) -> u64 {
        let bits = random.bits();
        if random.below(48) == 0 {
            return if self.bytes() == 8 {
                bits
            } else {
                bits & 0xffff_ffff
            };
        }
        let mut exponent = |bias: u64| bias - 12 + random.below(25) as u64;
        match self {
            Self::F16x2 => {
                let halves = [exponent(15) << 10, exponent(15) << 10];
                (bits & 0x83ff_83ff) | halves[0] | halves[1] << 16
            }
            Self::Bf16x2 => {
                let halves = [exponent(127) << 7, exponent(127) << 7];
                (bits & 0x807f_807f) | halves[0] | halves[1] << 16
            }
            Self::F32 | Self::Tf32 => (bits & 0x807f_ffff) | exponent(127) << 23,
            Self::F64 => (bits & 0x800f_ffff_ffff_ffff) | exponent(1023) << 52,
            _ => bits & 0xffff_ffff,
        }
    }

    pub(super) fn value(self, random: &mut Random) -> u64 {
        let mut small = || random.below(9) as i32 - 4;
        match self {
            Self::F16x2 => {
                let (a, b) = (f16::from_f32(small() as f32), f16::from_f32(small() as f32));
                u64::from(a.to_bits()) | u64::from(b.to_bits()) << 16
            }
            Self::Bf16x2 => {
                let (a, b) = (
                    bf16::from_f32(small() as f32),
                    bf16::from_f32(small() as f32),
                );
                u64::from(a.to_bits()) | u64::from(b.to_bits()) << 16
            }
            Self::F32 | Self::Tf32 => (small() as f32).to_bits().into(),
            Self::F64 => f64::from(small()).to_bits(),
            // 0, 1, 2, 0.5 and their negatives.
            Self::E4m3x4 => bytes_of(random, [0x00, 0x38, 0x40, 0x30, 0xb8, 0xc0, 0xb0, 0x80]),
            Self::E5m2x4 => bytes_of(random, [0x00, 0x3c, 0x40, 0x38, 0xbc, 0xc0, 0xb8, 0x80]),
            Self::Packed => random.bits() & 0xffff_ffff,
            Self::S32 => random.bits() % 2001,
        }
    }
}

fn bytes_of(random: &mut Random, values: [u8; 8]) -> u64 {
    (0..4).fold(0, |word, _| word << 8 | u64::from(values[random.below(8)]))
}
