//! Stream-ordered memory and its pools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::api::{Call, In, Out, api};
use crate::capture;
use crate::context;
use crate::device::{self, Device};
use crate::error::{CuError, Res};
use crate::graph::memory;
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::space::{self, Kind, Request};
use crate::stream::{self, Stream};
use crate::vmm::{Access, Location};
use crate::work::Work;

/// A pool.
pub struct Pool {
    pub handle: Handle,
    pub device: &'static Device,
    default: bool,
    destroyed: AtomicBool,
    attributes: Mutex<BTreeMap<u32, u64>>,
    /// The most bytes that were in use.
    high: AtomicU64,
    /// Devices that see its memory, besides its own.
    access: Mutex<Vec<i32>>,
}

/// `CUmemPoolProps`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Properties {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
    pub security: u64,
    pub max: u64,
    pub usage: u16,
    pub reserved: [u8; 54],
}

impl Properties {
    /// Those of ordinary pools.
    pub fn pinned(device: i32) -> Self {
        Self {
            kind: 1,
            handle_types: 0,
            location: Location {
                kind: 1,
                id: device,
            },
            security: 0,
            max: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }

    pub fn device(&self) -> Res<&'static Device> {
        self.location.device()
    }
}

/// Default and current pool of each device.
struct Pools {
    default: Arc<Pool>,
    current: Mutex<Arc<Pool>>,
}

static POOLS: LazyLock<Vec<Pools>> = LazyLock::new(|| {
    let pools = device::all().iter().map(|device| {
        let pool = Pool::create(device, true);
        Pools {
            default: pool.clone(),
            current: Mutex::new(pool),
        }
    });
    pools.collect()
});

impl Pool {
    fn create(device: &'static Device, default: bool) -> Arc<Self> {
        handle::create(|handle| Self {
            handle,
            device,
            default,
            destroyed: AtomicBool::new(false),
            attributes: Mutex::new(BTreeMap::from([(1, 1), (2, 1), (3, 1)])),
            high: AtomicU64::new(0),
            access: Mutex::default(),
        })
    }

    fn of(device: i32) -> Res<&'static Pools> {
        device::get(device)?;
        POOLS.get(device as usize).ok_or(CuError::INVALID_DEVICE)
    }

    fn used(&self) -> u64 {
        let of_it =
            |found: &space::Allocation| found.kind == Kind::Pool && found.owner == self.handle;
        space::within(0, u64::MAX)
            .iter()
            .filter(|found| of_it(found))
            .map(|found| found.len)
            .sum()
    }
}

/// Memory from a pool, in the order of the stream. (The address is good at once; using it earlier is the program's race.)
fn allocate(
    address: Out<u64>,
    len: usize,
    pool: Option<Arc<Pool>>,
    on: Handle,
    call: &Call,
) -> Res {
    address.required()?;
    let stream = stream::resolve(on, call.per_thread)?;
    let context = stream.context()?;
    let pool = match pool {
        Some(pool) => pool,
        None => lock(&Pool::of(context.device.ordinal)?.current).clone(),
    };
    if pool.destroyed.load(Ordering::Relaxed) {
        return Err(CuError::INVALID_VALUE);
    }
    if capture::is_captured(&stream) {
        // It becomes a node, and its address that of the node.
        let owned = memory::Owned::new(context.device.ordinal, len as u64, context.handle)?;
        address.set(owned.address)?;
        return stream::submit(&stream, Work::Allocated(owned)).map(drop);
    }
    address.set(new_in(&pool, len as u64, context.handle)?)
}

/// Memory of a pool.
pub fn new_in(pool: &Pool, len: u64, context: Handle) -> Res<u64> {
    let request = Request {
        kind: Kind::Pool,
        len,
        device: pool.device,
        context,
        flags: 0,
        owner: pool.handle,
    };
    let visible = lock(&pool.access).clone();
    let address = space::allocate(request, &visible)?;
    pool.high.fetch_max(pool.used(), Ordering::Relaxed);
    Ok(address)
}

/// Memory whose freeing is queued.
static FREEING: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// Whether memory is freed already, in the order of some stream.
pub fn is_freeing(address: u64) -> bool {
    lock(&FREEING).contains(&address)
}

/// Gives memory back.
pub fn release(address: u64) {
    lock(&FREEING).remove(&address);
    let _ = space::free(address, |found| found.kind == Kind::Pool);
}

/// Gives memory back when the stream gets there.
pub fn free_later(address: u64, stream: &Arc<Stream>) -> Res {
    if !lock(&FREEING).insert(address) {
        return Err(CuError::INVALID_VALUE);
    }
    let queued = stream::submit(stream, Work::Free(address));
    queued
        .inspect_err(|_| _ = lock(&FREEING).remove(&address))
        .map(drop)
}

fn free(address: u64, stream: &Arc<Stream>) -> Res {
    let found = space::find(address)
        .filter(|found| found.base == address)
        .ok_or(CuError::INVALID_VALUE)?;
    match found.kind {
        Kind::Pool if memory::known(address) => {
            if capture::is_captured(stream) {
                return stream::submit(stream, Work::Freed(address)).map(drop);
            }
            if memory::free(address)? {
                free_later(address, stream)
            } else {
                Ok(())
            }
        }
        Kind::Pool if capture::is_captured(stream) => Err(CuError::INVALID_VALUE),
        Kind::Pool => free_later(address, stream),
        Kind::Device => {
            stream::submit_and_wait(stream, Work::Nothing)?;
            space::free(address, |found| found.kind == Kind::Device)
        }
        _ => Err(CuError::INVALID_VALUE),
    }
}

/// The current pool of a device.
pub fn current(device: i32) -> Res<Arc<Pool>> {
    Ok(lock(&Pool::of(device)?.current).clone())
}

