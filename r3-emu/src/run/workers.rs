//! Host threads, and the blocks that each of them has started.
//!
//! A thread runs one block (or cluster) at a time to its end. When a block does nothing but poll, it may wait for a block that has
//! not started: the thread then starts another one beside it, and they take turns. So blocks become resident
//! at once only as far as they need each other.

use super::Launch;
use crate::block::{LOCAL_LIMIT, NoMemory, Tally, Unit, UnitState};
use crate::decode::Code;
use crate::fault::{Fault, FaultKind};
use crate::launch::Report;
use crate::memory::{Memory, View};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that may be resident in a launch: what a big GPU has room for.
const RESIDENT: usize = 8192;
/// Most host threads of a launch.
const MOST_THREADS: usize = 1024;
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
        Some(range) => clusters(launch.grid, launch.cluster, range),
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
        .min(MOST_THREADS)
        .min(usize::try_from(count).unwrap_or(usize::MAX))
        .max(1);
    let view = memory.view();
    if threads == 1 {
        shared.worker(view, RESIDENT);
    } else {
        std::thread::scope(|scope| {
            for _ in 1..threads {
                let (view, shared) = (view.clone(), &shared);
                let work = move || shared.worker(view, RESIDENT / threads);
                // Where the host gives no more threads, those that there are do the work.
                if std::thread::Builder::new()
                    .spawn_scoped(scope, work)
                    .is_err()
                {
                    break;
                }
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
fn clusters(grid: [u32; 3], cluster: [u32; 3], range: Range<u64>) -> Range<u64> {
    let [gx, gy, gz] = grid.map(u64::from);
    let [cx, cy, cz] = cluster.map(u64::from);
    let of = |block: u64| {
        let at = [block % gx / cx, block / gx % gy / cy, block / gx / gy / cz];
        at[0] + gx / cx * (at[1] + gy / cy * at[2])
    };
    let all = gx * gy * gz;
    let range = range.start.min(all)..range.end.min(all);
    if range.is_empty() {
        return 0..0;
    }
    // Along a row, from row to row of a plane, and from plane to plane the number of the cluster never falls. So the lowest is
    // that of the first block, or of the first one at the start of a row or a plane; the highest is found likewise.
    let (row, plane) = (gx, gx * gy);
    let starts = [row, plane].map(|step| range.start.next_multiple_of(step));
    let low = std::iter::once(range.start).chain(starts.into_iter().filter(|at| *at < range.end));
    let last = range.end - 1;
    let ends = [row, plane].map(|step| (range.end / step * step).wrapping_sub(1));
    let ends = ends.into_iter().filter(|at| range.contains(at));
    let high = std::iter::once(last).chain(ends);
    low.map(of).min().unwrap_or(0)..high.map(of).max().unwrap_or(0) + 1
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
            self.fail(0, self.without_place(FaultKind::Internal(text)));
        }
    }

    fn work(&self, view: *mut View, most: usize) {
        let Some(code) = self.launch.code(self.launch.image.kernel) else {
            return;
        };
        if code.local_bytes > LOCAL_LIMIT {
            let (has, most) = (code.local_bytes, LOCAL_LIMIT);
            let what = format!("{has} bytes of local memory in a thread: {most} are possible");
            return self.fail(0, self.without_place(FaultKind::InvalidLaunch(what)));
        }
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
                // As many more as there are: a barrier of the whole grid has all of them resident after a few times.
                let mut started = 0;
                while resident.len() < most
                    && started <= resident.len() / 2
                    && let Some(number) = self.take(faulted)
                {
                    match self.start(code, number, unused.pop(), view) {
                        Ok(unit) => {
                            if started == 0 {
                                turn = resident.len();
                            }
                            started += 1;
                            resident.push(unit);
                        }
                        Err(none) => {
                            self.fail(number, self.without_place(none.into()));
                            break;
                        }
                    }
                }
                if started > 0 {
                    // They run now.
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

    /// A fault of no instruction.
    fn without_place(&self, kind: FaultKind) -> Fault {
        Fault {
            kind,
            kernel: self.launch.kernel_name().to_owned(),
            function: None,
            block: None,
            thread: None,
            pos: None,
            instruction: None,
        }
    }

    /// A unit at its start: one that is not in use, or a new one.
    fn start(
        &self,
        code: &Code,
        number: u64,
        unused: Option<Unit>,
        view: *mut View,
    ) -> Result<Unit, NoMemory> {
        let mut unit = match unused {
            Some(unit) => unit,
            None => Unit::new(self.launch, view)?,
        };
        unit.reset(self.launch, code, number)?;
        Ok(unit)
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

#[cfg(test)]
mod tests {
    use super::clusters;

    #[test]
    fn the_clusters_of_a_range_are_those_of_its_blocks() {
        let (grid, cluster) = ([6u32, 4, 4], [2u32, 2, 2]);
        let of = |block: u32| {
            let (x, y, z) = (block % 6, block / 6 % 4, block / 24);
            u64::from(x / 2 + 3 * (y / 2 + 2 * (z / 2)))
        };
        for start in 0..96 {
            for end in start + 1..=96 {
                let all: Vec<u64> = (start..end).map(of).collect();
                let want = *all.iter().min().unwrap()..all.iter().max().unwrap() + 1;
                let got = clusters(grid, cluster, start.into()..end.into());
                assert_eq!(got, want, "{start}..{end}");
            }
        }
        assert_eq!(clusters(grid, cluster, 90..u64::MAX), 9..12);
        assert!(clusters(grid, cluster, 96..200).is_empty());
        let huge = [2147483646, 65534, 65534];
        let all = huge.iter().map(|&n| u64::from(n)).product::<u64>();
        assert_eq!(clusters(huge, [2, 1, 1], 0..u64::MAX), 0..all / 2);
    }
}
