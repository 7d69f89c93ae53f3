//! What PTX calls approximate.
//!
//! Computed in `.f64`, rounded once: within 0.51 ulp, but for `.sin` and `.cos`, whose argument is reduced in `.f32`
//! as hardware does it, because the ISA's bound is that reduction's error. No tables and no branches, so that 32 lanes vectorise.

use super::half::{Half, narrow_double};
use super::single::{canonical, flush_if, mul, root};
use super::{Round, double};

/// `1.5 · 2^52`: adding it rounds a double below `2^51` to an integer, which is then in its low bits.
const TO_INTEGER: f64 = 6_755_399_441_055_744.0;

/// `2^x` for `x` in -1000 … 1000; relative error about `2^-37`.
#[inline(always)]
fn exp2(x: f64) -> f64 {
    const C: [f64; 9] = [
        std::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        1.540_353_039_338_161e-4,
        1.525_273_380_405_984e-5,
        1.321_548_679_014_43e-6,
        1.017_808_600_923_97e-7,
    ];
    let shifted = x + TO_INTEGER;
    let whole = shifted.to_bits().wrapping_sub(TO_INTEGER.to_bits());
    let part = x - (shifted - TO_INTEGER);
    let mut sum = C[8];
    let mut i = 8;
    while i > 0 {
        i -= 1;
        sum = sum * part + C[i];
    }
    let scale = f64::from_bits(whole.wrapping_add(1023) << 52);
    (sum * part + 1.0) * scale
}

/// `log2(x)` for a positive normal double in the range of `.f32`; relative error about `2^-45`, near 1 too.
#[inline(always)]
fn log2(x: f64) -> f64 {
    /// `2 / (k · ln 2)` for odd `k`.
    const C: [f64; 10] = [
        2.885_390_081_777_926_8,
        0.961_796_693_925_975_6,
        0.577_078_016_355_585_4,
        0.412_198_583_111_132_4,
        0.320_598_897_975_325_2,
        0.262_308_189_252_538_8,
        0.221_953_083_213_686_67,
        0.192_359_338_785_195_12,
        0.169_728_828_339_878_05,
        0.151_862_635_882_048_8,
    ];
    /// Bits of the square root of one half.
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits();
    let raised = (bits.wrapping_sub(ROOT).wrapping_add(1024 << 52)) >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub(raised.wrapping_sub(1024) << 52));
    let exponent = f64::from_bits(TO_INTEGER.to_bits().wrapping_add(raised)) - TO_INTEGER - 1024.0;
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let mut sum = C[9];
    let mut i = 9;
    while i > 0 {
        i -= 1;
        sum = sum * square + C[i];
    }
    sum * ratio + exponent
}

/// `sin(2π·x)` for `|x| <= 1/4`; relative error about `2^-44`.
#[inline(always)]
fn sin_turns(x: f64) -> f64 {
    let angle = x * std::f64::consts::TAU;
    let square = angle * angle;
    const C: [f64; 8] = [
        -1.0 / 6.0,
        1.0 / 120.0,
        -1.0 / 5_040.0,
        1.0 / 362_880.0,
        -1.0 / 39_916_800.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 1_307_674_368_000.0,
        1.0 / 355_687_428_096_000.0,
    ];
    let mut sum = C[7];
    let mut i = 7;
    while i > 0 {
        i -= 1;
        sum = sum * square + C[i];
    }
    angle + angle * square * sum
}

/// `tanh(x)`; relative error about `2^-36`.
#[inline(always)]
fn tanh(x: f64) -> f64 {
    let magnitude = if x.abs() > 32.0 { 32.0 } else { x.abs() };
    let power = exp2(magnitude * (-2.0 * std::f64::consts::LOG2_E));
    let large = (1.0 - power) / (1.0 + power);
    // Where the difference would cancel, three terms of the series are enough.
    let square = magnitude * magnitude;
    let small = magnitude * (1.0 - square * (1.0 / 3.0 - square * (2.0 / 15.0)));
    let result = if magnitude < 0.01 { small } else { large };
    result.copysign(x)
}

/// `rcp.approx`
#[inline(always)]
pub fn rcp(a: f32, ftz: bool) -> f32 {
    flush_if(ftz, canonical(1.0 / flush_if(ftz, a)))
}

/// `sqrt.approx`
#[inline(always)]
pub fn sqrt(a: f32, ftz: bool) -> f32 {
    root(flush_if(ftz, a))
}

/// `rsqrt.approx`
#[inline(always)]
pub fn rsqrt(a: f32, ftz: bool) -> f32 {
    canonical((1.0 / f64::from(flush_if(ftz, a)).sqrt()) as f32)
}

/// `ex2.approx`
#[inline(always)]
pub fn ex2(a: f32, ftz: bool) -> f32 {
    flush_if(ftz, canonical(exp2_single(flush_if(ftz, a)) as f32))
}

