//! What a value may be made of.

/// A set of roots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roots(u8);

impl Roots {
    /// Numbers alone.
    pub const NONE: Self = Self(0);
    /// A pointer among the kernel's parameters, or a variable that the original has.
    pub const POINTER: Self = Self(1);
    /// What lies in memory: it may be a pointer.
    pub const MEMORY: Self = Self(2);
    /// A table that the original has not.
    pub const TABLE: Self = Self(4);
    /// A variable in shared or local memory.
    pub const STACK: Self = Self(8);
    /// Less than 64 bits of one of these.
    pub const PIECE: Self = Self(16);

    /// Both.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Nothing but numbers.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// It may lead to memory.
    pub fn is_address(self) -> bool {
        self.0 & !Self::PIECE.0 != 0
    }

    /// Pieces of something that may.
    pub fn is_piece(self) -> bool {
        self.0 & Self::PIECE.0 != 0
    }

    /// A table and nothing else.
    pub fn is_table(self) -> bool {
        self.0 & !Self::PIECE.0 == Self::TABLE.0
    }

    /// A table, perhaps among others.
    pub fn has_table(self) -> bool {
        self.0 & Self::TABLE.0 != 0
    }

    /// Shared or local memory and nothing else.
    pub fn is_stack(self) -> bool {
        self.0 & !Self::PIECE.0 == Self::STACK.0
    }

    /// It may be what lies in memory.
    pub fn is_memory(self) -> bool {
        self.0 & Self::MEMORY.0 != 0
    }

    /// What so many bits of it are.
    pub fn cut(self, bits: u32) -> Self {
        match (bits >= 64, self.is_none()) {
            (true, _) => self,
            (false, true) => Self::NONE,
            (false, false) => Self::PIECE,
        }
    }

    /// What 64 bits are that were stored as pieces, or as a whole.
    pub fn joined(self) -> Self {
        match self.is_piece() {
            true => self.with(Self::MEMORY),
            false => self,
        }
    }
}
