//! Arithmetic of `.f32` and `.f64` that is exactly rounded.
//!
//! Of additions, differences and products, those without `.rn` may be fused by the assembler: they have `contract`, the
//! others have not. What LLVM's plain arithmetic would flush otherwise than the instruction, and what it would merge with one
//! that may be fused, becomes an intrinsic, which LLVM leaves alone but for constants; see [`mode`](crate::lift::mode).

use inkwell::types::{BasicType, FloatType};
use inkwell::values::{AsValueRef, BasicValueEnum, FastMathFlags, FloatValue, InstructionValue};
use r3_ptx::isa::{Mnemonic, Opcode, Rounding, ScalarType, Word};
use r3_ptx::typed::Operand;

use super::integer::set_call;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode that only floating-point numbers have.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::Fma => Some(fused),
        Opcode::Testp => Some(test),
        _ => None,
    }
}

fn fused<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    match mnemonic.ty() {
        Some(ScalarType::F32 | ScalarType::F64) => lift(lifter, mnemonic, operands),
        Some(_) => super::packed::halves(lifter, mnemonic, operands),
        None => Ok(false),
    }
}

/// Gives an instruction `contract`. A constant that was folded is none.
pub(super) fn contract(value: BasicValueEnum<'_>) {
    let instruction = match value {
        BasicValueEnum::FloatValue(value) => value.as_instruction(),
        BasicValueEnum::VectorValue(value) => {
            // SAFETY: `value` is a value of a live context.
            unsafe { is_instruction(value.as_value_ref()) }
        }
        _ => None,
    };
    if let Some(instruction) = instruction {
        // It is one of those that have flags; if not there is nothing to say.
        _ = instruction.set_fast_math_flags(FastMathFlags::AllowContract);
    }
}

/// # Safety
/// The value must be live.
unsafe fn is_instruction<'ctx>(
    value: llvm_sys::prelude::LLVMValueRef,
) -> Option<InstructionValue<'ctx>> {
    // SAFETY: the caller's promise; the value was found to be an instruction.
    unsafe {
        match llvm_sys::core::LLVMIsAInstruction(value).is_null() {
            true => None,
            false => Some(InstructionValue::new(value)),
        }
    }
}

/// Whether LLVM would take an operand for the result. It is, but for subnormal numbers that are flushed, and for NaN, of which
/// the device makes its own.
pub(super) fn disappears(opcode: Opcode, arguments: &[BasicValueEnum<'_>]) -> bool {
    let is = |test: fn(f64) -> bool| {
        let mut arguments = arguments.iter();
        arguments.any(|value| any_number(value, |n, _| test(n)))
    };
    match opcode {
        Opcode::Add | Opcode::Sub => is(|n| n == 0.0),
        Opcode::Mul | Opcode::Div => is(|n| n.abs() == 1.0),
        Opcode::Min | Opcode::Max => is(f64::is_infinite),
        Opcode::Fma | Opcode::Mad => is(|n| n.abs() == 1.0) && is(|n| n == 0.0),
        _ => false,
    }
}

/// `.rn` … in names of intrinsics.
fn rounding(mnemonic: &Mnemonic) -> Option<&'static str> {
    Some(match mnemonic.rounding()? {
        Rounding::Nearest => "rn",
        Rounding::Zero => "rz",
        Rounding::Down => "rm",
        Rounding::Up => "rp",
        _ => return None,
    })
}

/// Calls `llvm.nvvm.<operation>.<rounding>{.ftz}.{f,d}`, where there is such a one.
fn rounded<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    operation: &str,
    ty: ScalarType,
    d: &Operand,
    arguments: &[BasicValueEnum<'ctx>],
) -> Handled {
    let Some(rounding) = rounding(mnemonic) else {
        return Ok(false);
    };
    let ftz = if mnemonic.ftz() { ".ftz" } else { "" };
    let letter = if ty == ScalarType::F64 { "d" } else { "f" };
    let name = format!("llvm.nvvm.{operation}.{rounding}{ftz}.{letter}");
    set_call(lifter, &name, &[], arguments, d, ty)
}