/// `2^a` of a single: 0 and infinity beyond its range, its NaN.
#[inline(always)]
fn exp2_single(a: f32) -> f64 {
    let wide = f64::from(a);
    let low = if wide > -200.0 { wide } else { -200.0 };
    let inside = if low < 200.0 { low } else { 200.0 };
    let result = exp2(inside);
    if a.is_nan() { wide } else { result }
}

/// `lg2.approx`
#[inline(always)]
pub fn lg2(a: f32, ftz: bool) -> f32 {
    let a = flush_if(ftz, a);
    let result = log2(f64::from(a)) as f32;
    let result = if a == 0.0 { f32::NEG_INFINITY } else { result };
    let result = if a == f32::INFINITY { a } else { result };
    if a >= 0.0 {
        result
    } else {
        canonical(f32::NAN)
    }
}

/// `1 / 2π`
const INVERSE_TAU: f32 = f32::from_bits(0x3e22_f983);

/// The argument of sine and cosine in turns, `-1/2 … 1/2`. Infinity gives NaN.
#[inline(always)]
fn turns(a: f32) -> f64 {
    let turns = f64::from(mul(a, INVERSE_TAU, Round::Zero, false));
    // From 2^23 on it is a whole number.
    let whole = if turns.abs() < 16_777_216.0 {
        (turns + TO_INTEGER) - TO_INTEGER
    } else {
        turns
    };
    turns - whole
}

/// `sin.approx`
#[inline(always)]
pub fn sin(a: f32, ftz: bool) -> f32 {
    let a = flush_if(ftz, a);
    let part = turns(a);
    let mirrored = 0.5_f64.copysign(part) - part;
    let folded = if part.abs() > 0.25 { mirrored } else { part };
    let result = canonical(sin_turns(folded) as f32);
    if a == 0.0 { a } else { flush_if(ftz, result) }
}

/// `cos.approx`
#[inline(always)]
pub fn cos(a: f32, ftz: bool) -> f32 {
    let part = turns(flush_if(ftz, a));
    canonical(sin_turns(0.25 - part.abs()) as f32)
}

/// `tanh.approx.f32`
#[inline(always)]
pub fn tanh_single(a: f32) -> f32 {
    canonical(tanh(f64::from(a)) as f32)
}

/// `tanh.approx` of `.f16` and `.bf16`
#[inline(always)]
pub fn tanh_half<H: Half>(a: u16) -> u16 {
    narrow_double::<H>(tanh(f64::from(H::widen(a))))
}

/// `ex2.approx` of `.f16` and `.bf16`
#[inline(always)]
pub fn ex2_half<H: Half>(a: u16, ftz: bool) -> u16 {
    let a = super::half::flush_if::<H>(ftz, a);
    let result = narrow_double::<H>(exp2_single(H::widen(a)));
    super::half::flush_if::<H>(ftz, result)
}

/// `div.approx`. A divisor above `2^126` has a reciprocal that hardware flushes: the quotient is 0, or NaN of infinity.
#[inline(always)]
pub fn div(a: f32, b: f32, ftz: bool) -> f32 {
    const LIMIT: f32 = f32::from_bits(0x7e80_0000);
    let (a, b) = (flush_if(ftz, a), flush_if(ftz, b));
    let result = if b.abs() > LIMIT {
        a * 0.0_f32.copysign(b)
    } else {
        a / b
    };
    flush_if(ftz, canonical(result))
}

/// `div.full`
#[inline(always)]
pub fn div_full(a: f32, b: f32, ftz: bool) -> f32 {
    super::single::div(a, b, Round::NearestEven, ftz)
}

/// The upper half of a double, its lower half 0, subnormal numbers flushed: what the 64-bit units read.
#[inline(always)]
fn upper(x: f64) -> f64 {
    let bits = x.to_bits() & 0xffff_ffff_0000_0000;
    f64::from_bits(if bits & 0x7ff0_0000_0000_0000 == 0 {
        bits & (1 << 63)
    } else {
        bits
    })
}

/// Rounded to the upper half of a double, subnormal results flushed.
#[inline(always)]
fn to_upper(x: f64) -> f64 {
    if x.is_nan() {
        return f64::from_bits(0x7fff_ffff_0000_0000);
    }
    upper(f64::from_bits(x.to_bits().wrapping_add(0x8000_0000)))
}

/// `rcp.approx.ftz.f64`: reads and writes the upper half.
#[inline(always)]
pub fn rcp_upper(a: f64) -> f64 {
    to_upper(1.0 / upper(a))
}

/// `rsqrt.approx.ftz.f64`: reads and writes the upper half.
#[inline(always)]
pub fn rsqrt_upper(a: f64) -> f64 {
    to_upper(1.0 / upper(a).sqrt())
}

/// `rsqrt.approx.f64`
#[inline(always)]
pub fn rsqrt_double(a: f64) -> f64 {
    let result = 1.0 / a.sqrt();
    let nan = if a.is_nan() {
        double::quiet(a)
    } else {
        f64::from_bits(double::NAN)
    };
    if result.is_nan() { nan } else { result }
}
