//! Memory that kernels can reach: every allocation family tells [`allocations`].

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use r3_archive::model::AllocationKind as Kind;

use super::streams::ACTIVE_CAPTURES;
use super::{Call, after, written};
use crate::ffi::*;
use crate::guard::guard;
use crate::{allocations, contexts, copy, driver, modules, process, vmm};

fn track(kind: Kind, address: *const CUdeviceptr, len: u64) {
    // SAFETY: the driver wrote the address: the call succeeded.
    if let Some(address) = unsafe { written(address) } {
        allocations::add(kind, address, len);
    }
}

/// Forgets the allocation before the driver frees it, since its address can be handed out again at
/// once; takes it back when the driver refuses.
fn forgetting(call: Call<'_>, address: u64) -> CUresult {
    if !process::is_on() {
        return call();
    }
    let forgotten = guard(|| {
        // In this order: a recording that begins now does not see the allocation any more, one that
        // has begun is waited for.
        let forgotten = allocations::remove(address);
        copy::wait_for_copies();
        forgotten
    });
    let result = call();
    if result != CUDA_SUCCESS {
        guard(|| allocations::restore(forgotten));
    }
    result
}

pub fn alloc(call: Call<'_>, _: &'static str, address: *mut CUdeviceptr, len: usize) -> CUresult {
    after(call, || track(Kind::Device, address, len as u64))
}

pub fn alloc_pitch(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    pitch: *mut usize,
    _width: usize,
    height: usize,
    _element: c_uint,
) -> CUresult {
    after(call, || {
        // SAFETY: the call succeeded.
        let pitch = unsafe { written(pitch) }.unwrap_or(0);
        track(Kind::Pitched, address, pitch.saturating_mul(height) as u64);
    })
}

pub fn alloc_managed(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    len: usize,
    _flags: c_uint,
) -> CUresult {
    after(call, || track(Kind::Managed, address, len as u64))
}

pub fn free(call: Call<'_>, _: &'static str, address: CUdeviceptr) -> CUresult {
    forgetting(call, address)
}

/// On a capturing stream this makes a graph node: there is no memory until the graph runs.
fn track_async(address: *const CUdeviceptr, len: u64, stream: CUstream) {
    let capturing = ACTIVE_CAPTURES.load(Ordering::Relaxed) > 0
        && driver::is_capturing(stream as usize).unwrap_or(true);
    if !capturing {
        track(Kind::Async, address, len);
    }
}

pub fn alloc_async(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    len: usize,
    stream: CUstream,
) -> CUresult {
    after(call, || track_async(address, len as u64, stream))
}

pub fn alloc_from_pool_async(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    len: usize,
    _pool: CUmemoryPool,
    stream: CUstream,
) -> CUresult {
    after(call, || track_async(address, len as u64, stream))
}

pub fn free_async(
    call: Call<'_>,
    _: &'static str,
    address: CUdeviceptr,
    _stream: CUstream,
) -> CUresult {
    forgetting(call, address)
}

/// Mapped memory is tracked from when a device may read it: kernels can reach it only then.
pub fn set_access(
    call: Call<'_>,
    _: &'static str,
    address: CUdeviceptr,
    len: usize,
    access: *const CUmemAccessDesc,
    count: usize,
) -> CUresult {
    after(call, || {
        // SAFETY: the driver has just read the program's own array.
        let access = (0..count).filter_map(|i| unsafe { written(access.wrapping_add(i)) });
        let on_devices: Vec<CUmemAccessDesc> = access
            .filter(|access| access.location_type == CU_MEM_LOCATION_TYPE_DEVICE)
            .collect();
        let current = driver::current_device();
        let readable = || on_devices.iter().filter(|access| access.flags != 0);
        let device = readable()
            .find(|access| Some(access.location_id) == current)
            .or_else(|| readable().next());
        if let Some(device) = device {
            let is_plain = vmm::is_plain(address, len as u64);
            allocations::map(address, len as u64, device.location_id, is_plain);
        } else if !on_devices.is_empty() {
            allocations::unmap(address, len as u64);
        }
    })
}

pub fn create(
    call: Call<'_>,
    _: &'static str,
    handle: *mut CUmemGenericAllocationHandle,
    _len: usize,
    _properties: *const c_void,
    _flags: u64,
) -> CUresult {
    after(call, || {
        // SAFETY: the driver wrote the handle.
        if let Some(handle) = unsafe { written(handle) } {
            vmm::created(handle);
        }
    })
}

pub fn release(call: Call<'_>, _: &'static str, handle: CUmemGenericAllocationHandle) -> CUresult {
    if process::is_on() {
        guard(|| vmm::released(handle));
    }
    call()
}

