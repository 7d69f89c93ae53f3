//! What has happened, in order, for whoever asks: also for what is some time ago.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Inner;
use super::state::Stage;
use super::types::{Event, JobId};

/// The last events.
#[derive(Debug)]
pub(super) struct History {
    /// Number of the first event that is kept.
    first: u64,
    kept: VecDeque<(JobId, Stage)>,
    limit: usize,
}

impl History {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            first: 1,
            kept: VecDeque::new(),
            limit: limit.max(1),
        }
    }

    /// Adds an event. Returns the job that nothing is known of any more.
    pub(super) fn push(&mut self, job: JobId, stage: Stage) -> Option<JobId> {
        self.kept.push_back((job, stage));
        if self.kept.len() <= self.limit {
            return None;
        }
        self.first += 1;
        let (job, stage) = self.kept.pop_front()?;
        matches!(stage, Stage::Done(_)).then_some(job)
    }

    /// The first event after `after`, or the first that is kept.
    fn next(&self, after: u64) -> Option<(u64, JobId, Stage)> {
        let sequence = after.saturating_add(1).max(self.first);
        let at = usize::try_from(sequence - self.first).ok()?;
        let (job, stage) = self.kept.get(at)?;
        Some((sequence, *job, stage.clone()))
    }
}

/// Events as they come. Ends when the evaluator has ended and all was told.
pub struct Events {
    inner: Arc<Inner>,
    after: u64,
}

impl Events {
    pub(super) fn new(inner: Arc<Inner>, after: u64) -> Self {
        Self { inner, after }
    }

    /// The next event, if it comes in time. `None` as well when none can come any more.
    pub fn next_within(&mut self, time: Duration) -> Option<Event> {
        self.wait(Some(Instant::now() + time))
    }

    fn wait(&mut self, until: Option<Instant>) -> Option<Event> {
        let after = self.after;
        let shared = &self.inner.shared;
        let (sequence, job, stage) = shared.history(until, |history| history.next(after))?;
        self.after = sequence;
        Some(Event {
            sequence,
            job,
            state: stage.told(),
        })
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.wait(None)
    }
}
