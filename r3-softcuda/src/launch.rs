//! Launches: what each entry point asks for becomes one [`Launch`], which a stream runs later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use r3_emu::{FaultKind, LaunchConfig, RunOptions};

use crate::api::{Call, In, api};
use crate::capture;
use crate::context::{self, Context};
use crate::error::{CuError, Res};
use crate::function::{self, Function};
use crate::handle::{self, Handle};
use crate::module::Module;
use crate::occupancy;
use crate::pageable;
use crate::process::{self, lock};
use crate::space::InUse;
use crate::stream;
use crate::testing;
use crate::work::Work;

/// Host threads of a launch. How many cores there are is asked once: the answer is in files.
static THREADS: LazyLock<usize> = LazyLock::new(|| match process::number("THREADS") {
    Some(threads @ 1..) => threads as usize,
    _ => std::thread::available_parallelism().map_or(1, usize::from),
});
static INSTRUCTION_LIMIT: LazyLock<Option<u64>> =
    LazyLock::new(|| process::number("INSTRUCTION_LIMIT"));

/// A launch of a kernel.
#[derive(Clone)]
pub struct Launch {
    pub function: Arc<Function>,
    module: Arc<Module>,
    pub shape: Shape,
    pub params: Vec<u8>,
    /// Addresses of the parameters in `params`, as graphs tell them.
    pub pointers: Vec<u64>,
}

/// Shape of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub cluster: [u32; 3],
    pub cooperative: bool,
}

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// The process ends: kernels that run forever do not keep it busy.
pub fn cancel_all() {
    CANCELLED.store(true, Ordering::Release);
}

pub fn cancelled() -> bool {
    CANCELLED.load(Ordering::Acquire)
}

/// The driver's code for a fault.
pub fn code_of(kind: &FaultKind) -> CuError {
    match kind {
        FaultKind::OutOfBounds { .. } => CuError::ILLEGAL_ADDRESS,
        FaultKind::Misaligned { .. } => CuError::MISALIGNED_ADDRESS,
        FaultKind::Assert { .. } => CuError::ASSERT,
        FaultKind::StackOverflow => CuError::ILLEGAL_ADDRESS,
        FaultKind::Unsupported(_) => CuError::ILLEGAL_INSTRUCTION,
        FaultKind::InstructionLimit(_) => CuError::LAUNCH_TIMEOUT,
        _ => CuError::LAUNCH_FAILED,
    }
}

/// `CU_LAUNCH_PARAM_END`, `…_BUFFER_POINTER`, `…_BUFFER_SIZE`
const END: u64 = 0;
const BUFFER: u64 = 1;
const SIZE: u64 = 2;

/// Reads the parameters of a kernel.
fn params(function: &Function, params: In<u64>, extra: In<u64>) -> Res<Vec<u8>> {
    let info = &function.info;
    let mut bytes = vec![0; info.param_bytes as usize];
    if !params.is_null() {
        for (index, (offset, size, _)) in info.params.iter().enumerate() {
            let pointer = In::new(params.pointer().wrapping_add(index)).get()?;
            let value = In::new(pointer as *const u8).list(*size as usize)?;
            let start = *offset as usize;
            let place = bytes
                .get_mut(start..start + value.len())
                .ok_or(CuError::INVALID_VALUE)?;
            place.copy_from_slice(&value);
        }
        return Ok(bytes);
    }
    if extra.is_null() {
        return if info.params.is_empty() {
            Ok(bytes)
        } else {
            Err(CuError::INVALID_VALUE)
        };
    }
    let (mut buffer, mut size) = (0, 0);
    for index in 0.. {
        let at = |index: usize| In::new(extra.pointer().wrapping_add(index)).get();
        match at(2 * index)? {
            END => break,
            BUFFER => buffer = at(2 * index + 1)?,
            SIZE => size = In::new(at(2 * index + 1)? as *const usize).get()?,
            _ => return Err(CuError::INVALID_VALUE),
        }
    }
    let given = In::new(buffer as *const u8).list(size)?;
    // A buffer may be padded at its end, but not too short.
    let given = given.get(..bytes.len()).ok_or(CuError::INVALID_VALUE)?;
    bytes.copy_from_slice(given);
    Ok(bytes)
}