/// All of this family of one type.
pub(super) fn lift<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    use Opcode as O;
    let (&[ty], [d, sources @ ..]) = (mnemonic.types(), operands) else {
        return Ok(false);
    };
    if mnemonic.sat() {
        return Ok(false);
    }
    let mut values = [lifter.llvm_type(ty).const_zero(); 3];
    let Some(used) = values.get_mut(..sources.len()) else {
        return Ok(false);
    };
    for (value, operand) in used.iter_mut().zip(sources) {
        *value = lifter.value(operand, ty)?;
    }
    let arguments = &*used;
    if folds_otherwise(arguments, mnemonic.ftz()) || disappears(mnemonic.opcode(), arguments) {
        return Ok(false);
    }
    let as_function = ty == ScalarType::F64 || lifter.mode.plain_flushes(mnemonic.ftz());
    let nearest = mnemonic.rounding() == Some(Rounding::Nearest);
    let opcode = mnemonic.opcode();
    match (opcode, arguments) {
        (O::Add | O::Sub | O::Mul, [a, b]) => {
            let may_fuse = mnemonic.rounding().is_none();
            // Which NaN of two comes out of `.f64` is told by their order, and LLVM changes it.
            let ordered = ty == ScalarType::F64 && opcode != O::Sub;
            let apart = ordered || lifter.mode.mixed(ty);
            let plain = as_function && (may_fuse || (nearest && !apart));
            if plain {
                let (mut a, mut b) = (a.into_float_value(), b.into_float_value());
                if opcode == O::Mul && may_fuse {
                    a = keep_two(lifter, a)?;
                    b = keep_two(lifter, b)?;
                }
                let result = basic(lifter, opcode, a, b, may_fuse)?;
                lifter.set(d, result.into(), ty)?;
                return Ok(true);
            }
            match opcode {
                O::Add => rounded(lifter, mnemonic, "add", ty, d, arguments),
                O::Mul => rounded(lifter, mnemonic, "mul", ty, d, arguments),
                _ => Ok(false),
            }
        }
        (O::Fma | O::Mad, [..]) if arguments.len() == 3 => {
            if nearest && as_function {
                return overloaded(lifter, "llvm.fma", ty, d, arguments);
            }
            rounded(lifter, mnemonic, "fma", ty, d, arguments)
        }
        (O::Div, [a, b]) => {
            let plain = nearest && as_function && !lifter.mode.approximate_root();
            if plain {
                let (a, b) = (a.into_float_value(), b.into_float_value());
                let result = lifter.build(|x| x.build_float_div(a, b, ""))?;
                lifter.set(d, result.into(), ty)?;
                return Ok(true);
            }
            rounded(lifter, mnemonic, "div", ty, d, arguments)
        }
        (O::Neg, [a]) => {
            // LLVM's changes a sign and flushes nothing.
            if mnemonic.ftz() || !as_function {
                return Ok(false);
            }
            let a = (*a).into_float_value();
            let result = negate(lifter, a, BasicValueEnum::into_float_value)?;
            lifter.set(d, result, ty)?;
            Ok(true)
        }
        (O::Abs, [_]) => absolute(lifter, ty, mnemonic.ftz(), d, arguments),
        (O::Min | O::Max, [_, _]) => {
            if !as_function {
                return Ok(false);
            }
            lesser_or_greater(lifter, mnemonic, ty, d, arguments)
        }
        _ => Ok(false),
    }
}

