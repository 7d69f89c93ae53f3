//! `.f32` and `.f64`: arithmetic, extremes, tests. The functions are in [`arith`](crate::arith); here they get lanes.

use super::{Flow, Lane, Op, bits};
use crate::arith::single::{self, Extremum};
use crate::arith::{Property, Round, double, half};
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Rounding, ScalarType, Word};

/// Calls `$body` with `$name` a constant of the value that `$round` has. Closures in the body are then free of
/// captures, and each rounding is a handler of its own.
macro_rules! by_round {
    ($round:expr, $name:ident => $body:expr) => {
        match $round {
            $crate::arith::Round::NearestEven => {
                const $name: $crate::arith::Round = $crate::arith::Round::NearestEven;
                $body
            }
            $crate::arith::Round::NearestAway => {
                const $name: $crate::arith::Round = $crate::arith::Round::NearestAway;
                $body
            }
            $crate::arith::Round::Zero => {
                const $name: $crate::arith::Round = $crate::arith::Round::Zero;
                $body
            }
            $crate::arith::Round::Down => {
                const $name: $crate::arith::Round = $crate::arith::Round::Down;
                $body
            }
            $crate::arith::Round::Up => {
                const $name: $crate::arith::Round = $crate::arith::Round::Up;
                $body
            }
        }
    };
}
pub(super) use by_round;

/// The same for a flag.
macro_rules! by_flag {
    ($flag:expr, $name:ident => $body:expr) => {
        if $flag {
            const $name: bool = true;
            $body
        } else {
            const $name: bool = false;
            $body
        }
    };
}
pub(super) use by_flag;

/// The rounding of arithmetic and of conversions to floating-point numbers; to nearest even without one.
pub(super) fn round(mnemonic: &Mnemonic) -> Round {
    match mnemonic.rounding() {
        Some(Rounding::Zero | Rounding::ZeroInt) => Round::Zero,
        Some(Rounding::Down | Rounding::DownInt) => Round::Down,
        Some(Rounding::Up | Rounding::UpInt) => Round::Up,
        Some(Rounding::NearestAway) => Round::NearestAway,
        _ => Round::NearestEven,
    }
}

/// What `min` and `max` do besides choosing.
pub(super) fn extremum(mnemonic: &Mnemonic) -> Extremum {
    Extremum {
        greater: mnemonic.opcode() == Opcode::Max,
        nan: mnemonic.has(Word::NanResult),
        abs: mnemonic.has(Word::Abs),
        xorsign: mnemonic.has(Word::Xorsign),
        ftz: mnemonic.ftz(),
    }
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    use Opcode as O;
    // The type of the result: mixed precision names the source's behind it.
    match (mnemonic.opcode(), mnemonic.ty()?) {
        (O::Add | O::Sub | O::Mul | O::Fma | O::Mad, ScalarType::F32)
            if mnemonic.types().len() == 2 =>
        {
            Some(mixed(d, mnemonic))
        }
        (O::Add | O::Sub | O::Mul | O::Fma | O::Mad, ScalarType::F32) => Some(basic(d, mnemonic)),
        (O::Add | O::Sub | O::Mul | O::Fma | O::Mad, ScalarType::F64) => Some(wide(d, mnemonic)),
        (O::Div | O::Rcp | O::Sqrt, ScalarType::F32) if exact(mnemonic) => {
            Some(division(d, mnemonic))
        }
        (O::Div | O::Rcp | O::Sqrt, ScalarType::F64) if exact(mnemonic) => {
            Some(wide_division(d, mnemonic))
        }
        (O::Neg | O::Abs | O::Min | O::Max | O::Copysign | O::Testp, ScalarType::F32) => {
            Some(choice(d, mnemonic))
        }
        (O::Neg | O::Abs | O::Min | O::Max | O::Copysign | O::Testp, ScalarType::F64) => {
            Some(wide_choice(d, mnemonic))
        }
        _ => None,
    }
}

/// Neither `.approx` nor `.full`, nor the old forms without a word, which are approximate.
fn exact(mnemonic: &Mnemonic) -> bool {
    mnemonic.rounding().is_some()
}

