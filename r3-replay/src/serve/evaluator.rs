//! The evaluator behind a server.

use std::path::Path;

use r3_archive::model::LaunchId;

use super::backend::Backend;
use super::problem::{Code, Problem};
use super::protocol::{ArtifactRequest, KernelSummary};
use crate::evaluate::describe::KernelDescription;
use crate::evaluate::engine::Prepared;
use crate::evaluate::evaluator::{
    ArchiveId, Artifact, Evaluator, EvaluatorError, Event, JobId, Request, Status, SubmitError,
};
use crate::names::readable;

impl From<EvaluatorError> for Problem {
    fn from(error: EvaluatorError) -> Self {
        let code = match &error {
            EvaluatorError::NoArchive(_) => Code::NoArchive,
            EvaluatorError::Archive(_) => Code::Archive,
            EvaluatorError::Kernel(_) => Code::Kernel,
            EvaluatorError::Code(_) => Code::Code,
            EvaluatorError::ShuttingDown => Code::ShuttingDown,
            EvaluatorError::NoDevice
            | EvaluatorError::Device { .. }
            | EvaluatorError::MixedDevices { .. }
            | EvaluatorError::Machine(_)
            | EvaluatorError::Resources(_) => Code::Failed,
        };
        Self::new(code, error)
    }
}

impl Backend for Evaluator {
    fn open(&self, path: &Path) -> Result<ArchiveId, Problem> {
        Ok(self.open(path)?)
    }

    fn kernels(&self, archive: ArchiveId) -> Result<Vec<KernelSummary>, Problem> {
        let archive = self.archive(archive)?;
        let heads = archive.launch_heads();
        let summaries = archive.kernels().iter().filter_map(|kernel| {
            let own = heads.iter().filter(|launch| launch.kernel == kernel.id);
            let launches: Vec<LaunchId> = own.map(|launch| launch.id).collect();
            (!launches.is_empty()).then(|| KernelSummary {
                name: kernel.name.clone(),
                readable: readable(&kernel.name),
                launches,
            })
        });
        Ok(summaries.collect())
    }

    fn describe(&self, archive: ArchiveId, kernel: &str) -> Result<KernelDescription, Problem> {
        Ok(self.describe(archive, kernel)?)
    }

    fn prepare(
        &self,
        archive: ArchiveId,
        kernel: &str,
        launches: &[LaunchId],
    ) -> Result<Vec<Prepared>, Problem> {
        Ok(self.prepare(archive, kernel, launches)?)
    }

    fn submit(&self, request: Request) -> Result<JobId, SubmitError> {
        self.submit(request)
    }

    fn cancel(&self, job: JobId) -> bool {
        self.cancel(job)
    }

    fn artifact(&self, wanted: &ArtifactRequest) -> Result<Artifact, Problem> {
        Ok(self.artifact(
            wanted.archive,
            &wanted.kernel,
            &wanted.candidate,
            &wanted.plan,
        )?)
    }

    fn events(&self) -> Box<dyn Iterator<Item = Event> + Send> {
        Box::new(self.events(0))
    }

    fn status(&self) -> Status {
        self.status()
    }

    fn shutdown(&self) {
        self.shutdown();
    }
}