impl Launch {
    /// Checks a launch and takes its parameters.
    pub fn new(
        context: &Arc<Context>,
        asked: Handle,
        shape: Shape,
        list: In<u64>,
        extra: In<u64>,
    ) -> Res<Self> {
        let function = function::resolve(asked)?;
        if !list.is_null() && !extra.is_null() {
            return Err(CuError::INVALID_VALUE);
        }
        let params = params(&function, list, extra)?;
        Self::with_params(context, function, shape, params)
    }

    /// The same with a parameter buffer.
    pub fn with_params(
        context: &Arc<Context>,
        function: Arc<Function>,
        shape: Shape,
        params: Vec<u8>,
    ) -> Res<Self> {
        let module = function.module()?;
        if !Arc::ptr_eq(&module.context()?, context) {
            return Err(CuError::INVALID_HANDLE);
        }
        let shape = shape.checked(&function, context)?;
        let mut launch = Self {
            function,
            module,
            shape,
            params,
            pointers: Vec::new(),
        };
        launch.find_pointers();
        Ok(launch)
    }

    /// The parameters have moved: a copy was made.
    pub fn find_pointers(&mut self) {
        let start = self.params.as_ptr() as u64;
        let params = self.function.info.params.iter();
        self.pointers = params
            .map(|(offset, ..)| start + u64::from(*offset))
            .collect();
    }

    /// Runs it to its end.
    pub fn run(&self, context: &Arc<Context>) -> Res {
        let _full = testing::fill_device();
        let _in_use = InUse::begin();
        let _opened = pageable::open(&context.device.memory);
        let config = LaunchConfig {
            grid: self.shape.grid,
            block: self.shape.block,
            cluster: self.shape.cluster.map(|blocks| blocks.max(1)),
            dynamic_shared: self.shape.shared,
            cooperative: self.shape.cooperative,
            params: &self.params,
            blocks: None,
        };
        let options = RunOptions {
            threads: *THREADS,
            racecheck: false,
            instruction_limit: *INSTRUCTION_LIMIT,
            print: &|bytes| context.print(bytes),
            cancel: Some(&CANCELLED),
        };
        match self.module.program.launch(
            self.function.id,
            &config,
            &context.device.memory,
            &options,
        ) {
            Ok(_) => Ok(()),
            // The process is about to end.
            Err(fault) if matches!(fault.kind, FaultKind::Cancelled) => Ok(()),
            Err(fault) => {
                context::fault(context, &fault);
                Err(code_of(&fault.kind))
            }
        }
    }
}

