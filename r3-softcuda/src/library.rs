//! Libraries: code that is loaded once and put into each context that uses it.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Arc, Mutex, Weak};

use r3_emu::KernelInfo;

use crate::api::{In, Out, Text, api};
use crate::code::{self, Code, Jit};
use crate::context::{self, Context};
use crate::device;
use crate::error::{CuError, Res};
use crate::function::{self, Function, Settings};
use crate::handle::{self, Handle};
use crate::module::{Module, file, put_global};
use crate::process::lock;
use crate::stream;

/// A library.
pub struct Library {
    pub handle: Handle,
    code: Code,
    /// Its module in each context.
    modules: Mutex<BTreeMap<u64, Arc<Module>>>,
    kernels: Mutex<Vec<Arc<Kernel>>>,
}

/// A kernel of a library.
pub struct Kernel {
    pub handle: Handle,
    library: Weak<Library>,
    info: KernelInfo,
    name: CString,
    /// Attributes that were set, by device.
    set: Mutex<BTreeMap<i32, Vec<(u32, i32)>>>,
}

impl Library {
    fn load(bytes: *const c_void, jit: &Jit) -> Res<Arc<Self>> {
        let gpu = device::get(0)?.gpu;
        let code = jit.finish(code::read(bytes, gpu))?;
        Ok(Self::of(code))
    }

    fn of(code: Code) -> Arc<Self> {
        handle::create(|handle| Self {
            handle,
            code,
            modules: Mutex::default(),
            kernels: Mutex::default(),
        })
    }

    /// The library in a context.
    pub fn module(self: &Arc<Self>, context: &Arc<Context>) -> Res<Arc<Module>> {
        let mut modules = lock(&self.modules);
        if let Some(module) = modules.get(&context.id) {
            return Ok(module.clone());
        }
        let module = Jit::none().finish(Module::load(context, &self.code))?;
        modules.insert(context.id, module.clone());
        drop(modules);
        for kernel in lock(&self.kernels).iter() {
            kernel.pass_on(&module);
        }
        Ok(module)
    }

    /// Its kernels. Their facts come from its module, so it is loaded for that.
    fn kernels(self: &Arc<Self>) -> Res<Vec<Arc<Kernel>>> {
        let known = lock(&self.kernels).clone();
        if !known.is_empty() {
            return Ok(known);
        }
        let module = self.module(&context::current()?)?;
        let mut kernels = lock(&self.kernels);
        if kernels.is_empty() {
            *kernels = module
                .functions
                .iter()
                .map(|function| {
                    handle::create(|handle| Kernel {
                        handle,
                        library: Arc::downgrade(self),
                        info: function.info.clone(),
                        name: function.name.clone(),
                        set: Mutex::default(),
                    })
                })
                .collect();
        }
        Ok(kernels.clone())
    }
}

impl Kernel {
    fn library(&self) -> Res<Arc<Library>> {
        self.library.upgrade().ok_or(CuError::INVALID_HANDLE)
    }

    /// Its function in a context.
    pub fn function(&self, context: &Arc<Context>) -> Res<Arc<Function>> {
        self.library()?.module(context)?.function(&self.info.name)
    }

    fn settings(&self, device: i32) -> Res<Settings> {
        let gpu = device::get(device)?.gpu;
        let mut settings = Settings::of(&self.info);
        for (attribute, value) in lock(&self.set).get(&device).into_iter().flatten() {
            settings.set(*attribute, *value, &self.info, gpu)?;
        }
        Ok(settings)
    }

    /// Gives what was set to its function in a module.
    fn pass_on(&self, module: &Module) {
        let (Ok(context), Ok(function)) = (module.context(), module.function(&self.info.name))
        else {
            return;
        };
        if let Ok(settings) = self.settings(context.device.ordinal) {
            *lock(&function.settings) = settings;
        }
    }
}

