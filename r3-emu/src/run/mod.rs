//! One launch: its shape, its host threads, and the order in which blocks start.

mod fault_text;
mod workers;

use crate::decode::Code;
use crate::fault::{Fault, FaultKind};
use crate::launch::{LaunchConfig, Report, RunOptions};
use crate::memory::Memory;
use crate::program::{Image, KernelInfo, Linked};
use r3_ptx::source::Pos;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What all blocks of a launch share.
pub(crate) struct Launch {
    /// All linked functions and variables.
    pub linked: Arc<Linked>,
    /// The kernel's code and shared memory.
    pub image: Arc<Image>,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block.
    pub dynamic_shared: u32,
    /// All shared memory of a block.
    pub shared_bytes: u32,
    /// The parameter buffer.
    pub params: Vec<u8>,
    /// `%gridid`
    pub id: u64,
    /// Address of the grid's workspace, 0 without one.
    pub workspace: u64,
    /// Whether races are looked for.
    pub racecheck: bool,
    limit: u64,
    executed: AtomicU64,
    cancel: *const AtomicBool,
    print: *const (dyn Fn(&[u8]) + Sync),
}

// SAFETY: the two pointers are to `Sync` things that the caller of the launch lends for all of it.
unsafe impl Sync for Launch {}
// SAFETY: as above.
unsafe impl Send for Launch {}

/// Counts launches, for `%gridid`.
static LAUNCHES: AtomicU64 = AtomicU64::new(1);

/// Most threads of a block.
const MAX_THREADS: u128 = 1024;
/// Most blocks of a grid along each axis.
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// Most blocks of a cluster.
const MAX_CLUSTER: u128 = 16;

/// Runs a kernel to its end.
#[allow(clippy::result_large_err)]
pub(crate) fn launch(
    linked: &Arc<Linked>,
    image: &Arc<Image>,
    info: &KernelInfo,
    config: &LaunchConfig<'_>,
    memory: &Memory,
    options: &RunOptions<'_>,
) -> Result<Report, Fault> {
    let invalid = |reason: String| Fault {
        kind: FaultKind::InvalidLaunch(reason),
        kernel: info.name.clone(),
        function: None,
        block: None,
        thread: None,
        pos: None,
        instruction: None,
    };
    let cluster = shape(info, config).map_err(invalid)?;
    let shared = u64::from(image.shared_end) + u64::from(config.dynamic_shared);
    if shared > u64::from(crate::memory::window::SHARED_LIMIT) {
        return Err(invalid(format!(
            "{shared} bytes of shared memory in a block"
        )));
    }
    let id = LAUNCHES.fetch_add(1, Ordering::Relaxed);
    let workspace = match config.cooperative {
        true => Some(Workspace::new(memory, id).map_err(|e| invalid(e.to_string()))?),
        false => None,
    };
    let launch = Launch {
        linked: Arc::clone(linked),
        image: Arc::clone(image),
        grid: config.grid,
        block: config.block,
        cluster,
        dynamic_shared: config.dynamic_shared,
        shared_bytes: shared as u32,
        params: config.params.to_vec(),
        id,
        workspace: workspace.as_ref().map_or(0, |w| w.address),
        racecheck: options.racecheck,
        limit: options.instruction_limit.unwrap_or(u64::MAX),
        executed: AtomicU64::new(0),
        cancel: options.cancel.map_or(std::ptr::null(), std::ptr::from_ref),
        // SAFETY: only the lifetime changes; `launch` ends before the options do.
        print: unsafe {
            std::mem::transmute::<*const (dyn Fn(&[u8]) + Sync), *const (dyn Fn(&[u8]) + Sync)>(
                std::ptr::from_ref(options.print),
            )
        },
    };
    workers::run(&launch, memory, options.threads, config.blocks.clone())
}

/// What the blocks of a cooperative launch synchronise through: zeros in device memory, at an address that special
/// registers tell (`cooperative_groups` of CUDA reads it there).
struct Workspace<'m> {
    memory: &'m Memory,
    address: u64,
}

/// Bytes of a workspace.
const WORKSPACE: u64 = 4096;
/// Workspaces of launches lie from here on, away from what drivers and hosts use.
const WORKSPACES: u64 = 0x0300_0000_0000_0000;

