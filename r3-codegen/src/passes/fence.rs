//! Contraction stays the assembler's choice.

use inkwell::builder::BuilderError;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::values::{
    AnyValue, AnyValueEnum, BasicValue, BasicValueEnum, FastMathFlags, InstructionOpcode,
};

use super::PassError;

/// Puts every result of an `fmul contract` behind `llvm.arithmetic.fence`, so that LLVM's code generation does not fuse it
/// with an addition. What comes out is `mul.f32` and `add.f32` without `.rn`, as the original had them, for the assembler
/// to fuse or not. After the passes, right before code generation.
///
/// Returns how many there were.
///
/// # Errors
/// When LLVM's builder refuses it.
pub fn fence_contraction(module: &Module) -> Result<usize, PassError> {
    let context = module.get_context();
    let Some(intrinsic) = Intrinsic::find("llvm.arithmetic.fence") else {
        return Err(PassError::Reported(
            "llvm.arithmetic.fence is not known".to_owned(),
        ));
    };
    let refused = |error: BuilderError| PassError::Reported(format!("arithmetic.fence: {error}"));
    let builder = context.create_builder();
    let mut fenced = 0;
    for function in module.get_functions() {
        for block in function.get_basic_block_iter() {
            let products: Vec<_> = block
                .get_instructions()
                .filter(|instruction| {
                    instruction.get_opcode() == InstructionOpcode::FMul
                        && instruction
                            .get_fast_math_flags()
                            .is_ok_and(|flags| flags.contains(FastMathFlags::AllowContract))
                })
                .collect();
            for product in products {
                let value: BasicValueEnum = match product.as_any_value_enum() {
                    AnyValueEnum::FloatValue(value) => value.into(),
                    AnyValueEnum::VectorValue(value) => value.into(),
                    _ => continue,
                };
                let Some(next) = product.get_next_instruction() else {
                    continue;
                };
                let Some(fence) = intrinsic.get_declaration(module, &[value.get_type()]) else {
                    return Err(PassError::Reported(format!(
                        "llvm.arithmetic.fence has no form for {}",
                        value.get_type()
                    )));
                };
                builder.position_before(&next);
                let call = builder
                    .build_call(fence, &[value.into()], "")
                    .map_err(refused)?;
                let Some(behind) = call
                    .try_as_basic_value()
                    .basic()
                    .and_then(|value| value.as_instruction_value())
                else {
                    continue;
                };
                product.replace_all_uses_with(&behind);
                // Its own operand was replaced too.
                behind.set_operand(0, value);
                fenced += 1;
            }
        }
    }
    Ok(fenced)
}
