//! What is asked of an evaluator, and what it tells.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::evaluate::candidate::Candidate;
use crate::evaluate::outcome::Outcome;
use crate::evaluate::plan::Plan;

/// An archive that an evaluator has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ArchiveId(pub u32);

/// A candidate on its way, in the order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u64);

/// Jobs of higher priority are compiled and run first; within one, in order of submission.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Priority(pub i32);

/// A candidate for a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The archive.
    pub archive: ArchiveId,
    /// The kernel: its mangled or readable name, or what `--kernel` takes, as long as it is one.
    pub kernel: String,
    /// What is tried.
    pub candidate: Candidate,
    /// How thoroughly. Without launches, all that are usable are tried, weighted by their counts.
    #[serde(default)]
    pub plan: Plan,
    /// When.
    #[serde(default)]
    pub priority: Priority,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for a compile worker.
    Queued,
    /// It is being compiled.
    Compiling,
    /// It waits for a device.
    Waiting,
    /// It runs on a device.
    Running,
    /// It is over.
    Done(Box<Outcome>),
}

/// A job changed its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Number of the event, from 1, without gaps in an evaluator's life.
    pub sequence: u64,
    /// The job.
    pub job: JobId,
    /// How far it is now.
    pub state: JobState,
}

/// Why a job was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// There are as many jobs as there may be: try again when some are done.
    #[error("the queue is full: {limit} jobs are waiting or running")]
    Full {
        /// How many there may be.
        limit: usize,
    },
    /// The archive is not open.
    #[error("there is no archive {0:?}")]
    NoArchive(ArchiveId),
    /// The archive has no such kernel, or several.
    #[error("{0}")]
    Kernel(String),
    /// The plan cannot be followed.
    #[error("{0}")]
    Plan(String),
    /// It is ending.
    #[error("the evaluator is shutting down")]
    ShuttingDown,
}

/// A device to run on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// A GPU, by its ordinal.
    Cuda(i32),
    /// The CPU device, with the architecture that it stands for, e.g. 90.
    Cpu(u32),
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(ordinal) => write!(f, "GPU {ordinal}"),
            Self::Cpu(sm) => write!(f, "CPU device (sm_{sm})"),
        }
    }
}

/// How an evaluator is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Jobs that wait for a compile worker.
    pub queued: usize,
    /// Jobs that are being compiled.
    pub compiling: usize,
    /// Jobs that wait for a device.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that are over.
    pub done: u64,
    /// Those by verdict.
    pub verdicts: Vec<(String, u64)>,
    /// Compilations that the cache had.
    pub cache_hits: u64,
    /// Compilations that it had not.
    pub cache_misses: u64,
    /// Jobs that were not measured since an equal one was.
    pub equal: u64,
    /// Times that a device's worker was started again.
    pub restarts: u64,
    /// Part of the time in which compile workers were busy, 0 to 1, since the start.
    pub compilers_busy: f64,
    /// Part of the time in which devices were busy, 0 to 1, since the start.
    pub devices_busy: f64,
    /// Seconds since the start.
    pub uptime: f64,
    /// Resident memory of the workers of devices, in bytes.
    pub worker_memory: u64,
    /// Memory in use on the devices, in bytes, where it is known.
    pub device_memory: u64,
    /// Archives that are open.
    pub archives: Vec<(ArchiveId, PathBuf)>,
}
