//! A CPU device for PTX kernels.

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
