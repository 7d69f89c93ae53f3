//! LLVM itself: the target, its options, pass pipelines, and what keeps contraction as the original had it.
//!
//! The modules in the order in which a compilation meets them:
//!
//! - `options`: options that LLVM keeps for the whole process. They are set once, before anything else, and
//!   32-bit pointers into shared, constant and local memory are always among them.
//! - `target`: processors, versions of PTX, [`machine`] and the [`data_layout`] by which modules are built.
//! - `report`: LLVM's fatal errors and diagnostics as text instead of a silent end of the process.
//! - `pipeline`: [`run`].
//! - `fence`: [`fence_contraction`], after the passes and before code generation.
//! - `space`: the passes that make sense on device code, with their parameters, as data.
//! - `random`: [`random_pipeline`] draws from it.
//!
//! Pipelines always run with the target machine. Without it LLVM believes that branches do not diverge, and jump threading
//! duplicates what a whole warp must execute together.

mod fence;
mod options;
mod pipeline;
mod random;
mod report;
mod space;
mod target;

pub use fence::{fence_contraction, fence_products, fence_selections};
pub use options::{set as set_options, set_for_process as options_of_process};
pub use pipeline::{run, text as pipeline_text};
pub use random::{Random, random_pipeline};
pub use report::{Diagnostics, FATAL, catch_fatal_errors};
pub use space::{Level, PASSES, Parameter, Pass};
pub use target::{
    NEWEST_PTX, data_layout, initialise, least_ptx_version, llvm_version, machine, prepare,
    ptx_version_for,
};

/// Why LLVM would not do it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassError {
    /// The NVPTX target is not in this LLVM.
    #[error("this LLVM has no NVPTX target: {reason}")]
    NoTarget {
        /// What LLVM said.
        reason: String,
    },
    /// An unknown processor.
    #[error("LLVM {llvm} does not know the target {cpu}; it knows {known}")]
    UnknownCpu {
        /// What was asked for.
        cpu: String,
        /// Version of LLVM.
        llvm: &'static str,
        /// Those it knows.
        known: String,
    },
    /// A version of PTX that LLVM cannot write.
    #[error(
        "PTX {}.{} cannot be written for {cpu}: LLVM writes {}.{} to {}.{}",
        asked.0, asked.1, least.0, least.1, newest.0, newest.1
    )]
    PtxVersion {
        /// What was asked for.
        asked: (u16, u16),
        /// For which target.
        cpu: String,
        /// The least that the target needs.
        least: (u16, u16),
        /// The newest that LLVM writes.
        newest: (u16, u16),
    },
    /// A code-generation level beyond 3.
    #[error("there is no code-generation level {level}: 0 to 3")]
    Level {
        /// What was asked for.
        level: u8,
    },
    /// LLVM does not have this option, or not with this value.
    #[error("LLVM refuses the option `{option}`: {reason}")]
    Option {
        /// The option.
        option: String,
        /// Why.
        reason: String,
    },
    /// Options are for the whole process, and it has others already.
    #[error(
        "LLVM's options are for a whole process, which already runs with [{present}] and cannot change to [{asked}]: use another worker"
    )]
    OtherOptions {
        /// Set before.
        present: String,
        /// Asked for now.
        asked: String,
    },
    /// The pipeline's text is wrong.
    #[error("pipeline `{pipeline}`: {reason}")]
    Pipeline {
        /// The text.
        pipeline: String,
        /// What LLVM said.
        reason: String,
    },
    /// The module is broken.
    #[error("the module is not valid {when}: {reason}")]
    Invalid {
        /// Before or after what.
        when: String,
        /// What the verifier said.
        reason: String,
    },
    /// LLVM reported an error while it worked.
    #[error("LLVM: {0}")]
    Reported(String),
}
