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
    /// An operand that means nothing at run time: a barrier that is not initialised, a handle that nobody knows, …
    Invalid(String),
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
    /// The host has no memory for registers, local or shared memory of the blocks that must be resident at once.
    HostMemory {
        /// Bytes that were asked for.
        wanted: u64,
        /// Bytes that launches have already.
        used: u64,
    },
    /// The launch itself is not possible: too many threads, wrong size of parameters, …
    InvalidLaunch(String),
    /// A bug of this crate: a panic of a worker, with its text.
    Internal(String),
}

impl From<crate::block::NoMemory> for FaultKind {
    fn from(none: crate::block::NoMemory) -> Self {
        Self::HostMemory {
            wanted: none.wanted,
            used: none.used,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, in kernel {}", self.kind, self.kernel)?;
        if let Some(function) = &self.function {
            write!(f, ", function {function}")?;
        }
        if let Some([x, y, z]) = self.block {
            write!(f, ", block ({x}, {y}, {z})")?;
        }
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread ({x}, {y}, {z})")?;
        }
        if let Some(pos) = self.pos {
            write!(f, ", at {pos}")?;
        }
        if let Some(instruction) = &self.instruction {
            write!(f, ": {instruction}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfBounds {
                space,
                address,
                len,
                write,
                nearby,
            } => {
                let verb = if *write { "write" } else { "read" };
                write!(f, "invalid {space} {verb} of {len} bytes at {address:#x}")?;
                match nearby {
                    Some(nearby) => write!(f, " ({nearby})"),
                    None => Ok(()),
                }
            }
            Self::Misaligned {
                space,
                address,
                align,
            } => write!(
                f,
                "misaligned {space} access at {address:#x}: a multiple of {align} is needed"
            ),
            Self::Invalid(what) => f.write_str(what),
            Self::Trap => f.write_str("trap"),
            Self::Breakpoint => f.write_str("breakpoint (brkpt)"),
            Self::Assert {
                message,
                file,
                line,
                function,
            } => write!(
                f,
                "assertion `{message}` failed at {file}:{line} ({function})"
            ),
            Self::Deadlock(who) => write!(f, "deadlock: nobody can go on: {who}"),
            Self::Unsupported(what) => write!(f, "the CPU device does not support {what}"),
            Self::InstructionLimit(limit) => {
                write!(f, "the limit of {limit} warp instructions was reached")
            }
            Self::Cancelled => f.write_str("cancelled"),
            Self::StackOverflow => f.write_str("a thread's stack is full"),
            Self::HostMemory { wanted, used } => write!(
                f,
                "the host has no memory for the launch: {wanted} bytes more than the {used} in use"
            ),
            Self::InvalidLaunch(reason) => write!(f, "invalid launch: {reason}"),
            Self::Internal(reason) => write!(f, "internal error of the CPU device: {reason}"),
        }
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
