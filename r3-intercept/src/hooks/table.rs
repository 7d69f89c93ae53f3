//! The list of hooked functions, with the signatures of `cuda.h` (13.0) and `nvrtc.h`.
//!
//! Names with the same signature and meaning share a line; each still has its own function, since
//! `_ptsz` variants mean another default stream.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{code, hooks, launch, lookup, memory, nvrtc, streams};
use crate::ffi::*;

/// Indices into [`HOOKS`] in ascending order of name.
pub(super) const SORTED: [u16; NAMES.len()] = super::sorted(&NAMES);

hooks! {
    // Look-up.
    fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64) => lookup::v1;
    fn cuGetProcAddress_v2(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int) => lookup::v2;

    // Device code.
    fn cuModuleLoad(module: *mut CUmodule, file: *const c_char) => code::module_load;
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) => code::module_load_data;
    fn cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void) => code::module_load_data_ex;
    fn cuModuleLoadFatBinary(module: *mut CUmodule, image: *const c_void) => code::module_load_data;
    fn cuModuleUnload(module: CUmodule) => code::module_unload;
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) => code::module_get_function;
    fn cuModuleEnumerateFunctions(functions: *mut CUfunction, count: c_uint, module: CUmodule) => code::module_enumerate_functions;
    fn cuLibraryLoadData(library: *mut CUlibrary, image: *const c_void, jit_options: *mut c_uint, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint) => code::library_load_data;
    fn cuLibraryLoadFromFile(library: *mut CUlibrary, file: *const c_char, jit_options: *mut c_uint, jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_uint, values: *mut *mut c_void, count: c_uint) => code::library_load_from_file;
    fn cuLibraryUnload(library: CUlibrary) => code::library_unload;
    fn cuLibraryGetKernel(kernel: *mut CUkernel, library: CUlibrary, name: *const c_char) => code::library_get_kernel;
    fn cuLibraryGetModule(module: *mut CUmodule, library: CUlibrary) => code::library_get_module;
    fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, count: c_uint, library: CUlibrary) => code::library_enumerate_kernels;
    fn cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel) => code::kernel_get_function;
    fn cuFuncSetCacheConfig(function: CUfunction, config: c_int) => code::func_set_cache_config;
    fn cuKernelSetCacheConfig(kernel: CUkernel, config: c_int, device: CUdevice) => code::kernel_set_cache_config;

    // Run-time compilation.
    fn nvrtcCreateProgram(program: *mut *mut c_void, source: *const c_char, name: *const c_char, header_count: c_int, headers: *const *const c_char, include_names: *const *const c_char) => nvrtc::create;
    fn nvrtcDestroyProgram(program: *mut *mut c_void) => nvrtc::destroy;
    fn nvrtcCompileProgram(program: *mut c_void, count: c_int, options: *const *const c_char) => nvrtc::compile;
    fn nvrtcAddNameExpression(program: *mut c_void, expression: *const c_char) => nvrtc::add_name_expression;
    fn nvrtcGetLoweredName(program: *mut c_void, expression: *const c_char, lowered: *mut *const c_char) => nvrtc::get_lowered_name;
    fn nvrtcGetPTX(program: *mut c_void, output: *mut c_char) => nvrtc::get_output;
    fn nvrtcGetCUBIN(program: *mut c_void, output: *mut c_char) => nvrtc::get_output;

    // Device memory.
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, len: usize) => memory::alloc;
    fn cuMemAllocPitch_v2(address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint) => memory::alloc_pitch;
    fn cuMemAllocManaged(address: *mut CUdeviceptr, len: usize, flags: c_uint) => memory::alloc_managed;
    fn cuMemFree_v2(address: CUdeviceptr) => memory::free;
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz (address: *mut CUdeviceptr, len: usize, stream: CUstream) => memory::alloc_async;
    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz (address: *mut CUdeviceptr, len: usize, pool: CUmemoryPool, stream: CUstream) => memory::alloc_from_pool_async;
    fn cuMemFreeAsync | cuMemFreeAsync_ptsz (address: CUdeviceptr, stream: CUstream) => memory::free_async;
    fn cuMemCreate(handle: *mut CUmemGenericAllocationHandle, len: usize, properties: *const c_void, flags: u64) => memory::create;
    fn cuMemRelease(handle: CUmemGenericAllocationHandle) => memory::release;
    fn cuMemMap(address: CUdeviceptr, len: usize, offset: usize, handle: CUmemGenericAllocationHandle, flags: u64) => memory::map;
    fn cuMemSetAccess(address: CUdeviceptr, len: usize, access: *const CUmemAccessDesc, count: usize) => memory::set_access;
    fn cuMemUnmap(address: CUdeviceptr, len: usize) => memory::unmap;
    fn cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, handle: CUipcMemHandle, flags: c_uint) => memory::ipc_open;
    fn cuIpcCloseMemHandle(address: CUdeviceptr) => memory::free;
    fn cuMemPoolImportPointer(address: *mut CUdeviceptr, pool: CUmemoryPool, data: *mut CUmemPoolPtrExportData) => memory::pool_import;
    fn cuExternalMemoryGetMappedBuffer(address: *mut CUdeviceptr, memory: CUexternalMemory, buffer: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC) => memory::external_buffer;

    // Host memory that kernels can reach.
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, len: usize) => memory::alloc_host;
    fn cuMemHostAlloc(pointer: *mut *mut c_void, len: usize, flags: c_uint) => memory::host_alloc;
    fn cuMemFreeHost(pointer: *mut c_void) => memory::free_host;
    fn cuMemHostRegister_v2(pointer: *mut c_void, len: usize, flags: c_uint) => memory::host_register;
    fn cuMemHostUnregister(pointer: *mut c_void) => memory::host_unregister;

    // Contexts, whose end is the end of their memory.
    fn cuCtxDestroy_v2(context: CUcontext) => memory::context_destroy;
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) => memory::primary_context_retain;
    fn cuDevicePrimaryCtxReset | cuDevicePrimaryCtxReset_v2 (device: CUdevice) => memory::primary_context_reset;
    fn cuDevicePrimaryCtxRelease | cuDevicePrimaryCtxRelease_v2 (device: CUdevice) => memory::primary_context_release;

    // Launches.
    gate launch::gate; fn cuLaunchKernel | cuLaunchKernel_ptsz (function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void) => launch::kernel;
    gate launch::gate_ex; fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz (config: *const CUlaunchConfig, function: CUfunction, params: *mut *mut c_void, extra: *mut *mut c_void) => launch::kernel_ex;
    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz (function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream, params: *mut *mut c_void) => launch::cooperative;
    fn cuLaunchCooperativeKernelMultiDevice(list: *mut CUDA_LAUNCH_PARAMS, count: c_uint, flags: c_uint) => launch::multi_device;
    fn cuLaunch(function: CUfunction) => launch::legacy;
    fn cuLaunchGrid(function: CUfunction, width: c_int, height: c_int) => launch::legacy_grid;
    fn cuLaunchGridAsync(function: CUfunction, width: c_int, height: c_int, stream: CUstream) => launch::legacy_grid_async;

    // Stream capture and graphs: counted, never touched.
    fn cuGraphLaunch | cuGraphLaunch_ptsz (graph: CUgraphExec, stream: CUstream) => streams::graph_launch;
    fn cuStreamBeginCapture | cuStreamBeginCapture_ptsz (stream: CUstream) => streams::begin_capture;
    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz (stream: CUstream, mode: c_int) => streams::begin_capture_v2;
    fn cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz (stream: CUstream, graph: CUgraph, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_int) => streams::begin_capture_to_graph;
    fn cuStreamEndCapture | cuStreamEndCapture_ptsz (stream: CUstream, graph: *mut CUgraph) => streams::end_capture;

    // Trigger.
    fn cuProfilerStart() => streams::profiler_start;
    fn cuProfilerStop() => streams::profiler_stop;
}
