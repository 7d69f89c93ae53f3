//! How much a pool gets done.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Pool;
use crate::recipe::{FailureKind, Recipe, Stage};

/// What a pool got done in a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Recipes that became products.
    pub compiled: u64,
    /// The others, by where and why.
    pub failed: BTreeMap<(Stage, &'static str), u64>,
    /// From the first recipe to the last answer.
    pub time: Duration,
}

impl Throughput {
    /// Answers per second.
    pub fn per_second(&self) -> f64 {
        let answers = self.compiled + self.failed.values().sum::<u64>();
        answers as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Keeps all workers of a pool busy for `time` with the recipes of the numbers 0, 1, 2, ….
///
/// Each worker is started and compiles recipe 0 before the time begins.
pub fn throughput(
    pool: &Pool,
    time: Duration,
    recipe: impl Fn(u64) -> Recipe + Sync,
) -> Throughput {
    let next = AtomicU64::new(0);
    let found = Mutex::new(Throughput::default());
    let workers = pool.limits().workers.max(1);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| _ = pool.compile(&recipe(0)));
        }
    });
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while began.elapsed() < time {
                    let outcome = pool.compile(&recipe(next.fetch_add(1, Ordering::Relaxed)));
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(_) => found.compiled += 1,
                        Err(failure) => {
                            let why = (failure.stage, name(failure.kind));
                            *found.failed.entry(why).or_default() += 1;
                        }
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.time = began.elapsed();
    found
}

fn name(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Refused => "refused",
        FailureKind::MissingTool => "missing tool",
        FailureKind::Crash => "crash",
        FailureKind::Timeout => "timeout",
        FailureKind::Memory => "memory",
        FailureKind::Machine => "machine",
    }
}
