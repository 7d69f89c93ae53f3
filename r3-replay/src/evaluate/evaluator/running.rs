//! What the thread of a device does: gives its worker orders, and says what it means when there is no answer.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use r3_archive::model::LaunchId;
use xxhash_rust::xxh3::xxh3_128;

use super::kernels::KernelEntry;
use super::state::{Control, Ready, ToRun};
use super::types::{DeviceChoice, JobId};
use super::{EvaluatorError, Inner};
use crate::evaluate::candidate::{CandidateId, LaunchChange};
use crate::evaluate::describe::DeviceDescription;
use crate::evaluate::engine::resident::poisoned_buffer;
use crate::evaluate::engine::{Lost, Task, TaskResult};
use crate::evaluate::outcome::{CodeFacts, Outcome, Verdict};
use crate::evaluate::plan::Plan;
use crate::evaluate::worker::{ArchiveRef, Ended, Made, Order, Trouble, Worker};

/// Times that a worker is started anew, in a row, since the original faulted with a buffer poisoned.
const MOST_LEFT_OUT: u32 = 64;

/// Times that a worker may die with a candidate before that is held against it: once may be chance, and who is killed was
/// killed by somebody, unless it happens again and again.
const MOST_DEATHS: u32 = 1;
const MOST_KILLS: u32 = 4;

/// What an engine's words have in them when it is the candidate that runs, and for inputs that were changed.
const CANDIDATE: &str = "the candidate";
const PERTURBED: &str = "perturbed inputs";

/// How long is waited before a worker that could not be started is started again.
const RESTS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Opens the device, tells so, and runs what there is to run until the end.
pub(super) fn work(
    number: usize,
    choice: DeviceChoice,
    mut worker: Worker,
    ending: &AtomicBool,
    opened: &Sender<Result<DeviceDescription, EvaluatorError>>,
    begin: &Receiver<Arc<Inner>>,
) {
    let is_ending = || ending.load(Ordering::Relaxed);
    let told = worker
        .open(&is_ending)
        .map_err(|ended| EvaluatorError::Device {
            device: choice.to_string(),
            reason: ended.to_string(),
        });
    _ = opened.send(told);
    // Without the rest there is nothing to do.
    let Ok(inner) = begin.recv() else {
        return;
    };
    let mut device = Device {
        number,
        inner: &inner,
        worker,
        ready: HashSet::new(),
        ready_archive: None,
        generation: 0,
        used: 0,
    };
    device.tell(Duration::ZERO);
    while let Some(next) = inner.shared.next_to_run() {
        let begun = Instant::now();
        match next {
            ToRun::Control(control) => {
                device.control(control);
                device.tell(begun.elapsed());
            }
            ToRun::Job(id, ready, entry) => {
                let run = AssertUnwindSafe(|| device.job(id, &ready, &entry));
                let outcome = catch_unwind(run).unwrap_or_else(|_| {
                    Outcome::without_run(
                        CandidateId(0),
                        Verdict::Unjudged,
                        "the evaluator failed while the candidate ran: see its log",
                    )
                });
                // Before the outcome: who hears of it may ask for the status.
                device.tell(begun.elapsed());
                inner.shared.ran(id, &ready, outcome);
            }
        }
    }
    device.worker.end();
    inner.shared.device(number, |device| device.process = None);
}

/// A device with its worker.
struct Device<'i> {
    number: usize,
    inner: &'i Inner,
    worker: Worker,
    /// Launches that the worker's process has ready, of this archive.
    ready: HashSet<LaunchId>,
    ready_archive: Option<ArchiveRef>,
    /// The process that has them.
    generation: u64,
    /// The last process that ran a candidate which others may not follow where a fresh process is asked for.
    used: u64,
}

/// Why a candidate has no result.
enum NoResult {
    /// It is the candidate's.
    Verdict(Verdict, String),
    /// It is the machine's, or the original's.
    Machine(String),
    /// Nobody wants it any more.
    Interrupted,
}

