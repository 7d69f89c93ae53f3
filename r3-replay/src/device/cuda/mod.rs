//! The CUDA device: the driver API of a real GPU.

mod bulk;
mod compare;
mod driver;
mod locked;
mod staging;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use self::bulk::{Bulk, Gpu};
use self::driver::{Driver, Object};
pub(super) use self::locked::LockedMemory;
use self::staging::{SLOT_LEN, SLOTS, Staging};
use self::table::{
    DEVICE_BLOCK_SHARED, DEVICE_BLOCK_THREADS, DEVICE_BUS_WIDTH, DEVICE_CC_MAJOR, DEVICE_CC_MINOR,
    DEVICE_L2, DEVICE_MEMORY_CLOCK, DEVICE_MULTIPROCESSOR_THREADS, DEVICE_MULTIPROCESSORS,
    DEVICE_REGISTERS, LIMIT_PERSISTING_L2,
};
use super::operations::HostBytes;
use super::{
    AddressRange, CompareRange, Device, DeviceError, DeviceInfo, Effort, Fill, GlobalAddress,
    HostBuffer, HostCopy, JitOption, JudgeJob, Judged, KernelHandle, LaunchConfig, MarkJob,
    MaskJob, ModuleHandle, Piece, Place, Platform, compare_by_reading, describe, host,
};
use crate::evaluate::describe::DeviceDescription;

/// The driver puts reservations at the asked address only when it is aligned to this.
const RESERVATION_GRANULARITY: u64 = 32 << 20;

/// Bytes that are written at least to empty the caches: more than twice what any GPU had for long.
const LEAST_FLUSHED: u64 = 128 << 20;

/// A GPU.
///
/// [`Self::open`] makes no context: addresses can be reserved before a context and its memory take
/// up room. The first call that needs one makes it.
pub struct CudaDevice {
    driver: Arc<Driver>,
    device: i32,
    info: DeviceInfo,
    mapping_granularity: u64,
    context: Option<Object>,
    staging: Option<Staging>,
    /// `None` before the first use; a reason when the driver cannot run the kernels.
    bulk: Option<Result<Bulk<Gpu>, String>>,
    timer: Option<(Object, Object)>,
    /// What is written to take everything else out of the level-2 cache.
    flushed: Option<AddressRange>,
    modules: HashMap<u64, Object>,
    kernels: HashMap<u64, Object>,
    next_handle: u64,
}

impl CudaDevice {
    /// Loads the driver and finds a device by its ordinal.
    pub fn open(ordinal: i32) -> Result<Self, DeviceError> {
        let driver = Arc::new(Driver::load()?);
        let count = driver.device_count()?;
        if !(0..count).contains(&ordinal) {
            return Err(DeviceError::NoDevice { ordinal, count });
        }
        let device = driver.device(ordinal)?;
        let info = DeviceInfo {
            platform: Platform::Cuda,
            name: driver.device_name(device)?,
            ordinal,
            compute_capability: (
                driver.device_attribute(device, DEVICE_CC_MAJOR)?,
                driver.device_attribute(device, DEVICE_CC_MINOR)?,
            ),
            total_memory: driver.total_memory(device)?,
            driver_version: driver.version().unwrap_or(0),
            uuid: driver
                .device_uuid(device)
                .map(spell_uuid)
                .unwrap_or_default(),
        };
        let mapping_granularity = match driver.granularity(device)? {
            granularity
                if granularity.is_power_of_two() && granularity <= RESERVATION_GRANULARITY =>
            {
                granularity
            }
            granularity => {
                return Err(DeviceError::Unsupported(format!(
                    "the driver maps memory in steps of {granularity} bytes, which a replay cannot use"
                )));
            }
        };
        Ok(Self {
            driver,
            device,
            info,
            mapping_granularity,
            context: None,
            staging: None,
            bulk: None,
            timer: None,
            flushed: None,
            modules: HashMap::new(),
            kernels: HashMap::new(),
            next_handle: 1,
        })
    }

    /// The driver, with a context made.
    fn ready(&mut self) -> Result<&Driver, DeviceError> {
        if self.context.is_none() {
            self.context = Some(self.driver.make_context(self.device)?);
        }
        Ok(&self.driver)
    }

    /// The kernels for operations in bulk; `None` when the driver cannot run them.
    fn bulk(&mut self) -> Result<Option<&mut Bulk<Gpu>>, DeviceError> {
        self.ready()?;
        let driver = &self.driver;
        Ok(self
            .bulk
            .get_or_insert_with(|| Gpu::load(Arc::clone(driver)))
            .as_mut()
            .ok())
    }

    /// An attribute of the device; 0 when the driver does not know it.
    fn attribute(&self, attribute: i32) -> u64 {
        let value = self.driver.device_attribute(self.device, attribute);
        value
            .ok()
            .and_then(|value| u64::try_from(value).ok())
            .unwrap_or(0)
    }

