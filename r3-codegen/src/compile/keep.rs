//! One kernel of a module, and what it needs.

use inkwell::module::{Linkage, Module};
use inkwell::targets::TargetMachine;
use inkwell::values::{AsValueRef, FunctionValue};
use llvm_sys::core::{LLVMDeleteFunction, LLVMGetFirstUse};

use crate::passes;
use crate::recipe::Pipeline;
use crate::specialise::KERNEL_CONVENTION;

/// Names of a module's kernels.
pub(super) fn kernels(module: &Module) -> Vec<String> {
    module
        .get_functions()
        .filter(|function| is_kernel(*function))
        .map(name)
        .collect()
}

/// Drops all other kernels, hides other functions, and drops what is not needed then. Variables that a program can find by
/// name stay.
///
/// A function of that name which is no kernel yet becomes one if it can; older tools leave that to annotations that got
/// lost. Says so then.
pub(super) fn keep(
    module: &Module,
    machine: &TargetMachine,
    kernel: &str,
) -> Result<Option<String>, String> {
    let wanted = module
        .get_functions()
        .find(|function| function.count_basic_blocks() > 0 && name(*function) == kernel);
    let Some(wanted) = wanted else {
        return Err(format!(
            "there is no kernel {kernel} in this code; it has {}",
            listed(&kernels(module))
        ));
    };
    let mut note = None;
    if !is_kernel(wanted) {
        if wanted.get_type().get_return_type().is_some()
            || wanted.get_linkage() != Linkage::External
        {
            return Err(format!(
                "{kernel} is no kernel: it returns a value or is not visible; kernels are {}",
                listed(&kernels(module))
            ));
        }
        wanted.set_call_conventions(KERNEL_CONVENTION);
        note = Some(format!(
            "{kernel} had no mark as a kernel and was taken as one"
        ));
    }
    let others: Vec<FunctionValue> = module
        .get_functions()
        .filter(|function| *function != wanted && function.count_basic_blocks() > 0)
        .collect();
    for function in others {
        let used = {
            // SAFETY: the function is of a living module.
            let first = unsafe { LLVMGetFirstUse(function.as_value_ref()) };
            !first.is_null()
        };
        if is_kernel(function) && !used {
            // SAFETY: nothing uses the function, and its handle is not used any more.
            unsafe { LLVMDeleteFunction(function.as_value_ref()) };
        } else if function.get_linkage() != Linkage::Appending {
            function.set_linkage(Linkage::Internal);
        }
    }
    passes::run(module, &Pipeline::Text("globaldce".to_owned()), machine)
        .map_err(|error| error.to_string())?;
    Ok(note)
}

/// Names in a row.
fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    match names.len() {
        0 => "none".to_owned(),
        count if count > MOST => format!(
            "{} and {} more",
            names.get(..MOST).unwrap_or_default().join(", "),
            count - MOST
        ),
        _ => names.join(", "),
    }
}

/// Whether a function is a kernel with a body.
fn is_kernel(function: FunctionValue) -> bool {
    function.get_call_conventions() == KERNEL_CONVENTION && function.count_basic_blocks() > 0
}

/// A function's name.
fn name(function: FunctionValue) -> String {
    function.get_name().to_string_lossy().into_owned()
}
