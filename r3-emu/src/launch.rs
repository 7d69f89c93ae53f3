//! What a caller gives to a launch, and what it gets back.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

/// Shape and arguments of one launch.
#[derive(Clone, Debug)]
pub struct LaunchConfig<'a> {
    /// Blocks of the grid, x y z.
    pub grid: [u32; 3],
    /// Threads of a block, x y z.
    pub block: [u32; 3],
    /// Blocks of a cluster, x y z; `[1, 1, 1]` for none (a kernel's own `.reqnctapercluster` holds then).
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// All blocks are resident at once, and `grid.sync` works.
    pub cooperative: bool,
    /// The parameter buffer. Shorter than the kernel's is an error.
    pub params: &'a [u8],
    /// Run only these blocks, by linear index (x fastest). Whole clusters: the range is widened to them.
    pub blocks: Option<Range<u64>>,
}

/// How to run.
#[derive(Clone, Copy)]
pub struct RunOptions<'a> {
    /// Host threads; 0 for as many as there are cores.
    pub threads: usize,
    /// Report races on shared memory.
    pub racecheck: bool,
    /// Give up after so many warp instructions in all. Catches kernels that never end.
    pub instruction_limit: Option<u64>,
    /// Where the output of `printf` goes.
    pub print: &'a (dyn Fn(&[u8]) + Sync),
    /// Set by another thread: end soon, with [`FaultKind::Cancelled`](crate::FaultKind::Cancelled).
    pub cancel: Option<&'a AtomicBool>,
}

/// What a launch did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Warp instructions, by class.
    pub counts: Counts,
    /// Instructions times active lanes.
    pub thread_instructions: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Races on shared memory, when asked for. At most some dozens are kept.
    pub races: Vec<crate::Race>,
}

impl Report {
    /// Weighted count of warp instructions: the "time" of a launch on this device. Deterministic unless the kernel
    /// waits for other blocks. See `docs/emulator.md` for the weights.
    pub fn cost(&self) -> u64 {
        self.counts.cost()
    }
}

/// Warp instructions by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Executed warp instructions of each [`Class`].
    pub by_class: [u64; Class::COUNT],
    /// 32-byte sectors of global memory that warps touched, reads and writes.
    pub global_sectors: u64,
    /// Extra passes through shared memory because of bank conflicts.
    pub bank_conflicts: u64,
}

impl Counts {
    /// See [`Report::cost`].
    pub fn cost(&self) -> u64 {
        let classes = self.by_class.iter().zip(WEIGHTS);
        classes.map(|(n, weight)| n * weight).sum::<u64>()
            + self.global_sectors * SECTOR_WEIGHT
            + self.bank_conflicts * CONFLICT_WEIGHT
    }

    /// Adds those of another warp or block.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, n) in self.by_class.iter_mut().zip(other.by_class) {
            *sum += n;
        }
        self.global_sectors += other.global_sectors;
        self.bank_conflicts += other.bank_conflicts;
    }
}

/// Classes of instructions that cost about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Class {
    /// 32-bit integer and logic, moves, comparisons, single precision.
    Alu,
    /// 64-bit integer arithmetic, integer division.
    Wide,
    /// Double precision.
    Double,
    /// Approximate functions.
    Special,
    /// Conversions.
    Convert,
    /// Global, generic and constant loads and stores.
    Global,
    /// Shared memory.
    Shared,
    /// Local memory.
    Local,
    /// Atomics and reductions.
    Atomic,
    /// Exchange between lanes.
    Warp,
    /// Barriers and fences.
    Barrier,
    /// Branches, calls, returns.
    Control,
    /// Matrix instructions.
    Matrix,
    /// Textures and surfaces.
    Texture,
    /// All others.
    Other,
}

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = 15;
}

/// What a warp instruction of each [`Class`] costs, in its order: cycles of issue on a multiprocessor with 32 lanes a
/// scheduler of single precision, relative to one addition. See `docs/emulator.md`.
const WEIGHTS: [u64; Class::COUNT] = [
    1,  // Alu
    2,  // Wide
    2,  // Double
    4,  // Special
    2,  // Convert
    4,  // Global
    2,  // Shared
    4,  // Local
    8,  // Atomic
    2,  // Warp
    4,  // Barrier
    2,  // Control
    16, // Matrix
    8,  // Texture
    1,  // Other
];
/// What a 32-byte sector of global memory costs besides.
const SECTOR_WEIGHT: u64 = 2;
/// What one more pass through shared memory costs.
const CONFLICT_WEIGHT: u64 = 2;
