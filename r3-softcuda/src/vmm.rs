//! Virtual memory management: reserved addresses, physical memory, mappings, access.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::api::{In, Out, api};
use crate::context;
use crate::device::{self, Device};
use crate::error::{CuError, Res};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::space::{self, BLOCK, Bytes, Kind, RESERVE_ALIGN, Region, Request};

/// `CUmemLocation`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    pub kind: u32,
    pub id: i32,
}

impl Location {
    /// The device that it means.
    pub fn device(self) -> Res<&'static Device> {
        if self.kind == 1 {
            device::get(self.id)
        } else {
            Err(CuError::INVALID_VALUE)
        }
    }
}

/// `CUmemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Access {
    pub location: Location,
    pub flags: u32,
}

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
    pub metadata: u64,
    pub flags: [u8; 8],
}

/// Physical memory. It lives while a handle or a mapping of it does.
pub struct Physical {
    handle: Handle,
    len: u64,
    bytes: Arc<Region>,
    properties: Properties,
    charge: Option<&'static Device>,
}

impl Drop for Physical {
    fn drop(&mut self) {
        if let Some(device) = self.charge {
            device.give_back(self.len);
        }
    }
}

/// Reserved ranges.
static RESERVED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
/// Physical memory that is mapped, by the start of the mapping.
static MAPPED: Mutex<BTreeMap<u64, Arc<Physical>>> = Mutex::new(BTreeMap::new());

fn in_reservation(address: u64, len: u64) -> bool {
    let reserved = lock(&RESERVED);
    let Some(end) = address.checked_add(len) else {
        return false;
    };
    reserved
        .range(..=address)
        .next_back()
        .is_some_and(|(start, size)| end <= start + size)
}

/// Mappings that a range consists of.
fn mappings(address: u64, len: u64) -> Res<Vec<space::Allocation>> {
    let found: Vec<_> = space::within(address, len)
        .into_iter()
        .filter(|found| found.kind == Kind::Mapped)
        .collect();
    let mut at = address;
    for mapping in &found {
        if mapping.base != at {
            return Err(CuError::INVALID_VALUE);
        }
        at = mapping.end();
    }
    if at == address.saturating_add(len) && !found.is_empty() {
        Ok(found)
    } else {
        Err(CuError::INVALID_VALUE)
    }
}

api! {
    fn cuMemAddressReserve(address: Out<u64>, len: usize, align: usize, hint: u64, _flags: u64) {
        address.required()?;
        let len = len as u64;
        if len == 0 || !len.is_multiple_of(BLOCK) || !(align == 0 || align.is_power_of_two()) {
            return Err(CuError::INVALID_VALUE);
        }
        let hinted = if hint != 0 && hint.is_multiple_of(RESERVE_ALIGN) && crate::process::setting("RESERVE").is_none() {
            space::reserve(len, Some(hint), BLOCK)
        } else {
            None
        };
        let anywhere = || space::reserve(len, None, (align as u64).max(RESERVE_ALIGN));
        let start = hinted.or_else(anywhere).ok_or(CuError::OUT_OF_MEMORY)?;
        lock(&RESERVED).insert(start, len);
        address.set(start)
    }

    fn cuMemAddressFree(address: u64, len: usize) {
        let mut reserved = lock(&RESERVED);
        if reserved.get(&address) != Some(&(len as u64)) || !space::within(address, len as u64).is_empty() {
            return Err(CuError::INVALID_VALUE);
        }
        reserved.remove(&address);
        space::unreserve(address, len as u64);
        Ok(())
    }

    fn cuMemGetAllocationGranularity(granularity: Out<usize>, properties: In<Properties>, _option: u32) {
        properties.get()?;
        granularity.set(BLOCK as usize)
    }

    fn cuMemCreate(handle: Out<Handle>, len: usize, properties: In<Properties>, flags: u64) {
        handle.required()?;
        let properties = properties.get()?;
        let len = len as u64;
        if properties.kind != 1 || flags != 0 || len == 0 || !len.is_multiple_of(BLOCK) {
            return Err(CuError::INVALID_VALUE);
        }
        if properties.handle_types != 0 {
            return Err(CuError::NOT_SUPPORTED);
        }
        let charge = match properties.location.kind {
            1 => Some(properties.location.device()?),
            // Host, host NUMA, current host NUMA.
            2..=4 => None,
            _ => return Err(CuError::INVALID_VALUE),
        };
        if let Some(device) = charge {
            device.take(len)?;
        }
        let bytes = space::host_bytes(len).inspect_err(|_| charge.into_iter().for_each(|device| device.give_back(len)))?;
        let made = handle::create(|handle| Physical { handle, len, bytes: Arc::new(bytes), properties, charge });
        handle.set(made.handle)
    }

    fn cuMemRelease(handle: Handle) {
        handle::remove::<Physical>(handle).map(drop)
    }

    fn cuMemRetainAllocationHandle(handle: Out<Handle>, address: u64) {
        let found = space::find(address).filter(|found| found.kind == Kind::Mapped).ok_or(CuError::INVALID_VALUE)?;
        let physical = lock(&MAPPED).get(&found.base).cloned().ok_or(CuError::INVALID_VALUE)?;
        handle::put(physical.handle, &physical);
        handle.set(physical.handle)
    }

    fn cuMemGetAllocationPropertiesFromHandle(properties: Out<Properties>, handle: Handle) {
        properties.set(handle::get::<Physical>(handle)?.properties)
    }

    fn cuMemMap(address: u64, len: usize, offset: usize, handle: Handle, flags: u64) {
        let physical = handle::get::<Physical>(handle)?;
        let len = len as u64;
        let end = (offset as u64).checked_add(len).ok_or(CuError::INVALID_VALUE)?;
        if flags != 0 || len == 0 || end > physical.len || !address.is_multiple_of(BLOCK) || !in_reservation(address, len) {
            return Err(CuError::INVALID_VALUE);
        }
        let device = physical.charge.or_else(|| device::all().first()).ok_or(CuError::INVALID_DEVICE)?;
        let context = context::top()?.map_or(0, |context| context.handle);
        let request = Request { kind: Kind::Mapped, len, device, context, flags: 0, owner: handle };
        let host = physical.bytes.start() + offset as u64;
        space::adopt(request, address, host, Bytes::Region(physical.bytes.clone()), &[])
            .map_err(|_| CuError::INVALID_VALUE)?;
        lock(&MAPPED).insert(address, physical);
        Ok(())
    }

    fn cuMemUnmap(address: u64, len: usize) {
        let mappings = mappings(address, len as u64)?;
        for mapping in mappings {
            space::free(mapping.base, |found| found.kind == Kind::Mapped)?;
            let physical = lock(&MAPPED).remove(&mapping.base);
            drop(physical);
        }
        Ok(())
    }

    fn cuMemSetAccess(address: u64, len: usize, list: In<Access>, count: usize) {
        let mappings = mappings(address, len as u64)?;
        for access in list.list(count)? {
            // The host can reach none of it.
            let device = access.location.device()?.ordinal;
            for mapping in &mappings {
                space::set_visible(mapping.base, device, access.flags != 0)?;
            }
        }
        Ok(())
    }

    fn cuMemGetAccess(flags: Out<u64>, location: In<Location>, address: u64) {
        let device = location.get()?.device()?.ordinal;
        let found = space::find(address).filter(|found| found.kind == Kind::Mapped).ok_or(CuError::INVALID_VALUE)?;
        flags.set(if found.visible_to(device) { 3 } else { 0 })
    }
}
