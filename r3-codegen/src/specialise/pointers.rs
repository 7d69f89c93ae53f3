//! Facts about pointer parameters.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Module;
use inkwell::values::{AsValueRef, FunctionValue};
use llvm_sys::core::{
    LLVMBuildAnd, LLVMBuildCall2, LLVMBuildICmp, LLVMGetIntrinsicDeclaration, LLVMIntrinsicGetType,
    LLVMLookupIntrinsicID,
};
use llvm_sys::{LLVMIntPredicate, core::LLVMGetModuleContext};

use super::ir::{Builder, Value, constant};
use super::{SpecialiseError, Specialised};
use crate::recipe::Guard;

/// Says of parameters that no other parameter's accesses reach their memory.
pub(super) fn noalias(
    module: &Module,
    function: FunctionValue,
    kernel: &str,
    facts: &[u32],
    done: &mut Specialised,
) -> Result<(), SpecialiseError> {
    let context = module.get_context();
    for &index in facts {
        let parameter = parameter(function, kernel, index)?;
        if !parameter.ty().is_pointer() || is_by_value(function, index) {
            done.notes.push(format!(
                "parameter {index} is not a pointer in the code: that nothing else reaches its memory is not used"
            ));
            continue;
        }
        if parameter.users().is_empty() {
            continue;
        }
        function.add_attribute(
            AttributeLoc::Param(index),
            context.create_enum_attribute(Attribute::get_named_enum_kind_id("noalias"), 0),
        );
        done.guards.push(Guard::NoAlias { index });
    }
    Ok(())
}

/// Says of parameters that they are multiples of a number.
pub(super) fn align(
    module: &Module,
    function: FunctionValue,
    kernel: &str,
    facts: &[(u32, u32)],
    done: &mut Specialised,
) -> Result<(), SpecialiseError> {
    let context = module.get_context();
    for &(index, bytes) in facts {
        let parameter = parameter(function, kernel, index)?;
        if !bytes.is_power_of_two() {
            return Err(SpecialiseError::Alignment {
                kernel: kernel.to_owned(),
                index,
                bytes,
            });
        }
        if bytes == 1 || parameter.users().is_empty() {
            continue;
        }
        if is_by_value(function, index) {
            done.notes.push(format!(
                "parameter {index} is passed as bytes: the alignment of pointers in it is not used"
            ));
            continue;
        }
        if parameter.ty().is_pointer() {
            let kind = Attribute::get_named_enum_kind_id("align");
            let present = function
                .get_enum_attribute(AttributeLoc::Param(index), kind)
                .map_or(1, Attribute::get_enum_value);
            if present >= u64::from(bytes) {
                continue;
            }
            function.add_attribute(
                AttributeLoc::Param(index),
                context.create_enum_attribute(kind, u64::from(bytes)),
            );
        } else if parameter.ty().integer_bits().is_some_and(|bits| bits >= 32) {
            assume_multiple(module, function, parameter, bytes);
        } else {
            done.notes.push(format!(
                "parameter {index} is neither pointer nor integer in the code: its alignment is not used"
            ));
            continue;
        }
        done.guards.push(Guard::Align { index, bytes });
    }
    Ok(())
}

/// A parameter by position.
fn parameter<'m>(
    function: FunctionValue<'m>,
    kernel: &str,
    index: u32,
) -> Result<Value<'m>, SpecialiseError> {
    // SAFETY: the function is of a module that is borrowed.
    unsafe { Value::from_raw(function.as_value_ref()) }
        .parameter(index)
        .ok_or_else(|| SpecialiseError::NoParameter {
            kernel: kernel.to_owned(),
            index,
            count: function.count_params(),
        })
}

/// Whether a parameter is bytes in memory.
fn is_by_value(function: FunctionValue, index: u32) -> bool {
    function
        .get_enum_attribute(
            AttributeLoc::Param(index),
            Attribute::get_named_enum_kind_id("byval"),
        )
        .is_some()
}

/// `assume((parameter & (bytes - 1)) == 0)` at the entry, for an address that the code takes as a number.
fn assume_multiple(module: &Module, function: FunctionValue, parameter: Value, bytes: u32) {
    const ASSUME: &str = "llvm.assume";
    // SAFETY: the function is of the module that is borrowed.
    let Some(entry) = unsafe { Value::from_raw(function.as_value_ref()) }.entry() else {
        return;
    };
    let builder = Builder::of(module);
    builder.before(entry);
    let ty = parameter.ty();
    let low = constant(ty, &u64::from(bytes - 1).to_le_bytes());
    let zero = constant(ty, &[0; 8]);
    // SAFETY: everything is of the module; `llvm.assume` has no overloads and takes one bit.
    unsafe {
        let name = c"".as_ptr();
        let rest = LLVMBuildAnd(builder.raw(), parameter.raw(), low.raw(), name);
        let fits = LLVMBuildICmp(
            builder.raw(),
            LLVMIntPredicate::LLVMIntEQ,
            rest,
            zero.raw(),
            name,
        );
        let id = LLVMLookupIntrinsicID(ASSUME.as_ptr().cast(), ASSUME.len());
        let none = std::ptr::null_mut();
        let assume = LLVMGetIntrinsicDeclaration(module.as_mut_ptr(), id, none, 0);
        let signature =
            LLVMIntrinsicGetType(LLVMGetModuleContext(module.as_mut_ptr()), id, none, 0);
        LLVMBuildCall2(
            builder.raw(),
            signature,
            assume,
            [fits].as_mut_ptr(),
            1,
            name,
        );
    }
}
