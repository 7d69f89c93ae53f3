//! PTX: lexer, parser, typed tree, printer, and one table of instruction semantics.

pub mod check;
pub mod error;
pub mod generate;
pub mod isa;
mod lexer;
mod parse;
mod print;
pub mod source;
pub mod tree;
pub mod typed;

pub use check::check;
pub use error::{Error, ErrorKind, Errors};
pub use parse::parse;
