//! Where the registers of a function are in its frame.

use crate::exec::{Base, LANES, Slot};
use r3_ptx::isa::ScalarType;
use r3_ptx::typed::{RegId, Register};

/// Kinds of storage, by the width of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Storage {
    /// One bit a lane.
    Predicate,
    /// So many bytes a lane: 2, 4, 8 or 16.
    Bytes(u32),
}

impl Storage {
    /// Of a type. 8-bit values have 16 bits.
    pub fn of(ty: ScalarType) -> Self {
        match ty {
            ScalarType::Pred => Self::Predicate,
            _ => Self::Bytes(match ty.bytes() {
                0..=2 => 2,
                3..=4 => 4,
                5..=8 => 8,
                _ => 16,
            }),
        }
    }
}

/// Most bytes of a frame, about: some millions of registers.
const MOST: u32 = 1 << 30;
/// Fewest bytes of a frame: any one slot fits.
const LEAST: u32 = 16 * LANES as u32;

/// Slots of a function's registers and temporaries.
pub(super) struct Registers {
    slots: Vec<(Slot, Storage)>,
    end: u32,
    /// Predicates share lines of 16.
    predicates: (u32, u32),
    /// Set when there was no room: then slots mean nothing.
    full: bool,
    /// Temporaries of each width, and how many the current instruction has taken.
    temporaries: [(Vec<Slot>, usize); 5],
}

impl Registers {
    /// Lays out the registers from `start` on.
    pub fn new(registers: &[Register], start: u32) -> Self {
        let mut layout = Self {
            slots: Vec::with_capacity(registers.len()),
            end: start,
            predicates: (0, 0),
            full: false,
            temporaries: Default::default(),
        };
        for register in registers {
            let storage = Storage::of(register.ty);
            let slot = layout.place(storage);
            layout.slots.push((slot, storage));
        }
        layout
    }

    fn place(&mut self, storage: Storage) -> Slot {
        if self.end > MOST {
            self.full = true;
            return Slot::new(Base::Frame, 0);
        }
        match storage {
            Storage::Predicate => {
                if self.predicates.1 == 0 {
                    self.predicates = (self.end, 16);
                    self.end += 64;
                }
                let slot = Slot::new(Base::Frame, self.predicates.0);
                self.predicates = (self.predicates.0 + 4, self.predicates.1 - 1);
                slot
            }
            Storage::Bytes(width) => {
                let slot = Slot::new(Base::Frame, self.end);
                self.end += width * LANES as u32;
                slot
            }
        }
    }

    /// Whether there was no room for all.
    pub fn full(&self) -> bool {
        self.full
    }

    /// Slot and storage of a register.
    pub fn get(&self, register: RegId) -> Option<(Slot, Storage)> {
        self.slots.get(register.0 as usize).copied()
    }

    /// Gives the temporaries back: the next instruction begins.
    pub fn next_instruction(&mut self) {
        for kind in &mut self.temporaries {
            kind.1 = 0;
        }
    }

    fn take(&mut self, kind: usize, storage: Storage) -> Slot {
        let taken = self.temporaries[kind].1;
        self.temporaries[kind].1 += 1;
        if let Some(&slot) = self.temporaries[kind].0.get(taken) {
            return slot;
        }
        let slot = self.place(storage);
        self.temporaries[kind].0.push(slot);
        slot
    }

    /// A temporary of `width` bytes a lane.
    pub fn temporary(&mut self, width: u32) -> Slot {
        let kind = (width.trailing_zeros() as usize).clamp(1, 4) - 1;
        self.take(kind, Storage::Bytes(width))
    }

    /// A temporary predicate.
    pub fn temporary_predicate(&mut self) -> Slot {
        self.take(4, Storage::Predicate)
    }

    /// Bytes of the frame.
    pub fn bytes(&self) -> u32 {
        self.end.next_multiple_of(64).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of 100 MB can name so many.
    #[test]
    fn more_registers_than_a_frame_can_have_are_noticed() {
        let register = Register {
            name: "".into(),
            ty: ScalarType::B128,
        };
        let mut registers = Registers::new(&vec![register; (MOST / 512) as usize + 2], 256);
        assert!(registers.full());
        assert!(registers.bytes() < 2 * MOST);
        registers.temporary(16);
        registers.temporary_predicate();
        assert!(registers.bytes() < 2 * MOST);
    }
}
