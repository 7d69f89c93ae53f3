//! Launches, in all forms: each becomes a [`Launch`] and is counted.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use r3_archive::model::LaunchAttribute;

use super::Call;
use crate::capture::{self, Launch};
use crate::ffi::*;
use crate::guard::guard;
use crate::params::Arguments;
use crate::select::{self, Shape};
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

/// Counts the launch, and records it if it is one to record.
#[inline]
fn launch(
    call: Call<'_>,
    entry_point: &'static str,
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
    match guard(|| select::count(&shape)) {
        None => call(),
        Some((counter, occurrence)) => {
            let (cooperative, attributes, arguments) = details();
            let stream = explicit(stream, entry_point);
            let launch = Launch {
                entry_point,
                shape,
                stream,
                cooperative,
                attributes,
                arguments,
            };
            capture::record(&launch, counter, occurrence, call)
        }
    }
}

pub fn kernel(
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
    extra: *mut *mut c_void,
) -> CUresult {
    let shape = Shape {
        function: function as usize,
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared: shared,
    };
    launch(call, name, shape, stream, || {
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
    let shape = Shape {
        function: function as usize,
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared: shared,
    };
    let arguments = Arguments {
        params,
        extra: std::ptr::null(),
    };
    launch(call, name, shape, stream, || (true, Vec::new(), arguments))
}

pub fn kernel_ex(
    call: Call<'_>,
    name: &'static str,
    config: *const CUlaunchConfig,
    function: CUfunction,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    // SAFETY: null, or the program's own configuration, which the driver is about to read.
    let Some(config) = (unsafe { super::written(config) }) else {
        return call();
    };
    let shape = Shape {
        function: function as usize,
        grid: config.grid,
        block: config.block,
        dynamic_shared: config.shared_bytes,
    };
    launch(call, name, shape, config.stream, || {
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
            select::LAUNCHES.fetch_add(1, Ordering::Relaxed);
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
