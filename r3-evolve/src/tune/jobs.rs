//! Evaluations at an evaluator: how many are under way, what is done when it fails.
//!
//! A candidate that fails is an outcome. What fails of the machine costs no candidate anything: a full queue is waited for, an
//! evaluator that is gone is started again and asked again for everything that it owed, and what it could not judge is tried
//! again a few times.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use r3_replay::evaluate::evaluator::{JobId, Priority, Status};
use r3_replay::evaluate::outcome::Unit;
use r3_replay::evaluate::{Candidate, Outcome, Plan, Verdict};

use super::clock::Clock;
use super::evaluate::{Artifact, Ask, Evaluate, EvaluateError};
use super::progress::Watch;
use crate::store::{Evaluation, EvaluationNumber};

/// What is under way.
pub(crate) struct Jobs<'a> {
    evaluator: &'a mut dyn Evaluate,
    clock: &'a dyn Clock,
    retries: u32,
    outage: f64,
    waiting: VecDeque<Waiting>,
    running: HashMap<JobId, Waiting>,
    /// Seconds that were spent waiting for an evaluator that was gone.
    pub paused: f64,
    /// How often it was.
    pub outages: u64,
    /// How often it was since it last judged something.
    fruitless: u32,
    /// Candidates that were tried again.
    pub retried: u64,
}

struct Waiting {
    evaluation: EvaluationNumber,
    ask: Ask,
    tries: u32,
    not_before: f64,
}

/// Which code ran first matters where time is measured. A count is the same, and which one was first depends on what the
/// device had done before: it is left out, so that a run that goes on has the same samples.
fn without_order(outcome: &mut Outcome) {
    let timings = outcome
        .launches
        .iter_mut()
        .flat_map(|launch| &mut launch.times)
        .filter(|timing| timing.unit == Unit::Cost);
    for sample in timings.flat_map(|timing| &mut timing.samples) {
        sample.candidate_first = false;
    }
}

/// How often an evaluator may be lost in a row with nothing judged in between: one that dies soon after each start would be
/// started again without end.
const MOST_FRUITLESS: u32 = 5;

/// How long a candidate waits before it is tried again, in seconds, the first time.
const PAUSE: f64 = 0.5;

impl<'a> Jobs<'a> {
    pub fn new(
        evaluator: &'a mut dyn Evaluate,
        clock: &'a dyn Clock,
        retries: u32,
        outage: f64,
    ) -> Self {
        Self {
            evaluator,
            clock,
            retries,
            outage,
            waiting: VecDeque::new(),
            running: HashMap::new(),
            paused: 0.0,
            outages: 0,
            fruitless: 0,
            retried: 0,
        }
    }

    /// The code of a candidate.
    pub fn artifact(
        &mut self,
        candidate: &Candidate,
        plan: &Plan,
        watch: &mut dyn Watch,
    ) -> Result<Artifact, EvaluateError> {
        match self.evaluator.artifact(candidate, plan) {
            Err(EvaluateError::Gone(reason)) => {
                self.recover(&reason, watch)?;
                self.evaluator.artifact(candidate, plan)
            }
            done => done,
        }
    }

    /// Puts an evaluation into the line.
    pub fn add(&mut self, evaluation: &Evaluation, priority: i32) {
        self.waiting.push_back(Waiting {
            evaluation: evaluation.number,
            ask: Ask {
                candidate: evaluation.candidate.clone(),
                plan: evaluation.plan.clone(),
                priority: Priority(priority),
            },
            tries: 0,
            not_before: 0.0,
        });
    }

