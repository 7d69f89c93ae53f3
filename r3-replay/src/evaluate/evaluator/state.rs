//! What all threads of an evaluator share: jobs, who does what next, and what has happened.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::EvaluatorError;
use super::equal::{CodeKey, Groups, Known};
use super::events::History;
use super::kernels::KernelEntry;
use super::options::EvaluatorOptions;
use super::types::{JobId, JobState, Request, Status, SubmitError};
use crate::evaluate::candidate::CandidateId;
use crate::evaluate::engine::Task;
use crate::evaluate::outcome::{CodeFacts, Cost, Outcome, Verdict};
use crate::evaluate::worker::{Made, Order};

/// Compiled jobs that wait for a device at most, before compiling pauses.
const AHEAD: usize = 256;

/// A job, and how far it is.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Arc<Request>,
    pub(super) entry: Arc<KernelEntry>,
    pub(super) candidate: CandidateId,
    pub(super) stage: Stage,
    pub(super) ready: Option<Arc<Ready>>,
    /// Since when it is in its stage.
    since: Instant,
    cost: Cost,
}

/// How far a job is.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Queued,
    Compiling,
    Waiting,
    /// It waits for the outcome of an equal one.
    Following,
    Running,
    Done(Arc<Outcome>),
}

/// A job that can run.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) task: Task,
    pub(super) key: CodeKey,
    pub(super) code: CodeFacts,
    pub(super) notes: Vec<String>,
}

/// Something that is wanted of any device's worker at once.
pub(super) struct Control {
    pub(super) order: Order,
    pub(super) reply: Sender<Result<Made, EvaluatorError>>,
}

/// A compile worker's next job.
pub(super) struct ToCompile {
    pub(super) id: JobId,
    pub(super) request: Arc<Request>,
    pub(super) entry: Arc<KernelEntry>,
    pub(super) candidate: CandidateId,
}

/// What a device's worker does next.
pub(super) enum ToRun {
    Control(Control),
    Job(JobId, Arc<Ready>, Arc<KernelEntry>),
}

/// What all threads share.
pub(super) struct Shared {
    state: Mutex<State>,
    to_compile: Condvar,
    to_run: Condvar,
    happened: Condvar,
    ending: Arc<AtomicBool>,
    queue_limit: usize,
    cancel_patience: Duration,
    started: Instant,
    compile_workers: usize,
    devices: usize,
}

struct State {
    next: u64,
    jobs: HashMap<JobId, Job>,
    queued: BTreeSet<(Reverse<i32>, JobId)>,
    waiting: BTreeSet<(Reverse<i32>, JobId)>,
    controls: VecDeque<Control>,
    groups: Groups,
    known: Known,
    history: History,
    /// Jobs that are not over.
    active: usize,
    compiling: usize,
    running: usize,
    /// Jobs that were cancelled while they ran, and since when.
    abandoned: HashMap<JobId, Instant>,
    verdicts: BTreeMap<&'static str, u64>,
    done: u64,
    equal: u64,
    compile_time: Duration,
    devices: Vec<DeviceState>,
    ended: bool,
}

/// What is known of a device's worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceState {
    pub(super) process: Option<u32>,
    pub(super) started: u64,
    pub(super) memory: (u64, u64),
    pub(super) busy: Duration,
}