impl<'m> Workspace<'m> {
    fn new(memory: &'m Memory, launch: u64) -> Result<Self, crate::MemoryError> {
        let address = WORKSPACES + launch * WORKSPACE;
        memory.map(address, WORKSPACE)?;
        Ok(Self { memory, address })
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        // It was mapped by `new`; nothing else is in its place.
        let _ = self.memory.unmap(self.address, WORKSPACE);
    }
}

/// Checks the shape of a launch; answers that of its clusters.
fn shape(info: &KernelInfo, config: &LaunchConfig<'_>) -> Result<[u32; 3], String> {
    let count = |v: [u32; 3]| v.iter().map(|&n| u128::from(n)).product::<u128>();
    let threads = count(config.block);
    if threads == 0 || threads > MAX_THREADS {
        return Err(format!(
            "{threads} threads in a block: 1 to {MAX_THREADS} are possible"
        ));
    }
    if threads > u128::from(info.max_threads) {
        let most = info.max_threads;
        return Err(format!(
            "{threads} threads in a block: the kernel allows {most} (.maxntid, .reqntid)"
        ));
    }
    if let Some(required) = info.required_block
        && required != config.block
    {
        return Err(format!(
            "blocks of {:?} threads: the kernel requires {required:?} (.reqntid)",
            config.block
        ));
    }
    let fits = |(n, most): (&u32, &u32)| (1..=*most).contains(n);
    if !config.grid.iter().zip(&MAX_GRID).all(fits) {
        return Err(format!(
            "a grid of {:?} blocks: 1 to {MAX_GRID:?} are possible",
            config.grid
        ));
    }
    if config.params.len() < info.param_bytes as usize {
        let (have, want) = (config.params.len(), info.param_bytes);
        return Err(format!("{have} bytes of parameters: the kernel has {want}"));
    }
    let cluster = match (config.cluster, info.cluster) {
        ([0 | 1, 0 | 1, 0 | 1], Some(own)) => own.map(|n| n.max(1)),
        (given, _) => given.map(|n| n.max(1)),
    };
    if count(cluster) > MAX_CLUSTER {
        return Err(format!(
            "clusters of {cluster:?} blocks: {MAX_CLUSTER} are possible"
        ));
    }
    if (0..3).any(|i| !config.grid[i].is_multiple_of(cluster[i])) {
        return Err(format!(
            "a grid of {:?} blocks in clusters of {cluster:?}",
            config.grid
        ));
    }
    Ok(cluster)
}

impl Launch {
    /// Code of a function; decoded now, if it was not.
    pub fn code(&self, function: u32) -> Option<&Code> {
        self.image.code(&self.linked, function)
    }

    /// Mangled name of the kernel.
    pub fn kernel_name(&self) -> &str {
        self.function_name(self.image.kernel)
    }

    /// Mangled name of a function.
    pub fn function_name(&self, function: u32) -> &str {
        &self.linked.function(function).name
    }

    /// Place and text of an instruction.
    pub fn place(&self, function: u32, instruction: u32) -> Option<(Pos, String)> {
        let body = self.linked.function(function).body.as_ref()?;
        let Some(ins) = body.instructions.get(instruction as usize) else {
            let last = body.instructions.last()?;
            return Some((last.pos, "the end of the function".into()));
        };
        Some((
            ins.pos,
            fault_text::instruction(&self.linked, function, body, ins),
        ))
    }

    /// Prints what a kernel printed.
    pub fn print(&self, bytes: &[u8]) {
        // SAFETY: lent for the launch, see `launch`.
        unsafe { (*self.print)(bytes) }
    }

    /// Warp instructions that may still be executed.
    pub fn limit_left(&self) -> u64 {
        match self.limit {
            u64::MAX => u64::MAX - 1,
            limit => limit.saturating_sub(self.executed.load(Ordering::Relaxed)),
        }
    }

    /// Adds executed warp instructions. A reason to end, if there is one.
    pub fn account(&self, steps: u64) -> Option<FaultKind> {
        // SAFETY: null or lent for the launch.
        if unsafe { self.cancel.as_ref() }.is_some_and(|c| c.load(Ordering::Relaxed)) {
            return Some(FaultKind::Cancelled);
        }
        if self.limit != u64::MAX {
            let executed = self.executed.fetch_add(steps, Ordering::Relaxed) + steps;
            if executed > self.limit {
                return Some(FaultKind::InstructionLimit(self.limit));
            }
        }
        None
    }
}
