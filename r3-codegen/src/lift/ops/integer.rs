//! Integer arithmetic without carries.
//!
//! What overflows wraps, so nothing here has `nsw` or `nuw` but the products of `.wide`, which cannot overflow. A division by
//! a register stays an instruction of the assembler: PTX gives division by 0 a result, LLVM does not.

use inkwell::types::BasicType;
use inkwell::values::{BasicValueEnum, IntValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;

use super::{float, packed, special};
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family. Those that floating-point numbers have too go on to [`float`] and [`packed`] by their
/// type.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    use Opcode as O;
    Some(match opcode {
        O::Add | O::Sub | O::Mul | O::Mad | O::Div | O::Rem | O::Abs | O::Neg | O::Min | O::Max => {
            arithmetic
        }
        O::Mul24 | O::Mad24 => multiply_24,
        O::Sad => absolute_difference,
        O::Dp4a | O::Dp2a => dot_product,
        _ => return None,
    })
}

fn arithmetic<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    use Opcode as O;
    let Some(ty) = mnemonic.ty() else {
        return Ok(false);
    };
    if ty.is_float() {
        return match ty {
            ScalarType::F32 | ScalarType::F64 if special::is_approximate(mnemonic) => {
                special::lift(lifter, mnemonic, operands)
            }
            ScalarType::F32 | ScalarType::F64 => float::lift(lifter, mnemonic, operands),
            _ => packed::halves(lifter, mnemonic, operands),
        };
    }
    if ty.lanes() > 1 {
        return packed::integers(lifter, mnemonic, operands, ty);
    }
    if mnemonic.sat() {
        return Ok(false);
    }
    match (mnemonic.opcode(), operands) {
        (O::Mul, [d, a, b]) => {
            let (product, to) = product(lifter, mnemonic, ty, a, b)?;
            lifter.set(d, product.into(), to)?;
        }
        (O::Mad, [d, a, b, c]) => {
            let (product, to) = product(lifter, mnemonic, ty, a, b)?;
            let c = lifter.integer(c, to.bits())?;
            let sum = lifter.build(|x| x.build_int_add(product, c, ""))?;
            lifter.set(d, sum.into(), to)?;
        }
        (O::Div | O::Rem, [d, a, b]) => return divide(lifter, mnemonic, ty, d, a, b),
        (O::Abs, [d, a]) => {
            let a = lifter.integer(a, ty.bits())?;
            // An absolute value that does not fit wraps; it is not poison.
            let wraps = lifter.context.bool_type().const_zero();
            let Some(result) = call(lifter, "llvm.abs", a, &[a.into(), wraps.into()])? else {
                return Ok(false);
            };
            lifter.set(d, result, ty)?;
        }
        (O::Neg, [d, a]) => {
            let a = lifter.integer(a, ty.bits())?;
            let result = lifter.build(|x| x.build_int_neg(a, ""))?;
            lifter.set(d, result.into(), ty)?;
        }
        (opcode, [d, a, b]) => {
            let a = lifter.integer(a, ty.bits())?;
            let b = lifter.integer(b, ty.bits())?;
            let result: BasicValueEnum<'ctx> = match opcode {
                O::Add => lifter.build(|x| x.build_int_add(a, b, ""))?.into(),
                O::Sub => lifter.build(|x| x.build_int_sub(a, b, ""))?.into(),
                O::Min | O::Max => {
                    let name = extremum(opcode == O::Max, ty.is_signed());
                    let Some(chosen) = call(lifter, name, a, &[a.into(), b.into()])? else {
                        return Ok(false);
                    };
                    if mnemonic.relu() {
                        let chosen = chosen.into_int_value();
                        let zero = chosen.get_type().const_zero();
                        let arguments = [chosen.into(), zero.into()];
                        match call(lifter, "llvm.smax", chosen, &arguments)? {
                            Some(chosen) => chosen,
                            None => return Ok(false),
                        }
                    } else {
                        chosen
                    }
                }
                _ => return Ok(false),
            };
            lifter.set(d, result, ty)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// LLVM's name of a minimum or maximum of integers.
pub(super) fn extremum(greater: bool, signed: bool) -> &'static str {
    match (greater, signed) {
        (false, false) => "llvm.umin",
        (false, true) => "llvm.smin",
        (true, false) => "llvm.umax",
        (true, true) => "llvm.smax",
    }
}

