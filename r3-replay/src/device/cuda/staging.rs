//! A small ring of page-locked host memory, through which bytes reach the device.
//!
//! Copies from one slot run while another is filled. Page-locking is slow (about a second for
//! 1 GiB), so the ring is small, made once, and kept.

use std::sync::Arc;

use super::driver::{Driver, HostMemory, Object};
use crate::device::DeviceError;

/// Bytes of one slot, for content of memory.
pub const SLOT_LEN: usize = 16 << 20;
/// Slots of a ring.
pub const SLOTS: usize = 4;

struct Slot {
    memory: HostMemory,
    /// Recorded after the last copy from the slot; `None` when copies are synchronous.
    copied: Option<Object>,
    busy: bool,
}

/// The ring.
pub struct Staging {
    driver: Arc<Driver>,
    slots: Vec<Slot>,
    next: usize,
}

impl Staging {
    /// Allocates a ring of `slots` slots of `len` bytes.
    pub fn new(driver: Arc<Driver>, len: usize, slots: usize) -> Result<Self, DeviceError> {
        let mut staging = Self {
            driver,
            slots: Vec::new(),
            next: 0,
        };
        for _ in 0..slots {
            let memory = staging.driver.host_memory(len)?;
            let background = memory.is_locked() && staging.driver.writes_in_background();
            staging.slots.push(Slot {
                memory,
                copied: None,
                busy: false,
            });
            if background && let Ok(event) = staging.driver.event() {
                staging
                    .slots
                    .iter_mut()
                    .rev()
                    .take(1)
                    .for_each(|slot| slot.copied = Some(event));
            }
        }
        Ok(staging)
    }

    /// Fills the next free slot by `fill`, then starts the copies that `fill` returns:
    /// (offset in the slot, length, device address).
    pub fn send(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Result<Vec<(usize, usize, u64)>, DeviceError>,
    ) -> Result<(), DeviceError> {
        let index = self.next;
        self.next = (self.next + 1) % self.slots.len().max(1);
        let Some(slot) = self.slots.get_mut(index) else {
            return Err(DeviceError::Unsupported("no staging memory".to_owned()));
        };
        if slot.busy
            && let Some(event) = slot.copied
        {
            self.driver.wait(event)?;
        }
        slot.busy = false;
        let copies = fill(slot.memory.bytes_mut())?;
        for (offset, len, address) in copies {
            let Some(bytes) = offset
                .checked_add(len)
                .and_then(|end| slot.memory.bytes().get(offset..end))
            else {
                return Err(DeviceError::Unsupported(
                    "a copy beyond its staging slot".to_owned(),
                ));
            };
            if slot.copied.is_some() {
                slot.busy = true;
                // SAFETY: the slot is page-locked, and is handed out again only after the event
                // below, or freed only after the device is idle.
                unsafe { self.driver.start_write(address, bytes) }?;
            } else {
                self.driver.write(address, bytes)?;
            }
        }
        match slot.copied {
            Some(event) => self.driver.record(event),
            None => Ok(()),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.slots.iter().any(|slot| slot.busy) && self.driver.synchronize().is_err() {
            // Copies may still read the memory: leave it.
            return;
        }
        for slot in self.slots.drain(..) {
            let _ = self.driver.free_host_memory(slot.memory);
        }
    }
}
