//! LLVM IR of other compilers: clang's, Triton's, as bitcode or as text.
//!
//! It is read by LLVM's own readers, which bring older forms up to date: kernels that only annotations name become
//! functions with the kernels' calling convention. The code's own target, layout and debugging information give way to
//! what the recipe wants.

use std::cell::RefCell;

use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::values::{AsValueRef, GlobalValue, InstructionOpcode};
use llvm_sys::core::{LLVMGetCalledValue, LLVMIsAInlineAsm};

use super::failure::{Cause, refused};
use super::middle::{Middle, Origin};
use super::{Job, Written, keep, layout, literals};
use crate::emit;
use crate::passes::{self, Diagnostics};
use crate::recipe::{Failure, Stage};

/// IR as it comes.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// Bitcode.
    Bitcode(&'a [u8]),
    /// Text.
    Text(&'a str),
}

/// How bitcode begins, bare and in its wrapper.
const BITCODE: [&[u8]; 2] = [b"BC\xC0\xDE", &[0xDE, 0xC0, 0x17, 0x0B]];

/// How NVIDIA's LTO-IR begins.
const LTO: &[u8] = &[0xED, 0x43, 0x4E, 0x7F];

/// IR to PTX.
pub(super) fn compile(job: &mut Job<'_>, form: Form<'_>) -> Result<Written, Failure> {
    let recipe = job.recipe;
    let context = Context::create();
    let diagnostics = RefCell::new(Diagnostics::of(&context));
    let module = job.clock.stage(Stage::Parse, || {
        let read = read(&context, form);
        match (read, diagnostics.borrow_mut().take_errors()) {
            (Ok(module), None) => Ok(module),
            (Ok(_), Some(said)) => Err(said),
            (Err(reason), said) => Err(said.map_or(reason.clone(), |said| {
                if reason.contains(&said) {
                    reason
                } else {
                    format!("{reason}: {said}")
                }
            })),
        }
    })?;
    let (machine, target) = job.clock.stage(Stage::Parse, || {
        let own = Own::of(&module);
        let target = recipe.target.clone().or(own.cpu).ok_or_else(|| {
            refused(
                Stage::Parse,
                "the code does not say for which target it is; name one, like sm_90",
            )
        })?;
        let version = match recipe.ptx_version {
            Some(version) => Ok(version),
            // Assembly in the code may need any version, which only its author knew.
            None if own.version.is_none() && has_assembly(&module) => Ok(passes::NEWEST_PTX),
            None => passes::ptx_version_for(&target, own.version.unwrap_or_default()),
        };
        let machine = version
            .and_then(|version| passes::machine(&target, version, recipe.codegen_level))
            .map_err(|error| error.failure(Stage::Parse))?;
        Ok::<_, Failure>((machine, target))
    })?;
    job.clock.stage(Stage::Parse, || {
        layout::check(&module)?;
        adopt(&module);
        passes::prepare(&module, &machine);
        Ok::<_, String>(())
    })?;
    let note = job.clock.stage(Stage::Parse, || match &recipe.kernel {
        Some(kernel) => keep::keep(&module, &machine, kernel),
        None if keep::kernels(&module).is_empty() => {
            Err("the code has no kernel: templates must be instantiated in it, and functions marked as kernels".to_owned())
        }
        None => Ok(None),
    })?;
    job.notes.extend(note);
    let middle = Middle {
        context: &context,
        module: &module,
        machine: &machine,
        diagnostics: &diagnostics,
        origin: Origin::Foreign,
    };
    middle.improve(job)?;
    let ptx = job
        .clock
        .stage(Stage::Emit, || emit::text(&module, &machine))?;
    let ptx = middle.said(ptx)?;
    job.notes.extend(undefined(&module));
    Ok(Written { ptx, target })
}

/// Names of the kernels in bitcode; none where it cannot be read.
pub(crate) fn kernels_of_bitcode(bytes: &[u8]) -> Vec<String> {
    let context = Context::create();
    let diagnostics = RefCell::new(Diagnostics::of(&context));
    let module = read(&context, Form::Bitcode(bytes));
    diagnostics.borrow_mut().take_errors();
    module
        .map(|module| keep::kernels(&module))
        .unwrap_or_default()
}

/// Bitcode of a file that is called otherwise; `None` where it cannot be read.
pub(crate) fn of_file(bytes: &[u8], name: &str) -> Option<Vec<u8>> {
    let context = Context::create();
    let diagnostics = RefCell::new(Diagnostics::of(&context));
    let module = read(&context, Form::Bitcode(bytes)).ok()?;
    if diagnostics.borrow_mut().take_errors().is_some() {
        return None;
    }
    module.set_name(name);
    module.set_source_file_name(name);
    Some(module.write_bitcode_to_memory().as_slice().to_vec())
}

/// Names of variables that the code uses and does not define, for people. IR that was lifted is like that: the definitions
/// in its PTX are put back into the text that LLVM makes.
fn undefined(module: &Module<'_>) -> Option<String> {
    // Dynamic shared memory is not defined anywhere.
    let is_shared = |global: &GlobalValue<'_>| {
        let address = global.as_pointer_value().get_type();
        address.get_address_space() == AddressSpace::from(3)
    };
    let names: Vec<String> = module
        .get_globals()
        .filter(|global| global.is_declaration() && !is_shared(global))
        .map(|global| global.get_name().to_string_lossy().into_owned())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "{} declared here and not defined: code that loads alone needs a definition. IR of lifted PTX has none; edit \
             its PTX (--emit ptx), or give the IR one",
            names.join(", ") + if names.len() == 1 { " is" } else { " are" }
        )
    })
}

