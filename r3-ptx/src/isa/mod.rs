//! The instruction set: opcodes, modifiers, types, spaces, special registers, and the forms of each instruction.

/// (placeholder, to be replaced by its owner within minutes)
#[derive(Clone, Debug, PartialEq)]
pub struct Mnemonic {}
/// (placeholder)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// `.pred`
    Pred,
}
/// (placeholder)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.reg`
    Reg,
    /// `.param`
    Param,
}
/// (placeholder)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialRegister {
    /// `%laneid`
    LaneId,
}
