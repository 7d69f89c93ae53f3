//! A backend that does what a test says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use r3_archive::model::LaunchId;

use crate::code::Form;
use crate::evaluate::candidate::Candidate;
use crate::evaluate::describe::{DeviceDescription, KernelDescription};
use crate::evaluate::engine::Prepared;
use crate::evaluate::evaluator::{
    ArchiveId, Artifact, Event, JobId, JobState, Request, Status, SubmitError,
};
use crate::evaluate::outcome::{Cost, Outcome, Verdict};
use crate::serve::backend::Backend;
use crate::serve::problem::{Code, Problem};
use crate::serve::protocol::{ArtifactRequest, KernelSummary};

/// Knows one kernel, `saxpy`, of any archive.
pub(super) struct Scripted {
    /// Jobs that may be unfinished at a time.
    limit: usize,
    /// Whether jobs are done as soon as they are submitted.
    at_once: bool,
    /// Bytes of each outcome.
    outcome_bytes: usize,
    state: Mutex<State>,
}

struct State {
    events: Option<Sender<Event>>,
    receiver: Option<Receiver<Event>>,
    sequence: u64,
    jobs: u64,
    unfinished: BTreeMap<JobId, Candidate>,
    done: u64,
    archives: Vec<PathBuf>,
}

impl Scripted {
    /// Jobs wait until [`finish`](Self::finish).
    pub(super) fn patient(limit: usize) -> Self {
        let (sender, receiver) = channel();
        Self {
            limit,
            at_once: false,
            outcome_bytes: 0,
            state: Mutex::new(State {
                events: Some(sender),
                receiver: Some(receiver),
                sequence: 0,
                jobs: 0,
                unfinished: BTreeMap::new(),
                done: 0,
                archives: Vec::new(),
            }),
        }
    }

    /// Jobs go through all states when they are submitted, and have large outcomes.
    pub(super) fn at_once(outcome_bytes: usize) -> Self {
        Self {
            at_once: true,
            outcome_bytes,
            ..Self::patient(usize::MAX)
        }
    }

    /// A job ends.
    pub(super) fn finish(&self, job: JobId, verdict: Verdict) {
        let mut state = self.state.lock().unwrap();
        state.finish(job, verdict, self.outcome_bytes);
    }

    /// Whether it was shut down.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().unwrap().events.is_none()
    }
}

impl State {
    fn tell(&mut self, job: JobId, state: JobState) {
        self.sequence += 1;
        let sequence = self.sequence;
        if let Some(events) = &self.events {
            events
                .send(Event {
                    sequence,
                    job,
                    state,
                })
                .unwrap();
        }
    }

    fn finish(&mut self, job: JobId, verdict: Verdict, bytes: usize) -> bool {
        let Some(candidate) = self.unfinished.remove(&job) else {
            return false;
        };
        self.done += 1;
        let outcome = Outcome {
            candidate: candidate.id(),
            verdict,
            reason: None,
            failure: None,
            code: None,
            guards: Vec::new(),
            launches: Vec::new(),
            score: None,
            cost: Cost::default(),
            notes: vec!["n".repeat(bytes)],
        };
        self.tell(job, JobState::Done(Box::new(outcome)));
        true
    }
}

impl Backend for Scripted {
    fn open(&self, path: &Path) -> Result<ArchiveId, Problem> {
        if path.ends_with("missing.r3") {
            return Err(Problem::new(
                Code::Archive,
                format!("{}: no such file", path.display()),
            ));
        }
        let archives = &mut self.state.lock().unwrap().archives;
        let place = archives.iter().position(|open| open == path);
        let place = place.unwrap_or_else(|| {
            archives.push(path.to_owned());
            archives.len() - 1
        });
        Ok(ArchiveId(place as u32 + 1))
    }

    fn kernels(&self, archive: ArchiveId) -> Result<Vec<KernelSummary>, Problem> {
        self.known(archive)?;
        Ok(vec![KernelSummary {
            name: "saxpy".to_owned(),
            readable: "saxpy".to_owned(),
            launches: vec![LaunchId(0), LaunchId(1)],
        }])
    }

