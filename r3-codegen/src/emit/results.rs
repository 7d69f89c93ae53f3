//! Results of functions that only their module can see.
//!
//! Of such a function LLVM 22 stores an array as if it were aligned to 16 bytes, even where the attribute of the result asks
//! for less; and it declares it as the attribute asks, in the head and in calls. Without the attribute it takes 16 everywhere.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::{Linkage, Module};
use inkwell::values::{AsValueRef, FunctionValue};
use llvm_sys::core as llvm;
use llvm_sys::prelude::LLVMValueRef;

/// LLVM's index of a result among what attributes are given to.
const RESULT: u32 = 0;

/// Leaves the alignment of results to LLVM where it takes its own.
pub(super) fn forget_alignments(module: &Module<'_>) {
    let kind = Attribute::get_named_enum_kind_id("alignstack");
    for function in module.get_functions() {
        let own = matches!(function.get_linkage(), Linkage::Internal | Linkage::Private);
        let place = AttributeLoc::Return;
        if !own || function.get_enum_attribute(place, kind).is_none() {
            continue;
        }
        // Where its address is a value, LLVM aligns as it is told.
        let Some(calls) = calls(function) else {
            continue;
        };
        function.remove_enum_attribute(place, kind);
        for call in calls {
            // SAFETY: `call` is a live call.
            unsafe { llvm::LLVMRemoveCallSiteEnumAttribute(call, RESULT, kind) };
        }
    }
}

/// All calls of a function; `None` when something else is done with it.
fn calls(function: FunctionValue<'_>) -> Option<Vec<LLVMValueRef>> {
    let function = function.as_value_ref();
    let mut calls = Vec::new();
    // SAFETY: the function is live, and nothing changes its uses while they are visited. What is asked of a user is asked of
    // calls only.
    unsafe {
        let mut found = llvm::LLVMGetFirstUse(function);
        while !found.is_null() {
            let user = llvm::LLVMGetUser(found);
            if llvm::LLVMIsACallInst(user).is_null() || llvm::LLVMGetCalledValue(user) != function {
                return None;
            }
            let arguments = llvm::LLVMGetNumArgOperands(user);
            if (0..arguments).any(|n| llvm::LLVMGetOperand(user, n) == function) {
                return None;
            }
            calls.push(user);
            found = llvm::LLVMGetNextUse(found);
        }
    }
    Some(calls)
}
