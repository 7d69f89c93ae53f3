//! `dp4a` and `dp2a`: products of bytes, added to a 32-bit number, modulo 2^32.

use crate::decode::{Decoder, Unsupported};
use crate::exec::Op;
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, ScalarType, Word};

#[inline(always)]
fn byte<const SIGNED: bool>(word: u32, i: u32) -> i32 {
    let byte = (word >> (8 * i)) as u8;
    if SIGNED {
        i32::from(byte.cast_signed())
    } else {
        i32::from(byte)
    }
}

#[inline(always)]
fn half<const SIGNED: bool>(word: u32, i: u32) -> i32 {
    let half = (word >> (16 * i)) as u16;
    if SIGNED {
        i32::from(half.cast_signed())
    } else {
        i32::from(half)
    }
}

#[inline(always)]
fn dp4a<const A: bool, const B: bool>(a: u32, b: u32, c: u32) -> u32 {
    let mut sum = c;
    for i in 0..4 {
        sum = sum.wrapping_add((byte::<A>(a, i) * byte::<B>(b, i)).cast_unsigned());
    }
    sum
}

/// Halves of `a` with the low or high two bytes of `b`.
#[inline(always)]
fn dp2a<const A: bool, const B: bool, const HIGH: bool>(a: u32, b: u32, c: u32) -> u32 {
    let from = if HIGH { 2 } else { 0 };
    let mut sum = c;
    for i in 0..2 {
        sum = sum.wrapping_add((half::<A>(a, i) * byte::<B>(b, from + i)).cast_unsigned());
    }
    sum
}

/// Signedness of both multiplicands.
fn signs(mnemonic: &Mnemonic) -> Option<(bool, bool)> {
    match *mnemonic.types() {
        [a, b] => Some((a == ScalarType::S32, b == ScalarType::S32)),
        _ => None,
    }
}

/// Decodes `dp4a`.
pub(super) fn decode4(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    match signs(mnemonic) {
        Some((false, false)) => d.map3(Class::Alu, dp4a::<false, false>),
        Some((false, true)) => d.map3(Class::Alu, dp4a::<false, true>),
        Some((true, false)) => d.map3(Class::Alu, dp4a::<true, false>),
        Some((true, true)) => d.map3(Class::Alu, dp4a::<true, true>),
        None => Err(Unsupported::new("`dp4a` without two types")),
    }
}

/// Decodes `dp2a`.
pub(super) fn decode2(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let high = mnemonic.has(Word::Hi);
    match (signs(mnemonic), high) {
        (Some((false, false)), false) => d.map3(Class::Alu, dp2a::<false, false, false>),
        (Some((false, true)), false) => d.map3(Class::Alu, dp2a::<false, true, false>),
        (Some((true, false)), false) => d.map3(Class::Alu, dp2a::<true, false, false>),
        (Some((true, true)), false) => d.map3(Class::Alu, dp2a::<true, true, false>),
        (Some((false, false)), true) => d.map3(Class::Alu, dp2a::<false, false, true>),
        (Some((false, true)), true) => d.map3(Class::Alu, dp2a::<false, true, true>),
        (Some((true, false)), true) => d.map3(Class::Alu, dp2a::<true, false, true>),
        (Some((true, true)), true) => d.map3(Class::Alu, dp2a::<true, true, true>),
        (None, _) => Err(Unsupported::new("`dp2a` without two types")),
    }
}