/// `rcp` and `sqrt`, exactly rounded.
pub(super) fn root_or_reciprocal<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    ty: ScalarType,
    d: &Operand,
    a: BasicValueEnum<'ctx>,
) -> Handled {
    if folds_otherwise(&[a], mnemonic.ftz()) {
        return Ok(false);
    }
    let root = mnemonic.opcode() == Opcode::Sqrt;
    let as_function = ty == ScalarType::F64 || lifter.mode.plain_flushes(mnemonic.ftz());
    if root && as_function && mnemonic.rounding() == Some(Rounding::Nearest) {
        return overloaded(lifter, "llvm.sqrt", ty, d, &[a]);
    }
    let operation = if root { "sqrt" } else { "rcp" };
    rounded(lifter, mnemonic, operation, ty, d, &[a])
}

/// A sum, difference or product.
pub(super) fn basic<'ctx, T>(
    lifter: &Lifter<'ctx, '_>,
    opcode: Opcode,
    a: T,
    b: T,
    may_fuse: bool,
) -> Result<T, LiftError>
where
    T: inkwell::values::FloatMathValue<'ctx> + Into<BasicValueEnum<'ctx>> + Copy,
{
    let result = lifter.build(|x| match opcode {
        Opcode::Add => x.build_float_add(a, b, ""),
        Opcode::Sub => x.build_float_sub(a, b, ""),
        _ => x.build_float_mul(a, b, ""),
    })?;
    if may_fuse {
        contract(result.into());
    }
    Ok(result)
}

/// A constant 2 that LLVM does not know: it would make a sum of the product, which an assembler cannot fuse with another.
pub(super) fn keep_two<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    value: FloatValue<'ctx>,
) -> Result<FloatValue<'ctx>, LiftError> {
    if number(value) != Some(2.0) {
        return Ok(value);
    }
    Ok(fence(lifter, value.into())?.into_float_value())
}

/// The same value, through which LLVM does not see.
fn fence<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    value: BasicValueEnum<'ctx>,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let overloads = [value.get_type()];
    let hidden = lifter.intrinsic("llvm.arithmetic.fence", &overloads, &[value])?;
    Ok(hidden.unwrap_or(value))
}

/// Whether a value is a constant.
fn is_constant(value: &BasicValueEnum<'_>) -> bool {
    // SAFETY: the value is live.
    unsafe { llvm_sys::core::LLVMIsConstant(value.as_value_ref()) != 0 }
}

/// The number that a constant is.
fn number(value: FloatValue<'_>) -> Option<f64> {
    // SAFETY: `value` is live. Other constants than numbers have no value to ask for.
    let is_number = unsafe { !llvm_sys::core::LLVMIsAConstantFP(value.as_value_ref()).is_null() };
    if !is_number {
        return None;
    }
    value.get_constant().map(|(number, _)| number)
}

