//! Loads.

use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{AsValueRef, BasicValueEnum, InstructionValue, PointerValue};
use r3_ptx::isa::{Mnemonic, Opcode, Space};
use r3_ptx::typed::Operand;

use super::memory::Shape;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};
use crate::lift::params;

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::Ld => Some(load),
        _ => None,
    }
}

fn load<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    if mnemonic.space().is_some_and(Space::is_param) {
        return params::load(lifter, mnemonic, operands);
    }
    let (Some(shape), [data, place]) = (Shape::of(mnemonic), operands) else {
        return Ok(false);
    };
    let pointer = lifter.address(place, shape.space)?;
    if shape.count == 1 {
        let ty = destination(lifter, data, &shape);
        let value = read(lifter, ty, pointer, &shape)?;
        lifter.set(data, value, shape.ty)?;
        return Ok(true);
    }
    let element = lifter.llvm_type(shape.ty);
    let Some(ty) = vector(element, shape.count) else {
        return Ok(false);
    };
    let whole = read(lifter, ty, pointer, &shape)?.into_vector_value();
    for (index, data) in lifter.parts(data).iter().enumerate() {
        if *data == Operand::Sink {
            continue;
        }
        let index = lifter.globals.types.i32.const_int(index as u64, false);
        let part = lifter.build(|b| b.build_extract_element(whole, index, ""))?;
        lifter.set(data, part, shape.ty)?;
    }
    Ok(true)
}

/// What to load for a destination: an address where the register holds one as wide.
fn destination<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    data: &Operand,
    shape: &Shape,
) -> BasicTypeEnum<'ctx> {
    if let Operand::Register(register) = *data
        && let Some(Space::Generic | Space::Global) = lifter.pointer_space(register)
        && shape.ty.bits() == 64
    {
        return lifter.register_type(register);
    }
    lifter.llvm_type(shape.ty)
}

fn read<'ctx>(
    lifter: &Lifter<'ctx, '_>,
    ty: BasicTypeEnum<'ctx>,
    pointer: PointerValue<'ctx>,
    shape: &Shape,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let value = lifter.build(|b| b.build_load(ty, pointer, ""))?;
    // SAFETY: `value` is the load that was just built.
    let made = unsafe { InstructionValue::new(value.as_value_ref()) };
    lifter.accessed(made, shape);
    if shape.invariant {
        let kind = lifter.context.get_kind_id("invariant.load");
        let node = lifter.context.metadata_node(&[]);
        // An error tells that it is no instruction.
        let _ = made.set_metadata(node, kind);
    }
    if may_be_local(lifter, shape.space) {
        return Ok(freeze(lifter, value));
    }
    Ok(value)
}

/// Whether a load may be of local memory: what nothing was stored to holds some bits there, the same for all readers, while
/// LLVM would give each another, or none at all.
fn may_be_local(lifter: &Lifter<'_, '_>, space: Option<Space>) -> bool {
    match space {
        Some(Space::Local) => true,
        None => lifter.body.locals.iter().any(|v| v.space == Space::Local),
        _ => false,
    }
}

fn freeze<'ctx>(lifter: &Lifter<'ctx, '_>, value: BasicValueEnum<'ctx>) -> BasicValueEnum<'ctx> {
    // SAFETY: the builder stands in a block, after the instruction that made the value.
    unsafe {
        let builder = lifter.builder.as_mut_ptr();
        let made = llvm_sys::core::LLVMBuildFreeze(builder, value.as_value_ref(), c"".as_ptr());
        BasicValueEnum::new(made)
    }
}

/// A vector of so many elements.
pub(super) fn vector(element: BasicTypeEnum<'_>, count: u8) -> Option<BasicTypeEnum<'_>> {
    let count = u32::from(count);
    match element {
        BasicTypeEnum::IntType(ty) => Some(ty.vec_type(count).as_basic_type_enum()),
        BasicTypeEnum::FloatType(ty) => Some(ty.vec_type(count).as_basic_type_enum()),
        _ => None,
    }
}
