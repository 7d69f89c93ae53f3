//! A CPU device for PTX kernels.

mod fault;
mod launch;
mod memory;
mod program;
pub mod tensor_map;

pub use fault::{Fault, FaultKind, Race};
pub use launch::{Class, Counts, LaunchConfig, Report, RunOptions};
pub use memory::{Memory, MemoryError};
pub use program::{KernelId, KernelInfo, LoadError, Placement, Program};
