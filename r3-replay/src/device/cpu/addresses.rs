//! Which addresses are taken. Memory in them is [`r3_emu::Memory`]'s business.

use std::collections::BTreeMap;

use crate::device::{AddressRange, DeviceError};

/// Where the device looks for room of its own: below where GPUs and Linux put memory, above where programs lie.
const OWN: u64 = 0x2000_0000_0000;
/// Alignment of what it finds.
const ALIGN: u64 = 256;

/// The ranges that are taken, and how much memory is in them.
#[derive(Debug, Default)]
pub struct Addresses {
    /// Disjoint; by start.
    taken: BTreeMap<u64, AddressRange>,
    mapped: u64,
    /// Everything from [`OWN`] up to here was found before.
    next: u64,
}

impl Addresses {
    /// Whether nothing in `range` is taken.
    pub fn free(&self, range: AddressRange) -> bool {
        self.taken
            .range(..range.end())
            .next_back()
            .is_none_or(|(_, before)| !before.overlaps(range))
    }

    /// Takes exactly `range`.
    pub fn reserve(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        if !self.free(range) {
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: None,
            });
        }
        self.taken.insert(range.start(), range);
        Ok(())
    }

    /// Takes `len` bytes where there is room.
    pub fn reserve_anywhere(&mut self, len: u64) -> Result<u64, DeviceError> {
        self.reserve_aligned(len, ALIGN)
    }

    /// As [`Self::reserve_anywhere`], for a stricter alignment.
    pub fn reserve_aligned(&mut self, len: u64, align: u64) -> Result<u64, DeviceError> {
        let align = align.max(ALIGN).next_power_of_two();
        let mut start = self.next.max(OWN);
        loop {
            let range = start
                .checked_next_multiple_of(align)
                .and_then(|start| AddressRange::new(start, len.max(1)))
                .ok_or_else(|| DeviceError::Unsupported(format!("no room for {len} bytes")))?;
            let in_the_way = self.taken.range(..range.end()).next_back();
            match in_the_way {
                Some((_, before)) if before.overlaps(range) => start = before.end(),
                _ => {
                    self.taken.insert(range.start(), range);
                    // A gap, so that what runs over the end of one meets nothing.
                    self.next = range.end().saturating_add(ALIGN);
                    return Ok(range.start());
                }
            }
        }
    }

    /// Takes `len` bytes at the highest place with room that ends before `end` and begins at `least` or behind it.
    pub fn reserve_below(&mut self, end: u64, least: u64, len: u64, align: u64) -> Option<u64> {
        let align = align.max(ALIGN).next_power_of_two();
        let mut end = end;
        loop {
            let start = end.checked_sub(len.max(1))? / align * align;
            if start < least {
                return None;
            }
            let range = AddressRange::new(start, len.max(1))?;
            match self.taken.range(..range.end()).next_back() {
                Some((_, before)) if before.overlaps(range) => {
                    end = before.start().checked_sub(ALIGN)?;
                }
                _ => {
                    self.taken.insert(start, range);
                    return Some(start);
                }
            }
        }
    }

    /// Gives one earlier reservation back.
    pub fn release(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        match self.taken.get(&range.start()) {
            Some(taken) if *taken == range => {
                self.taken.remove(&range.start());
                Ok(())
            }
            _ => Err(DeviceError::Unsupported(format!(
                "{range} is no reservation"
            ))),
        }
    }

    /// Gives back the reservation that begins at `address`.
    pub fn release_at(&mut self, address: u64) -> Result<AddressRange, DeviceError> {
        self.taken
            .remove(&address)
            .ok_or_else(|| DeviceError::Unsupported(format!("{address:#x} is no reservation")))
    }

    /// Counts memory that came or went.
    pub fn count(&mut self, bytes: i64) {
        self.mapped = self.mapped.saturating_add_signed(bytes);
    }

    /// Bytes of memory.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> AddressRange {
        AddressRange::new(start, len).unwrap()
    }

    #[test]
    fn neighbours_are_no_overlap_and_one_shared_byte_is() {
        let mut addresses = Addresses::default();
        addresses.reserve(range(0x1000, 0x10)).unwrap();
        addresses.reserve(range(0x1010, 1)).unwrap();
        addresses.reserve(range(0xfff, 1)).unwrap();
        assert!(addresses.reserve(range(0x1010, 4)).is_err());
        assert!(addresses.reserve(range(0, 0x10_0000)).is_err());
        addresses.release(range(0x1010, 1)).unwrap();
        addresses.reserve(range(0x1010, 4)).unwrap();
    }

    #[test]
    fn own_room_goes_around_what_is_reserved() {
        let mut addresses = Addresses::default();
        addresses.reserve(range(OWN + 0x100, 0x1000)).unwrap();
        let small = addresses.reserve_anywhere(0x100).unwrap();
        let large = addresses.reserve_anywhere(0x2000).unwrap();
        assert_eq!(small, OWN);
        assert!(large >= OWN + 0x1100, "{large:#x}");
        let aligned = addresses.reserve_aligned(1, 0x1_0000).unwrap();
        assert_eq!(aligned % 0x1_0000, 0);
    }

    #[test]
    fn room_below_is_the_highest_there_is() {
        let mut addresses = Addresses::default();
        let end = 0x7f64_ffff_ffff;
        let first = addresses.reserve_below(end, 0x7f64_0000_0000, 16, 4);
        assert_eq!(first, Some(0x7f64_ffff_ff00));
        let second = addresses.reserve_below(end, 0x7f64_0000_0000, 0x200, 0x1000);
        assert_eq!(second, Some(0x7f64_ffff_f000));
        assert_eq!(
            addresses.reserve_below(end, 0x7f64_ffff_f000, 16, 4),
            Some(0x7f64_ffff_fd00)
        );
        assert_eq!(
            addresses.reserve_below(end, 0x7f64_ffff_f000, 0x1000, 4),
            None
        );
        assert_eq!(addresses.reserve_below(8, 0, 16, 4), None);
    }

    #[test]
    fn only_whole_reservations_are_given_back() {
        let mut addresses = Addresses::default();
        addresses.reserve(range(0x1000, 0x10)).unwrap();
        assert!(addresses.release(range(0x1000, 8)).is_err());
        assert!(addresses.release_at(0x1008).is_err());
        assert_eq!(addresses.release_at(0x1000).unwrap(), range(0x1000, 0x10));
    }
}
