//! Stores.

use inkwell::values::BasicValueEnum;
use r3_ptx::isa::{Mnemonic, Opcode, Space};
use r3_ptx::typed::Operand;

use super::load::vector;
use super::memory::Shape;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};
use crate::lift::params;

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::St => Some(store),
        _ => None,
    }
}

fn store<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    if mnemonic.space().is_some_and(Space::is_param) {
        return params::store(lifter, mnemonic, operands);
    }
    let (Some(shape), [place, data]) = (Shape::of(mnemonic), operands) else {
        return Ok(false);
    };
    let value = match shape.count {
        1 => source(lifter, data, &shape)?,
        count => {
            let element = lifter.llvm_type(shape.ty);
            let Some(ty) = vector(element, count) else {
                return Ok(false);
            };
            let mut whole = ty.into_vector_type().get_poison();
            for (index, part) in lifter.parts(data).iter().enumerate() {
                let part = lifter.value(part, shape.ty)?;
                let index = lifter.globals.types.i32.const_int(index as u64, false);
                whole = lifter.build(|b| b.build_insert_element(whole, part, index, ""))?;
            }
            whole.into()
        }
    };
    let pointer = lifter.address(place, shape.space)?;
    let made = lifter.build(|b| b.build_store(pointer, value))?;
    lifter.accessed(made, &shape);
    Ok(true)
}

/// What to store: an address as it is, if it is as wide.
fn source<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    data: &Operand,
    shape: &Shape,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    if let Operand::Register(register) = *data
        && let Some(Space::Generic | Space::Global) = lifter.pointer_space(register)
        && shape.ty.bits() == 64
        && let Some(pointer) = lifter.pointer(register)?
    {
        return Ok(pointer.into());
    }
    lifter.value(data, shape.ty)
}
