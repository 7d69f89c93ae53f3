//! Stream captures and graphs, which are counted and never touched; and the profiler trigger.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

use super::{Call, after};
use crate::ffi::*;
use crate::{process, session, trigger};

/// Captures that were begun and not ended. While there are none, no launch asks its stream.
pub static ACTIVE_CAPTURES: AtomicI64 = AtomicI64::new(0);

fn begin(call: Call<'_>) -> CUresult {
    after(call, || {
        ACTIVE_CAPTURES.fetch_add(1, Ordering::Relaxed);
    })
}

pub fn begin_capture(call: Call<'_>, _: &'static str, _stream: CUstream) -> CUresult {
    begin(call)
}

pub fn begin_capture_v2(
    call: Call<'_>,
    _: &'static str,
    _stream: CUstream,
    _mode: c_int,
) -> CUresult {
    begin(call)
}

pub fn begin_capture_to_graph(
    call: Call<'_>,
    _: &'static str,
    _stream: CUstream,
    _graph: CUgraph,
    _dependencies: *const c_void,
    _data: *const c_void,
    _count: usize,
    _mode: c_int,
) -> CUresult {
    begin(call)
}

/// A capture that was invalidated ends with an error, and ends all the same.
pub fn end_capture(
    call: Call<'_>,
    _: &'static str,
    _stream: CUstream,
    _graph: *mut CUgraph,
) -> CUresult {
    let result = call();
    if process::is_on() {
        let _ = ACTIVE_CAPTURES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n > 0).then_some(n - 1)
        });
    }
    result
}

pub fn graph_launch(
    call: Call<'_>,
    _: &'static str,
    _graph: CUgraphExec,
    _stream: CUstream,
) -> CUresult {
    after(call, || {
        session::GRAPH_LAUNCHES.fetch_add(1, Ordering::Relaxed);
        // A program that only launches graphs has an archive too, which says so.
        let _ = session::session();
    })
}

pub fn profiler_start(call: Call<'_>, _: &'static str) -> CUresult {
    trigger::profiler(true);
    call()
}

pub fn profiler_stop(call: Call<'_>, _: &'static str) -> CUresult {
    trigger::profiler(false);
    call()
}
