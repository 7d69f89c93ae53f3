//! Worker processes with limits: a crash or a hang of a compiler costs one answer.
//!
//! LLVM ends its process where it meets what it cannot do, some pass sequences never end, and its options are global to
//! a process. A [`Pool`] therefore sends each recipe, and each source for another compiler, to a child process and hands back what comes: a product, or a
//! [`Failure`](crate::recipe::Failure) that names the stage which the child had reached.
//!
//! ```text
//!   compile(recipe) ──► slot ──► child with the same LLVM options, idle or new ──► recipe ──►┐
//!                                                                                            │ serve(): stage, stage, …
//!   product or failure ◄── verdict ◄── answer · end of the process · time limit ◄────────────┘
//! ```
//!
//! # What holds
//!
//! - A child is a process group of its own: a compiler or an assembler that it started goes with it.
//! - A child does not outlive its parent. A thread of it watches the connection, and is told by the system
//!   (`PR_SET_PDEATHSIG`) when the parent's thread that started it is gone, which lives as long as the pool. It then
//!   removes the child's folder and kills the whole group.
//! - A child has no descriptor of the parent but the connection and its log, a cleaned environment ([`ENVIRONMENT`];
//!   nothing is preloaded into it), and a private folder as working directory and `TMPDIR`, which the parent removes.
//! - What LLVM, an assembler or a compiler prints goes to the log. Nothing but answers can be written to the connection.
//! - Logs and messages are bounded, whatever a child writes.
//! - The program that is started as a child calls [`serve`] before it does anything else.

pub mod frame;

mod protocol;

pub mod isolate;

mod serve;
pub use serve::{serve, serve_with};

mod environment;
pub use environment::{ENVIRONMENT, inherited};

mod tail;
pub use tail::Tail;

mod process;
pub use process::Process;

mod child;

mod verdict;

mod pool;
pub use pool::{Limits, Pool, WorkerCommand};

mod measure;
pub use measure::{Throughput, throughput};
