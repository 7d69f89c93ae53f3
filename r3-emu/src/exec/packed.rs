//! `.f16`, `.bf16`, pairs of them, and `.f32x2`.

use super::float::{by_flag, by_round, extremum, round};
use super::{Body, Flow, Op};
use crate::arith::half::{self, BF16, F16, Half, Modifiers, high, low, pair};
use crate::arith::single::{self, Extremum};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use std::marker::PhantomData;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    use Opcode as O;
    let (O::Add | O::Sub | O::Mul | O::Fma | O::Neg | O::Abs | O::Min | O::Max) = mnemonic.opcode()
    else {
        return None;
    };
    Some(match mnemonic.ty()? {
        ScalarType::F16 => halves::<F16, One>(d, mnemonic),
        ScalarType::BF16 => halves::<BF16, One>(d, mnemonic),
        ScalarType::F16x2 => halves::<F16, Two>(d, mnemonic),
        ScalarType::BF16x2 => halves::<BF16, Two>(d, mnemonic),
        ScalarType::F32x2 => singles(d, mnemonic),
        _ => return None,
    })
}

/// How many values of 16 bits a lane has.
trait Width: 'static {
    /// The bits of a lane.
    type Lane: super::Lane;
    /// Applies a function to each of them.
    fn map3(
        a: Self::Lane,
        b: Self::Lane,
        c: Self::Lane,
        f: impl Fn(u16, u16, u16) -> u16,
    ) -> Self::Lane;
}

/// One: `.f16`.
struct One;

/// Two: `.f16x2`.
struct Two;

impl Width for One {
    type Lane = u16;
    #[inline(always)]
    fn map3(a: u16, b: u16, c: u16, f: impl Fn(u16, u16, u16) -> u16) -> u16 {
        f(a, b, c)
    }
}

impl Width for Two {
    type Lane = u32;
    #[inline(always)]
    fn map3(a: u32, b: u32, c: u32, f: impl Fn(u16, u16, u16) -> u16) -> u32 {
        pair(f(high(a), high(b), high(c)), f(low(a), low(b), low(c)))
    }
}

/// An operation on three values of 16 bits; those of two or one leave the rest.
trait Operation: 'static {
    /// Its modifiers.
    type With: Copy + Send + Sync + 'static;
    /// The result.
    fn apply<H: Half>(a: u16, b: u16, c: u16, with: Self::With) -> u16;
}

/// Declares operations: `Name(modifiers) = a, b, c => expression`.
macro_rules! operations {
    ($($name:ident($with:ident: $ty:ty) = $a:ident, $b:ident, $c:ident => $body:expr;)*) => {$(
        struct $name;
        impl Operation for $name {
            type With = $ty;
            #[inline(always)]
            fn apply<H: Half>($a: u16, $b: u16, $c: u16, $with: $ty) -> u16 {
                $body
            }
        }
    )*};
}
operations! {
    Add(with: Modifiers) = a, b, _c => half::add::<H>(a, b, with);
    Sub(with: Modifiers) = a, b, _c => half::sub::<H>(a, b, with);
    Mul(with: Modifiers) = a, b, _c => half::mul::<H>(a, b, with);
    Fma(with: Modifiers) = a, b, c => half::fma::<H>(a, b, c, with);
    Neg(with: Modifiers) = a, _b, _c => half::neg::<H>(a, with.ftz);
    Abs(with: Modifiers) = a, _b, _c => half::abs::<H>(a, with.ftz);
    Choose(with: Extremum) = a, b, _c => half::extremum::<H>(a, b, with);
}

/// The handler of an operation without modifiers.
struct Plain<O, H, W>(PhantomData<(O, H, W)>);

impl<O: Operation<With = Modifiers>, H: Half, W: Width> Body for Plain<O, H, W> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        run::<O, H, W>(warp, op, mask, Modifiers::default())
    }
}

/// The handler of an operation whose modifiers are in its record.
struct Modified<O, H, W>(PhantomData<(O, H, W)>);

