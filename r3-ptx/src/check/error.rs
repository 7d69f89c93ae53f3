//! What the checker finds wrong.

use crate::source::Pos;

/// What is wrong with a module that follows the grammar.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CheckError {
    /// A name that nothing declares.
    #[error("unknown {what} `{name}`")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name.
        name: Box<str>,
    },
    /// A name is something else than is needed here.
    #[error("`{name}` is {is}, where {expected} is needed")]
    WrongKind {
        /// The name.
        name: Box<str>,
        /// What it is.
        is: &'static str,
        /// What is needed.
        expected: &'static str,
    },
    /// A name has two declarations.
    #[error("`{name}` is declared twice, first at {first}")]
    Duplicate {
        /// The name.
        name: Box<str>,
        /// The other place.
        first: Pos,
    },
    /// A modifier that no form of the instruction has.
    #[error("`{opcode}` has no modifier `.{word}`; it has {allowed}")]
    Modifier {
        /// The instruction.
        opcode: &'static str,
        /// The modifier.
        word: &'static str,
        /// Those it has.
        allowed: Box<str>,
    },
    /// Modifiers that exist, but not together.
    #[error("no form of `{opcode}` has the modifiers of `{mnemonic}`; the nearest is `{nearest}`")]
    Form {
        /// The instruction.
        opcode: &'static str,
        /// As written.
        mnemonic: Box<str>,
        /// A form that has most of them.
        nearest: Box<str>,
    },
    /// Too few or too many operands.
    #[error("`{mnemonic}` takes {expected} operands, not {found}")]
    OperandCount {
        /// The instruction.
        mnemonic: Box<str>,
        /// So many.
        expected: Box<str>,
        /// As written.
        found: usize,
    },
    /// An operand of the wrong kind or type.
    #[error("operand {number} of `{mnemonic}`: expected {expected}, found {found}")]
    Operand {
        /// The instruction.
        mnemonic: Box<str>,
        /// Which one, from 1.
        number: usize,
        /// What the form has.
        expected: Box<str>,
        /// What is there.
        found: Box<str>,
    },
    /// The guard is no predicate.
    #[error("the guard `{name}` is of type .{ty}; it must be .pred")]
    Guard {
        /// The register.
        name: Box<str>,
        /// Its type.
        ty: &'static str,
    },
    /// A call that does not fit the function or prototype.
    #[error("call of `{function}`: {what} {expected}, not {found}")]
    Call {
        /// The function or prototype.
        function: Box<str>,
        /// What does not fit.
        what: Box<str>,
        /// As declared.
        expected: Box<str>,
        /// As written.
        found: Box<str>,
    },
    /// A variable that cannot be as declared.
    #[error("variable `{name}`: {why}")]
    Variable {
        /// Its name.
        name: Box<str>,
        /// Why not.
        why: Box<str>,
    },
    /// A brace without its other.
    #[error("`{brace}` without its counterpart")]
    Unbalanced {
        /// The brace.
        brace: char,
    },
}

impl CheckError {
    pub(super) fn duplicate(name: &str, first: Pos) -> Self {
        Self::Duplicate {
            name: name.into(),
            first,
        }
    }
}
