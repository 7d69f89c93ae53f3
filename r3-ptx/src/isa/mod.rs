//! The instruction set: opcodes, modifiers, types, spaces, special registers, and the forms of each
//! instruction.
//!
//! Text becomes a [`Mnemonic`]: an [`Opcode`] and its [`Word`]s. Readers ask it questions that do not
//! depend on the order of the words, because compilers and hand-written PTX swap them
//! (`vote.ballot.sync.b32`).

mod mnemonic;
mod opcode;
mod questions;
mod selector;
mod special;
mod table;
mod types;
mod word;

pub use mnemonic::{FormId, Mnemonic, MnemonicError};
pub use opcode::Opcode;
pub use questions::{Boolean, Comparison, Operation, Order, Rounding, Scope, Shape};
pub use selector::Selector;
pub use special::SpecialRegister;
pub use types::{ScalarType, Space, TypeKind};
pub use word::Word;
