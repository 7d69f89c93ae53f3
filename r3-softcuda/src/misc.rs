//! Error texts, the profiler's switches, core dumps, and other small things.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::Mutex;

use crate::api::{In, Out, api};
use crate::context;
use crate::error::{self, CuError};
use crate::process::lock;

/// Attributes of core dumps, which are kept and have no effect.
static COREDUMP: Mutex<BTreeMap<u32, Vec<u8>>> = Mutex::new(BTreeMap::new());

fn get_coredump(attribute: u32, value: Out<u8>, size: Out<usize>) -> error::Res {
    let kept = lock(&COREDUMP)
        .get(&attribute)
        .cloned()
        .unwrap_or_else(|| vec![0; 4]);
    let room = size.get()?;
    size.set(kept.len())?;
    if value.is_null() {
        return Ok(());
    }
    value.fill(&kept[..kept.len().min(room)])
}

fn set_coredump(attribute: u32, value: In<u8>, size: Out<usize>) -> error::Res {
    let size = size.get()?;
    if !(1..=9).contains(&attribute) || size > 4096 {
        return Err(CuError::INVALID_VALUE);
    }
    lock(&COREDUMP).insert(attribute, value.list(size)?);
    Ok(())
}

api! {
    fn cuGetErrorName(code: i32, name: Out<*const c_char>) {
        let found = error::name(code);
        name.set(found.map_or(std::ptr::null(), |name| name.as_ptr()))?;
        found.map(drop).ok_or(CuError::INVALID_VALUE)
    }

    fn cuGetErrorString(code: i32, text: Out<*const c_char>) {
        let found = error::text(code);
        text.set(found.map_or(std::ptr::null(), |text| text.as_ptr()))?;
        found.map(drop).ok_or(CuError::INVALID_VALUE)
    }

    fn cuProfilerInitialize(_config: *const c_char, _output: *const c_char, _mode: u32) {
        Err(CuError::NOT_SUPPORTED)
    }

    fn cuProfilerStart() {
        context::current().map(drop)
    }

    fn cuProfilerStop() {
        context::current().map(drop)
    }

    fn cuCoredumpGetAttribute(attribute: u32, value: Out<u8>, size: Out<usize>) {
        get_coredump(attribute, value, size)
    }

    fn cuCoredumpGetAttributeGlobal(attribute: u32, value: Out<u8>, size: Out<usize>) {
        get_coredump(attribute, value, size)
    }

    fn cuCoredumpSetAttribute(attribute: u32, value: In<u8>, size: Out<usize>) {
        set_coredump(attribute, value, size)
    }

    fn cuCoredumpSetAttributeGlobal(attribute: u32, value: In<u8>, size: Out<usize>) {
        set_coredump(attribute, value, size)
    }

    fn cuLogsRegisterCallback(_function: *const c_void, _data: *mut c_void, handle: Out<u64>) {
        // Messages go to standard error; nothing is ever reported here.
        handle.set_if_wanted(1);
        Ok(())
    }

    fn cuLogsUnregisterCallback(_handle: u64) {
        Ok(())
    }
}
