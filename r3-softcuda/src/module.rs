//! Modules: code that is loaded into a context, with its variables.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, Weak};

use r3_emu::{Placement, Program};

use crate::api::{In, Out, Text, api};
use crate::capture;
use crate::code::{self, Code, Jit, Refused};
use crate::context::{self, Context};
use crate::error::{CuError, Res};
use crate::function::{Function, Legacy, Settings};
use crate::handle::{self, Handle};
use crate::process::lock;
use crate::space::{self, Kind, Request};
use crate::{stream, testing};

/// A loaded module.
pub struct Module {
    pub handle: Handle,
    context: Weak<Context>,
    pub program: Program,
    /// In the order of the text.
    pub functions: Vec<Arc<Function>>,
    variables: Vec<u64>,
}

impl Drop for Module {
    fn drop(&mut self) {
        for variable in &self.variables {
            let _ = space::free(*variable, |_| true);
        }
    }
}

/// Modules by context, so that they end with it.
static MODULES: Mutex<Vec<(Handle, Weak<Module>)>> = Mutex::new(Vec::new());

impl Module {
    /// Loads code into a context.
    pub fn load(context: &Arc<Context>, code: &Code) -> Result<Arc<Self>, Refused> {
        let mut variables = Vec::new();
        let modules: Vec<_> = code.modules.iter().collect();
        let mut place = |placement: &Placement<'_>| {
            let request = Request {
                kind: if placement.managed {
                    Kind::Managed
                } else {
                    Kind::Global
                },
                // An empty variable has an address, too.
                len: placement.size.max(1),
                device: context.device,
                context: context.handle,
                flags: 1,
                owner: 0,
            };
            if placement.align > 256 {
                return Err(format!("an alignment of {} bytes", placement.align));
            }
            let address =
                space::allocate(request, &[]).map_err(|_| "the device is full".to_owned())?;
            variables.push(address);
            Ok(address)
        };
        let program = Program::load(&modules, &context.device.memory, &mut place);
        let program = match program {
            Ok(program) => program,
            Err(error) => {
                for variable in variables {
                    let _ = space::free(variable, |_| true);
                }
                return Err(Refused {
                    error: CuError::INVALID_PTX,
                    message: error.to_string(),
                });
            }
        };
        let handle = handle::fresh();
        let module = Arc::new_cyclic(|module: &Weak<Self>| {
            let kernels: Vec<_> = program.kernels().to_vec();
            let mut left = testing::left_handles().into_iter();
            let functions = kernels.into_iter().filter_map(|info| {
                let id = program.kernel(&info.name)?;
                let name = std::ffi::CString::new(info.name.clone()).ok()?;
                let handle = left.next().unwrap_or_else(handle::fresh);
                let function = Arc::new(Function {
                    handle,
                    module: module.clone(),
                    id,
                    name,
                    settings: Mutex::new(Settings::of(&info)),
                    legacy: Mutex::new(Legacy::default()),
                    info,
                });
                handle::put(handle, &function);
                Some(function)
            });
            let functions = functions.collect();
            Self {
                handle,
                context: Arc::downgrade(context),
                program,
                functions,
                variables,
            }
        });
        handle::put(handle, &module);
        let mut modules = lock(&MODULES);
        modules.retain(|(_, module)| module.strong_count() > 0);
        modules.push((context.handle, Arc::downgrade(&module)));
        Ok(module)
    }

    pub fn context(&self) -> Res<Arc<Context>> {
        self.context.upgrade().ok_or(CuError::CONTEXT_IS_DESTROYED)
    }

    pub fn function(&self, name: &str) -> Res<Arc<Function>> {
        self.functions
            .iter()
            .find(|function| function.info.name == name)
            .cloned()
            .ok_or(CuError::NOT_FOUND)
    }

    /// Makes its handles invalid. Work that is queued still has it.
    pub fn unload(&self) {
        testing::leave_handles(self.functions.iter().map(|function| function.handle));
        for function in &self.functions {
            let _ = handle::remove::<Function>(function.handle);
        }
        let _ = handle::remove::<Self>(self.handle);
    }

    pub fn global(&self, name: &str) -> Res<(u64, u64)> {
        self.program.global(name).ok_or(CuError::NOT_FOUND)
    }
}

