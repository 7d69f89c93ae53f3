//! Comparisons and selections: `setp`, `set`, `selp`, `slct`.

use inkwell::values::{BasicValueEnum, IntValue};
use inkwell::{FloatPredicate as F, IntPredicate as I};
use r3_ptx::isa::{Boolean, Comparison, Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;

use super::float::folds_otherwise;
use super::packed;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    Some(match opcode {
        Opcode::Setp => set_predicate,
        Opcode::Set => set_value,
        Opcode::Selp => select,
        Opcode::Slct => select_by_sign,
        _ => return None,
    })
}

/// The type that is compared: the last of the text.
fn source_type(mnemonic: &Mnemonic) -> ScalarType {
    mnemonic.types().last().copied().unwrap_or(ScalarType::B32)
}

/// The relation. `.lo` and `.hi` are also halves of products, so they are words of their own.
fn relation(mnemonic: &Mnemonic) -> Option<Comparison> {
    mnemonic
        .comparison()
        .or_else(|| match mnemonic.any_of(&[Word::Lo, Word::Hi])? {
            Word::Lo => Some(Comparison::Lo),
            _ => Some(Comparison::Hi),
        })
}

fn of_integers(relation: Comparison, signed: bool) -> Option<I> {
    use Comparison as C;
    Some(match (relation, signed) {
        (C::Eq, _) => I::EQ,
        (C::Ne, _) => I::NE,
        (C::Lt, true) => I::SLT,
        (C::Le, true) => I::SLE,
        (C::Gt, true) => I::SGT,
        (C::Ge, true) => I::SGE,
        (C::Lt | C::Lo, _) => I::ULT,
        (C::Le | C::Ls, _) => I::ULE,
        (C::Gt | C::Hi, _) => I::UGT,
        (C::Ge | C::Hs, _) => I::UGE,
        _ => return None,
    })
}

fn of_floats(relation: Comparison) -> F {
    use Comparison as C;
    match relation {
        C::Eq => F::OEQ,
        C::Ne => F::ONE,
        C::Lt | C::Lo => F::OLT,
        C::Le | C::Ls => F::OLE,
        C::Gt | C::Hi => F::OGT,
        C::Ge | C::Hs => F::OGE,
        C::Equ => F::UEQ,
        C::Neu => F::UNE,
        C::Ltu => F::ULT,
        C::Leu => F::ULE,
        C::Gtu => F::UGT,
        C::Geu => F::UGE,
        C::Num => F::ORD,
        C::Nan => F::UNO,
    }
}

/// The results of a comparison: of a packed type the low half's and the high half's, else one.
struct Compared<'ctx> {
    low: IntValue<'ctx>,
    high: Option<IntValue<'ctx>>,
}

/// Compares; `None` where LLVM flushes otherwise than the instruction.
fn compare<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    a: &Operand,
    b: &Operand,
) -> Result<Option<Compared<'ctx>>, LiftError> {
    let ty = source_type(mnemonic);
    let Some(relation) = relation(mnemonic) else {
        return Ok(None);
    };
    if !ty.is_float() {
        let Some(predicate) = of_integers(relation, ty.is_signed()) else {
            return Ok(None);
        };
        let (a, b) = (lifter.integer(a, ty.bits())?, lifter.integer(b, ty.bits())?);
        let low = lifter.build(|x| x.build_int_compare(predicate, a, b, ""))?;
        return Ok(Some(Compared { low, high: None }));
    }
    // LLVM takes the function's word on `.f32` for 16-bit formats too.
    if ty != ScalarType::F64 && !lifter.mode.plain_flushes(mnemonic.ftz()) {
        return Ok(None);
    }
    let predicate = of_floats(relation);
    if ty.lanes() == 1 {
        let (a, b) = (lifter.float(a, ty)?, lifter.float(b, ty)?);
        if mnemonic.ftz() && folds_otherwise(&[a.into(), b.into()], true) {
            return Ok(None);
        }
        let low = lifter.build(|x| x.build_float_compare(predicate, a, b, ""))?;
        return Ok(Some(Compared { low, high: None }));
    }
    let Some(vector) = packed::vector_type(lifter, ty) else {
        return Ok(None);
    };
    let a = packed::vector(lifter, a, vector)?;
    let b = packed::vector(lifter, b, vector)?;
    if mnemonic.ftz() && folds_otherwise(&[a.into(), b.into()], true) {
        return Ok(None);
    }
    let both = lifter.build(|x| x.build_float_compare(predicate, a, b, ""))?;
    Ok(Some(Compared {
        low: packed::element(lifter, both, 0)?.into_int_value(),
        high: Some(packed::element(lifter, both, 1)?.into_int_value()),
    }))
}

