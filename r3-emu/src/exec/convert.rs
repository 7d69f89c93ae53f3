//! `cvt`

use super::float::{by_flag, by_round, round};
use super::{Flow, Op};
use crate::arith::convert::{self, Conversion, Number};
use crate::arith::half::{self, BF16, F16, Half, high, low, pair};
use crate::arith::soft::Format;
use crate::arith::{Round, double, single, small};
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Rounding, ScalarType as T, Word};

const CLASS: Class = Class::Convert;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    if mnemonic.opcode() != Opcode::Cvt {
        return None;
    }
    if mnemonic.has(Word::Pack) {
        return Some(pack(d, mnemonic));
    }
    if mnemonic.rounding() == Some(Rounding::Stochastic) {
        return Some(Err(Unsupported::new(
            "stochastic rounding (.rs): which random bits are added where is not published in a testable form",
        )));
    }
    let &[to, from, ..] = mnemonic.types() else {
        return None;
    };
    Some(
        to_packed(d, mnemonic, to, from)
            .or_else(|| from_packed(d, mnemonic, to, from))
            .or_else(|| frequent(d, mnemonic, to, from))
            .unwrap_or_else(|| any(d, mnemonic, to, from)),
    )
}

/// What a type is to [`Conversion`].
fn number(ty: T) -> Option<Number> {
    Some(match ty {
        T::F16 => Number::F16,
        T::BF16 => Number::BF16,
        T::F32 => Number::F32,
        T::F64 => Number::F64,
        T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64 => Number::Integer {
            bits: ty.bits(),
            signed: ty.is_signed(),
        },
        _ => return None,
    })
}

/// The rounding to an integral value, where one is given.
fn integral(mnemonic: &Mnemonic) -> Option<Round> {
    match mnemonic.rounding()? {
        Rounding::NearestInt | Rounding::ZeroInt | Rounding::DownInt | Rounding::UpInt => {
            Some(round(mnemonic))
        }
        _ => None,
    }
}

/// All pairs of plain types, one lane after the other.
fn any(d: &mut Decoder<'_>, mnemonic: &Mnemonic, to: T, from: T) -> Result<Op, Unsupported> {
    let missing = || Unsupported::new(format!("conversion from .{from} to .{to}"));
    let integral = integral(mnemonic);
    let conversion = Conversion {
        from: number(from).ok_or_else(missing)?,
        to: number(to).ok_or_else(missing)?,
        round: if integral.is_some() {
            Round::NearestEven
        } else {
            round(mnemonic)
        },
        integral,
        ftz: mnemonic.ftz(),
        sat: mnemonic.sat(),
        satfinite: mnemonic.satfinite(),
        relu: mnemonic.relu(),
    };
    let mut op = d.whole(CLASS, |warp, op, mask| {
        let conversion = warp.data::<Conversion>(op);
        warp.map1(op, mask, |x: u64| conversion.run(x))
    });
    op.a = d.src::<u64>(1)?;
    op.d = d.dst::<u64>(0)?;
    d.record(&mut op, conversion);
    Ok(op)
}

