//! Registers that hold addresses in the same space, and which space that is.

use r3_ptx::typed::RegId;

use super::{pointer_bits, space};

/// Registers that hold addresses in the same space: sets that grow together.
pub(super) struct Groups {
    parents: Vec<u32>,
}

impl Groups {
    /// Each register on its own.
    pub fn new(len: usize) -> Self {
        Self {
            parents: (0..len as u32).collect(),
        }
    }

    fn parent(&self, i: u32) -> u32 {
        self.parents.get(i as usize).copied().unwrap_or(i)
    }

    /// The group of a register.
    pub fn of(&mut self, register: RegId) -> usize {
        let mut i = register.0;
        while self.parent(i) != i {
            let above = self.parent(self.parent(i));
            if let Some(parent) = self.parents.get_mut(i as usize) {
                *parent = above;
            }
            i = above;
        }
        i as usize
    }

    /// Makes one of two.
    pub fn join(&mut self, a: RegId, b: RegId) {
        let (a, b) = (self.of(a), self.of(b));
        let (low, high) = (a.min(b), a.max(b));
        if let Some(parent) = self.parents.get_mut(high) {
            *parent = low as u32;
        }
    }
}

/// What is known of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Group {
    /// Spaces in which its addresses are made, as a set.
    made: Spaces,
    /// Spaces in which they are used.
    used: Spaces,
    /// Some address comes from memory.
    pub rooted: bool,
    /// Bits of its registers, or-ed: 32, 64.
    pub widths: u32,
    /// Bits of those of its registers that are used as integers.
    pub bits: u32,
}

/// A set of address spaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spaces(u128);

impl Spaces {
    fn of(spaces: &[u32]) -> Self {
        spaces.iter().fold(Self::default(), |set, s| set.with(*s))
    }

    fn with(self, space: u32) -> Self {
        Self(self.0 | 1 << space)
    }

    fn within(self, others: &[u32]) -> bool {
        self.0 & !Self::of(others).0 == 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl Group {
    /// An address is made in a space.
    pub fn made(&mut self, space: u32) {
        self.made = self.made.with(space);
    }

    /// An address is used in a space.
    pub fn used(&mut self, space: u32) {
        self.used = self.used.with(space);
    }

    /// The one space that serves all definitions and uses.
    pub fn space(self) -> Option<u32> {
        if self.made.is_empty() && !self.rooted {
            return None;
        }
        // An address in global memory has the same bits as a generic one, and `.shared` is a part of `.shared::cluster`.
        let serves: &[(u32, &[u32])] = &[
            (space::GLOBAL, &[space::GLOBAL]),
            (space::GENERIC, &[space::GENERIC, space::GLOBAL]),
            (space::GLOBAL, &[space::GENERIC, space::GLOBAL]),
            (space::SHARED, &[space::SHARED, space::CLUSTER]),
            (space::CONST, &[space::CONST]),
            (space::LOCAL, &[space::LOCAL]),
            (space::PARAM, &[space::PARAM]),
        ];
        let (found, _) = serves.iter().find(|(space, uses)| {
            let makes = match self.made.is_empty() {
                true => *space != space::PARAM,
                false => self.made == Spaces::of(&[*space]),
            };
            makes && self.used.within(uses)
        })?;
        let narrow = pointer_bits(*found) < 64;
        let fits = match *found {
            space::SHARED => self.bits & 64 == 0,
            // LLVM cannot take the bits of a parameter's address.
            space::PARAM => self.widths == 64 && self.bits == 0,
            _ => self.widths == 64 && !(narrow && self.bits != 0),
        };
        fits.then_some(*found)
    }
}