pub fn map(
    call: Call<'_>,
    _: &'static str,
    address: CUdeviceptr,
    len: usize,
    _offset: usize,
    handle: CUmemGenericAllocationHandle,
    _flags: u64,
) -> CUresult {
    after(call, || vmm::mapped(address, len as u64, handle))
}

pub fn unmap(call: Call<'_>, _: &'static str, address: CUdeviceptr, len: usize) -> CUresult {
    if process::is_on() {
        guard(|| {
            allocations::unmap(address, len as u64);
            vmm::unmapped(address, len as u64);
            copy::wait_for_copies();
        });
    }
    call()
}

/// Memory whose length the call does not tell: the driver is asked.
fn track_range(kind: Kind, address: *const CUdeviceptr) {
    // SAFETY: the call succeeded.
    if let Some(address) = unsafe { written(address) }
        && let Some((base, len)) = driver::address_range(address)
    {
        allocations::add(kind, base, len);
    }
}

pub fn ipc_open(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    _handle: CUipcMemHandle,
    _flags: c_uint,
) -> CUresult {
    after(call, || track_range(Kind::Ipc, address))
}

pub fn pool_import(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    _pool: CUmemoryPool,
    _data: *mut CUmemPoolPtrExportData,
) -> CUresult {
    after(call, || track_range(Kind::Ipc, address))
}

pub fn external_buffer(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    _memory: CUexternalMemory,
    buffer: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC,
) -> CUresult {
    after(call, || {
        // SAFETY: the driver has read the program's own descriptor.
        if let Some(buffer) = unsafe { written(buffer) } {
            track(Kind::External, address, buffer.size);
        }
    })
}

/// Pinned host memory is tracked at its device address, which is what kernels are given.
fn track_host(kind: Kind, pointer: *mut c_void, len: usize) {
    allocations::add_host(
        kind,
        pointer as u64,
        driver::host_device_address(pointer),
        len as u64,
    );
}

pub fn alloc_host(
    call: Call<'_>,
    _: &'static str,
    pointer: *mut *mut c_void,
    len: usize,
) -> CUresult {
    after(call, || {
        // SAFETY: the call succeeded.
        if let Some(pointer) = unsafe { written(pointer) } {
            track_host(Kind::Host, pointer, len);
        }
    })
}

pub fn host_alloc(
    call: Call<'_>,
    name: &'static str,
    pointer: *mut *mut c_void,
    len: usize,
    _flags: c_uint,
) -> CUresult {
    alloc_host(call, name, pointer, len)
}

pub fn free_host(call: Call<'_>, _: &'static str, pointer: *mut c_void) -> CUresult {
    forgetting(call, allocations::host_key(pointer as u64))
}

pub fn host_register(
    call: Call<'_>,
    _: &'static str,
    pointer: *mut c_void,
    len: usize,
    _flags: c_uint,
) -> CUresult {
    after(call, || track_host(Kind::HostRegistered, pointer, len))
}

pub fn host_unregister(call: Call<'_>, _: &'static str, pointer: *mut c_void) -> CUresult {
    forgetting(call, allocations::host_key(pointer as u64))
}

/// Forgets a context that is about to end, and makes the call that ends it.
fn ending(call: Call<'_>, context: usize) -> CUresult {
    if process::is_on() {
        guard(|| {
            contexts::forget(context);
            copy::wait_for_copies();
        });
    }
    after(call, || {
        allocations::forget_context(context);
        modules::context_ended();
    })
}

pub fn context_destroy(call: Call<'_>, _: &'static str, context: CUcontext) -> CUresult {
    ending(call, context as usize)
}

pub fn primary_context_retain(
    call: Call<'_>,
    _: &'static str,
    context: *mut CUcontext,
    device: CUdevice,
) -> CUresult {
    after(call, || {
        // SAFETY: the driver wrote the handle.
        if let Some(context) = unsafe { written(context) } {
            contexts::primary(device, context as usize);
        }
    })
}

pub fn primary_context_reset(call: Call<'_>, _: &'static str, device: CUdevice) -> CUresult {
    match contexts::primary_of(device) {
        Some(context) => ending(call, context),
        None => call(),
    }
}

pub fn primary_context_release(call: Call<'_>, _: &'static str, device: CUdevice) -> CUresult {
    after(call, || {
        // Only the last release ends the context.
        if let (Some(context), false) = (
            contexts::primary_of(device),
            driver::primary_context_active(device),
        ) {
            contexts::forget(context);
            allocations::forget_context(context);
            modules::context_ended();
        }
    })
}
