//! What a server needs of an evaluator.

use std::path::Path;

use r3_archive::model::LaunchId;

use super::problem::Problem;
use super::protocol::{ArtifactRequest, KernelSummary};
use crate::evaluate::describe::KernelDescription;
use crate::evaluate::engine::Prepared;
use crate::evaluate::evaluator::{ArchiveId, Artifact, Event, JobId, Request, Status, SubmitError};

/// Something that judges candidates: the evaluator, or a script in tests. Called from several threads.
pub trait Backend: Send + Sync {
    /// Opens an archive; one that is open already keeps its number. May take long.
    fn open(&self, path: &Path) -> Result<ArchiveId, Problem>;

    /// The kernels of an archive that have recorded launches.
    fn kernels(&self, archive: ArchiveId) -> Result<Vec<KernelSummary>, Problem>;

    /// What there is to try for a kernel. May take long.
    fn describe(&self, archive: ArchiveId, kernel: &str) -> Result<KernelDescription, Problem>;

    /// Makes launches of a kernel ready, all of them when none is named. May take long.
    fn prepare(
        &self,
        archive: ArchiveId,
        kernel: &str,
        launches: &[LaunchId],
    ) -> Result<Vec<Prepared>, Problem>;

    /// Takes a candidate into the queue, or says at once why not.
    fn submit(&self, request: Request) -> Result<JobId, SubmitError>;

    /// Cancels a job. `false` when it is done already or unknown.
    fn cancel(&self, job: JobId) -> bool;

    /// The code that a candidate is. May take long.
    fn artifact(&self, wanted: &ArtifactRequest) -> Result<Artifact, Problem>;

    /// All events from the first on, as they come: the iterator waits for the next, and ends when the backend has ended.
    fn events(&self) -> Box<dyn Iterator<Item = Event> + Send>;

    /// How it is doing.
    fn status(&self) -> Status;

    /// Cancels what runs, ends all workers, and lets [`events`](Self::events) end.
    fn shutdown(&self);
}
