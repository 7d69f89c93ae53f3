//! The CPU device: PTX kernels on host threads, through [`r3_emu`].
//!
//! Addresses are those of [`r3_emu::Memory`], not of this process: every recorded address can be had, and memory
//! exists byte for byte where it was recorded, so that an access one byte behind an allocation is a fault. Module
//! variables lie where they were recorded, too, unless something else needs their place.
//!
//! A launch runs to its end before [`Device::launch`] returns. A fault is an error of that launch alone: what it
//! wrote until then stays, and the device stays usable. There is no time: a launch is measured by what it did, a
//! weighted count of warp instructions, which is the same in every run and on every host.

mod addresses;
mod bulk;
mod code;
mod inexact;
mod settings;
mod work;

use std::collections::HashMap;
use std::time::Instant;

use r3_emu::{FaultKind, Memory, MemoryError, RunOptions};
use rayon::prelude::*;

use self::addresses::Addresses;
use self::bulk::Bulk;
use self::code::Module;
use self::settings::{Limits, Settings};
use super::{
    AddressRange, CompareRange, Device, DeviceError, DeviceInfo, Effort, Fill, GlobalAddress,
    Inexact, JitOption, JudgeJob, Judged, KernelHandle, LaunchConfig, MarkJob, MaskJob,
    ModuleHandle, Piece, Place, Platform, Work,
};
use crate::evaluate::describe::DeviceDescription;

/// Architecture that the device has unless it is told another one: compute capability 9.0.
pub const DEFAULT_CAPABILITY: (i32, i32) = (9, 0);

/// How the device runs.
#[derive(Clone, Copy, Debug)]
pub struct CpuOptions {
    /// Architecture that kernels see, and by which PTX is chosen: best that of the recorded GPU.
    pub compute_capability: (i32, i32),
    /// Host threads; 0 for as many as there are cores.
    pub threads: usize,
    /// Report races on shared memory.
    pub racecheck: bool,
    /// End a launch after so many warp instructions.
    pub instruction_limit: Option<u64>,
}

impl Default for CpuOptions {
    fn default() -> Self {
        Self {
            compute_capability: DEFAULT_CAPABILITY,
            threads: 0,
            racecheck: false,
            instruction_limit: None,
        }
    }
}

/// Where the output of kernels' `printf` goes, launch by launch.
pub type Print = dyn Fn(&[u8]) + Send + Sync;

/// The device.
pub struct CpuDevice {
    info: DeviceInfo,
    options: CpuOptions,
    print: Box<Print>,
    memory: Memory,
    addresses: Addresses,
    modules: HashMap<u64, Module>,
    kernels: HashMap<u64, Kernel>,
    limits: Limits,
    work: Option<Work>,
    next_handle: u64,
}

/// A kernel that was asked for.
struct Kernel {
    module: u64,
    id: r3_emu::KernelId,
    settings: Settings,
}

impl CpuDevice {
    /// A device without memory or code. What kernels print goes to `print`.
    pub fn new(options: CpuOptions, print: Box<Print>) -> Self {
        let info = DeviceInfo {
            platform: Platform::Cpu,
            name: "CPU device".to_owned(),
            compute_capability: options.compute_capability,
            total_memory: host_memory(),
            ..DeviceInfo::default()
        };
        Self {
            info,
            options,
            print,
            memory: Memory::new(),
            addresses: Addresses::default(),
            modules: HashMap::new(),
            kernels: HashMap::new(),
            limits: Limits::default(),
            work: None,
            next_handle: 1,
        }
    }

    fn handle(&mut self) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        handle
    }

    fn module(&self, module: ModuleHandle) -> Result<&Module, DeviceError> {
        self.modules.get(&module.0).ok_or_else(|| unknown("module"))
    }

    fn kernel_of(&self, kernel: KernelHandle) -> Result<(&Kernel, &Module), DeviceError> {
        let kernel = self
            .kernels
            .get(&kernel.0)
            .ok_or_else(|| unknown("kernel"))?;
        Ok((kernel, self.module(ModuleHandle(kernel.module))?))
    }

    /// Runs a kernel to its end.
    fn run(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Work, DeviceError> {
        self.work = None;
        let (kernel, module) = self.kernel_of(kernel)?;
        let info = module.program.info(kernel.id);
        let cluster = settings::check(info, &kernel.settings, config)?;
        let launch = r3_emu::LaunchConfig {
            grid: config.grid,
            block: config.block,
            cluster,
            dynamic_shared: config.dynamic_shared,
            cooperative: config.cooperative,
            // The recorded buffer may be padded at its end.
            params: config
                .params
                .get(..info.param_bytes as usize)
                .unwrap_or(config.params),
            blocks: config.blocks.map(Into::into),
        };
        let options = RunOptions {
            threads: self.options.threads,
            racecheck: self.options.racecheck,
            instruction_limit: self.options.instruction_limit,
            print: &|text| (self.print)(text),
            cancel: None,
        };
        let start = Instant::now();
        let report = module
            .program
            .launch(kernel.id, &launch, &self.memory, &options)
            .map_err(fault)?;
        let work = work::of(&report, start.elapsed());
        self.work = Some(work.clone());
        Ok(work)
    }
}

