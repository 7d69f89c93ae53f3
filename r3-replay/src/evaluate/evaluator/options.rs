//! How an evaluator works.

use std::path::PathBuf;
use std::time::Duration;

use r3_codegen::worker::Limits;

use super::types::DeviceChoice;
use crate::compare::Tolerances;
use crate::evaluate::engine::run::EngineOptions;

/// How an evaluator works.
#[derive(Clone, Debug)]
pub struct EvaluatorOptions {
    /// Devices to run on, all of one architecture. A worker process each.
    pub devices: Vec<DeviceChoice>,
    /// What a compilation may cost, and how many there are at a time.
    pub compile: Limits,
    /// Folder of the cache of compiled code; `None` keeps nothing beyond the evaluator's life.
    pub cache: Option<PathBuf>,
    /// Bytes that the cache may have on disk.
    pub cache_limit: u64,
    /// Jobs that may be waiting or running at a time.
    pub queue_limit: usize,
    /// Events that are kept for who asks for them later, and with them the outcomes of jobs that are over.
    pub history: usize,
    /// How devices judge and time.
    pub engine: EngineSetup,
    /// A device's worker that says nothing for so long, while it should be working, is ended.
    pub silence: Duration,
    /// A job that was cancelled while it ran may go on for so long before its worker is ended.
    pub cancel_patience: Duration,
    /// Programs that are started as workers. `None` starts this program itself, which must dispatch
    /// [`DEVICE_WORKER`](crate::evaluate::worker::DEVICE_WORKER) and [`WORKER`](crate::remix::WORKER).
    pub workers: Option<Workers>,
}

/// Programs to be started as workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workers {
    /// For devices.
    pub device: r3_codegen::worker::WorkerCommand,
    /// For compilations.
    pub compile: r3_codegen::worker::WorkerCommand,
}

/// How devices judge and time: see [`EngineOptions`](crate::evaluate::engine::run::EngineOptions).
#[derive(Clone, Debug)]
pub struct EngineSetup {
    /// How far results may be off, by kernel and buffer.
    pub tolerances: Tolerances,
    /// Whether nothing is allowed for where the device's own results may differ from the recorded ones.
    pub strict: bool,
    /// Bytes of device memory for kept copies; `None` takes what is free, less a reserve.
    pub memory_budget: Option<u64>,
    /// Bytes of host memory for what does not fit on the device.
    pub host_budget: u64,
    /// A launch may take this many times as long as the original.
    pub time_factor: f64,
    /// A launch may take this long in any case.
    pub least_time: Duration,
    /// Pairs of the original with itself from which its noise is told.
    pub noise_pairs: u32,
    /// Decides keys, for tests that must repeat.
    pub seed: Option<u64>,
    /// Host threads of the CPU device; 0 for as many as there are cores.
    pub threads: usize,
}

impl Default for EngineSetup {
    /// What an engine takes by itself.
    fn default() -> Self {
        let engine = EngineOptions::default();
        Self {
            tolerances: engine.tolerances,
            strict: engine.strict,
            memory_budget: engine.memory_budget,
            host_budget: engine.host_budget,
            time_factor: engine.time_factor,
            least_time: engine.least_time,
            noise_pairs: engine.noise_pairs,
            seed: engine.seed,
            threads: 0,
        }
    }
}

impl Default for EvaluatorOptions {
    /// The first GPU, one compile worker for each core, a minute for a compilation.
    fn default() -> Self {
        Self {
            devices: vec![DeviceChoice::Cuda(0)],
            compile: Limits::default(),
            cache: None,
            cache_limit: 4 << 30,
            queue_limit: 4096,
            history: 1 << 16,
            engine: EngineSetup::default(),
            silence: Duration::from_secs(60),
            cancel_patience: Duration::from_secs(2),
            workers: None,
        }
    }
}
