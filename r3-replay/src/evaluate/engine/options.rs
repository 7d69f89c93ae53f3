//! How an engine works.

use std::path::PathBuf;
use std::time::Duration;

use r3_archive::model::LaunchId;

use super::resident::ResidentOptions;
use crate::compare::Tolerances;

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
    /// Folder of the timing lock; where the system keeps temporary files without it.
    pub lock_folder: Option<PathBuf>,
    /// Pairs of the original with itself from which its noise is told.
    pub noise_pairs: u32,
    /// Buffers that are not poisoned when launches are profiled: the original stopped the device, in an earlier process,
    /// when they were. `perturbed inputs` stands for the inputs of a launch.
    pub leave_out: Vec<(LaunchId, String)>,
    /// Folder of what was found out about launches in earlier processes, so that it is found out once; it is checked again.
    pub profiles: Option<PathBuf>,
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
            lock_folder: None,
            noise_pairs: 32,
            leave_out: Vec::new(),
            profiles: None,
            seed: None,
        }
    }
}

impl EngineOptions {
    /// What launches that are kept ready need of it.
    pub(super) fn resident(&self) -> ResidentOptions {
        ResidentOptions {
            tolerances: self.tolerances.clone(),
            strict: self.strict,
            memory_budget: self.memory_budget,
            host_budget: self.host_budget,
            leave_out: self.leave_out.clone(),
            profiles: self.profiles.clone(),
            seed: self.seed.map(|seed| seed ^ 0x7265_7369_6465_6e74),
            ..ResidentOptions::default()
        }
    }
}
