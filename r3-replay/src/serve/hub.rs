//! Jobs and their events, kept up to a size.
//!
//! Events come from the backend in one thread and are written once, as JSON. Readers have a place in the sequence and take
//! what is there: nothing is queued for one, so that a slow reader costs nothing, and is told what it missed. Outcomes are
//! kept as long as their events: one bound for both.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::backend::Backend;
use super::problem::{Code, Problem};
use crate::evaluate::candidate::CandidateId;
use crate::evaluate::evaluator::{Event, JobId, JobState, Request, SubmitError};

/// Bytes that an event takes besides its text.
const OVERHEAD: usize = 128;

/// Jobs and events.
pub(super) struct Hub {
    state: Mutex<State>,
    /// Held while a job is submitted and noted: its first event may be there before.
    submitting: Mutex<()>,
    newest: watch::Sender<Newest>,
    /// Bytes of events that are kept.
    history: usize,
}

/// How far the sequence is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) sequence: u64,
    /// No event follows.
    pub(super) ended: bool,
}

/// Tells that no event follows.
struct Ending<'a>(&'a watch::Sender<Newest>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|newest| newest.ended = true);
    }
}

#[derive(Default)]
struct State {
    /// In order, without gaps.
    kept: VecDeque<Kept>,
    bytes: usize,
    jobs: HashMap<JobId, Job>,
    /// The first and the last job that were noted.
    noted: Option<(JobId, JobId)>,
}

struct Kept {
    sequence: u64,
    job: JobId,
    group: Option<Arc<str>>,
    done: bool,
    event: Arc<RawValue>,
}

struct Job {
    group: Option<Arc<str>>,
    candidate: CandidateId,
    newest: Option<Arc<RawValue>>,
    done: bool,
}

/// A job, as it is answered.
#[derive(Serialize)]
pub(super) struct Report {
    #[serde(serialize_with = "shared")]
    group: Option<Arc<str>>,
    candidate: CandidateId,
    #[serde(serialize_with = "shared")]
    event: Option<Arc<RawValue>>,
    #[serde(skip)]
    pub(super) done: bool,
}

