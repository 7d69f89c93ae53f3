//! What came of a candidate.

use r3_archive::model::LaunchId;
use r3_codegen::recipe::{Failure, Guard, Resources};
use serde::{Deserialize, Serialize};

use super::candidate::CandidateId;
use super::plan::Regime;
use crate::remix::pairs::Ratio;

/// A candidate's verdict and everything that it stands on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The candidate.
    pub candidate: CandidateId,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one or a few lines for people and language models.
    #[serde(default)]
    pub reason: Option<String>,
    /// Why there is no code.
    #[serde(default)]
    pub failure: Option<Failure>,
    /// The code that ran.
    #[serde(default)]
    pub code: Option<CodeFacts>,
    /// Under which conditions the code may stand for the original.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// Launch by launch.
    #[serde(default)]
    pub launches: Vec<LaunchOutcome>,
    /// Over all launches that count; `None` when nothing was timed.
    #[serde(default)]
    pub score: Option<Score>,
    /// What it cost.
    #[serde(default)]
    pub cost: Cost,
    /// What the user should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Outcome {
    /// Of a candidate that did not run.
    pub fn without_run(
        candidate: CandidateId,
        verdict: Verdict,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            candidate,
            verdict,
            reason: Some(reason.into()).filter(|reason| !reason.is_empty()),
            failure: None,
            code: None,
            guards: Vec::new(),
            launches: Vec::new(),
            score: None,
            cost: Cost::default(),
            notes: Vec::new(),
        }
    }
}

/// How a candidate came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every byte is right on every launch.
    Right,
    /// Something is out of tolerance, on a recorded, held-out or perturbed launch.
    Wrong,
    /// It did not compile.
    NoCode,
    /// It cannot be launched: too many threads, registers or bytes of shared memory, or the driver refused it.
    Refused,
    /// It ran past its time limit.
    Timeout,
    /// It stopped: an illegal address, a trap, a misaligned access.
    Fault,
    /// It does what code may not: wrote outside its memory, keeps state of its own, depends on memory that it never wrote.
    Cheat,
    /// Faster than the device can move the bytes that must be moved: set aside until a person looked at it.
    Implausible,
    /// Its guards exclude every launch that it was to run on.
    Guarded,
    /// It was cancelled.
    Cancelled,
    /// This kind of device cannot judge it.
    CannotRun,
    /// The machine failed, not the candidate: it may be tried again.
    Unjudged,
}

impl Verdict {
    /// Whether the candidate may stand for the original.
    pub fn is_right(self) -> bool {
        self == Self::Right
    }

    /// A word or two for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Wrong => "wrong",
            Self::NoCode => "no code",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Fault => "fault",
            Self::Cheat => "cheat",
            Self::Implausible => "implausible",
            Self::Guarded => "guarded",
            Self::Cancelled => "cancelled",
            Self::CannotRun => "cannot run here",
            Self::Unjudged => "unjudged",
        }
    }
}

/// The code that was verified and timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CodeFacts {
    /// Hash of the image that was loaded (128-bit xxh3, hexadecimal). Equal ones are measured once.
    pub image: String,
    /// What the kernel uses, from its cubin.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// Blocks that fit on a multiprocessor at a time, on a device that says it.
    #[serde(default)]
    pub blocks_per_multiprocessor: Option<u32>,
    /// The candidate whose machine code and launch are equal to this one's, when it was not measured for that reason.
    #[serde(default)]
    pub equal_to: Option<CandidateId>,
    /// What the code is like, when there is PTX of it.
    #[serde(default)]
    pub behaviour: Option<Behaviour>,
}

/// What code is like: from its machine code where there is some, else from its PTX. A search tells kinds of code apart by it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Behaviour {
    /// Registers of a thread, from the machine code.
    pub registers: Option<u32>,
    /// Bytes that a thread spills, stores and loads together, where the assembler tells.
    pub spilled: Option<u32>,
    /// Bytes of local memory of a thread: from the machine code, else what the PTX declares.
    pub local: u32,
    /// Bytes of static shared memory of a block.
    pub static_shared: u32,
    /// Bytes of dynamic shared memory of a block: the most of all launches.
    pub dynamic_shared: u32,
    /// Part of a multiprocessor's threads that can be there at once, 0 to 1: the least of all launches. On a device without
    /// machine code, without what registers limit.
    pub occupancy: Option<f64>,
    /// Bytes that a thread loads from global memory with its widest instruction; 0 without loads.
    pub widest_load: u32,
    /// Bytes that a thread stores to global memory with its widest instruction; 0 without stores.
    pub widest_store: u32,
    /// Instructions of its PTX by kind.
    pub mix: Mix,
}

