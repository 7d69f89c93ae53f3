//! Formats of 8 bits and less, and `.tf32`.

use super::Round;
use super::single;
use super::soft::{Format, Special};

/// The value of an `e4m3`, `e5m2`, `e3m2`, `e2m3` or `e2m1`, exactly.
#[inline(always)]
pub fn widen(bits: u8, format: Format) -> f32 {
    let magnitude_bits = format.exponent_bits + format.fraction_bits;
    let magnitude = u32::from(bits) & ((1 << magnitude_bits) - 1);
    let sign = (u32::from(bits) >> magnitude_bits & 1) << 31;
    // The fraction in place, the exponent too small by the difference of the biases. The product is exact.
    let bias = (1 << (format.exponent_bits - 1)) - 1;
    let scale = f32::from_bits((127 + 127 - bias) << 23);
    let number =
        (f32::from_bits(magnitude << (23 - format.fraction_bits)) * scale).to_bits() | sign;
    let infinity = format.infinity() as u32;
    let nan = match format.special {
        Special::Ieee => magnitude > infinity,
        Special::NanOnly => magnitude == format.nan() as u32,
        Special::None => false,
    };
    let infinite = format.special == Special::Ieee && magnitude == infinity;
    let finite = if infinite { sign | 0x7f80_0000 } else { number };
    f32::from_bits(if nan { single::NAN } else { finite })
}

/// Rounds to nearest even. What is too large, infinity too, becomes the largest number (`.satfinite`); NaN becomes the
/// format's NaN, or its largest number where there is none. `relu`: negative numbers become +0.
#[inline(always)]
pub fn narrow(x: f32, format: Format, relu: bool) -> u8 {
    let x = if relu && x < 0.0 { 0.0 } else { x };
    let x = if relu && x == 0.0 { 0.0 } else { x };
    encode(x, format)
}

#[inline(never)]
fn encode(x: f32, format: Format) -> u8 {
    let value = Format::F32.decode(u64::from(x.to_bits()));
    format.encode(value, Round::NearestEven, true) as u8
}

/// `ue8m0`: the exponent of `|x|`, rounded down (`up` false) or up. Infinity, and what rounds to it, becomes NaN or, with
/// `satfinite`, the largest number.
#[inline(always)]
pub fn narrow_ue8m0(x: f32, up: bool, satfinite: bool) -> u8 {
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let exponent = magnitude >> 23;
    let above = magnitude & 0x007f_ffff != 0 && magnitude > 0x0040_0000;
    let rounded = exponent + u32::from(up && above && exponent < 0xff);
    if magnitude > 0x7f80_0000 {
        0xff
    } else if satfinite {
        rounded.min(0xfe) as u8
    } else {
        rounded as u8
    }
}

/// The value of a `ue8m0` as `.bf16` bits.
#[inline(always)]
pub fn widen_ue8m0(bits: u8) -> u16 {
    match bits {
        0 => 0x0040,
        0xff => 0x7fff,
        _ => u16::from(bits) << 7,
    }
}

/// `cvt.rna{.satfinite}.tf32.f32`, as ptxas expands it: NaN and infinity only lose their low bits, so that a NaN
/// whose payload lies there becomes infinity.
#[inline(always)]
pub fn tf32_away(x: f32, satfinite: bool) -> u32 {
    let bits = x.to_bits();
    let finite = bits & 0x7fff_ffff < 0x7f80_0000;
    let rounded = (if finite {
        bits.wrapping_add(0x1000)
    } else {
        bits
    }) & 0xffff_e000;
    if satfinite && rounded & 0x7fff_ffff >= 0x7f80_0000 {
        rounded - 0x2000
    } else {
        rounded
    }
}

/// `cvt.rn`, `cvt.rz` `{.satfinite}{.relu}.tf32.f32`
#[inline(always)]
pub fn tf32(x: f32, toward_zero: bool, satfinite: bool, relu: bool) -> u32 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let ties = (magnitude >> 13) & 1;
    let raised = if toward_zero {
        magnitude
    } else {
        magnitude + 0xfff + ties
    };
    let rounded = if magnitude == 0x7f80_0000 {
        magnitude
    } else {
        raised & 0xffff_e000
    };
    let rounded = if satfinite {
        rounded.min(0x7f7f_e000)
    } else {
        rounded
    };
    let sign = bits & 0x8000_0000;
    if magnitude > 0x7f80_0000 {
        single::NAN & 0xffff_e000
    } else if relu && sign != 0 {
        0
    } else {
        rounded | sign
    }
}
