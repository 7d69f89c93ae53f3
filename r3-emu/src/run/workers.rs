//! Host threads, and the blocks that each of them has started.
//!
//! A thread runs one block (or cluster) at a time to its end. When a block does nothing but poll, it may wait for a block that has
//! not started: the thread then starts another one beside it, and they take turns. So blocks become resident
//! at once only as far as they need each other.

use super::Launch;
use crate::block::{Tally, Unit, UnitState};
use crate::fault::{Fault, FaultKind};
use crate::launch::Report;
use crate::memory::{Memory, View};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that may be resident in a launch: what a big GPU has room for.
const RESIDENT: usize = 8192;
/// Races that a report keeps.
const RACES: usize = 64;

struct Shared<'l> {
    launch: &'l Launch,
    next: AtomicU64,
    end: u64,
    /// Number of the lowest unit that faulted.
    faulted: AtomicU64,
    fault: Mutex<Option<(u64, Fault)>>,
    report: Mutex<Report>,
}

/// Runs all blocks, or those of a range.
#[allow(clippy::result_large_err)]
pub(super) fn run(
    launch: &Launch,
    memory: &Memory,
    threads: usize,
    blocks: Option<Range<u64>>,
) -> Result<Report, Fault> {
    let per_unit = launch
        .cluster
        .iter()
        .map(|&n| u64::from(n))
        .product::<u64>();
    let all = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
    let units = match blocks {
        Some(range) if per_unit == 1 => range.start.min(all)..range.end.min(all),
        Some(range) => clusters(launch, range),
        None => 0..all / per_unit,
    };
    let shared = Shared {
        launch,
        next: AtomicU64::new(units.start),
        end: units.end,
        faulted: AtomicU64::new(u64::MAX),
        fault: Mutex::new(None),
        report: Mutex::new(Report::default()),
    };
    let count = units.end.saturating_sub(units.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores } else { threads };
    let threads = threads
        .min(usize::try_from(count).unwrap_or(usize::MAX))
        .max(1);
    let view = memory.view();
    if threads == 1 {
        shared.worker(view, RESIDENT);
    } else {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                let view = view.clone();
                scope.spawn(|| shared.worker(view, RESIDENT / threads));
            }
            shared.worker(view.clone(), RESIDENT / threads);
        });
    }
    let fault = shared.fault.into_inner().unwrap_or_else(|e| e.into_inner());
    match fault {
        Some((_, fault)) => Err(fault),
        None => {
            let mut report = shared
                .report
                .into_inner()
                .unwrap_or_else(|e| e.into_inner());
            report
                .races
                .sort_by_key(|r| ([r.block[2], r.block[1], r.block[0]], r.pos, r.offset));
            report.races.truncate(RACES);
            Ok(report)
        }
    }
}

/// The clusters in which blocks of a range lie, as far as clusters are numbered along the range.
fn clusters(launch: &Launch, range: Range<u64>) -> Range<u64> {
    let [gx, gy, _] = launch.grid.map(u64::from);
    let [cx, cy, cz] = launch.cluster.map(u64::from);
    let of = |block: u64| {
        let at = [block % gx / cx, block / gx % gy / cy, block / gx / gy / cz];
        at[0] + gx / cx * (at[1] + gy / cy * at[2])
    };
    let all = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
    let range = range.start.min(all)..range.end.min(all);
    if range.is_empty() {
        return 0..0;
    }
    let (mut low, mut high) = (u64::MAX, 0);
    for block in range {
        low = low.min(of(block));
        high = high.max(of(block));
    }
    low..high + 1
}

impl Shared<'_> {
    fn worker(&self, mut view: View, most: usize) {
        let view = &raw mut view;
        let outcome = catch_unwind(AssertUnwindSafe(|| self.work(view, most.max(1))));
        if let Err(panic) = outcome {
            let text = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic".to_owned());
            self.fail(
                0,
                Fault {
                    kind: FaultKind::Internal(text),
                    kernel: self.launch.kernel_name().to_owned(),
                    function: None,
                    block: None,
                    thread: None,
                    pos: None,
                    instruction: None,
                },
            );
        }
    }

    fn work(&self, view: *mut View, most: usize) {
        let Some(code) = self.launch.code(self.launch.image.kernel) else {
            return;
        };
        let mut resident: Vec<Unit> = Vec::new();
        let mut unused: Vec<Unit> = Vec::new();
        let mut tally = Tally::default();
        let mut turn = 0;
        let mut polled = 0;
        loop {
            let faulted = self.faulted.load(Ordering::Acquire);
            resident.retain(|unit| unit.number < faulted);
            if polled >= resident.len() {
                polled = 0;
                if resident.len() < most
                    && let Some(number) = self.take(faulted)
                {
                    let mut unit = unused.pop().unwrap_or_else(|| Unit::new(self.launch, view));
                    unit.reset(self.launch, code, number);
                    turn = resident.len();
                    resident.push(unit);
                } else if faulted != u64::MAX {
                    // What still polls may wait for a block that faulted.
                    break;
                } else if !resident.is_empty() {
                    std::thread::yield_now();
                }
            }
            if resident.is_empty() {
                break;
            }
            turn %= resident.len();
            match resident[turn].run(self.launch) {
                UnitState::Done => {
                    let mut unit = resident.remove(turn);
                    unit.take(&mut tally);
                    unused.push(unit);
                    polled = 0;
                    if resident.is_empty() {
                        polled = 1;
                    }
                }
                UnitState::Spinning => {
                    polled += 1;
                    turn += 1;
                }
                UnitState::Fault(fault) => {
                    let unit = resident.remove(turn);
                    self.fail(unit.number, *fault);
                }
            }
        }
        let mut report = self.report.lock().unwrap_or_else(|e| e.into_inner());
        report.counts.add(&tally.counts);
        report.thread_instructions += tally.thread_instructions;
        report.blocks += tally.blocks;
        report.races.extend(tally.races);
    }

    /// The next unit to start.
    fn take(&self, faulted: u64) -> Option<u64> {
        if faulted != u64::MAX || self.next.load(Ordering::Relaxed) >= self.end {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then_some(number)
    }

    /// Keeps the fault of the lowest unit.
    fn fail(&self, number: u64, fault: Fault) {
        let mut kept = self.fault.lock().unwrap_or_else(|e| e.into_inner());
        if kept.as_ref().is_none_or(|(n, _)| number < *n) {
            *kept = Some((number, fault));
            self.faulted.store(number, Ordering::Release);
        }
    }
}
