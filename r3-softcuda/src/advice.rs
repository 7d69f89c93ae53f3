//! Advice about managed memory: kept and told, without effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::api::{In, Out, api};
use crate::context;
use crate::device;
use crate::error::{CuError, Res};
use crate::handle::Handle;
use crate::process::lock;
use crate::space::{self, Kind};
use crate::stream;
use crate::vmm::Location;

/// `CU_MEM_LOCATION_TYPE_…`
const DEVICE: u32 = 1;
const HOST: u32 = 2;
const HOST_NODES: std::ops::RangeInclusive<u32> = 3..=4;
/// `CU_DEVICE_CPU`, `CU_DEVICE_INVALID`
const CPU: i32 = -1;
const NOWHERE: i32 = -2;

/// What was said about an allocation. (Ranges inside one are not told apart.)
#[derive(Clone, Default)]
struct Advice {
    read_mostly: bool,
    preferred: Option<i32>,
    accessed_by: BTreeSet<i32>,
    prefetched: Option<i32>,
}

/// By the allocation's id, which is never used twice.
static GIVEN: Mutex<BTreeMap<u64, Advice>> = Mutex::new(BTreeMap::new());

/// The allocation that a range lies in.
fn managed(address: u64, len: usize) -> Res<u64> {
    context::current()?;
    let found = space::find(address)
        .filter(|found| found.kind == Kind::Managed)
        .ok_or(CuError::INVALID_VALUE)?;
    let end = address.checked_add(len as u64);
    if end.is_some_and(|end| end <= found.end()) {
        Ok(found.id)
    } else {
        Err(CuError::INVALID_VALUE)
    }
}

/// A place as the older forms name it: a device, or the CPU.
fn place(location: Location) -> Res<i32> {
    match location.kind {
        DEVICE => Ok(device::get(location.id)?.ordinal),
        HOST => Ok(CPU),
        kind if HOST_NODES.contains(&kind) => Ok(CPU),
        _ => Err(CuError::INVALID_VALUE),
    }
}

fn older(device: i32) -> Location {
    Location {
        kind: if device == CPU { HOST } else { DEVICE },
        id: device.max(0),
    }
}

fn of_word(word: u64) -> Location {
    Location {
        kind: word as u32,
        id: ((word >> 32) as u32).cast_signed(),
    }
}

fn advise(address: u64, len: usize, advice: u32, location: Location) -> Res {
    let id = managed(address, len)?;
    let mut given = lock(&GIVEN);
    let given = given.entry(id).or_default();
    match advice {
        1 => given.read_mostly = true,
        2 => given.read_mostly = false,
        3 => given.preferred = Some(place(location)?),
        4 => given.preferred = None,
        5 => _ = given.accessed_by.insert(place(location)?),
        6 => _ = given.accessed_by.remove(&place(location)?),
        _ => return Err(CuError::INVALID_VALUE),
    }
    Ok(())
}

fn prefetch(address: u64, len: usize, to: Location) -> Res {
    let id = managed(address, len)?;
    let to = place(to)?;
    lock(&GIVEN).entry(id).or_default().prefetched = Some(to);
    Ok(())
}

/// A value of `CUmem_range_attribute`.
fn attribute(data: Out<u8>, size: usize, attribute: u32, address: u64, len: usize) -> Res {
    let id = managed(address, len)?;
    let given = lock(&GIVEN).get(&id).cloned().unwrap_or_default();
    let kind = |place: Option<i32>| match place {
        None => 0,
        Some(CPU) => HOST as i32,
        Some(_) => DEVICE as i32,
    };
    let number = |place: Option<i32>| place.filter(|place| *place != CPU).unwrap_or(0);
    let values: Vec<i32> = match attribute {
        1 => vec![i32::from(given.read_mostly)],
        2 => vec![given.preferred.unwrap_or(NOWHERE)],
        3 => {
            let devices = given.accessed_by.into_iter();
            devices
                .chain(std::iter::repeat(NOWHERE))
                .take(size / 4)
                .collect()
        }
        4 => vec![given.prefetched.unwrap_or(NOWHERE)],
        5 => vec![kind(given.preferred)],
        6 => vec![number(given.preferred)],
        7 => vec![kind(given.prefetched)],
        8 => vec![number(given.prefetched)],
        _ => return Err(CuError::INVALID_VALUE),
    };
    if size == 0 || size != values.len() * 4 {
        return Err(CuError::INVALID_VALUE);
    }
    let bytes: Vec<u8> = values.into_iter().flat_map(i32::to_le_bytes).collect();
    data.fill(&bytes)
}

api! {
    fn cuMemAdvise(address: u64, len: usize, advice: u32, device: i32) {
        advise(address, len, advice, older(device))
    }

    fn cuMemAdvise_v2(address: u64, len: usize, advice: u32, location: u64) {
        advise(address, len, advice, of_word(location))
    }

    fn cuMemPrefetchAsync/cuMemPrefetchAsync_ptsz(address: u64, len: usize, device: i32, stream: Handle) |call| {
        stream::resolve(stream, call.per_thread)?;
        prefetch(address, len, older(device))
    }

    fn cuMemPrefetchAsync_v2/cuMemPrefetchAsync_v2_ptsz(address: u64, len: usize, location: u64, _flags: u32, stream: Handle) |call| {
        stream::resolve(stream, call.per_thread)?;
        prefetch(address, len, of_word(location))
    }

    fn cuMemPrefetchBatchAsync/cuMemPrefetchBatchAsync_ptsz(addresses: In<u64>, lens: In<usize>, count: usize, locations: In<Location>, indices: In<usize>, location_count: usize, _flags: u64, stream: Handle) |call| {
        stream::resolve(stream, call.per_thread)?;
        let (addresses, lens) = (addresses.list(count)?, lens.list(count)?);
        let (locations, indices) = (locations.list(location_count)?, indices.list(location_count)?);
        for (number, (address, len)) in addresses.into_iter().zip(lens).enumerate() {
            // Each location is for the ranges from its index on.
            let at = indices.iter().rposition(|first| *first <= number).ok_or(CuError::INVALID_VALUE)?;
            prefetch(address, len, *locations.get(at).ok_or(CuError::INVALID_VALUE)?)?;
        }
        Ok(())
    }

    fn cuMemRangeGetAttribute(data: Out<u8>, size: usize, kind: u32, address: u64, len: usize) {
        attribute(data, size, kind, address, len)
    }

    fn cuMemRangeGetAttributes(data: In<u64>, sizes: In<usize>, kinds: In<u32>, count: usize, address: u64, len: usize) {
        let (data, sizes, kinds) = (data.list(count)?, sizes.list(count)?, kinds.list(count)?);
        for ((data, size), kind) in data.into_iter().zip(sizes).zip(kinds) {
            attribute(Out::new(data as *mut u8), size, kind, address, len)?;
        }
        Ok(())
    }
}