    /// Evaluations that have no outcome.
    pub fn len(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands over what the evaluator has room for, and waits for outcomes.
    pub fn step(
        &mut self,
        limit: Duration,
        watch: &mut dyn Watch,
    ) -> Result<Vec<(EvaluationNumber, Outcome)>, EvaluateError> {
        match self.try_step(limit) {
            Err(EvaluateError::Gone(reason)) => {
                self.recover(&reason, watch)?;
                Ok(Vec::new())
            }
            done => done,
        }
    }

    fn try_step(
        &mut self,
        limit: Duration,
    ) -> Result<Vec<(EvaluationNumber, Outcome)>, EvaluateError> {
        let mut later = VecDeque::new();
        while let Some(next) = self.waiting.pop_front() {
            if next.not_before > self.clock.now() {
                later.push_back(next);
                continue;
            }
            match self.evaluator.submit(&next.ask) {
                Ok(job) => {
                    self.running.insert(job, next);
                }
                Err(error) => {
                    self.waiting.push_front(next);
                    while let Some(next) = later.pop_back() {
                        self.waiting.push_front(next);
                    }
                    if error == EvaluateError::Full {
                        break;
                    }
                    return Err(error);
                }
            }
        }
        self.waiting.extend(later);
        if self.running.is_empty() {
            if !self.waiting.is_empty() {
                self.clock.sleep(limit);
            }
            return Ok(Vec::new());
        }
        let mut outcomes = Vec::new();
        for (job, mut outcome) in self.evaluator.finished(limit)? {
            self.fruitless = 0;
            without_order(&mut outcome);
            let Some(mut done) = self.running.remove(&job) else {
                continue;
            };
            if outcome.verdict == Verdict::Unjudged && done.tries < self.retries {
                done.not_before = self.clock.now() + PAUSE * f64::from(1u32 << done.tries.min(10));
                done.tries += 1;
                self.retried += 1;
                self.waiting.push_back(done);
            } else {
                outcomes.push((done.evaluation, outcome));
            }
        }
        // In the order in which they were asked for, whatever order they came in.
        outcomes.sort_by_key(|(evaluation, _)| *evaluation);
        Ok(outcomes)
    }

    /// The evaluator is gone: waits for another one, and puts what it owed back into the line.
    fn recover(&mut self, reason: &str, watch: &mut dyn Watch) -> Result<(), EvaluateError> {
        let mut owed: Vec<Waiting> = self.running.drain().map(|(_, waiting)| waiting).collect();
        owed.sort_by_key(|waiting| std::cmp::Reverse(waiting.evaluation));
        for waiting in owed {
            self.waiting.push_front(waiting);
        }
        self.outages += 1;
        self.fruitless += 1;
        if self.fruitless > MOST_FRUITLESS {
            return Err(EvaluateError::Gone(format!(
                "the evaluator was lost {} times, and nothing was judged in between: {reason}. The run is kept: `r3-evolve tune --resume` \
                 or `r3-evolve resume` goes on",
                self.fruitless
            )));
        }
        watch.say(&format!(
            "the evaluator is gone ({reason}); the search waits for it"
        ));
        let since = self.clock.now();
        let mut pause = PAUSE;
        loop {
            match self.evaluator.again() {
                Ok(()) => break,
                Err(error) => {
                    let waited = self.clock.now() - since;
                    if waited >= self.outage || watch.leave() {
                        self.paused += waited;
                        return Err(EvaluateError::Gone(format!(
                            "{reason}; it did not come back within {waited:.0} s: {error}. The run is kept: `r3-evolve tune --resume` or `r3-evolve resume` goes on"
                        )));
                    }
                    self.clock
                        .sleep(Duration::from_secs_f64(pause.min(self.outage - waited)));
                    pause = (pause * 2.0).min(30.0);
                }
            }
        }
        self.paused += self.clock.now() - since;
        watch.say("the evaluator is back");
        Ok(())
    }

    /// Nothing more is wanted: what runs is cancelled. Returns the evaluations that have no outcome.
    pub fn cancel(&mut self) -> Vec<EvaluationNumber> {
        let jobs: Vec<JobId> = self.running.keys().copied().collect();
        // One that cannot be reached has nothing to cancel.
        let _ = self.evaluator.cancel(&jobs);
        let mut left: Vec<EvaluationNumber> = self
            .waiting
            .drain(..)
            .chain(self.running.drain().map(|(_, waiting)| waiting))
            .map(|waiting| waiting.evaluation)
            .collect();
        left.sort();
        left
    }

    /// How busy the evaluator is, if it says.
    pub fn status(&mut self) -> Option<Status> {
        self.evaluator.status().ok()
    }
}
