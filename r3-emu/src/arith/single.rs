//! `.f32`

use super::{Compare, Property, Round, compare};

/// The NaN that arithmetic gives.
pub const NAN: u32 = 0x7fff_ffff;

/// Replaces any NaN by the one that arithmetic gives.
#[inline(always)]
pub fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(NAN) } else { x }
}

/// A square root with the NaN that arithmetic gives. (The compiler holds "NaN if `x < 0`, else its root" for the root
/// alone, whose NaN is another: so the choice is made on bits.)
#[inline(always)]
pub(super) fn root(x: f32) -> f32 {
    let bits = x.to_bits();
    // Above 0x8000_0000: negative, but not -0. Above infinity: NaN.
    let invalid = bits > 0x8000_0000 || bits.wrapping_sub(0x7f80_0001) < 0x007f_ffff;
    let root = x.sqrt().to_bits();
    f32::from_bits(if invalid { NAN } else { root })
}

/// Flushes a subnormal number to zero of the same sign.
#[inline(always)]
pub fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 {
        bits & 0x8000_0000
    } else {
        bits
    })
}

/// [`flush`] if `ftz`.
#[inline(always)]
pub fn flush_if(ftz: bool, x: f32) -> f32 {
    if ftz { flush(x) } else { x }
}

/// `2^-126`, the smallest normal number.
const SMALLEST: f32 = f32::MIN_POSITIVE;

/// `2^64`: brings results about [`SMALLEST`] to where rounding is not that of subnormal numbers.
const LIFT: f32 = f32::from_bits((127 + 64) << 23);

/// [`flush`] of a result. Hardware looks at the value rounded to 24 bits as if there were no smallest exponent: what rounds up to
/// [`SMALLEST`] only among the coarser subnormal numbers is flushed too. `lifted` is the result times [`LIFT`], rounded.
#[inline(always)]
fn flush_result(result: f32, lifted: f32) -> f32 {
    let below = result.abs() == SMALLEST && lifted.abs() < SMALLEST * LIFT;
    if below {
        0.0_f32.copysign(result)
    } else {
        flush(result)
    }
}

/// A double rounded to single, with `.ftz` if so.
#[inline(always)]
pub fn narrow_flushed(x: f64, round: Round, ftz: bool) -> f32 {
    let result = narrow(x, round);
    if ftz {
        flush_result(result, narrow(x * f64::from(LIFT), round))
    } else {
        result
    }
}

/// `cvt.f32.f64`: rounded; of NaN the upper bits of the payload stay.
#[inline(always)]
pub fn from_double(x: f64, round: Round, ftz: bool) -> f32 {
    let bits = x.to_bits();
    let nan = (bits >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x003f_ffff;
    if x.is_nan() {
        f32::from_bits(nan)
    } else {
        narrow_flushed(x, round, ftz)
    }
}

/// `.sat`: clamps to `[+0, 1]`, NaN to +0.
#[inline(always)]
pub fn saturate(x: f32) -> f32 {
    let low = if x > 0.0 { x } else { 0.0 };
    if low < 1.0 { low } else { 1.0 }
}

/// One step towards zero, or away from it, in bits.
#[inline(always)]
fn step(x: f32, outwards: bool) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if outwards {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    })
}

/// Rounds a double to single. `NearestAway` is right for what is not a tie in the last place of a double, i.e. for all
/// doubles.
#[inline(always)]
pub fn narrow(x: f64, round: Round) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    let negative = near.is_sign_negative();
    match round {
        Round::NearestEven => near,
        Round::NearestAway => {
            // A tie that went to the even neighbour towards zero has its other neighbour as far away.
            let other = step(near, true);
            let tie =
                back.abs() < x.abs() && f64::from(other).abs() - x.abs() == x.abs() - back.abs();
            if tie { other } else { near }
        }
        Round::Zero => {
            if back.abs() > x.abs() {
                step(near, false)
            } else {
                near
            }
        }
        Round::Down => {
            if back > x {
                step(near, negative)
            } else {
                near
            }
        }
        Round::Up => {
            if back < x {
                step(near, !negative)
            } else {
                near
            }
        }
    }
}

