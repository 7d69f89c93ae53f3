//! Between integers and floating-point numbers. (What stays within 16 bits and less is in [`half`](super::half) and
//! [`small`](super::small).)

use super::Round;
use super::single::narrow;
use super::soft::{Format, Value};

/// `.rni`, `.rzi`, `.rmi`, `.rpi`: rounds to an integral value.
#[inline(always)]
pub fn integral_single(x: f32, round: Round) -> f32 {
    match round {
        Round::NearestEven => x.round_ties_even(),
        Round::NearestAway => x.round(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

/// `.rni`, `.rzi`, `.rmi`, `.rpi`: rounds to an integral value.
#[inline(always)]
pub fn integral_double(x: f64, round: Round) -> f64 {
    match round {
        Round::NearestEven => x.round_ties_even(),
        Round::NearestAway => x.round(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

/// An integer that floating-point numbers are converted to.
pub trait Integer: Copy + 'static {
    /// Clamped to the range; NaN becomes 0.
    fn clamp_single(x: f32) -> Self;
    /// Clamped to the range; NaN becomes 0.
    fn clamp_double(x: f64) -> Self;
    /// What NaN becomes when source or result has 64 bits or the source is `.f64`: the highest bit alone.
    const NAN: Self;
    /// Whether it has 64 bits.
    const WIDE: bool;
    /// The bits, sign- or zero-extended.
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($ty:ident $unsigned:ident)*) => {$(
        impl Integer for $ty {
            #[inline(always)]
            fn clamp_single(x: f32) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn clamp_double(x: f64) -> Self {
                x as $ty
            }
            const NAN: Self = (1 as $unsigned).rotate_right(1) as $ty;
            const WIDE: bool = $ty::BITS == 64;
            #[inline(always)]
            fn bits(self) -> u64 {
                self as i64 as u64
            }
        }
    )*};
}
integers!(i8 u8 i16 u16 i32 u32 i64 u64 u8 u8 u16 u16 u32 u32 u64 u64);

/// `.f32` (or `.f16`, `.bf16`, widened) to an integer.
#[inline(always)]
pub fn single_to_integer<I: Integer>(x: f32, round: Round) -> I {
    let result = I::clamp_single(integral_single(x, round));
    if I::WIDE && x.is_nan() {
        I::NAN
    } else {
        result
    }
}

/// `.f64` to an integer.
#[inline(always)]
pub fn double_to_integer<I: Integer>(x: f64, round: Round) -> I {
    let result = I::clamp_double(integral_double(x, round));
    if x.is_nan() { I::NAN } else { result }
}

/// An integer of at most 32 bits to `.f32`.
#[inline(always)]
pub fn small_to_single(x: i64, round: Round) -> f32 {
    // Exact as a double.
    narrow(x as f64, round)
}

/// `.s64` to `.f32`
#[inline(always)]
pub fn s64_to_single(x: i64, round: Round) -> f32 {
    match round {
        Round::NearestEven => x as f32,
        _ => encode_single(x < 0, x.unsigned_abs(), round),
    }
}

/// `.u64` to `.f32`
#[inline(always)]
pub fn u64_to_single(x: u64, round: Round) -> f32 {
    match round {
        Round::NearestEven => x as f32,
        _ => encode_single(false, x, round),
    }
}

#[inline(never)]
fn encode_single(negative: bool, magnitude: u64, round: Round) -> f32 {
    let value = Value::from_integer(negative, magnitude);
    f32::from_bits(Format::F32.encode(value, round, false) as u32)
}

/// `.s64` to `.f64`
#[inline(always)]
pub fn s64_to_double(x: i64, round: Round) -> f64 {
    match round {
        Round::NearestEven => x as f64,
        _ => encode_double(x < 0, x.unsigned_abs(), round),
    }
}

/// `.u64` to `.f64`
#[inline(always)]
pub fn u64_to_double(x: u64, round: Round) -> f64 {
    match round {
        Round::NearestEven => x as f64,
        _ => encode_double(false, x, round),
    }
}

#[inline(never)]
fn encode_double(negative: bool, magnitude: u64, round: Round) -> f64 {
    let value = Value::from_integer(negative, magnitude);
    f64::from_bits(Format::F64.encode(value, round, false))
}

/// An integer clamped to a range of `bits` bits, signed or not: `cvt.sat`, `cvt.pack`.
#[inline(always)]
pub fn clamp_integer(x: i64, bits: u32, signed: bool) -> i64 {
    let (low, high) = if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    x.clamp(low, high)
}
