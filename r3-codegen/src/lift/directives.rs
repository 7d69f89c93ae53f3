//! Directives and pragmas of functions, as far as LLVM has a place for them.

use inkwell::attributes::AttributeLoc;
use inkwell::context::AsContextRef;
use inkwell::values::{AsValueRef, FunctionValue, InstructionValue, MetadataValue};
use llvm_sys::core::{LLVMMDNodeInContext2, LLVMMetadataAsValue, LLVMValueAsMetadata};
use llvm_sys::debuginfo::{LLVMMetadataReplaceAllUsesWith, LLVMTemporaryMDNode};
use r3_ptx::tree::FunctionDirective;
use r3_ptx::typed;

use super::calls::is_noreturn;
use super::function::Lifter;
use super::globals::Globals;
use crate::error::LiftError;

/// Directives with numbers, and the attributes that make LLVM 22 print them.
const NUMBERS: &[(&str, &str)] = &[
    ("maxntid", "nvvm.maxntid"),
    ("reqntid", "nvvm.reqntid"),
    ("minnctapersm", "nvvm.minctasm"),
    ("maxnreg", "nvvm.maxnreg"),
    ("maxclusterrank", "nvvm.maxclusterrank"),
    ("reqnctapercluster", "nvvm.cluster_dim"),
];

/// Gives a function its attributes.
///
/// Launch bounds are attributes because LLVM and passes use them; what stands in the PTX in the end are the original
/// directives, which [`emit`](crate::emit) puts back.
pub(crate) fn apply<'ctx>(
    globals: &Globals<'ctx>,
    function: FunctionValue<'ctx>,
    source: &typed::Function,
) {
    let place = AttributeLoc::Function;
    let known = &globals.attributes;
    function.add_attribute(place, known.nounwind);
    // Threads may meet in it. LLVM takes the attribute away where it sees that they do not.
    function.add_attribute(place, known.convergent);
    if is_noreturn(&source.directives) {
        function.add_attribute(place, known.noreturn);
    }
    if !source.entry && source.body.is_some() && stays_out_of_line(globals, source) {
        function.add_attribute(place, known.noinline);
    }
    for directive in &source.directives {
        let FunctionDirective::Numbers(name, numbers) = directive else {
            continue;
        };
        let found = NUMBERS.iter().find(|(directive, _)| **name == **directive);
        if let Some((_, attribute)) = found {
            let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let attribute = globals
                .context
                .create_string_attribute(attribute, &numbers.join(","));
            function.add_attribute(place, attribute);
        }
    }
}

fn stays_out_of_line(globals: &Globals<'_>, source: &typed::Function) -> bool {
    let told =
        |d: &FunctionDirective| matches!(d, FunctionDirective::Flag(flag) if **flag == *"noinline");
    globals.options.keep_calls || source.directives.iter().any(told)
}

/// Marks the jump back of a loop: LLVM must not unroll it.
pub(crate) fn nounroll<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    latch: InstructionValue<'ctx>,
    header: u32,
) -> Result<(), LiftError> {
    let _ = header;
    let context = lifter.context;
    let kind = context.get_kind_id("llvm.loop");
    let disable =
        context.metadata_node(&[context.metadata_string("llvm.loop.unroll.disable").into()]);
    // SAFETY: all are values of this context. A loop's node names itself first: a temporary node stands there until the
    // node exists, is replaced by it, and is thereby gone.
    let node = unsafe {
        let raw = context.as_ctx_ref();
        let temporary = LLVMTemporaryMDNode(raw, std::ptr::null_mut(), 0);
        let disable = LLVMValueAsMetadata(disable.as_value_ref());
        let mut operands = [temporary, disable];
        let node = LLVMMDNodeInContext2(raw, operands.as_mut_ptr(), operands.len());
        LLVMMetadataReplaceAllUsesWith(temporary, node);
        MetadataValue::new(LLVMMetadataAsValue(raw, node))
    };
    latch
        .set_metadata(node, kind)
        .map_err(|error| lifter.inexpressible(error.to_string()))
}
