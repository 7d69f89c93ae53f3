//! Which addresses to reserve and where to put memory: pure functions over ranges.
//!
//! Recorded ranges are rounded out to the device's granularities and merged. A reservation may
//! cover far more than was recorded; memory is put only around what was.

use crate::device::AddressRange;

/// What kind of memory a recorded range wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Device memory.
    Device,
    /// Host memory that the device sees at the same address.
    Host,
}

/// One recorded range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Where it was.
    pub range: AddressRange,
    /// What it was.
    pub memory: Memory,
}

/// Alignments of a device.
#[derive(Clone, Copy, Debug)]
pub struct Granularities {
    /// Of reservations.
    pub reservation: u64,
    /// Of mappings.
    pub mapping: u64,
    /// Of host memory.
    pub host: u64,
}

/// The address space for some launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPlan {
    /// What to reserve: aligned, disjoint, not adjacent, ascending.
    pub reservations: Vec<AddressRange>,
}

/// Where one launch needs memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    /// Device memory: aligned, disjoint, not adjacent, ascending; each inside one reservation.
    pub device: Vec<AddressRange>,
    /// Host memory: aligned, disjoint, ascending; outside all reservations.
    pub host: Vec<AddressRange>,
    /// Host ranges (as recorded) that become device memory, since a reservation needs their
    /// addresses.
    pub demoted: Vec<AddressRange>,
}

/// A range that cannot be rounded out within the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recorded range {0} reaches the end of the address space")]
pub struct OutOfSpace(pub AddressRange);

impl AddressPlan {
    /// Plans for all ranges of all launches that will be replayed.
    pub fn new(wants: &[Want], granularities: Granularities) -> Result<Self, OutOfSpace> {
        let mut device: Vec<AddressRange> = Vec::new();
        let mut host: Vec<(AddressRange, AddressRange)> = Vec::new();
        for want in wants {
            let reserved = round(want.range, granularities.reservation)?;
            match want.memory {
                Memory::Device => device.push(reserved),
                Memory::Host => host.push((round(want.range, granularities.host)?, reserved)),
            }
        }
        let mut reservations = merge(device);
        loop {
            // A host range that a reservation covers becomes device memory, which may make the
            // reservation longer, which may cover another one.
            let (covered, free): (Vec<_>, Vec<_>) = host
                .into_iter()
                .partition(|(pages, _)| reservations.iter().any(|r| r.overlaps(*pages)));
            host = free;
            if covered.is_empty() {
                return Ok(Self { reservations });
            }
            reservations.extend(covered.into_iter().map(|(_, reserved)| reserved));
            reservations = merge(reservations);
        }
    }

    /// The mappings for some of the ranges that the plan was made for.
    pub fn mappings(
        &self,
        wants: &[Want],
        granularities: Granularities,
    ) -> Result<Mappings, OutOfSpace> {
        let (mut device, mut host, mut demoted) = (Vec::new(), Vec::new(), Vec::new());
        for want in wants {
            let pages = round(want.range, granularities.host)?;
            let covered = self.reservations.iter().any(|r| r.overlaps(pages));
            match want.memory {
                Memory::Host if !covered => host.push(pages),
                memory => {
                    if memory == Memory::Host {
                        demoted.push(want.range);
                    }
                    device.push(round(want.range, granularities.mapping)?);
                }
            }
        }
        Ok(Mappings {
            device: merge(device),
            host: merge(host),
            demoted,
        })
    }
}

fn round(range: AddressRange, granularity: u64) -> Result<AddressRange, OutOfSpace> {
    range.round_out(granularity).ok_or(OutOfSpace(range))
}

