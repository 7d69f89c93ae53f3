//! Memory that kernels can reach: every allocation family tells [`allocations`].

use std::ffi::{c_uint, c_void};

use r3_archive::model::AllocationKind as Kind;

use super::{Call, after, written};
use crate::ffi::*;
use crate::guard::guard;
use crate::{allocations, contexts, copy, driver, process};

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
        copy::wait_for_copies();
        allocations::remove(address)
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

pub fn alloc_async(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    len: usize,
    _stream: CUstream,
) -> CUresult {
    after(call, || track(Kind::Async, address, len as u64))
}

pub fn alloc_from_pool_async(
    call: Call<'_>,
    _: &'static str,
    address: *mut CUdeviceptr,
    len: usize,
    _pool: CUmemoryPool,
    _stream: CUstream,
) -> CUresult {
    after(call, || track(Kind::Async, address, len as u64))
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
        let on_devices: Vec<bool> = access
            .filter(|access| access.location_type == CU_MEM_LOCATION_TYPE_DEVICE)
            .map(|access| access.flags != 0)
            .collect();
        if on_devices.contains(&true) {
            allocations::map(address, len as u64);
        } else if !on_devices.is_empty() {
            allocations::unmap(address, len as u64);
        }
    })
}

pub fn unmap(call: Call<'_>, _: &'static str, address: CUdeviceptr, len: usize) -> CUresult {
    if process::is_on() {
        guard(|| {
            copy::wait_for_copies();
            allocations::unmap(address, len as u64);
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

pub fn context_destroy(call: Call<'_>, _: &'static str, context: CUcontext) -> CUresult {
    if process::is_on() {
        guard(|| contexts::forget_context(context as usize));
    }
    after(call, || allocations::forget_context(context as usize))
}

pub fn primary_context_reset(call: Call<'_>, _: &'static str, device: CUdevice) -> CUresult {
    if process::is_on() {
        guard(|| contexts::forget_device(device));
    }
    after(call, || allocations::forget_device(device))
}

pub fn primary_context_release(call: Call<'_>, _: &'static str, device: CUdevice) -> CUresult {
    after(call, || {
        // Only the last release ends the context.
        if !driver::primary_context_active(device) {
            contexts::forget_device(device);
            allocations::forget_device(device);
        }
    })
}
