//! What can go wrong in a launch: like a sanitizer, with the place in the PTX.

use r3_ptx::source::Pos;
use std::fmt;

/// Why a launch ended early.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Kernel (mangled).
    pub kernel: String,
    /// Function that was running, when it is not the kernel.
    pub function: Option<String>,
    /// Block, when one was running.
    pub block: Option<[u32; 3]>,
    /// Thread, when it is about one.
    pub thread: Option<[u32; 3]>,
    /// Place in the PTX text.
    pub pos: Option<Pos>,
    /// The instruction, printed.
    pub instruction: Option<String>,
}

/// Kinds of faults.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside mapped memory.
    OutOfBounds {
        /// `global`, `shared`, `local`, `param`, `const`
        space: &'static str,
        /// Address; an offset for `shared`, `local` and `param`.
        address: u64,
        /// Bytes.
        len: u32,
        /// Whether it wrote.
        write: bool,
        /// What is near: the mapping before or after, or the size of the space. For people.
        nearby: Option<String>,
    },
    /// A misaligned access.
    Misaligned {
        /// As above.
        space: &'static str,
        /// Address.
        address: u64,
        /// Alignment that is needed.
        align: u32,
    },
    /// `trap`
    Trap,
    /// `brkpt`
    Breakpoint,
    /// `assert` in device code.
    Assert {
        /// The expression.
        message: String,
        /// Source file.
        file: String,
        /// Line in it.
        line: u32,
        /// Function.
        function: String,
    },
    /// Threads wait for each other for ever; says who waits where.
    Deadlock(String),
    /// An instruction, modifier or feature that this device does not have.
    Unsupported(String),
    /// [`RunOptions::instruction_limit`](crate::RunOptions::instruction_limit) was reached.
    InstructionLimit(u64),
    /// [`RunOptions::cancel`](crate::RunOptions::cancel) was set.
    Cancelled,
    /// Call stack or local memory ran out.
    StackOverflow,
    /// The launch itself is not possible: too many threads, wrong size of parameters, …
    InvalidLaunch(String),
    /// A bug of this crate: a panic of a worker, with its text.
    Internal(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl std::error::Error for Fault {}

/// A race on shared memory: two threads of a block, at least one writes, no barrier between.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// Block.
    pub block: [u32; 3],
    /// Offset in shared memory.
    pub offset: u32,
    /// Threads.
    pub threads: [[u32; 3]; 2],
    /// Places of the two accesses.
    pub pos: [Pos; 2],
    /// Which of the two wrote.
    pub writes: [bool; 2],
}
