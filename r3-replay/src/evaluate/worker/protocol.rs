//! What passes between an evaluator and a device's worker, in [frames](r3_codegen::worker::frame).
//!
//! To the worker: one [`Setup`], then [`Order`]s. From the worker: an [`Answer`] to each, the setup included, and
//! [`Said`] meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use r3_archive::model::{KernelId, LaunchId};
use serde::{Deserialize, Serialize};

use crate::compare::{BufferRule, Tolerance, Tolerances};
use crate::evaluate::describe::{DeviceDescription, KernelDescription};
use crate::evaluate::engine::run::EngineOptions;
use crate::evaluate::engine::{Lost, Prepared, Task, TaskResult};
use crate::evaluate::evaluator::{DeviceChoice, EngineSetup};

/// The first frame: what the worker is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The device.
    pub device: DeviceChoice,
    /// Rules of tolerance, as JSON: they leave fields out, which frames cannot.
    rules: String,
    /// Tolerance of what has no rule: absolute, relative, representable values.
    inferred: (f64, f64, Option<u64>),
    strict: bool,
    memory_budget: Option<u64>,
    host_budget: u64,
    time_factor: f64,
    least_time: Duration,
    noise_pairs: u32,
    seed: Option<u64>,
    /// Host threads of the CPU device.
    pub threads: usize,
    /// Buffers that are not poisoned: the original faulted when they were.
    pub leave_out: Vec<(LaunchId, String)>,
    /// Folder of the timing lock: the worker's own folder for temporary files is not shared with others.
    lock_folder: PathBuf,
    /// Folder of what is remembered of launches.
    profiles: Option<PathBuf>,
    /// How often the worker says that it is still there.
    pub beat: Duration,
}

impl Setup {
    /// For a device. `profiles` is a folder in which what is found out of launches is remembered.
    pub fn new(device: DeviceChoice, engine: &EngineSetup, profiles: Option<PathBuf>) -> Self {
        let inferred = engine.tolerances.inferred();
        Self {
            device,
            // Rules are plain values, which JSON can always hold.
            rules: serde_json::to_string(engine.tolerances.rules()).unwrap_or_default(),
            inferred: (inferred.absolute, inferred.relative, inferred.ulp),
            strict: engine.strict,
            memory_budget: engine.memory_budget,
            host_budget: engine.host_budget,
            time_factor: engine.time_factor,
            least_time: engine.least_time,
            noise_pairs: engine.noise_pairs,
            seed: engine.seed,
            threads: engine.threads,
            leave_out: Vec::new(),
            lock_folder: std::env::temp_dir(),
            profiles,
            beat: Duration::from_secs(1),
        }
    }

    /// As an engine takes it.
    pub fn engine(&self) -> Result<EngineOptions, String> {
        let rules: Vec<BufferRule> =
            serde_json::from_str(&self.rules).map_err(|error| error.to_string())?;
        let mut tolerances = Tolerances::exact();
        for rule in rules {
            tolerances.add(rule).map_err(|error| error.to_string())?;
        }
        let (absolute, relative, ulp) = self.inferred;
        tolerances.set_inferred(Tolerance {
            absolute,
            relative,
            ulp,
        });
        Ok(EngineOptions {
            tolerances,
            strict: self.strict,
            memory_budget: self.memory_budget,
            host_budget: self.host_budget,
            time_factor: self.time_factor,
            least_time: self.least_time,
            noise_pairs: self.noise_pairs,
            leave_out: self.leave_out.clone(),
            lock_folder: Some(self.lock_folder.clone()),
            profiles: self.profiles.clone(),
            seed: self.seed,
            ..EngineOptions::default()
        })
    }
}

/// An archive: where it is, and which one it must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArchiveRef {
    /// The file.
    pub path: PathBuf,
    /// Its identity.
    pub uuid: [u8; 16],
}

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Say what there is to try for a kernel.
    Describe(ArchiveRef, KernelId),
    /// Make launches of a kernel ready.
    Prepare(ArchiveRef, KernelId, Vec<LaunchId>),
    /// Judge a candidate.
    Evaluate(ArchiveRef, Box<Task>),
}

impl Order {
    /// The archive that it is about.
    pub fn archive(&self) -> &ArchiveRef {
        match self {
            Self::Describe(archive, _)
            | Self::Prepare(archive, _, _)
            | Self::Evaluate(archive, _) => archive,
        }
    }
}

/// What a worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// It is still there, doing this.
    Beat(String),
    /// What it does did not end within a limit. It ends now.
    Passed {
        /// The limit.
        limit: Duration,
        /// What was running.
        what: String,
    },
    /// It starts over in place, and wants its setup and the order again.
    StartingOver,
    /// It is done with the setup or with an order.
    Answer(Box<Answer>),
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The result.
    pub result: Result<Made, Trouble>,
    /// Bytes of host memory that the worker occupies.
    pub resident: u64,
    /// Bytes of device memory that it uses, as far as it knows.
    pub device_memory: u64,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Made {
    /// The device is open.
    Device(Box<DeviceDescription>),
    /// A kernel's description.
    Description(Box<KernelDescription>),
    /// Launches are ready, or are unusable.
    Prepared(Vec<Prepared>),
    /// A candidate's result.
    Result(Box<TaskResult>),
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Trouble {
    /// It cannot be done: no such device, archive or kernel. The worker stays usable.
    #[error("{0}")]
    Refused(String),
    /// The device cannot be used any more: the worker has to be replaced.
    #[error("{0}")]
    Lost(Lost),
}
