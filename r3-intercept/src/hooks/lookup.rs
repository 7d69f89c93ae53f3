//! `cuGetProcAddress`: the driver answers, then its address is exchanged for our hook's.

use std::ffi::{c_char, c_int, c_void};

use super::Call;
use crate::ffi::CUresult;
use crate::guard::guard;
use crate::loader::after_get_proc_address;

pub fn v1(
    call: Call<'_>,
    _: &'static str,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> CUresult {
    let result = call();
    // SAFETY: the program's own arguments, which the driver has just used.
    guard(|| unsafe { after_get_proc_address(result, symbol, function, version, flags) });
    result
}

pub fn v2(
    call: Call<'_>,
    name: &'static str,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    _status: *mut c_int,
) -> CUresult {
    v1(call, name, symbol, function, version, flags)
}
