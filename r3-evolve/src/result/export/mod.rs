//! Forms of a run for other tools.

mod flags;
mod json;
pub mod source;
mod t4;

pub use flags::{Flags, nvcc_flags};
pub use json::{Exported, json};
pub use source::{BestSource, SourceFile, source};
pub use t4::{Entry as T4Entry, T4, t4};
