//! A safe face for the driver's entry points: every unsafe call of the CUDA device is here.
//!
//! All work goes to the null stream, so that it is ordered, synchronous copies included. Device
//! addresses are plain numbers: a wrong one is the driver's error, not memory unsafety of this
//! process, as long as no caller writes to host memory through its unified address. The restorer
//! writes only where it mapped memory itself.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use super::table::{
    ATTRIBUTE_COOPERATIVE, DevicePtr, ERROR_NOT_FOUND, EntryPoints, GRANULARITY_MINIMUM,
    HOST_REGISTER_DEVICEMAP, Handle, JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE,
    MEM_ACCESS_READWRITE, MEM_ALLOCATION_PINNED, MEM_LOCATION_DEVICE, MemAccessDesc,
    MemAllocationProp, MemLocation, PARAM_BUFFER_POINTER, PARAM_BUFFER_SIZE, PARAM_END,
    RawLaunchAttribute, RawLaunchConfig,
};
use crate::device::{AddressRange, DeviceError, GlobalAddress, JitOption, LaunchConfig};

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

/// Host memory from [`Driver::host_memory`]. Not freed by itself.
pub struct HostMemory {
    start: *mut u8,
    len: usize,
    locked: bool,
}

// SAFETY: the memory is owned.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Whether it is page-locked.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

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

    /// Reserves addresses at or near a hint (0: anywhere); returns where.
    pub fn reserve(&self, len: u64, alignment: u64, hint: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        call!(
            self,
            cuMemAddressReserve(&mut address, len as usize, alignment as usize, hint, 0),
            "cuMemAddressReserve of {len} bytes at {hint:#x}"
        )?;
        Ok(address)
    }

    /// Gives reserved addresses back.
    pub fn release(&self, range: AddressRange) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemAddressFree(range.start(), range.len() as usize),
            "cuMemAddressFree of {range}"
        )
    }

    fn properties(device: i32) -> MemAllocationProp {
        MemAllocationProp {
            kind: MEM_ALLOCATION_PINNED,
            requested_handle_types: 0,
            location: MemLocation {
                kind: MEM_LOCATION_DEVICE,
                id: device,
            },
            win32_handle_meta_data: ptr::null_mut(),
            alloc_flags: [0; 8],
        }
    }

    /// Alignment of physical memory.
    pub fn granularity(&self, device: i32) -> Result<u64, DeviceError> {
        let mut granularity = 0usize;
        call!(
            self,
            cuMemGetAllocationGranularity(
                &mut granularity,
                &Self::properties(device),
                GRANULARITY_MINIMUM
            ),
            "cuMemGetAllocationGranularity"
        )?;
        Ok(granularity as u64)
    }

    /// Maps new device memory into reserved addresses.
    pub fn map(&self, device: i32, range: AddressRange) -> Result<(), DeviceError> {
        let len = range.len() as usize;
        let mut memory = 0;
        call!(
            self,
            cuMemCreate(&mut memory, len, &Self::properties(device), 0),
            "cuMemCreate of {len} bytes for {range}"
        )?;
        let mapped = call!(
            self,
            cuMemMap(range.start(), len, 0, memory, 0),
            "cuMemMap at {range}"
        );
        // The mapping keeps the memory alive.
        let released = call!(self, cuMemRelease(memory), "cuMemRelease for {range}");
        mapped?;
        let access = MemAccessDesc {
            location: MemLocation {
                kind: MEM_LOCATION_DEVICE,
                id: device,
            },
            flags: MEM_ACCESS_READWRITE,
        };
        let accessible = call!(
            self,
            cuMemSetAccess(range.start(), len, &access, 1),
            "cuMemSetAccess of {range}"
        );
        if accessible.is_err() {
            let _ = self.unmap(range);
        }
        accessible.and(released)
    }

    /// Takes mapped memory away.
    pub fn unmap(&self, range: AddressRange) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemUnmap(range.start(), range.len() as usize),
            "cuMemUnmap of {range}"
        )
    }

    /// Allocates device memory.
    pub fn allocate(&self, len: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        call!(
            self,
            cuMemAlloc_v2(&mut address, len as usize),
            "cuMemAlloc of {len} bytes"
        )?;
        Ok(address)
    }

    /// Frees device memory.
    pub fn free(&self, address: u64) -> Result<(), DeviceError> {
        call!(self, cuMemFree_v2(address), "cuMemFree of {address:#x}")
    }

    /// Takes addresses of this process, without memory. `range` is aligned to pages.
    pub fn reserve_host(&self, range: AddressRange) -> Result<(), DeviceError> {
        let wanted = range.start() as *mut c_void;
        // SAFETY: MAP_FIXED_NOREPLACE replaces no existing mapping; the new one is anonymous.
        let got = unsafe {
            libc::mmap(
                wanted,
                range.len() as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE
                    | libc::MAP_ANONYMOUS
                    | libc::MAP_NORESERVE
                    | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if got == libc::MAP_FAILED {
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: None,
            });
        }
        if got != wanted {
            // A kernel that does not know the flag takes the address as a hint.
            // SAFETY: the mapping was just made, and nothing refers to it.
            unsafe { libc::munmap(got, range.len() as usize) };
            return Err(DeviceError::AddressTaken {
                wanted: range,
                got: Some(got as u64),
            });
        }
        Ok(())
    }

    /// Undoes [`Self::reserve_host`].
    pub fn release_host(&self, range: AddressRange) {
        // SAFETY: a mapping of `reserve_host`, to which nothing in this process refers.
        unsafe { libc::munmap(range.start() as *mut c_void, range.len() as usize) };
    }

    /// Makes reserved host addresses memory, visible to the device at the same address.
    pub fn map_host(&self, range: AddressRange) -> Result<(), DeviceError> {
        let (start, len) = (range.start() as *mut c_void, range.len() as usize);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: changes a mapping of `reserve_host`, to which nothing in this process refers.
        if unsafe { libc::mprotect(start, len, access) } != 0 {
            return Err(DeviceError::Unsupported(format!(
                "no host memory for {range}"
            )));
        }
        call!(
            self,
            cuMemHostRegister_v2(start, len, HOST_REGISTER_DEVICEMAP),
            "cuMemHostRegister of {range}"
        )
        .inspect_err(|_| self.empty_host(range))?;
        let mut seen = 0;
        let result = call!(
            self,
            cuMemHostGetDevicePointer_v2(&mut seen, start, 0),
            "cuMemHostGetDevicePointer of {range}"
        );
        match result {
            Ok(()) if seen == range.start() => Ok(()),
            other => {
                let _ = self.unmap_host(range);
                other.and(Err(DeviceError::Unsupported(format!(
                    "this GPU sees host memory {range} at {seen:#x}"
                ))))
            }
        }
    }

    /// Undoes [`Self::map_host`]; the addresses stay reserved.
    pub fn unmap_host(&self, range: AddressRange) -> Result<(), DeviceError> {
        let start = range.start() as *mut c_void;
        let result = call!(
            self,
            cuMemHostUnregister(start),
            "cuMemHostUnregister of {range}"
        );
        self.empty_host(range);
        result
    }

    fn empty_host(&self, range: AddressRange) {
        let (start, len) = (range.start() as *mut c_void, range.len() as usize);
        // SAFETY: as in `map_host`. Should one fail, the memory merely stays.
        unsafe {
            libc::madvise(start, len, libc::MADV_DONTNEED);
            libc::mprotect(start, len, libc::PROT_NONE);
        }
    }

    /// Writes device memory, and waits until `bytes` may be reused.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemcpyHtoD_v2(address, bytes.as_ptr().cast(), bytes.len()),
            "writing {} bytes at {address:#x} (cuMemcpyHtoD)",
            bytes.len()
        )
    }

    /// Reads device memory.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), address, out.len()),
            "reading {} bytes at {address:#x} (cuMemcpyDtoH)",
            out.len()
        )
    }

    /// Copies device memory.
    pub fn copy(&self, from: u64, to: u64, len: u64) -> Result<(), DeviceError> {
        if self.entry.cuMemcpyDtoDAsync_v2.is_some() {
            return call!(
                self,
                cuMemcpyDtoDAsync_v2(to, from, len as usize, ptr::null_mut()),
                "copying {len} bytes from {from:#x} to {to:#x} (cuMemcpyDtoDAsync)"
            );
        }
        call!(
            self,
            cuMemcpyDtoD_v2(to, from, len as usize),
            "copying {len} bytes from {from:#x} to {to:#x} (cuMemcpyDtoD)"
        )
    }

    /// Fills device memory with zeros.
    pub fn zero(&self, range: AddressRange) -> Result<(), DeviceError> {
        self.fill(range.start(), 0, range.len())
    }

    /// Fills device memory with a byte.
    pub fn fill(&self, address: u64, byte: u8, len: u64) -> Result<(), DeviceError> {
        let bytes = len as usize;
        if self.entry.cuMemsetD8Async.is_some() {
            return call!(
                self,
                cuMemsetD8Async(address, byte, bytes, ptr::null_mut()),
                "filling {len} bytes at {address:#x} (cuMemsetD8Async)"
            );
        }
        call!(
            self,
            cuMemsetD8_v2(address, byte, bytes),
            "filling {len} bytes at {address:#x} (cuMemsetD8)"
        )
    }

    /// Allocates host memory, page-locked when the driver can, filled with zeros.
    pub fn host_memory(&self, len: usize) -> Result<HostMemory, DeviceError> {
        let len = len.max(1);
        let mut start = ptr::null_mut();
        let locked = call!(
            self,
            cuMemAllocHost_v2(&mut start, len),
            "cuMemAllocHost of {len} bytes"
        )
        .is_ok();
        if !locked {
            // SAFETY: the size is not zero.
            start = unsafe { libc::calloc(len, 1) };
        }
        if start.is_null() {
            return Err(DeviceError::Unsupported(format!(
                "no {len} bytes of host memory"
            )));
        }
        if locked {
            // SAFETY: `len` bytes were allocated; the driver does not promise zeros.
            unsafe { start.cast::<u8>().write_bytes(0, len) };
        }
        Ok(HostMemory {
            start: start.cast(),
            len,
            locked,
        })
    }

    /// Frees host memory.
    pub fn free_host_memory(&self, memory: HostMemory) -> Result<(), DeviceError> {
        if memory.locked {
            return call!(self, cuMemFreeHost(memory.start.cast()), "cuMemFreeHost");
        }
        // SAFETY: allocated by `calloc` and not used any more, since `memory` is consumed.
        unsafe { libc::free(memory.start.cast()) };
        Ok(())
    }

    /// Starts a write to device memory from page-locked memory.
    ///
    /// # Safety
    /// `bytes` are page-locked, and neither change nor go away before the copy is done.
    pub unsafe fn start_write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        call!(
            self,
            cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), ptr::null_mut()),
            "writing {} bytes at {address:#x} (cuMemcpyHtoDAsync)",
            bytes.len()
        )
    }

    /// Whether [`Self::start_write`] can work.
    pub fn writes_in_background(&self) -> bool {
        self.entry.cuMemcpyHtoDAsync_v2.is_some()
            && self.entry.cuEventRecord.is_some()
            && self.entry.cuEventSynchronize.is_some()
    }

    /// Loads device code. Text must end in NUL.
    pub fn load_module(&self, image: &[u8], options: &[JitOption]) -> Result<Object, DeviceError> {
        let mut module = ptr::null_mut();
        let image = image.as_ptr().cast();
        if options.is_empty() {
            call!(
                self,
                cuModuleLoadData(&mut module, image),
                "loading the code (cuModuleLoadData)"
            )?;
            return Ok(Object(module));
        }
        let mut names: Vec<c_uint> = options.iter().map(|o| o.option).collect();
        // The driver takes plain values in place of pointers.
        let mut values: Vec<*mut c_void> = options
            .iter()
            .map(|o| o.value as usize as *mut c_void)
            .collect();
        call!(
            self,
            cuModuleLoadDataEx(
                &mut module,
                image,
                names.len() as c_uint,
                names.as_mut_ptr(),
                values.as_mut_ptr()
            ),
            "loading the code (cuModuleLoadDataEx)"
        )?;
        Ok(Object(module))
    }

    /// What the driver's compiler says about an image that it does not load.
    pub fn compiler_log(&self, image: &[u8]) -> Option<String> {
        let mut log = [0u8; 4096];
        let mut module = ptr::null_mut();
        let mut names = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE];
        // The size goes in place of a pointer.
        let mut values: [*mut c_void; 2] =
            [log.as_mut_ptr().cast(), (log.len() - 1) as *mut c_void];
        let load = self.entry.cuModuleLoadDataEx?;
        // SAFETY: the buffer and its size are as the options say, and outlive the call.
        let code = unsafe {
            load(
                &mut module,
                image.as_ptr().cast(),
                names.len() as c_uint,
                names.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if code == 0 {
            let _ = self.unload_module(Object(module));
        }
        let text = CStr::from_bytes_until_nul(&log)
            .ok()?
            .to_string_lossy()
            .trim()
            .to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Unloads device code.
    pub fn unload_module(&self, module: Object) -> Result<(), DeviceError> {
        call!(self, cuModuleUnload(module.0), "cuModuleUnload")
    }

    /// Finds a kernel.
    pub fn function(&self, module: Object, name: &str) -> Result<Option<Object>, DeviceError> {
        let Ok(c_name) = CString::new(name) else {
            return Ok(None);
        };
        let mut function = ptr::null_mut();
        let result = call!(
            self,
            cuModuleGetFunction(&mut function, module.0, c_name.as_ptr()),
            "finding kernel {name} (cuModuleGetFunction)"
        );
        found(result, || Object(function))
    }

    /// Finds a variable.
    pub fn global(&self, module: Object, name: &str) -> Result<Option<GlobalAddress>, DeviceError> {
        let Ok(c_name) = CString::new(name) else {
            return Ok(None);
        };
        let (mut address, mut len): (DevicePtr, usize) = (0, 0);
        let result = call!(
            self,
            cuModuleGetGlobal_v2(&mut address, &mut len, module.0, c_name.as_ptr()),
            "finding variable {name} (cuModuleGetGlobal)"
        );
        found(result, || GlobalAddress {
            address,
            len: len as u64,
        })
    }

    /// A `CUfunction_attribute`.
    pub fn function_attribute(&self, function: Object, attribute: i32) -> Result<i32, DeviceError> {
        let mut value = 0;
        call!(
            self,
            cuFuncGetAttribute(&mut value, attribute, function.0),
            "cuFuncGetAttribute {attribute}"
        )?;
        Ok(value)
    }

    /// Sets a `CUfunction_attribute`.
    pub fn set_function_attribute(
        &self,
        function: Object,
        attribute: i32,
        value: i32,
    ) -> Result<(), DeviceError> {
        call!(
            self,
            cuFuncSetAttribute(function.0, attribute, value),
            "cuFuncSetAttribute {attribute} to {value}"
        )
    }

    /// Sets the cache preference of a kernel.
    pub fn set_cache_config(&self, function: Object, config: u32) -> Result<(), DeviceError> {
        call!(
            self,
            cuFuncSetCacheConfig(function.0, config),
            "cuFuncSetCacheConfig to {config}"
        )
    }

    /// Launches a kernel. The parameter buffer is copied by the driver before this returns, and
    /// checked against the size that the kernel expects.
    pub fn launch(&self, function: Object, config: &LaunchConfig<'_>) -> Result<(), DeviceError> {
        let mut size = config.params.len();
        let mut extra: [*mut c_void; 5] = [
            PARAM_BUFFER_POINTER as *mut c_void,
            config.params.as_ptr().cast_mut().cast(),
            PARAM_BUFFER_SIZE as *mut c_void,
            (&raw mut size).cast(),
            PARAM_END as *mut c_void,
        ];
        let extra = if size == 0 {
            ptr::null_mut()
        } else {
            extra.as_mut_ptr()
        };
        let mut attributes: Vec<RawLaunchAttribute> = config
            .attributes
            .iter()
            .map(|attribute| {
                let mut value = [0; 64];
                let len = attribute.value.len().min(value.len());
                value[..len].copy_from_slice(&attribute.value[..len]);
                RawLaunchAttribute {
                    id: attribute.id,
                    pad: [0; 4],
                    value,
                }
            })
            .collect();
        if config.cooperative {
            let mut value = [0; 64];
            value[..4].copy_from_slice(&1i32.to_ne_bytes());
            attributes.push(RawLaunchAttribute {
                id: ATTRIBUTE_COOPERATIVE,
                pad: [0; 4],
                value,
            });
        }
        let [gx, gy, gz] = config.grid;
        let [bx, by, bz] = config.block;
        if attributes.is_empty() {
            return call!(
                self,
                cuLaunchKernel(
                    function.0,
                    gx,
                    gy,
                    gz,
                    bx,
                    by,
                    bz,
                    config.dynamic_shared,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    extra
                ),
                "launching grid ({gx}, {gy}, {gz}), block ({bx}, {by}, {bz}), {} bytes of shared memory, \
                 {} bytes of parameters (cuLaunchKernel)",
                config.dynamic_shared,
                config.params.len()
            );
        }
        let raw = RawLaunchConfig {
            grid: config.grid,
            block: config.block,
            shared_mem_bytes: config.dynamic_shared,
            stream: ptr::null_mut(),
            attrs: attributes.as_mut_ptr(),
            num_attrs: attributes.len() as c_uint,
        };
        call!(
            self,
            cuLaunchKernelEx(&raw, function.0, ptr::null_mut(), extra),
            "launching grid ({gx}, {gy}, {gz}), block ({bx}, {by}, {bz}), {} bytes of shared memory, \
             {} bytes of parameters, attributes {:?} (cuLaunchKernelEx)",
            config.dynamic_shared,
            config.params.len(),
            attributes.iter().map(|a| a.id).collect::<Vec<_>>()
        )
    }
}

/// `None` when the driver says that there is no such thing.
fn found<T>(
    result: Result<(), DeviceError>,
    value: impl FnOnce() -> T,
) -> Result<Option<T>, DeviceError> {
    match result {
        Ok(()) => Ok(Some(value())),
        Err(DeviceError::Call {
            code: ERROR_NOT_FOUND,
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Page size of the host.
pub fn page_size() -> u64 {
    // SAFETY: a query without side effects.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}