/// Calls an intrinsic that is overloaded by the type of a value.
pub(super) fn call<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    name: &str,
    of: IntValue<'ctx>,
    arguments: &[BasicValueEnum<'ctx>],
) -> Result<Option<BasicValueEnum<'ctx>>, LiftError> {
    let ty = of.get_type().as_basic_type_enum();
    lifter.intrinsic(name, &[ty], arguments)
}

/// An integer extended by its sign, or by zeros.
pub(super) fn extend<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    value: IntValue<'ctx>,
    bits: u32,
    signed: bool,
) -> Result<IntValue<'ctx>, LiftError> {
    let wide = int_type(lifter, bits);
    lifter.build(|x| match signed {
        true => x.build_int_s_extend(value, wide, ""),
        false => x.build_int_z_extend(value, wide, ""),
    })
}

/// The integer type of so many bits.
pub(super) fn int_type<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    bits: u32,
) -> inkwell::types::IntType<'ctx> {
    lifter.globals.types.int(lifter.context, bits)
}

/// The part of a product that `.lo`, `.hi` or `.wide` says, and its type.
fn product<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    ty: ScalarType,
    a: &Operand,
    b: &Operand,
) -> Result<(IntValue<'ctx>, ScalarType), LiftError> {
    let (a, b) = (lifter.integer(a, ty.bits())?, lifter.integer(b, ty.bits())?);
    let (high, wide) = (mnemonic.has(Word::Hi), mnemonic.has(Word::Wide));
    if !high && !wide {
        let low = lifter.build(|x| x.build_int_mul(a, b, ""))?;
        return Ok((low, ty));
    }
    let signed = ty.is_signed();
    let whole = whole_product(lifter, a, b, signed)?;
    if wide {
        return Ok((whole, doubled(ty)));
    }
    let shift = whole.get_type().const_int(ty.bits().into(), false);
    let upper = lifter.build(|x| x.build_right_shift(whole, shift, false, ""))?;
    let narrow = a.get_type();
    let result = lifter.build(|x| x.build_int_truncate(upper, narrow, ""))?;
    Ok((result, ty))
}

/// The product with twice the bits.
fn whole_product<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    a: IntValue<'ctx>,
    b: IntValue<'ctx>,
    signed: bool,
) -> Result<IntValue<'ctx>, LiftError> {
    let bits = 2 * a.get_type().get_bit_width();
    let a = extend(lifter, a, bits, signed)?;
    let b = extend(lifter, b, bits, signed)?;
    lifter.build(|x| match signed {
        true => x.build_int_nsw_mul(a, b, ""),
        false => x.build_int_nuw_mul(a, b, ""),
    })
}

/// The type of a wide product.
fn doubled(ty: ScalarType) -> ScalarType {
    match ty {
        ScalarType::U16 => ScalarType::U32,
        ScalarType::S16 => ScalarType::S32,
        ScalarType::S32 => ScalarType::S64,
        _ => ScalarType::U64,
    }
}

/// By a constant that is neither 0 nor -1, LLVM's division is PTX's.
fn divide<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    ty: ScalarType,
    d: &Operand,
    a: &Operand,
    b: &Operand,
) -> Handled {
    let divisor = lifter.integer(b, ty.bits())?;
    let defined = match divisor.get_sign_extended_constant() {
        Some(0) => false,
        Some(-1) => !ty.is_signed(),
        Some(_) => true,
        None => false,
    };
    if !defined {
        return Ok(false);
    }
    let a = lifter.integer(a, ty.bits())?;
    let remainder = mnemonic.opcode() == Opcode::Rem;
    let result = lifter.build(|x| match (remainder, ty.is_signed()) {
        (false, false) => x.build_int_unsigned_div(a, divisor, ""),
        (false, true) => x.build_int_signed_div(a, divisor, ""),
        (true, false) => x.build_int_unsigned_rem(a, divisor, ""),
        (true, true) => x.build_int_signed_rem(a, divisor, ""),
    })?;
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}

