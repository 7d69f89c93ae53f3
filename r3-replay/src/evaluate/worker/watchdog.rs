//! Ends this process when what it does takes too long, and says so first.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use r3_codegen::worker::{frame, isolate};

use super::protocol::Said;
use crate::evaluate::engine::Watch;

/// Work on the host, between launches, is not expected to hang; it may take this long.
const HOST_WORK: Duration = Duration::from_secs(600);

/// The connection's writing end: the engine's thread answers, the watchdog reports.
pub(super) type Outlet = Arc<Mutex<File>>;

/// Says something.
pub(super) fn say(outlet: &Outlet, said: &Said) -> io::Result<()> {
    frame::write(&mut *lock(outlet), said)
}

/// Knows what is running, and until when it may.
#[derive(Clone, Debug)]
pub(super) struct Watchdog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    /// An order is being worked on.
    working: bool,
    until: Option<Instant>,
    limit: Duration,
    what: String,
}

impl Watchdog {
    /// Starts watching. Beats are sent while an order is worked on.
    pub(super) fn start(outlet: Outlet, beat: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            now: Mutex::default(),
            changed: Condvar::new(),
        });
        let watchdog = Self(shared.clone());
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(move || watch(&shared, &outlet, beat))?;
        Ok(watchdog)
    }

    /// An order is worked on from now on.
    pub(super) fn begin(&self, what: &str) {
        self.set(true, HOST_WORK, what);
    }

    /// It is done.
    pub(super) fn end(&self) {
        let mut now = lock(&self.0.now);
        now.working = false;
        now.until = None;
        self.0.changed.notify_one();
    }

    fn set(&self, wake: bool, limit: Duration, what: &str) {
        let mut now = lock(&self.0.now);
        let until = Instant::now().checked_add(limit);
        // A later end is noticed when the earlier one passes; waking the thread for each launch would cost time.
        let earlier = match (now.until, until) {
            (Some(before), Some(until)) => until < before,
            (before, _) => before.is_none(),
        };
        now.working = true;
        now.until = until;
        now.limit = limit;
        now.what.clear();
        now.what.push_str(what);
        if wake || earlier {
            self.0.changed.notify_one();
        }
    }
}

impl Watch for Watchdog {
    fn within(&self, limit: Duration, what: &str) {
        self.set(false, limit, what);
    }

    fn idle(&self) {
        self.set(false, HOST_WORK, "work on the host");
    }
}

fn watch(shared: &Shared, outlet: &Outlet, beat: Duration) -> ! {
    let mut now = lock(&shared.now);
    let mut next_beat = Instant::now() + beat;
    loop {
        let at = Instant::now();
        if now.until.is_some_and(|until| until <= at) {
            let passed = Said::Passed {
                limit: now.limit,
                what: std::mem::take(&mut now.what),
            };
            drop(now);
            // A parent that does not listen any more has hung up, and the process ends either way.
            _ = say(outlet, &passed);
            isolate::end_group();
        }
        if now.working && next_beat <= at {
            let beating = Said::Beat(now.what.clone());
            next_beat = at + beat;
            drop(now);
            _ = say(outlet, &beating);
            now = lock(&shared.now);
            continue;
        }
        if !now.working {
            next_beat = at + beat;
        }
        let mut wait = beat;
        if now.working {
            wait = next_beat.saturating_duration_since(at);
        }
        if let Some(until) = now.until {
            wait = wait.min(until.saturating_duration_since(at));
        }
        let (guard, _) = shared
            .changed
            .wait_timeout(now, wait)
            .unwrap_or_else(PoisonError::into_inner);
        now = guard;
    }
}

/// A panic of another thread leaves these values whole: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
