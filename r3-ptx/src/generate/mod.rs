//! PTX made for tests.
//!
//! - [`examples`]: for each [`Form`](crate::isa::Form) of the table, instructions that try each of its
//!   modifiers and optional operands once. They show whether an assembler agrees with the table.

mod example;

pub use example::{Example, examples, module};
