//! The driver's entry points that a replay uses, looked up in `libcuda.so.1` one by one.
//!
//! Numbers and layouts are those of cudarc's bindings. Its functions are not used: they panic where
//! the library or an entry point is missing, and return Rust enumerations. Result codes and attributes
//! are plain integers here, since a newer driver may return a code, and an archive may hold an
//! attribute, that no list of today knows. Every entry point is optional until
//! it is called, so that an older driver serves as far as it goes.

use std::ffi::{c_char, c_int, c_uint, c_void};

use cudarc::driver::sys;

/// `CUdeviceptr`.
pub type DevicePtr = u64;
/// An opaque driver handle (`CUcontext`, `CUmodule`, `CUfunction`, `CUstream`, `CUevent`).
pub type Handle = *mut c_void;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemLocation {
    /// `CUmemLocationType`.
    pub kind: c_uint,
    /// Device ordinal.
    pub id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAllocationProp {
    /// `CUmemAllocationType`.
    pub kind: c_uint,
    /// `CUmemAllocationHandleType`.
    pub requested_handle_types: c_uint,
    /// Where the memory lies.
    pub location: MemLocation,
    /// Not used on Linux.
    pub win32_handle_meta_data: *mut c_void,
    /// Compression, RDMA capability, usage.
    pub alloc_flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAccessDesc {
    /// Who gets access.
    pub location: MemLocation,
    /// `CUmemAccess_flags`.
    pub flags: c_uint,
}

/// `CUlaunchAttribute`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct RawLaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub id: c_uint,
    /// Padding.
    pub pad: [u8; 4],
    /// `CUlaunchAttributeValue`.
    pub value: [u8; 64],
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawLaunchConfig {
    /// Grid dimensions.
    pub grid: [c_uint; 3],
    /// Block dimensions.
    pub block: [c_uint; 3],
    /// Dynamic shared memory in bytes.
    pub shared_mem_bytes: c_uint,
    /// Stream.
    pub stream: Handle,
    /// Attributes.
    pub attrs: *mut RawLaunchAttribute,
    /// Number of attributes.
    pub num_attrs: c_uint,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const MEM_LOCATION_DEVICE: c_uint =
    sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as c_uint;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const MEM_ALLOCATION_PINNED: c_uint =
    sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED as c_uint;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub const MEM_ACCESS_READWRITE: c_uint =
    sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as c_uint;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`.
pub const GRANULARITY_MINIMUM: c_uint =
    sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM as c_uint;
/// `CU_MEMHOSTREGISTER_DEVICEMAP`.
pub const HOST_REGISTER_DEVICEMAP: c_uint = sys::CU_MEMHOSTREGISTER_DEVICEMAP;
/// `CU_LAUNCH_PARAM_END`.
pub const PARAM_END: usize = sys::CU_LAUNCH_PARAM_END_AS_INT as usize;
/// `CU_LAUNCH_PARAM_BUFFER_POINTER`.
pub const PARAM_BUFFER_POINTER: usize = sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize;
/// `CU_LAUNCH_PARAM_BUFFER_SIZE`.
pub const PARAM_BUFFER_SIZE: usize = sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize;
/// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`.
pub const ATTRIBUTE_COOPERATIVE: c_uint =
    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as c_uint;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const DEVICE_CC_MAJOR: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const DEVICE_CC_MINOR: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int;
/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const DEVICE_MULTIPROCESSORS: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as c_int;
/// `CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK`.
pub const DEVICE_BLOCK_THREADS: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK as c_int;
/// `CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR`.
pub const DEVICE_MULTIPROCESSOR_THREADS: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR as c_int;
/// `CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR`.
pub const DEVICE_REGISTERS: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR as c_int;
/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`.
pub const DEVICE_BLOCK_SHARED: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as c_int;
/// `CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE`.
pub const DEVICE_L2: c_int = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE as c_int;
/// `CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE`, in kHz.
pub const DEVICE_MEMORY_CLOCK: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE as c_int;
/// `CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH`, in bits.
pub const DEVICE_BUS_WIDTH: c_int =
    sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH as c_int;
/// `CU_LIMIT_PERSISTING_L2_CACHE_SIZE`.
pub const LIMIT_PERSISTING_L2: c_uint = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE as c_uint;
/// `CU_JIT_ERROR_LOG_BUFFER`.
pub const JIT_ERROR_LOG_BUFFER: c_uint = sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER as c_uint;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_ERROR_LOG_BUFFER_SIZE: c_uint =
    sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as c_uint;
/// `CUDA_ERROR_NOT_FOUND`.
pub const ERROR_NOT_FOUND: c_int = sys::CUresult::CUDA_ERROR_NOT_FOUND as c_int;

macro_rules! entry_points {
    ($( $name:ident ( $($ty:ty),* ); )*) => {
        /// The entry points, as found in the library.
        #[allow(non_snake_case, reason = "the driver's own names")]
        pub struct EntryPoints {
            $(
                #[doc = concat!("`", stringify!($name), "`, if the driver has it.")]
                pub $name: Option<unsafe extern "C" fn($($ty),*) -> c_int>,
            )*
        }

        impl EntryPoints {
            /// Looks all entry points up.
            pub fn find(library: &libloading::Library) -> Self {
                Self {
                    $(
                        // SAFETY: the type is that of the entry point in cuda.h, and the library
                        // is never unloaded (see `Driver::load`).
                        $name: unsafe {
                            library
                                .get::<unsafe extern "C" fn($($ty),*) -> c_int>(
                                    concat!(stringify!($name), "\0").as_bytes(),
                                )
                                .ok()
                                .map(|symbol| *symbol)
                        },
                    )*
                }
            }
        }
    };
}

entry_points! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(c_int, *mut *const c_char);
    cuGetErrorString(c_int, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
    cuDeviceGetUuid_v2(*mut [u8; 16], c_int);
    cuDeviceGetAttribute(*mut c_int, c_int, c_int);
    cuDeviceTotalMem_v2(*mut usize, c_int);
    cuDevicePrimaryCtxRetain(*mut Handle, c_int);
    cuCtxSetCurrent(Handle);
    cuCtxSynchronize();
    cuCtxGetLimit(*mut usize, c_uint);
    cuCtxSetLimit(c_uint, usize);
    cuCtxResetPersistingL2Cache();
    cuEventCreate(*mut Handle, c_uint);
    cuEventRecord(Handle, Handle);
    cuEventSynchronize(Handle);
    cuEventElapsedTime(*mut f32, Handle, Handle);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAddressReserve(*mut DevicePtr, usize, usize, DevicePtr, u64);
    cuMemAddressFree(DevicePtr, usize);
    cuMemGetAllocationGranularity(*mut usize, *const MemAllocationProp, c_uint);
    cuMemCreate(*mut u64, usize, *const MemAllocationProp, u64);
    cuMemRelease(u64);
    cuMemMap(DevicePtr, usize, usize, u64, u64);
    cuMemUnmap(DevicePtr, usize);
    cuMemSetAccess(DevicePtr, usize, *const MemAccessDesc, usize);
    cuMemAlloc_v2(*mut DevicePtr, usize);
    cuMemFree_v2(DevicePtr);
    cuMemAllocHost_v2(*mut *mut c_void, usize);
    cuMemFreeHost(*mut c_void);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemHostGetDevicePointer_v2(*mut DevicePtr, *mut c_void, c_uint);
    cuMemcpyDtoHAsync_v2(*mut c_void, DevicePtr, usize, Handle);
    cuMemcpyHtoDAsync_v2(DevicePtr, *const c_void, usize, Handle);
    cuMemcpyDtoDAsync_v2(DevicePtr, DevicePtr, usize, Handle);
    cuMemcpyHtoD_v2(DevicePtr, *const c_void, usize);
    cuMemcpyDtoH_v2(*mut c_void, DevicePtr, usize);
    cuMemcpyDtoD_v2(DevicePtr, DevicePtr, usize);
    cuMemsetD8Async(DevicePtr, u8, usize, Handle);
    cuMemsetD8_v2(DevicePtr, u8, usize);
    cuModuleLoadData(*mut Handle, *const c_void);
    cuModuleLoadDataEx(*mut Handle, *const c_void, c_uint, *mut c_uint, *mut *mut c_void);
    cuModuleUnload(Handle);
    cuModuleGetFunction(*mut Handle, Handle, *const c_char);
    cuModuleGetGlobal_v2(*mut DevicePtr, *mut usize, Handle, *const c_char);
    cuFuncGetAttribute(*mut c_int, c_int, Handle);
    cuFuncSetAttribute(Handle, c_int, c_int);
    cuFuncSetCacheConfig(Handle, c_uint);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, Handle, c_int, usize);
    cuLaunchKernel(
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
        *mut *mut c_void, *mut *mut c_void
    );
    cuLaunchKernelEx(*const RawLaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    #[test]
    fn structures_are_laid_out_as_in_cuda_h() {
        // Compared with bindings that were generated from it.
        macro_rules! same {
            ($own:ty, $theirs:ty: $($field:ident = $their_field:ident),*) => {
                assert_eq!(size_of::<$own>(), size_of::<$theirs>());
                assert_eq!(align_of::<$own>(), align_of::<$theirs>());
                $(assert_eq!(offset_of!($own, $field), offset_of!($theirs, $their_field));)*
            };
        }
        same!(MemLocation, sys::CUmemLocation: kind = type_, id = id);
        same!(MemAllocationProp, sys::CUmemAllocationProp:
            kind = type_, requested_handle_types = requestedHandleTypes, location = location,
            win32_handle_meta_data = win32HandleMetaData, alloc_flags = allocFlags);
        same!(MemAccessDesc, sys::CUmemAccessDesc: location = location, flags = flags);
        same!(RawLaunchAttribute, sys::CUlaunchAttribute: id = id, pad = pad, value = value);
        same!(RawLaunchConfig, sys::CUlaunchConfig:
            grid = gridDimX, block = blockDimX, shared_mem_bytes = sharedMemBytes, stream = hStream,
            attrs = attrs, num_attrs = numAttrs);
    }
}
