//! CUDA's mathematical functions, where bitcode calls them.
//!
//! NVIDIA ships them as bitcode, `libdevice.10.bc`, with its compiler. PTX never needs it: its compiler linked it already. Code
//! of clang may call `__nv_expf` and the like; [`link`] finds the file, takes what is called and what that needs, and makes it part
//! of the module. What a set of functions needs is worked out once a process.

mod find;
mod reduce;

use std::path::{Path, PathBuf};

use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::{FlagBehavior, Linkage, Module};
use inkwell::targets::TargetMachine;
use inkwell::values::BasicValue;
use llvm_sys::linker::LLVMLinkModules2;

use crate::passes::{self, Diagnostics, PassError};
use crate::recipe::Pipeline;

pub use find::find;

/// Flag of a module: whether its mathematical functions flush subnormal numbers to zero.
const FLUSH: &str = "nvvm-reflect-ftz";

/// What was linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Functions that the code called.
    pub functions: Vec<String>,
    /// From which file.
    pub file: PathBuf,
    /// Whether they flush subnormal numbers.
    pub flush: bool,
}

/// Why it could not be linked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibdeviceError {
    /// No file.
    #[error(
        "the code calls {functions}, which CUDA's libdevice.10.bc has, and that was found neither {}; install CUDA's compiler, or name the file with R3_LIBDEVICE",
        tried.join(", nor ")
    )]
    NotFound {
        /// What is called.
        functions: String,
        /// Where it was looked for, each as `in …` or `beside …`.
        tried: Vec<String>,
    },
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}: {reason}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What LLVM said.
        reason: String,
    },
    /// It lacks functions.
    #[error("{} has no {functions}, which the code calls", file.display())]
    Lacks {
        /// The file.
        file: PathBuf,
        /// What is called.
        functions: String,
    },
    /// LLVM's linker refused it.
    #[error("{} could not be linked: {reason}", file.display())]
    Link {
        /// The file.
        file: PathBuf,
        /// What LLVM said.
        reason: String,
    },
    /// A pass failed.
    #[error(transparent)]
    Passes(#[from] PassError),
}

/// Functions of libdevice that a module calls and does not have.
#[must_use]
pub fn called(module: &Module) -> Vec<String> {
    let mut names: Vec<String> = module
        .get_functions()
        .filter(|function| {
            function.count_basic_blocks() == 0
                && function.get_name().to_bytes().starts_with(b"__nv_")
                && function
                    .as_global_value()
                    .as_pointer_value()
                    .get_first_use()
                    .is_some()
        })
        .map(|function| function.get_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

/// Links what a module calls of libdevice; `None` when it calls nothing.
///
/// `file` names the library, else it is looked for. Whether the functions flush subnormal numbers to zero is what the module
/// says by its flag, else `flush`, else what its functions say by their attributes.
///
/// # Errors
/// When the library is not found, lacks a function, or cannot be linked.
pub fn link<'ctx>(
    context: &'ctx Context,
    module: &Module<'ctx>,
    machine: &TargetMachine,
    diagnostics: &mut Diagnostics,
    file: Option<&Path>,
    flush: Option<bool>,
) -> Result<Option<Linked>, LibdeviceError> {
    let functions = called(module);
    if functions.is_empty() {
        return Ok(None);
    }
    let file = match file {
        Some(file) => file.to_owned(),
        None => find().map_err(|tried| LibdeviceError::NotFound {
            functions: functions.join(", "),
            tried,
        })?,
    };
    let invalid = |reason: String| LibdeviceError::Invalid {
        file: file.clone(),
        reason,
    };
    let bitcode = reduce::reduced(&file, &functions)?;
    let buffer = MemoryBuffer::create_from_memory_range_copy(&bitcode, "libdevice");
    let library = Module::parse_bitcode_from_buffer(&buffer, context)
        .map_err(|reason| invalid(reason.to_string()))?;
    library.set_triple(&module.get_triple());
    library.set_data_layout(&module.get_data_layout());
    let flush = flag(module).or(flush).unwrap_or_else(|| {
        denormals(module).is_some_and(|value| value.starts_with("preserve-sign"))
    });
    agree(module, &library);
    let names: Vec<String> = library
        .get_functions()
        .filter(|function| function.count_basic_blocks() > 0)
        .map(|function| function.get_name().to_string_lossy().into_owned())
        .collect();
    // `inkwell`'s own call would leave the context with a handler for diagnostics that points into a frame that is gone.
    // SAFETY: both modules are of this context and alive; the linker takes the library, which is forgotten for that.
    let failed = unsafe {
        let failed = LLVMLinkModules2(module.as_mut_ptr(), library.as_mut_ptr());
        std::mem::forget(library);
        failed != 0
    };
    let said = diagnostics.take_errors();
    if failed || said.is_some() {
        return Err(LibdeviceError::Link {
            file,
            reason: said.unwrap_or_else(|| "LLVM gave no reason".to_owned()),
        });
    }
    for name in names {
        if let Some(function) = module.get_function(&name) {
            function.set_linkage(Linkage::Internal);
        }
    }
    if flag(module).is_none() {
        module.add_basic_value_flag(
            FLUSH,
            FlagBehavior::Override,
            context.i32_type().const_int(u64::from(flush), false),
        );
    }
    // Decides what the functions ask of the target and of flushing; a pipeline given as text need not.
    passes::run(module, &Pipeline::Text("nvvm-reflect".to_owned()), machine)?;
    Ok(Some(Linked {
        functions,
        file,
        flush,
    }))
}

/// What a module's flag says of flushing.
fn flag(module: &Module) -> Option<bool> {
    // `inkwell` gives such a constant as text only.
    module
        .get_flag(FLUSH)
        .map(|flag| flag.to_string().contains("i32 1"))
}

/// The attribute of a module's functions that says what becomes of subnormal `f32`, if all that have a body agree.
fn denormals(module: &Module) -> Option<String> {
    let mut all = module
        .get_functions()
        .filter(|function| function.count_basic_blocks() > 0)
        .map(|function| {
            function
                .get_string_attribute(AttributeLoc::Function, DENORMALS)
                .map(|attribute| attribute.get_string_value().to_string_lossy().into_owned())
        });
    let first = all.next()??;
    all.all(|other| other.as_deref() == Some(&first))
        .then_some(first)
}

/// Says of single precision what becomes of subnormal numbers.
const DENORMALS: &str = "denormal-fp-math-f32";

/// Gives the library's functions the attributes by which LLVM decides whether a function may be inlined into another.
fn agree(module: &Module, library: &Module) {
    let Some(value) = denormals(module) else {
        return;
    };
    let context = module.get_context();
    for function in library.get_functions() {
        if function.count_basic_blocks() > 0 {
            function.add_attribute(
                AttributeLoc::Function,
                context.create_string_attribute(DENORMALS, &value),
            );
        }
    }
}
