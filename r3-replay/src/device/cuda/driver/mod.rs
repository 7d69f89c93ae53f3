//! A safe face for the driver's entry points: every unsafe call of the CUDA device is here.
//!
//! All work goes to the null stream, so that it is ordered, synchronous copies included. Device
//! addresses are plain numbers: a wrong one is the driver's error, not memory unsafety of this
//! process, as long as no caller writes to host memory through its unified address. The restorer
//! writes only where it mapped memory itself.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use super::table::{EntryPoints, Handle};
use crate::device::DeviceError;

/// Calls an entry point: `call!(self, cuMemFree_v2(address), "cuMemFree of …")`.
macro_rules! call {
    ($driver:expr, $name:ident ( $($arg:expr),* $(,)? ), $($operation:tt)+) => {{
        let function = $driver.entry.$name.ok_or(DeviceError::MissingSymbol {
            name: stringify!($name),
            driver_version: $driver.version,
        })?;
        // SAFETY: the arguments have the types of cuda.h; pointers among them refer to live
        // values of the right size, as each caller shows.
        let code = unsafe { function($($arg),*) };
        $driver.check(code, || format!($($operation)+))
    }};
}

mod addresses;
mod bytes;
mod code;

pub use addresses::page_size;
pub use bytes::HostMemory;

/// The loaded driver.
pub struct Driver {
    entry: EntryPoints,
    version: Option<i32>,
}

/// A handle of the driver: opaque, used only by passing it back.
#[derive(Clone, Copy, Debug)]
pub struct Object(Handle);

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Object {}

impl Driver {
    /// Loads and initialises the driver.
    pub fn load() -> Result<Self, DeviceError> {
        // SAFETY: loading the driver runs its constructors; it is the system's own library.
        let library = unsafe { libloading::Library::new("libcuda.so.1") }.map_err(|error| {
            let reason = match std::error::Error::source(&error) {
                Some(source) => source.to_string(),
                None => error.to_string(),
            };
            DeviceError::NoDriver { reason }
        })?;
        let entry = EntryPoints::find(&library);
        // The driver does not support being unloaded.
        std::mem::forget(library);
        let mut driver = Self {
            entry,
            version: None,
        };
        let mut version = 0;
        if call!(
            driver,
            cuDriverGetVersion(&mut version),
            "cuDriverGetVersion"
        )
        .is_ok()
        {
            driver.version = Some(version);
        }
        call!(driver, cuInit(0), "cuInit")?;
        Ok(driver)
    }

    /// Version of the driver, e.g. 13000.
    pub fn version(&self) -> Option<i32> {
        self.version
    }

    fn check(&self, code: c_int, operation: impl FnOnce() -> String) -> Result<(), DeviceError> {
        if code == 0 {
            return Ok(());
        }
        Err(DeviceError::Call {
            operation: operation(),
            code,
            name: self.describe(self.entry.cuGetErrorName, code),
            text: self.describe(self.entry.cuGetErrorString, code),
        })
    }

