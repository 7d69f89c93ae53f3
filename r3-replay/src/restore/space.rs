//! The device's address space while launches are restored into it: reservations for all of them,
//! memory for one.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{AddressPlan, Granularities, Mappings, Memory, OutOfSpace, Want, merge};
use super::translate::Translation;
use crate::device::{AddressRange, Device, DeviceError};

/// Where recorded addresses are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AddressMode {
    /// Where they were.
    #[default]
    Exact,
    /// Elsewhere; words that hold them are rewritten.
    Remap,
}

/// Why memory could not be put in place.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// An address is in use.
    #[error("{wanted} cannot be reserved: {occupant}")]
    Collision {
        /// The reservation that failed.
        wanted: AddressRange,
        /// What lies there.
        occupant: String,
    },
    /// The recorded range makes no sense.
    #[error(transparent)]
    OutOfSpace(#[from] OutOfSpace),
    /// More memory than the device has.
    #[error("{needed} bytes of device memory are needed, and the device has {total}")]
    TooLarge {
        /// What the launch needs.
        needed: u64,
        /// What there is.
        total: u64,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The address space.
#[derive(Debug)]
pub struct Space {
    mode: AddressMode,
    granularities: Granularities,
    plan: AddressPlan,
    /// Planned reservations, and where they are; the error of those that failed.
    reserved: BTreeMap<AddressRange, Result<u64, String>>,
    device: BTreeSet<AddressRange>,
    host: BTreeSet<AddressRange>,
}

impl Space {
    /// Reserves addresses for all wants. A reservation that fails is an error only of the launches
    /// that need it; `failures` lists them.
    pub fn reserve(
        device: &mut dyn Device,
        mode: AddressMode,
        wants: &[Want],
    ) -> Result<Self, SpaceError> {
        let granularities = Granularities {
            reservation: device.reservation_granularity(),
            mapping: device.mapping_granularity(),
            host: device.host_granularity(),
        };
        let plan = AddressPlan::new(wants, granularities)?;
        let mut reserved = BTreeMap::new();
        for &range in &plan.reservations {
            let place = match mode {
                AddressMode::Exact => device.reserve(range).map(|()| range.start()),
                AddressMode::Remap => device.reserve_anywhere(range.len()),
            };
            let place = match place {
                Ok(address) => Ok(address),
                Err(error @ (DeviceError::AddressTaken { .. } | DeviceError::Call { .. })) => {
                    Err(super::maps::occupant(range).unwrap_or_else(|| error.to_string()))
                }
                Err(error) => return Err(error.into()),
            };
            reserved.insert(range, place);
        }
        Ok(Self {
            mode,
            granularities,
            plan,
            reserved,
            device: BTreeSet::new(),
            host: BTreeSet::new(),
        })
    }

    /// Reservations that could not be had, and what lies there.
    pub fn failures(&self) -> impl Iterator<Item = (AddressRange, &str)> {
        self.reserved
            .iter()
            .filter_map(|(range, place)| Some((*range, place.as_ref().err()?.as_str())))
    }

    /// Puts memory where some of the wants need it and takes other memory away. Returns notes for
    /// the user.
    pub fn arrange(
        &mut self,
        device: &mut dyn Device,
        wants: &[Want],
    ) -> Result<Vec<String>, SpaceError> {
        let mut notes = Vec::new();
        let mut wants = wants.to_vec();
        let mappings = loop {
            let mappings = self.plan.mappings(&wants, self.granularities)?;
            self.check_size(device, &mappings)?;
            match self.map_all(device, &mappings)? {
                None => break mappings,
                Some((failed, why)) => {
                    notes.push(format!(
                        "host memory {failed} is replayed as device memory: {why}"
                    ));
                    self.demote(device, failed, &mut wants)?;
                }
            }
        };
        notes.extend(mappings.demoted.iter().map(|range| {
            format!(
                "host memory {range} is replayed as device memory: it shares a block of \
                 {} MiB with device memory",
                self.granularities.reservation >> 20
            )
        }));
        Ok(notes)
    }

    /// Where a recorded address is now; `None` when it is not in a reservation that was made.
    pub fn place(&self, recorded: AddressRange) -> Option<u64> {
        if let Some((range, place)) = self.reservation(recorded) {
            return place
                .as_ref()
                .ok()
                .map(|start| start + (recorded.start() - range.start()));
        }
        // Host memory is where it was.
        Some(recorded.start())
    }

    /// The translation of all given ranges; empty when addresses are exact.
    pub fn translation(&self, ranges: impl IntoIterator<Item = AddressRange>) -> Translation {
        if self.mode == AddressMode::Exact {
            return Translation::default();
        }
        Translation::new(
            ranges
                .into_iter()
                .filter_map(|range| Some((range, self.place(range)?))),
        )
    }

    /// Takes all memory and reservations away.
    pub fn clear(&mut self, device: &mut dyn Device) -> Result<(), DeviceError> {
        for range in std::mem::take(&mut self.device) {
            device.unmap(range)?;
        }
        for range in std::mem::take(&mut self.host) {
            device.unmap_host(range)?;
        }
        for (range, place) in std::mem::take(&mut self.reserved) {
            if let Some(range) = place
                .ok()
                .and_then(|start| AddressRange::new(start, range.len()))
            {
                device.release(range)?;
            }
        }
        Ok(())
    }

    fn reservation(&self, range: AddressRange) -> Option<(AddressRange, &Result<u64, String>)> {
        let (reserved, place) = self
            .reserved
            .iter()
            .find(|(reserved, _)| reserved.overlaps(range))?;
        Some((*reserved, place))
    }

    /// A range in parts that lie in one reservation each.
    fn cut(&self, range: AddressRange) -> Vec<AddressRange> {
        let mut parts = Vec::new();
        let mut start = range.start();
        for reserved in self
            .reserved
            .keys()
            .filter(|reserved| reserved.overlaps(range))
        {
            let end = reserved.end().min(range.end());
            parts.extend(AddressRange::between(start, end));
            start = end;
        }
        parts.extend(AddressRange::between(start, range.end()));
        parts
    }

    fn check_size(&self, device: &dyn Device, mappings: &Mappings) -> Result<(), SpaceError> {
        let total = device.info().total_memory;
        let needed = mappings
            .device
            .iter()
            .fold(0u64, |sum, range| sum.saturating_add(range.len()));
        if needed > total {
            return Err(SpaceError::TooLarge { needed, total });
        }
        let host = mappings
            .host
            .iter()
            .fold(0u64, |sum, range| sum.saturating_add(range.len()));
        if host > MOST_HOST_MEMORY {
            return Err(SpaceError::TooLarge {
                needed: host,
                total: MOST_HOST_MEMORY,
            });
        }
        Ok(())
    }

    /// Maps what is missing after unmapping what is not wanted. Returns the host range that the
    /// device refused, if one.
    fn map_all(
        &mut self,
        device: &mut dyn Device,
        mappings: &Mappings,
    ) -> Result<Option<(AddressRange, String)>, SpaceError> {
        let mut wanted = BTreeSet::new();
        for range in mappings.device.iter().flat_map(|range| self.cut(*range)) {
            match self.reservation(range) {
                Some((_, Ok(_))) => {}
                Some((reserved, Err(occupant))) => {
                    return Err(SpaceError::Collision {
                        wanted: reserved,
                        occupant: occupant.clone(),
                    });
                }
                None => return Err(OutOfSpace(range).into()),
            }
            let start = self.place(range).ok_or(OutOfSpace(range))?;
            wanted.insert(AddressRange::new(start, range.len()).ok_or(OutOfSpace(range))?);
        }
        let wanted_host: BTreeSet<AddressRange> = mappings.host.iter().copied().collect();
        let unwanted: Vec<_> = self.device.difference(&wanted).copied().collect();
        for range in unwanted {
            device.unmap(range)?;
            self.device.remove(&range);
        }
        let unwanted: Vec<_> = self.host.difference(&wanted_host).copied().collect();
        for range in unwanted {
            device.unmap_host(range)?;
            self.host.remove(&range);
        }
        for &range in &wanted_host {
            if self.host.contains(&range) {
                continue;
            }
            match device.map_host(range) {
                Ok(()) => self.host.insert(range),
                Err(error) => return Ok(Some((range, error.to_string()))),
            };
        }
        for &range in &wanted {
            if self.device.contains(&range) {
                continue;
            }
            device.map(range)?;
            self.device.insert(range);
        }
        Ok(None)
    }

    /// Turns the wants within a host range into device memory, with a reservation of their own.
    fn demote(
        &mut self,
        device: &mut dyn Device,
        host: AddressRange,
        wants: &mut [Want],
    ) -> Result<(), SpaceError> {
        let block = host
            .round_out(self.granularities.reservation)
            .ok_or(OutOfSpace(host))?;
        for want in wants.iter_mut().filter(|want| host.covers(want.range)) {
            want.memory = Memory::Device;
        }
        if self.reservation(block).is_none() {
            let place = match self.mode {
                AddressMode::Exact => device.reserve(block).map(|()| block.start()),
                AddressMode::Remap => device.reserve_anywhere(block.len()),
            };
            let place = place
                .map_err(|error| super::maps::occupant(block).unwrap_or_else(|| error.to_string()));
            self.reserved.insert(block, place);
            self.plan.reservations = merge(
                self.plan
                    .reservations
                    .iter()
                    .copied()
                    .chain([block])
                    .collect(),
            );
        }
        Ok(())
    }
}

/// Page-locking host memory has no limit of its own; this is more than any launch is known to use.
const MOST_HOST_MEMORY: u64 = 1 << 40;