impl Shape {
    /// Whether the device can run it.
    fn checked(mut self, function: &Function, context: &Context) -> Res<Self> {
        let gpu = context.device.gpu;
        let info = &function.info;
        let settings = *lock(&function.settings);
        let limits = [0x7fff_ffff, 65_535, 65_535];
        let block_limits = [1024, 1024, 64];
        let within = |value: &[u32; 3], limits: [u32; 3]| {
            value
                .iter()
                .zip(limits)
                .all(|(value, limit)| (1..=limit).contains(value))
        };
        let threads: u64 = self.block.iter().map(|n| u64::from(*n)).product();
        if !within(&self.grid, limits) || !within(&self.block, block_limits) || threads > 1024 {
            return Err(CuError::INVALID_VALUE);
        }
        if threads > u64::from(info.max_threads)
            || info.required_block.is_some_and(|block| block != self.block)
        {
            return Err(CuError::INVALID_VALUE);
        }
        if i64::from(self.shared) > i64::from(settings.max_dynamic_shared) {
            return Err(CuError::INVALID_VALUE);
        }
        if let Some(required) = info.cluster {
            let given = self.cluster.iter().any(|n| *n != 0);
            if given && self.cluster != required {
                return Err(CuError::INVALID_CLUSTER_SIZE);
            }
            self.cluster = required;
        } else if self.cluster == [0; 3] && settings.cluster.iter().any(|n| *n > 0) {
            if settings.cluster.contains(&0) {
                // All three are set, or none.
                return Err(CuError::INVALID_CLUSTER_SIZE);
            }
            self.cluster = settings.cluster.map(i32::unsigned_abs);
        }
        let cluster: u64 = self
            .cluster
            .iter()
            .map(|n| u64::from((*n).max(1)))
            .product();
        if cluster > 1 || self.cluster.iter().any(|n| *n != 0) {
            let divides = self
                .grid
                .iter()
                .zip(self.cluster)
                .all(|(grid, cluster)| grid.is_multiple_of(cluster.max(1)));
            let most = if settings.non_portable_cluster != 0 {
                16
            } else {
                8
            };
            if gpu.compute.0 < 9 || !divides || cluster > most {
                return Err(CuError::INVALID_CLUSTER_SIZE);
            }
        }
        if self.cooperative {
            let blocks: u64 = self.grid.iter().map(|n| u64::from(*n)).product();
            let each = occupancy::blocks(gpu, function, threads as u32, self.shared);
            if blocks > u64::from(each) * gpu.multiprocessors.unsigned_abs() as u64 {
                return Err(CuError::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        Ok(self)
    }
}

fn submit(
    call: &Call,
    asked: Handle,
    shape: Shape,
    on: Handle,
    list: In<u64>,
    extra: In<u64>,
) -> Res {
    let stream = stream::resolve(on, call.per_thread)?;
    let launch = Launch::new(&stream.context()?, asked, shape, list, extra)?;
    stream::submit(&stream, Work::Kernel(Arc::new(launch))).map(drop)
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: Handle,
    pub attributes: *const Attribute,
    pub count: u32,
}

/// `CUlaunchAttribute`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Attribute {
    pub id: u32,
    pub padding: u32,
    pub value: [u32; 16],
}

impl Config {
    /// The shape; attributes without a meaning here are accepted.
    pub fn shape(&self) -> Res<Shape> {
        let mut shape = Shape {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            cluster: [0; 3],
            cooperative: false,
        };
        for attribute in In::new(self.attributes).list(self.count as usize)? {
            match attribute.id {
                2 => shape.cooperative = attribute.value[0] != 0,
                4 => {
                    shape.cluster = [attribute.value[0], attribute.value[1], attribute.value[2]];
                    if shape.cluster.contains(&0) {
                        return Err(CuError::INVALID_VALUE);
                    }
                }
                0..=14 | 16 => {}
                _ => return Err(CuError::INVALID_VALUE),
            }
        }
        Ok(shape)
    }

    /// Events that the launch records: those of programmatic launches and of completion.
    fn events(&self) -> Res<Vec<Handle>> {
        let attributes = In::new(self.attributes).list(self.count as usize)?;
        let event = |attribute: Attribute| {
            matches!(attribute.id, 7 | 12)
                .then(|| u64::from(attribute.value[0]) | u64::from(attribute.value[1]) << 32)
        };
        Ok(attributes
            .into_iter()
            .filter_map(event)
            .filter(|event| *event != 0)
            .collect())
    }
}

/// `CUDA_LAUNCH_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceLaunch {
    pub function: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: Handle,
    pub params: *const u64,
}

fn legacy(call: &Call, function: Handle, width: i32, height: i32, on: Handle) -> Res {
    capture::refuse_implicit(&*stream::resolve(on, false)?, true)?;
    let function = function::resolve(function)?;
    let state = lock(&function.legacy).clone();
    let positive = |n: i32| u32::try_from(n).map_err(|_| CuError::INVALID_VALUE);
    let shape = Shape {
        grid: [positive(width)?, positive(height)?, 1],
        block: state.block,
        shared: state.shared,
        ..Shape::default()
    };
    let mut params = state.params;
    if state.size < function.info.param_bytes as usize {
        return Err(CuError::INVALID_VALUE);
    }
    params.resize(function.info.param_bytes as usize, 0);
    let stream = stream::resolve(on, call.per_thread)?;
    let launch = Launch::with_params(&stream.context()?, function, shape, params)?;
    stream::submit(&stream, Work::Kernel(Arc::new(launch))).map(drop)
}

fn put_param(function: Handle, offset: i32, bytes: &[u8]) -> Res {
    let function = function::resolve(function)?;
    let start = usize::try_from(offset).map_err(|_| CuError::INVALID_VALUE)?;
    let end = start
        .checked_add(bytes.len())
        .filter(|end| *end <= 32_764)
        .ok_or(CuError::INVALID_VALUE)?;
    let mut legacy = lock(&function.legacy);
    if legacy.params.len() < end {
        legacy.params.resize(end, 0);
    }
    if let Some(place) = legacy.params.get_mut(start..end) {
        place.copy_from_slice(bytes);
    }
    Ok(())
}

api! {
    fn cuLaunchKernel/cuLaunchKernel_ptsz(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: Handle, params: In<u64>, extra: In<u64>) |call| {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
            ..Shape::default()
        };
        submit(call, function, shape, stream, params, extra)
    }

