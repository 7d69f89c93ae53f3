//! A form: one shape that an instruction may have, as data.

use super::{Mnemonic, Opcode, ScalarType, Space, Word};

/// Index of a form in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormId(pub u16);

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The instruction.
    pub opcode: Opcode,
    /// Places for modifiers, in their usual order.
    pub slots: Vec<Slot>,
    /// Operands, in the order of the text.
    pub operands: Vec<OperandSpec>,
    /// What it does besides writing its destinations.
    pub effects: Effects,
    /// First version of PTX that has it, where the table tells.
    pub ptx: Option<(u8, u8)>,
    /// First target that has it, where the table tells.
    pub sm: Option<Sm>,
    /// The line of the table, without its properties.
    pub text: String,
    /// The same with the sets written out, for messages.
    pub spelled: String,
}

/// A place for one modifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The modifiers that may stand here.
    pub words: Vec<Word>,
    /// It may be left out.
    pub optional: bool,
    /// It is there when the place before it is filled, and only then.
    pub joined: bool,
}

/// A target: `sm_90a` is number 90 with suffix `a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sm {
    /// Number.
    pub number: u16,
    /// `a` (this architecture only), `f` (its family), or nothing.
    pub suffix: Option<char>,
}

/// What an instruction does besides writing its destinations. Reads and writes of memory follow from
/// the operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Reads memory.
    pub reads: bool,
    /// Writes memory.
    pub writes: bool,
    /// What it does depends on which threads execute it together: it may not be moved into or out of
    /// a branch, nor copied.
    pub convergent: bool,
    /// Orders memory between threads, or waits for others.
    pub sync: bool,
    /// Changes the flow of control.
    pub control: bool,
    /// Reads the carry flag.
    pub carry_in: bool,
    /// Writes the carry flag when it has `.cc`.
    pub carry_out: bool,
    /// Its result is not exactly rounded: the ISA gives a bound of its error.
    pub approximate: bool,
    /// A spelling of older versions, which newer ones refuse or discourage.
    pub old: bool,
}

/// What an instruction does with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it (memory: writes where it points to).
    Write,
    /// Reads and writes it.
    ReadWrite,
    /// Takes an address without an access.
    Address,
}

/// When an operand is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Always.
    Always,
    /// As the writer likes.
    Optional,
    /// When the mnemonic has this modifier, and only then.
    With(Word),
}

/// An operand of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct OperandSpec {
    /// What is done with it.
    pub access: Access,
    /// What it is.
    pub kind: OperandKind,
    /// When it is there.
    pub presence: Presence,
    /// A predicate after `|`: `None` when there is no such place.
    pub second: Option<Presence>,
}

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeRule {
    /// The n-th type among the modifiers.
    Nth(u8),
    /// Twice as wide as the first type.
    Wide,
    /// Always this.
    Fixed(ScalarType),
}

/// How many registers an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// One, without braces.
    One,
    /// As `.v2`, `.v4`, `.v8` say; one without.
    Vector,
    /// So many, in braces.
    Exactly(u8),
    /// As `.x1` … `.x128` and the shape say, in braces.
    Repeat,
    /// One, or 2, 4 or 8 in braces that are as large together.
    Parts,
}

/// Which matrix a fragment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// Left factor.
    A,
    /// Right factor.
    B,
    /// What is added.
    C,
    /// The result.
    D,
    /// That which the modifier `.a`, `.b`, `.c` or `.d` names.
    Named,
}

/// Where an address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The n-th state space among the modifiers, from 0; generic where there is none.
    Nth(u8),
    /// This space, by whichever of its names.
    In(Space),
    /// Tensor memory.
    Tensor,
}

/// Numbers that an immediate may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Any.
    Any,
    /// From, to; both included.
    Range(i64, i64),
    /// One of these.
    OneOf(&'static [i64]),
}

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OperandKind {
    /// Registers, and for sources numbers.
    Value {
        /// Type.
        ty: TypeRule,
        /// Registers may be wider than the type.
        relaxed: bool,
        /// How many.
        count: Count,
        /// The address of a variable, parameter or function may stand here.
        address: bool,
        /// `_` may stand here.
        sink: bool,
    },
    /// A predicate that may be negated (`!%p`).
    Predicate,
    /// A number that must be known here.
    Immediate(Numbers),
    /// A number in this range, or a register of the type.
    Bounded(Numbers, ScalarType),
    /// A register with a selector of bytes or halves; the flag: it may be negated.
    Selected(TypeRule, bool),
    /// Registers of a matrix.
    Fragment(Matrix),
    /// `[address]`
    Memory(Place),
    /// `[tensor map, {coordinates}]`
    TensorMap,
    /// `[texture, coordinates]`, `[texture, sampler, coordinates]`
    Texture,
    /// `[surface, coordinates]`
    Surface,
    /// A texture, sampler or surface: its name, or a register with its handle; in brackets after
    /// [`Access::Address`].
    Handle,
    /// An address of the generic space, as a value.
    GenericAddress,
    /// Offsets of an im2col copy, in braces: there when the mnemonic has one of the im2col modes.
    Im2colOffsets,
    /// `cp.async`: bytes of the source (u32), or a predicate that ignores it.
    SourceSize,
    /// `tcgen05.mma`: 4 or 8 masks of lanes, in braces.
    LaneMask,
    /// Gradient of a texture coordinate: f32, or some in braces.
    Gradient,
    /// Texel offset: s32, or some in braces.
    TexelOffset,
    /// Depth that a texel is compared with.
    Depth,
    /// A label.
    Label,
    /// The label of a `.branchtargets` list.
    BranchTargets,
    /// All that follows `call`.
    Call,
}

impl Form {
    /// Places of the operands, those always there and those that may be.
    pub fn operand_counts(&self) -> (usize, usize) {
        if self.operands.iter().any(|o| o.kind == OperandKind::Call) {
            return (1, 4);
        }
        let always = self
            .operands
            .iter()
            .filter(|o| o.presence == Presence::Always);
        (always.count(), self.operands.len())
    }
}

impl std::fmt::Display for Sm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sm_{}", self.number)?;
        self.suffix.map_or(Ok(()), |suffix| write!(f, "{suffix}"))
    }
}

impl std::fmt::Display for Numbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("a number"),
            Self::Range(from, to) => write!(f, "a number from {from} to {to}"),
            Self::OneOf(numbers) => {
                let texts: Vec<_> = numbers.iter().map(i64::to_string).collect();
                f.write_str(&texts.join(" or "))
            }
        }
    }
}

impl Numbers {
    /// Whether a number is one of them.
    pub fn contains(self, number: i64) -> bool {
        match self {
            Self::Any => true,
            Self::Range(from, to) => (from..=to).contains(&number),
            Self::OneOf(numbers) => numbers.contains(&number),
        }
    }
}

impl OperandSpec {
    /// Whether an instruction with this mnemonic has the operand: `None` never, `Some(true)` if the writer likes.
    pub fn needed_by(&self, mnemonic: &Mnemonic) -> Option<bool> {
        if self.kind == OperandKind::Im2colOffsets {
            let modes = [Word::Im2col, Word::Im2colW, Word::Im2colW128];
            return mnemonic.any_of(&modes).map(|_| false);
        }
        match self.presence {
            Presence::Always => Some(false),
            Presence::Optional => Some(true),
            Presence::With(word) => mnemonic.has(word).then_some(false),
        }
    }
}
