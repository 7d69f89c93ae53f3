//! The instruction set: opcodes, modifiers, types, spaces, special registers, and the forms of each
//! instruction.
//!
//! [`Forms`] is the table of all instructions: modifiers, operands with their types, effects. The checker,
//! devices, compilers and the generator of random programs read this one table.
//!
//! Text becomes a [`Mnemonic`]: an [`Opcode`] and its [`Word`]s. Readers ask it questions that do not
//! depend on the order of the words, because compilers and hand-written PTX swap them
//! (`vote.ballot.sync.b32`).

mod form;
mod forms;
mod fragment;
mod matching;
mod mnemonic;
mod opcode;
mod questions;
mod selector;
mod special;
mod table;
#[cfg(test)]
mod tests;
mod types;
mod word;

pub use form::{
    Access, Count, Effects, Form, FormId, Matrix, Numbers, OperandKind, OperandSpec, Place,
    Presence, Slot, Sm, TypeRule,
};
pub use forms::Forms;
pub use mnemonic::{Mnemonic, MnemonicError};
pub use opcode::Opcode;
pub use questions::{Boolean, Comparison, Operation, Order, Rounding, Scope, Shape};
pub use selector::Selector;
pub use special::SpecialRegister;
pub use types::{ScalarType, Space, TypeKind};
pub use word::Word;
