//! Whether code may get pointers of 32 bits into shared, constant and local memory.

use inkwell::module::Module;
use inkwell::values::{AnyValue, AsValueRef, InstructionOpcode};
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::{
    LLVMCountStructElementTypes, LLVMGetAllocatedType, LLVMGetElementType, LLVMGetOperand,
    LLVMGetPointerAddressSpace, LLVMGetTypeKind, LLVMGlobalGetValueType, LLVMStructGetTypeAtIndex,
    LLVMTypeOf,
};
use llvm_sys::prelude::LLVMTypeRef;

/// Address spaces whose pointers have 32 bits by the layout of this crate, and 64 by the target's default.
const SHORT: [u32; 3] = [3, 4, 5];

/// Refuses code whose memory holds such pointers although it was laid out for 64 bits: offsets in it would be others.
/// What clang makes of CUDA C++ has generic pointers in memory only.
pub(super) fn check(module: &Module) -> Result<(), String> {
    let layout = module.get_data_layout();
    if layout.as_str().to_string_lossy().contains("-p3:32:32") {
        return Ok(());
    }
    let refuse = |what: String| {
        Err(format!(
            "{what} holds a pointer into shared, constant or local memory of 64 bits; here these have 32: make the code with -nvptx-short-ptr"
        ))
    };
    for global in module.get_globals() {
        // SAFETY: the variable is of a living module.
        if unsafe { short(LLVMGlobalGetValueType(global.as_value_ref()), 0) } {
            return refuse(global.get_name().to_string_lossy().into_owned());
        }
    }
    for function in module.get_functions() {
        for block in function.get_basic_block_iter() {
            for instruction in block.get_instructions() {
                let raw = instruction.as_value_ref();
                // SAFETY: each is asked for what its operation has; all are of a living module.
                let ty = unsafe {
                    match instruction.get_opcode() {
                        InstructionOpcode::Load => LLVMTypeOf(raw),
                        InstructionOpcode::Store => LLVMTypeOf(LLVMGetOperand(raw, 0)),
                        InstructionOpcode::Alloca => LLVMGetAllocatedType(raw),
                        _ => continue,
                    }
                };
                // SAFETY: the type is of a living context.
                if unsafe { short(ty, 0) } {
                    return refuse(format!("`{}`", instruction.print_to_string()));
                }
            }
        }
    }
    Ok(())
}

/// Whether a type has such a pointer in it. Types that go too deep count as having one.
///
/// # Safety
/// The type is of a living context.
unsafe fn short(ty: LLVMTypeRef, depth: u32) -> bool {
    const DEEPEST: u32 = 100;
    if depth > DEEPEST {
        return true;
    }
    // SAFETY: each kind of type is asked for what it has.
    unsafe {
        match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMPointerTypeKind => SHORT.contains(&LLVMGetPointerAddressSpace(ty)),
            LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => {
                short(LLVMGetElementType(ty), depth + 1)
            }
            LLVMTypeKind::LLVMStructTypeKind => (0..LLVMCountStructElementTypes(ty))
                .any(|index| short(LLVMStructGetTypeAtIndex(ty, index), depth + 1)),
            _ => false,
        }
    }
}
