//! Clocks and temperature of a GPU, through NVML when it is installed.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};

use serde::Serialize;

/// State of a GPU at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GpuState {
    /// Clock of the multiprocessors in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    /// Temperature in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    /// `nvmlClocksThrottleReasons`: why clocks are held down, as bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle_reasons: Option<u64>,
}

/// `NVML_CLOCK_SM`.
const CLOCK_SM: c_int = 1;
/// `NVML_CLOCK_MEM`.
const CLOCK_MEMORY: c_int = 2;
/// `NVML_TEMPERATURE_GPU`.
const TEMPERATURE_GPU: c_int = 0;

type Device = *mut c_void;

/// A GPU as NVML knows it.
pub struct Nvml {
    device: Device,
    clock: Option<unsafe extern "C" fn(Device, c_int, *mut c_uint) -> c_int>,
    temperature: Option<unsafe extern "C" fn(Device, c_int, *mut c_uint) -> c_int>,
    throttle: Option<unsafe extern "C" fn(Device, *mut u64) -> c_int>,
}

impl Nvml {
    /// Finds a GPU by its identity (`GPU-…`). `None` when NVML is not there or does not know it.
    pub fn open(uuid: &str) -> Option<Self> {
        let uuid = CString::new(uuid).ok().filter(|uuid| !uuid.is_empty())?;
        // SAFETY: loading NVML runs its constructors; it is the system's own library.
        let library = unsafe { libloading::Library::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: the types are those of nvml.h.
        let (init, find, clock, temperature, throttle) = unsafe {
            (
                symbol::<unsafe extern "C" fn() -> c_int>(&library, c"nvmlInit_v2")?,
                symbol::<unsafe extern "C" fn(*const c_char, *mut Device) -> c_int>(
                    &library,
                    c"nvmlDeviceGetHandleByUUID",
                )?,
                symbol(&library, c"nvmlDeviceGetClockInfo"),
                symbol(&library, c"nvmlDeviceGetTemperature"),
                symbol(&library, c"nvmlDeviceGetCurrentClocksThrottleReasons"),
            )
        };
        // The functions are used as long as the process lives.
        std::mem::forget(library);
        let mut device = std::ptr::null_mut();
        // SAFETY: as declared in nvml.h; the string is terminated.
        let found = unsafe { init() == 0 && find(uuid.as_ptr(), &mut device) == 0 };
        found.then_some(Self {
            device,
            clock,
            temperature,
            throttle,
        })
    }

    /// Clock of the multiprocessors now, in MHz: the cheapest of all, for each sample of a measurement.
    pub fn sm_clock(&self) -> Option<u32> {
        let mut value = 0;
        // SAFETY: as declared in nvml.h; the device came from NVML.
        let code = unsafe { self.clock?(self.device, CLOCK_SM, &mut value) };
        (code == 0).then_some(value)
    }

    /// The state now. What cannot be had is left out.
    pub fn state(&self) -> GpuState {
        let clock = |kind| {
            let mut value = 0;
            // SAFETY: as declared in nvml.h; the device came from NVML.
            let code = unsafe { self.clock?(self.device, kind, &mut value) };
            (code == 0).then_some(value)
        };
        let temperature = || {
            let mut value = 0;
            // SAFETY: as above.
            let code = unsafe { self.temperature?(self.device, TEMPERATURE_GPU, &mut value) };
            (code == 0).then_some(value)
        };
        let throttle = || {
            let mut value = 0;
            // SAFETY: as above.
            let code = unsafe { self.throttle?(self.device, &mut value) };
            (code == 0).then_some(value)
        };
        GpuState {
            sm_clock_mhz: clock(CLOCK_SM),
            memory_clock_mhz: clock(CLOCK_MEMORY),
            temperature_c: temperature(),
            throttle_reasons: throttle(),
        }
    }
}

/// A function of the library.
///
/// # Safety
/// `T` is the type of the function.
unsafe fn symbol<T: Copy>(library: &libloading::Library, name: &std::ffi::CStr) -> Option<T> {
    // SAFETY: as the caller promises.
    unsafe { library.get::<T>(name.to_bytes_with_nul()) }
        .ok()
        .map(|symbol| *symbol)
}