    fn handle(&mut self) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        handle
    }

    fn module(&self, module: ModuleHandle) -> Result<Object, DeviceError> {
        self.modules
            .get(&module.0)
            .copied()
            .ok_or_else(|| unknown("module"))
    }

    fn function(&self, kernel: KernelHandle) -> Result<Object, DeviceError> {
        self.kernels
            .get(&kernel.0)
            .copied()
            .ok_or_else(|| unknown("kernel"))
    }

    /// The kernel, for a launch of all its blocks.
    fn whole_grid(
        &self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Object, DeviceError> {
        if config.blocks.is_some() {
            return Err(DeviceError::Unsupported(
                "a GPU runs all blocks of a grid (--blocks is for --device cpu)".to_owned(),
            ));
        }
        self.function(kernel)
    }
}

fn unknown(what: &str) -> DeviceError {
    DeviceError::Unsupported(format!("a {what} that is not loaded"))
}

/// As NVML and `nvidia-smi` write it.
fn spell_uuid(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "GPU-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn free_memory(&mut self) -> Result<u64, DeviceError> {
        self.ready()?.free_memory()
    }

    fn reservation_granularity(&self) -> u64 {
        RESERVATION_GRANULARITY
    }

    fn mapping_granularity(&self) -> u64 {
        self.mapping_granularity
    }

    fn host_granularity(&self) -> u64 {
        driver::page_size()
    }

    fn reserve(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        let got = self.driver.reserve(range.len(), 0, range.start())?;
        if got == range.start() {
            return Ok(());
        }
        if let Some(wrong) = AddressRange::new(got, range.len()) {
            self.driver.release(wrong)?;
        }
        Err(DeviceError::AddressTaken {
            wanted: range,
            got: Some(got),
        })
    }

    fn reserve_anywhere(&mut self, len: u64) -> Result<u64, DeviceError> {
        self.driver.reserve(len, 0, 0)
    }

    fn release(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.driver.release(range)
    }

    fn map(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        let device = self.device;
        self.ready()?.map(device, range)
    }

    fn unmap(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        let driver = self.ready()?;
        // The driver unmaps at once; work that uses the memory must be over.
        driver.synchronize()?;
        driver.unmap(range)
    }

    fn reserve_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.driver.reserve_host(range)
    }

    fn release_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.driver.release_host(range);
        Ok(())
    }

    fn map_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.ready()?.map_host(range)
    }

    fn unmap_host(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        let driver = self.ready()?;
        driver.synchronize()?;
        driver.unmap_host(range)
    }

    fn allocate(&mut self, len: u64) -> Result<u64, DeviceError> {
        self.ready()?.allocate(len)
    }

    fn free(&mut self, address: u64) -> Result<(), DeviceError> {
        self.ready()?.free(address)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.ready()?.write(address, bytes)
    }

    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.ready()?.read(address, out)
    }

    fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), DeviceError> {
        self.ready()?.copy(from, to, len)
    }

    fn zero(&mut self, range: AddressRange) -> Result<(), DeviceError> {
        self.ready()?.zero(range)
    }

    fn write_pieces(&mut self, pieces: &[Piece], fill: &Fill<'_>) -> Result<(), DeviceError> {
        self.ready()?;
        if pieces.is_empty() {
            return Ok(());
        }
        if self.staging.is_none() {
            self.staging = Some(Staging::new(Arc::clone(&self.driver), SLOT_LEN, SLOTS)?);
        }
        let Some(staging) = &mut self.staging else {
            return Ok(());
        };
        let mut first = 0;
        while first < pieces.len() {
            let count = fitting(&pieces[first..]);
            if count == 0 {
                return Err(DeviceError::Unsupported(
                    "a piece larger than the staging memory".into(),
                ));
            }
            let batch = &pieces[first..first + count];
            staging.send(|slot| {
                let mut jobs = Vec::with_capacity(batch.len());
                let mut rest = slot;
                for (index, piece) in batch.iter().enumerate() {
                    let (bytes, after) = rest.split_at_mut(piece.len as usize);
                    jobs.push((first + index, bytes));
                    rest = after;
                }
                jobs.into_par_iter()
                    .try_for_each(|(index, bytes)| fill(index, bytes))
                    .map_err(DeviceError::Fill)?;
                Ok(coalesce(batch))
            })?;
            first += count;
        }
        Ok(())
    }

    fn compare(&mut self, ranges: &[CompareRange]) -> Result<Vec<bool>, DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.compare(ranges),
            None => compare_by_reading(self, ranges),
        }
    }

    fn place(&mut self, pieces: &[Place]) -> Result<(), DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.place(pieces),
            None => host::place(self, pieces),
        }
    }

    fn judge(&mut self, jobs: &[JudgeJob]) -> Result<Vec<Judged>, DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.judge(jobs),
            None => host::judge(self, jobs),
        }
    }

    fn mark_equal(&mut self, jobs: &[MarkJob]) -> Result<(), DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.mark_equal(jobs),
            None => host::mark_equal(self, jobs),
        }
    }

    fn change_masks(&mut self, jobs: &[MaskJob]) -> Result<(), DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.change_masks(jobs),
            None => host::change_masks(self, jobs),
        }
    }

    fn count_bits(&mut self, masks: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.count_bits(masks),
            None => host::count_bits(self, masks),
        }
    }

    fn checksums(&mut self, key: u64, ranges: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        match self.bulk()? {
            Some(bulk) => bulk.checksums(key, ranges),
            None => host::checksums(self, key, ranges),
        }
    }

    fn load(
        &mut self,
        image: &[u8],
        options: &[JitOption],
        _: &[(&str, AddressRange)],
    ) -> Result<ModuleHandle, DeviceError> {
        // PTX must end in NUL; other images do not mind.
        let image = [image, b"\0"].concat();
        let driver = self.ready()?;
        let module = driver.load_module(&image, options).map_err(|mut error| {
            if let DeviceError::Call { text, .. } = &mut error
                && let Some(log) = driver.compiler_log(&image)
            {
                text.push_str(": ");
                let lines: Vec<&str> = log.lines().map(str::trim).collect();
                text.push_str(&crate::names::printable(&lines.join("; ")));
            }
            error
        })?;
        let handle = self.handle();
        self.modules.insert(handle, module);
        Ok(ModuleHandle(handle))
    }

    fn unload(&mut self, module: ModuleHandle) -> Result<(), DeviceError> {
        let object = self
            .modules
            .remove(&module.0)
            .ok_or_else(|| unknown("module"))?;
        self.ready()?.unload_module(object)
    }

    fn kernel(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<KernelHandle>, DeviceError> {
        let module = self.module(module)?;
        let Some(function) = self.ready()?.function(module, name)? else {
            return Ok(None);
        };
        let handle = self.handle();
        self.kernels.insert(handle, function);
        Ok(Some(KernelHandle(handle)))
    }

    fn global(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<GlobalAddress>, DeviceError> {
        let module = self.module(module)?;
        self.ready()?.global(module, name)
    }

    fn kernel_attribute(
        &mut self,
        kernel: KernelHandle,
        attribute: i32,
    ) -> Result<i32, DeviceError> {
        let function = self.function(kernel)?;
        self.ready()?.function_attribute(function, attribute)
    }

    fn set_kernel_attribute(
        &mut self,
        kernel: KernelHandle,
        attribute: i32,
        value: i32,
    ) -> Result<(), DeviceError> {
        let function = self.function(kernel)?;
        self.ready()?
            .set_function_attribute(function, attribute, value)
    }

    fn set_cache_config(&mut self, kernel: KernelHandle, config: u32) -> Result<(), DeviceError> {
        let function = self.function(kernel)?;
        self.ready()?.set_cache_config(function, config)
    }

    fn limit(&mut self, limit: u32) -> Result<u64, DeviceError> {
        self.ready()?.limit(limit)
    }

    fn set_limit(&mut self, limit: u32, value: u64) -> Result<(), DeviceError> {
        self.ready()?.set_limit(limit, value)
    }

    fn launch(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<(), DeviceError> {
        let function = self.whole_grid(kernel, config)?;
        self.ready()?.launch(function, config)
    }

    fn launch_timed(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Effort, DeviceError> {
        let function = self.whole_grid(kernel, config)?;
        let known = self.timer;
        let driver = self.ready()?;
        let (start, end) = match known {
            Some(timer) => timer,
            None => (driver.event()?, driver.event()?),
        };
        driver.record(start)?;
        driver.launch(function, config)?;
        driver.record(end)?;
        driver.wait(end)?;
        let milliseconds = driver.elapsed(start, end)?;
        self.timer = Some((start, end));
        Ok(Effort::Nanoseconds(f64::from(milliseconds) * 1e6))
    }

    fn synchronize(&mut self) -> Result<(), DeviceError> {
        self.ready()?.synchronize()
    }

    fn bulk_by_host(&mut self) -> Result<Option<String>, DeviceError> {
        self.bulk()?;
        let failed = self.bulk.as_ref().and_then(|bulk| bulk.as_ref().err());
        Ok(failed.cloned())
    }

    fn host_buffer(&mut self, len: u64) -> Result<HostBuffer, DeviceError> {
        self.ready()?;
        let memory = LockedMemory::new(Arc::clone(&self.driver), len)?;
        Ok(HostBuffer(HostBytes::Locked(memory)))
    }

    fn copy_out(&mut self, copies: &[HostCopy], to: &mut HostBuffer) -> Result<(), DeviceError> {
        let len = to.len();
        let HostBytes::Locked(memory) = &mut to.0 else {
            return host::copy_out(self, copies, to);
        };
        for copy in copies {
            memory.fetch(copy.device, host::bytes_of(copy, len)?)?;
        }
        Ok(())
    }

    fn copy_in(&mut self, from: &HostBuffer, copies: &[HostCopy]) -> Result<(), DeviceError> {
        let HostBytes::Locked(memory) = &from.0 else {
            return host::copy_in(self, from, copies);
        };
        for copy in copies {
            memory.send(host::bytes_of(copy, from.len())?, copy.device)?;
        }
        Ok(())
    }

    fn flush_cache(&mut self) -> Result<(), DeviceError> {
        let range = match self.flushed {
            Some(range) => range,
            None => {
                let known = self.attribute(DEVICE_L2);
                let len = (2 * known).max(LEAST_FLUSHED);
                let start = self.allocate(len)?;
                let range = AddressRange::new(start, len).ok_or_else(|| unknown("buffer"))?;
                self.flushed = Some(range);
                range
            }
        };
        self.zero(range)
    }

    fn reset_persisting(&mut self) -> Result<(), DeviceError> {
        let driver = self.ready()?;
        // GPUs before 8.0 reserve nothing, and refuse. Setting a limit may wait for all work; asking does not.
        if !matches!(driver.limit(LIMIT_PERSISTING_L2), Ok(0)) {
            let _ = driver.set_limit(LIMIT_PERSISTING_L2, 0);
        }
        // Also without a limit: code can mark lines to be evicted last.
        let _ = driver.reset_persisting();
        Ok(())
    }

    fn occupancy(
        &mut self,
        kernel: KernelHandle,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<Option<u32>, DeviceError> {
        let function = self.function(kernel)?;
        match self.ready()?.occupancy(function, threads, dynamic_shared) {
            Ok(blocks) => Ok(Some(blocks)),
            Err(DeviceError::MissingSymbol { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn properties(&mut self) -> Result<DeviceDescription, DeviceError> {
        let small = |attribute| u32::try_from(self.attribute(attribute)).unwrap_or(0);
        // Two transfers in each cycle of the clock: all memories of GPUs since 2008 are of that kind.
        let transfers = 2.0 * 1e3 * self.attribute(DEVICE_MEMORY_CLOCK) as f64;
        Ok(DeviceDescription {
            multiprocessors: small(DEVICE_MULTIPROCESSORS),
            max_threads_per_block: small(DEVICE_BLOCK_THREADS),
            max_threads_per_multiprocessor: small(DEVICE_MULTIPROCESSOR_THREADS),
            registers_per_multiprocessor: small(DEVICE_REGISTERS),
            max_shared_per_block: small(DEVICE_BLOCK_SHARED),
            l2_bytes: self.attribute(DEVICE_L2),
            memory_bandwidth: transfers * self.attribute(DEVICE_BUS_WIDTH) as f64 / 8.0,
            ..describe(&self.info)
        })
    }
}

/// How many of the first pieces fit into one staging slot.
fn fitting(pieces: &[Piece]) -> usize {
    let mut len = 0usize;
    pieces
        .iter()
        .take_while(|piece| {
            len = len.saturating_add(piece.len as usize);
            len <= SLOT_LEN
        })
        .count()
}

/// The copies for pieces that lie one after the other in a slot: neighbours in one region go in
/// one copy.
fn coalesce(pieces: &[Piece]) -> Vec<(usize, usize, u64)> {
    let mut copies: Vec<(usize, usize, u64)> = Vec::new();
    let mut offset = 0usize;
    let mut region = None;
    for piece in pieces {
        let len = piece.len as usize;
        match copies.last_mut() {
            Some((_, so_far, address))
                if region == Some(piece.region)
                    && address.checked_add(*so_far as u64) == Some(piece.address) =>
            {
                *so_far += len;
            }
            _ => copies.push((offset, len, piece.address)),
        }
        offset += len;
        region = Some(piece.region);
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_for_the_chunks_of_a_region_and_never_across_regions() {
        let piece = |address, len, region| Piece {
            address,
            len,
            region,
        };
        // Two `__constant__` variables side by side behind an allocation of two chunks.
        let pieces = [
            piece(0x1000, 64, 0),
            piece(0x1040, 64, 0),
            piece(0x1080, 1024, 1),
            piece(0x1480, 4, 2),
        ];
        assert_eq!(
            coalesce(&pieces),
            [(0, 128, 0x1000), (128, 1024, 0x1080), (1152, 4, 0x1480)]
        );
    }
}