/// The pairs that programs are full of.
fn frequent(
    d: &mut Decoder<'_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
) -> Option<Result<Op, Unsupported>> {
    if mnemonic.sat() && (to.is_float() || !from.is_float()) {
        return None;
    }
    let ftz = mnemonic.ftz();
    let round = round(mnemonic);
    let whole = integral(mnemonic).is_some();
    if !from.is_float() && !to.is_float() {
        return integers(d, to, from);
    }
    Some(match (to, from) {
        (T::S32, T::F32) if whole => {
            by_round!(round, R => by_flag!(ftz, F => d.map1(CLASS, |x: f32| {
                convert::single_to_integer::<i32>(single::flush_if(F, x), R)
            })))
        }
        (T::U32, T::F32) if whole => {
            by_round!(round, R => by_flag!(ftz, F => d.map1(CLASS, |x: f32| {
                convert::single_to_integer::<u32>(single::flush_if(F, x), R)
            })))
        }
        (T::S64, T::F32) if whole && !ftz => by_round!(round, R => d.map1(CLASS, |x: f32| {
            convert::single_to_integer::<i64>(x, R)
        })),
        (T::U64, T::F32) if whole && !ftz => by_round!(round, R => d.map1(CLASS, |x: f32| {
            convert::single_to_integer::<u64>(x, R)
        })),
        (T::S32, T::F64) if whole => by_round!(round, R => d.map1(CLASS, |x: f64| {
            convert::double_to_integer::<i32>(x, R)
        })),
        (T::U32, T::F64) if whole => by_round!(round, R => d.map1(CLASS, |x: f64| {
            convert::double_to_integer::<u32>(x, R)
        })),
        (T::S64, T::F64) if whole => by_round!(round, R => d.map1(CLASS, |x: f64| {
            convert::double_to_integer::<i64>(x, R)
        })),
        (T::U64, T::F64) if whole => by_round!(round, R => d.map1(CLASS, |x: f64| {
            convert::double_to_integer::<u64>(x, R)
        })),
        (T::F32, T::S32) => by_round!(round, R => d.map1(CLASS, |x: i32| {
            convert::small_to_single(x.into(), R)
        })),
        (T::F32, T::U32) => by_round!(round, R => d.map1(CLASS, |x: u32| {
            convert::small_to_single(x.into(), R)
        })),
        (T::F32, T::U16) => by_round!(round, R => d.map1(CLASS, |x: u16| {
            convert::small_to_single(x.into(), R)
        })),
        (T::F32, T::S16) => by_round!(round, R => d.map1(CLASS, |x: i16| {
            convert::small_to_single(x.into(), R)
        })),
        (T::F32, T::U8) => d.map1(CLASS, |x: u16| f32::from(x as u8)),
        (T::F32, T::S8) => d.map1(CLASS, |x: i16| f32::from(x as i8)),
        (T::F32, T::S64) => by_round!(round, R => d.map1(CLASS, |x: i64| {
            convert::s64_to_single(x, R)
        })),
        (T::F32, T::U64) => by_round!(round, R => d.map1(CLASS, |x: u64| {
            convert::u64_to_single(x, R)
        })),
        // Exact, whatever the rounding.
        (T::F64, T::S32) => d.map1(CLASS, |x: i32| f64::from(x)),
        (T::F64, T::U32) => d.map1(CLASS, |x: u32| f64::from(x)),
        (T::F64, T::S64) => by_round!(round, R => d.map1(CLASS, |x: i64| {
            convert::s64_to_double(x, R)
        })),
        (T::F64, T::U64) => by_round!(round, R => d.map1(CLASS, |x: u64| {
            convert::u64_to_double(x, R)
        })),
        (T::F64, T::F32) if !whole => by_flag!(ftz, F => d.map1(CLASS, |x: f32| {
            let wide = f64::from(if F { single::flush(single::canonical(x)) } else { x });
            if x.is_nan() { double::quiet(wide) } else { wide }
        })),
        (T::F32, T::F64) if !whole => {
            by_round!(round, R => by_flag!(ftz, F => d.map1(CLASS, |x: f64| {
                single::from_double(x, R, F)
            })))
        }
        (T::F32, T::F32) => by_flag!(ftz, F => by_flag!(whole, WHOLE => {
            by_round!(round, R => d.map1(CLASS, |x: f32| {
                let x = single::flush_if(F, x);
                single::canonical(if WHOLE { convert::integral_single(x, R) } else { x })
            }))
        })),
        (T::F64, T::F64) => by_flag!(whole, WHOLE => by_round!(round, R => {
            d.map1(CLASS, |x: f64| {
                let r = if WHOLE { convert::integral_double(x, R) } else { x };
                if x.is_nan() { double::quiet(x) } else { r }
            })
        })),
        (T::F32, T::F16) if !whole => d.map1(CLASS, |x: u16| F16::widen(x)),
        (T::F32, T::BF16) if !whole && !ftz => d.map1(CLASS, |x: u16| BF16::widen(x)),
        (T::F16, T::F32) if near(mnemonic) => d.map1(CLASS, |x: f32| F16::narrow(x)),
        (T::BF16, T::F32) if near(mnemonic) => d.map1(CLASS, |x: f32| BF16::narrow(x)),
        _ => return None,
    })
}

/// To nearest even and nothing else.
fn near(mnemonic: &Mnemonic) -> bool {
    mnemonic.rounding() == Some(Rounding::Nearest)
        && !(mnemonic.ftz() || mnemonic.relu() || mnemonic.satfinite())
}

