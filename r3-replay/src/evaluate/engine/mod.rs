//! Inside a device's worker: state that stays on the device, and candidates that are judged and timed on it.
//!
//! ```text
//!  archive ──► resident: memory in place, sealed copies, masks of what must be written
//!                 └► run: the original once more: a kernel that does nothing must fail; its time, its noise
//!  task ──► trial: guards ─► shape ─► gate ─► perturb ─► race ─► bound ─► score
//!                                      └──── stand: reset, poison, scrub, flush, launch, judge ────┘
//! ```
//!
//! [`resident`] keeps launches ready. [`run`] makes an [`Engine`](run::Engine) of it; `trial` leads one candidate from its
//! guards to `score`: [`gate`] decides whether it is right, [`perturb`] whether it still is with other inputs, [`race`]
//! how fast it is, [`stats`] and [`noise`] what of that can be claimed, [`bound`] and [`floor`] what cannot be. `stand` is
//! what all of them run on.
//!
//! An engine never ends its process; what makes the device unusable is told as [`Lost`], and whoever runs the engine
//! starts it again.
//!
//! # How candidates could win without being better, and what is in the way
//!
//! | exploit | in the way |
//! |---|---|
//! | results that lie about from earlier | copies are sealed, outputs poisoned before every run, shared memory filled (`scrub`) |
//! | leaving out what is right already | the mask of what must be written; a kernel that does nothing must fail |
//! | state of its own between runs | a fresh load for each candidate; no variables and no heap that the original has not, new tables and constants written anew before each run ([`code`]); guards behind buffers; the last timed run, and some that chance picks, are verified |
//! | results by heart | held-out launches; [`perturb`]; another snapshot amid timed runs |
//! | inputs changed so that they fit | every recorded byte is compared, inputs too |
//! | poison, or leftovers, taken for data | each run has another key; two runs before anything is timed |
//! | warm caches called cold, lines kept in the cache | a flush after restoring, persisting lines reset, and a probe that tells whether that works ([`floor`]) |
//! | another binary timed than verified | one load for both, with its hash in the result |
//! | an original that is slowed down | its last run is verified, its variables included |
//! | drift, and luck | pairs in turn ([`race`]), the original against itself ([`noise`]), clocks at each pair, nobody else on the GPU ([`lock`]) |
//! | special first runs | nobody knows how many warm-ups there are, nor which run is verified |
//! | impossible times | [`bound`]: memory's bandwidth |

pub mod run;

mod options;

pub mod resident;

mod trial;

mod score;

mod stand;

pub mod gate;

pub mod code;

pub mod perturb;

pub mod race;

pub mod stats;

pub mod noise;

pub mod floor;

mod scrub;

pub mod bound;

pub mod lock;

pub mod shape;

pub mod keys;

use std::time::Duration;

use r3_archive::model::{KernelId, LaunchId};
use serde::{Deserialize, Serialize};

use super::candidate::LaunchChange;
use super::outcome::{LaunchOutcome, Parts, Score, Verdict};
use super::plan::Plan;
use crate::code::Form;
use r3_codegen::recipe::Guard;

/// Code to be judged and timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The kernel that it stands for.
    pub kernel: KernelId,
    /// The code; `None` is the recorded one.
    pub code: Option<Image>,
    /// How it is launched.
    pub change: LaunchChange,
    /// Under which conditions it may run.
    pub guards: Vec<Guard>,
    /// How thoroughly.
    pub plan: Plan,
    /// Variables of the code that the original has not and that nothing in it writes, by their names: as its text was
    /// found to be before it was assembled. Headers leave such ones.
    pub idle: Vec<String>,
}

/// An image to be loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// The kernel's name in it.
    pub name: String,
    /// A cubin, or PTX.
    pub bytes: Vec<u8>,
    /// What it is.
    pub form: Form,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// The verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: Option<String>,
    /// Hash of the image as it was loaded (128-bit xxh3): the same when it was verified and when it was timed.
    pub image: u128,
    /// Blocks that fit on a multiprocessor at a time, on a device that says it.
    pub blocks_per_multiprocessor: Option<u32>,
    /// Launch by launch.
    pub launches: Vec<LaunchOutcome>,
    /// Over all launches that count.
    pub score: Option<Score>,
    /// Time of all kernels, in milliseconds.
    pub kernels_ms: f64,
    /// How many runs.
    pub runs: u32,
    /// Where the time went.
    pub parts: Parts,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What an engine found out about a launch before any candidate ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// The launch.
    pub launch: LaunchId,
    /// Why candidates cannot be judged on it, when they cannot: the original does not run here, or nothing can be told
    /// right from wrong (a kernel that does nothing passes).
    pub unusable: Option<String>,
    /// Bytes that the launch writes and nothing else decides: poisoned before each run.
    pub written: u64,
    /// Bytes that it may write, and that are restored before each run.
    pub restored: u64,
    /// Bytes kept on the device for it.
    pub kept: u64,
    /// Whether the original leaves the same bytes in each run.
    pub deterministic: bool,
    /// The original's time: nanoseconds, or cost on a device that counts.
    pub original: f64,
    /// The original against itself: no ratio nearer to 1 than this counts as a difference.
    pub noise: f64,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Keeps an eye on an engine: whoever is told of a limit ends the process when the next call does not come in time.
pub trait Watch {
    /// From now on, `limit` at most until the next call. `what` is for people.
    fn within(&self, limit: Duration, what: &str);

    /// Nothing is running that could hang.
    fn idle(&self);
}

/// The device cannot be used any more by this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{reason}")]
pub struct Lost {
    /// What the driver said, on what.
    pub reason: String,
    /// Whether the candidate's own code did it, and not the machine.
    pub by_candidate: bool,
    /// The buffer, by name, that was poisoned when the original did it: to be left out
    /// ([`EngineOptions::leave_out`](run::EngineOptions::leave_out)) when the launch is made ready again.
    #[serde(default)]
    pub poisoned: Option<(LaunchId, String)>,
}

impl Lost {
    /// By the machine, or by recorded code.
    pub fn of_machine(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            by_candidate: false,
            poisoned: None,
        }
    }

    /// By a candidate's code.
    pub fn of_candidate(reason: impl Into<String>) -> Self {
        Self {
            by_candidate: true,
            ..Self::of_machine(reason)
        }
    }

    /// While a buffer was poisoned.
    pub fn poisoned(self, launch: LaunchId, buffer: impl Into<String>) -> Self {
        Self {
            poisoned: Some((launch, buffer.into())),
            ..self
        }
    }
}

#[cfg(test)]
mod tests;