/// Instructions of a kernel's PTX and of the functions that it calls, counted in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mix {
    /// Integer arithmetic, logic, shifts and comparisons.
    pub integer: u32,
    /// Arithmetic and comparisons in half precision, bfloat16 and less.
    pub half: u32,
    /// In single precision.
    pub single: u32,
    /// In double precision.
    pub double: u32,
    /// Divisions, roots, reciprocals, sines, exponentials and logarithms.
    pub special: u32,
    /// Matrix operations.
    pub matrix: u32,
    /// Accesses to global memory, or through generic addresses.
    pub global: u32,
    /// Accesses to shared memory.
    pub shared: u32,
    /// Accesses to local memory.
    pub local: u32,
    /// Accesses to constant memory, parameters and textures.
    pub constant: u32,
    /// Atomics and reductions.
    pub atomic: u32,
    /// Barriers and fences.
    pub barrier: u32,
    /// Shuffles, votes and other exchanges within a warp.
    pub exchange: u32,
    /// Branches, calls and returns.
    pub control: u32,
    /// Conversions between types.
    pub conversion: u32,
    /// Moves, selections and what is left.
    pub other: u32,
}

impl Mix {
    /// All instructions.
    pub fn total(&self) -> u32 {
        self.kinds().iter().map(|(_, count)| count).sum()
    }

    /// Each kind by name, in the order of the fields.
    pub fn kinds(&self) -> [(&'static str, u32); 16] {
        [
            ("integer", self.integer),
            ("half", self.half),
            ("single", self.single),
            ("double", self.double),
            ("special", self.special),
            ("matrix", self.matrix),
            ("global", self.global),
            ("shared", self.shared),
            ("local", self.local),
            ("constant", self.constant),
            ("atomic", self.atomic),
            ("barrier", self.barrier),
            ("exchange", self.exchange),
            ("control", self.control),
            ("conversion", self.conversion),
            ("other", self.other),
        ]
    }

    /// Part of all instructions that are arithmetic in floating point, 0 to 1.
    pub fn floating(&self) -> f64 {
        let floating = self.half + self.single + self.double + self.special + self.matrix;
        f64::from(floating) / f64::from(self.total().max(1))
    }

    /// Part of all instructions that access memory, 0 to 1.
    pub fn memory(&self) -> f64 {
        let memory = self.global + self.shared + self.local + self.constant + self.atomic;
        f64::from(memory) / f64::from(self.total().max(1))
    }
}

/// Why a launch was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Counts for the score.
    Tuned,
    /// Must be right, and does not count.
    HeldOut,
    /// A tuned launch with other floating-point inputs.
    Perturbed,
}

/// A launch with a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchOutcome {
    /// The launch.
    pub launch: LaunchId,
    /// Why it was run.
    pub role: Role,
    /// How it came out.
    pub verdict: Verdict,
    /// The worst place of the worst buffer, when something is wrong.
    #[serde(default)]
    pub worst: Option<Worst>,
    /// Times against the original, per regime.
    #[serde(default)]
    pub times: Vec<Timing>,
}

/// Where results differ most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worst {
    /// The buffer, as reports call it.
    pub buffer: String,
    /// Offset of the element in bytes.
    pub offset: u64,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub actual: String,
    /// Elements that are out of tolerance, in all buffers.
    pub out: u64,
}

/// Times of one launch in one regime.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// State of the caches.
    pub regime: Regime,
    /// Unit of all times: nanoseconds, or [`COST_UNIT`](crate::bench::COST_UNIT) on a device that counts.
    pub unit: Unit,
    /// Candidate ÷ original.
    pub ratio: Ratio,
    /// The original's median.
    pub original: f64,
    /// The candidate's median.
    pub candidate: f64,
    /// Every pair, in order.
    pub samples: Vec<Sample>,
}

