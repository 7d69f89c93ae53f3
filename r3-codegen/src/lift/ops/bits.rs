//! Logic, shifts, permutations, and what counts or finds bits.

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{BasicValueEnum, InstructionOpcode, IntValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;

use super::integer::{call, int_type, set_call};
use super::lop3;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    use Opcode as O;
    Some(match opcode {
        O::And | O::Or | O::Xor => logic,
        O::Not | O::Cnot => not,
        O::Lop3 => three_inputs,
        O::Shl | O::Shr => shift,
        O::Shf => funnel_shift,
        O::Prmt => permute,
        O::Popc | O::Clz | O::Brev => count,
        O::Bfind => find,
        O::Fns | O::Bmsk | O::Szext => others,
        O::Bfe => extract,
        O::Bfi => insert,
        _ => return None,
    })
}

/// Bits of an operand of logic; a predicate has one.
fn width(mnemonic: &Mnemonic) -> Option<(ScalarType, u32)> {
    let ty = mnemonic.ty()?;
    Some((ty, ty.bits()))
}

/// Reads an operand of logic.
fn read<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
    ty: ScalarType,
) -> Result<IntValue<'ctx>, LiftError> {
    match ty {
        ScalarType::Pred => lifter.predicate(operand),
        _ => lifter.integer(operand, ty.bits()),
    }
}

fn logic<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, _)), [d, a, b]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let (a, b) = (read(lifter, a, ty)?, read(lifter, b, ty)?);
    if touches_sign(a, b) || touches_sign(b, a) {
        return Ok(false);
    }
    let result = lifter.build(|x| match mnemonic.opcode() {
        Opcode::And => x.build_and(a, b, ""),
        Opcode::Or => x.build_or(a, b, ""),
        _ => x.build_xor(a, b, ""),
    })?;
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}

/// Whether a mask takes or changes nothing but the sign of what is a floating-point number to LLVM. It would make that an
/// `fneg` or `fabs`, which on this target is arithmetic: of a NaN the other bits change.
fn touches_sign(value: IntValue<'_>, mask: IntValue<'_>) -> bool {
    let float = value
        .as_instruction()
        .is_some_and(|i| i.get_opcode() == InstructionOpcode::BitCast);
    let Some(mask) = mask.get_zero_extended_constant().filter(|_| float) else {
        return false;
    };
    let bits = value.get_type().get_bit_width();
    // Also the signs of packed halves.
    let sign = match bits {
        16 => 0x8000,
        32 => 0x8000_0000,
        _ => 1 << 63,
    };
    let pair = if bits == 32 { 0x8000_8000 } else { sign };
    let all = u64::MAX >> (64 - bits.clamp(1, 64));
    [sign, pair, all & !sign, all & !pair].contains(&mask)
}

fn not<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, bits)), [d, a]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let a = read(lifter, a, ty)?;
    let result = if mnemonic.opcode() == Opcode::Not {
        lifter.build(|x| x.build_not(a, ""))?
    } else {
        let zero = a.get_type().const_zero();
        let is_zero = lifter.build(|x| x.build_int_compare(IntPredicate::EQ, a, zero, ""))?;
        let wide = int_type(lifter, bits);
        lifter.build(|x| x.build_int_z_extend(is_zero, wide, ""))?
    };
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}

/// `lop3`, where the table is a formula of at most three operations, and its form with a predicate.
fn three_inputs<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let [d, a, b, c, Operand::Number(table), rest @ ..] = operands else {
        return Ok(false);
    };
    let Some(formula) = lop3::formula((*table & 0xff) as u8) else {
        return Ok(false);
    };
    let inputs = [
        lifter.integer(a, 32)?,
        lifter.integer(b, 32)?,
        lifter.integer(c, 32)?,
    ];
    // The masks come with their complements, which a formula may take.
    let any_float = inputs
        .iter()
        .any(|&value| inputs.iter().any(|&mask| touches_sign(value, mask)));
    if any_float {
        return Ok(false);
    }
    let result = lop3::build(lifter, formula, inputs)?;
    let Some(boolean) = mnemonic.boolean() else {
        lifter.set(d, result.into(), ScalarType::B32)?;
        return Ok(true);
    };
    let ([with], Operand::Pair(first)) = (rest, d) else {
        return Ok(false);
    };
    let body = lifter.body;
    let [d, p] = body.list(*first, 2) else {
        return Ok(false);
    };
    let with = lifter.predicate(with)?;
    let zero = result.get_type().const_zero();
    let some = lifter.build(|x| x.build_int_compare(IntPredicate::NE, result, zero, ""))?;
    let combined = super::compare::combine(lifter, some, Some((boolean, with)))?;
    lifter.set(p, combined.into(), ScalarType::Pred)?;
    lifter.set(d, result.into(), ScalarType::B32)?;
    Ok(true)
}

