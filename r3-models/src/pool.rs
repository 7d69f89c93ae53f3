//! Several requests under way at a time: the machine of `schedule` with a clock, threads and a network.
//!
//! One thread asks the machine what to do and starts a thread for each request; that one blocks on its connection. A request that was
//! given up leaves its thread behind, which ends with its connection's own limits of time: nobody waits for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::account::Totals;
use crate::chat::{Ask, Finished, Question, State, Ticket};
use crate::client::{Lost, Wire, clients};
use crate::fault::Fault;
use crate::ledger::{Book, Ledger};
use crate::schedule::{Order, Outage, Schedule, Sending};
use crate::settings::{Settings, SettingsError};

/// Wakes somebody.
type Waker = Arc<dyn Fn() + Send + Sync>;

struct Inner {
    schedule: Schedule,
    closed: bool,
    waker: Option<Waker>,
}

struct Shared {
    inner: Mutex<Inner>,
    /// Something came, or was asked for.
    changed: Condvar,
    started: Instant,
    started_at: SystemTime,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is left half done by a panic: the machine is changed by whole steps.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The models of some settings, over HTTP.
pub struct Models {
    shared: Arc<Shared>,
}

impl Models {
    /// Starts the thread that asks. `spent` is what an earlier part of the run spent: budgets count it.
    pub fn new(settings: &Settings, spent: Totals) -> Result<Self, SettingsError> {
        let wires = clients(&settings.endpoints, settings.roots.as_deref())?;
        Self::over(settings, spent, wires)
    }

    /// The same with a file in which everything is written down before it is sent. What it had, `book`, is what was spent: what did not
    /// come back counts at its most.
    pub fn with_ledger(
        settings: &Settings,
        (ledger, book): (Ledger, Book),
    ) -> Result<Self, SettingsError> {
        let models = Self::new(settings, book.at_most())?;
        models.shared.lock().schedule.keep(ledger);
        Ok(models)
    }

    fn over(
        settings: &Settings,
        spent: Totals,
        wires: Vec<Arc<dyn Wire>>,
    ) -> Result<Self, SettingsError> {
        let started_at = SystemTime::now();
        // Pauses of two runs are not to fall together.
        let seed = started_at
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |time| time.as_nanos() as u64);
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                schedule: Schedule::new(settings, spent, seed),
                closed: false,
                waker: None,
            }),
            changed: Condvar::new(),
            started: Instant::now(),
            started_at,
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("r3-models".to_owned())
            .spawn(move || keep_asking(&of_thread, &wires))
            .map_err(SettingsError::Thread)?;
        Ok(Self { shared })
    }

    fn state_from(&self, outage: Option<&Outage>) -> State {
        outage.map_or(State::Up, |outage| State::Down {
            since: self.shared.started_at + outage.since,
            reason: outage.reason.clone(),
            needs_somebody: outage.needs_somebody,
            next_try: self.shared.started_at + outage.next_try,
        })
    }
}

fn keep_asking(shared: &Arc<Shared>, wires: &[Arc<dyn Wire>]) {
    let mut inner = shared.lock();
    let mut seen = inner.schedule.changes();
    while !inner.closed {
        let now = shared.now();
        match inner.schedule.next(now) {
            Order::Send(sending) => start(shared, wires, sending, &mut inner),
            Order::Wait(until) => {
                if inner.schedule.changes() != seen {
                    seen = inner.schedule.changes();
                    shared.changed.notify_all();
                    if let Some(wake) = inner.waker.clone() {
                        drop(inner);
                        wake();
                        inner = shared.lock();
                        continue;
                    }
                }
                inner = match until {
                    Some(until) => {
                        let pause = until.saturating_sub(shared.now());
                        let waited = shared.changed.wait_timeout(inner, pause);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => shared
                        .changed
                        .wait(inner)
                        .unwrap_or_else(PoisonError::into_inner),
                };
            }
        }
    }
    inner.schedule.close();
}

fn start(shared: &Arc<Shared>, wires: &[Arc<dyn Wire>], sending: Sending, inner: &mut Inner) {
    let attempt = sending.attempt;
    let Some(wire) = wires.get(sending.endpoint).map(Arc::clone) else {
        return;
    };
    let of_thread = Arc::clone(shared);
    let spawned = std::thread::Builder::new()
        .name("r3-model".to_owned())
        .spawn(move || {
            let watch = Arc::clone(&sending.watch);
            let shared = Arc::downgrade(&of_thread);
            watch.when_it_begins(move || {
                if let Some(shared) = shared.upgrade() {
                    // Whoever waits for a deadline looks again: it is another one now.
                    drop(shared.lock());
                    shared.changed.notify_all();
                }
            });
            let result = wire.send(&sending.question, &sending.manner, &watch);
            let now = of_thread.now();
            of_thread.lock().schedule.back(now, sending.attempt, result);
            of_thread.changed.notify_all();
        });
    if let Err(error) = spawned {
        let message = format!("no thread for a request: {error}");
        let lost = Lost::from(Fault::Broken { message });
        inner.schedule.back(shared.now(), attempt, Err(lost));
    }
}

impl Ask for Models {
    fn submit(&mut self, question: Question) -> Ticket {
        let now = self.shared.now();
        let ticket = self.shared.lock().schedule.submit(now, question);
        self.shared.changed.notify_all();
        ticket
    }

    fn finished(&mut self, wait: Duration) -> Vec<Finished> {
        let until = Instant::now().checked_add(wait);
        let mut inner = self.shared.lock();
        loop {
            let finished = inner.schedule.take_finished();
            if !finished.is_empty() {
                return finished;
            }
            // A wait without an end is one of a day, again and again.
            let left = until.map_or(Duration::from_secs(86_400), |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return finished;
            }
            let waited = self.shared.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn open(&self) -> usize {
        self.shared.lock().schedule.open()
    }

    fn under_way(&self) -> usize {
        self.shared.lock().schedule.under_way()
    }

    fn state(&self) -> State {
        let inner = self.shared.lock();
        self.state_from(inner.schedule.outage())
    }

    fn state_of(&self, model: &str) -> State {
        let inner = self.shared.lock();
        self.state_from(inner.schedule.outage_of(model))
    }

    fn totals(&self) -> Totals {
        self.shared.lock().schedule.totals().clone()
    }

    fn wake_by(&mut self, wake: Box<dyn Fn() + Send + Sync>) {
        self.shared.lock().waker = Some(Arc::from(wake));
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}