/// `add sub mul fma mad` of `.f32`
fn basic(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    #[inline(always)]
    fn end(sat: bool, x: f32) -> f32 {
        if sat { single::saturate(x) } else { x }
    }
    let (class, ftz, sat) = (Class::Alu, mnemonic.ftz(), mnemonic.sat());
    by_round!(round(mnemonic), R => by_flag!(ftz, FTZ => by_flag!(sat, SAT => {
        match mnemonic.opcode() {
            Opcode::Add => {
                d.map2(class, |a: f32, b: f32| end(SAT, single::add(a, b, R, FTZ)))
            }
            Opcode::Sub => {
                d.map2(class, |a: f32, b: f32| end(SAT, single::sub(a, b, R, FTZ)))
            }
            Opcode::Mul => {
                d.map2(class, |a: f32, b: f32| end(SAT, single::mul(a, b, R, FTZ)))
            }
            _ => d.map3(class, |a: f32, b: f32, c: f32| {
                end(SAT, single::fma(a, b, c, R, FTZ))
            }),
        }
    })))
}

/// `add sub fma` of `.f32` whose first operands are `.f16` or `.bf16`: widened, which is exact.
fn mixed(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let narrow = mnemonic.types().get(1).copied();
    let wide = match narrow {
        Some(ScalarType::F16) => |d: &mut Decoder<'_>, i| widened::<half::F16>(d, i),
        Some(ScalarType::BF16) => |d: &mut Decoder<'_>, i| widened::<half::BF16>(d, i),
        _ => return Err(Unsupported::new("operands of these types")),
    };
    let first = wide(d, 1)?;
    let second = if mnemonic.opcode() == Opcode::Fma {
        Some(wide(d, 2)?)
    } else {
        None
    };
    // The operands themselves have other types than the operation's: the decoder reads the bits, which are replaced.
    let (sat, which) = (mnemonic.sat(), mnemonic.opcode());
    let mut op = by_round!(round(mnemonic), R => by_flag!(sat, SAT => match which {
        Opcode::Fma => d.whole(Class::Alu, |warp, op, mask| {
            warp.map3(op, mask, |a: f32, b: f32, c: f32| {
                let r = single::fma(a, b, c, R, false);
                if SAT { single::saturate(r) } else { r }
            })
        }),
        Opcode::Sub => d.whole(Class::Alu, |warp, op, mask| {
            warp.map2(op, mask, |a: f32, b: f32| {
                let r = single::sub(a, b, R, false);
                if SAT { single::saturate(r) } else { r }
            })
        }),
        _ => d.whole(Class::Alu, |warp, op, mask| {
            warp.map2(op, mask, |a: f32, b: f32| {
                let r = single::add(a, b, R, false);
                if SAT { single::saturate(r) } else { r }
            })
        }),
    }));
    op.a = first;
    if let Some(second) = second {
        op.b = second;
        op.c = d.src::<f32>(3)?;
    } else {
        op.b = d.src::<f32>(2)?;
    }
    op.d = d.dst::<f32>(0)?;
    Ok(op)
}

/// A temporary with a 16-bit operand as `.f32`.
fn widened<H: half::Half>(d: &mut Decoder<'_>, index: usize) -> Result<super::Slot, Unsupported> {
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        warp.map1(op, mask, |a: u16| single::canonical(H::widen(a)))
    });
    op.a = d.src::<u16>(index)?;
    op.d = d.temporary::<f32>();
    let slot = op.d;
    d.before(op);
    Ok(slot)
}

/// `add sub mul fma mad` of `.f64`
fn wide(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Double;
    by_round!(round(mnemonic), R => match mnemonic.opcode() {
        Opcode::Add => d.map2(class, |a: f64, b: f64| double::add(a, b, R)),
        Opcode::Sub => d.map2(class, |a: f64, b: f64| double::sub(a, b, R)),
        Opcode::Mul => d.map2(class, |a: f64, b: f64| double::mul(a, b, R)),
        _ => d.map3(class, |a: f64, b: f64, c: f64| double::fma(a, b, c, R)),
    })
}

/// `div rcp sqrt` of `.f32`, correctly rounded.
fn division(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let (class, ftz) = (Class::Special, mnemonic.ftz());
    by_round!(round(mnemonic), R => by_flag!(ftz, FTZ => match mnemonic.opcode() {
        Opcode::Div => d.map2(class, |a: f32, b: f32| single::div(a, b, R, FTZ)),
        Opcode::Rcp => d.map1(class, |a: f32| single::rcp(a, R, FTZ)),
        _ => d.map1(class, |a: f32| single::sqrt(a, R, FTZ)),
    }))
}

/// `div rcp sqrt` of `.f64`, correctly rounded.
fn wide_division(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Double;
    by_round!(round(mnemonic), R => match mnemonic.opcode() {
        Opcode::Div => d.map2(class, |a: f64, b: f64| double::div(a, b, R)),
        Opcode::Rcp => d.map1(class, |a: f64| double::rcp(a, R)),
        _ => d.map1(class, |a: f64| double::sqrt(a, R)),
    })
}

