//! Numbers of the text as slots.

use crate::block::Buffer;
use crate::exec::{Base, LANES, Slot};
use std::collections::HashMap;

/// The constants of a function. The first two words are the predicates true and false. Behind them is room for 32 lanes of 16
/// bytes: handlers read operands that an op does not have from there, too.
pub(super) struct Constants {
    bytes: Vec<u8>,
    slots: HashMap<(u128, u32), Slot>,
}

impl Constants {
    pub fn new() -> Self {
        let mut bytes = vec![0; 16 * LANES];
        bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        Self {
            bytes,
            slots: HashMap::new(),
        }
    }

    /// A slot with `value`, cut to `width` bytes, in each lane.
    pub fn slot(&mut self, value: u128, width: u32) -> Slot {
        let value = match width {
            16 => value,
            _ => value & ((1 << (8 * width)) - 1),
        };
        *self.slots.entry((value, width)).or_insert_with(|| {
            let slot = Slot::new(Base::Constants, self.bytes.len() as u32);
            for _ in 0..LANES {
                self.bytes
                    .extend_from_slice(&value.to_le_bytes()[..width as usize]);
            }
            slot
        })
    }

    pub fn finish(self) -> Buffer {
        Buffer::of(&self.bytes)
    }
}