/// `sum + error`, which is exact and has `sum` as its nearest double, rounded to odd: of the two doubles around it the
/// one whose last bit is set. Rounding that to a format with two bits less is rounding the exact value.
#[inline(always)]
pub fn odd(sum: f64, error: f64) -> f64 {
    let bits = sum.to_bits();
    let inexact = error.abs() > 0.0;
    let outwards = (error > 0.0) == (sum > 0.0);
    let stepped = if outwards {
        bits.wrapping_add(1)
    } else {
        bits.wrapping_sub(1)
    };
    f64::from_bits(if inexact && bits & 1 == 0 {
        stepped
    } else {
        bits
    })
}

/// What `sum = a + b` lost (Knuth). NaN when the sum is not finite.
#[inline(always)]
pub fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

/// `a + b` of doubles that came from singles or products of two, rounded once.
#[inline(always)]
fn add_wide(a: f64, b: f64, round: Round, ftz: bool) -> f32 {
    let sum = a + b;
    let exact = odd(sum, sum_error(a, b, sum));
    let result = narrow_flushed(exact, round, ftz);
    let cancels = sum == 0.0 && (a.is_sign_negative() || b.is_sign_negative());
    if round == Round::Down && cancels {
        -0.0
    } else {
        result
    }
}

/// `add`
#[inline(always)]
pub fn add(a: f32, b: f32, round: Round, ftz: bool) -> f32 {
    let (a, b) = (flush_if(ftz, a), flush_if(ftz, b));
    let result = match round {
        Round::NearestEven => a + b,
        _ => add_wide(f64::from(a), f64::from(b), round, ftz),
    };
    // Where a sum is subnormal it is exact.
    flush_if(ftz, canonical(result))
}

/// `sub`
#[inline(always)]
pub fn sub(a: f32, b: f32, round: Round, ftz: bool) -> f32 {
    add(a, -b, round, ftz)
}

/// `mul`
#[inline(always)]
pub fn mul(a: f32, b: f32, round: Round, ftz: bool) -> f32 {
    let (a, b) = (flush_if(ftz, a), flush_if(ftz, b));
    let result = match round {
        Round::NearestEven if ftz => flush_result(a * b, a * LIFT * b),
        Round::NearestEven => a * b,
        _ => narrow_flushed(f64::from(a) * f64::from(b), round, ftz),
    };
    canonical(result)
}

/// `fma`, `mad`
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32, round: Round, ftz: bool) -> f32 {
    let (a, b, c) = (flush_if(ftz, a), flush_if(ftz, b), flush_if(ftz, c));
    let result = match round {
        Round::NearestEven if ftz => flush_result(a.mul_add(b, c), (a * LIFT).mul_add(b, c * LIFT)),
        Round::NearestEven => a.mul_add(b, c),
        _ => add_wide(f64::from(a) * f64::from(b), f64::from(c), round, ftz),
    };
    canonical(result)
}

/// `div.rn`, `.rz`, `.rm`, `.rp`
#[inline(always)]
pub fn div(a: f32, b: f32, round: Round, ftz: bool) -> f32 {
    let (a, b) = (flush_if(ftz, a), flush_if(ftz, b));
    let result = match round {
        Round::NearestEven if ftz => flush_result(a / b, a * LIFT / b),
        Round::NearestEven => a / b,
        _ => {
            let (wide_a, wide_b) = (f64::from(a), f64::from(b));
            let quotient = wide_a / wide_b;
            let rest = (-quotient).mul_add(wide_b, wide_a);
            let error = if b < 0.0 { -rest } else { rest };
            narrow_flushed(odd(quotient, error), round, ftz)
        }
    };
    canonical(result)
}