/// Between integers: cut, or extended by the sign of the source.
fn integers(d: &mut Decoder<'_>, to: T, from: T) -> Option<Result<Op, Unsupported>> {
    macro_rules! pairs {
        ($($from:ident as $source:ty: $($to:ident as $result:ty),*;)*) => {
            match (from, to) {
                $($((T::$from, T::$to) => d.map1(CLASS, |x: $source| x as $result),)*)*
                // Values of 8 bits live in 16.
                (T::S8, T::S16) => d.map1(CLASS, |x: i16| i16::from(x as i8)),
                (T::S8, T::S32 | T::U32) => d.map1(CLASS, |x: i16| i32::from(x as i8)),
                (T::S8, T::S64 | T::U64) => d.map1(CLASS, |x: i16| i64::from(x as i8)),
                (T::U8, T::U16 | T::S16) => d.map1(CLASS, |x: u16| u16::from(x as u8)),
                (T::U8, T::U32 | T::S32) => d.map1(CLASS, |x: u16| u32::from(x as u8)),
                (T::U8, T::U64 | T::S64) => d.map1(CLASS, |x: u16| u64::from(x as u8)),
                (_, T::S8) => d.map1(CLASS, |x: u16| i16::from(x as i8)),
                (_, T::U8) => d.map1(CLASS, |x: u16| u16::from(x as u8)),
                _ => return None,
            }
        };
    }
    Some(pairs! {
        S16 as i16: S16 as i16, U16 as u16, S32 as i32, U32 as u32, S64 as i64, U64 as u64;
        U16 as u16: S16 as i16, U16 as u16, S32 as i32, U32 as u32, S64 as i64, U64 as u64;
        S32 as i32: S16 as i16, U16 as u16, S32 as i32, U32 as u32, S64 as i64, U64 as u64;
        U32 as u32: S16 as i16, U16 as u16, S32 as i32, U32 as u32, S64 as i64, U64 as u64;
        S64 as i64: S16 as i16, U16 as u16, S32 as i32, U32 as u32, S64 as i64, U64 as u64;
        U64 as u64: S16 as i16, U16 as u16, S32 as i32, U32 as u32, S64 as i64, U64 as u64;
    })
}

/// How a packed result is made.
#[derive(Clone, Copy)]
struct Packing {
    round: Round,
    satfinite: bool,
    relu: bool,
    format: Format,
}

impl Packing {
    #[inline(always)]
    fn half<H: Half>(self, x: f32) -> u16 {
        let bits = half::from_single::<H>(x, self.round, self.satfinite);
        if self.relu {
            half::relu::<H>(bits)
        } else {
            bits
        }
    }

    #[inline(always)]
    fn small(self, x: f32) -> u8 {
        if self.format == UE8M0 {
            small::narrow_ue8m0(x, self.round == Round::Up, self.satfinite)
        } else {
            small::narrow(x, self.format, self.relu)
        }
    }

    /// Two in 16 bits, of `e2m1` in 8.
    #[inline(always)]
    fn pair(self, high: f32, low: f32) -> u16 {
        let shift = if self.format == Format::E2M1 { 4 } else { 8 };
        u16::from(self.small(high)) << shift | u16::from(self.small(low))
    }
}

/// Marks `ue8m0`, which has neither sign nor fraction: not a [`Format`] that `soft` computes in.
const UE8M0: Format = Format {
    exponent_bits: 8,
    fraction_bits: 0,
    special: crate::arith::soft::Special::NanOnly,
};

/// The format of an element.
fn element(ty: T) -> Option<Format> {
    Some(match ty {
        T::E4M3x2 => Format::E4M3,
        T::E5M2x2 => Format::E5M2,
        T::E2M1x2 => Format::E2M1,
        T::E2M3x2 => Format::E2M3,
        T::E3M2x2 => Format::E3M2,
        T::UE8M0x2 => UE8M0,
        _ => return None,
    })
}

/// To a pair, of two `.f32` or of a pair of 16-bit values; and to `.tf32`.
fn to_packed(
    d: &mut Decoder<'_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
) -> Option<Result<Op, Unsupported>> {
    let packing = |format| Packing {
        round: round(mnemonic),
        satfinite: mnemonic.satfinite(),
        relu: mnemonic.relu(),
        format,
    };
    let halves = packing(Format::F16);
    Some(match (to, from) {
        (T::F16x2, T::F32) if near(mnemonic) => {
            d.map2(CLASS, |a: f32, b: f32| pair(F16::narrow(a), F16::narrow(b)))
        }
        (T::BF16x2, T::F32) if near(mnemonic) => d.map2(CLASS, |a: f32, b: f32| {
            pair(BF16::narrow(a), BF16::narrow(b))
        }),
        (T::F16x2, T::F32) => packed2(d, halves, |p, a: f32, b: f32| {
            pair(p.half::<F16>(a), p.half::<F16>(b))
        }),
        (T::BF16x2, T::F32) => packed2(d, halves, |p, a: f32, b: f32| {
            pair(p.half::<BF16>(a), p.half::<BF16>(b))
        }),
        (T::TF32, T::F32) if mnemonic.rounding() == Some(Rounding::NearestAway) => {
            by_flag!(mnemonic.satfinite(), SAT => d.map1(CLASS, |x: f32| small::tf32_away(x, SAT)))
        }
        (T::TF32, T::F32) => packed1(d, halves, |p, x: f32| {
            small::tf32(x, p.round == Round::Zero, p.satfinite, p.relu)
        }),
        (_, T::F32) => packed2(d, packing(element(to)?), |p, a: f32, b: f32| p.pair(a, b)),
        (_, T::F16x2) => packed1(d, packing(element(to)?), |p, x: u32| {
            p.pair(F16::widen(high(x)), F16::widen(low(x)))
        }),
        (_, T::BF16x2) => packed1(d, packing(element(to)?), |p, x: u32| {
            p.pair(BF16::widen(high(x)), BF16::widen(low(x)))
        }),
        _ => return None,
    })
}

