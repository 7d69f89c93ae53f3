//! What a run leaves: the tuned kernel as a file, and forms for other tools.
//!
//! - [`file`](mod@file): `best.r3t`, which holds everything that is needed to use the kernel.
//! - [`text`]: a result, a run or a candidate, for people. [`variant`]: a variant of a source.
//! - [`export`]: T4, JSON, the source, and what `nvcc` can be told.

pub mod export;

pub mod file;

pub mod text;

pub mod variant;

pub use file::ResultError;

pub(crate) use file::{Winner, write};