/// `neg abs min max copysign testp` of `.f32`
fn choice(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Alu;
    match mnemonic.opcode() {
        Opcode::Neg => by_flag!(mnemonic.ftz(), F => d.map1(class, |a: f32| single::neg(a, F))),
        Opcode::Abs => by_flag!(mnemonic.ftz(), F => d.map1(class, |a: f32| single::abs(a, F))),
        Opcode::Copysign => d.map2(class, single::copysign),
        Opcode::Testp => test(d, mnemonic, |property, a: f32| single::test(property, a)),
        _ => {
            let how = extremum(mnemonic);
            let plain = !how.nan && !how.abs && !how.xorsign;
            if d.operand_count() == 3 && plain {
                return by_flag!(how.greater, MAX => by_flag!(how.ftz, FTZ => {
                    const HOW: Extremum = Extremum {
                        greater: MAX,
                        nan: false,
                        abs: false,
                        xorsign: false,
                        ftz: FTZ,
                    };
                    d.map2(class, |a: f32, b: f32| single::extremum(a, b, HOW))
                }));
            }
            extremum_of_any(d, how)
        }
    }
}

/// The rarer forms of `min` and `max`, of three operands too: the modifiers are read at run time.
fn extremum_of_any(d: &mut Decoder<'_>, how: Extremum) -> Result<Op, Unsupported> {
    let mut op = if d.operand_count() == 3 {
        d.whole(Class::Alu, |warp, op, mask| {
            let how = *warp.data::<Extremum>(op);
            warp.map2(op, mask, |a: f32, b: f32| single::extremum(a, b, how))
        })
    } else {
        d.whole(Class::Alu, |warp, op, mask| {
            let how = *warp.data::<Extremum>(op);
            warp.map3(op, mask, |a: f32, b: f32, c: f32| {
                single::extremum(single::extremum(a, b, how), c, how)
            })
        })
    };
    op.a = d.src::<f32>(1)?;
    op.b = d.src::<f32>(2)?;
    if d.operand_count() > 3 {
        op.c = d.src::<f32>(3)?;
    }
    op.d = d.dst::<f32>(0)?;
    d.record(&mut op, how);
    Ok(op)
}

/// `neg abs min max copysign testp` of `.f64`
fn wide_choice(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Double;
    match mnemonic.opcode() {
        Opcode::Neg => d.map1(class, double::neg),
        Opcode::Abs => d.map1(class, double::abs),
        Opcode::Copysign => d.map2(class, double::copysign),
        Opcode::Testp => test(d, mnemonic, |property, a: f64| double::test(property, a)),
        Opcode::Min => d.map2(class, |a: f64, b: f64| double::extremum(a, b, false)),
        _ => d.map2(class, |a: f64, b: f64| double::extremum(a, b, true)),
    }
}

/// `testp`: a predicate of one operand.
fn test<T: Lane, F>(d: &mut Decoder<'_>, mnemonic: &Mnemonic, _: F) -> Result<Op, Unsupported>
where
    F: Fn(Property, T) -> bool + Copy + 'static,
{
    let property = [
        (Word::Finite, Property::Finite),
        (Word::Infinite, Property::Infinite),
        (Word::Number, Property::Number),
        (Word::Notanumber, Property::NotANumber),
        (Word::Normal, Property::Normal),
        (Word::Subnormal, Property::Subnormal),
    ]
    .into_iter()
    .find_map(|(word, property)| mnemonic.has(word).then_some(property))
    .ok_or_else(|| Unsupported::new("testp without a property"))?;
    let mut op = d.op::<Test<F, T>>(Class::Alu);
    op.a = d.src::<T>(1)?;
    op.d = d.dst_predicate(0)?;
    d.record(&mut op, property);
    Ok(op)
}

/// The handler of `testp`.
struct Test<F, T>(std::marker::PhantomData<(F, T)>);

impl<T: Lane, F: Fn(Property, T) -> bool + Copy + 'static> super::Body for Test<F, T> {
    #[inline(always)]
    fn run(warp: &mut crate::block::Warp, op: &Op, mask: u32) -> Flow {
        let property = *warp.data::<Property>(op);
        let test = super::Zst::<F>::get();
        let value: [T; super::LANES] = warp.get(op.a);
        let flags = value.map(|x| u8::from(test(property, x)));
        warp.set_predicate(op.d, mask, bits(&flags));
        Flow::Next
    }
}
