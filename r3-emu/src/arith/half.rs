//! `.f16` and `.bf16`, on bits. A pair (`.f16x2`) is two of them: [`pair`].
//!
//! Sums are computed in `.f32`, whose 24 bits are enough for rounding twice to be harmless (`2·11 + 2`). Products of `.bf16`
//! may fall below the range of `.f32`, and a fused multiply-add has more digits than any host type: both are computed in
//! `.f64` and rounded to odd on the way, so that the last rounding sees what was lost.

use super::single::{self, Extremum, narrow, odd, sum_error};
use super::soft::{Format, Value};
use super::{Compare, Round, compare};

/// The NaN that arithmetic gives, in both formats.
pub const NAN: u16 = 0x7fff;

/// A format of 16 bits.
pub trait Half: Copy + 'static {
    /// Its description.
    const FORMAT: Format;
    /// The bits of the exponent.
    const EXPONENT: u16;
    /// Bits of 1.
    const ONE: u16;
    /// The value, exactly. What arithmetic computes with: any NaN is some NaN.
    fn widen(bits: u16) -> f32;
    /// Rounded to nearest even.
    fn narrow(value: f32) -> u16;
}

/// `.f16`
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// `.bf16`
#[derive(Clone, Copy, Debug)]
pub struct BF16;

impl Half for F16 {
    const FORMAT: Format = Format::F16;
    const EXPONENT: u16 = 0x7c00;
    const ONE: u16 = 0x3c00;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff);
        // The fraction in place and the exponent too small by 112; the product is exact, of subnormal numbers too.
        let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
        let special = if magnitude > 0x7c00 {
            single::NAN
        } else {
            0x7f80_0000 | sign
        };
        f32::from_bits(if magnitude >= 0x7c00 {
            special
        } else {
            scaled.to_bits() | sign
        })
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        // Below 2^-14: adding 1/2 puts the last bit of the format at the last bit of the sum.
        let small = (f32::from_bits(magnitude) + 0.5)
            .to_bits()
            .wrapping_sub(0x3f00_0000);
        let ties = (magnitude >> 13) & 1;
        let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + ties) >> 13;
        let finite = if magnitude < 113 << 23 { small } else { normal };
        let result = if magnitude >= 0x4780_0000 {
            0x7c00
        } else {
            finite
        };
        if magnitude > 0x7f80_0000 {
            NAN
        } else {
            (result | sign) as u16
        }
    }
}

impl Half for BF16 {
    const FORMAT: Format = Format::BF16;
    const EXPONENT: u16 = 0x7f80;
    const ONE: u16 = 0x3f80;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> u16 {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        if value.is_nan() { NAN } else { rounded as u16 }
    }
}

/// Flushes a subnormal number to zero of the same sign, if `ftz`.
#[inline(always)]
pub fn flush_if<H: Half>(ftz: bool, x: u16) -> u16 {
    if ftz && x & H::EXPONENT == 0 {
        x & 0x8000
    } else {
        x
    }
}

/// Whether it is NaN.
#[inline(always)]
pub fn is_nan<H: Half>(x: u16) -> bool {
    x & 0x7fff > H::EXPONENT
}

/// Rounds a double to nearest even, once.
#[inline(always)]
pub fn narrow_double<H: Half>(x: f64) -> u16 {
    H::narrow(odd_single(x))
}

/// A double rounded to an odd single: see [`odd`].
#[inline(always)]
fn odd_single(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let toward = narrow(x, Round::Zero);
    let inexact = (back - x).abs() > 0.0;
    if inexact {
        f32::from_bits(toward.to_bits() | 1)
    } else {
        near
    }
}

/// Rounds a single in any way. Overflow becomes infinity or the largest number as the rounding says, always the
/// largest number (infinity too) when `satfinite`.
#[inline(always)]
pub fn from_single<H: Half>(x: f32, round: Round, satfinite: bool) -> u16 {
    match round {
        Round::NearestEven => clamp_finite::<H>(satfinite, H::narrow(x)),
        _ => encode::<H>(Format::F32.decode(u64::from(x.to_bits())), round, satfinite),
    }
}

/// Rounds a double in any way.
#[inline(always)]
pub fn from_double<H: Half>(x: f64, round: Round, satfinite: bool) -> u16 {
    match round {
        Round::NearestEven => clamp_finite::<H>(satfinite, narrow_double::<H>(x)),
        _ => encode::<H>(Format::F64.decode(x.to_bits()), round, satfinite),
    }
}

#[inline(always)]
fn clamp_finite<H: Half>(satfinite: bool, x: u16) -> u16 {
    if satfinite && x & 0x7fff == H::EXPONENT {
        x - 1
    } else {
        x
    }
}

#[inline(never)]
fn encode<H: Half>(value: Value, round: Round, satfinite: bool) -> u16 {
    H::FORMAT.encode(value, round, satfinite) as u16
}

/// Rounds an integer in any way.
#[inline(never)]
pub fn from_integer<H: Half>(negative: bool, magnitude: u64, round: Round) -> u16 {
    encode::<H>(Value::from_integer(negative, magnitude), round, false)
}

/// Modifiers of arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// `.ftz`
    pub ftz: bool,
    /// `.sat`: clamp to `[+0, 1]`, NaN to +0.
    pub sat: bool,
    /// `.relu`: negative to +0.
    pub relu: bool,
    /// `.oob`: 0 when a factor is the NaN `0xffff`.
    pub oob: bool,
}

