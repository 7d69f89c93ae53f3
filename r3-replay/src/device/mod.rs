//! What a replay needs from a device.
//!
//! A [`Device`] has one address space. Memory in it exists only where it was [mapped](Device::map)
//! inside a [reservation](Device::reserve), or where the device itself [allocated](Device::allocate)
//! it; everything else faults. All operations are ordered: each one sees the effects of those
//! before it, [launches](Device::launch) included.

pub mod check;
pub mod cpu;
pub mod cuda;
mod host;
mod operations;
pub mod pool;
mod stream;
mod types;

use std::error::Error;

use crate::evaluate::describe::DeviceDescription;

pub use host::{change_masks, checksums, copy_in, copy_out, count_bits, judge, mark_equal, place};
pub use operations::{
    HostBuffer, HostCopy, JudgeJob, Judged, MarkJob, MaskChange, MaskJob, Place, Poison, Source,
};
pub use stream::Stream;
pub use types::{
    AddressRange, BlockRange, CompareRange, DeviceInfo, Effort, GlobalAddress, Inexact, JitOption,
    KernelHandle, LaunchConfig, ModuleHandle, Piece, Platform, Work,
};

/// Length of the pieces in which memory is compared: one archive chunk.
pub const COMPARE_CHUNK: u64 = r3_archive::chunk::CHUNK_SIZE as u64;

/// Fills the buffer of one [`Piece`], given by index. Called from several threads.
pub type Fill<'a> = dyn Fn(usize, &mut [u8]) -> Result<(), FillError> + Sync + 'a;

/// Why the bytes of a piece could not be produced.
pub type FillError = Box<dyn Error + Send + Sync>;

/// Why a device could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The driver library is not there.
    #[error(
        "no CUDA driver: {reason}. --device cuda needs an NVIDIA GPU and its driver (libcuda.so.1); \
         --device cpu runs kernels that have PTX without them"
    )]
    NoDriver {
        /// What the dynamic loader said.
        reason: String,
    },
    /// The driver lacks an entry point.
    #[error(
        "the CUDA driver has no {name}{}; a newer driver is needed",
        driver_version.map(|v| format!(" (it is version {}.{})", v / 1000, v % 1000 / 10)).unwrap_or_default()
    )]
    MissingSymbol {
        /// Name of the entry point.
        name: &'static str,
        /// Version of the driver, when it is known.
        driver_version: Option<i32>,
    },
    /// There is no such device.
    #[error(
        "there is no GPU {ordinal}: the driver sees {count} (check --gpu and CUDA_VISIBLE_DEVICES)"
    )]
    NoDevice {
        /// The ordinal that was asked for.
        ordinal: i32,
        /// How many devices there are.
        count: i32,
    },
    /// An operation failed.
    #[error("{operation}: {name} ({code}): {text}")]
    Call {
        /// What was tried, on what.
        operation: String,
        /// The driver's error code.
        code: i32,
        /// The code's name.
        name: String,
        /// The driver's description of it.
        text: String,
    },
    /// A range of addresses is in use or cannot be reserved.
    #[error("addresses {wanted} cannot be reserved{}", got.map(|g| format!(": the driver offered {g:#x}")).unwrap_or_default())]
    AddressTaken {
        /// The range that was asked for.
        wanted: AddressRange,
        /// Where the driver would have put it.
        got: Option<u64>,
    },
    /// Code was loaded that the device can read but does not understand.
    #[error("{0}")]
    Code(String),
    /// The kernel stopped: an access outside memory, a trap, a deadlock and the like. The device stays usable.
    #[error("{0}")]
    Fault(Box<r3_emu::Fault>),
    /// This kind of device cannot run the launch, which says nothing about the launch.
    #[error("{0}")]
    CannotRun(String),
    /// The bytes for a write could not be produced.
    #[error("{0}")]
    Fill(FillError),
    /// The device cannot do this at all.
    #[error("{0}")]
    Unsupported(String),
}

/// A device that runs kernels.
pub trait Device {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// Memory that is free now, in bytes.
    fn free_memory(&mut self) -> Result<u64, DeviceError>;

    /// Alignment of reservations. A power of two.
    fn reservation_granularity(&self) -> u64;

    /// Alignment of mappings. A power of two, at most that of reservations.
    fn mapping_granularity(&self) -> u64;

    /// Alignment of mapped host memory. A power of two.
    fn host_granularity(&self) -> u64;

