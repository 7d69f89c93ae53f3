//! What code generation would decide otherwise than the code says.
//!
//! `llvm.arithmetic.fence` returns its operand and is no instruction in PTX; what stands on its two sides is not combined.

use inkwell::builder::{Builder, BuilderError};
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::values::{
    AnyValue, AnyValueEnum, AsValueRef, BasicValue, BasicValueEnum, FastMathFlags,
    InstructionOpcode, InstructionValue, Operand,
};
use llvm_sys::core::LLVMIsConstant;

use super::PassError;

/// Lets LLVM neither fuse multiplications with additions nor turn selections into minima: [`fence_products`] and
/// [`fence_selections`]. For lifted code, after the passes, right before code generation.
///
/// Returns how many fences there are.
///
/// # Errors
/// When LLVM's builder refuses one.
pub fn fence_contraction(module: &Module) -> Result<usize, PassError> {
    Ok(fence_products(module)? + fence_selections(module)?)
}

/// Puts every result of an `fmul contract` behind a fence, so that LLVM's code generation does not fuse it with an
/// addition. What comes out is `mul.f32` and `add.f32` without `.rn`, as the original had them, for the assembler to fuse
/// or not.
///
/// Returns how many there were.
///
/// # Errors
/// When LLVM's builder refuses a fence.
pub fn fence_products(module: &Module) -> Result<usize, PassError> {
    each(module, is_product, |fence, product| {
        let value: BasicValueEnum = match product.as_any_value_enum() {
            AnyValueEnum::FloatValue(value) => value.into(),
            AnyValueEnum::VectorValue(value) => value.into(),
            _ => return Ok(false),
        };
        let Some(next) = product.get_next_instruction() else {
            return Ok(false);
        };
        fence.builder.position_before(&next);
        let Some(behind) = fence.around(value)?.as_instruction_value() else {
            return Ok(false);
        };
        product.replace_all_uses_with(&behind);
        // Its own operand was replaced too.
        behind.set_operand(0, value);
        Ok(true)
    })
}

/// Keeps selections by a comparison of the very values that are selected. LLVM's code generation makes `min` and `max` of
/// them where it calls the sign of a zero free, or knows that there is no NaN. PTX's `min` orders zeros, and flushes
/// subnormal numbers where a selection passes them on.
///
/// Returns how many there were.
///
/// # Errors
/// When LLVM's builder refuses a fence.
pub fn fence_selections(module: &Module) -> Result<usize, PassError> {
    each(module, is_minimum, |fence, selection| {
        let arm = if operand(selection, 1).is_some_and(is_constant) {
            1
        } else {
            2
        };
        let Some(value) = operand(selection, arm) else {
            return Ok(false);
        };
        fence.builder.position_before(&selection);
        let fenced = fence.around(value)?;
        selection.set_operand(arm, fenced);
        Ok(true)
    })
}

/// Whether an instruction is a multiplication that may be fused.
fn is_product(instruction: InstructionValue) -> bool {
    instruction.get_opcode() == InstructionOpcode::FMul
        && instruction
            .get_fast_math_flags()
            .is_ok_and(|flags| flags.contains(FastMathFlags::AllowContract))
}

/// Whether an instruction selects one of two values by how they compare. Any two constants count as one: they may be zeros of
/// both signs.
fn is_minimum(instruction: InstructionValue) -> bool {
    if instruction.get_opcode() != InstructionOpcode::Select {
        return false;
    }
    let [Some(condition), Some(one), Some(other)] =
        [0, 1, 2].map(|index| operand(instruction, index))
    else {
        return false;
    };
    let float = match one {
        BasicValueEnum::FloatValue(_) => true,
        BasicValueEnum::VectorValue(value) => value.get_type().get_element_type().is_float_type(),
        _ => false,
    };
    let comparison = condition
        .as_instruction_value()
        .filter(|condition| condition.get_opcode() == InstructionOpcode::FCmp);
    let Some(comparison) = comparison.filter(|_| float) else {
        return false;
    };
    let (Some(left), Some(right)) = (operand(comparison, 0), operand(comparison, 1)) else {
        return false;
    };
    let same = |a: BasicValueEnum, b: BasicValueEnum| {
        a.as_value_ref() == b.as_value_ref() || is_constant(a) && is_constant(b)
    };
    same(one, left) && same(other, right) || same(one, right) && same(other, left)
}

/// An operand that is a value.
fn operand(instruction: InstructionValue<'_>, index: u32) -> Option<BasicValueEnum<'_>> {
    instruction.get_operand(index).and_then(Operand::value)
}

/// Whether a value is a constant.
fn is_constant(value: BasicValueEnum) -> bool {
    // SAFETY: the value belongs to a living module.
    unsafe { LLVMIsConstant(value.as_value_ref()) != 0 }
}

/// Builds fences.
struct Fence<'ctx, 'm> {
    module: &'m Module<'ctx>,
    builder: Builder<'ctx>,
    intrinsic: Intrinsic,
}

impl<'ctx> Fence<'ctx, '_> {
    /// A fence around a value, at the builder's place.
    fn around(&self, value: BasicValueEnum<'ctx>) -> Result<BasicValueEnum<'ctx>, PassError> {
        let refused =
            |error: BuilderError| PassError::Reported(format!("llvm.arithmetic.fence: {error}"));
        let function = self
            .intrinsic
            .get_declaration(self.module, &[value.get_type()])
            .ok_or_else(|| no_form(value))?;
        let call = self
            .builder
            .build_call(function, &[value.into()], "")
            .map_err(refused)?;
        call.try_as_basic_value()
            .basic()
            .ok_or_else(|| no_form(value))
    }
}

/// The intrinsic lacks a type.
fn no_form(value: BasicValueEnum) -> PassError {
    PassError::Reported(format!(
        "llvm.arithmetic.fence has no form for {}",
        value.get_type()
    ))
}

/// Does something to all instructions of a kind; counts how often it did.
fn each<'ctx>(
    module: &Module<'ctx>,
    wanted: impl Fn(InstructionValue<'ctx>) -> bool,
    mut act: impl FnMut(&Fence<'ctx, '_>, InstructionValue<'ctx>) -> Result<bool, PassError>,
) -> Result<usize, PassError> {
    let Some(intrinsic) = Intrinsic::find("llvm.arithmetic.fence") else {
        return Err(PassError::Reported(
            "llvm.arithmetic.fence is not known".to_owned(),
        ));
    };
    let fence = Fence {
        module,
        builder: module.get_context().create_builder(),
        intrinsic,
    };
    let mut count = 0;
    for function in module.get_functions() {
        for block in function.get_basic_block_iter() {
            let found: Vec<_> = block
                .get_instructions()
                .filter(|instruction| wanted(*instruction))
                .collect();
            for instruction in found {
                if act(&fence, instruction)? {
                    count += 1;
                }
            }
        }
    }
    Ok(count)
}