    fn describe(&self, archive: ArchiveId, kernel: &str) -> Result<KernelDescription, Problem> {
        self.known(archive)?;
        if kernel != "saxpy" {
            return Err(Problem::new(
                Code::Kernel,
                format!("no kernel is called {kernel}"),
            ));
        }
        Ok(KernelDescription {
            archive: "uuid".to_owned(),
            name: "saxpy".to_owned(),
            readable: "saxpy".to_owned(),
            device: DeviceDescription::default(),
            forms: Vec::new(),
            compilable: true,
            recorded_runs: true,
            used: None,
            max_threads: 1024,
            bounds: r3_codegen::recipe::Bounds::default(),
            required_block: None,
            census: None,
            params: Vec::new(),
            launches: Vec::new(),
            source: None,
        })
    }

    fn prepare(
        &self,
        archive: ArchiveId,
        _kernel: &str,
        launches: &[LaunchId],
    ) -> Result<Vec<Prepared>, Problem> {
        self.known(archive)?;
        let prepared = |launch: &LaunchId| Prepared {
            launch: *launch,
            unusable: None,
            written: 4096,
            restored: 4096,
            kept: 8192,
            deterministic: true,
            original: 100.0,
            noise: 0.0,
            notes: Vec::new(),
        };
        Ok(launches.iter().map(prepared).collect())
    }

    fn submit(&self, request: Request) -> Result<JobId, SubmitError> {
        let mut state = self.state.lock().unwrap();
        if state.events.is_none() {
            return Err(SubmitError::ShuttingDown);
        }
        if request.archive.0 == 0 || request.archive.0 as usize > state.archives.len() {
            return Err(SubmitError::NoArchive(request.archive));
        }
        if request.kernel != "saxpy" {
            return Err(SubmitError::Kernel(format!(
                "no kernel is called {}",
                request.kernel
            )));
        }
        if state.unfinished.len() >= self.limit {
            return Err(SubmitError::Full { limit: self.limit });
        }
        state.jobs += 1;
        let job = JobId(state.jobs);
        state.unfinished.insert(job, request.candidate);
        state.tell(job, JobState::Queued);
        if self.at_once {
            for step in [JobState::Compiling, JobState::Waiting, JobState::Running] {
                state.tell(job, step);
            }
            state.finish(job, Verdict::Right, self.outcome_bytes);
        }
        Ok(job)
    }

    fn cancel(&self, job: JobId) -> bool {
        self.state
            .lock()
            .unwrap()
            .finish(job, Verdict::Cancelled, 0)
    }

    fn artifact(&self, wanted: &ArtifactRequest) -> Result<Artifact, Problem> {
        self.known(wanted.archive)?;
        Ok(Artifact {
            candidate: wanted.candidate.id(),
            name: wanted.kernel.clone(),
            image: String::new(),
            form: Form::Ptx(90),
            bytes: b".version 9.0".to_vec(),
            cubin: None,
            ptx: Some(".version 9.0".to_owned()),
            llvm: None,
            guards: Vec::new(),
            change: wanted.candidate.launch,
            assembler: None,
            notes: Vec::new(),
        })
    }

    fn events(&self) -> Box<dyn Iterator<Item = Event> + Send> {
        let receiver = self.state.lock().unwrap().receiver.take().unwrap();
        Box::new(receiver.into_iter())
    }

    fn status(&self) -> Status {
        let state = self.state.lock().unwrap();
        Status {
            queued: state.unfinished.len(),
            done: state.done,
            verdicts: vec![("right".to_owned(), state.done)],
            archives: state
                .archives
                .iter()
                .enumerate()
                .map(|(index, path)| (ArchiveId(index as u32 + 1), path.clone()))
                .collect(),
            ..Status::default()
        }
    }

    fn shutdown(&self) {
        let mut state = self.state.lock().unwrap();
        let jobs: Vec<JobId> = state.unfinished.keys().copied().collect();
        for job in jobs {
            state.finish(job, Verdict::Cancelled, 0);
        }
        state.events = None;
    }
}

impl Scripted {
    fn known(&self, archive: ArchiveId) -> Result<(), Problem> {
        let open = self.state.lock().unwrap().archives.len();
        if archive.0 == 0 || archive.0 as usize > open {
            let message = format!("there is no archive {}", archive.0);
            return Err(Problem::new(Code::NoArchive, message));
        }
        Ok(())
    }
}
