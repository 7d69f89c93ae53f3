//! Counts a launch and says whether it is recorded.
//!
//! This is all that happens for most launches, so the usual way is short: a look into a table that all
//! threads share, one atomic addition, one comparison.

use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use r3_archive::model::{KernelStatsRecord, ShapeCount, SkipCount};

use crate::ffi::CUfunction;
use crate::modules::{self, Function, GENERATION, Kernel};
use crate::{process, session};

/// What a launch asks for, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// `CUfunction` or `CUkernel`.
    pub function: usize,
    // Grid and block by axis, packed so that a comparison is short.
    x: u64,
    y: u64,
    z: u64,
    shared: u64,
}

impl Shape {
    #[inline]
    pub fn new(function: CUfunction, grid: [u32; 3], block: [u32; 3], shared: u32) -> Self {
        let pack = |axis: usize| (u64::from(grid[axis]) << 32) | u64::from(block[axis]);
        Self {
            function: function as usize,
            x: pack(0),
            y: pack(1),
            z: pack(2),
            shared: u64::from(shared),
        }
    }

    /// Grid dimensions in blocks.
    pub fn grid(&self) -> [u32; 3] {
        [self.x, self.y, self.z].map(|axis| (axis >> 32) as u32)
    }

    /// Block dimensions in threads.
    pub fn block(&self) -> [u32; 3] {
        [self.x, self.y, self.z].map(|axis| axis as u32)
    }

    /// Dynamic shared memory in bytes.
    pub fn dynamic_shared(&self) -> u32 {
        self.shared as u32
    }

    #[inline]
    fn slot(&self) -> usize {
        let rest = self.y.rotate_left(40) ^ self.z ^ (self.shared << 8);
        let mixed = (self.function as u64 ^ self.x.rotate_left(20)).wrapping_add(rest);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS)) as usize
    }
}

/// What is left to do with a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing but to make it.
    Open,
    /// It is this occurrence, which may be one to record.
    Counted(u64),
    /// It is not counted yet.
    Uncounted,
}

/// The counters of one kernel with one grid, block and dynamic shared size. Never freed: the table
/// refers to them.
pub struct Counter {
    pub function: Arc<Function>,
    shape: Shape,
    launches: AtomicU64,
    captured: AtomicU64,
    /// The next occurrence to record; `u64::MAX` when there is none.
    next: AtomicU64,
    given_up: AtomicBool,
}

/// A counter as the table finds it. Never changed and never freed.
struct Slot {
    generation: u64,
    shape: Shape,
    counter: &'static Counter,
}

const SLOT_BITS: u32 = 12;

/// The counters that were used last, by a hash of their shape. Two shapes with one hash take turns.
static TABLE: [AtomicPtr<Slot>; 1 << SLOT_BITS] =
    [const { AtomicPtr::new(null_mut()) }; 1 << SLOT_BITS];

/// Counters by kernel and shape.
type Counters = HashMap<(usize, [u32; 3], [u32; 3], u32), &'static Counter>;

#[derive(Default)]
struct All {
    counters: Counters,
    slots: HashMap<(Shape, u64), &'static Slot>,
    skipped: HashMap<u64, Vec<SkipCount>>,
}

static ALL: Mutex<Option<All>> = Mutex::new(None);

fn with_all<T>(work: impl FnOnce(&mut All) -> T) -> T {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    work(all.get_or_insert_with(All::default))
}

/// Counts a launch whose shape is in the table.
#[inline]
pub fn count_known(shape: &Shape) -> Gate {
    let slot = TABLE[shape.slot()].load(Ordering::Acquire);
    // SAFETY: slots are leaked, and complete before they enter the table.
    let Some(slot) = (unsafe { slot.as_ref() }) else {
        return Gate::Uncounted;
    };
    if slot.shape != *shape || slot.generation != GENERATION.load(Ordering::Acquire) {
        return Gate::Uncounted;
    }
    let occurrence = slot.counter.launches.fetch_add(1, Ordering::Relaxed) + 1;
    if occurrence < slot.counter.next.load(Ordering::Relaxed) {
        Gate::Open
    } else {
        Gate::Counted(occurrence)
    }
}

/// Counts the launch, if `gate` did not. `Some` with its occurrence when it is one to record.
pub fn count(shape: &Shape, gate: Gate) -> Option<(&'static Counter, u64)> {
    let counter = meet(shape, GENERATION.load(Ordering::Acquire));
    let occurrence = match gate {
        Gate::Counted(occurrence) => occurrence,
        _ => counter.launches.fetch_add(1, Ordering::Relaxed) + 1,
    };
    counter.is_due(occurrence).then_some((counter, occurrence))
}

/// Launches counted in the process.
pub fn launches() -> u64 {
    with_all(|all| {
        all.counters
            .values()
            .map(|counter| counter.launches())
            .sum()
    })
}