/// `rcp.rn`, `.rz`, `.rm`, `.rp`
#[inline(always)]
pub fn rcp(a: f32, round: Round, ftz: bool) -> f32 {
    div(1.0, a, round, ftz)
}

/// `sqrt.rn`, `.rz`, `.rm`, `.rp`
#[inline(always)]
pub fn sqrt(a: f32, round: Round, ftz: bool) -> f32 {
    let a = flush_if(ftz, a);
    let result = match round {
        Round::NearestEven => root(a),
        _ => {
            let wide = f64::from(a);
            let root = wide.sqrt();
            canonical(narrow(odd(root, (-root).mul_add(root, wide)), round))
        }
    };
    flush_if(ftz, result)
}

/// `neg`
#[inline(always)]
pub fn neg(a: f32, ftz: bool) -> f32 {
    canonical(-flush_if(ftz, a))
}

/// `abs`
#[inline(always)]
pub fn abs(a: f32, ftz: bool) -> f32 {
    canonical(flush_if(ftz, a).abs())
}

/// What `min` and `max` do besides choosing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremum {
    /// `max`, not `min`.
    pub greater: bool,
    /// `.NaN`: NaN if an operand is. Without it NaN only if all are.
    pub nan: bool,
    /// `.xorsign.abs` (or `.abs` of three operands, then without the sign).
    pub abs: bool,
    /// `.xorsign`
    pub xorsign: bool,
    /// `.ftz`
    pub ftz: bool,
}

/// `min`, `max`. -0 is less than +0.
#[inline(always)]
pub fn extremum(a: f32, b: f32, how: Extremum) -> f32 {
    let (a, b) = (flush_if(how.ftz, a), flush_if(how.ftz, b));
    let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
    let (a, b) = if how.abs { (a.abs(), b.abs()) } else { (a, b) };
    let first_less = a < b || (a == b && a.is_sign_negative());
    let first = first_less != how.greater;
    let chosen = if first { a } else { b };
    let chosen = if b.is_nan() { a } else { chosen };
    let chosen = if a.is_nan() { b } else { chosen };
    let nan = chosen.is_nan() || (how.nan && (a.is_nan() || b.is_nan()));
    let signed = if how.xorsign {
        f32::from_bits(chosen.to_bits() | sign)
    } else {
        chosen
    };
    if nan { f32::from_bits(NAN) } else { signed }
}

/// `min`
#[inline(always)]
pub fn min(a: f32, b: f32, ftz: bool) -> f32 {
    extremum(
        a,
        b,
        Extremum {
            ftz,
            ..Extremum::default()
        },
    )
}

/// `max`
#[inline(always)]
pub fn max(a: f32, b: f32, ftz: bool) -> f32 {
    extremum(
        a,
        b,
        Extremum {
            ftz,
            greater: true,
            ..Extremum::default()
        },
    )
}

/// `setp`, `set`
#[inline(always)]
pub fn compare(relation: Compare, a: f32, b: f32, ftz: bool) -> bool {
    compare!(relation, flush_if(ftz, a), flush_if(ftz, b))
}

/// `testp`
#[inline(always)]
pub fn test(property: Property, a: f32) -> bool {
    let magnitude = a.to_bits() & 0x7fff_ffff;
    match property {
        Property::Finite => magnitude < 0x7f80_0000,
        Property::Infinite => magnitude == 0x7f80_0000,
        Property::Number => magnitude <= 0x7f80_0000,
        Property::NotANumber => magnitude > 0x7f80_0000,
        Property::Normal => magnitude == 0 || (0x0080_0000..0x7f80_0000).contains(&magnitude),
        Property::Subnormal => (1..0x0080_0000).contains(&magnitude),
    }
}

/// `copysign`: the value of `b` with the sign of `a`.
#[inline(always)]
pub fn copysign(a: f32, b: f32) -> f32 {
    f32::from_bits((a.to_bits() & 0x8000_0000) | (b.to_bits() & 0x7fff_ffff))
}