    fn describe(
        &self,
        function: Option<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>,
        code: c_int,
    ) -> String {
        let mut text = ptr::null();
        // SAFETY: the driver stores a pointer to a static string, or fails.
        let found = function.is_some_and(|f| unsafe { f(code, &mut text) } == 0);
        if !found || text.is_null() {
            return "an error without a name".to_owned();
        }
        // SAFETY: as above; the string is terminated and never freed.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    /// Number of devices.
    pub fn device_count(&self) -> Result<i32, DeviceError> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(&mut count), "cuDeviceGetCount")?;
        Ok(count)
    }

    /// The device with an ordinal.
    pub fn device(&self, ordinal: i32) -> Result<i32, DeviceError> {
        let mut device = 0;
        call!(
            self,
            cuDeviceGet(&mut device, ordinal),
            "cuDeviceGet of GPU {ordinal}"
        )?;
        Ok(device)
    }

    /// Name of a device.
    pub fn device_name(&self, device: i32) -> Result<String, DeviceError> {
        let mut name = [0u8; 256];
        // One byte less than the buffer holds: it stays terminated whatever the driver does.
        call!(
            self,
            cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int - 1, device),
            "cuDeviceGetName"
        )?;
        Ok(CStr::from_bytes_until_nul(&name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default())
    }

    /// Identity of a device.
    pub fn device_uuid(&self, device: i32) -> Result<[u8; 16], DeviceError> {
        let mut uuid = [0u8; 16];
        call!(
            self,
            cuDeviceGetUuid_v2(&mut uuid, device),
            "cuDeviceGetUuid"
        )?;
        Ok(uuid)
    }

    /// A `CUdevice_attribute`.
    pub fn device_attribute(&self, device: i32, attribute: c_int) -> Result<i32, DeviceError> {
        let mut value = 0;
        call!(
            self,
            cuDeviceGetAttribute(&mut value, attribute, device),
            "cuDeviceGetAttribute {attribute}"
        )?;
        Ok(value)
    }

    /// Memory of a device in bytes.
    pub fn total_memory(&self, device: i32) -> Result<u64, DeviceError> {
        let mut bytes = 0usize;
        call!(
            self,
            cuDeviceTotalMem_v2(&mut bytes, device),
            "cuDeviceTotalMem"
        )?;
        Ok(bytes as u64)
    }

    /// Makes the primary context of a device, and makes it current.
    pub fn make_context(&self, device: i32) -> Result<Object, DeviceError> {
        let mut context = ptr::null_mut();
        call!(
            self,
            cuDevicePrimaryCtxRetain(&mut context, device),
            "making a context on GPU {device} (cuDevicePrimaryCtxRetain)"
        )?;
        call!(self, cuCtxSetCurrent(context), "cuCtxSetCurrent")?;
        Ok(Object(context))
    }

    /// Waits for everything.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        call!(
            self,
            cuCtxSynchronize(),
            "waiting for the GPU (cuCtxSynchronize)"
        )
    }

    /// A `CUlimit`.
    pub fn limit(&self, limit: u32) -> Result<u64, DeviceError> {
        let mut value = 0usize;
        call!(
            self,
            cuCtxGetLimit(&mut value, limit),
            "cuCtxGetLimit {limit}"
        )?;
        Ok(value as u64)
    }

    /// Sets a `CUlimit`.
    pub fn set_limit(&self, limit: u32, value: u64) -> Result<(), DeviceError> {
        call!(
            self,
            cuCtxSetLimit(limit, value as usize),
            "cuCtxSetLimit {limit} to {value}"
        )
    }

    /// Gives back what code reserved of the level-2 cache. Drivers for GPUs that reserve nothing refuse.
    pub fn reset_persisting(&self) -> Result<(), DeviceError> {
        call!(
            self,
            cuCtxResetPersistingL2Cache(),
            "cuCtxResetPersistingL2Cache"
        )
    }

    /// Makes an event.
    pub fn event(&self) -> Result<Object, DeviceError> {
        let mut event = ptr::null_mut();
        call!(self, cuEventCreate(&mut event, 0), "cuEventCreate")?;
        Ok(Object(event))
    }

    /// Records an event.
    pub fn record(&self, event: Object) -> Result<(), DeviceError> {
        call!(
            self,
            cuEventRecord(event.0, ptr::null_mut()),
            "cuEventRecord"
        )
    }

    /// Waits for an event.
    pub fn wait(&self, event: Object) -> Result<(), DeviceError> {
        call!(
            self,
            cuEventSynchronize(event.0),
            "waiting for the GPU (cuEventSynchronize)"
        )
    }

    /// Time between two events in milliseconds.
    pub fn elapsed(&self, from: Object, to: Object) -> Result<f32, DeviceError> {
        let mut milliseconds = 0f32;
        call!(
            self,
            cuEventElapsedTime(&mut milliseconds, from.0, to.0),
            "cuEventElapsedTime"
        )?;
        Ok(milliseconds)
    }

    /// Free memory in bytes.
    pub fn free_memory(&self) -> Result<u64, DeviceError> {
        let (mut free, mut total) = (0usize, 0usize);
        call!(self, cuMemGetInfo_v2(&mut free, &mut total), "cuMemGetInfo")?;
        Ok(free as u64)
    }
}
