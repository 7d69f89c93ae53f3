//! An opcode with its modifiers.

use std::fmt;

use super::form::{Effects, Form, FormId};
use super::forms::Forms;
use super::matching::matching;
use super::{Opcode, ScalarType, Word};

/// An opcode with its modifiers, e.g. `ld.global.v2.f32`.
///
/// Prints as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mnemonic {
    text: Box<str>,
    opcode: Opcode,
    words: Box<[Word]>,
    types: Box<[ScalarType]>,
    forms: Box<[FormId]>,
}

/// Why text is not a mnemonic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MnemonicError {
    /// The first word is no instruction.
    #[error("unknown instruction `{name}`")]
    UnknownOpcode {
        /// The word.
        name: Box<str>,
    },
    /// A modifier is none of PTX.
    #[error("unknown modifier `.{word}` of `{opcode}`")]
    UnknownWord {
        /// The instruction.
        opcode: Opcode,
        /// The modifier, without its dot.
        word: Box<str>,
        /// Byte in the mnemonic at which the modifier begins, its dot included.
        offset: usize,
    },
}

impl Mnemonic {
    /// Reads a mnemonic, from the opcode to the last modifier, without blanks.
    ///
    /// # Errors
    /// When the opcode or a modifier is unknown. Whether they fit together is told by the checker.
    pub fn parse(text: &str) -> Result<Self, MnemonicError> {
        let mut parts = text.split('.');
        let name = parts.next().unwrap_or_default();
        let opcode = Opcode::from_text(name)
            .ok_or_else(|| MnemonicError::UnknownOpcode { name: name.into() })?;
        let mut offset = name.len();
        let mut words = Vec::new();
        for part in parts {
            let word = Word::from_text(part).ok_or_else(|| MnemonicError::UnknownWord {
                opcode,
                word: part.into(),
                offset,
            })?;
            words.push(word);
            offset += 1 + part.len();
        }
        let types = words.iter().filter_map(|word| word.ty()).collect();
        Ok(Self {
            text: text.into(),
            opcode,
            forms: matching(opcode, &words).into(),
            words: words.into(),
            types,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The opcode.
    pub fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The modifiers, in the order of the text.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// The types among the modifiers, in the order of the text.
    pub fn types(&self) -> &[ScalarType] {
        &self.types
    }

    /// The first form of the table that its modifiers match; `None` when there is none.
    pub fn form(&self) -> Option<FormId> {
        self.forms.first().copied()
    }

    /// All forms that its modifiers match. They differ in their operands.
    pub fn forms(&self) -> &[FormId] {
        &self.forms
    }

    /// What it does besides writing its destinations, by the first form that it matches.
    pub fn effects(&self) -> Effects {
        let form = self.form().and_then(|id| Forms::table().get(id));
        form.map_or_else(Effects::default, |form: &Form| form.effects)
    }
}

impl fmt::Display for Mnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
