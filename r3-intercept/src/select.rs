//! Counts a launch and says whether it is recorded.
//!
//! This is all that happens for most launches, so the usual way is short: a look into a table that all
//! threads share, one atomic addition, one comparison.

use std::collections::{BTreeMap, HashMap};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use r3_archive::model::{KernelId, KernelStatsRecord, ShapeCount, SkipCount};

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

/// The counters of one kernel with one grid, block and dynamic shared size, by whichever handles it
/// is launched. Never freed: slots refer to them.
pub struct Counter {
    kernel: Arc<Kernel>,
    launches: AtomicU64,
    captured: AtomicU64,
    /// The next occurrence to record; `u64::MAX` when there is none.
    next: AtomicU64,
    refused: AtomicU64,
    given_up: AtomicBool,
}

/// What a handle with a shape stands for. Never freed: the table refers to them.
struct Slot {
    shape: Shape,
    function: Arc<Function>,
    counter: &'static Counter,
    /// [`GENERATION`] in which this was last found to hold.
    generation: AtomicU64,
}

/// A launch that is to be recorded.
pub struct Selected {
    pub function: Arc<Function>,
    pub counter: &'static Counter,
    pub occurrence: u64,
}

const SLOT_BITS: u32 = 12;

/// The counters that were used last, by a hash of their shape. Two shapes with one hash take turns.
static TABLE: [AtomicPtr<Slot>; 1 << SLOT_BITS] =
    [const { AtomicPtr::new(null_mut()) }; 1 << SLOT_BITS];

#[derive(Default)]
struct All {
    /// By kernel and shape; of the shape, not the handle.
    counters: HashMap<(KernelId, Shape), &'static Counter>,
    slots: HashMap<Shape, &'static Slot>,
    skipped: HashMap<KernelId, Vec<SkipCount>>,
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
    if slot.shape != *shape
        || slot.generation.load(Ordering::Acquire) != GENERATION.load(Ordering::Acquire)
    {
        return Gate::Uncounted;
    }
    // Read first: another thread that takes the next occurrence may raise it before we compare.
    let next = slot.counter.next.load(Ordering::Relaxed);
    let occurrence = slot.counter.launches.fetch_add(1, Ordering::Relaxed) + 1;
    if occurrence < next {
        Gate::Open
    } else {
        Gate::Counted(occurrence)
    }
}

/// Counts the launch, if `gate` did not. `Some` when it is one to record.
pub fn count(shape: &Shape, gate: Gate) -> Option<Selected> {
    let gate = match gate {
        Gate::Uncounted => count_known(shape),
        counted => counted,
    };
    if gate == Gate::Open {
        return None;
    }
    let slot = meet(shape);
    let occurrence = match gate {
        Gate::Counted(occurrence) => occurrence,
        _ => slot.counter.launches.fetch_add(1, Ordering::Relaxed) + 1,
    };
    slot.counter.is_due(occurrence).then(|| Selected {
        function: Arc::clone(&slot.function),
        counter: slot.counter,
        occurrence,
    })
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
    meet(shape).counter.skipped("it went into a CUDA graph");
}

/// Finds out what the handle of a shape stands for, and puts it into the table.
#[cold]
fn meet(shape: &Shape) -> &'static Slot {
    // The archive is made with the first launch, recorded or not: its counts tell what there is.
    let _ = session::session();
    let generation = GENERATION.load(Ordering::Acquire);
    let function = modules::function(shape.function);
    let slot = with_all(|all| {
        if let Some(known) = all.slots.get(shape)
            && Arc::ptr_eq(&known.function, &function)
        {
            known.generation.store(generation, Ordering::Release);
            return *known;
        }
        // Counters and slots are leaked: no thread that found one in the table may lose it.
        let of_kernel = Shape {
            function: 0,
            ..*shape
        };
        let counter = *all
            .counters
            .entry((function.kernel.id, of_kernel))
            .or_insert_with(|| {
                let kernel = Arc::clone(&function.kernel);
                let first = kernel.selected.then(|| process::next_selected(0)).flatten();
                Box::leak(Box::new(Counter {
                    kernel,
                    launches: AtomicU64::new(0),
                    captured: AtomicU64::new(0),
                    next: AtomicU64::new(first.unwrap_or(u64::MAX)),
                    refused: AtomicU64::new(0),
                    given_up: AtomicBool::new(false),
                }))
            });
        let slot: &'static Slot = Box::leak(Box::new(Slot {
            shape: *shape,
            function,
            counter,
            generation: AtomicU64::new(generation),
        }));
        all.slots.insert(*shape, slot);
        slot
    });
    TABLE[shape.slot()].store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
    slot
}

impl Counter {
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Whether `occurrence` is selected. Threads can arrive here out of order.
    #[cold]
    fn is_due(&self, occurrence: u64) -> bool {
        if !self.kernel.selected || self.given_up.load(Ordering::Relaxed) {
            return false;
        }
        let next = process::next_selected(occurrence).unwrap_or(u64::MAX);
        self.next.fetch_max(next, Ordering::Relaxed);
        process::next_selected(occurrence - 1) == Some(occurrence)
    }

    /// A launch that was counted as `occurrence` is none after all: the next one is that.
    pub fn uncount(&self, occurrence: u64) {
        self.launches.fetch_sub(1, Ordering::Relaxed);
        if !self.given_up.load(Ordering::Relaxed) {
            self.next.fetch_min(occurrence, Ordering::Relaxed);
        }
    }

    /// The driver refused the launch. A shape that it refuses again and again, as programs that try
    /// shapes out meet them, is not prepared for again.
    pub fn refused(&self, occurrence: u64) {
        const ENOUGH: u64 = 16;
        if self.refused.fetch_add(1, Ordering::Relaxed) + 1 >= ENOUGH {
            self.give_up();
        }
        self.uncount(occurrence);
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
            let skipped = all.skipped.entry(self.kernel.id).or_default();
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

/// Kernels that were launched, each with its counts; only `of`, if given.
pub fn stats(of: Option<KernelId>) -> Vec<(Arc<Kernel>, KernelStatsRecord)> {
    with_all(|all| {
        let mut stats: BTreeMap<KernelId, (Arc<Kernel>, KernelStatsRecord)> = BTreeMap::new();
        for ((kernel, shape), counter) in &all.counters {
            if of.is_some_and(|of| of != *kernel) {
                continue;
            }
            let (_, record) = stats.entry(*kernel).or_insert_with(|| {
                let record = KernelStatsRecord {
                    kernel: *kernel,
                    shapes: Vec::new(),
                    skipped: all.skipped.get(kernel).cloned().unwrap_or_default(),
                };
                (Arc::clone(&counter.kernel), record)
            });
            record.shapes.push(ShapeCount {
                grid: shape.grid(),
                block: shape.block(),
                dynamic_shared: shape.dynamic_shared(),
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
        stats
    })
}