/// What a time is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds on a GPU.
    Nanoseconds,
    /// Weighted warp instructions of the CPU device.
    Cost,
}

/// A pair of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The original's time.
    pub original: f64,
    /// The candidate's.
    pub candidate: f64,
    /// Whether the candidate ran first.
    pub candidate_first: bool,
    /// Clock of the multiprocessors in MHz, where it is known.
    #[serde(default)]
    pub sm_clock_mhz: Option<u32>,
}

/// A candidate's time against the original's, over all launches that count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Candidate ÷ original, weighted by launch counts and times: what part of the kernel's whole time remains.
    pub ratio: Ratio,
    /// The worst launch's ratio.
    pub worst: f64,
    /// Pairs that it stands on.
    pub pairs: u32,
    /// Whether the race was given up since the candidate can hardly be the best.
    pub dropped: bool,
    /// No ratio nearer to 1 than this counts as a difference: the original against itself, in this session.
    pub noise: f64,
}

impl Score {
    /// Whether the candidate is faster than the original, beyond interval and noise.
    pub fn is_faster(&self) -> bool {
        self.ratio.high < 1.0 && self.ratio.median < 1.0 - self.noise
    }
}

/// Where a candidate's time went, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Waiting for a compile worker.
    pub queued: f64,
    /// Compiling; 0 when it came from the cache.
    pub compile: f64,
    /// Whether it came from the cache.
    pub cached: bool,
    /// Waiting for a device.
    pub waiting: f64,
    /// In the device's worker, kernels included.
    pub device: f64,
    /// Kernels alone, the original's included.
    pub kernels: f64,
    /// Runs of candidate and original, timed or not.
    pub runs: u32,
    /// Times that the worker had to be started again for this candidate.
    pub restarts: u32,
    /// Where the time in the device's worker went.
    #[serde(default)]
    pub parts: Parts,
}

/// Where the time in a device's worker went, in milliseconds, twice: by what was done, and by what for. What is missing to the
/// whole is the way to the worker and back, making launches ready, and a worker's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parts {
    /// Done: code loaded, and taken off the device.
    pub load: f64,
    /// Done: memory put back, poisoned, caches flushed, and that waited for; going over to another launch.
    pub restore: f64,
    /// Done: candidate and original run. Where a run is not timed, what is waited for before it is in it.
    pub run: f64,
    /// Done: what a run left compared, with all memory that it must leave alone.
    pub compare: f64,
    /// Done: other inputs made, the original run on them, and the recorded ones put back.
    pub inputs: f64,
    /// Done: clocks asked for, and waited for.
    pub clocks: f64,
    /// For: whether the candidate is right on the launches that count.
    pub judged: f64,
    /// For: the same on held-out launches.
    pub held_out: f64,
    /// For: the same with other inputs.
    pub perturbed: f64,
    /// For: times, and what is verified between them.
    pub timed: f64,
    /// Bytes that were written to put memory back or to poison it.
    pub restored_bytes: u64,
    /// Bytes that were read to compare what runs left, R3's own copies included.
    pub compared_bytes: u64,
}

impl Parts {
    /// By what was done.
    pub fn done(&self) -> [(&'static str, f64); 6] {
        [
            ("load", self.load),
            ("restore", self.restore),
            ("run", self.run),
            ("compare", self.compare),
            ("other inputs", self.inputs),
            ("clocks", self.clocks),
        ]
    }

    /// By what for.
    pub fn purposes(&self) -> [(&'static str, f64); 4] {
        [
            ("verdict", self.judged),
            ("held-out launches", self.held_out),
            ("perturbed inputs", self.perturbed),
            ("timing", self.timed),
        ]
    }

    /// Adds those of another candidate.
    pub fn add(&mut self, other: &Self) {
        self.load += other.load;
        self.restore += other.restore;
        self.run += other.run;
        self.compare += other.compare;
        self.inputs += other.inputs;
        self.clocks += other.clocks;
        self.judged += other.judged;
        self.held_out += other.held_out;
        self.perturbed += other.perturbed;
        self.timed += other.timed;
        self.restored_bytes += other.restored_bytes;
        self.compared_bytes += other.compared_bytes;
    }
}