fn shared<T, S>(value: &Option<Arc<T>>, to: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + ?Sized,
    S: serde::Serializer,
{
    value.as_deref().serialize(to)
}

/// What a reader gets.
#[derive(Default)]
pub(super) struct Batch {
    /// Events that are not kept any more, the first and the last.
    pub(super) missed: Option<(u64, u64)>,
    /// Events of interest.
    pub(super) events: Vec<Arc<RawValue>>,
    /// The reader's new place.
    pub(super) after: u64,
}

/// What a reader wants.
#[derive(Clone, Debug, Default)]
pub(super) struct Interest {
    pub(super) group: Option<String>,
    pub(super) done: bool,
}

/// How much is kept.
pub(super) struct Size {
    pub(super) sequence: u64,
    pub(super) oldest: u64,
    pub(super) bytes: u64,
}

impl Hub {
    /// Keeps so many bytes of events.
    pub(super) fn new(history: usize) -> Self {
        Self {
            state: Mutex::default(),
            submitting: Mutex::default(),
            newest: watch::Sender::new(Newest::default()),
            history,
        }
    }

    /// Takes all events of a backend. Returns when it has ended.
    pub(super) fn follow(&self, backend: &dyn Backend) {
        // However it ends.
        let _told = Ending(&self.newest);
        for event in backend.events() {
            self.add(&event);
        }
    }

    /// Changes whenever there is a new event.
    pub(super) fn newest(&self) -> watch::Receiver<Newest> {
        self.newest.subscribe()
    }

    /// Submits candidates in order, up to the first that is not taken.
    pub(super) fn submit(
        &self,
        backend: &dyn Backend,
        group: Option<&str>,
        requests: Vec<Request>,
    ) -> (Vec<JobId>, Option<Problem>) {
        let group: Option<Arc<str>> = group.map(Arc::from);
        let mut jobs = Vec::with_capacity(requests.len());
        let submitting = &self.submitting;
        for (index, request) in requests.into_iter().enumerate() {
            let candidate = request.candidate.id();
            let noting = submitting.lock().unwrap_or_else(PoisonError::into_inner);
            match backend.submit(request) {
                Ok(job) => {
                    let mut state = self.state();
                    let (first, last) = state.noted.unwrap_or((job, job));
                    state.noted = Some((first.min(job), last.max(job)));
                    state.jobs.insert(
                        job,
                        Job {
                            group: group.clone(),
                            candidate,
                            newest: None,
                            done: false,
                        },
                    );
                    jobs.push(job);
                }
                Err(error) => {
                    drop(noting);
                    let mut problem = refusal(index, &error);
                    problem.jobs = jobs.clone();
                    return (jobs, Some(problem));
                }
            }
        }
        (jobs, None)
    }

    /// How far a job is.
    pub(super) fn job(&self, job: JobId) -> Result<Report, Problem> {
        let state = self.state();
        match state.jobs.get(&job) {
            Some(known) => Ok(Report {
                group: known.group.clone(),
                candidate: known.candidate,
                event: known.newest.clone(),
                done: known.done,
            }),
            None if state
                .noted
                .is_some_and(|(first, last)| first <= job && job <= last) =>
            {
                Err(Problem::new(
                    Code::JobGone,
                    format!(
                        "job {} is done, and its outcome is not kept any more",
                        job.0
                    ),
                ))
            }
            None => Err(Problem::new(
                Code::NoJob,
                format!("there is no job {}", job.0),
            )),
        }
    }

    /// Jobs of a group that are not done.
    pub(super) fn unfinished(&self, group: &str) -> Vec<JobId> {
        let state = self.state();
        let mut jobs: Vec<JobId> = state
            .jobs
            .iter()
            .filter(|(_, job)| !job.done && job.group.as_deref() == Some(group))
            .map(|(id, _)| *id)
            .collect();
        jobs.sort_unstable();
        jobs
    }

    /// Events after a place, up to some bytes (one event at least, when there is one).
    pub(super) fn after(&self, after: u64, interest: &Interest, bytes: usize) -> Batch {
        let state = self.state();
        let newest = self.newest.borrow().sequence;
        let mut batch = Batch {
            after: after.min(newest),
            ..Batch::default()
        };
        let oldest = state.kept.front().map_or(newest + 1, |kept| kept.sequence);
        if batch.after + 1 < oldest {
            batch.missed = Some((batch.after + 1, oldest - 1));
            batch.after = oldest - 1;
        }
        let skip = state
            .kept
            .partition_point(|kept| kept.sequence <= batch.after);
        let mut taken = 0;
        for kept in state.kept.iter().skip(skip) {
            let group = interest.group.as_deref();
            if (group.is_none() || kept.group.as_deref() == group) && (kept.done || !interest.done)
            {
                let len = kept.event.get().len();
                if taken > 0 && taken + len > bytes {
                    break;
                }
                taken += len;
                batch.events.push(Arc::clone(&kept.event));
            }
            batch.after = kept.sequence;
        }
        batch
    }

    /// How much is kept.
    pub(super) fn size(&self) -> Size {
        let state = self.state();
        let sequence = self.newest.borrow().sequence;
        Size {
            sequence,
            oldest: state
                .kept
                .front()
                .map_or(sequence + 1, |kept| kept.sequence),
            bytes: state.bytes as u64,
        }
    }

    fn add(&self, event: &Event) {
        // What cannot be written is told as an event without an outcome; numbers have no gaps.
        let text = serde_json::value::to_raw_value(event)
            .or_else(|_| {
                serde_json::value::to_raw_value(&Event {
                    sequence: event.sequence,
                    job: event.job,
                    state: JobState::Running,
                })
            })
            .map(Arc::from);
        let Ok(text): Result<Arc<RawValue>, _> = text else {
            return;
        };
        if !self.state().jobs.contains_key(&event.job) {
            drop(
                self.submitting
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
        let done = matches!(event.state, JobState::Done(_));
        let mut state = self.state();
        let group = state.jobs.get_mut(&event.job).and_then(|job| {
            job.newest = Some(Arc::clone(&text));
            job.done = done;
            job.group.clone()
        });
        // Events that were lost before they came here are told as missed, like those that are not kept any more.
        if state
            .kept
            .back()
            .is_some_and(|last| last.sequence + 1 != event.sequence)
        {
            state.kept.clear();
            state.bytes = 0;
            state.jobs.retain(|_, job| !job.done);
        }
        state.bytes += text.get().len() + OVERHEAD;
        state.kept.push_back(Kept {
            sequence: event.sequence,
            job: event.job,
            group,
            done,
            event: text,
        });
        // The newest stays, however large it is.
        while state.bytes > self.history && state.kept.len() > 1 {
            let Some(oldest) = state.kept.pop_front() else {
                break;
            };
            state.bytes -= oldest.event.get().len() + OVERHEAD;
            if oldest.done {
                state.jobs.remove(&oldest.job);
            }
        }
        self.newest
            .send_modify(|newest| newest.sequence = event.sequence);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(index: usize, error: &SubmitError) -> Problem {
    let code = match error {
        SubmitError::Full { .. } => Code::QueueFull,
        SubmitError::NoArchive(_) => Code::NoArchive,
        SubmitError::Kernel(_) => Code::Kernel,
        SubmitError::Plan(_) => Code::Plan,
        SubmitError::ShuttingDown => Code::ShuttingDown,
    };
    let message = match error {
        SubmitError::Full { .. } | SubmitError::ShuttingDown => error.to_string(),
        _ => format!("request {index}: {error}"),
    };
    Problem::new(code, message)
}
