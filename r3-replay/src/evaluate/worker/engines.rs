//! What a worker runs orders on: a device with an engine for one archive at a time.

use std::path::Path;

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchId};

use super::protocol::{ArchiveRef, Setup};
use crate::device::cpu::{CpuDevice, CpuOptions};
use crate::device::cuda::CudaDevice;
use crate::device::{Device, DeviceInfo, Platform};
use crate::evaluate::describe::{self, DeviceDescription, KernelDescription};
use crate::evaluate::engine::run::{Engine, EngineOptions};
use crate::evaluate::engine::{Lost, Prepared, Task, TaskResult, Watch};
use crate::evaluate::evaluator::DeviceChoice;

/// Judges candidates for the kernels of one archive.
pub trait DeviceEngine {
    /// Takes the addresses that the archive's launches need, and tells which are in use by this process.
    fn reserve(&mut self) -> Result<Vec<String>, Lost>;

    /// Makes launches of a kernel ready.
    fn prepare(
        &mut self,
        kernel: KernelId,
        launches: &[LaunchId],
        watch: &dyn Watch,
    ) -> Result<Vec<Prepared>, Lost>;

    /// Judges a candidate.
    fn evaluate(&mut self, task: &Task, watch: &dyn Watch) -> Result<TaskResult, Lost>;

    /// Bytes of device memory in use.
    fn device_memory(&mut self) -> u64;
}

/// Opens a device, and makes engines on it.
pub trait Engines {
    /// Opens the device. Called once, before anything else.
    fn open(&mut self, setup: &Setup) -> Result<DeviceDescription, String>;

    /// What there is to try for a kernel. No engine exists meanwhile.
    fn describe(
        &mut self,
        archive: &ArchiveRef,
        kernel: KernelId,
    ) -> Result<KernelDescription, String>;

    /// Makes an engine for an archive and calls `work` with it.
    fn with_engine(
        &mut self,
        archive: &ArchiveRef,
        work: &mut dyn FnMut(&mut dyn DeviceEngine),
    ) -> Result<(), String>;

    /// Whether recorded addresses may be in use by this process itself.
    fn shares_addresses(&self) -> bool {
        false
    }
}

/// GPUs and the CPU device.
#[derive(Default)]
pub struct Devices {
    device: Option<Box<dyn Device>>,
    options: EngineOptions,
    archive: Option<(ArchiveRef, Archive)>,
}

impl Devices {
    fn archive(&mut self, wanted: &ArchiveRef) -> Result<(), String> {
        if self.archive.as_ref().is_none_or(|(open, _)| open != wanted) {
            self.archive = None;
            self.archive = Some((wanted.clone(), open(&wanted.path, wanted.uuid)?));
        }
        Ok(())
    }
}

const NOT_OPEN: &str = "the device is not open";

impl Engines for Devices {
    fn open(&mut self, setup: &Setup) -> Result<DeviceDescription, String> {
        self.options = setup.engine()?;
        let mut device: Box<dyn Device> = match setup.device {
            DeviceChoice::Cuda(ordinal) => {
                Box::new(CudaDevice::open(ordinal).map_err(|error| error.to_string())?)
            }
            DeviceChoice::Cpu(sm) => {
                let number = |n: u32| i32::try_from(n).unwrap_or(0);
                let options = CpuOptions {
                    compute_capability: (number(sm / 10), number(sm % 10)),
                    threads: setup.threads,
                    ..CpuOptions::default()
                };
                // What candidates print is of no use, and may be much.
                Box::new(CpuDevice::new(options, Box::new(|_| ())))
            }
        };
        let description = device.properties().map_err(|error| error.to_string())?;
        self.device = Some(device);
        Ok(description)
    }

    fn describe(
        &mut self,
        archive: &ArchiveRef,
        kernel: KernelId,
    ) -> Result<KernelDescription, String> {
        self.archive(archive)?;
        match (&self.archive, &mut self.device) {
            (Some((_, archive)), Some(device)) => {
                describe::describe(archive, kernel, &mut **device)
                    .map_err(|error| error.to_string())
            }
            _ => Err(NOT_OPEN.to_owned()),
        }
    }

    fn with_engine(
        &mut self,
        archive: &ArchiveRef,
        work: &mut dyn FnMut(&mut dyn DeviceEngine),
    ) -> Result<(), String> {
        self.archive(archive)?;
        match (&self.archive, &mut self.device) {
            (Some((_, archive)), Some(device)) => {
                let engine = Engine::new(archive, &mut **device, self.options.clone());
                work(&mut OfArchive { engine, archive });
                Ok(())
            }
            _ => Err(NOT_OPEN.to_owned()),
        }
    }

    fn shares_addresses(&self) -> bool {
        let shares = |info: &DeviceInfo| info.platform == Platform::Cuda;
        self.device
            .as_ref()
            .is_some_and(|device| shares(device.info()))
    }
}

/// An engine, and what it has addresses to take for.
struct OfArchive<'a> {
    engine: Engine<'a>,
    archive: &'a Archive,
}

impl DeviceEngine for OfArchive<'_> {
    fn reserve(&mut self) -> Result<Vec<String>, Lost> {
        let heads = self.archive.launch_heads().iter();
        let all: Vec<LaunchId> = heads.map(|launch| launch.id).collect();
        self.engine.reserve(&all)
    }

    fn prepare(
        &mut self,
        kernel: KernelId,
        launches: &[LaunchId],
        watch: &dyn Watch,
    ) -> Result<Vec<Prepared>, Lost> {
        self.engine.prepare(kernel, launches, watch)
    }

    fn evaluate(&mut self, task: &Task, watch: &dyn Watch) -> Result<TaskResult, Lost> {
        self.engine.evaluate(task, watch)
    }

    fn device_memory(&mut self) -> u64 {
        self.engine.device_memory()
    }
}

/// Opens an archive that must be a certain one.
pub(crate) fn open(path: &Path, uuid: [u8; 16]) -> Result<Archive, String> {
    let archive = Archive::open(path).map_err(|error| error.to_string())?;
    if archive.uuid() != uuid {
        return Err(format!(
            "{} is another archive now than when it was opened",
            path.display()
        ));
    }
    Ok(archive)
}
