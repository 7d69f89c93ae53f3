//! `.f16` and `.bf16`, and two values in 32 bits: vectors of LLVM.

use inkwell::types::{BasicType, BasicTypeEnum, VectorType};
use inkwell::values::{BasicValueEnum, VectorValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};
use r3_ptx::typed::Operand;

use super::float::{
    absolute, basic, disappears, folds_otherwise, keep_two, lesser_or_greater, negate, overloaded,
};
use super::integer::{extremum, set_call};
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode: all that packed values have, others have too.
pub(crate) fn handler(_: Opcode) -> Option<Handler> {
    None
}

/// LLVM's vector for a packed type.
pub(super) fn vector_type<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    ty: ScalarType,
) -> Option<VectorType<'ctx>> {
    let types = lifter.globals.types;
    Some(match ty {
        ScalarType::F16x2 => types.half.vec_type(2),
        ScalarType::BF16x2 => types.bfloat.vec_type(2),
        ScalarType::U16x2 | ScalarType::S16x2 => types.i16.vec_type(2),
        _ => return None,
    })
}

/// A packed operand as a vector; element 0 is the low half.
pub(super) fn vector<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    operand: &Operand,
    ty: VectorType<'ctx>,
) -> Result<VectorValue<'ctx>, LiftError> {
    let bits = lifter.integer(operand, 32)?;
    if let Some(bits) = bits.get_zero_extended_constant() {
        return Ok(constant(lifter, bits, ty));
    }
    let value = lifter.build(|x| x.build_bit_cast(bits, ty, ""))?;
    Ok(value.into_vector_value())
}

/// A constant whose elements LLVM knows: it leaves a cast of 32 constant bits as it is.
fn constant<'ctx>(lifter: &Lifter<'ctx, '_>, bits: u64, ty: VectorType<'ctx>) -> VectorValue<'ctx> {
    let types = lifter.globals.types;
    let element = match ty.get_element_type() {
        BasicTypeEnum::FloatType(float) if float == types.half => ScalarType::F16,
        BasicTypeEnum::FloatType(_) => ScalarType::BF16,
        _ => ScalarType::B16,
    };
    let halves = [bits & 0xffff, bits >> 16 & 0xffff].map(|half| lifter.constant(half, element));
    match halves {
        [
            BasicValueEnum::FloatValue(low),
            BasicValueEnum::FloatValue(high),
        ] => VectorType::const_vector(&[low, high]),
        [low, high] => VectorType::const_vector(&[low.into_int_value(), high.into_int_value()]),
    }
}

/// `add sub min max` of two 16-bit integers.
pub(super) fn integers<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
    ty: ScalarType,
) -> Handled {
    use Opcode as O;
    let (Some(vector_ty), [d, a, b]) = (vector_type(lifter, ty), operands) else {
        return Ok(false);
    };
    if mnemonic.sat() {
        return Ok(false);
    }
    let (a, b) = (vector(lifter, a, vector_ty)?, vector(lifter, b, vector_ty)?);
    let overloads = [vector_ty.as_basic_type_enum()];
    match mnemonic.opcode() {
        O::Add => {
            let sum = lifter.build(|x| x.build_int_add(a, b, ""))?;
            lifter.set(d, sum.into(), ty)?;
            Ok(true)
        }
        O::Sub => {
            let difference = lifter.build(|x| x.build_int_sub(a, b, ""))?;
            lifter.set(d, difference.into(), ty)?;
            Ok(true)
        }
        opcode @ (O::Min | O::Max) => {
            let name = extremum(opcode == O::Max, ty.is_signed());
            let arguments = [a.into(), b.into()];
            if !mnemonic.relu() {
                return set_call(lifter, name, &overloads, &arguments, d, ty);
            }
            let Some(chosen) = lifter.intrinsic(name, &overloads, &arguments)? else {
                return Ok(false);
            };
            let zero = vector_ty.const_zero().into();
            set_call(lifter, "llvm.smax", &overloads, &[chosen, zero], d, ty)
        }
        _ => Ok(false),
    }
}