/// Reads and verifies.
fn read<'ctx>(context: &'ctx Context, form: Form<'_>) -> Result<Module<'ctx>, String> {
    let module = match form {
        Form::Bitcode(bytes) => {
            if bytes.starts_with(LTO) {
                return Err("this is NVIDIA's LTO-IR, which only its own linker reads".to_owned());
            }
            if !BITCODE.iter().any(|magic| bytes.starts_with(magic)) {
                return Err("this is not LLVM bitcode: it begins otherwise".to_owned());
            }
            let buffer = MemoryBuffer::create_from_memory_range_copy(bytes, "code");
            Module::parse_bitcode_from_buffer(&buffer, context)
        }
        Form::Text(text) => {
            if text.contains('\0') {
                return Err("LLVM IR as text has no zero bytes".to_owned());
            }
            let parse = |text: &str| {
                let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "code");
                context.create_module_from_ir(buffer)
            };
            parse(text).or_else(|reason| match literals::rewritten(text) {
                Some(text) => parse(&text),
                None => Err(reason),
            })
        }
    }
    .map_err(|reason| {
        format!(
            "LLVM cannot read it: {}",
            reason.to_string_lossy().trim_end()
        )
    })?;
    let triple = module.get_triple();
    let triple = triple.as_str().to_string_lossy();
    if !triple.is_empty() && !triple.starts_with("nvptx64") {
        return Err(format!(
            "the code is for {triple}, not for CUDA's devices (nvptx64)"
        ));
    }
    module.verify().map_err(|reason| {
        format!(
            "the IR is not valid: {}",
            reason.to_string_lossy().trim_end()
        )
    })?;
    Ok(module)
}

/// What the code says of its target.
struct Own {
    cpu: Option<String>,
    version: Option<(u16, u16)>,
}

impl Own {
    /// By the attributes of the functions that have a body.
    fn of(module: &Module) -> Self {
        let said = |name: &str| {
            module
                .get_functions()
                .filter(|function| function.count_basic_blocks() > 0)
                .find_map(|function| function.get_string_attribute(AttributeLoc::Function, name))
                .map(|attribute| attribute.get_string_value().to_string_lossy().into_owned())
        };
        Self {
            cpu: said("target-cpu").filter(|cpu| !cpu.is_empty()),
            version: said("target-features").and_then(|features| version(&features)),
        }
    }
}

/// Whether there is inline assembly.
fn has_assembly(module: &Module) -> bool {
    module
        .get_functions()
        .flat_map(|function| function.get_basic_block_iter())
        .flat_map(|block| block.get_instructions())
        .filter(|instruction| instruction.get_opcode() == InstructionOpcode::Call)
        // SAFETY: the instruction is a call of a living module.
        .any(|call| unsafe { !LLVMIsAInlineAsm(LLVMGetCalledValue(call.as_value_ref())).is_null() })
}

/// The version of PTX among features such as `+ptx88,+sm_90`.
fn version(features: &str) -> Option<(u16, u16)> {
    let digits = features
        .split(',')
        .find_map(|feature| feature.trim().strip_prefix("+ptx"))?;
    let (major, minor) = digits.split_at_checked(1)?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Takes away what would go before the recipe: targets of single functions, `optnone`, debugging information.
fn adopt(module: &Module) {
    let never = Attribute::get_named_enum_kind_id("optnone");
    let noinline = Attribute::get_named_enum_kind_id("noinline");
    let place = AttributeLoc::Function;
    for function in module.get_functions() {
        for name in ["target-cpu", "target-features", "tune-cpu"] {
            function.remove_string_attribute(place, name);
        }
        if function.get_enum_attribute(place, never).is_some() {
            function.remove_enum_attribute(place, never);
            function.remove_enum_attribute(place, noinline);
        }
    }
    module.strip_debug_info();
}