/// Sorts, and joins ranges that overlap or touch.
pub fn merge(mut ranges: Vec<AddressRange>) -> Vec<AddressRange> {
    ranges.sort_unstable();
    let mut merged: Vec<AddressRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start() <= last.end() => {
                if let Some(joined) =
                    AddressRange::between(last.start(), last.end().max(range.end()))
                {
                    *last = joined;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const GPU: Granularities = Granularities {
        reservation: 32 * MIB,
        mapping: 2 * MIB,
        host: 4096,
    };

    fn range(start: u64, len: u64) -> AddressRange {
        AddressRange::new(start, len).unwrap()
    }

    fn device(start: u64, len: u64) -> Want {
        Want {
            range: range(start, len),
            memory: Memory::Device,
        }
    }

    fn host(start: u64, len: u64) -> Want {
        Want {
            range: range(start, len),
            memory: Memory::Host,
        }
    }

    #[test]
    fn small_allocations_of_one_block_share_one_mapping() {
        let wants = [device(0x7f12_3460_0000, 512), device(0x7f12_3460_0200, 512)];
        let plan = AddressPlan::new(&wants, GPU).unwrap();
        assert_eq!(plan.reservations, [range(0x7f12_3400_0000, 32 * MIB)]);
        let mappings = plan.mappings(&wants, GPU).unwrap();
        assert_eq!(mappings.device, [range(0x7f12_3460_0000, 2 * MIB)]);
    }

    #[test]
    fn stream_ordered_allocations_start_on_a_reservable_address() {
        let wants = [device(0x3_0200_0000, 64)];
        let plan = AddressPlan::new(&wants, GPU).unwrap();
        assert_eq!(plan.reservations, [range(0x3_0200_0000, 32 * MIB)]);
    }

    #[test]
    fn a_range_over_a_block_boundary_reserves_both_blocks_as_one() {
        let wants = [device(0x7f12_35ff_f000, 0x2000)];
        let plan = AddressPlan::new(&wants, GPU).unwrap();
        assert_eq!(plan.reservations, [range(0x7f12_3400_0000, 64 * MIB)]);
    }

    #[test]
    fn host_memory_outside_reservations_stays_host_memory() {
        let wants = [device(0x7f12_3400_0000, 64), host(0x7f20_0000_1100, 64)];
        let plan = AddressPlan::new(&wants, GPU).unwrap();
        let mappings = plan.mappings(&wants, GPU).unwrap();
        assert_eq!(mappings.host, [range(0x7f20_0000_1000, 4096)]);
        assert!(mappings.demoted.is_empty());
    }

    #[test]
    fn host_memory_in_a_reserved_block_becomes_device_memory() {
        let wants = [device(0x7f12_3400_0000, 64), host(0x7f12_3500_0000, 64)];
        let plan = AddressPlan::new(&wants, GPU).unwrap();
        let mappings = plan.mappings(&wants, GPU).unwrap();
        assert!(mappings.host.is_empty());
        assert_eq!(mappings.demoted, [range(0x7f12_3500_0000, 64)]);
        assert_eq!(
            mappings.device,
            [
                range(0x7f12_3400_0000, 2 * MIB),
                range(0x7f12_3500_0000, 2 * MIB)
            ]
        );
    }

    #[test]
    fn the_end_of_the_address_space_is_an_error() {
        let wants = [device(u64::MAX - 10, 5)];
        assert_eq!(
            AddressPlan::new(&wants, GPU),
            Err(OutOfSpace(range(u64::MAX - 10, 5)))
        );
    }

    fn any_want() -> impl Strategy<Value = Want> {
        (0u64..0x10_0000_0000, 1u64..200 * MIB, any::<bool>()).prop_map(|(start, len, is_host)| {
            if is_host {
                host(start, len)
            } else {
                device(start, len)
            }
        })
    }

    proptest! {
        #[test]
        fn plans_hold_their_promises(wants in prop::collection::vec(any_want(), 1..40)) {
            let plan = AddressPlan::new(&wants, GPU).unwrap();
            for pair in plan.reservations.windows(2) {
                prop_assert!(pair[0].end() < pair[1].start());
            }
            for r in &plan.reservations {
                prop_assert_eq!(r.start() % (32 * MIB), 0);
                prop_assert_eq!(r.len() % (32 * MIB), 0);
            }
            let m = plan.mappings(&wants, GPU).unwrap();
            for pair in m.device.windows(2) {
                prop_assert!(pair[0].end() < pair[1].start());
            }
            for d in &m.device {
                prop_assert_eq!((d.start() % (2 * MIB), d.len() % (2 * MIB)), (0, 0));
                prop_assert!(plan.reservations.iter().any(|r| r.covers(*d)));
            }
            for h in &m.host {
                prop_assert_eq!((h.start() % 4096, h.len() % 4096), (0, 0));
                prop_assert!(!plan.reservations.iter().any(|r| r.overlaps(*h)));
            }
            for want in &wants {
                prop_assert!(
                    m.device.iter().chain(&m.host).any(|mapped| mapped.covers(want.range)),
                    "{} is mapped nowhere", want.range
                );
            }
        }
    }
}
