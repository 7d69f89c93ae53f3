//! Launches, in all forms: each becomes a [`Launch`] and is counted.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use r3_archive::model::LaunchAttribute;

use super::Call;
use crate::capture::{self, Launch};
use crate::ffi::*;
use crate::guard::guard;
use crate::params::Arguments;
use crate::select::{self, Gate, Shape};
use crate::{driver, process, session};

use super::streams::ACTIVE_CAPTURES;

/// The stream by an explicit handle: null means another stream in `_ptsz` functions.
fn explicit(stream: CUstream, entry_point: &str) -> usize {
    match stream as usize {
        0 if entry_point.ends_with("_ptsz") => CU_STREAM_PER_THREAD,
        0 => CU_STREAM_LEGACY,
        handle => handle,
    }
}

/// Counts the launch, if that is all there is to do.
#[inline]
fn count(shape: &Shape) -> Gate {
    if !process::is_on() {
        return Gate::Open;
    }
    if ACTIVE_CAPTURES.load(Ordering::Relaxed) > 0 {
        return Gate::Uncounted;
    }
    select::count_known(shape)
}

#[inline]
pub fn gate(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    _stream: CUstream,
    _params: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Gate {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    count(&Shape::new(function, grid, block, shared))
}

#[inline]
pub fn gate_ex(
    config: *const CUlaunchConfig,
    function: CUfunction,
    _params: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> Gate {
    // SAFETY: null, or the program's own configuration, which the driver is about to read.
    match unsafe { config.as_ref() } {
        Some(config) => count(&Shape::new(
            function,
            config.grid,
            config.block,
            config.shared_bytes,
        )),
        None => Gate::Open,
    }
}

/// Counts the launch where that is still to be done, and records it if it is one to record.
#[cold]
fn launch(
    call: Call<'_>,
    entry_point: &'static str,
    gate: Gate,
    shape: Shape,
    stream: CUstream,
    details: impl FnOnce() -> (bool, Vec<LaunchAttribute>, Arguments),
) -> CUresult {
    if !process::is_on() {
        return call();
    }
    if ACTIVE_CAPTURES.load(Ordering::Relaxed) > 0
        && guard(|| driver::is_capturing(explicit(stream, entry_point)).unwrap_or(false))
    {
        guard(|| select::into_graph(&shape));
        return call();
    }
    match guard(|| select::count(&shape, gate)) {
        None => call(),
        Some(selected) => {
            let (cooperative, attributes, arguments) = details();
            let launch = Launch {
                entry_point,
                shape,
                stream: explicit(stream, entry_point),
                cooperative,
                attributes,
                arguments,
            };
            capture::record(&launch, &selected, call)
        }
    }
}

pub fn kernel(
    call: Call<'_>,
    name: &'static str,
    gate: Gate,
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let shape = Shape::new(function, grid, block, shared);
    launch(call, name, gate, shape, stream, || {
        (false, Vec::new(), Arguments { params, extra })
    })
}

pub fn cooperative(
    call: Call<'_>,
    name: &'static str,
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: CUstream,
    params: *mut *mut c_void,
) -> CUresult {
    let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
    let shape = Shape::new(function, grid, block, shared);
    let extra = std::ptr::null();
    launch(call, name, Gate::Uncounted, shape, stream, || {
        (true, Vec::new(), Arguments { params, extra })
    })
}

pub fn kernel_ex(
    call: Call<'_>,
    name: &'static str,
    gate: Gate,
    config: *const CUlaunchConfig,
    function: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: null, or the program's own configuration, which the driver is about to read.
    let Some(config) = (unsafe { super::written(config) }) else {
        return call();
    };
    let shape = Shape::new(function, config.grid, config.block, config.shared_bytes);
    launch(call, name, gate, shape, config.stream, || {
        let count = if config.attributes.is_null() {
            0
        } else {
            config.attribute_count as usize
        };
        let mut cooperative = false;
        let mut attributes = Vec::new();
        for index in 0..count {
            // SAFETY: the configuration has this many attributes.
            let attribute = unsafe { config.attributes.add(index).read_unaligned() };
            match attribute.id {
                CU_LAUNCH_ATTRIBUTE_IGNORE => {}
                CU_LAUNCH_ATTRIBUTE_COOPERATIVE => cooperative = attribute.value[..4] != [0; 4],
                id => attributes.push(LaunchAttribute {
                    id,
                    value: attribute.value.to_vec(),
                }),
            }
        }
        (cooperative, attributes, Arguments { params, extra })
    })
}

/// A launch in a form that is only counted.
fn counted(call: Call<'_>, what: &str) -> CUresult {
    if process::is_on() {
        guard(|| {
            session::LAUNCHES_ELSEWHERE.fetch_add(1, Ordering::Relaxed);
            session::message(format!("launches by {what} are not recorded"));
        });
    }
    call()
}

pub fn multi_device(
    call: Call<'_>,
    name: &'static str,
    _list: *mut CUDA_LAUNCH_PARAMS,
    _count: c_uint,
    _flags: c_uint,
) -> CUresult {
    counted(call, name)
}

pub fn legacy(call: Call<'_>, name: &'static str, _function: CUfunction) -> CUresult {
    counted(call, name)
}

pub fn legacy_grid(
    call: Call<'_>,
    name: &'static str,
    _function: CUfunction,
    _width: c_int,
    _height: c_int,
) -> CUresult {
    counted(call, name)
}

pub fn legacy_grid_async(
    call: Call<'_>,
    name: &'static str,
    _function: CUfunction,
    _width: c_int,
    _height: c_int,
    _stream: CUstream,
) -> CUresult {
    counted(call, name)
}