/// Products of the low 24 bits: `.lo` has bits 31–0, `.hi` bits 47–16.
fn multiply_24<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some(ty), [d, a, b, rest @ ..]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    if mnemonic.sat() {
        return Ok(false);
    }
    let (a, b) = (lifter.integer(a, 32)?, lifter.integer(b, 32)?);
    let result = if mnemonic.has(Word::Hi) {
        // With both factors 8 bits further up, bits 47–16 are the upper half.
        let eight = a.get_type().const_int(8, false);
        let up = |value| lifter.build(|x| x.build_left_shift(value, eight, ""));
        let (a, b) = (up(a)?, up(b)?);
        let whole = whole_product(lifter, a, b, ty.is_signed())?;
        let half = whole.get_type().const_int(32, false);
        let upper = lifter.build(|x| x.build_right_shift(whole, half, false, ""))?;
        let narrow = a.get_type();
        lifter.build(|x| x.build_int_truncate(upper, narrow, ""))?
    } else {
        let name = match ty.is_signed() {
            true => "llvm.nvvm.mul24.i",
            false => "llvm.nvvm.mul24.ui",
        };
        match lifter.intrinsic(name, &[], &[a.into(), b.into()])? {
            Some(product) => product.into_int_value(),
            None => return Ok(false),
        }
    };
    let result = match rest {
        [] => result,
        [c, ..] => {
            let c = lifter.integer(c, 32)?;
            lifter.build(|x| x.build_int_add(result, c, ""))?
        }
    };
    lifter.set(d, result.into(), ty)?;
    Ok(true)
}

/// `sad`: `c + |a - b|`
fn absolute_difference<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some(ty), [d, a, b, c]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    let name = match ty {
        ScalarType::S16 => "llvm.nvvm.sad.s",
        ScalarType::U16 => "llvm.nvvm.sad.us",
        ScalarType::S32 => "llvm.nvvm.sad.i",
        ScalarType::U32 => "llvm.nvvm.sad.ui",
        ScalarType::S64 => "llvm.nvvm.sad.ll",
        ScalarType::U64 => "llvm.nvvm.sad.ull",
        _ => return Ok(false),
    };
    let a = lifter.integer(a, ty.bits())?.into();
    let b = lifter.integer(b, ty.bits())?.into();
    let c = lifter.integer(c, ty.bits())?.into();
    set_call(lifter, name, &[], &[a, b, c], d, ty)
}

/// Writes what an intrinsic gives.
pub(super) fn set_call<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    name: &str,
    overloads: &[inkwell::types::BasicTypeEnum<'ctx>],
    arguments: &[BasicValueEnum<'ctx>],
    d: &Operand,
    ty: ScalarType,
) -> Handled {
    match lifter.intrinsic(name, overloads, arguments)? {
        Some(result) => {
            lifter.set(d, result, ty)?;
            Ok(true)
        }
        None => Ok(false),
    }
}

/// `dp4a`, `dp2a`
fn dot_product<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (&[a_type, b_type], [d, a, b, c]) = (mnemonic.types(), operands) else {
        return Ok(false);
    };
    let four = mnemonic.opcode() == Opcode::Dp4a;
    let name = match (four, a_type.is_signed(), b_type.is_signed()) {
        (true, true, true) => "llvm.nvvm.idp4a.s.s",
        (true, true, false) => "llvm.nvvm.idp4a.s.u",
        (true, false, true) => "llvm.nvvm.idp4a.u.s",
        (true, false, false) => "llvm.nvvm.idp4a.u.u",
        (false, true, true) => "llvm.nvvm.idp2a.s.s",
        (false, true, false) => "llvm.nvvm.idp2a.s.u",
        (false, false, true) => "llvm.nvvm.idp2a.u.s",
        (false, false, false) => "llvm.nvvm.idp2a.u.u",
    };
    let a = lifter.integer(a, 32)?.into();
    let b = lifter.integer(b, 32)?.into();
    let c = lifter.integer(c, 32)?.into();
    let high = lifter.context.bool_type();
    let high = high.const_int(mnemonic.has(Word::Hi).into(), false).into();
    let arguments = [a, b, high, c];
    let without = [a, b, c];
    let arguments: &[BasicValueEnum<'ctx>] = if four { &without } else { &arguments };
    set_call(lifter, name, &[], arguments, d, ScalarType::S32)
}