    /// Reserves exactly `range`, which is aligned to [`Self::reservation_granularity`].
    fn reserve(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Reserves `len` bytes wherever there is room, and returns the address.
    fn reserve_anywhere(&mut self, len: u64) -> Result<u64, DeviceError>;

    /// Gives a reservation back. Nothing is mapped in it any more.
    fn release(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Puts memory at `range`, inside a reservation. Its content is undefined.
    fn map(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Takes the memory of one earlier [`Self::map`] away.
    fn unmap(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Reserves exactly `range` of this process's own addresses, aligned to
    /// [`Self::host_granularity`] and outside all other reservations.
    fn reserve_host(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Gives a reservation of [`Self::reserve_host`] back. Nothing is mapped in it any more.
    fn release_host(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Puts host memory at `range`, inside a reservation of [`Self::reserve_host`], visible to
    /// kernels at the same address. An error when the device cannot do that.
    fn map_host(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Takes the host memory of one earlier [`Self::map_host`] away.
    fn unmap_host(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Memory for the replay's own use, at any address.
    fn allocate(&mut self, len: u64) -> Result<u64, DeviceError>;

    /// Frees memory from [`Self::allocate`].
    fn free(&mut self, address: u64) -> Result<(), DeviceError>;

    /// Writes `bytes` at `address`.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Reads into `out` from `address`.
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies within the device. The ranges do not overlap.
    fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), DeviceError>;

    /// Fills with zeros.
    fn zero(&mut self, range: AddressRange) -> Result<(), DeviceError>;

    /// Writes many pieces whose bytes `fill` produces, in any order and in parallel where that helps.
    fn write_pieces(&mut self, pieces: &[Piece], fill: &Fill<'_>) -> Result<(), DeviceError> {
        write_one_by_one(self, pieces, fill)
    }

    /// Compares ranges chunk by chunk. The answer has one flag for each [`COMPARE_CHUNK`] of each
    /// range, in order: whether any byte differs.
    fn compare(&mut self, ranges: &[CompareRange]) -> Result<Vec<bool>, DeviceError> {
        compare_by_reading(self, ranges)
    }

    /// Whether it runs machine code of GPUs, and not PTX alone.
    fn runs_machine_code(&self) -> bool {
        true
    }

    /// Loads device code: a fatbin, a cubin, or PTX text without NUL. `globals` tells where variables were when
    /// they were recorded; a device that can, and has room there, puts them there again.
    fn load(
        &mut self,
        image: &[u8],
        options: &[JitOption],
        globals: &[(&str, AddressRange)],
    ) -> Result<ModuleHandle, DeviceError>;

    /// Unloads a module. Its kernels and globals are gone.
    fn unload(&mut self, module: ModuleHandle) -> Result<(), DeviceError>;

    /// Finds a kernel by its (mangled) name; `None` when the module has none of that name.
    fn kernel(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<KernelHandle>, DeviceError>;

    /// Finds a variable by its (mangled) name; `None` when the module has none of that name.
    fn global(
        &mut self,
        module: ModuleHandle,
        name: &str,
    ) -> Result<Option<GlobalAddress>, DeviceError>;

    /// A `CUfunction_attribute` of a kernel.
    fn kernel_attribute(
        &mut self,
        kernel: KernelHandle,
        attribute: i32,
    ) -> Result<i32, DeviceError>;

    /// Sets a `CUfunction_attribute` of a kernel.
    fn set_kernel_attribute(
        &mut self,
        kernel: KernelHandle,
        attribute: i32,
        value: i32,
    ) -> Result<(), DeviceError>;

    /// Sets the `CUfunc_cache` preference of a kernel.
    fn set_cache_config(&mut self, kernel: KernelHandle, config: u32) -> Result<(), DeviceError>;

    /// A `CUlimit` of the context.
    fn limit(&mut self, limit: u32) -> Result<u64, DeviceError>;

    /// Sets a `CUlimit` of the context.
    fn set_limit(&mut self, limit: u32, value: u64) -> Result<(), DeviceError>;

    /// Launches a kernel. It may still be running on return.
    fn launch(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<(), DeviceError>;

    /// Launches a kernel, waits for it, and returns what that took.
    fn launch_timed(
        &mut self,
        kernel: KernelHandle,
        config: &LaunchConfig<'_>,
    ) -> Result<Effort, DeviceError>;

    /// What the last launch that came to its end did, on a device that counts.
    fn work(&self) -> Option<&Work> {
        None
    }

    /// Why the results of a kernel may differ in some bits from a GPU's. Empty when they may not.
    fn inexact(&mut self, kernel: KernelHandle) -> Result<Vec<Inexact>, DeviceError> {
        let _ = kernel;
        Ok(Vec::new())
    }

    /// Where blocks of a kernel write to memory of each other, so that its state after some of them is none that
    /// the whole launch leaves: the atomic and its line, for people. `None` when there is no such place.
    fn meeting(&mut self, kernel: KernelHandle) -> Result<Option<String>, DeviceError> {
        let _ = kernel;
        Ok(None)
    }

    /// Waits until everything is done; reports what went wrong in a launch.
    fn synchronize(&mut self) -> Result<(), DeviceError>;

    /// Writes many pieces, which do not overlap each other, nor what others are made from. On a GPU it is one launch, and may
    /// still be running on return.
    fn place(&mut self, pieces: &[Place]) -> Result<(), DeviceError> {
        host::place(self, pieces)
    }

    /// Compares many stretches of bytes, element by element, and says for each what is different.
    fn judge(&mut self, jobs: &[JudgeJob]) -> Result<Vec<Judged>, DeviceError> {
        host::judge(self, jobs)
    }

    /// Marks bytes that are equal. No job uses the mask of another one. On a GPU it may still be running on return.
    fn mark_equal(&mut self, jobs: &[MarkJob]) -> Result<(), DeviceError> {
        host::mark_equal(self, jobs)
    }

    /// Changes masks by others. No job uses the mask that another one changes. On a GPU it may still be running on return.
    fn change_masks(&mut self, jobs: &[MaskJob]) -> Result<(), DeviceError> {
        host::change_masks(self, jobs)
    }

    /// How many bits are set in each mask.
    fn count_bits(&mut self, masks: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        host::count_bits(self, masks)
    }

    /// A checksum of each range. Whoever does not know `key` cannot change bytes so that it stays the same; one
    /// changed byte always changes it.
    fn checksums(&mut self, key: u64, ranges: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        host::checksums(self, key, ranges)
    }

    /// Why operations in bulk are done by the host, with all bytes going to and fro, which is slow. `None` when the device does
    /// them.
    fn bulk_by_host(&mut self) -> Result<Option<String>, DeviceError> {
        Ok(None)
    }

    /// Host memory for what does not fit on the device.
    fn host_buffer(&mut self, len: u64) -> Result<HostBuffer, DeviceError> {
        HostBuffer::ordinary(len)
    }

    /// Copies from the device into a host buffer. On a GPU it may still be running on return.
    fn copy_out(&mut self, copies: &[HostCopy], to: &mut HostBuffer) -> Result<(), DeviceError> {
        host::copy_out(self, copies, to)
    }

    /// Copies from a host buffer to the device. On a GPU it may still be running on return.
    fn copy_in(&mut self, from: &HostBuffer, copies: &[HostCopy]) -> Result<(), DeviceError> {
        host::copy_in(self, from, copies)
    }

    /// Takes everything else out of the caches, where there are some. On a GPU it may still be running on return.
    fn flush_cache(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Gives back what code reserved of the level-2 cache, and allows no more of that, where there is such a thing.
    fn reset_persisting(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// How many blocks of a kernel fit on a multiprocessor at a time; `None` on a device that cannot say.
    fn occupancy(
        &mut self,
        kernel: KernelHandle,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<Option<u32>, DeviceError> {
        let _ = (kernel, threads, dynamic_shared);
        Ok(None)
    }

    /// What the device is like. What is not known is 0.
    fn properties(&mut self) -> Result<DeviceDescription, DeviceError> {
        Ok(describe(self.info()))
    }
}

/// What [`DeviceInfo`] says of a device.
fn describe(info: &DeviceInfo) -> DeviceDescription {
    DeviceDescription {
        name: info.name.clone(),
        counts: info.platform == Platform::Cpu,
        uuid: info.uuid.clone(),
        driver: info.driver_version,
        sm: info.architecture(),
        ..DeviceDescription::default()
    }
}

/// [`Device::compare`] for a device that cannot do better: reads everything.
pub fn compare_by_reading<D: Device + ?Sized>(
    device: &mut D,
    ranges: &[CompareRange],
) -> Result<Vec<bool>, DeviceError> {
    let mut differs = Vec::new();
    let mut buffers = [
        vec![0; COMPARE_CHUNK as usize],
        vec![0; COMPARE_CHUNK as usize],
    ];
    let [actual, expected] = &mut buffers;
    for range in ranges {
        for (offset, len) in range.chunks() {
            let (actual, expected) = (&mut actual[..len as usize], &mut expected[..len as usize]);
            device.read(range.actual.wrapping_add(offset), actual)?;
            differs.push(match range.expected {
                Some(address) => {
                    device.read(address.wrapping_add(offset), expected)?;
                    actual != expected
                }
                None => actual.iter().any(|&byte| byte != 0),
            });
        }
    }
    Ok(differs)
}

/// [`Device::write_pieces`] for a device that cannot do better.
pub fn write_one_by_one<D: Device + ?Sized>(
    device: &mut D,
    pieces: &[Piece],
    fill: &Fill<'_>,
) -> Result<(), DeviceError> {
    let mut buffer = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        buffer.clear();
        buffer.resize(piece.len as usize, 0);
        fill(index, &mut buffer).map_err(DeviceError::Fill)?;
        device.write(piece.address, &buffer)?;
    }
    Ok(())
}
