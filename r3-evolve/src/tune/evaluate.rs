//! The evaluator, as a search sees it: a server of its own in real runs, a table in tests.

use std::time::Duration;

use r3_archive::model::LaunchId;
use r3_codegen::recipe::Guard;
use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::engine::Prepared;
use r3_replay::evaluate::evaluator::{JobId, Priority, Status};
use r3_replay::evaluate::{Candidate, Outcome, Plan};

/// A candidate that is to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// What is tried.
    pub candidate: Candidate,
    /// How thoroughly.
    pub plan: Plan,
    /// When.
    pub priority: Priority,
}

/// Why a call to an evaluator failed. A candidate that fails is an [`Outcome`], and none of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluateError {
    /// The queue is full: try again when something is done.
    #[error("the evaluator's queue is full")]
    Full,
    /// The evaluator is not there any more, or is another one: every job that is not done is lost, and no candidate's fault.
    #[error("{0}")]
    Gone(String),
    /// It does not do that.
    #[error("{0}")]
    Refused(String),
}

/// A candidate's code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Artifact {
    /// The kernel's name in it.
    pub name: String,
    /// Hash of the image that was verified and timed, as in an outcome.
    pub image: String,
    /// Machine code; `None` where the device runs PTX, and where nothing was compiled.
    pub cubin: Option<Vec<u8>>,
    /// PTX; `None` where nothing was compiled.
    pub ptx: Option<String>,
    /// LLVM IR after the passes, where there was any.
    pub llvm: Option<String>,
    /// Under which conditions it may stand for the original.
    pub guards: Vec<Guard>,
}

/// Judges candidates for one kernel of one archive.
pub trait Evaluate {
    /// The kernel.
    fn describe(&mut self) -> Result<KernelDescription, EvaluateError>;

    /// Makes launches ready; all of them when none is named.
    fn prepare(&mut self, launches: &[LaunchId]) -> Result<Vec<Prepared>, EvaluateError>;

    /// Queues a candidate.
    fn submit(&mut self, ask: &Ask) -> Result<JobId, EvaluateError>;

    /// Cancels jobs: each ends with an outcome all the same.
    fn cancel(&mut self, jobs: &[JobId]) -> Result<(), EvaluateError>;

    /// Waits until jobs are done, for so long at most. Returns those that have come to an end since the last call.
    fn finished(&mut self, limit: Duration) -> Result<Vec<(JobId, Outcome)>, EvaluateError>;

    /// How busy it is.
    fn status(&mut self) -> Result<Status, EvaluateError>;

    /// The code of a candidate, as it was verified.
    fn artifact(&mut self, candidate: &Candidate, plan: &Plan) -> Result<Artifact, EvaluateError>;

    /// After [`EvaluateError::Gone`]: connects again, or starts the evaluator again. Jobs of before are lost.
    fn again(&mut self) -> Result<(), EvaluateError>;
}