    fn cuLaunchKernelEx/cuLaunchKernelEx_ptsz(config: In<Config>, function: Handle, params: In<u64>, extra: In<u64>) |call| {
        let config = config.get()?;
        submit(call, function, config.shape()?, config.stream, params, extra)?;
        let stream = stream::resolve(config.stream, call.per_thread)?;
        for event in config.events()? {
            let event = handle::get::<crate::event::Event>(event)?;
            if let Some(point) = stream::submit(&stream, Work::Record(event.clone(), 0))? {
                event.recorded_at(&point);
            }
        }
        Ok(())
    }

    fn cuLaunchCooperativeKernel/cuLaunchCooperativeKernel_ptsz(function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32, stream: Handle, params: In<u64>) |call| {
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared,
            cooperative: true,
            ..Shape::default()
        };
        submit(call, function, shape, stream, params, In::new(std::ptr::null()))
    }

    fn cuLaunchCooperativeKernelMultiDevice(list: In<DeviceLaunch>, count: u32, _flags: u32) |call| {
        for launch in list.list(count as usize)? {
            let shape = Shape {
                grid: launch.grid,
                block: launch.block,
                shared: launch.shared,
                cooperative: true,
                ..Shape::default()
            };
            submit(call, launch.function, shape, launch.stream, In::new(launch.params), In::new(std::ptr::null()))?;
        }
        Ok(())
    }

    fn cuLaunch(function: Handle) |call| {
        legacy(call, function, 1, 1, 0)
    }

    fn cuLaunchGrid(function: Handle, width: i32, height: i32) |call| {
        legacy(call, function, width, height, 0)
    }

    fn cuLaunchGridAsync(function: Handle, width: i32, height: i32, stream: Handle) |call| {
        legacy(call, function, width, height, stream)
    }

    fn cuFuncSetBlockShape(function: Handle, x: i32, y: i32, z: i32) {
        let positive = |n: i32| u32::try_from(n).map_err(|_| CuError::INVALID_VALUE);
        let block = [positive(x)?, positive(y)?, positive(z)?];
        lock(&function::resolve(function)?.legacy).block = block;
        Ok(())
    }

    fn cuFuncSetSharedSize(function: Handle, shared: u32) {
        lock(&function::resolve(function)?.legacy).shared = shared;
        Ok(())
    }

    fn cuParamSetSize(function: Handle, size: u32) {
        lock(&function::resolve(function)?.legacy).size = size as usize;
        Ok(())
    }

    fn cuParamSeti(function: Handle, offset: i32, value: u32) {
        put_param(function, offset, &value.to_le_bytes())
    }

    fn cuParamSetf(function: Handle, offset: i32, value: f32) {
        put_param(function, offset, &value.to_le_bytes())
    }

    fn cuParamSetv(function: Handle, offset: i32, bytes: In<u8>, len: u32) {
        put_param(function, offset, &bytes.list(len as usize)?)
    }
}