/// A count of at least the width leaves nothing, or the sign. LLVM has no result for it, so the shift is guarded; it finds the
/// one instruction again.
fn shift<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, bits)), [d, a, n]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let a = lifter.integer(a, bits)?;
    let count = lifter.integer(n, 32)?;
    let constant = count.get_zero_extended_constant();
    if constant.is_none() && bits == 16 {
        // This one it does not find again.
        return Ok(false);
    }
    let wide = a.get_type();
    let limit = u64::from(bits);
    let left = mnemonic.opcode() == Opcode::Shl;
    let by = |by: IntValue<'ctx>| {
        lifter.build(|x| match left {
            true => x.build_left_shift(a, by, ""),
            false => x.build_right_shift(a, by, ty.is_signed(), ""),
        })
    };
    let result = match constant {
        Some(n) if n < limit => by(wide.const_int(n, false))?,
        Some(_) if !left && ty.is_signed() => by(wide.const_int(limit - 1, false))?,
        Some(_) => wide.const_zero(),
        None if !left && ty.is_signed() => {
            let most = count.get_type().const_int(limit - 1, false);
            let Some(clamped) = call(lifter, "llvm.umin", count, &[count.into(), most.into()])?
            else {
                return Ok(false);
            };
            let clamped = resize(lifter, clamped.into_int_value(), bits)?;
            lifter.build(|x| x.build_right_shift(a, clamped, true, ""))?
        }
        None => {
            let limit = count.get_type().const_int(limit, false);
            let inside =
                lifter.build(|x| x.build_int_compare(IntPredicate::ULT, count, limit, ""))?;
            let by = resize(lifter, count, bits)?;
            let shifted = lifter.build(|x| match left {
                true => x.build_left_shift(a, by, ""),
                false => x.build_right_shift(a, by, false, ""),
            })?;
            let zero = wide.const_zero();
            lifter
                .build(|x| x.build_select(inside, shifted, zero, ""))?
                .into_int_value()
        }
    };
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}

/// Zero-extended or cut to so many bits.
fn resize<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    value: IntValue<'ctx>,
    bits: u32,
) -> Result<IntValue<'ctx>, LiftError> {
    let wanted = int_type(lifter, bits);
    let have = value.get_type().get_bit_width();
    match have.cmp(&bits) {
        std::cmp::Ordering::Equal => Ok(value),
        std::cmp::Ordering::Less => lifter.build(|x| x.build_int_z_extend(value, wanted, "")),
        std::cmp::Ordering::Greater => lifter.build(|x| x.build_int_truncate(value, wanted, "")),
    }
}

fn funnel_shift<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let [d, a, b, n] = operands else {
        return Ok(false);
    };
    // The high half comes first in LLVM.
    let low = lifter.integer(a, 32)?;
    let high = lifter.integer(b, 32)?;
    let count = lifter.integer(n, 32)?;
    let name = match (mnemonic.has(Word::L), mnemonic.has(Word::Wrap)) {
        (true, true) => "llvm.fshl",
        (false, true) => "llvm.fshr",
        (true, false) => "llvm.nvvm.fshl.clamp",
        (false, false) => "llvm.nvvm.fshr.clamp",
    };
    let ty = low.get_type().as_basic_type_enum();
    let arguments = [high.into(), low.into(), count.into()];
    set_call(lifter, name, &[ty], &arguments, d, ScalarType::B32)
}

fn permute<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let [d, a, b, c] = operands else {
        return Ok(false);
    };
    // In LLVM the modes that take their bytes from one operand have two.
    let modes = [
        Word::F4e,
        Word::B4e,
        Word::Rc8,
        Word::Ecl,
        Word::Ecr,
        Word::Rc16,
    ];
    if mnemonic.any_of(&modes).is_some() {
        return Ok(false);
    }
    let a = lifter.integer(a, 32)?.into();
    let b = lifter.integer(b, 32)?.into();
    let c = lifter.integer(c, 32)?.into();
    set_call(
        lifter,
        "llvm.nvvm.prmt",
        &[],
        &[a, b, c],
        d,
        ScalarType::B32,
    )
}

/// `popc`, `clz`, `brev`
fn count<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, bits)), [d, a]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let a = lifter.integer(a, bits)?;
    // `false`: the count of 0 is defined.
    let defined = lifter.context.bool_type().const_zero();
    let result = match mnemonic.opcode() {
        Opcode::Popc => call(lifter, "llvm.ctpop", a, &[a.into()])?,
        Opcode::Clz => call(lifter, "llvm.ctlz", a, &[a.into(), defined.into()])?,
        _ => {
            return match call(lifter, "llvm.bitreverse", a, &[a.into()])? {
                Some(result) => {
                    lifter.set(d, result, ty)?;
                    Ok(true)
                }
                None => Ok(false),
            };
        }
    };
    let Some(result) = result else {
        return Ok(false);
    };
    let result = resize(lifter, result.into_int_value(), 32)?;
    lifter.set(d, result.into(), ScalarType::U32)?;
    Ok(true)
}