/// Whether LLVM would compute something of constants otherwise than the device: it knows neither which NaN comes out, nor, as
/// long as it builds, whether the function flushes. Such an instruction stays as it is.
pub(super) fn folds_otherwise(arguments: &[BasicValueEnum<'_>], ftz: bool) -> bool {
    let special = |n: f64, ty| n.is_nan() || (ftz && n != 0.0 && n.abs() < least_normal(ty));
    arguments.iter().all(is_constant) || arguments.iter().any(|value| any_number(value, special))
}

/// Whether a test holds for the number that a constant is, or for one of its elements.
fn any_number<'ctx>(
    value: &BasicValueEnum<'ctx>,
    test: impl Fn(f64, FloatType<'ctx>) -> bool,
) -> bool {
    let holds = |value: FloatValue<'ctx>| number(value).is_some_and(|n| test(n, value.get_type()));
    match value {
        &BasicValueEnum::FloatValue(value) => holds(value),
        BasicValueEnum::VectorValue(vector) if is_constant(value) => {
            (0..vector.get_type().get_size()).any(|index| {
                // SAFETY: the vector is a live constant; what is asked for is an element of it, or nothing.
                let element = unsafe {
                    let element =
                        llvm_sys::core::LLVMGetAggregateElement(vector.as_value_ref(), index);
                    (!element.is_null()).then(|| BasicValueEnum::new(element))
                };
                match element {
                    Some(BasicValueEnum::FloatValue(value)) => holds(value),
                    // A constant that LLVM does not see through may be anything.
                    _ => true,
                }
            })
        }
        _ => false,
    }
}

/// The smallest normal number of a type that is flushed.
fn least_normal(ty: FloatType<'_>) -> f64 {
    match ty.get_bit_width() {
        16 => 1.0 / 16384.0,
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

/// The other sign. LLVM must not see what is before and after it: it would flip the bit of an integer instead, which is another
/// NaN than the device's, or move it into a product.
pub(super) fn negate<'ctx, T>(
    lifter: &mut Lifter<'ctx, '_>,
    a: T,
    back: impl Fn(BasicValueEnum<'ctx>) -> T,
) -> Result<BasicValueEnum<'ctx>, LiftError>
where
    T: inkwell::values::FloatMathValue<'ctx> + Into<BasicValueEnum<'ctx>> + Copy,
{
    let hidden = back(fence(lifter, a.into())?);
    let result = lifter.build(|x| x.build_float_neg(hidden, ""))?;
    fence(lifter, result.into())
}

/// `abs`. Not LLVM's own: that moves out of a product, `|a|*|b|` to `|a*b|`, and then stands between it and a sum.
pub(super) fn absolute<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    ty: ScalarType,
    ftz: bool,
    d: &Operand,
    arguments: &[BasicValueEnum<'ctx>],
) -> Handled {
    let name = match ftz {
        true => "llvm.nvvm.fabs.ftz",
        false => "llvm.nvvm.fabs",
    };
    overloaded(lifter, name, ty, d, arguments)
}

/// `min` and `max` of two.
pub(super) fn lesser_or_greater<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    mnemonic: &Mnemonic,
    ty: ScalarType,
    d: &Operand,
    arguments: &[BasicValueEnum<'ctx>],
) -> Handled {
    let (Some(name), &[a, b]) = (extremum(mnemonic), arguments) else {
        return Ok(false);
    };
    // LLVM takes a value for the smaller of it and itself; the device's NaN is another, and it flushes.
    let b = match is_constant(&a) || is_constant(&b) {
        true => b,
        false => fence(lifter, b)?,
    };
    overloaded(lifter, name, ty, d, &[a, b])
}

/// LLVM's counterpart of `min` and `max`; `None` for those with signs apart.
fn extremum(mnemonic: &Mnemonic) -> Option<&'static str> {
    if mnemonic.has(Word::Abs) || mnemonic.has(Word::Xorsign) {
        return None;
    }
    let greater = mnemonic.opcode() == Opcode::Max;
    Some(match (greater, mnemonic.has(Word::NanResult)) {
        (false, false) => "llvm.minimumnum",
        (true, false) => "llvm.maximumnum",
        (false, true) => "llvm.minimum",
        (true, true) => "llvm.maximum",
    })
}

/// Writes what an intrinsic gives that is overloaded by the type of its first argument.
pub(super) fn overloaded<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    name: &str,
    ty: ScalarType,
    d: &Operand,
    arguments: &[BasicValueEnum<'ctx>],
) -> Handled {
    let Some(first) = arguments.first() else {
        return Ok(false);
    };
    let overloads = [first.get_type().as_basic_type_enum()];
    set_call(lifter, name, &overloads, arguments, d, ty)
}

/// `testp` of what a comparison can tell. Of the others it is not a comparison.
fn test<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    use inkwell::FloatPredicate as P;
    let (Some(ty), [d, a]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    let predicate = match mnemonic.any_of(&[Word::Number, Word::Notanumber]) {
        Some(Word::Number) => P::ORD,
        Some(_) => P::UNO,
        None => return Ok(false),
    };
    let a: FloatValue<'ctx> = lifter.float(a, ty)?;
    let result = lifter.build(|x| x.build_float_compare(predicate, a, a, ""))?;
    lifter.set(d, result.into(), ScalarType::Pred)?;
    Ok(true)
}
