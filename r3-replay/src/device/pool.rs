//! Device memory that is used again and again: allocating and freeing costs the driver tens of microseconds, and waits for
//! all work.

use std::collections::BTreeMap;

use super::{Device, DeviceError};

/// Alignment of buffers, and the step of their lengths.
pub const ALIGNMENT: u64 = 256;

/// Buffers of a device, in use or kept for the next one who needs such a length.
#[derive(Debug, Default)]
pub struct Pool {
    /// Free ones, by room.
    free: BTreeMap<u64, Vec<u64>>,
    in_use: u64,
    kept: u64,
}

/// Device memory out of a [`Pool`]. Its content is undefined. It does not go back by itself.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "it goes back by `Pool::give`"]
pub struct Buffer {
    address: u64,
    len: u64,
    room: u64,
}

impl Buffer {
    /// Its address, a multiple of [`ALIGNMENT`].
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The length that was asked for.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory that it takes up.
    pub fn room(&self) -> u64 {
        self.room
    }
}

/// What a buffer of `len` bytes takes up: at most an eighth more, so that lengths that are nearly the same share buffers.
fn room(len: u64) -> Option<u64> {
    let len = len.max(1);
    let step = (len.checked_next_power_of_two()? / 16).max(ALIGNMENT);
    len.checked_next_multiple_of(step)
}

impl Pool {
    /// A pool without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of buffers in use.
    pub fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Bytes of buffers that are kept and not in use.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// A buffer: one that is kept, or a new one.
    pub fn take<D: Device + ?Sized>(
        &mut self,
        device: &mut D,
        len: u64,
    ) -> Result<Buffer, DeviceError> {
        let room = room(len).ok_or_else(|| {
            DeviceError::Unsupported(format!("a buffer of {len} bytes on the device"))
        })?;
        let known = self.free.get_mut(&room).and_then(Vec::pop);
        let address = match known {
            Some(address) => {
                self.kept -= room;
                address
            }
            None => match device.allocate(room) {
                Ok(address) => address,
                // Others that are kept may be in the way.
                Err(error) if self.kept > 0 => {
                    self.trim(device)?;
                    device.allocate(room).map_err(|_| error)?
                }
                Err(error) => return Err(error),
            },
        };
        self.in_use += room;
        Ok(Buffer { address, len, room })
    }

    /// Gives a buffer back.
    pub fn give(&mut self, buffer: Buffer) {
        self.in_use = self.in_use.saturating_sub(buffer.room);
        self.kept += buffer.room;
        self.free
            .entry(buffer.room)
            .or_default()
            .push(buffer.address);
    }

    /// Frees all buffers that are not in use.
    pub fn trim<D: Device + ?Sized>(&mut self, device: &mut D) -> Result<(), DeviceError> {
        for (room, addresses) in std::mem::take(&mut self.free) {
            for address in addresses {
                self.kept -= room;
                device.free(address)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::{CpuDevice, CpuOptions};

    #[test]
    fn a_buffer_that_was_given_back_is_used_again() {
        let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
        let mut pool = Pool::new();
        let one = pool.take(&mut device, 1000).unwrap();
        let address = one.address();
        assert_eq!(
            (one.len(), one.room(), address % ALIGNMENT),
            (1000, 1024, 0)
        );
        let other = pool.take(&mut device, 1000).unwrap();
        assert_ne!(other.address(), address);
        pool.give(one);
        assert_eq!((pool.in_use(), pool.kept()), (1024, 1024));
        let again = pool.take(&mut device, 1024).unwrap();
        assert_eq!(again.address(), address);
        pool.give(again);
        pool.give(other);
        pool.trim(&mut device).unwrap();
        assert_eq!((pool.in_use(), pool.kept()), (0, 0));
        assert!(device.read(address, &mut [0]).is_err(), "it is freed");
    }

    #[test]
    fn a_buffer_takes_up_little_more_than_was_asked_for() {
        for len in [
            1u64,
            255,
            257,
            5000,
            1 << 20,
            (1 << 20) + 1,
            (1 << 30) + 12345,
        ] {
            let room = room(len).unwrap();
            assert!(room >= len && room <= (len + len / 8).max(len + ALIGNMENT));
        }
        assert_eq!(room(u64::MAX), None);
    }
}