/// Arithmetic of `.f16`, `.bf16` and pairs of them, with no other modifier than `.rn`, `.ftz` and, of `min` and `max`, `.NaN`.
pub(super) fn halves<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
) -> Handled {
    use Opcode as O;
    let (&[ty], [d, sources @ ..]) = (mnemonic.types(), operands) else {
        return Ok(false);
    };
    let modified = mnemonic.sat() || mnemonic.relu() || mnemonic.has(Word::Oob);
    if modified || ty.bits() > 32 {
        return Ok(false);
    }
    // LLVM takes the function's word on `.f32` for `.f16` too.
    let flushes = matches!(ty, ScalarType::F16 | ScalarType::F16x2);
    let as_function = !flushes || lifter.mode.plain_flushes(mnemonic.ftz());
    let packed = vector_type(lifter, ty);
    let mut values: [BasicValueEnum<'ctx>; 3] = [lifter.llvm_type(ty).const_zero(); 3];
    let Some(used) = values.get_mut(..sources.len()) else {
        return Ok(false);
    };
    for (value, operand) in used.iter_mut().zip(sources) {
        *value = match packed {
            Some(packed) => vector(lifter, operand, packed)?.into(),
            None => lifter.value(operand, ty)?,
        };
    }
    let arguments = &*used;
    let opcode = mnemonic.opcode();
    if folds_otherwise(arguments, mnemonic.ftz()) || disappears(opcode, arguments) {
        return Ok(false);
    }
    match (opcode, arguments) {
        (O::Abs, [_]) => absolute(lifter, ty, mnemonic.ftz(), d, arguments),
        _ if !as_function => Ok(false),
        (O::Add | O::Sub | O::Mul, &[a, b]) => {
            let may_fuse = mnemonic.rounding().is_none();
            if !may_fuse && lifter.mode.mixed(ty) {
                return Ok(false);
            }
            let result: BasicValueEnum<'ctx> = match (a, b) {
                (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) => {
                    basic(lifter, opcode, a, b, may_fuse)?.into()
                }
                _ => {
                    let (mut a, mut b) = (a.into_float_value(), b.into_float_value());
                    if opcode == O::Mul && may_fuse {
                        a = keep_two(lifter, a)?;
                        b = keep_two(lifter, b)?;
                    }
                    basic(lifter, opcode, a, b, may_fuse)?.into()
                }
            };
            lifter.set(d, result, ty)?;
            Ok(true)
        }
        (O::Fma, [_, _, _]) => overloaded(lifter, "llvm.fma", ty, d, arguments),
        (O::Neg, &[a]) if !mnemonic.ftz() => {
            let result = match a {
                BasicValueEnum::VectorValue(a) => {
                    negate(lifter, a, BasicValueEnum::into_vector_value)?
                }
                a => {
                    let a = a.into_float_value();
                    negate(lifter, a, BasicValueEnum::into_float_value)?
                }
            };
            lifter.set(d, result, ty)?;
            Ok(true)
        }
        (O::Min | O::Max, [_, _]) => lesser_or_greater(lifter, mnemonic, ty, d, arguments),
        _ => Ok(false),
    }
}

/// One element of a vector.
pub(super) fn element<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    vector: VectorValue<'ctx>,
    index: u64,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let index = lifter.globals.types.i32.const_int(index, false);
    lifter.build(|x| x.build_extract_element(vector, index, ""))
}

/// LLVM's type of a packed or plain type.
pub(super) fn type_of<'ctx>(lifter: &Lifter<'ctx, '_>, ty: ScalarType) -> BasicTypeEnum<'ctx> {
    match vector_type(lifter, ty) {
        Some(vector) => vector.as_basic_type_enum(),
        None => lifter.llvm_type(ty),
    }
}
