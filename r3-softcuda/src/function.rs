//! Functions: kernels of a module, their attributes, and the launch state of the oldest interface.

use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, Weak};

use r3_emu::{KernelId, KernelInfo};

use crate::api::{Out, api};
use crate::context;
use crate::error::{CuError, Res};
use crate::gpu::Gpu;
use crate::handle::{self, Handle, Object};
use crate::module::Module;
use crate::process::lock;

/// A kernel in a module.
pub struct Function {
    pub handle: Handle,
    pub module: Weak<Module>,
    pub id: KernelId,
    pub info: KernelInfo,
    pub name: CString,
    pub settings: Mutex<Settings>,
    /// For `cuLaunchGrid`.
    pub legacy: Mutex<Legacy>,
}

/// Attributes that can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub max_dynamic_shared: i32,
    pub carveout: i32,
    pub cluster_must_be_set: i32,
    pub cluster: [i32; 3],
    pub non_portable_cluster: i32,
    pub cluster_scheduling: i32,
}

/// What `cuFuncSetBlockShape` and `cuParamSet*` set.
#[derive(Clone, Debug, Default)]
pub struct Legacy {
    pub block: [u32; 3],
    pub shared: u32,
    pub params: Vec<u8>,
    pub size: usize,
}

impl Settings {
    pub fn of(info: &KernelInfo) -> Self {
        Self {
            max_dynamic_shared: 49_152 - info.static_shared.min(49_152) as i32,
            carveout: -1,
            cluster_must_be_set: i32::from(info.cluster.is_some()),
            cluster: info.cluster.unwrap_or([0; 3]).map(u32::cast_signed),
            non_portable_cluster: 0,
            cluster_scheduling: 0,
        }
    }

    /// Value of a `CUfunction_attribute`.
    pub fn get(&self, attribute: u32, info: &KernelInfo, gpu: &Gpu) -> Res<i32> {
        let (major, minor) = gpu.compute;
        Ok(match attribute {
            0 => info.max_threads as i32,
            1 => info.static_shared as i32,
            2 => 0,
            3 => info.local_bytes as i32,
            4 => info.registers.clamp(8, 255) as i32,
            5 | 6 => major * 10 + minor,
            7 => 0,
            8 => self.max_dynamic_shared,
            9 => self.carveout,
            10 => self.cluster_must_be_set,
            11..=13 => self.cluster[attribute as usize - 11],
            14 => self.non_portable_cluster,
            15 => self.cluster_scheduling,
            _ => return Err(CuError::INVALID_VALUE),
        })
    }

    pub fn set(&mut self, attribute: u32, value: i32, info: &KernelInfo, gpu: &Gpu) -> Res {
        match attribute {
            8 => {
                let room = i64::from(gpu.max_shared()) - i64::from(info.static_shared);
                if value < 0 || i64::from(value) > room {
                    return Err(CuError::INVALID_VALUE);
                }
                self.max_dynamic_shared = value;
            }
            9 if (-1..=100).contains(&value) => self.carveout = value,
            10 => self.cluster_must_be_set = value,
            // What the code requires stays.
            11..=13 if info.cluster.is_some() => return Err(CuError::NOT_PERMITTED),
            11..=13 if value >= 0 => self.cluster[attribute as usize - 11] = value,
            14 => self.non_portable_cluster = value,
            15 => self.cluster_scheduling = value,
            _ => return Err(CuError::INVALID_VALUE),
        }
        Ok(())
    }
}

impl Function {
    pub fn module(&self) -> Res<Arc<Module>> {
        self.module.upgrade().ok_or(CuError::INVALID_HANDLE)
    }

    fn gpu(&self) -> Res<&'static Gpu> {
        Ok(self.module()?.context()?.device.gpu)
    }

    pub fn attribute(&self, attribute: u32) -> Res<i32> {
        lock(&self.settings).get(attribute, &self.info, self.gpu()?)
    }
}

/// The function that a `CUfunction` means, which may also be a `CUkernel`: then that of the current context.
pub fn resolve(handle: Handle) -> Res<Arc<Function>> {
    match handle::any(handle) {
        Some(Object::Function(function)) => Ok(function),
        Some(Object::Kernel(kernel)) => kernel.function(&context::current()?),
        _ => Err(CuError::INVALID_HANDLE),
    }
}

/// Offset and size of a parameter.
pub fn param_info(info: &KernelInfo, index: usize, offset: Out<usize>, size: Out<usize>) -> Res {
    offset.required()?;
    let (at, len, _) = info.params.get(index).ok_or(CuError::INVALID_VALUE)?;
    offset.set(*at as usize)?;
    size.set_if_wanted(*len as usize);
    Ok(())
}

api! {
    fn cuFuncGetAttribute(value: Out<i32>, attribute: u32, function: Handle) {
        value.set(resolve(function)?.attribute(attribute)?)
    }

    fn cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) {
        let function = resolve(function)?;
        let gpu = function.gpu()?;
        lock(&function.settings).set(attribute, value, &function.info, gpu)
    }

    fn cuFuncSetCacheConfig(function: Handle, _config: u32) {
        resolve(function).map(drop)
    }

    fn cuFuncSetSharedMemConfig(function: Handle, _config: u32) {
        resolve(function).map(drop)
    }

    fn cuFuncGetModule(module: Out<Handle>, function: Handle) {
        module.set(resolve(function)?.module()?.handle)
    }

    fn cuFuncGetName(name: Out<*const c_char>, function: Handle) {
        // The program keeps the pointer as long as the function lives, which its handle keeps.
        name.set(resolve(function)?.name.as_ptr())
    }

    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        param_info(&resolve(function)?.info, index, offset, size)
    }

    fn cuFuncIsLoaded(state: Out<u32>, function: Handle) {
        resolve(function)?;
        state.set(1)
    }

    fn cuFuncLoad(function: Handle) {
        resolve(function).map(drop)
    }
}