/// A result combined with the predicate that `.and.` … names.
pub(super) fn combine<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    value: IntValue<'ctx>,
    with: Option<(Boolean, IntValue<'ctx>)>,
) -> Result<IntValue<'ctx>, LiftError> {
    let Some((boolean, with)) = with else {
        return Ok(value);
    };
    lifter.build(|x| match boolean {
        Boolean::And => x.build_and(value, with, ""),
        Boolean::Or => x.build_or(value, with, ""),
        Boolean::Xor => x.build_xor(value, with, ""),
    })
}

/// The predicate of `.and.` …, if the mnemonic has such a word.
fn with<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    rest: &[Operand],
) -> Result<Option<(Boolean, IntValue<'ctx>)>, LiftError> {
    match (mnemonic.boolean(), rest) {
        (Some(boolean), [operand, ..]) => Ok(Some((boolean, lifter.predicate(operand)?))),
        _ => Ok(None),
    }
}

/// `setp`: of plain types the second destination is the opposite, combined likewise.
fn set_predicate<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let [to, a, b, rest @ ..] = operands else {
        return Ok(false);
    };
    let Some(compared) = compare(lifter, mnemonic, a, b)? else {
        return Ok(false);
    };
    let with = with(lifter, mnemonic, rest)?;
    let first = combine(lifter, compared.low, with)?;
    let Operand::Pair(index) = to else {
        lifter.set(to, first.into(), ScalarType::Pred)?;
        return Ok(true);
    };
    let body = lifter.body;
    let [p, q] = body.list(*index, 2) else {
        return Ok(false);
    };
    let second = match compared.high {
        Some(high) => high,
        None => lifter.build(|x| x.build_not(compared.low, ""))?,
    };
    let second = combine(lifter, second, with)?;
    // Where both are the same register, the first stays.
    lifter.set(q, second.into(), ScalarType::Pred)?;
    lifter.set(p, first.into(), ScalarType::Pred)?;
    Ok(true)
}

/// `set`: all ones, or 1, for true.
fn set_value<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some(ty), [d, a, b, rest @ ..]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    let from = source_type(mnemonic);
    if from.is_float() && from.lanes() == 2 {
        return Ok(false);
    }
    let Some(compared) = compare(lifter, mnemonic, a, b)? else {
        return Ok(false);
    };
    let with = with(lifter, mnemonic, rest)?;
    let truth = combine(lifter, compared.low, with)?;
    let one = match ty {
        ScalarType::F32 => 0x3f80_0000,
        ScalarType::F16 => 0x3c00,
        ScalarType::BF16 => 0x3f80,
        _ => u64::MAX >> (64 - ty.bits()),
    };
    let one = lifter.constant(one, ty);
    let zero = lifter.constant(0, ty);
    let value = lifter.build(|x| x.build_select(truth, one, zero, ""))?;
    lifter.set(d, value, ty)?;
    Ok(true)
}

/// `selp d, a, b, p`
fn select<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some(ty), [d, a, b, p]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    let a = lifter.value(a, ty)?;
    let b = lifter.value(b, ty)?;
    let p = lifter.predicate(p)?;
    let value: BasicValueEnum<'ctx> = lifter.build(|x| x.build_select(p, a, b, ""))?;
    lifter.set(d, value, ty)?;
    Ok(true)
}

/// `slct d, a, b, c`: `a` where `c` is at least 0.
fn select_by_sign<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (&[ty, by], [d, a, b, c]) = (mnemonic.types(), operands) else {
        return Ok(false);
    };
    // A negative subnormal number is at least 0 once it is flushed.
    if by == ScalarType::F32 && !lifter.mode.plain_flushes(mnemonic.ftz()) {
        return Ok(false);
    }
    let a = lifter.value(a, ty)?;
    let b = lifter.value(b, ty)?;
    let at_least = if by == ScalarType::F32 {
        let c = lifter.float(c, by)?;
        if mnemonic.ftz() && folds_otherwise(&[c.into()], true) {
            return Ok(false);
        }
        let zero = c.get_type().const_zero();
        lifter.build(|x| x.build_float_compare(F::OGE, c, zero, ""))?
    } else {
        let c = lifter.integer(c, 32)?;
        let zero = c.get_type().const_zero();
        lifter.build(|x| x.build_int_compare(I::SGE, c, zero, ""))?
    };
    let value = lifter.build(|x| x.build_select(at_least, a, b, ""))?;
    lifter.set(d, value, ty)?;
    Ok(true)
}