/// `bfind`
fn find<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, bits)), [d, a]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let a = lifter.integer(a, bits)?;
    let amount = lifter.context.bool_type();
    let amount = amount.const_int(mnemonic.has(Word::Shiftamt).into(), false);
    let name = match ty.is_signed() {
        true => "llvm.nvvm.flo.s",
        false => "llvm.nvvm.flo.u",
    };
    let overloads = [a.get_type().as_basic_type_enum()];
    let arguments = [a.into(), amount.into()];
    set_call(lifter, name, &overloads, &arguments, d, ScalarType::U32)
}

/// `fns`, `bmsk`, `szext`
fn others<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let [d, rest @ ..] = operands else {
        return Ok(false);
    };
    let signed = mnemonic.ty().is_some_and(ScalarType::is_signed);
    let wrap = mnemonic.has(Word::Wrap);
    let name = match (mnemonic.opcode(), wrap, signed) {
        (Opcode::Fns, ..) => "llvm.nvvm.fns",
        (Opcode::Bmsk, true, _) => "llvm.nvvm.bmsk.wrap",
        (Opcode::Bmsk, false, _) => "llvm.nvvm.bmsk.clamp",
        (_, true, true) => "llvm.nvvm.sext.wrap",
        (_, false, true) => "llvm.nvvm.sext.clamp",
        (_, true, false) => "llvm.nvvm.zext.wrap",
        (_, false, false) => "llvm.nvvm.zext.clamp",
    };
    let mut arguments: Vec<BasicValueEnum<'ctx>> = Vec::with_capacity(rest.len());
    for operand in rest {
        arguments.push(lifter.integer(operand, 32)?.into());
    }
    set_call(lifter, name, &[], &arguments, d, ScalarType::B32)
}

/// Place and length of a field, where both are constants. The 32-bit forms look at 8 bits of them.
fn field<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    place: &Operand,
    length: &Operand,
    bits: u32,
) -> Result<Option<(u64, u64)>, LiftError> {
    let place = lifter.integer(place, 32)?.get_zero_extended_constant();
    let length = lifter.integer(length, 32)?.get_zero_extended_constant();
    let few = if bits == 32 { 255 } else { u64::MAX };
    Ok(place.zip(length).map(|(p, l)| (p & few, l & few)))
}

/// The low bits of a word.
fn ones(length: u64) -> u64 {
    match length {
        0..64 => (1 << length) - 1,
        _ => u64::MAX,
    }
}

/// `bfe` of a constant field.
fn extract<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, bits)), [d, a, place, length]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let Some((place, length)) = field(lifter, place, length, bits)? else {
        return Ok(false);
    };
    let a = lifter.integer(a, bits)?;
    let wide = a.get_type();
    let number = |n: u64| wide.const_int(n, false);
    let bits = u64::from(bits);
    let result = if ty.is_signed() {
        if length == 0 {
            wide.const_zero()
        } else {
            // Up to the top, then down with the sign.
            let top = (place.saturating_add(length - 1)).min(bits - 1);
            let up = bits - 1 - top;
            let down = (up + place).min(bits - 1);
            let raised = lifter.build(|x| x.build_left_shift(a, number(up), ""))?;
            lifter.build(|x| x.build_right_shift(raised, number(down), true, ""))?
        }
    } else if place >= bits {
        wide.const_zero()
    } else {
        let lowered = lifter.build(|x| x.build_right_shift(a, number(place), false, ""))?;
        lifter.build(|x| x.build_and(lowered, number(ones(length.min(bits))), ""))?
    };
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}

/// `bfi` of a constant field.
fn insert<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some((ty, bits)), [d, a, b, place, length]) = (width(mnemonic), operands) else {
        return Ok(false);
    };
    let Some((place, length)) = field(lifter, place, length, bits)? else {
        return Ok(false);
    };
    let (a, b) = (lifter.integer(a, bits)?, lifter.integer(b, bits)?);
    let wide = a.get_type();
    let result = if place >= u64::from(bits) {
        b
    } else {
        let mask = (ones(length) << place) & ones(bits.into());
        let mask = wide.const_int(mask, false);
        let by = wide.const_int(place, false);
        let moved = lifter.build(|x| x.build_left_shift(a, by, ""))?;
        let inside = lifter.build(|x| x.build_and(moved, mask, ""))?;
        let outside = lifter.build(|x| x.build_and(b, mask.const_not(), ""))?;
        lifter.build(|x| x.build_or(inside, outside, ""))?
    };
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}
