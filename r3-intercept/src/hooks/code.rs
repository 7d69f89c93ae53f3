//! Device code: loads, unloads, and the handles that stand for kernels.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use super::{Call, after, written};
use crate::driver::{FunctionHandle, ModuleHandle};
use crate::ffi::*;
use crate::guard::guard;
use crate::{modules, process};

/// # Safety
/// `name` is null or a C string.
unsafe fn string<'a>(name: *const c_char) -> Option<std::borrow::Cow<'a, str>> {
    // SAFETY: by the caller.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy())
}

/// # Safety
/// As for the driver's load functions.
unsafe fn jit_options(
    count: c_uint,
    options: *const c_uint,
    values: *const *mut c_void,
) -> Vec<(u32, u64)> {
    if options.is_null() || values.is_null() {
        return Vec::new();
    }
    // SAFETY: by the caller, both arrays have `count` elements.
    (0..count as usize)
        .map(|i| unsafe { (*options.add(i), *values.add(i) as u64) })
        .collect()
}

/// Looks at the image before the driver does, since the program may free it as soon as it is loaded.
fn load<H: Copy>(
    call: Call<'_>,
    handle: *const H,
    observe: impl FnOnce() -> Option<Arc<modules::Image>>,
    loaded: impl FnOnce(H, Option<Arc<modules::Image>>),
) -> CUresult {
    if !process::is_on() {
        return call();
    }
    let image = guard(observe);
    after(call, || {
        // SAFETY: the driver wrote the handle.
        if let Some(handle) = unsafe { written(handle) } {
            loaded(handle, image);
        }
    })
}

pub fn module_load(
    call: Call<'_>,
    name: &'static str,
    module: *mut CUmodule,
    file: *const c_char,
) -> CUresult {
    load(
        call,
        module,
        // SAFETY: the program's own argument.
        || modules::observe_file(&unsafe { string(file) }?, name),
        |module, image| modules::module_loaded(module as usize, image),
    )
}

pub fn module_load_data(
    call: Call<'_>,
    name: &'static str,
    module: *mut CUmodule,
    image: *const c_void,
) -> CUresult {
    load(
        call,
        module,
        // SAFETY: the program's own argument.
        || unsafe { modules::observe(image, name, Vec::new()) },
        |module, image| modules::module_loaded(module as usize, image),
    )
}

pub fn module_load_data_ex(
    call: Call<'_>,
    name: &'static str,
    module: *mut CUmodule,
    image: *const c_void,
    count: c_uint,
    options: *mut c_uint,
    values: *mut *mut c_void,
) -> CUresult {
    load(
        call,
        module,
        // SAFETY: the program's own arguments.
        || unsafe { modules::observe(image, name, jit_options(count, options, values)) },
        |module, image| modules::module_loaded(module as usize, image),
    )
}

pub fn module_unload(call: Call<'_>, _: &'static str, module: CUmodule) -> CUresult {
    if process::is_on() {
        guard(|| modules::unloaded(ModuleHandle::Module(module as usize)));
    }
    call()
}

pub fn module_get_function(
    call: Call<'_>,
    _: &'static str,
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: the call succeeded: the handle is written and the name a C string.
        if let (Some(function), Some(name)) = unsafe { (written(function), string(name)) } {
            modules::function_found(function as usize, module as usize, &name);
        }
    })
}

pub fn module_enumerate_functions(
    call: Call<'_>,
    _: &'static str,
    functions: *mut CUfunction,
    count: c_uint,
    module: CUmodule,
) -> CUresult {
    after(call, || {
        for i in 0..count as usize {
            // SAFETY: the driver filled at most `count` elements; the rest are the program's.
            let Some(function) = (unsafe { written(functions.wrapping_add(i)) }) else {
                return;
            };
            if let Some(name) = FunctionHandle::Function(function as usize).name() {
                modules::function_found(function as usize, module as usize, &name);
            }
        }
    })
}

pub fn library_load_data(
    call: Call<'_>,
    name: &'static str,
    library: *mut CUlibrary,
    image: *const c_void,
    options: *mut c_uint,
    values: *mut *mut c_void,
    count: c_uint,
    _library_options: *mut c_uint,
    _library_values: *mut *mut c_void,
    _library_count: c_uint,
) -> CUresult {
    load(
        call,
        library,
        // SAFETY: the program's own arguments.
        || unsafe { modules::observe(image, name, jit_options(count, options, values)) },
        |library, image| modules::library_loaded(library as usize, image),
    )
}

pub fn library_load_from_file(
    call: Call<'_>,
    name: &'static str,
    library: *mut CUlibrary,
    file: *const c_char,
    _options: *mut c_uint,
    _values: *mut *mut c_void,
    _count: c_uint,
    _library_options: *mut c_uint,
    _library_values: *mut *mut c_void,
    _library_count: c_uint,
) -> CUresult {
    load(
        call,
        library,
        // SAFETY: the program's own argument.
        || modules::observe_file(&unsafe { string(file) }?, name),
        |library, image| modules::library_loaded(library as usize, image),
    )
}

pub fn library_unload(call: Call<'_>, _: &'static str, library: CUlibrary) -> CUresult {
    if process::is_on() {
        guard(|| modules::unloaded(ModuleHandle::Library(library as usize)));
    }
    call()
}

pub fn library_get_kernel(
    call: Call<'_>,
    _: &'static str,
    kernel: *mut CUkernel,
    library: CUlibrary,
    name: *const c_char,
) -> CUresult {
    after(call, || {
        // SAFETY: the call succeeded: the handle is written and the name a C string.
        if let (Some(kernel), Some(name)) = unsafe { (written(kernel), string(name)) } {
            modules::kernel_found(kernel as usize, library as usize, &name);
        }
    })
}

pub fn library_get_module(
    call: Call<'_>,
    _: &'static str,
    module: *mut CUmodule,
    library: CUlibrary,
) -> CUresult {
    after(call, || {
        // SAFETY: the driver wrote the handle.
        if let Some(module) = unsafe { written(module) } {
            modules::library_module(module as usize, library as usize);
        }
    })
}

pub fn library_enumerate_kernels(
    call: Call<'_>,
    _: &'static str,
    kernels: *mut CUkernel,
    count: c_uint,
    library: CUlibrary,
) -> CUresult {
    after(call, || {
        for i in 0..count as usize {
            // SAFETY: the driver filled at most `count` elements; the rest are the program's.
            let Some(kernel) = (unsafe { written(kernels.wrapping_add(i)) }) else {
                return;
            };
            if let Some(name) = FunctionHandle::Kernel(kernel as usize).name() {
                modules::kernel_found(kernel as usize, library as usize, &name);
            }
        }
    })
}

pub fn kernel_get_function(
    call: Call<'_>,
    _: &'static str,
    function: *mut CUfunction,
    kernel: CUkernel,
) -> CUresult {
    after(call, || {
        // SAFETY: the driver wrote the handle.
        if let Some(function) = unsafe { written(function) } {
            modules::kernel_function(function as usize, kernel as usize);
        }
    })
}

pub fn func_set_cache_config(
    call: Call<'_>,
    _: &'static str,
    function: CUfunction,
    config: c_int,
) -> CUresult {
    after(call, || modules::cache_config(function as usize, config))
}

pub fn kernel_set_cache_config(
    call: Call<'_>,
    _: &'static str,
    kernel: CUkernel,
    config: c_int,
    _device: CUdevice,
) -> CUresult {
    after(call, || modules::cache_config(kernel as usize, config))
}