fn unknown(what: &str) -> DeviceError {
    DeviceError::Unsupported(format!("a {what} that is not loaded"))
}

/// What this device does not have says nothing about the launch; all else does.
fn fault(fault: r3_emu::Fault) -> DeviceError {
    match fault.kind {
        FaultKind::Unsupported(_) => DeviceError::CannotRun(fault.to_string()),
        _ => DeviceError::Fault(Box::new(fault)),
    }
}

fn failed(operation: &str) -> impl FnOnce(MemoryError) -> DeviceError + use<'_> {
    move |error| DeviceError::Unsupported(format!("{operation}: {error}"))
}

/// The host's memory in bytes, or what a container may use of it.
fn host_memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    });
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    limits
        .into_iter()
        .filter_map(|path| read(path)?.trim().parse().ok())
        .chain(total)
        .min()
        .unwrap_or(u64::MAX)
}

/// Most bytes that are looked at in one go.
const STEP: u64 = 1 << 20;

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&mut self) -> Result<u64, DeviceError> {
        Ok(self
            .info
            .total_memory
            .saturating_sub(self.addresses.mapped()))
    }

    fn reservation_granularity(&self) -> u64 {
        1
    }

    fn mapping_granularity(&self) -> u64 {
        1
    }

    fn host_granularity(&self) -> u64 {
        1
    }

    fn reserve(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.addresses.reserve(range)
    }

    fn reserve_anywhere(&mut self, len: u64) -> Result<u64, DeviceError> {
        self.addresses.reserve_anywhere(len)
    }

    fn release(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.addresses.release(range)
    }

    fn map(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.memory
            .map(range.start(), range.len())
            .map_err(failed("memory"))?;
        self.addresses.count(range.len() as i64);
        Ok(())
    }

    fn unmap(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.memory
            .unmap(range.start(), range.len())
            .map_err(failed("taking memory away"))?;
        self.addresses.count(-(range.len() as i64));
        Ok(())
    }

    fn reserve_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.addresses.reserve(range)
    }

    fn release_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.addresses.release(range)
    }

    fn map_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        // Kernels are on the host anyway.
        self.map(range)
    }

    fn unmap_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.unmap(range)
    }

    fn allocate(&mut self, len: u64) -> Result<u64, DeviceError> {
        let start = self.addresses.reserve_anywhere(len)?;
        let Some(range) = AddressRange::new(start, len) else {
            return Err(DeviceError::Unsupported(
                "an allocation of nothing".to_owned(),
            ));
        };
        self.map(range)?;
        Ok(start)
    }

    fn free(&mut self, address: u64) -> Result<(), DeviceError> {
        let range = self.addresses.release_at(address)?;
        self.unmap(range)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.memory.write(address, bytes).map_err(failed("write"))
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.memory.read(address, out).map_err(failed("read"))
    }

    fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), DeviceError> {
        self.memory.copy(from, to, len).map_err(failed("copy"))
    }

    /// Memory that is zero already is only looked at: most zeros of an archive were never anything else, and cost
    /// no memory of the host then.
    fn zero(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        let memory = &self.memory;
        steps(range)
            .into_par_iter()
            .try_for_each_init(Vec::new, |buffer, (address, len)| {
                buffer.resize(len as usize, 0);
                memory.read(address, buffer)?;
                if buffer.iter().all(|byte| *byte == 0) {
                    return Ok(());
                }
                memory.fill(address, len, 0)
            })
            .map_err(failed("zero"))
    }

    fn write_pieces(&mut self, pieces: &[Piece], fill: &Fill<'_>) -> Result<(), DeviceError> {
        let memory = &self.memory;
        pieces.par_iter().enumerate().try_for_each_init(
            Vec::new,
            |buffer: &mut Vec<u8>, (index, piece)| {
                buffer.clear();
                buffer.resize(piece.len as usize, 0);
                fill(index, buffer).map_err(DeviceError::Fill)?;
                memory.write(piece.address, buffer).map_err(failed("write"))
            },
        )
    }

    fn compare(&mut self, ranges: &[CompareRange]) -> Result<Vec<bool>, DeviceError> {
        let memory = &self.memory;
        let chunks: Vec<(u64, Option<u64>, u64)> = ranges
            .iter()
            .flat_map(|range| {
                range.chunks().map(|(offset, len)| {
                    let at = |base: u64| base.wrapping_add(offset);
                    (at(range.actual), range.expected.map(at), len)
                })
            })
            .collect();
        chunks
            .into_par_iter()
            .map_init(
                || (Vec::new(), Vec::new()),
                |(actual, expected), (address, other, len)| {
                    actual.resize(len as usize, 0u8);
                    memory.read(address, actual)?;
                    let Some(other) = other else {
                        return Ok(actual.iter().any(|byte| *byte != 0));
                    };
                    expected.resize(len as usize, 0u8);
                    memory.read(other, expected)?;
                    Ok(actual != expected)
                },
            )
            .collect::<Result<_, _>>()
            .map_err(failed("comparison"))
    }

    fn runs_machine_code(&self) -> bool {
        false
    }

    fn load(
        &mut self,
        image: &[u8],
        _: &[JitOption],
        globals: &[(&str, AddressRange)],
    ) -> Result<ModuleHandle, DeviceError> {
        let module = Module::load(
            image,
            self.info.architecture(),
            (&self.memory, self.info.total_memory),
            &mut self.addresses,
            globals,
        )?;
        let handle = self.handle();
        self.modules.insert(handle, module);
        Ok(ModuleHandle(handle))
    }

    fn unload(&mut self, module: ModuleHandle) -> Result<(), DeviceError> {
        let unloaded = self
            .modules
            .remove(&module.0)
            .ok_or_else(|| unknown("module"))?;
        self.kernels.retain(|_, kernel| kernel.module != module.0);
        for range in unloaded.variables {
            self.addresses.release(range)?;
            self.unmap(range)?;
        }
        Ok(())
    }

    fn kernel(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<KernelHandle>, DeviceError> {
        let Some(id) = self.module(module)?.program.kernel(name) else {
            return Ok(None);
        };
        let handle = self.handle();
        self.kernels.insert(
            handle,
            Kernel {
                module: module.0,
                id,
                settings: Settings::default(),
            },
        );
        Ok(Some(KernelHandle(handle)))
    }

    fn global(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<GlobalAddress>, DeviceError> {
        let found = self.module(module)?.program.global(name);
        Ok(found.map(|(address, len)| GlobalAddress { address, len }))
    }

    fn kernel_attribute(
        &mut self,
        kernel: KernelHandle,
        attribute: i32,
    ) -> Result<i32, DeviceError> {
        let architecture = self.info.architecture();
        let (kernel, module) = self.kernel_of(kernel)?;
        kernel.settings.get(
            module.program.info(kernel.id),
            module.version,
            architecture,
            attribute,
        )
    }

    fn set_kernel_attribute(
        &mut self,
        kernel: KernelHandle,
        attribute: i32,
        value: i32,
    ) -> Result<(), DeviceError> {
        self.kernels
            .get_mut(&kernel.0)
            .ok_or_else(|| unknown("kernel"))?
            .settings
            .set(attribute, value)
    }

    fn set_cache_config(&mut self, _: KernelHandle, _: u32) -> Result<(), DeviceError> {
        // A preference, and there is no cache.
        Ok(())
    }

    fn limit(&mut self, limit: u32) -> Result<u64, DeviceError> {
        self.limits.get(limit)
    }

    fn set_limit(&mut self, limit: u32, value: u64) -> Result<(), DeviceError> {
        self.limits.set(limit, value)
    }

    fn launch(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<(), DeviceError> {
        self.run(kernel, config).map(|_| ())
    }

    fn launch_timed(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Effort, DeviceError> {
        self.run(kernel, config)
            .map(|work| Effort::Work(Box::new(work)))
    }

    fn work(&self) -> Option<&Work> {
        self.work.as_ref()
    }

    fn inexact(&mut self, kernel: KernelHandle) -> Result<Vec<Inexact>, DeviceError> {
        let (kernel, module) = self.kernel_of(kernel)?;
        let name = &module.program.info(kernel.id).name;
        Ok(inexact::of(&module.typed, name))
    }

    fn meeting(&mut self, kernel: KernelHandle) -> Result<Option<String>, DeviceError> {
        let (kernel, module) = self.kernel_of(kernel)?;
        let name = &module.program.info(kernel.id).name;
        Ok(inexact::meeting(&module.typed, name))
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn place(&mut self, pieces: &[Place]) -> Result<(), DeviceError> {
        Bulk(&self.memory).place(pieces)
    }

    fn judge(&mut self, jobs: &[JudgeJob]) -> Result<Vec<Judged>, DeviceError> {
        Bulk(&self.memory).judge(jobs)
    }

    fn mark_equal(&mut self, jobs: &[MarkJob]) -> Result<(), DeviceError> {
        Bulk(&self.memory).mark_equal(jobs)
    }

    fn change_masks(&mut self, jobs: &[MaskJob]) -> Result<(), DeviceError> {
        Bulk(&self.memory).change_masks(jobs)
    }

    fn count_bits(&mut self, masks: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        Bulk(&self.memory).count_bits(masks)
    }

    fn checksums(&mut self, key: u64, ranges: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        Bulk(&self.memory).checksums(key, ranges)
    }

    fn properties(&mut self) -> Result<DeviceDescription, DeviceError> {
        Ok(settings::properties(&self.info))
    }
}

/// A range in pieces for several threads.
fn steps(range: AddressRange) -> Vec<(u64, u64)> {
    (0..range.len().div_ceil(STEP))
        .map(|step| {
            let offset = step * STEP;
            (range.start() + offset, (range.len() - offset).min(STEP))
        })
        .collect()
}

#[cfg(test)]
mod tests;