impl Shared {
    pub(super) fn new(options: &EvaluatorOptions) -> Self {
        Self {
            state: Mutex::new(State {
                next: 0,
                jobs: HashMap::new(),
                queued: BTreeSet::new(),
                waiting: BTreeSet::new(),
                controls: VecDeque::new(),
                groups: Groups::default(),
                known: Known::default(),
                history: History::new(options.history),
                active: 0,
                compiling: 0,
                running: 0,
                abandoned: HashMap::new(),
                verdicts: BTreeMap::new(),
                done: 0,
                equal: 0,
                compile_time: Duration::ZERO,
                devices: vec![DeviceState::default(); options.devices.len()],
                ended: false,
            }),
            to_compile: Condvar::new(),
            to_run: Condvar::new(),
            happened: Condvar::new(),
            ending: Arc::default(),
            queue_limit: options.queue_limit,
            cancel_patience: options.cancel_patience,
            started: Instant::now(),
            compile_workers: options.compile.workers.max(1),
            devices: options.devices.len(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of another thread leaves these values usable: what is half done is one job.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything is to end.
    pub(super) fn ending(&self) -> Arc<AtomicBool> {
        self.ending.clone()
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    pub(super) fn submit(
        &self,
        request: Request,
        entry: Arc<KernelEntry>,
    ) -> Result<JobId, SubmitError> {
        let candidate = request.candidate.id();
        let mut state = self.state();
        if self.is_ending() {
            return Err(SubmitError::ShuttingDown);
        }
        if state.active >= self.queue_limit {
            return Err(SubmitError::Full {
                limit: self.queue_limit,
            });
        }
        state.next += 1;
        let id = JobId(state.next);
        state.active += 1;
        state.queued.insert((Reverse(request.priority.0), id));
        let job = Job {
            request: Arc::new(request),
            entry,
            candidate,
            stage: Stage::Queued,
            ready: None,
            since: Instant::now(),
            cost: Cost::default(),
        };
        state.jobs.insert(id, job);
        state.enter(id, Stage::Queued);
        self.to_compile.notify_one();
        self.happened.notify_all();
        Ok(id)
    }

    pub(super) fn cancel(&self, id: JobId) -> bool {
        let mut state = self.state();
        let stage = match state.jobs.get(&id) {
            None => return false,
            Some(job) => job.stage.clone(),
        };
        match stage {
            Stage::Done(_) => return false,
            Stage::Running => {
                state.abandoned.insert(id, Instant::now());
            }
            Stage::Queued | Stage::Compiling | Stage::Waiting | Stage::Following => {}
        }
        state.cancel(id, "it was cancelled");
        self.wake();
        true
    }

    pub(super) fn job(&self, id: JobId) -> Option<JobState> {
        Some(self.state().jobs.get(&id)?.stage.told())
    }

    /// The next job to be compiled. Waits for one; `None` at the end.
    pub(super) fn next_to_compile(&self) -> Option<ToCompile> {
        let mut state = self.state();
        loop {
            if self.is_ending() {
                return None;
            }
            let next = state.queued.first().copied();
            // Far ahead of the devices, only what is more urgent than all that waits is compiled.
            let held = state.waiting.len() >= AHEAD
                && match (next, state.waiting.first()) {
                    (Some((next, _)), Some((first, _))) => next >= *first,
                    _ => false,
                };
            if let Some((priority, id)) = next.filter(|_| !held) {
                state.queued.remove(&(priority, id));
                state.compiling += 1;
                state.settle(id, |cost, ms| cost.queued = ms);
                state.enter(id, Stage::Compiling);
                self.happened.notify_all();
                if let Some(job) = state.jobs.get(&id) {
                    return Some(ToCompile {
                        id,
                        request: job.request.clone(),
                        entry: job.entry.clone(),
                        candidate: job.candidate,
                    });
                }
                continue;
            }
            state = self
                .to_compile
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A job was compiled, or is over without that.
    pub(super) fn compiled(
        &self,
        id: JobId,
        took: Duration,
        (compile_ms, cached): (f64, bool),
        result: Result<Ready, Outcome>,
    ) {
        let mut state = self.state();
        state.compiling = state.compiling.saturating_sub(1);
        state.compile_time += took;
        let Some(job) = state.jobs.get_mut(&id) else {
            return;
        };
        if let Stage::Done(_) = job.stage {
            return;
        }
        job.cost.compile = compile_ms;
        job.cost.cached = cached;
        job.since = Instant::now();
        match result {
            Err(outcome) => state.complete(id, outcome),
            Ok(ready) => {
                let ready = Arc::new(ready);
                job.ready = Some(ready.clone());
                state.place(id, &ready);
            }
        }
        self.wake();
    }

    /// What a device does next. Waits for it; `None` at the end.
    pub(super) fn next_to_run(&self) -> Option<ToRun> {
        let mut state = self.state();
        loop {
            if self.is_ending() {
                return None;
            }
            if let Some(control) = state.controls.pop_front() {
                return Some(ToRun::Control(control));
            }
            if let Some((_, id)) = state.waiting.pop_first() {
                state.settle(id, |cost, ms| cost.waiting = ms);
                let found = state
                    .jobs
                    .get(&id)
                    .and_then(|job| Some((job.ready.clone()?, job.entry.clone())));
                if let Some((ready, entry)) = found {
                    state.running += 1;
                    state.enter(id, Stage::Running);
                    self.to_compile.notify_one();
                    self.happened.notify_all();
                    return Some(ToRun::Job(id, ready, entry));
                }
                continue;
            }
            state = self
                .to_run
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether nobody waits for a job that runs any more, or not long enough to end the worker for it.
    pub(super) fn is_abandoned(&self, id: JobId) -> bool {
        let state = self.state();
        state
            .abandoned
            .get(&id)
            .is_some_and(|since| since.elapsed() >= self.cancel_patience)
            && !state.groups.has_followers(id)
    }

    /// A job ran.
    pub(super) fn ran(&self, id: JobId, ready: &Ready, outcome: Outcome) {
        let mut state = self.state();
        state.running = state.running.saturating_sub(1);
        if state.abandoned.remove(&id).is_some() {
            state.pass_on(id, ready, outcome);
        } else {
            state.complete(id, outcome);
        }
        self.wake();
    }

    /// Has any device do something at once, and waits for it.
    pub(super) fn ask(
        &self,
        order: Order,
        answer: Sender<Result<Made, EvaluatorError>>,
    ) -> Result<(), EvaluatorError> {
        let mut state = self.state();
        if self.is_ending() {
            return Err(EvaluatorError::ShuttingDown);
        }
        state.controls.push_back(Control {
            order,
            reply: answer,
        });
        self.to_run.notify_one();
        Ok(())
    }

    /// Changes what is known of a device.
    pub(super) fn device(&self, number: usize, change: impl FnOnce(&mut DeviceState)) {
        if let Some(device) = self.state().devices.get_mut(number) {
            change(device);
        }
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        let state = self.state();
        state.devices.iter().filter_map(|d| d.process).collect()
    }

    pub(super) fn status(&self) -> Status {
        let state = self.state();
        let uptime = self.started.elapsed().as_secs_f64();
        let part = |busy: Duration, of: usize| {
            (busy.as_secs_f64() / (uptime * of.max(1) as f64).max(1e-9)).clamp(0.0, 1.0)
        };
        let sum = |of: fn(&DeviceState) -> u64| state.devices.iter().map(of).sum();
        let following = state.groups.following();
        Status {
            queued: state.queued.len(),
            compiling: state.compiling,
            waiting: state.waiting.len() + following,
            running: state.running,
            done: state.done,
            verdicts: state
                .verdicts
                .iter()
                .map(|(word, count)| ((*word).to_owned(), *count))
                .collect(),
            cache_hits: 0,
            cache_misses: 0,
            equal: state.equal,
            restarts: sum(|device| device.started.saturating_sub(1)),
            compilers_busy: part(state.compile_time, self.compile_workers),
            devices_busy: part(state.devices.iter().map(|d| d.busy).sum(), self.devices),
            uptime,
            worker_memory: sum(|device| device.memory.0),
            device_memory: sum(|device| device.memory.1),
            archives: Vec::new(),
        }
    }

    /// Lets everything end: what waits is cancelled.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        let mut state = self.state();
        state.controls.clear();
        let mut open: Vec<JobId> = state
            .jobs
            .iter()
            .filter(|(_, job)| !matches!(job.stage, Stage::Done(_)))
            .map(|(id, _)| *id)
            .collect();
        open.sort_unstable();
        for id in open {
            state.cancel(id, "the evaluator was shut down");
        }
        drop(state);
        self.wake();
    }

    /// Everything has ended: no event comes any more.
    pub(super) fn ended(&self) {
        self.state().ended = true;
        self.happened.notify_all();
    }

    fn wake(&self) {
        self.to_compile.notify_all();
        self.to_run.notify_all();
        self.happened.notify_all();
    }

    /// Reads the history: waits until `read` finds something, nothing more can come (`None`), or the time is over.
    pub(super) fn history<T>(
        &self,
        until: Option<Instant>,
        mut read: impl FnMut(&History) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(found) = read(&state.history) {
                return Some(found);
            }
            if state.ended {
                return None;
            }
            state = match until {
                None => self
                    .happened
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let waited = self.happened.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Stage {
    pub(super) fn told(&self) -> JobState {
        match self {
            Self::Queued => JobState::Queued,
            Self::Compiling => JobState::Compiling,
            Self::Waiting | Self::Following => JobState::Waiting,
            Self::Running => JobState::Running,
            Self::Done(outcome) => JobState::Done(Box::new((**outcome).clone())),
        }
    }
}

impl State {
    /// A job enters a stage, and everybody is told.
    fn enter(&mut self, id: JobId, stage: Stage) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.stage = stage.clone();
            job.since = Instant::now();
        }
        if let Some(forgotten) = self.history.push(id, stage) {
            self.jobs.remove(&forgotten);
        }
    }

    /// Books the time that a job was in its stage.
    fn settle(&mut self, id: JobId, book: impl FnOnce(&mut Cost, f64)) {
        if let Some(job) = self.jobs.get_mut(&id) {
            let ms = job.since.elapsed().as_secs_f64() * 1e3;
            book(&mut job.cost, ms);
        }
    }

    /// A compiled job: an equal one has its outcome, or will have it, or it runs.
    fn place(&mut self, id: JobId, ready: &Ready) {
        let plan = &ready.task.plan;
        if !plan.again {
            if let Some(known) = self.known.find(&ready.key, plan) {
                let outcome = self.copied(id, &known);
                self.equal += 1;
                return self.complete(id, outcome);
            }
            if self.groups.follow(&ready.key, plan, id) {
                return self.enter(id, Stage::Following);
            }
        }
        self.groups.lead(&ready.key, plan, id);
        self.wait(id);
    }

    /// A job waits for a device.
    fn wait(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get(&id) {
            self.waiting.insert((Reverse(job.request.priority.0), id));
        }
        self.enter(id, Stage::Waiting);
    }

    /// The outcome of equal code, as that of a job.
    fn copied(&self, id: JobId, of: &Outcome) -> Outcome {
        let mut outcome = of.clone();
        let Some(job) = self.jobs.get(&id) else {
            return outcome;
        };
        let cost = &mut outcome.cost;
        *cost = Cost {
            waiting: job.since.elapsed().as_secs_f64() * 1e3,
            ..Cost::default()
        };
        if let Some(ready) = &job.ready {
            let blocks = of
                .code
                .as_ref()
                .and_then(|code| code.blocks_per_multiprocessor);
            outcome.code = Some(CodeFacts {
                blocks_per_multiprocessor: blocks,
                equal_to: Some(of.candidate),
                ..ready.code.clone()
            });
            outcome.guards.clone_from(&ready.task.guards);
            outcome.notes.clone_from(&ready.notes);
            let own = of.notes.iter().filter(|note| !ready.notes.contains(note));
            outcome.notes.extend(own.cloned());
        }
        outcome.candidate = job.candidate;
        outcome
    }

    /// A job is over.
    fn complete(&mut self, id: JobId, mut outcome: Outcome) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if let Stage::Done(_) = job.stage {
            return;
        }
        outcome.candidate = job.candidate;
        let cost = &mut outcome.cost;
        cost.queued = job.cost.queued;
        cost.compile = job.cost.compile;
        cost.cached = job.cost.cached;
        if job.cost.waiting > 0.0 {
            cost.waiting = job.cost.waiting;
        }
        let ready = job.ready.clone();
        self.done += 1;
        self.active = self.active.saturating_sub(1);
        *self.verdicts.entry(outcome.verdict.word()).or_default() += 1;
        let outcome = Arc::new(outcome);
        self.enter(id, Stage::Done(outcome.clone()));
        if let Some(ready) = ready {
            self.resolve(id, &ready, &outcome);
        }
    }

    /// Those who wait for the outcome of a job get it, or one of them runs in its place.
    fn resolve(&mut self, leader: JobId, ready: &Ready, outcome: &Arc<Outcome>) {
        let Some(followers) = self.groups.end(&ready.key, leader) else {
            return;
        };
        if matches!(outcome.verdict, Verdict::Unjudged | Verdict::Cancelled) {
            // That says nothing of the code.
            let mut rest = followers.into_iter();
            if let Some(next) = rest.next() {
                let plan = self
                    .jobs
                    .get(&next)
                    .and_then(|job| job.ready.clone())
                    .map(|ready| ready.task.plan.clone());
                if let Some(plan) = plan {
                    self.groups
                        .lead_all(&ready.key, &plan, next, rest.collect());
                    self.wait(next);
                }
            }
            return;
        }
        // A copy stands for what it was copied from.
        let copy = outcome
            .code
            .as_ref()
            .is_some_and(|code| code.equal_to.is_some());
        if !copy {
            self.known
                .insert(ready.key.clone(), ready.task.plan.clone(), outcome.clone());
        }
        for id in followers {
            let copied = self.copied(id, outcome);
            self.equal += 1;
            self.complete(id, copied);
        }
    }

    /// The outcome of a job that was cancelled while it ran: somebody who waited for it may take it.
    fn pass_on(&mut self, id: JobId, ready: &Ready, outcome: Outcome) {
        let Some(mut followers) = self.groups.end(&ready.key, id) else {
            return;
        };
        if followers.is_empty() {
            return;
        }
        let heir = followers.remove(0);
        self.groups
            .lead_all(&ready.key, &ready.task.plan, heir, followers);
        self.complete(heir, outcome);
    }

    /// A job is over since nobody wants it any more.
    fn cancel(&mut self, id: JobId, why: &str) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let place = (Reverse(job.request.priority.0), id);
        let running = matches!(job.stage, Stage::Running);
        let outcome = Outcome::without_run(job.candidate, Verdict::Cancelled, why);
        let ready = job.ready.clone();
        self.queued.remove(&place);
        self.waiting.remove(&place);
        if running {
            // Its group lives on with what runs: see `pass_on`.
            self.finish_cancelled(id, outcome);
            return;
        }
        if let Some(ready) = &ready
            && self.groups.leave(&ready.key, id)
        {
            self.finish_cancelled(id, outcome);
            return;
        }
        self.complete(id, outcome);
    }

    /// As [`Self::complete`], for a job whose group does not end with it.
    fn finish_cancelled(&mut self, id: JobId, outcome: Outcome) {
        self.done += 1;
        self.active = self.active.saturating_sub(1);
        *self.verdicts.entry(outcome.verdict.word()).or_default() += 1;
        self.enter(id, Stage::Done(Arc::new(outcome)));
    }
}
