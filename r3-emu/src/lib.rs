//! A CPU device for PTX kernels.
//!
//! It runs kernels where no GPU is, for two uses: to verify that a recorded launch writes what a GPU wrote, and as
//! the reference for what a kernel means. So it is exact before it is fast, it says where a kernel went wrong like a
//! sanitizer does, and a launch does the same each time.
//!
//! # The way of a launch
//! 1. [`Program::load`] takes checked modules ([`r3_ptx::check()`]), links their names, and asks its caller for an address of
//!    each variable. For each kernel it lays out shared memory over all functions that the kernel may call.
//! 2. When a function is first called, it is decoded: each instruction becomes an op, a pointer to a handler with the places of its operands
//!    (`decode`, `exec`). Numbers, special registers and addresses become registers that nobody writes, so a handler
//!    knows nothing of operand kinds.
//! 3. [`Program::launch`] gives blocks to host threads (`run`). A block runs on one thread from its start to its end, unless it
//!    polls for what another block does: then others run beside it.
//! 4. Within a block, warps take turns at barriers and when they poll (`block`). A warp runs one op for its 32 lanes at once,
//!    under a mask of those that are there; the loops over lanes are plain loops that the compiler makes vector code of, for AVX2
//!    where the host has it.
//! 5. What all did comes back as a [`Report`]; the first thing that went wrong as a [`Fault`].
//!
//! # Invariants
//! - **Addresses.** A device address is not a host address: [`Memory`] maps one to the other, so captured addresses can be used as they
//!   were. Shared, local and parameter memory lie in windows that no mapping can have ([`memory::window`]). Every access is checked.
//! - **Lanes.** A register is 32 lanes side by side, and lanes touch only their own: so lanes that are at different places in the
//!   program share a register file. Lanes that took different ways meet at the first op that both reach.
//! - **Who runs next** is fixed: of a warp the lanes with the lowest op, deepest call first; of a block the warps
//!   in order; of a grid the blocks in order. With one host thread or many a launch writes the same bytes, unless
//!   the kernel itself races between blocks. Counts are the same too.
//! - **Waiting.** Nothing waits in the host: who cannot go on says so, and others run. When nobody can, that is a deadlock, and the fault
//!   says who waits where.
//! - **Missing instructions** are faults when they are reached, not errors when they are loaded.
//!
//! # Where things are
//! `program` links; `decode` makes ops; `exec` has the handlers, one family a file (its first page says how to add one); [`arith`]
//! has the arithmetic as functions of numbers; [`memory`] the address space; `block` warps and barriers; `run` host threads.
//! `docs/emulator.md` lists what is exact, what is within a bound, and what an instruction costs in [`Report::cost`].

pub mod accuracy;
pub mod arith;
mod block;
mod decode;
mod exec;
mod fault;
mod launch;
pub mod memory;
mod printf;
mod program;
mod run;
pub mod tensor_map;

pub use fault::{Fault, FaultKind, Race};
pub use launch::{Class, Counts, LaunchConfig, Report, RunOptions};
pub use memory::{Memory, MemoryError};
pub use program::{KernelId, KernelInfo, LoadError, Placement, Program};
