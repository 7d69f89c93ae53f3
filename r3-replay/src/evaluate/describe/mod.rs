//! What there is to try for a kernel: everything that a search needs to know, without a device or an archive at hand.
//!
//! `gather` makes a description of an archive and a device; `census` counts what a kernel's PTX does.

mod census;
mod gather;

use r3_archive::model::LaunchId;
use r3_codegen::recipe::Bounds;
use serde::{Deserialize, Serialize};

use crate::remix::trial::Used;

pub use census::census;
pub use gather::{DescribeError, describe};

/// A kernel, what its code is like, and how it was launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelDescription {
    /// Identity of the archive (its UUID).
    pub archive: String,
    /// The kernel's name, as the code has it.
    pub name: String,
    /// Its name, readable.
    pub readable: String,
    /// Where it runs.
    pub device: DeviceDescription,
    /// The forms of its code other than machine code, best first, for people.
    pub forms: Vec<String>,
    /// Whether it can be compiled anew: one of the forms can.
    pub compilable: bool,
    /// Whether its recorded code runs on this device.
    pub recorded_runs: bool,
    /// What the recorded code uses, on a device that says it.
    #[serde(default)]
    pub used: Option<Used>,
    /// Most threads of a block for the recorded code, as the device says.
    pub max_threads: u32,
    /// Launch bounds that the code states.
    pub bounds: Bounds,
    /// Exact block that the code demands (`.reqntid`).
    #[serde(default)]
    pub required_block: Option<[u32; 3]>,
    /// What its code does, as far as there is PTX.
    #[serde(default)]
    pub census: Option<Census>,
    /// Its parameters.
    pub params: Vec<ParamDescription>,
    /// Its recorded launches.
    pub launches: Vec<LaunchDescription>,
    /// The source of its module, where the application compiled that at run time.
    #[serde(default)]
    pub source: Option<CapturedSource>,
}

/// CUDA C++ that the application compiled at run time (NVRTC), as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedSource {
    /// Its text.
    pub text: String,
    /// The name that the application gave it.
    pub name: String,
    /// Headers by name, given with it.
    pub headers: Vec<(String, String)>,
    /// Options that its compiler was given.
    pub options: Vec<String>,
    /// Instances of templates that the application asked for, as C++ spells them (NVRTC's name expressions).
    pub instances: Vec<String>,
    /// The compiler, for people.
    pub compiler: String,
}

/// A device, as far as a search needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceDescription {
    /// Name, e.g. `NVIDIA H200`.
    pub name: String,
    /// Whether it counts instead of measuring.
    pub counts: bool,
    /// Identity of the device; empty when it has none.
    pub uuid: String,
    /// Driver version, e.g. 13000; 0 without a driver.
    pub driver: i32,
    /// Architecture, e.g. 90.
    pub sm: u32,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a block at most.
    pub max_threads_per_block: u32,
    /// Threads on a multiprocessor at most.
    pub max_threads_per_multiprocessor: u32,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Shared memory of a block at most, in bytes, when it asks for it.
    pub max_shared_per_block: u32,
    /// Size of the level-2 cache in bytes.
    pub l2_bytes: u64,
    /// Peak bandwidth of device memory in bytes per second; 0 when it is not known.
    pub memory_bandwidth: f64,
}

/// What a kernel's PTX does, counted over its text and that of the functions it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    /// Instructions.
    pub instructions: u32,
    /// Loops: branches backwards.
    pub loops: u32,
    /// Block-wide barriers.
    pub barriers: u32,
    /// Shuffles, votes and other exchanges within a warp.
    pub warp_exchanges: u32,
    /// Bytes of static shared memory.
    pub static_shared: u32,
    /// Whether it uses dynamic shared memory.
    pub dynamic_shared: bool,
    /// Whether it reads the block's dimensions (`%ntid`), per dimension.
    pub reads_block: [bool; 3],
    /// Whether it reads the grid's dimensions (`%nctaid`), per dimension.
    pub reads_grid: [bool; 3],
    /// Whether it reads its block's index, per dimension.
    pub reads_block_index: [bool; 3],
    /// Loads from global memory that are not through the read-only path yet.
    pub global_loads: u32,
    /// Stores to global memory.
    pub global_stores: u32,
    /// Atomics and reductions.
    pub atomics: u32,
    /// Exact single-precision divisions, square roots and reciprocals.
    pub exact_divisions: u32,
    /// Single-precision operations that do not flush subnormals.
    pub unflushed: u32,
    /// Floating-point operations, of all widths.
    pub float_operations: u32,
    /// Integer divisions and remainders.
    pub integer_divisions: u32,
    /// Calls of functions that have a body.
    pub calls: u32,
    /// Loads and stores under a predicate.
    pub guarded_accesses: u32,
    /// Whether it uses clusters, or must be launched cooperatively.
    pub grid_wide: bool,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamDescription {
    /// Its position.
    pub index: u32,
    /// Where it begins in a launch's parameters, in bytes.
    #[serde(default)]
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
    /// Whether it is, or has in it, a pointer.
    pub pointer: bool,
    /// Its bytes, when they are the same in all recorded launches and it is no pointer.
    #[serde(default)]
    pub constant: Option<Vec<u8>>,
    /// In how many different values it was recorded.
    pub values: u32,
    /// Where it points to, when it is one pointer and nothing else, into recorded memory in every launch.
    #[serde(default)]
    pub target: Option<PointerTarget>,
}

/// What is known of the memory that a pointer parameter leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerTarget {
    /// Largest power of two that divides the address in every recorded launch, in bytes.
    pub alignment: u64,
    /// Bytes from the address to the end of its allocation: the least of all recorded launches.
    pub least: u64,
    /// The same: the most.
    pub most: u64,
    /// Number of its allocation, from 1: parameters with the same number lead into one allocation in some launch, and those with
    /// different ones never do. 0 where it is a variable of the module, which code can reach by its name as well.
    #[serde(default)]
    pub allocation: u32,
}

/// A recorded launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchDescription {
    /// The launch.
    pub launch: LaunchId,
    /// Blocks of its grid.
    pub grid: [u32; 3],
    /// Threads of its blocks.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Whether it was cooperative.
    pub cooperative: bool,
    /// How many launches of the application it stands for: those of its shape, shared among the recorded ones.
    pub weight: f64,
    /// Bytes of memory that belong to it.
    pub bytes: u64,
    /// Why it proves less than it seems to, for people. Empty when nothing is to be said.
    pub caveats: Vec<String>,
}