api! {
    fn cuLibraryLoadData(library: Out<Handle>, image: *const c_void, jit_options: In<u32>, jit_values: Out<u64>, jit_count: u32, _options: In<u32>, _values: In<u64>, _count: u32) {
        library.required()?;
        library.set(Library::load(image, &Jit::new(jit_options, jit_values, jit_count)?)?.handle)
    }

    fn cuLibraryLoadFromFile(library: Out<Handle>, name: Text, jit_options: In<u32>, jit_values: Out<u64>, jit_count: u32, _options: In<u32>, _values: In<u64>, _count: u32) {
        library.required()?;
        let jit = Jit::new(jit_options, jit_values, jit_count)?;
        let code = jit.finish(code::from_bytes(file(name)?, device::get(0)?.gpu))?;
        library.set(Library::of(code).handle)
    }

    fn cuLibraryUnload(library: Handle) {
        let library = handle::get::<Library>(library)?;
        let modules = std::mem::take(&mut *lock(&library.modules));
        for module in modules.values() {
            if let Ok(context) = module.context() {
                let _ = stream::wait_all(&context);
            }
            module.unload();
        }
        for kernel in lock(&library.kernels).drain(..) {
            let _ = handle::remove::<Kernel>(kernel.handle);
        }
        handle::remove::<Library>(library.handle).map(drop)
    }

    fn cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Text) {
        kernel.required()?;
        let name = name.get()?;
        let kernels = handle::get::<Library>(library)?.kernels()?;
        let found = kernels.iter().find(|kernel| kernel.info.name == name).ok_or(CuError::NOT_FOUND)?;
        kernel.set(found.handle)
    }

    fn cuLibraryGetKernelCount(count: Out<u32>, library: Handle) {
        count.set(handle::get::<Library>(library)?.kernels()?.len() as u32)
    }

    fn cuLibraryEnumerateKernels(kernels: Out<Handle>, count: u32, library: Handle) {
        let all = handle::get::<Library>(library)?.kernels()?;
        let handles: Vec<Handle> = all.iter().take(count as usize).map(|kernel| kernel.handle).collect();
        kernels.fill(&handles)
    }

    fn cuLibraryGetModule(module: Out<Handle>, library: Handle) {
        module.required()?;
        let library = handle::get::<Library>(library)?;
        module.set(library.module(&context::current()?)?.handle)
    }

    fn cuLibraryGetGlobal(address: Out<u64>, len: Out<usize>, library: Handle, name: Text) {
        let library = handle::get::<Library>(library)?;
        put_global(address, len, library.module(&context::current()?)?.global(name.get()?)?)
    }

    fn cuLibraryGetManaged(address: Out<u64>, len: Out<usize>, library: Handle, name: Text) {
        let library = handle::get::<Library>(library)?;
        let found = library.module(&context::current()?)?.global(name.get()?)?;
        let managed = crate::space::find(found.0).is_some_and(|found| found.kind == crate::space::Kind::Managed);
        if !managed {
            return Err(CuError::NOT_FOUND);
        }
        put_global(address, len, found)
    }

    fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) {
        function.required()?;
        function.set(handle::get::<Kernel>(kernel)?.function(&context::current()?)?.handle)
    }

    fn cuKernelGetLibrary(library: Out<Handle>, kernel: Handle) {
        library.set(handle::get::<Kernel>(kernel)?.library()?.handle)
    }

    fn cuKernelGetName(name: Out<*const c_char>, kernel: Handle) {
        name.set(handle::get::<Kernel>(kernel)?.name.as_ptr())
    }

    fn cuKernelGetParamInfo(kernel: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        function::param_info(&handle::get::<Kernel>(kernel)?.info, index, offset, size)
    }

    fn cuKernelGetAttribute(value: Out<i32>, attribute: u32, kernel: Handle, device: i32) {
        let kernel = handle::get::<Kernel>(kernel)?;
        value.set(kernel.settings(device)?.get(attribute, &kernel.info, device::get(device)?.gpu)?)
    }

    fn cuKernelSetAttribute(attribute: u32, value: i32, kernel: Handle, device: i32) {
        let kernel = handle::get::<Kernel>(kernel)?;
        kernel.settings(device)?.set(attribute, value, &kernel.info, device::get(device)?.gpu)?;
        lock(&kernel.set).entry(device).or_default().push((attribute, value));
        let modules: Vec<_> = lock(&kernel.library()?.modules).values().cloned().collect();
        for module in modules {
            kernel.pass_on(&module);
        }
        Ok(())
    }

    fn cuKernelSetCacheConfig(kernel: Handle, _config: u32, device: i32) {
        device::get(device)?;
        handle::get::<Kernel>(kernel).map(drop)
    }
}