fn at(location: Out<Location>) -> Res<i32> {
    Ok(location.get()?.device()?.ordinal)
}

api! {
    fn cuMemAllocAsync/cuMemAllocAsync_ptsz(address: Out<u64>, len: usize, stream: Handle) |call| {
        allocate(address, len, None, stream, call)
    }

    fn cuMemAllocFromPoolAsync/cuMemAllocFromPoolAsync_ptsz(address: Out<u64>, len: usize, pool: Handle, stream: Handle) |call| {
        allocate(address, len, Some(handle::get::<Pool>(pool)?), stream, call)
    }

    fn cuMemFreeAsync/cuMemFreeAsync_ptsz(address: u64, stream: Handle) |call| {
        free(address, &stream::resolve(stream, call.per_thread)?)
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: i32) {
        pool.set(Pool::of(device)?.default.handle)
    }

    fn cuDeviceGetMemPool(pool: Out<Handle>, device: i32) {
        pool.set(lock(&Pool::of(device)?.current).handle)
    }

    fn cuDeviceSetMemPool(device: i32, pool: Handle) {
        let pool = handle::get::<Pool>(pool)?;
        if pool.device.ordinal != device {
            return Err(CuError::INVALID_VALUE);
        }
        *lock(&Pool::of(device)?.current) = pool;
        Ok(())
    }

    fn cuMemGetDefaultMemPool(pool: Out<Handle>, location: Out<Location>, _kind: u32) {
        pool.set(Pool::of(at(location)?)?.default.handle)
    }

    fn cuMemGetMemPool(pool: Out<Handle>, location: Out<Location>, _kind: u32) {
        pool.set(lock(&Pool::of(at(location)?)?.current).handle)
    }

    fn cuMemSetMemPool(location: Out<Location>, _kind: u32, pool: Handle) {
        let pool = handle::get::<Pool>(pool)?;
        *lock(&Pool::of(at(location)?)?.current) = pool;
        Ok(())
    }

    fn cuMemPoolCreate(pool: Out<Handle>, properties: In<Properties>) {
        pool.required()?;
        let properties = properties.get()?;
        if properties.kind != 1 || properties.handle_types != 0 {
            return Err(if properties.kind == 1 { CuError::NOT_SUPPORTED } else { CuError::INVALID_VALUE });
        }
        pool.set(Pool::create(properties.device()?, false).handle)
    }

    fn cuMemPoolDestroy(pool: Handle) {
        let found = handle::get::<Pool>(pool)?;
        if found.default {
            return Err(CuError::INVALID_VALUE);
        }
        found.destroyed.store(true, Ordering::Relaxed);
        let slot = Pool::of(found.device.ordinal)?;
        let mut current = lock(&slot.current);
        if current.handle == pool {
            *current = slot.default.clone();
        }
        handle::remove::<Pool>(pool).map(drop)
    }

    fn cuMemPoolTrimTo(pool: Handle, _keep: usize) {
        handle::get::<Pool>(pool).map(drop)
    }

    fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: In<u32>) {
        let pool = handle::get::<Pool>(pool)?;
        let value = match attribute {
            1..=3 => u64::from(value.get()?),
            4 => In::new(value.pointer().cast::<u64>()).get()?,
            // The high marks can be set back, to zero only.
            6 | 8 => {
                if In::new(value.pointer().cast::<u64>()).get()? != 0 {
                    return Err(CuError::INVALID_VALUE);
                }
                pool.high.store(pool.used(), Ordering::Relaxed);
                return Ok(());
            }
            _ => return Err(CuError::INVALID_VALUE),
        };
        lock(&pool.attributes).insert(attribute, value);
        Ok(())
    }

    fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: Out<u32>) {
        let pool = handle::get::<Pool>(pool)?;
        let kept = lock(&pool.attributes).get(&attribute).copied().unwrap_or(0);
        match attribute {
            1..=3 => value.set(kept as u32),
            4 => value.cast::<u64>().set(kept),
            // Nothing is held back: what is reserved is what is used.
            5 | 7 => value.cast::<u64>().set(pool.used()),
            6 | 8 => value.cast::<u64>().set(pool.high.load(Ordering::Relaxed)),
            _ => Err(CuError::INVALID_VALUE),
        }
    }

    fn cuMemPoolSetAccess(pool: Handle, list: In<Access>, count: usize) {
        let pool = handle::get::<Pool>(pool)?;
        for access in list.list(count)? {
            let device = access.location.device()?.ordinal;
            let see = access.flags != 0;
            if device == pool.device.ordinal {
                if !see {
                    return Err(CuError::INVALID_DEVICE);
                }
                continue;
            }
            let mut devices = lock(&pool.access);
            devices.retain(|known| *known != device);
            if see {
                devices.push(device);
            }
            drop(devices);
            for found in space::within(0, u64::MAX) {
                if found.kind == Kind::Pool && found.owner == pool.handle {
                    space::set_visible(found.base, device, see)?;
                }
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: Out<u32>, pool: Handle, location: Out<Location>) {
        let pool = handle::get::<Pool>(pool)?;
        let device = at(location)?;
        let sees = device == pool.device.ordinal || lock(&pool.access).contains(&device);
        flags.set(if sees { 3 } else { 0 })
    }

    fn cuDeviceGraphMemTrim(device: i32) {
        device::get(device).map(drop)
    }

    fn cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: Out<u64>) {
        device::get(device)?;
        let (used, reserved) = memory::totals();
        value.set(match attribute {
            0 | 1 => used,
            2 | 3 => reserved,
            _ => return Err(CuError::INVALID_VALUE),
        })
    }

    fn cuDeviceSetGraphMemAttribute(device: i32, _attribute: u32, _value: In<u64>) {
        device::get(device)?;
        context::top().map(drop)
    }
}
