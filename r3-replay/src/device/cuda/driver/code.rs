//! Modules, kernels, variables, launches.

use std::ffi::{CStr, CString, c_uint, c_void};
use std::ptr;

use super::super::table::{
    ATTRIBUTE_COOPERATIVE, DevicePtr, ERROR_NOT_FOUND, JIT_ERROR_LOG_BUFFER,
    JIT_ERROR_LOG_BUFFER_SIZE, PARAM_BUFFER_POINTER, PARAM_BUFFER_SIZE, PARAM_END,
    RawLaunchAttribute, RawLaunchConfig,
};
use super::{Driver, Object};
use crate::device::{DeviceError, GlobalAddress, JitOption, LaunchConfig};

impl Driver {
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

    /// How many blocks of a kernel fit on a multiprocessor at a time.
    pub fn occupancy(
        &self,
        function: Object,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<u32, DeviceError> {
        let mut blocks = 0;
        call!(
            self,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function.0,
                i32::try_from(threads).unwrap_or(i32::MAX),
                dynamic_shared as usize
            ),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor of {threads} threads, {dynamic_shared} bytes of shared memory"
        )?;
        Ok(u32::try_from(blocks).unwrap_or(0))
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
