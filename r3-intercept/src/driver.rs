//! The driver calls that R3 makes for itself, with a safe face.
//!
//! They go to the driver's own functions, never through a hook, and never load the driver: where it
//! or a function is missing (old drivers), the answer is "not known".

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use crate::ffi::*;
use crate::loader;

/// Declares driver functions; each is looked up once, when first needed.
macro_rules! functions {
    ($( $rust:ident = $name:ident ( $($arg:ident : $ty:ty),* ); )*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`; `CUDA_ERROR_NOT_FOUND` where the driver has none.")]
            ///
            /// # Safety
            /// As the driver's function.
            unsafe fn $rust($($arg: $ty),*) -> CUresult {
                static ADDRESS: OnceLock<usize> = OnceLock::new();
                let address = match ADDRESS.get() {
                    Some(address) => *address,
                    None => {
                        let Some(driver) = loader::driver() else { return CUDA_ERROR_NOT_FOUND };
                        // SAFETY: `concat!` appends the only NUL.
                        let name = unsafe {
                            CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes())
                        };
                        *ADDRESS.get_or_init(|| driver.symbol(name) as usize)
                    }
                };
                if address == 0 {
                    return CUDA_ERROR_NOT_FOUND;
                }
                // SAFETY: the driver's function of this name, whose signature this is.
                let function = unsafe {
                    std::mem::transmute::<usize, unsafe extern "C" fn($($ty),*) -> CUresult>(address)
                };
                // SAFETY: by the caller.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

functions! {
    ctx_get_current = cuCtxGetCurrent(context: *mut CUcontext);
    ctx_get_device = cuCtxGetDevice(device: *mut CUdevice);
    ctx_get_limit = cuCtxGetLimit(value: *mut usize, limit: c_uint);
    ctx_synchronize = cuCtxSynchronize();
    primary_ctx_get_state = cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    driver_get_version = cuDriverGetVersion(version: *mut c_int);
    device_get_name = cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    device_get_uuid = cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
    device_total_mem = cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    device_get_attribute = cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice);
    stream_create = cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    stream_is_capturing = cuStreamIsCapturing(stream: CUstream, status: *mut c_int);
    exchange_capture_mode = cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    event_create = cuEventCreate(event: *mut CUevent, flags: c_uint);
    event_record = cuEventRecord(event: CUevent, stream: CUstream);
    event_query = cuEventQuery(event: CUevent);
    memcpy_dtoh_async = cuMemcpyDtoHAsync_v2(host: *mut c_void, device: CUdeviceptr, len: usize, stream: CUstream);
    memcpy_htod_async = cuMemcpyHtoDAsync_v2(device: CUdeviceptr, host: *const c_void, len: usize, stream: CUstream);
    mem_alloc = cuMemAlloc_v2(address: *mut CUdeviceptr, len: usize);
    module_load_data = cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    module_get_function = cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    launch_kernel = cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void);
    mem_get_address_range = cuMemGetAddressRange_v2(base: *mut CUdeviceptr, len: *mut usize, address: CUdeviceptr);
    pointer_get_attribute = cuPointerGetAttribute(data: *mut c_void, attribute: c_int, address: CUdeviceptr);
    mem_host_register = cuMemHostRegister_v2(pointer: *mut c_void, len: usize, flags: c_uint);
    mem_host_get_device_pointer = cuMemHostGetDevicePointer_v2(device: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
    func_get_attribute = cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: CUfunction);
    func_get_param_info = cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
    func_get_name = cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    kernel_get_attribute = cuKernelGetAttribute(value: *mut c_int, attribute: c_int, kernel: CUkernel, device: CUdevice);
    kernel_get_param_info = cuKernelGetParamInfo(kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize);
    kernel_get_name = cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    module_get_global = cuModuleGetGlobal_v2(address: *mut CUdeviceptr, len: *mut usize, module: CUmodule, name: *const c_char);
    library_get_global = cuLibraryGetGlobal(address: *mut CUdeviceptr, len: *mut usize, library: CUlibrary, name: *const c_char);
    library_get_managed = cuLibraryGetManaged(address: *mut CUdeviceptr, len: *mut usize, library: CUlibrary, name: *const c_char);
    get_error_name = cuGetErrorName(error: CUresult, name: *mut *const c_char);
}

/// The driver's name of an error, e.g. `CUDA_ERROR_ILLEGAL_ADDRESS`.
pub fn error_name(error: CUresult) -> String {
    let mut name = null();
    // SAFETY: the out-pointer is ours; the driver's strings are static.
    unsafe {
        if get_error_name(error, &raw mut name) == CUDA_SUCCESS && !name.is_null() {
            return CStr::from_ptr(name).to_string_lossy().into_owned();
        }
    }
    format!("CUDA error {error}")
}

/// A driver call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The function.
    pub call: &'static str,
    /// Its result.
    pub code: CUresult,
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} failed with {}", self.call, error_name(self.code))
    }
}

fn check(call: &'static str, code: CUresult) -> Result<(), DriverError> {
    if code == CUDA_SUCCESS {
        Ok(())
    } else {
        Err(DriverError { call, code })
    }
}

/// The current context as an opaque number; 0 when there is none.
pub fn current_context() -> usize {
    let mut context = null_mut();
    // SAFETY: the out-pointer is ours.
    let code = unsafe { ctx_get_current(&raw mut context) };
    if code == CUDA_SUCCESS {
        context as usize
    } else {
        0
    }
}

/// Ordinal of the current context's device.
pub fn current_device() -> Option<i32> {
    let mut device = 0;
    // SAFETY: the out-pointer is ours.
    (unsafe { ctx_get_device(&raw mut device) } == CUDA_SUCCESS).then_some(device)
}

pub fn primary_context_active(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the out-pointers are ours.
    let code = unsafe { primary_ctx_get_state(device, &raw mut flags, &raw mut active) };
    code != CUDA_SUCCESS || active != 0
}

/// `cuDriverGetVersion`, e.g. 13000; 0 when unknown.
pub fn version() -> i32 {
    let mut version = 0;
    // SAFETY: the out-pointer is ours.
    unsafe { driver_get_version(&raw mut version) };
    version
}

/// Name, UUID, memory in bytes, and the attributes that have a value.
pub fn describe_device(device: i32) -> (String, [u8; 16], u64, Vec<(i32, i32)>) {
    let mut name = [0 as c_char; 256];
    let mut uuid = CUuuid::default();
    let mut memory = 0usize;
    // SAFETY: the out-pointers are ours, the length is the array's; the last byte stays NUL.
    let name = unsafe {
        device_get_name(name.as_mut_ptr(), name.len() as c_int - 1, device);
        device_get_uuid(&raw mut uuid, device);
        device_total_mem(&raw mut memory, device);
        CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
    };
    // CUdevice_attribute runs to 150 or so in CUDA 13; drivers refuse what they do not know.
    let attributes = (1..=160)
        .filter_map(|attribute| {
            let mut value = 0;
            // SAFETY: the out-pointer is ours.
            let code = unsafe { device_get_attribute(&raw mut value, attribute, device) };
            (code == CUDA_SUCCESS).then_some((attribute, value))
        })
        .collect();
    (name, uuid.bytes, memory as u64, attributes)
}

/// Context limits (`CUlimit` 0 to 6) that have a value.
pub fn limits() -> Vec<(u32, u64)> {
    (0..=6)
        .filter_map(|limit| {
            let mut value = 0usize;
            // SAFETY: the out-pointer is ours.
            let code = unsafe { ctx_get_limit(&raw mut value, limit) };
            (code == CUDA_SUCCESS).then_some((limit, value as u64))
        })
        .collect()
}

/// The allocation that contains `address`, as the driver knows it.
pub fn address_range(address: u64) -> Option<(u64, u64)> {
    let (mut base, mut len) = (0, 0usize);
    // SAFETY: the out-pointers are ours; the driver only looks the address up.
    let code = unsafe { mem_get_address_range(&raw mut base, &raw mut len, address) };
    (code == CUDA_SUCCESS && len > 0).then_some((base, len as u64))
}

/// Whether kernels of the current context may read the memory at `address`; `None` where the driver
/// cannot tell (before 11.4).
pub fn is_readable(address: u64) -> Option<bool> {
    const CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: c_int = 16;
    const READ: u64 = 1;
    let mut flags = 0u64;
    // SAFETY: the out-pointer is ours and has more room than the attribute needs.
    let code = unsafe {
        let data = (&raw mut flags).cast();
        pointer_get_attribute(data, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, address)
    };
    (code == CUDA_SUCCESS).then_some(flags & READ != 0)
}

/// The address by which kernels see pinned host memory.
pub fn host_device_address(pointer: *mut c_void) -> Option<u64> {
    let mut address = 0;
    // SAFETY: the out-pointer is ours.
    let code = unsafe { mem_host_get_device_pointer(&raw mut address, pointer, 0) };
    (code == CUDA_SUCCESS && address != 0).then_some(address)
}

/// Whether work given to `stream` is being captured into a graph. An invalidated capture counts.
pub fn is_capturing(stream: usize) -> Result<bool, DriverError> {
    /// The legacy stream is asked while another stream captures: nothing may be done to it then.
    const CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: CUresult = 906;
    let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the program's own stream; the out-pointer is ours.
    match unsafe { stream_is_capturing(stream as CUstream, &raw mut status) } {
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => Ok(true),
        // Drivers before 10.0 have no captures.
        CUDA_ERROR_NOT_FOUND => Ok(false),
        code => {
            check("cuStreamIsCapturing", code).map(|()| status != CU_STREAM_CAPTURE_STATUS_NONE)
        }
    }
}

/// While it lives, calls that a capture elsewhere in the process would forbid are allowed on this
/// thread, since they do not touch the capturing stream.
pub struct RelaxedCapture(c_int);

impl RelaxedCapture {
    pub fn enter() -> Self {
        let mut mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: exchanges the calling thread's mode with ours.
        let code = unsafe { exchange_capture_mode(&raw mut mode) };
        Self(if code == CUDA_SUCCESS { mode } else { -1 })
    }
}

impl Drop for RelaxedCapture {
    fn drop(&mut self) {
        if self.0 >= 0 {
            // SAFETY: puts the thread's mode back.
            unsafe { exchange_capture_mode(&raw mut self.0) };
        }
    }
}

/// A stream of our own, never destroyed: its context's end is its end.
#[derive(Clone, Copy, Debug)]
pub struct Stream(usize);

/// An event of our own.
#[derive(Clone, Copy, Debug)]
pub struct Event(usize);

impl Stream {
    /// A stream in the current context that does not wait for the default stream.
    pub fn new() -> Result<Self, DriverError> {
        let mut stream = null_mut();
        // SAFETY: the out-pointer is ours.
        check("cuStreamCreate", unsafe {
            stream_create(&raw mut stream, CU_STREAM_NON_BLOCKING)
        })?;
        Ok(Self(stream as usize))
    }

    /// One of the program's streams.
    pub fn of_program(stream: usize) -> Self {
        Self(stream)
    }

    /// Starts a copy to the device.
    ///
    /// # Safety
    /// `host` has `len` bytes, which nobody writes to until the stream has passed this point.
    pub unsafe fn copy_to_device(
        self,
        device: u64,
        host: *const u8,
        len: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: by the caller; the driver refuses device addresses that are not allocated.
        check("cuMemcpyHtoDAsync", unsafe {
            memcpy_htod_async(device, host.cast(), len, self.0 as CUstream)
        })
    }

    /// Starts a copy to the host.
    ///
    /// # Safety
    /// `host` has `len` bytes, which nobody else uses until the stream has passed this point.
    pub unsafe fn copy_to_host(
        self,
        host: *mut u8,
        device: u64,
        len: usize,
    ) -> Result<(), DriverError> {
        // SAFETY: by the caller; the driver refuses device addresses that are not allocated.
        check("cuMemcpyDtoHAsync", unsafe {
            memcpy_dtoh_async(host.cast(), device, len, self.0 as CUstream)
        })
    }
}

impl Event {
    pub fn new() -> Result<Self, DriverError> {
        let mut event = null_mut();
        // SAFETY: the out-pointer is ours.
        check("cuEventCreate", unsafe {
            event_create(&raw mut event, CU_EVENT_DISABLE_TIMING)
        })?;
        Ok(Self(event as usize))
    }

    pub fn record(self, stream: Stream) -> Result<(), DriverError> {
        // SAFETY: both belong to the current context.
        check("cuEventRecord", unsafe {
            event_record(self.0 as CUevent, stream.0 as CUstream)
        })
    }

    /// Whether the recorded work has ended.
    pub fn is_done(self) -> Result<bool, DriverError> {
        // SAFETY: an event of ours.
        match unsafe { event_query(self.0 as CUevent) } {
            CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }
}

/// Waits for all work of the current context.
pub fn synchronize_context() -> Result<(), DriverError> {
    // SAFETY: no arguments.
    check("cuCtxSynchronize", unsafe { ctx_synchronize() })
}

/// Pins host memory of ours, for all contexts.
///
/// # Safety
/// The range is mapped and stays so.
pub unsafe fn pin(pointer: *mut u8, len: usize) -> Result<(), DriverError> {
    // SAFETY: by the caller.
    check("cuMemHostRegister", unsafe {
        mem_host_register(pointer.cast(), len, CU_MEMHOSTREGISTER_PORTABLE)
    })
}

/// Device memory of ours. Never freed: its context's end is its end.
pub struct DeviceMemory {
    address: u64,
    len: usize,
}

impl DeviceMemory {
    /// `len` bytes in the current context.
    pub fn new(len: usize) -> Result<Self, DriverError> {
        let mut address = 0;
        // SAFETY: the out-pointer is ours.
        check("cuMemAlloc", unsafe { mem_alloc(&raw mut address, len) })?;
        Ok(Self { address, len })
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

/// A kernel of ours in the current context. Its module is never unloaded: the context's end is its end.
pub struct DeviceFunction(usize);

impl DeviceFunction {
    /// Loads PTX text (NUL-terminated) and finds a kernel in it.
    pub fn load(ptx: &'static str, name: &CStr) -> Result<Self, DriverError> {
        if !ptx.ends_with('\0') {
            return Err(DriverError {
                call: "cuModuleLoadData",
                code: CUDA_ERROR_INVALID_VALUE,
            });
        }
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the text ends with a NUL; the out-pointers are ours.
        unsafe {
            let image = ptx.as_ptr().cast();
            check("cuModuleLoadData", module_load_data(&raw mut module, image))?;
            check(
                "cuModuleGetFunction",
                module_get_function(&raw mut function, module, name.as_ptr()),
            )?;
        }
        Ok(Self(function as usize))
    }

    /// Launches `blocks` blocks of `threads` threads. Each argument has a word of its own, of which the
    /// kernel reads as many bytes as its parameter has.
    pub fn launch(
        &self,
        blocks: u32,
        threads: u32,
        arguments: &mut [u64],
        stream: Stream,
    ) -> Result<(), DriverError> {
        let mut pointers: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|argument| (&raw mut *argument).cast())
            .collect();
        // SAFETY: a kernel of ours with this many parameters, whose callers give it memory that is
        // mapped; the driver copies the arguments before it returns.
        check("cuLaunchKernel", unsafe {
            launch_kernel(
                self.0 as CUfunction,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.0 as CUstream,
                pointers.as_mut_ptr(),
                null_mut(),
            )
        })
    }
}

/// A kernel's handle: the launch functions take both kinds, the query functions do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionHandle {
    /// `CUfunction`.
    Function(usize),
    /// `CUkernel`.
    Kernel(usize),
}

impl FunctionHandle {
    /// Value of a `CUfunction_attribute`.
    pub fn attribute(self, attribute: i32) -> Option<i32> {
        let mut value = 0;
        // SAFETY: a handle that the driver gave to the program; the out-pointer is ours.
        let code = unsafe {
            match self {
                Self::Function(f) => func_get_attribute(&raw mut value, attribute, f as CUfunction),
                Self::Kernel(k) => kernel_get_attribute(
                    &raw mut value,
                    attribute,
                    k as CUkernel,
                    current_device()?,
                ),
            }
        };
        (code == CUDA_SUCCESS).then_some(value)
    }

    /// Offset and size of each parameter in bytes; `None` on drivers before 12.4.
    pub fn params(self) -> Option<Vec<(u32, u32)>> {
        let mut params = Vec::new();
        // A parameter buffer has at most 32,764 bytes.
        for index in 0..=32_764 {
            let (mut offset, mut size) = (0usize, 0usize);
            // SAFETY: as above.
            let code = unsafe {
                match self {
                    Self::Function(f) => {
                        func_get_param_info(f as CUfunction, index, &raw mut offset, &raw mut size)
                    }
                    Self::Kernel(k) => {
                        kernel_get_param_info(k as CUkernel, index, &raw mut offset, &raw mut size)
                    }
                }
            };
            match code {
                CUDA_SUCCESS => params.push((offset.try_into().ok()?, size.try_into().ok()?)),
                CUDA_ERROR_INVALID_VALUE => return Some(params),
                _ => return None,
            }
        }
        None
    }

    /// The kernel's (mangled) name; `None` on drivers before 12.3.
    pub fn name(self) -> Option<String> {
        let mut name = null();
        // SAFETY: as above; the driver's string lives as long as the handle.
        unsafe {
            let code = match self {
                Self::Function(f) => func_get_name(&raw mut name, f as CUfunction),
                Self::Kernel(k) => kernel_get_name(&raw mut name, k as CUkernel),
            };
            (code == CUDA_SUCCESS && !name.is_null())
                .then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }
}

/// Where to look a variable up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleHandle {
    /// `CUmodule`.
    Module(usize),
    /// `CUlibrary`.
    Library(usize),
}

impl ModuleHandle {
    /// Address and length of a module's variable in the current context; `None` when the compiler
    /// has optimised it away.
    pub fn variable(self, name: &str) -> Option<(u64, u64)> {
        let name = CString::new(name).ok()?;
        let (mut address, mut len) = (0, 0usize);
        // SAFETY: a handle that the driver gave to the program; the out-pointers are ours.
        let code = unsafe {
            match self {
                Self::Module(m) => {
                    module_get_global(&raw mut address, &raw mut len, m as CUmodule, name.as_ptr())
                }
                Self::Library(l) => {
                    let library = l as CUlibrary;
                    match library_get_global(&raw mut address, &raw mut len, library, name.as_ptr())
                    {
                        CUDA_SUCCESS => CUDA_SUCCESS,
                        _ => library_get_managed(
                            &raw mut address,
                            &raw mut len,
                            library,
                            name.as_ptr(),
                        ),
                    }
                }
            }
        };
        (code == CUDA_SUCCESS && len > 0).then_some((address, len as u64))
    }
}
