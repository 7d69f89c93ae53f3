//! PTX made for tests.
//!
//! - [`examples`]: for each [`Form`](crate::isa::Form) of the table, instructions that try each of its
//!   modifiers and optional operands once. They show whether an assembler agrees with the table.
//! - [`kernel`]: random kernels whose results are defined, for comparing one device or compiler with
//!   another.

mod example;
mod operations;
mod random;

pub use example::{Example, examples, module};
pub use operations::Family;
pub use random::{INPUT_WORDS, Kernel, Options, Slot, kernel};
