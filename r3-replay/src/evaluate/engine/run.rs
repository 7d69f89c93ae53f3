//! The engine: launches are made ready, candidates come in, verdicts and scores go out.

use std::time::Duration;

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchId};

use super::{Lost, Prepared, Task, TaskResult, Watch};
use crate::compare::Tolerances;
use crate::device::Device;

/// How an engine works.
#[derive(Clone, Debug)]
pub struct EngineOptions {
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
    /// How long the timing lock of a GPU is waited for.
    pub lock_timeout: Duration,
    /// Pairs of the original with itself from which its noise is told.
    pub noise_pairs: u32,
    /// Buffers that are not poisoned when launches are profiled: the original faulted, in an earlier process, when they
    /// were.
    pub leave_out: Vec<(LaunchId, String)>,
    /// Decides keys, for tests that must repeat. Without it they come from the operating system's randomness.
    pub seed: Option<u64>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            tolerances: Tolerances::exact(),
            strict: false,
            memory_budget: None,
            host_budget: 1 << 30,
            time_factor: 50.0,
            least_time: Duration::from_secs(4),
            lock_timeout: Duration::from_secs(60),
            noise_pairs: 32,
            leave_out: Vec::new(),
            seed: None,
        }
    }
}

/// Judges and times candidates for the kernels of one archive on one device.
pub struct Engine<'a> {
    archive: &'a Archive,
    device: &'a mut dyn Device,
    options: EngineOptions,
}

impl<'a> Engine<'a> {
    /// Does nothing on the device yet.
    pub fn new(archive: &'a Archive, device: &'a mut dyn Device, options: EngineOptions) -> Self {
        Self {
            archive,
            device,
            options,
        }
    }

    /// Makes launches of a kernel ready: what they write is found out, the original is timed against itself. Launches that
    /// candidates cannot be judged on say why. What is ready already is told again.
    pub fn prepare(
        &mut self,
        kernel: KernelId,
        launches: &[LaunchId],
        watch: &dyn Watch,
    ) -> Result<Vec<Prepared>, Lost> {
        let _ = (
            kernel,
            launches,
            watch,
            &self.archive,
            &self.device,
            &self.options,
        );
        Ok(Vec::new())
    }

    /// Judges a candidate, and times it when it is right and the plan says so. Launches that are not ready are made so.
    pub fn evaluate(&mut self, task: &Task, watch: &dyn Watch) -> Result<TaskResult, Lost> {
        let _ = (task, watch);
        Err(Lost::of_machine("not there yet"))
    }
}