impl<O: Operation, H: Half, W: Width> Body for Modified<O, H, W> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let with = *warp.data::<O::With>(op);
        run::<O, H, W>(warp, op, mask, with)
    }
}

#[inline(always)]
fn run<O: Operation, H: Half, W: Width>(
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    with: O::With,
) -> Flow {
    warp.map3(op, mask, |a: W::Lane, b: W::Lane, c: W::Lane| {
        W::map3(a, b, c, |a, b, c| O::apply::<H>(a, b, c, with))
    })
}

/// Arithmetic of 16 bits.
fn halves<H: Half, W: Width>(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let with = Modifiers {
        ftz: mnemonic.ftz(),
        sat: mnemonic.sat(),
        relu: mnemonic.relu(),
        oob: mnemonic.has(Word::Oob),
    };
    match mnemonic.opcode() {
        Opcode::Add => modified::<Add, H, W>(d, with),
        Opcode::Sub => modified::<Sub, H, W>(d, with),
        Opcode::Mul => modified::<Mul, H, W>(d, with),
        Opcode::Fma => modified::<Fma, H, W>(d, with),
        Opcode::Neg => modified::<Neg, H, W>(d, with),
        Opcode::Abs => modified::<Abs, H, W>(d, with),
        _ => {
            let mut op = d.op::<Modified<Choose, H, W>>(Class::Alu);
            operands::<W>(d, &mut op)?;
            d.record(&mut op, extremum(mnemonic));
            Ok(op)
        }
    }
}

fn modified<O: Operation<With = Modifiers>, H: Half, W: Width>(
    d: &mut Decoder<'_>,
    with: Modifiers,
) -> Result<Op, Unsupported> {
    let plain = with == Modifiers::default();
    let mut op = if plain {
        d.op::<Plain<O, H, W>>(Class::Alu)
    } else {
        d.op::<Modified<O, H, W>>(Class::Alu)
    };
    operands::<W>(d, &mut op)?;
    if !plain {
        d.record(&mut op, with);
    }
    Ok(op)
}

/// Up to three sources; those that the operation does not have are the first again.
fn operands<W: Width>(d: &mut Decoder<'_>, op: &mut Op) -> Result<(), Unsupported> {
    let count = d.operand_count();
    op.a = d.src::<W::Lane>(1)?;
    op.b = if count > 2 {
        d.src::<W::Lane>(2)?
    } else {
        op.a
    };
    op.c = if count > 3 {
        d.src::<W::Lane>(3)?
    } else {
        op.a
    };
    op.d = d.dst::<W::Lane>(0)?;
    Ok(())
}

/// `add sub mul fma` of `.f32x2`.
fn singles(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    #[inline(always)]
    fn both(a: u64, b: u64, c: u64, f: impl Fn(f32, f32, f32) -> f32) -> u64 {
        let low = |x: u64| f32::from_bits(x as u32);
        let high = |x: u64| f32::from_bits((x >> 32) as u32);
        let upper = f(high(a), high(b), high(c)).to_bits();
        let lower = f(low(a), low(b), low(c)).to_bits();
        u64::from(upper) << 32 | u64::from(lower)
    }
    let class = Class::Alu;
    by_round!(round(mnemonic), R => by_flag!(mnemonic.ftz(), FTZ => match mnemonic.opcode() {
        Opcode::Add => d.map2(class, |a: u64, b: u64| {
            both(a, b, 0, |a, b, _| single::add(a, b, R, FTZ))
        }),
        Opcode::Sub => d.map2(class, |a: u64, b: u64| {
            both(a, b, 0, |a, b, _| single::sub(a, b, R, FTZ))
        }),
        Opcode::Mul => d.map2(class, |a: u64, b: u64| {
            both(a, b, 0, |a, b, _| single::mul(a, b, R, FTZ))
        }),
        Opcode::Fma => d.map3(class, |a: u64, b: u64, c: u64| {
            both(a, b, c, |a, b, c| single::fma(a, b, c, R, FTZ))
        }),
        _ => Err(Unsupported::new("this operation of .f32x2")),
    }))
}
