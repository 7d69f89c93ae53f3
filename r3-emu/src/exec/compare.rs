//! Comparisons and selections: `setp`, `set`, `selp`, `slct`.

use super::{Body, Flow, LANES, Lane, Op, Zst};
use crate::arith::{Compare, double, half, single};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Boolean, Comparison, Mnemonic, Opcode, ScalarType};
use r3_ptx::typed::Operand;
use std::marker::PhantomData;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Setp => Some(set_predicate(d, mnemonic)),
        Opcode::Set => Some(set_value(d, mnemonic)),
        Opcode::Selp => Some(select(d, mnemonic.ty()?)),
        Opcode::Slct => Some(select_by_sign(d, mnemonic)),
        _ => None,
    }
}

/// How a predicate is combined with the comparison, in an op's `imm`; besides, whether there is a second destination.
const PLAIN: u64 = 0;
const AND: u64 = 1;
const OR: u64 = 2;
const XOR: u64 = 3;
const BOTH: u64 = 4;

/// Compares `a` with `b`; `d` is the result, combined with `c`; `e`, where asked for, its opposite combined with `c`.
struct Test<F, T>(PhantomData<(F, T)>);

impl<T: Lane, F: Fn(T, T) -> bool + Copy + 'static> Body for Test<F, T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let value = warp.test2(op, Zst::<F>::get());
        if op.imm == PLAIN {
            warp.set_predicate(op.d, mask, value);
            return Flow::Next;
        }
        let with = warp.predicate(op.c);
        let combine = |value| match op.imm & 3 {
            PLAIN => value,
            AND => value & with,
            OR => value | with,
            _ => value ^ with,
        };
        warp.set_predicate(op.d, mask, combine(value));
        if op.imm & BOTH != 0 {
            warp.set_predicate(op.e, mask, combine(!value));
        }
        Flow::Next
    }
}