impl Device<'_> {
    /// Tells the others how its worker is.
    fn tell(&mut self, busy: Duration) {
        let (process, started) = (self.worker.id(), self.worker.started());
        let memory = self.worker.memory();
        self.inner.shared.device(self.number, |device| {
            device.process = process;
            device.started = started;
            device.memory = memory;
            device.busy += busy;
        });
    }

    /// Something that is wanted at once.
    fn control(&mut self, control: Control) {
        let result = match &control.order {
            Order::Prepare(archive, kernel, launches) => {
                self.prepare(archive, *kernel, launches, &|| {
                    self.inner.shared.is_ending()
                })
            }
            order => {
                let give_up = || self.inner.shared.is_ending();
                self.forget_ready();
                match self.order(order, &give_up) {
                    Ok(Ok(made)) => Ok(made),
                    Ok(Err(trouble)) => Err(EvaluatorError::Machine(trouble.to_string())),
                    Err(ended) => Err(EvaluatorError::Machine(ended.to_string())),
                }
            }
        };
        // Who asked may be gone.
        _ = control.reply.send(result);
    }

    /// What its process has ready is forgotten: another archive needs the device, or it is another process.
    fn forget_ready(&mut self) {
        self.ready.clear();
        self.ready_archive = None;
    }

    /// Has an order done, and keeps an eye on which process it is.
    fn order(
        &mut self,
        order: &Order,
        give_up: &dyn Fn() -> bool,
    ) -> Result<Result<Made, Trouble>, Ended> {
        let answer = self.worker.order(order, give_up);
        if self.worker.started() != self.generation || answer.is_err() {
            self.forget_ready();
            self.generation = self.worker.started();
        }
        let process = self.worker.id();
        self.inner
            .shared
            .device(self.number, |device| device.process = process);
        answer.map(|answer| answer.result)
    }

    /// Makes launches ready in the worker's process, whatever it takes: a buffer that the original needs as it is, is left
    /// alone; what fails otherwise is tried twice.
    fn prepare(
        &mut self,
        archive: &ArchiveRef,
        kernel: r3_archive::model::KernelId,
        launches: &[LaunchId],
        give_up: &dyn Fn() -> bool,
    ) -> Result<Made, EvaluatorError> {
        let order = Order::Prepare(archive.clone(), kernel, launches.to_vec());
        let mut left_out = 0;
        let mut failed = 0;
        loop {
            let reason = match self.order(&order, give_up) {
                Ok(Ok(Made::Prepared(prepared))) => {
                    if self.ready_archive.as_ref() != Some(archive) {
                        self.forget_ready();
                        self.ready_archive = Some(archive.clone());
                    }
                    self.generation = self.worker.started();
                    self.ready.extend(launches);
                    return Ok(Made::Prepared(prepared));
                }
                Ok(Ok(_)) => "the device's worker answered something else".to_owned(),
                Ok(Err(Trouble::Refused(reason))) => return Err(EvaluatorError::Machine(reason)),
                Ok(Err(Trouble::Lost(Lost {
                    poisoned: Some(buffer),
                    ..
                }))) if left_out < MOST_LEFT_OUT => {
                    left_out += 1;
                    self.worker.setup().leave_out.push(buffer);
                    continue;
                }
                Ok(Err(Trouble::Lost(lost))) => lost.reason,
                Err(Ended::Interrupted) => return Err(EvaluatorError::ShuttingDown),
                Err(Ended::Passed { what, .. })
                    if left_out < MOST_LEFT_OUT && poisoned_buffer(&what).is_some() =>
                {
                    left_out += 1;
                    let buffer = poisoned_buffer(&what);
                    self.worker.setup().leave_out.extend(buffer);
                    continue;
                }
                Err(ended) => {
                    if let Ended::NotStarted(_) = ended {
                        rest(failed, give_up);
                    }
                    ended.to_string()
                }
            };
            failed += 1;
            if failed > 2 {
                return Err(EvaluatorError::Machine(format!(
                    "the launches could not be made ready: {reason}"
                )));
            }
        }
    }

    /// Runs a job.
    fn job(&mut self, id: JobId, ready: &Ready, entry: &KernelEntry) -> Outcome {
        let inner = self.inner;
        let give_up = || inner.shared.is_ending() || inner.shared.is_abandoned(id);
        let begun = Instant::now();
        let started = self.worker.started();
        // Candidates that ask for a fresh process share one, as long as each was right.
        let fresh = ready.task.plan.fresh_process;
        let renewed = fresh && self.used == started;
        if renewed {
            self.worker.end();
        }
        let result = self.judge(&ready.task, &entry.reference, &give_up);
        let right = result
            .as_ref()
            .is_ok_and(|result| result.verdict.is_right());
        if !fresh || !right {
            self.used = self.worker.started();
        }
        // The start that was asked for is none that the candidate caused.
        let restarts = (self.worker.started() - started).saturating_sub(u64::from(renewed));
        let candidate = CandidateId(0);
        let mut outcome = match result {
            Ok(result) => outcome_of(ready, result),
            Err(NoResult::Verdict(verdict, reason)) => {
                Outcome::without_run(candidate, verdict, reason)
            }
            Err(NoResult::Machine(reason)) => {
                Outcome::without_run(candidate, Verdict::Unjudged, reason)
            }
            Err(NoResult::Interrupted) => {
                Outcome::without_run(candidate, Verdict::Cancelled, "it was cancelled")
            }
        };
        if outcome.code.is_none() && !ready.code.image.is_empty() {
            outcome.code = Some(ready.code.clone());
        }
        outcome.guards.clone_from(&ready.task.guards);
        let mut notes = ready.notes.clone();
        notes.append(&mut outcome.notes);
        outcome.notes = notes;
        outcome.cost.device = begun.elapsed().as_secs_f64() * 1e3;
        outcome.cost.restarts = u32::try_from(restarts).unwrap_or(u32::MAX);
        outcome
    }

    fn judge(
        &mut self,
        task: &Task,
        archive: &ArchiveRef,
        give_up: &dyn Fn() -> bool,
    ) -> Result<TaskResult, NoResult> {
        let order = Order::Evaluate(archive.clone(), Box::new(task.clone()));
        let (mut deaths, mut kills, mut failures) = (0, 0, 0);
        loop {
            self.ready_for(task, archive, give_up)?;
            match self.order(&order, give_up) {
                Ok(Ok(Made::Result(result))) => return Ok(*result),
                Ok(Ok(_)) => {
                    return Err(NoResult::Machine(
                        "the device's worker answered something else".to_owned(),
                    ));
                }
                Ok(Err(Trouble::Refused(reason))) => return Err(NoResult::Machine(reason)),
                Ok(Err(Trouble::Lost(lost))) if lost.by_candidate => {
                    return Err(NoResult::Verdict(Verdict::Fault, lost.reason));
                }
                Ok(Err(Trouble::Lost(lost))) => {
                    if let Some(buffer) = lost.poisoned {
                        self.worker.setup().leave_out.push(buffer);
                    }
                    failures += 1;
                    if failures > 1 {
                        return Err(NoResult::Machine(lost.reason));
                    }
                }
                Err(Ended::Passed { limit, what }) if !what.contains(CANDIDATE) => {
                    failures += 1;
                    if what.contains(PERTURBED) {
                        // Other inputs can make it loop: the launches do without them.
                        let tuned = task.plan.launches.iter();
                        let left = tuned.map(|w| (w.launch, PERTURBED.to_owned()));
                        self.worker.setup().leave_out.extend(left);
                    }
                    if failures > 1 {
                        let ended = Ended::Passed { limit, what };
                        return Err(NoResult::Machine(ended.to_string()));
                    }
                }
                Err(ended @ (Ended::Passed { .. } | Ended::Silent { .. })) => {
                    return Err(NoResult::Verdict(Verdict::Timeout, ended.to_string()));
                }
                Err(Ended::Interrupted) => return Err(NoResult::Interrupted),
                Err(ended @ Ended::NotStarted(_)) => {
                    failures += 1;
                    if failures > 1 {
                        return Err(NoResult::Machine(ended.to_string()));
                    }
                }
                Err(ended @ Ended::Died { signal, .. }) => {
                    match signal {
                        Some(libc::SIGKILL) => kills += 1,
                        _ => deaths += 1,
                    }
                    if deaths > MOST_DEATHS || kills > MOST_KILLS {
                        return Err(self.whose_fault(task, archive, &ended, give_up));
                    }
                }
            }
        }
    }

    /// Makes the task's launches ready, where they are not: what goes wrong there is not the candidate's.
    fn ready_for(
        &mut self,
        task: &Task,
        archive: &ArchiveRef,
        give_up: &dyn Fn() -> bool,
    ) -> Result<(), NoResult> {
        if !self.worker.is_alive() || self.ready_archive.as_ref() != Some(archive) {
            self.forget_ready();
        }
        let tuned = task.plan.launches.iter().map(|weighted| weighted.launch);
        let all = tuned.chain(task.plan.held_out.iter().copied());
        let missing: Vec<LaunchId> = all.filter(|id| !self.ready.contains(id)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        match self.prepare(archive, task.kernel, &missing, give_up) {
            Ok(_) => Ok(()),
            Err(_) if give_up() => Err(NoResult::Interrupted),
            Err(error) => Err(NoResult::Machine(error.to_string())),
        }
    }

    /// The worker died each time with a candidate. If it does with the original as well, that says nothing of the candidate.
    fn whose_fault(
        &mut self,
        task: &Task,
        archive: &ArchiveRef,
        ended: &Ended,
        give_up: &dyn Fn() -> bool,
    ) -> NoResult {
        let original = Task {
            code: None,
            change: LaunchChange::default(),
            guards: Vec::new(),
            plan: Plan {
                launches: task.plan.launches.clone(),
                ..Plan::judge_only()
            },
            kernel: task.kernel,
            idle: Vec::new(),
        };
        if let Err(no_result) = self.ready_for(&original, archive, give_up) {
            return no_result;
        }
        match self.order(
            &Order::Evaluate(archive.clone(), Box::new(original)),
            give_up,
        ) {
            Ok(Ok(_)) => NoResult::Verdict(
                Verdict::Fault,
                format!("{ended}; it did so each time, and not with the original"),
            ),
            Ok(Err(trouble)) => NoResult::Machine(format!("{ended}; with the original: {trouble}")),
            Err(Ended::Interrupted) => NoResult::Interrupted,
            Err(other) => NoResult::Machine(format!("{ended}; with the original: {other}")),
        }
    }
}

