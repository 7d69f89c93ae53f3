//! `.f64`
//!
//! NaN: PTX says that payloads are kept for `.f64` but not whose. An H200 gives, made quiet: of a sum, a difference and a
//! product the second operand's, else the first's; of `fma` the second's, else the third's, else the first's; of a quotient the
//! first's, else the second's; of `min` and `max` of two NaNs the second's. An invalid operation gives
//! `0xfff8000000000000`.

use super::soft::{Format, Value};
use super::{Compare, Property, Round, compare};

/// The NaN that an invalid operation gives.
pub const NAN: u64 = 0xfff8_0000_0000_0000;

/// Makes a signalling NaN quiet.
#[inline(always)]
pub fn quiet(x: f64) -> f64 {
    f64::from_bits(x.to_bits() | 0x0008_0000_0000_0000)
}

/// The NaN of an operation, if its result is one: that of the first operand that is, in the order in which hardware
/// looks at them.
#[inline(always)]
fn settle(result: f64, first: f64, then: f64) -> f64 {
    let nan = if then.is_nan() {
        quiet(then)
    } else {
        f64::from_bits(NAN)
    };
    let nan = if first.is_nan() { quiet(first) } else { nan };
    if result.is_nan() { nan } else { result }
}

fn decode(x: f64) -> Value {
    Format::F64.decode(x.to_bits())
}

fn encode(value: Value, round: Round) -> f64 {
    f64::from_bits(Format::F64.encode(value, round, false))
}

/// `add`
#[inline(always)]
pub fn add(a: f64, b: f64, round: Round) -> f64 {
    let result = match round {
        Round::NearestEven => a + b,
        _ => add_directed(a, b, round),
    };
    settle(result, b, a)
}

#[inline(never)]
fn add_directed(a: f64, b: f64, round: Round) -> f64 {
    encode(Value::sum(decode(a), decode(b), round), round)
}

/// `sub`
#[inline(always)]
pub fn sub(a: f64, b: f64, round: Round) -> f64 {
    let result = match round {
        Round::NearestEven => a - b,
        _ => add_directed(a, -b, round),
    };
    settle(result, b, a)
}

/// `mul`
#[inline(always)]
pub fn mul(a: f64, b: f64, round: Round) -> f64 {
    let result = match round {
        Round::NearestEven => a * b,
        _ => mul_directed(a, b, round),
    };
    settle(result, b, a)
}

#[inline(never)]
fn mul_directed(a: f64, b: f64, round: Round) -> f64 {
    encode(Value::product(decode(a), decode(b)), round)
}

/// `fma`, `mad`
#[inline(always)]
pub fn fma(a: f64, b: f64, c: f64, round: Round) -> f64 {
    let result = match round {
        Round::NearestEven => a.mul_add(b, c),
        _ => fma_directed(a, b, c, round),
    };
    let then = if c.is_nan() { c } else { a };
    settle(result, b, then)
}

#[inline(never)]
fn fma_directed(a: f64, b: f64, c: f64, round: Round) -> f64 {
    encode(
        Value::product_sum(decode(a), decode(b), decode(c), round),
        round,
    )
}

/// `div`
#[inline(always)]
pub fn div(a: f64, b: f64, round: Round) -> f64 {
    let result = match round {
        Round::NearestEven => a / b,
        _ => div_directed(a, b, round),
    };
    settle(result, a, b)
}

#[inline(never)]
fn div_directed(a: f64, b: f64, round: Round) -> f64 {
    encode(Value::quotient(decode(a), decode(b)), round)
}

/// `rcp`
#[inline(always)]
pub fn rcp(a: f64, round: Round) -> f64 {
    div(1.0, a, round)
}

/// `sqrt`
#[inline(always)]
pub fn sqrt(a: f64, round: Round) -> f64 {
    let result = match round {
        Round::NearestEven => a.sqrt(),
        _ => sqrt_directed(a, round),
    };
    settle(result, a, a)
}

#[inline(never)]
fn sqrt_directed(a: f64, round: Round) -> f64 {
    encode(decode(a).root(), round)
}

/// `neg`
#[inline(always)]
pub fn neg(a: f64) -> f64 {
    if a.is_nan() { quiet(a) } else { -a }
}

/// `abs`
#[inline(always)]
pub fn abs(a: f64) -> f64 {
    if a.is_nan() { quiet(a) } else { a.abs() }
}

/// `min`, or `max` if `greater`. -0 is less than +0.
#[inline(always)]
pub fn extremum(a: f64, b: f64, greater: bool) -> f64 {
    let first_less = a < b || (a == b && a.is_sign_negative());
    let chosen = if first_less != greater { a } else { b };
    let chosen = if b.is_nan() { a } else { chosen };
    let chosen = if a.is_nan() { b } else { chosen };
    if chosen.is_nan() { quiet(b) } else { chosen }
}

/// `.sat`: clamps to `[+0, 1]`, NaN to +0.
#[inline(always)]
pub fn saturate(x: f64) -> f64 {
    let low = if x > 0.0 { x } else { 0.0 };
    if low < 1.0 { low } else { 1.0 }
}

/// `setp`, `set`
#[inline(always)]
pub fn compare(relation: Compare, a: f64, b: f64) -> bool {
    compare!(relation, a, b)
}

/// `testp`
#[inline(always)]
pub fn test(property: Property, a: f64) -> bool {
    match property {
        Property::Finite => a.is_finite(),
        Property::Infinite => a.is_infinite(),
        Property::Number => !a.is_nan(),
        Property::NotANumber => a.is_nan(),
        Property::Normal => a == 0.0 || a.is_normal(),
        Property::Subnormal => a.is_subnormal(),
    }
}

/// `copysign`: the value of `b` with the sign of `a`.
#[inline(always)]
pub fn copysign(a: f64, b: f64) -> f64 {
    let sign = 1 << 63;
    f64::from_bits((a.to_bits() & sign) | (b.to_bits() & !sign))
}