/// The modifiers applied to a rounded result. `exact` is the value before rounding (to odd is enough): `.ftz` looks at the value rounded as
/// if there were no smallest exponent, see [`single`].
#[inline(always)]
fn finish<H: Half>(result: u16, exact: f64, with: Modifiers) -> u16 {
    let smallest = 1_u16 << H::FORMAT.fraction_bits;
    let unit = f64::from(1_u32 << (H::FORMAT.fraction_bits + 2)).recip();
    let limit = f64::from(H::widen(smallest)) * (1.0 - unit);
    let below = with.ftz && result & 0x7fff == smallest && exact.abs() < limit;
    let result = if below { result & 0x8000 } else { result };
    let result = flush_if::<H>(with.ftz, result);
    let result = if with.relu { relu::<H>(result) } else { result };
    if with.sat {
        let low = if result & 0x8000 != 0 || is_nan::<H>(result) {
            0
        } else {
            result
        };
        low.min(H::ONE)
    } else {
        result
    }
}

/// `.relu`: negative numbers become +0, NaN stays.
#[inline(always)]
pub fn relu<H: Half>(x: u16) -> u16 {
    let positive = if x & 0x8000 != 0 { 0 } else { x };
    if is_nan::<H>(x) { NAN } else { positive }
}

/// `add`
#[inline(always)]
pub fn add<H: Half>(a: u16, b: u16, with: Modifiers) -> u16 {
    let (a, b) = (flush_if::<H>(with.ftz, a), flush_if::<H>(with.ftz, b));
    let sum = H::widen(a) + H::widen(b);
    finish::<H>(H::narrow(sum), f64::from(sum), with)
}

/// `sub`
#[inline(always)]
pub fn sub<H: Half>(a: u16, b: u16, with: Modifiers) -> u16 {
    add::<H>(a, b ^ 0x8000, with)
}

/// `mul`
#[inline(always)]
pub fn mul<H: Half>(a: u16, b: u16, with: Modifiers) -> u16 {
    let (a, b) = (flush_if::<H>(with.ftz, a), flush_if::<H>(with.ftz, b));
    let product = f64::from(H::widen(a)) * f64::from(H::widen(b));
    let result = if H::FORMAT.exponent_bits == 8 {
        narrow_double::<H>(product)
    } else {
        // Exact as a single.
        H::narrow(product as f32)
    };
    finish::<H>(result, product, with)
}

/// `fma`
#[inline(always)]
pub fn fma<H: Half>(a: u16, b: u16, c: u16, with: Modifiers) -> u16 {
    let outside = with.oob && (a == 0xffff || b == 0xffff);
    let (a, b, c) = (
        flush_if::<H>(with.ftz, a),
        flush_if::<H>(with.ftz, b),
        flush_if::<H>(with.ftz, c),
    );
    let product = f64::from(H::widen(a)) * f64::from(H::widen(b));
    let addend = f64::from(H::widen(c));
    let sum = product + addend;
    let exact = odd(sum, sum_error(product, addend, sum));
    let result = finish::<H>(narrow_double::<H>(exact), exact, with);
    if outside { 0 } else { result }
}

/// `neg`
#[inline(always)]
pub fn neg<H: Half>(a: u16, ftz: bool) -> u16 {
    if is_nan::<H>(a) {
        NAN
    } else {
        flush_if::<H>(ftz, a) ^ 0x8000
    }
}

/// `abs`
#[inline(always)]
pub fn abs<H: Half>(a: u16, ftz: bool) -> u16 {
    if is_nan::<H>(a) {
        NAN
    } else {
        flush_if::<H>(ftz, a) & 0x7fff
    }
}

/// `min`, `max`
#[inline(always)]
pub fn extremum<H: Half>(a: u16, b: u16, how: Extremum) -> u16 {
    let (a, b) = (flush_if::<H>(how.ftz, a), flush_if::<H>(how.ftz, b));
    // One of the two, so nothing is rounded. The sign is taken from the bits: widened, a NaN has lost its own.
    let plain = Extremum {
        ftz: false,
        xorsign: false,
        ..how
    };
    let chosen = H::narrow(single::extremum(H::widen(a), H::widen(b), plain));
    if how.xorsign && !is_nan::<H>(chosen) {
        chosen | ((a ^ b) & 0x8000)
    } else {
        chosen
    }
}

/// `setp`, `set`
#[inline(always)]
pub fn compare<H: Half>(relation: Compare, a: u16, b: u16, ftz: bool) -> bool {
    let (a, b) = (flush_if::<H>(ftz, a), flush_if::<H>(ftz, b));
    compare!(relation, H::widen(a), H::widen(b))
}

/// [`compare`] of `.f16`
#[inline(always)]
pub fn compare_f16(relation: Compare, a: u16, b: u16, ftz: bool) -> bool {
    compare::<F16>(relation, a, b, ftz)
}

/// [`compare`] of `.bf16`
#[inline(always)]
pub fn compare_bf16(relation: Compare, a: u16, b: u16, ftz: bool) -> bool {
    compare::<BF16>(relation, a, b, ftz)
}

/// The lower half of a pair.
#[inline(always)]
pub fn low(x: u32) -> u16 {
    x as u16
}

/// The upper half of a pair.
#[inline(always)]
pub fn high(x: u32) -> u16 {
    (x >> 16) as u16
}

/// A pair.
#[inline(always)]
pub fn pair(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}
