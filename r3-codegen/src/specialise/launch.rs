//! The grid and the block.

use inkwell::module::Module;
use inkwell::values::AsValueRef;
use llvm_sys::LLVMAttributeReturnIndex;
use llvm_sys::core::{
    LLVMAddCallSiteAttribute, LLVMCreateConstantRangeAttribute, LLVMGetModuleContext,
};

use super::ir::{Value, constant};
use super::{SpecialiseError, Specialised};
use crate::recipe::{Guard, Specialisation};

/// Which sizes give a special register's value or its bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Grid,
    Block,
}

/// Special registers by the names of LLVM's intrinsics: those that are a size, and those that count below it.
const REGISTERS: &[(&str, &str, Of)] = &[("ntid", "tid", Of::Block), ("nctaid", "ctaid", Of::Grid)];

/// Puts the sizes in place of the registers that read them, and bounds on those that count up to them.
pub(super) fn apply(
    module: &Module,
    facts: &Specialisation,
    done: &mut Specialised,
) -> Result<(), SpecialiseError> {
    for &(size, position, of) in REGISTERS {
        let (dimensions, what) = match of {
            Of::Block => (facts.block, "block"),
            Of::Grid => (facts.grid, "grid"),
        };
        let Some(dimensions) = dimensions else {
            continue;
        };
        if dimensions.contains(&0) {
            return Err(SpecialiseError::Empty {
                what,
                size: dimensions,
            });
        }
        let mut used = false;
        for (axis, count) in ["x", "y", "z"].into_iter().zip(dimensions) {
            for read in reads(module, size, axis) {
                read.replace_all_uses_with(constant(read.ty(), &count.to_le_bytes()));
                used = true;
            }
            for read in reads(module, position, axis) {
                if count == 1 {
                    read.replace_all_uses_with(constant(read.ty(), &[0; 4]));
                } else {
                    below(module, read, count);
                }
                used = true;
            }
        }
        if used {
            done.guards.push(match of {
                Of::Block => Guard::Block(dimensions),
                Of::Grid => Guard::Grid(dimensions),
            });
        }
    }
    Ok(())
}

/// Calls that read a special register.
fn reads<'m>(module: &'m Module, register: &str, axis: &str) -> Vec<Value<'m>> {
    let name = format!("llvm.nvvm.read.ptx.sreg.{register}.{axis}");
    let Some(function) = module.get_function(&name) else {
        return Vec::new();
    };
    // SAFETY: the function is of the module that is borrowed.
    let function = unsafe { Value::from_raw(function.as_value_ref()) };
    function
        .users()
        .into_iter()
        .filter(|user| user.callee().is_some() && user.ty().integer_bits() == Some(32))
        .collect()
}

/// Says of a call that its result is below a number.
fn below(module: &Module, call: Value, count: u32) {
    const NAME: &str = "range";
    // SAFETY: the words live for the calls, the call is one of the module and gives an integer of 32 bits.
    unsafe {
        let kind =
            llvm_sys::core::LLVMGetEnumAttributeKindForName(NAME.as_ptr().cast(), NAME.len());
        let attribute = LLVMCreateConstantRangeAttribute(
            LLVMGetModuleContext(module.as_mut_ptr()),
            kind,
            32,
            [0u64].as_ptr(),
            [u64::from(count)].as_ptr(),
        );
        LLVMAddCallSiteAttribute(call.raw(), LLVMAttributeReturnIndex, attribute);
    }
}