fn test<T: Lane, F>(d: &Decoder<'_>, class: Class, _: F) -> Op
where
    F: Fn(T, T) -> bool + Copy + 'static,
{
    d.op::<Test<F, T>>(class)
}

/// An op that compares, of the type's width; which half of a packed pair.
fn comparison(d: &Decoder<'_>, mnemonic: &Mnemonic, ty: ScalarType, upper: bool) -> Option<Op> {
    use Comparison as C;
    use ScalarType as S;
    let relation = mnemonic.comparison().or_else(|| {
        // `.lo` and `.hi` are also halves of products.
        use r3_ptx::isa::Word;
        match mnemonic.any_of(&[Word::Lo, Word::Hi])? {
            Word::Lo => Some(C::Lo),
            _ => Some(C::Hi),
        }
    })?;
    macro_rules! integers {
        ($class:ident, $unsigned:ty, $signed:ty) => {{
            const K: Class = Class::$class;
            match (relation, ty.is_signed()) {
                (C::Eq, _) => test(d, K, |a: $unsigned, b| a == b),
                (C::Ne, _) => test(d, K, |a: $unsigned, b| a != b),
                (C::Lt, true) => test(d, K, |a: $signed, b| a < b),
                (C::Le, true) => test(d, K, |a: $signed, b| a <= b),
                (C::Gt, true) => test(d, K, |a: $signed, b| a > b),
                (C::Ge, true) => test(d, K, |a: $signed, b| a >= b),
                (C::Lt | C::Lo, _) => test(d, K, |a: $unsigned, b| a < b),
                (C::Le | C::Ls, _) => test(d, K, |a: $unsigned, b| a <= b),
                (C::Gt | C::Hi, _) => test(d, K, |a: $unsigned, b| a > b),
                (C::Ge | C::Hs, _) => test(d, K, |a: $unsigned, b| a >= b),
                _ => return None,
            }
        }};
    }
    /// `$f(relation, a, b)` for each relation, which then is a constant.
    macro_rules! floats {
        ($class:ident, $ty:ty, |$r:ident, $a:ident, $b:ident| $f:expr) => {{
            const K: Class = Class::$class;
            macro_rules! one {
                ($relation:ident) => {
                    test(d, K, |$a: $ty, $b: $ty| {
                        let $r = Compare::$relation;
                        $f
                    })
                };
            }
            match relation {
                C::Eq => one!(Eq),
                C::Ne => one!(Ne),
                C::Lt | C::Lo => one!(Lt),
                C::Le | C::Ls => one!(Le),
                C::Gt | C::Hi => one!(Gt),
                C::Ge | C::Hs => one!(Ge),
                C::Equ => one!(Equ),
                C::Neu => one!(Neu),
                C::Ltu => one!(Ltu),
                C::Leu => one!(Leu),
                C::Gtu => one!(Gtu),
                C::Geu => one!(Geu),
                C::Num => one!(Num),
                C::Nan => one!(Nan),
            }
        }};
    }
    Some(match (ty, mnemonic.ftz(), upper) {
        (S::F32, false, _) => floats!(Alu, f32, |r, a, b| single::compare(r, a, b, false)),
        (S::F32, true, _) => floats!(Alu, f32, |r, a, b| single::compare(r, a, b, true)),
        (S::F64, ..) => floats!(Double, f64, |r, a, b| double::compare(r, a, b)),
        (S::F16, false, _) => floats!(Alu, u16, |r, a, b| half::compare_f16(r, a, b, false)),
        (S::F16, true, _) => floats!(Alu, u16, |r, a, b| half::compare_f16(r, a, b, true)),
        (S::BF16, ..) => floats!(Alu, u16, |r, a, b| half::compare_bf16(r, a, b, false)),
        (S::F16x2, false, false) => floats!(Alu, u32, |r, a, b| {
            half::compare_f16(r, half::low(a), half::low(b), false)
        }),
        (S::F16x2, false, true) => floats!(Alu, u32, |r, a, b| {
            half::compare_f16(r, half::high(a), half::high(b), false)
        }),
        (S::F16x2, true, false) => floats!(Alu, u32, |r, a, b| {
            half::compare_f16(r, half::low(a), half::low(b), true)
        }),
        (S::F16x2, true, true) => floats!(Alu, u32, |r, a, b| {
            half::compare_f16(r, half::high(a), half::high(b), true)
        }),
        (S::BF16x2, _, false) => floats!(Alu, u32, |r, a, b| {
            half::compare_bf16(r, half::low(a), half::low(b), false)
        }),
        (S::BF16x2, _, true) => floats!(Alu, u32, |r, a, b| {
            half::compare_bf16(r, half::high(a), half::high(b), false)
        }),
        _ => match ty.bits() {
            16 => integers!(Alu, u16, i16),
            32 => integers!(Alu, u32, i32),
            64 => integers!(Wide, u64, i64),
            _ => return None,
        },
    })
}

/// A comparison with its sources and its predicate, without destinations.
fn compare(
    d: &mut Decoder<'_>,
    mnemonic: &Mnemonic,
    ty: ScalarType,
    upper: bool,
) -> Result<Op, Unsupported> {
    let mut op = comparison(d, mnemonic, ty, upper)
        .ok_or_else(|| Unsupported::new(format!("comparison of .{ty}")))?;
    (op.a, op.b) = match ty.bits() {
        16 => (d.src::<u16>(1)?, d.src::<u16>(2)?),
        32 => (d.src::<u32>(1)?, d.src::<u32>(2)?),
        _ => (d.src::<u64>(1)?, d.src::<u64>(2)?),
    };
    op.imm = match mnemonic.boolean() {
        None => PLAIN,
        Some(Boolean::And) => AND,
        Some(Boolean::Or) => OR,
        Some(Boolean::Xor) => XOR,
    };
    if op.imm != PLAIN {
        op.c = d.predicate(3)?;
    }
    Ok(op)
}

fn set_predicate(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let ty = source_type(mnemonic);
    let to = d.operand(0)?;
    let to = d.elements(to);
    let packed = ty.is_float() && ty.lanes() == 2;
    let mut op = compare(d, mnemonic, ty, false)?;
    let first = to.first().copied().unwrap_or(Operand::Sink);
    let second = to.get(1).copied();
    if packed {
        // One predicate for each half. The first may be a source of the second's comparison: it is written last.
        let low = d.temporary_predicate();
        op.d = low;
        let mut high = compare(d, mnemonic, ty, true)?;
        high.d = d.dst_predicate_of(second.unwrap_or(Operand::Sink))?;
        d.after(high);
        let mut copy = d.whole(Class::Alu, |warp, op, mask| {
            let value = warp.predicate(op.a);
            warp.set_predicate(op.d, mask, value);
            Flow::Next
        });
        copy.a = low;
        copy.d = d.dst_predicate_of(first)?;
        d.after(copy);
        return Ok(op);
    }
    op.d = d.dst_predicate_of(first)?;
    if let Some(second) = second {
        op.imm |= BOTH;
        op.e = d.dst_predicate_of(second)?;
    }
    Ok(op)
}

/// The type that is compared: the last of the text.
fn source_type(mnemonic: &Mnemonic) -> ScalarType {
    mnemonic.types().last().copied().unwrap_or(ScalarType::B32)
}

/// What `set` writes for true: one, or all bits.
fn truth(ty: ScalarType) -> u64 {
    match ty {
        ScalarType::F32 => 0x3f80_0000,
        ScalarType::F16 => 0x3c00,
        ScalarType::BF16 => 0x3f80,
        ScalarType::F16x2 => 0x3c00_3c00,
        ScalarType::BF16x2 => 0x3f80_3f80,
        _ => u64::MAX,
    }
}

fn set_value(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let (to, from) = (
        mnemonic.ty().unwrap_or(ScalarType::U32),
        source_type(mnemonic),
    );
    let packed = from.is_float() && from.lanes() == 2;
    let low = d.temporary_predicate();
    let high = d.temporary_predicate();
    let mut op = compare(d, mnemonic, from, false)?;
    op.d = low;
    let mut value = if to.bits() == 16 {
        d.whole(Class::Alu, |warp, op, mask| {
            let r = spread(warp.predicate(op.a)).map(|m| m as u16 & op.imm as u16);
            warp.put(op.d, mask, &r);
            Flow::Next
        })
    } else {
        d.whole(Class::Alu, |warp, op, mask| {
            let low = spread(warp.predicate(op.a));
            let high = spread(warp.predicate(op.b));
            let r: [u32; LANES] = std::array::from_fn(|i| {
                ((low[i] & 0xffff) | (high[i] & 0xffff_0000)) & op.imm as u32
            });
            warp.put(op.d, mask, &r);
            Flow::Next
        })
    };
    value.imm = truth(to);
    (value.a, value.b) = (low, low);
    if packed {
        let mut second = compare(d, mnemonic, from, true)?;
        second.d = high;
        value.b = high;
        d.after(second);
    }
    value.d = if to.bits() == 16 {
        d.dst::<u16>(0)?
    } else {
        d.dst::<u32>(0)?
    };
    d.after_first(value);
    Ok(op)
}

/// All ones in the lanes whose bit is set.
#[inline(always)]
fn spread(predicate: u32) -> [u32; LANES] {
    std::array::from_fn(|i| 0u32.wrapping_sub(predicate >> i & 1))
}

/// `d` is `a` in the lanes of predicate `c`, else `b`.
struct Select<T>(PhantomData<T>);

macro_rules! select_body {
    ($($int:ident),*) => { $(
        impl Body for Select<$int> {
            #[inline(always)]
            fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
                let p = warp.predicate(op.c);
                let (a, b): ([$int; LANES], [$int; LANES]) = (warp.get(op.a), warp.get(op.b));
                let mut r = [0; LANES];
                for i in 0..LANES {
                    let take = 0i32.wrapping_sub((p >> i & 1) as i32) as $int;
                    r[i] = (a[i] & take) | (b[i] & !take);
                }
                warp.put(op.d, mask, &r);
                Flow::Next
            }
        }
    )* };
}
select_body!(u16, u32, u64);

