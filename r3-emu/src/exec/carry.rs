//! Chains of additions and products that hand a carry on.
//!
//! The carry flag is a bit a lane, kept by the warp. Subtractions hand on a borrow.

use super::{Body, Flow, LANES, Lane, Op, Zst, bits};
use crate::block::Warp;
use crate::block::special::CARRY;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Word};
use std::marker::PhantomData;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    let out = mnemonic.has(Word::Cc);
    let takes = matches!(
        mnemonic.opcode(),
        Opcode::Addc | Opcode::Subc | Opcode::Madc
    );
    let may = matches!(
        mnemonic.opcode(),
        Opcode::Add | Opcode::Sub | Opcode::Mad | Opcode::Addc | Opcode::Subc | Opcode::Madc
    );
    if !may || !(out || takes) {
        return None;
    }
    let ty = mnemonic.ty()?;
    let high = mnemonic.has(Word::Hi);
    let flags = u64::from(takes) | u64::from(out) << 1;
    Some(match (mnemonic.opcode(), ty.bits(), high, ty.is_signed()) {
        (Opcode::Add | Opcode::Addc, 32, ..) => two(d, flags, add_32),
        (Opcode::Add | Opcode::Addc, 64, ..) => two(d, flags, add_64),
        (Opcode::Sub | Opcode::Subc, 32, ..) => two(d, flags, sub_32),
        (Opcode::Sub | Opcode::Subc, 64, ..) => two(d, flags, sub_64),
        (_, 32, false, _) => three(d, flags, |a: u32, b: u32, c, carry| {
            add_32(a.wrapping_mul(b), c, carry)
        }),
        (_, 32, true, false) => three(d, flags, |a: u32, b: u32, c, carry| {
            add_32(((u64::from(a) * u64::from(b)) >> 32) as u32, c, carry)
        }),
        (_, 32, true, true) => three(d, flags, |a: u32, b: u32, c, carry| {
            let product = i64::from(a as i32) * i64::from(b as i32);
            add_32((product >> 32) as u32, c, carry)
        }),
        (_, 64, false, _) => three(d, flags, |a: u64, b: u64, c, carry| {
            add_64(a.wrapping_mul(b), c, carry)
        }),
        (_, 64, true, false) => three(d, flags, |a: u64, b: u64, c, carry| {
            add_64(((u128::from(a) * u128::from(b)) >> 64) as u64, c, carry)
        }),
        (_, 64, true, true) => three(d, flags, |a: u64, b: u64, c, carry| {
            let product = i128::from(a as i64) * i128::from(b as i64);
            add_64((product >> 64) as u64, c, carry)
        }),
        _ => return None,
    })
}

#[inline(always)]
fn add_32(a: u32, b: u32, carry: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

#[inline(always)]
fn add_64(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let sum = u128::from(a) + u128::from(b) + u128::from(carry);
    (sum as u64, sum >> 64 != 0)
}

#[inline(always)]
fn sub_32(a: u32, b: u32, borrow: bool) -> (u32, bool) {
    let difference = i64::from(a) - i64::from(b) - i64::from(borrow);
    (difference as u32, difference < 0)
}

#[inline(always)]
fn sub_64(a: u64, b: u64, borrow: bool) -> (u64, bool) {
    let difference = i128::from(a) - i128::from(b) - i128::from(borrow);
    (difference as u64, difference < 0)
}

struct Two<F, T>(PhantomData<(F, T)>);

impl<T: Lane, F: Fn(T, T, bool) -> (T, bool) + Copy + 'static> Body for Two<F, T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let f = Zst::<F>::get();
        let (a, b): ([T; LANES], [T; LANES]) = (warp.get(op.a), warp.get(op.b));
        chain(warp, op, mask, |i, carry| f(a[i], b[i], carry))
    }
}

struct Three<F, T>(PhantomData<(F, T)>);

impl<T: Lane, F: Fn(T, T, T, bool) -> (T, bool) + Copy + 'static> Body for Three<F, T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let f = Zst::<F>::get();
        let (a, b): ([T; LANES], [T; LANES]) = (warp.get(op.a), warp.get(op.b));
        let c: [T; LANES] = warp.get(op.c);
        chain(warp, op, mask, |i, carry| f(a[i], b[i], c[i], carry))
    }
}

/// Bit 0 of `imm`: a carry comes in; bit 1: it goes out.
#[inline(always)]
fn chain<T: Lane>(
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    f: impl Fn(usize, bool) -> (T, bool),
) -> Flow {
    let carry = if op.imm & 1 != 0 {
        warp.predicate(CARRY)
    } else {
        0
    };
    let mut r = [T::default(); LANES];
    let mut flags = [0u8; LANES];
    for i in 0..LANES {
        let (value, out) = f(i, carry >> i & 1 != 0);
        r[i] = value;
        flags[i] = u8::from(out);
    }
    warp.put(op.d, mask, &r);
    if op.imm & 2 != 0 {
        warp.set_predicate(CARRY, mask, bits(&flags));
    }
    Flow::Next
}

fn class<T>() -> Class {
    if size_of::<T>() == 8 {
        Class::Wide
    } else {
        Class::Alu
    }
}

fn two<T: Lane, F>(d: &mut Decoder<'_>, flags: u64, _: F) -> Result<Op, Unsupported>
where
    F: Fn(T, T, bool) -> (T, bool) + Copy + 'static,
{
    let mut op = d.op::<Two<F, T>>(class::<T>());
    op.imm = flags;
    op.a = d.src::<T>(1)?;
    op.b = d.src::<T>(2)?;
    op.d = d.dst::<T>(0)?;
    Ok(op)
}

fn three<T: Lane, F>(d: &mut Decoder<'_>, flags: u64, _: F) -> Result<Op, Unsupported>
where
    F: Fn(T, T, T, bool) -> (T, bool) + Copy + 'static,
{
    let mut op = d.op::<Three<F, T>>(class::<T>());
    op.imm = flags;
    op.a = d.src::<T>(1)?;
    op.b = d.src::<T>(2)?;
    op.c = d.src::<T>(3)?;
    op.d = d.dst::<T>(0)?;
    Ok(op)
}