/// From a pair of small values to `.f16x2`, and of `ue8m0` to `.bf16x2`. All of these are exact.
fn from_packed(
    d: &mut Decoder<'_>,
    mnemonic: &Mnemonic,
    to: T,
    from: T,
) -> Option<Result<Op, Unsupported>> {
    let format = element(from)?;
    let packing = Packing {
        round: Round::NearestEven,
        satfinite: false,
        relu: mnemonic.relu(),
        format,
    };
    Some(match to {
        T::BF16x2 if format == UE8M0 => d.map1(CLASS, |x: u16| {
            pair(
                small::widen_ue8m0((x >> 8) as u8),
                small::widen_ue8m0(x as u8),
            )
        }),
        T::F16x2 if format != UE8M0 => packed1(d, packing, |p, x: u16| {
            let shift = if p.format == Format::E2M1 { 4 } else { 8 };
            let wide = |bits| p.half::<F16>(small::widen(bits, p.format));
            pair(wide((x >> shift) as u8), wide(x as u8))
        }),
        _ => return None,
    })
}

/// An operation of one source with a [`Packing`].
fn packed1<A, D, F>(d: &mut Decoder<'_>, packing: Packing, _: F) -> Result<Op, Unsupported>
where
    A: super::Lane,
    D: super::Lane,
    F: Fn(Packing, A) -> D + Copy + 'static,
{
    let mut op = d.op::<Packed1<F, A, D>>(CLASS);
    op.a = d.src::<A>(1)?;
    op.d = d.dst::<D>(0)?;
    d.record(&mut op, packing);
    Ok(op)
}

/// An operation of two sources with a [`Packing`].
fn packed2<A, D, F>(d: &mut Decoder<'_>, packing: Packing, _: F) -> Result<Op, Unsupported>
where
    A: super::Lane,
    D: super::Lane,
    F: Fn(Packing, A, A) -> D + Copy + 'static,
{
    let mut op = d.op::<Packed2<F, A, D>>(CLASS);
    op.a = d.src::<A>(1)?;
    op.b = d.src::<A>(2)?;
    op.d = d.dst::<D>(0)?;
    d.record(&mut op, packing);
    Ok(op)
}

struct Packed1<F, A, D>(std::marker::PhantomData<(F, A, D)>);

struct Packed2<F, A, D>(std::marker::PhantomData<(F, A, D)>);

impl<F, A, D> super::Body for Packed1<F, A, D>
where
    A: super::Lane,
    D: super::Lane,
    F: Fn(Packing, A) -> D + Copy + 'static,
{
    #[inline(always)]
    fn run(warp: &mut crate::block::Warp, op: &Op, mask: u32) -> Flow {
        let packing = *warp.data::<Packing>(op);
        let f = super::Zst::<F>::get();
        warp.map1(op, mask, |a: A| f(packing, a))
    }
}

impl<F, A, D> super::Body for Packed2<F, A, D>
where
    A: super::Lane,
    D: super::Lane,
    F: Fn(Packing, A, A) -> D + Copy + 'static,
{
    #[inline(always)]
    fn run(warp: &mut crate::block::Warp, op: &Op, mask: u32) -> Flow {
        let packing = *warp.data::<Packing>(op);
        let f = super::Zst::<F>::get();
        warp.map2(op, mask, |a: A, b: A| f(packing, a, b))
    }
}

/// `cvt.pack.sat`: two integers clamped side by side, in front of what the third operand has.
fn pack(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let to = mnemonic
        .ty()
        .ok_or_else(|| Unsupported::new("cvt.pack without a type"))?;
    let mut op = d.whole(CLASS, |warp, op, mask| {
        let (bits, signed) = *warp.data::<(u32, bool)>(op);
        let field = |x: i32| {
            let clamped = convert::clamp_integer(x.into(), bits, signed);
            clamped as u32 & ((1 << bits) - 1)
        };
        warp.map3(op, mask, |a: i32, b: i32, c: u32| {
            let rest = c.checked_shl(2 * bits).unwrap_or(0);
            rest | field(a) << bits | field(b)
        })
    });
    op.a = d.src::<i32>(1)?;
    op.b = d.src::<i32>(2)?;
    op.c = if d.operand_count() > 3 {
        d.src::<u32>(3)?
    } else {
        d.number(0, 4)
    };
    op.d = d.dst::<u32>(0)?;
    d.record(&mut op, (to.bits(), to.is_signed()));
    Ok(op)
}