/// `selp d, a, b, p`
fn select(d: &mut Decoder<'_>, ty: ScalarType) -> Result<Op, Unsupported> {
    macro_rules! selp {
        ($int:ty) => {{
            let mut op = d.op::<Select<$int>>(Class::Alu);
            op.a = d.src::<$int>(1)?;
            op.b = d.src::<$int>(2)?;
            op.d = d.dst::<$int>(0)?;
            op
        }};
    }
    let mut op = match ty.bits() {
        0..=16 => selp!(u16),
        17..=32 => selp!(u32),
        _ => selp!(u64),
    };
    op.c = d.predicate(3)?;
    Ok(op)
}

/// `slct d, a, b, c`: `a` where `c` is at least 0.
fn select_by_sign(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    const A: Class = Class::Alu;
    macro_rules! slct {
        ($int:ty) => {
            match (source_type(mnemonic), mnemonic.ftz()) {
                (ScalarType::F32, true) => d.map3(
                    A,
                    |a: $int, b: $int, c: f32| {
                        if single::flush(c) >= 0.0 { a } else { b }
                    },
                ),
                (ScalarType::F32, false) => {
                    d.map3(A, |a: $int, b: $int, c: f32| if c >= 0.0 { a } else { b })
                }
                _ => d.map3(A, |a: $int, b: $int, c: i32| if c >= 0 { a } else { b }),
            }
        };
    }
    match mnemonic.ty().map_or(32, ScalarType::bits) {
        0..=16 => slct!(u16),
        17..=32 => slct!(u32),
        _ => slct!(u64),
    }
}