/// The modules of a context end with it.
pub fn end_context(context: &Context) {
    let mut modules = lock(&MODULES);
    let (of_it, others): (Vec<_>, Vec<_>) = modules
        .drain(..)
        .partition(|(owner, _)| *owner == context.handle);
    *modules = others;
    drop(modules);
    for (_, module) in of_it {
        if let Some(module) = module.upgrade() {
            module.unload();
        }
    }
}

fn load(out: Out<Handle>, image: *const c_void, jit: &Jit) -> Res {
    out.required()?;
    capture::refuse_unsafe()?;
    let context = context::current()?;
    let code = code::read(image, context.device.gpu);
    let module = jit.finish(code.and_then(|code| Module::load(&context, &code)))?;
    out.set(module.handle)
}

/// Contents of a file.
pub fn file(name: Text) -> Res<Vec<u8>> {
    let path = name.get()?;
    std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => CuError::FILE_NOT_FOUND,
        _ => CuError::OPERATING_SYSTEM,
    })
}

pub fn put_global(address: Out<u64>, len: Out<usize>, found: (u64, u64)) -> Res {
    if address.is_null() && len.is_null() {
        return Err(CuError::INVALID_VALUE);
    }
    address.set_if_wanted(found.0);
    len.set_if_wanted(found.1 as usize);
    Ok(())
}

api! {
    fn cuModuleLoad(module: Out<Handle>, name: Text) {
        module.required()?;
        let context = context::current()?;
        let code = code::from_bytes(file(name)?, context.device.gpu);
        let loaded = Jit::none().finish(code.and_then(|code| Module::load(&context, &code)))?;
        module.set(loaded.handle)
    }

    fn cuModuleLoadData(module: Out<Handle>, image: *const c_void) {
        load(module, image, &Jit::none())
    }

    fn cuModuleLoadDataEx(module: Out<Handle>, image: *const c_void, count: u32, options: In<u32>, values: Out<u64>) {
        load(module, image, &Jit::new(options, values, count)?)
    }

    fn cuModuleLoadFatBinary(module: Out<Handle>, image: *const c_void) {
        load(module, image, &Jit::none())
    }

    fn cuModuleUnload(module: Handle) {
        capture::refuse_unsafe()?;
        let module = handle::get::<Module>(module)?;
        if let Ok(context) = module.context() {
            let _ = stream::wait_all(&context);
        }
        module.unload();
        Ok(())
    }

    fn cuModuleGetLoadingMode(mode: Out<u32>) {
        // Lazy, as drivers of this version do unless told otherwise.
        let eager = crate::process::variable("CUDA_MODULE_LOADING") == Some("EAGER");
        mode.set(if eager { 1 } else { 2 })
    }

    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        function.required()?;
        function.set(handle::get::<Module>(module)?.function(name.get()?)?.handle)
    }

    fn cuModuleGetFunctionCount(count: Out<u32>, module: Handle) {
        count.set(handle::get::<Module>(module)?.functions.len() as u32)
    }

    fn cuModuleEnumerateFunctions(functions: Out<Handle>, count: u32, module: Handle) {
        let module = handle::get::<Module>(module)?;
        let handles: Vec<Handle> = module.functions.iter().take(count as usize).map(|f| f.handle).collect();
        functions.fill(&handles)
    }

    fn cuModuleGetGlobal_v2(address: Out<u64>, len: Out<usize>, module: Handle, name: Text) {
        put_global(address, len, handle::get::<Module>(module)?.global(name.get()?)?)
    }
}
