//! Counts a launch and says whether it is recorded.
//!
//! This is all that happens for most launches, so the usual way is: a look into the thread's own
//! small table, one atomic addition, one comparison.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use r3_archive::model::{KernelStatsRecord, ShapeCount, SkipCount};

use crate::modules::{self, Function, GENERATION, Kernel};
use crate::{process, session};

/// What a launch asks for, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// `CUfunction` or `CUkernel`.
    pub function: usize,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub dynamic_shared: u32,
}

/// The counters of one kernel with one grid, block and dynamic shared size. Never freed: threads
/// keep references in their tables.
pub struct Counter {
    pub function: Arc<Function>,
    shape: Shape,
    launches: AtomicU64,
    captured: AtomicU64,
    /// The next occurrence to record; `u64::MAX` when there is none.
    next: AtomicU64,
}

/// Launches seen in the process on streams that do not capture.
pub static LAUNCHES: AtomicU64 = AtomicU64::new(0);

struct Slot {
    generation: u64,
    shape: Shape,
    counter: &'static Counter,
}

const SLOTS: usize = 64;

thread_local! {
    static TABLE: [Cell<Option<&'static Slot>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
}

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

/// Counts the launch. `Some` with its occurrence when it is one to record.
#[inline]
pub fn count(shape: &Shape) -> Option<(&'static Counter, u64)> {
    let generation = GENERATION.load(Ordering::Acquire);
    let at = slot_of(shape);
    // A thread that is ending has no table any more; its launches go the long way.
    let slot = TABLE.try_with(|table| table[at].get()).ok().flatten();
    let counter = match slot {
        Some(slot) if slot.generation == generation && slot.shape == *shape => slot.counter,
        _ => meet(shape, generation, at),
    };
    let occurrence = counter.launches.fetch_add(1, Ordering::Relaxed) + 1;
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
    if occurrence < counter.next.load(Ordering::Relaxed) {
        return None;
    }
    counter.is_due(occurrence).then_some((counter, occurrence))
}

/// Counts a launch that goes into a stream capture: it runs later, as a graph's node.
pub fn into_graph(shape: &Shape) {
    session::LAUNCHES_INTO_GRAPHS.fetch_add(1, Ordering::Relaxed);
    let generation = GENERATION.load(Ordering::Acquire);
    meet(shape, generation, slot_of(shape)).skipped("it went into a CUDA graph");
}

fn slot_of(shape: &Shape) -> usize {
    let mut hash = shape.function as u64;
    for word in shape.grid.iter().chain(&shape.block) {
        hash = (hash ^ u64::from(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (hash >> 32) as usize % SLOTS
}

/// The first launch of this shape in this thread since the last unload.
#[cold]
fn meet(shape: &Shape, generation: u64, at: usize) -> &'static Counter {
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
            shape.grid,
            shape.block,
            shape.dynamic_shared,
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
    let _ = TABLE.try_with(|table| table[at].set(Some(slot)));
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
        if !self.function.kernel.selected {
            return false;
        }
        let next = process::next_selected(occurrence).unwrap_or(u64::MAX);
        self.next.fetch_max(next, Ordering::Relaxed);
        process::next_selected(occurrence - 1) == Some(occurrence)
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
                grid: counter.shape.grid,
                block: counter.shape.block,
                dynamic_shared: counter.shape.dynamic_shared,
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
