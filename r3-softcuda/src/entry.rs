//! The table of entry points, and looking them up.

use std::ffi::c_void;

use crate::api::{Out, Text, api};
use crate::device;
use crate::error::{CuError, Res};

/// An entry point.
pub struct Entry {
    /// Exported name.
    pub name: &'static str,
    /// Name for `cuGetProcAddress`.
    pub base: &'static str,
    /// Version of CUDA that brought this form.
    pub version: i32,
    /// Its default stream is the per-thread one.
    pub per_thread: bool,
    address: Function,
}

/// The address of an entry point.
#[derive(Clone, Copy)]
struct Function(unsafe extern "C" fn() -> i32);

mod table {
    #![allow(non_snake_case, clashing_extern_declarations)]
    use super::{Entry, Function};
    include!(concat!(env!("OUT_DIR"), "/entries.rs"));
}
pub use table::ENTRIES;

const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// The newest form that `version` allows; per-thread, if that is asked for and there is one. A name may also be an
/// exported name with its suffix.
fn find(symbol: &str, version: i32, per_thread: bool) -> (Option<&'static Entry>, bool) {
    let mut best: Option<&Entry> = None;
    let mut too_old = false;
    for entry in ENTRIES {
        let exact = entry.per_thread && entry.name == symbol;
        if !exact && (entry.base != symbol || (entry.per_thread && !per_thread)) {
            continue;
        }
        if entry.version > version {
            too_old = true;
            continue;
        }
        let rank = |entry: &Entry| (entry.per_thread, entry.version);
        if best.is_none_or(|best| rank(entry) >= rank(best)) {
            best = Some(entry);
        }
    }
    (best, too_old)
}

/// Address (0: none), and `CUdriverProcAddressQueryResult`.
fn look_up(symbol: Text, version: i32, flags: u64, per_thread: bool) -> Res<(u64, u32)> {
    let symbol = symbol.get()?;
    if flags > PER_THREAD || version > device::driver_version() {
        return Err(CuError::INVALID_VALUE);
    }
    let per_thread = flags == PER_THREAD || (per_thread && flags != LEGACY);
    Ok(match find(symbol, version, per_thread) {
        (Some(entry), _) => (entry.address.0 as usize as u64, 0),
        (None, true) => (0, 2),
        (None, false) => (0, 1),
    })
}

fn second(
    symbol: Text,
    function: Out<u64>,
    version: i32,
    flags: u64,
    status: Out<u32>,
    per_thread: bool,
) -> Res {
    function.required()?;
    let (address, found) = look_up(symbol, version, flags, per_thread)?;
    status.set_if_wanted(found);
    function.set(address)
}

api! {
    fn cuGetProcAddress(symbol: Text, function: Out<u64>, version: i32, flags: u64) {
        function.required()?;
        let (address, _) = look_up(symbol, version, flags, false)?;
        function.set(address)?;
        if address == 0 { Err(CuError::NOT_FOUND) } else { Ok(()) }
    }

    fn cuGetProcAddress_v2(symbol: Text, function: Out<u64>, version: i32, flags: u64, status: Out<u32>) {
        second(symbol, function, version, flags, status, false)
    }

    fn cuGetProcAddress_v2_ptsz(symbol: Text, function: Out<u64>, version: i32, flags: u64, status: Out<u32>) {
        second(symbol, function, version, flags, status, true)
    }

    fn cuGetExportTable(table: Out<*const c_void>, id: *const c_void) {
        if id.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        table.set(std::ptr::null())?;
        Err(CuError::NOT_FOUND)
    }
}
