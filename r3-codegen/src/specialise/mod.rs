//! What is known of the launches becomes part of the code.
//!
//! Works on LLVM IR from any source. A kernel's signature stays as it is, so that a launch passes the same bytes; a parameter that
//! became a constant is passed and not read. Each fact that the code now relies on is a [`Guard`]: the code may stand for
//! the original only in launches of which it holds. What a recipe says and the code has no use for gives no guard.
//!
//! - `params`: constant bytes of parameters.
//! - `launch`: grid and block.
//! - `pointers`: memory that is reached by one parameter only, and alignment.
//! - `divisions`: by what became a constant.
//! - `loops`: unroll counts, which need no guard.

mod divisions;
mod ir;
mod launch;
mod loops;
mod params;
mod pointers;

use inkwell::module::Module;
use inkwell::values::FunctionValue;

use crate::recipe::{Guard, Specialisation};

pub use loops::unroll;
pub(crate) use params::known as known_bytes;

/// What specialisation did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Specialised {
    /// What the code relies on.
    pub guards: Vec<Guard>,
    /// What could not be used, in words.
    pub notes: Vec<String>,
}

/// Why code could not be specialised.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecialiseError {
    /// There is no such kernel.
    #[error("there is no kernel {kernel} with a body in this code")]
    NoKernel {
        /// What was asked for.
        kernel: String,
    },
    /// Facts about the launches of one kernel would reach another.
    #[error(
        "the code also has the kernel {other}; facts about launches of {kernel} would change it: keep {kernel} alone"
    )]
    OtherKernel {
        /// The one to specialise.
        kernel: String,
        /// Another one.
        other: String,
    },
    /// There is no such parameter.
    #[error("parameter {index} of {kernel} was to be specialised; it has {count} parameters")]
    NoParameter {
        /// Kernel.
        kernel: String,
        /// Asked for.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// Bytes beyond a parameter's end.
    #[error(
        "bytes {offset} to {end} of parameter {index} of {kernel} were to be constants; it has {size} bytes"
    )]
    BeyondParameter {
        /// Kernel.
        kernel: String,
        /// Parameter.
        index: u32,
        /// First byte.
        offset: u64,
        /// Byte after the last.
        end: u64,
        /// Its size.
        size: u64,
    },
    /// Two constants for a byte.
    #[error(
        "byte {offset} of parameter {index} of {kernel} was given twice, as {first} and {second}"
    )]
    Twice {
        /// Kernel.
        kernel: String,
        /// Parameter.
        index: u32,
        /// Offset.
        offset: u64,
        /// One value.
        first: u8,
        /// The other.
        second: u8,
    },
    /// An alignment that is none.
    #[error("{bytes} is no alignment for parameter {index} of {kernel}: a power of two is")]
    Alignment {
        /// Kernel.
        kernel: String,
        /// Parameter.
        index: u32,
        /// What was given.
        bytes: u32,
    },
    /// A grid or block with nothing in it.
    #[error("a {what} of {size:?} has no threads")]
    Empty {
        /// `grid` or `block`.
        what: &'static str,
        /// Its size.
        size: [u32; 3],
    },
}

/// LLVM's number for the calling convention of kernels.
pub(crate) const KERNEL_CONVENTION: u32 = 71;

/// Specialises a kernel, which must be the only one of its module.
///
/// # Errors
/// When the kernel or a parameter is not there, or another kernel is.
pub fn apply(
    module: &Module,
    kernel: &str,
    facts: &Specialisation,
) -> Result<Specialised, SpecialiseError> {
    let mut done = Specialised::default();
    if *facts == Specialisation::default() {
        return Ok(done);
    }
    let function = find(module, kernel)?;
    pointers::align(module, function, kernel, &facts.align, &mut done)?;
    pointers::noalias(module, function, kernel, &facts.noalias, &mut done)?;
    params::apply(module, function, kernel, &facts.params, &mut done)?;
    launch::apply(module, facts, &mut done)?;
    if !done.guards.is_empty() {
        divisions::open(module);
    }
    Ok(done)
}

/// The kernel, if it is the only one.
fn find<'ctx>(module: &Module<'ctx>, kernel: &str) -> Result<FunctionValue<'ctx>, SpecialiseError> {
    let mut found = None;
    for function in module.get_functions() {
        if function.count_basic_blocks() == 0 {
            continue;
        }
        if function.get_name().to_bytes() == kernel.as_bytes() {
            found = Some(function);
        } else if function.get_call_conventions() == KERNEL_CONVENTION {
            return Err(SpecialiseError::OtherKernel {
                kernel: kernel.to_owned(),
                other: function.get_name().to_string_lossy().into_owned(),
            });
        }
    }
    found.ok_or_else(|| SpecialiseError::NoKernel {
        kernel: kernel.to_owned(),
    })
}
