//! How many blocks of a kernel a multiprocessor holds.

use crate::api::{In, Out, api};
use crate::context;
use crate::error::{CuError, Res};
use crate::function::{self, Function};
use crate::gpu::Gpu;
use crate::handle::Handle;
use crate::launch::Config;
use crate::process::lock;

/// Shared memory is given out in steps of this size, registers a warp in steps of this many.
const SHARED_STEP: u32 = 128;
const REGISTER_STEP: u32 = 256;
/// What the system takes of a block's shared memory.
const SYSTEM_SHARED: u32 = 1024;

/// Blocks of `threads` threads with so much dynamic shared memory that fit at once.
pub fn blocks(gpu: &Gpu, function: &Function, threads: u32, dynamic: u32) -> u32 {
    let info = &function.info;
    if threads == 0 || threads > info.max_threads {
        return 0;
    }
    let warps = threads.div_ceil(32);
    let of = |value: i32| value.unsigned_abs();
    let by_threads = of(gpu.threads_per_multiprocessor) / (warps * 32);
    let system = if gpu.compute >= (8, 0) {
        SYSTEM_SHARED
    } else {
        0
    };
    let shared = info
        .static_shared
        .saturating_add(dynamic)
        .saturating_add(system)
        .next_multiple_of(SHARED_STEP);
    let by_shared = of(gpu.shared_per_multiprocessor)
        .checked_div(shared)
        .unwrap_or(u32::MAX);
    let registers = (info.registers.clamp(16, 255) * 32).next_multiple_of(REGISTER_STEP);
    let by_registers = 65_536 / registers / warps;
    of(gpu.blocks_per_multiprocessor)
        .min(by_threads)
        .min(by_shared)
        .min(by_registers)
}

fn active(out: Out<i32>, function: Handle, threads: i32, dynamic: usize) -> Res {
    let gpu = context::current()?.device.gpu;
    let function = function::resolve(function)?;
    let threads = u32::try_from(threads)
        .ok()
        .filter(|n| (1..=1024).contains(n))
        .ok_or(CuError::INVALID_VALUE)?;
    let dynamic = u32::try_from(dynamic).map_err(|_| CuError::INVALID_VALUE)?;
    out.set(blocks(gpu, &function, threads, dynamic) as i32)
}

type SharedOf = Option<extern "C" fn(i32) -> usize>;

fn potential(
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared_of: SharedOf,
    shared: usize,
    limit: i32,
) -> Res {
    let gpu = context::current()?.device.gpu;
    let function = function::resolve(function)?;
    let most = if limit > 0 {
        limit.unsigned_abs().min(function.info.max_threads)
    } else {
        function.info.max_threads
    };
    let mut best = (0, 32, 0);
    for threads in (32..=most.max(32))
        .rev()
        .step_by(1)
        .filter(|n| n.is_multiple_of(32))
    {
        let dynamic = shared_of.map_or(shared, |shared_of| shared_of(threads as i32));
        let here = blocks(gpu, &function, threads, dynamic as u32);
        if here * threads > best.0 {
            best = (here * threads, threads, here);
        }
    }
    grid.set(best.2 as i32 * gpu.multiprocessors)?;
    block.set(best.1 as i32)
}

api! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(out: Out<i32>, function: Handle, threads: i32, dynamic: usize) {
        active(out, function, threads, dynamic)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out: Out<i32>, function: Handle, threads: i32, dynamic: usize, _flags: u32) {
        active(out, function, threads, dynamic)
    }

    fn cuOccupancyMaxPotentialBlockSize(grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedOf, shared: usize, limit: i32) {
        potential(grid, block, function, shared_of, shared, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: SharedOf, shared: usize, limit: i32, _flags: u32) {
        potential(grid, block, function, shared_of, shared, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: Handle, count: i32, threads: i32) {
        let gpu = context::current()?.device.gpu;
        let function = function::resolve(function)?;
        let count = u32::try_from(count).ok().filter(|n| *n > 0).ok_or(CuError::INVALID_VALUE)?;
        if !(1..=1024).contains(&threads) {
            return Err(CuError::INVALID_VALUE);
        }
        let each = gpu.shared_per_multiprocessor.unsigned_abs() / count;
        let own = function.info.static_shared + SYSTEM_SHARED;
        bytes.set(each.saturating_sub(own).min(gpu.max_shared()) as usize)
    }

    fn cuOccupancyMaxPotentialClusterSize(size: Out<i32>, function: Handle, config: In<Config>) {
        config.get()?;
        let function = function::resolve(function)?;
        let gpu = context::current()?.device.gpu;
        let portable = if lock(&function.settings).non_portable_cluster != 0 { 16 } else { 8 };
        size.set(if gpu.compute.0 >= 9 { portable } else { 1 })
    }

    fn cuOccupancyMaxActiveClusters(count: Out<i32>, function: Handle, config: In<Config>) {
        let gpu = context::current()?.device.gpu;
        let function = function::resolve(function)?;
        let config = config.get()?;
        let shape = config.shape()?;
        let threads = config.block.iter().product();
        let cluster: u32 = shape.cluster.iter().map(|n| (*n).max(1)).product();
        let each = blocks(gpu, &function, threads, config.shared);
        // A cluster lies in one group of 16 multiprocessors.
        let groups = gpu.multiprocessors.unsigned_abs().div_ceil(16);
        count.set((groups * ((16 * each) / cluster.max(1))) as i32)
    }
}
