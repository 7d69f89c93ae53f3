//! Why a step failed.

use r3_ptx::source::Pos;

/// Why code could not become LLVM IR.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiftError {
    /// LLVM's builder refused an instruction: a mistake of the lifter.
    #[error("{function}: line {}: `{instruction}` could not be built: {reason}", pos.line)]
    Build {
        /// Function.
        function: String,
        /// Place in the PTX.
        pos: Pos,
        /// The instruction as text.
        instruction: String,
        /// What LLVM said.
        reason: String,
    },
    /// The function has something that cannot be expressed, not even as inline assembly.
    #[error("{function}: line {}: {what}", pos.line)]
    Inexpressible {
        /// Function.
        function: String,
        /// Place in the PTX.
        pos: Pos,
        /// What it is.
        what: String,
    },
    /// There is no such kernel.
    #[error("there is no kernel {kernel} in this code; it has {has}")]
    NoKernel {
        /// What was asked for.
        kernel: String,
        /// Names of the kernels that are there.
        has: String,
    },
}
