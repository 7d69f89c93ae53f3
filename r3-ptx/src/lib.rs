#![doc = include_str!("../README.md")]
//!
//! # How it is made
//!
//! The way of the data is the order of the modules. `lexer` cuts text into pieces, `parse` makes a [`tree`] of them:
//! what the text says, in its order, nothing resolved. `print` is the way back, by [`Display`](std::fmt::Display) of
//! [`tree::Module`]. [`isa`] knows opcodes, modifiers, types, special registers, and the form of every instruction,
//! in one table. [`check()`] resolves names, finds the form of each instruction, lays out variables, and gives a
//! [`typed`] module: what a device or a compiler reads. [`generate`] makes programs out of the table of forms.
//! [`source`] and [`error`] say where and what.
//!
//! # Invariants
//!
//! - Text is hostile. None makes this crate panic, recurse without bound, or take memory for a number in it:
//!   `.reg .b32 %r<4000000000>` is one node of a tree.
//! - Printing a tree and parsing the text gives the tree, places apart ([`tree::Module::clear_positions`]).
//! - The printed text assembles to the same code as the original. So the tree keeps what looks redundant but is not:
//!   `[%SP+0]` beside `[%SP]`, labels that only debugging sections name, the order of modifiers. Comments, layout and
//!   the spelling of numbers are not kept; constant expressions are computed.
//! - A mnemonic is analysed once a module: instructions refer to it by number, as they do to names.
//! - Every error says where, what was found, and what was expected.

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