/// Counts a launch that goes into a stream capture: it runs later, as a graph's node.
pub fn into_graph(shape: &Shape) {
    session::LAUNCHES_INTO_GRAPHS.fetch_add(1, Ordering::Relaxed);
    let generation = GENERATION.load(Ordering::Acquire);
    meet(shape, generation).skipped("it went into a CUDA graph");
}

/// The counter of a shape, put into the table.
#[cold]
fn meet(shape: &Shape, generation: u64) -> &'static Counter {
    // The archive is made with the first launch, recorded or not: its counts tell what there is.
    let _ = session::session();
    let function = modules::function(shape.function);
    // Leaked, as its users never let go; there are as many as there are shapes.
    let slot = with_all(|all| {
        if let Some(slot) = all.slots.get(&(*shape, generation)) {
            return *slot;
        }
        let identity = (
            function.kernel.id.0 as usize,
            shape.grid(),
            shape.block(),
            shape.dynamic_shared(),
        );
        let known = all.counters.get(&identity).copied();
        let counter = match known {
            // The handle is another one now, e.g. after the module was loaded again.
            Some(known)
                if known.shape.function == shape.function
                    && Arc::ptr_eq(&known.function, &function) =>
            {
                known
            }
            _ => {
                let first = if function.kernel.selected {
                    process::next_selected(0)
                } else {
                    None
                };
                let counter: &'static Counter = Box::leak(Box::new(Counter {
                    function,
                    shape: *shape,
                    launches: AtomicU64::new(known.map_or(0, Counter::launches)),
                    captured: AtomicU64::new(
                        known.map_or(0, |k| k.captured.load(Ordering::Relaxed)),
                    ),
                    next: AtomicU64::new(known.map_or(first.unwrap_or(u64::MAX), |k| {
                        k.next.load(Ordering::Relaxed)
                    })),
                    given_up: AtomicBool::new(
                        known.is_some_and(|k| k.given_up.load(Ordering::Relaxed)),
                    ),
                }));
                all.counters.insert(identity, counter);
                counter
            }
        };
        let slot: &'static Slot = Box::leak(Box::new(Slot {
            generation,
            shape: *shape,
            counter,
        }));
        all.slots.retain(|(_, of), _| *of == generation);
        all.slots.insert((*shape, generation), slot);
        slot
    });
    TABLE[shape.slot()].store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
    slot.counter
}

impl Counter {
    pub fn kernel(&self) -> &Kernel {
        &self.function.kernel
    }

    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Whether `occurrence` is selected. Threads can arrive here out of order.
    #[cold]
    fn is_due(&self, occurrence: u64) -> bool {
        if !self.function.kernel.selected || self.given_up.load(Ordering::Relaxed) {
            return false;
        }
        let next = process::next_selected(occurrence).unwrap_or(u64::MAX);
        self.next.fetch_max(next, Ordering::Relaxed);
        process::next_selected(occurrence - 1) == Some(occurrence)
    }

    /// The driver refused the launch, which was counted as `occurrence`: the next one is that.
    pub fn refused(&self, occurrence: u64) {
        self.launches.fetch_sub(1, Ordering::Relaxed);
        self.next.fetch_min(occurrence, Ordering::Relaxed);
    }

    /// Records no more launches of this shape.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
        self.next.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn captured(&self) {
        self.captured.fetch_add(1, Ordering::Relaxed);
    }

    /// A selected launch is not recorded.
    pub fn skipped(&self, reason: &str) {
        with_all(|all| {
            let skipped = all.skipped.entry(self.kernel().id.0).or_default();
            match skipped.iter_mut().find(|s| s.reason == reason) {
                Some(known) => known.launches += 1,
                None => skipped.push(SkipCount {
                    reason: reason.to_owned(),
                    launches: 1,
                }),
            }
        });
    }
}

/// Kernels that were launched, each with its counts.
pub fn stats() -> Vec<(Arc<Function>, KernelStatsRecord)> {
    with_all(|all| {
        let mut stats: HashMap<u64, (Arc<Function>, KernelStatsRecord)> = HashMap::new();
        for counter in all.counters.values() {
            let kernel = counter.kernel().id;
            let (_, record) = stats.entry(kernel.0).or_insert_with(|| {
                let skipped = all.skipped.get(&kernel.0).cloned().unwrap_or_default();
                let record = KernelStatsRecord {
                    kernel,
                    shapes: Vec::new(),
                    skipped,
                };
                (Arc::clone(&counter.function), record)
            });
            record.shapes.push(ShapeCount {
                grid: counter.shape.grid(),
                block: counter.shape.block(),
                dynamic_shared: counter.shape.dynamic_shared(),
                launches: counter.launches(),
                captured: counter.captured.load(Ordering::Relaxed),
            });
        }
        let mut stats: Vec<_> = stats.into_values().collect();
        for (_, record) in &mut stats {
            record
                .shapes
                .sort_by_key(|s| (std::cmp::Reverse(s.launches), s.grid, s.block));
        }
        stats.sort_by_key(|(_, record)| record.kernel);
        stats
    })
}