/// Waits before a worker is started again that could not be started.
fn rest(failed: usize, give_up: &dyn Fn() -> bool) {
    let until = Instant::now() + RESTS.get(failed).copied().unwrap_or_default();
    while Instant::now() < until && !give_up() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An engine's result, as that of a candidate.
fn outcome_of(ready: &Ready, result: TaskResult) -> Outcome {
    let image = format!("{:032x}", result.image);
    let mut outcome = Outcome::without_run(
        CandidateId(0),
        result.verdict,
        result.reason.unwrap_or_default(),
    );
    let sent = ready.task.code.as_ref().map(|image| xxh3_128(&image.bytes));
    if sent.is_some_and(|sent| sent != result.image) && result.image != 0 {
        outcome.verdict = Verdict::Unjudged;
        outcome.reason = Some("other code was run than was sent to the device".to_owned());
        return outcome;
    }
    outcome.code = Some(CodeFacts {
        image: if ready.code.image.is_empty() {
            image
        } else {
            ready.code.image.clone()
        },
        blocks_per_multiprocessor: result.blocks_per_multiprocessor,
        ..ready.code.clone()
    });
    outcome.launches = result.launches;
    outcome.score = result.score;
    outcome.cost.kernels = result.kernels_ms;
    outcome.cost.runs = result.runs;
    outcome.cost.parts = result.parts;
    outcome.notes = result.notes;
    outcome
}
