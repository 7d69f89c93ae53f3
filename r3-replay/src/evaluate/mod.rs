//! Candidates for a captured kernel, judged and timed in milliseconds, with results that can be believed.
//!
//! In flow a [`Candidate`] (code, how it is compiled, how it is launched), the launches to try it on and a
//! [`Plan`]; out flows an [`Outcome`]. The modules are in the order of that way:
//!
//! 1. [`candidate`]: what is tried, as a value with a content hash. [`describe`] says what there is to try for a kernel.
//! 2. [`plan`]: how thoroughly it is judged and timed, and on which launches.
//! 3. [`build`]: a candidate becomes a recipe for [`r3_codegen`], and a launch shape; what cannot be right or cannot be
//!    launched is refused before anything is compiled.
//! 4. [`rules`]: what code may not do, whatever its results are, found in what the compiler made of it.
//! 5. [`evaluator`]: the queue. Recipes go to compile workers (processes) behind a cache on disk; equal machine code is
//!    measured once; code goes to the worker of a GPU.
//! 6. [`worker`]: one process for each GPU, with a watchdog. What hangs or faults costs that process, not the evaluator: it
//!    is started again with its state, and the next candidate sees nothing of it.
//! 7. [`engine`]: inside that process. The archive's state stays on the device; a candidate is restored, poisoned,
//!    launched, compared, and raced against the original.
//! 8. [`outcome`]: the verdict, every sample, and what it cost.
//!
//! # Invariants
//!
//! - **What is timed is what was verified**: one load of one image, whose hash stands in the outcome, compared before
//!   and after the timed runs.
//! - **Nothing right lies around.** What the recorded launch wrote is never on the device in the clear: copies are sealed
//!   (xor with a stream whose key only the host has), and outputs are poisoned before each run.
//! - **A verdict belongs to one candidate.** Each starts from restored memory; damage to kept copies is noticed by their
//!   checksums before anybody else is judged by them.
//! - **No win below the noise**: the original races against itself once in each session, and a ratio inside that floor is none.
//! - **A failure is an outcome**, with the stage, the message and the tail of the log; only what is wrong with the
//!   machine (no GPU, no disk) is an error of the evaluator.

pub mod candidate;

pub mod describe;

pub mod plan;

pub mod build;

pub mod rules;

pub mod behaviour;

pub mod evaluator;

pub mod worker;

pub mod engine;

pub mod outcome;

pub use candidate::{Candidate, CandidateId};
pub use outcome::{Outcome, Verdict};
pub use plan::Plan;
