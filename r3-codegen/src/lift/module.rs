//! A whole module: declarations first, then bodies.

use std::collections::BTreeSet;

use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::FunctionValue;
use r3_ptx::typed::{self, FnId};

use super::globals::Globals;
use super::pointers::{self, Roots};
use super::{Lifted, Options, function, params, variables};
use crate::error::LiftError;
use crate::passes;

/// Lifts all functions of a module that are wanted.
pub(crate) fn lift<'ctx>(
    context: &'ctx Context,
    module: &typed::Module,
    options: &Options,
) -> Result<Lifted<'ctx>, LiftError> {
    let llvm = context.create_module("");
    llvm.set_triple(&inkwell::targets::TargetTriple::create(TRIPLE));
    if let Ok(layout) = passes::data_layout() {
        set_layout(&llvm, layout);
    }
    let mut globals = Globals::new(context, module, options);
    let wanted = wanted(module, options)?;
    let reachable = variables::reachable(module, wanted);
    let mut verbatim: Vec<(FnId, String)> = Vec::new();
    let mut roots: Vec<Option<Roots>> = vec![None; module.functions.len()];
    for (i, source) in module.functions.iter().enumerate() {
        if !reachable.functions.get(i).copied().unwrap_or(false) {
            continue;
        }
        let id = FnId(i as u32);
        let found = pointers::roots(module, source);
        match params::declare(&mut globals, &llvm, module, id, Some(&found)) {
            Ok(function) => {
                if let Some(place) = globals.functions.get_mut(i) {
                    *place = Some(function);
                }
                if let Some(place) = roots.get_mut(i) {
                    *place = Some(found);
                }
            }
            Err(error) => verbatim.push((id, error.to_string())),
        }
    }
    for (i, source) in module.functions.iter().enumerate() {
        let id = FnId(i as u32);
        let (Some(body), Some(function)) = (&source.body, globals.function(id)) else {
            continue;
        };
        let roots = roots.get(i).and_then(Option::as_ref);
        let part = function::Part {
            module,
            id,
            source,
            body,
        };
        if let Err(error) = function::lift(&mut globals, &llvm, part, function, roots) {
            verbatim.push((id, error.to_string()));
            declare_again(&mut globals, &llvm, module, id, function)?;
        }
    }
    verbatim.sort_by_key(|(id, _)| id.0);
    let ids: BTreeSet<FnId> = verbatim.iter().map(|(id, _)| *id).collect();
    variables::protect(&globals, module, &ids);
    let name = |id: FnId| {
        let function = module.functions.get(id.0 as usize);
        function.map_or_else(String::new, |function| function.name.to_string())
    };
    Ok(Lifted {
        natively: globals.natively,
        assembly: globals.assembly(module),
        verbatim: verbatim
            .into_iter()
            .map(|(id, reason)| (name(id), reason))
            .collect(),
        module: llvm,
    })
}

/// What all of this is for.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

fn set_layout(llvm: &Module<'_>, layout: &str) {
    let Ok(layout) = std::ffi::CString::new(layout) else {
        return;
    };
    // SAFETY: the module lives, and the text ends with a zero.
    unsafe { llvm_sys::core::LLVMSetDataLayout(llvm.as_mut_ptr(), layout.as_ptr()) }
}

/// The functions that are lifted, with all that they need: one kernel, or everything.
fn wanted(module: &typed::Module, options: &Options) -> Result<Vec<FnId>, LiftError> {
    let all = (0..).map(FnId).zip(&module.functions);
    let Some(kernel) = &options.kernel else {
        return Ok(all.map(|(id, _)| id).collect());
    };
    let found = all.clone().find(|(_, function)| *function.name == **kernel);
    match found {
        Some((id, function)) if function.entry && function.body.is_some() => Ok(vec![id]),
        _ => {
            let kernels = all.filter(|(_, function)| function.entry);
            let names: Vec<&str> = kernels.map(|(_, function)| &*function.name).collect();
            Err(LiftError::NoKernel {
                kernel: kernel.clone(),
                has: match names.is_empty() {
                    true => "none".into(),
                    false => names.join(", "),
                },
            })
        }
    }
}

/// Puts a declaration without a body in the place of a function that could not be lifted: its text stays.
fn declare_again<'ctx>(
    globals: &mut Globals<'ctx>,
    llvm: &Module<'ctx>,
    module: &typed::Module,
    id: FnId,
    function: FunctionValue<'ctx>,
) -> Result<(), LiftError> {
    let name = function.get_name().to_string_lossy().into_owned();
    function.as_global_value().set_name("");
    let again = params::declare(globals, llvm, module, id, None)?;
    again.set_linkage(inkwell::module::Linkage::External);
    function
        .as_global_value()
        .as_pointer_value()
        .replace_all_uses_with(again.as_global_value().as_pointer_value());
    // SAFETY: nothing refers to the function any more, and it is not used after this.
    unsafe { function.delete() };
    again.as_global_value().set_name(&name);
    if let Some(place) = globals.functions.get_mut(id.0 as usize) {
        *place = Some(again);
    }
    Ok(())
}
