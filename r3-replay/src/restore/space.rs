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
    /// The same for host memory, which is where it was or nowhere.
    host_reserved: BTreeMap<AddressRange, Result<(), String>>,
    /// Why there is no host memory: the device refused it once.
    host_refused: Option<String>,
    device: BTreeSet<AddressRange>,
    host: BTreeSet<AddressRange>,
    /// Memory that was put in place for the present launch.
    fresh: Vec<AddressRange>,
}

/// What [`Space::arrange`] did.
#[derive(Clone, Debug, Default)]
pub struct Arranged {
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Memory that was not there before: its content is undefined.
    pub fresh: Vec<AddressRange>,
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
        let mut space = Self {
            mode,
            granularities,
            plan,
            reserved: BTreeMap::new(),
            host_reserved: BTreeMap::new(),
            host_refused: None,
            device: BTreeSet::new(),
            host: BTreeSet::new(),
            fresh: Vec::new(),
        };
        for range in space.plan.reservations.clone() {
            space.reserve_block(device, range)?;
        }
        for range in space.plan.mappings(wants, granularities)?.host {
            let place = device
                .reserve_host(range)
                .map_err(|error| in_the_way(range, &error));
            space.host_reserved.insert(range, place);
        }
        Ok(space)
    }

    fn reserve_block(
        &mut self,
        device: &mut dyn Device,
        block: AddressRange,
    ) -> Result<(), SpaceError> {
        let place = match self.mode {
            AddressMode::Exact => device.reserve(block).map(|()| block.start()),
            AddressMode::Remap => device.reserve_anywhere(block.len()),
        };
        let place = match place {
            Ok(address) => Ok(address),
            Err(error @ (DeviceError::AddressTaken { .. } | DeviceError::Call { .. })) => {
                Err(in_the_way(block, &error))
            }
            Err(error) => return Err(error.into()),
        };
        self.reserved.insert(block, place);
        Ok(())
    }

    /// Reservations that could not be had, and what lies there.
    pub fn failures(&self) -> impl Iterator<Item = (AddressRange, &str)> {
        let device = self
            .reserved
            .iter()
            .map(|(range, place)| (range, place.as_ref().err()));
        let host = self
            .host_reserved
            .iter()
            .map(|(range, place)| (range, place.as_ref().err()));
        device
            .chain(host)
            .filter_map(|(range, error)| Some((*range, error?.as_str())))
    }

    /// Puts memory where some of the wants need it and takes other memory away.
    pub fn arrange(
        &mut self,
        device: &mut dyn Device,
        wants: &[Want],
    ) -> Result<Arranged, SpaceError> {
        self.fresh.clear();
        let mut notes = Vec::new();
        let mut mappings = self.mappings(wants)?;
        self.check_size(device, &mappings)?;
        if let Some(refused) = self.map_all(device, &mappings)? {
            self.do_without_host(device, refused)?;
            mappings = self.mappings(wants)?;
            self.check_size(device, &mappings)?;
            self.map_all(device, &mappings)?;
        }
        if let Some(reason) = &self.host_refused
            && wants.iter().any(|want| want.memory == Memory::Host)
        {
            notes.push(format!(
                "host memory is replayed as device memory: {reason}"
            ));
        }
        notes.extend(mappings.demoted.iter().map(|range| {
            format!(
                "host memory {range} is replayed as device memory: it shares a block of \
                 {} MiB with device memory",
                self.granularities.reservation >> 20
            )
        }));
        Ok(Arranged {
            notes,
            fresh: std::mem::take(&mut self.fresh),
        })
    }

    /// The mappings for wants, with host memory as far as there is any.
    fn mappings(&self, wants: &[Want]) -> Result<Mappings, OutOfSpace> {
        let mut wants = wants.to_vec();
        if self.host_refused.is_some() {
            wants
                .iter_mut()
                .for_each(|want| want.memory = Memory::Device);
        }
        self.plan.mappings(&wants, self.granularities)
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

    /// Memory that is in place, where it is now.
    pub fn mapped(&self) -> impl Iterator<Item = AddressRange> {
        self.device.iter().chain(&self.host).copied()
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
        for (range, place) in std::mem::take(&mut self.host_reserved) {
            if place.is_ok() {
                device.release_host(range)?;
            }
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

    /// Maps what is missing after unmapping what is not wanted. Returns why the device refused host
    /// memory, if it did.
    fn map_all(
        &mut self,
        device: &mut dyn Device,
        mappings: &Mappings,
    ) -> Result<Option<String>, SpaceError> {
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
            let reserved = self.host_reserved.iter().find(|(r, _)| r.covers(range));
            match reserved {
                Some((_, Ok(()))) => {}
                Some((wanted, Err(occupant))) => {
                    return Err(SpaceError::Collision {
                        wanted: *wanted,
                        occupant: occupant.clone(),
                    });
                }
                None => return Err(OutOfSpace(range).into()),
            }
            match device.map_host(range) {
                Ok(()) => self.host.insert(range),
                Err(error) => return Ok(Some(error.to_string())),
            };
            self.fresh.push(range);
        }
        for &range in &wanted {
            if self.device.contains(&range) {
                continue;
            }
            device.map(range)?;
            self.device.insert(range);
            self.fresh.push(range);
        }
        Ok(None)
    }

    /// Gives all host memory up and reserves its addresses for device memory.
    fn do_without_host(
        &mut self,
        device: &mut dyn Device,
        reason: String,
    ) -> Result<(), SpaceError> {
        for range in std::mem::take(&mut self.host) {
            device.unmap_host(range)?;
        }
        let mut blocks = Vec::new();
        for (range, place) in std::mem::take(&mut self.host_reserved) {
            if place.is_ok() {
                device.release_host(range)?;
            }
            let block = range.round_out(self.granularities.reservation);
            blocks.push(block.ok_or(OutOfSpace(range))?);
        }
        // No host range shares a block with device memory, so that these blocks are all new.
        for block in merge(blocks) {
            self.reserve_block(device, block)?;
            self.plan.reservations.push(block);
        }
        self.plan.reservations = merge(std::mem::take(&mut self.plan.reservations));
        self.host_refused = Some(reason);
        Ok(())
    }
}

/// What keeps a range from being reserved, for people.
fn in_the_way(range: AddressRange, error: &DeviceError) -> String {
    super::maps::occupant(range).unwrap_or_else(|| error.to_string())
}

/// Page-locking host memory has no limit of its own; this is more than any launch is known to use.
const MOST_HOST_MEMORY: u64 = 1 << 40;
