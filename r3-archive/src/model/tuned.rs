//! Tuned kernels: what a search found, complete enough to be used without the capture or the search.

use serde::{Deserialize, Serialize};

use super::{ParamLayout, TunedId};
use crate::chunk::Blob;

/// A form of a tuned kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunedForm {
    /// Machine code: an ELF file for one architecture. This is what was verified and timed.
    Cubin,
    /// PTX text, without the terminating NUL: what the machine code was made from.
    Ptx,
    /// LLVM IR as text, after the passes.
    Llvm,
}

/// A tuned kernel's code in one form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedCode {
    /// Which one.
    pub form: TunedForm,
    /// The kernel's name in it.
    pub name: String,
    /// What it is for, e.g. `sm_90a`; empty where nothing is said.
    pub target: String,
    /// The code.
    pub code: Blob,
}

/// How many blocks a dimension of the grid gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunedGrid {
    /// At least as many threads as the application asks for: ceil(its blocks × its threads ÷ new threads).
    Cover,
    /// As many blocks as the application asks for.
    Same,
    /// So many.
    Blocks(u32),
    /// The application's number, times the first and divided by the second, rounded up.
    Scale(u32, u32),
}

/// How much dynamic shared memory a block gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunedShared {
    /// As much as the application asks for.
    Same,
    /// In proportion to the threads of a block, rounded up to 16 bytes.
    PerThread,
    /// So many bytes.
    Bytes(u32),
}

/// How a tuned kernel is launched where the application launches its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunedLaunch {
    /// Threads of a block; `None` is what the application asks for.
    pub block: Option<[u32; 3]>,
    /// Blocks of the grid, in each dimension.
    pub grid: [TunedGrid; 3],
    /// Dynamic shared memory.
    pub shared: TunedShared,
    /// Part of the L1 cache that is to be shared memory, in percent.
    pub carveout: Option<u32>,
}

/// What must hold of a launch for a tuned kernel to stand for the original. Otherwise the original runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TunedGuard {
    /// Bytes of a parameter.
    Param {
        /// Its position.
        index: u32,
        /// Offset in it.
        offset: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The grid that the application asks for.
    Grid([u32; 3]),
    /// The block that the application asks for.
    Block([u32; 3]),
    /// No other parameter's accesses reach the memory of this one.
    NoAlias {
        /// Its position.
        index: u32,
    },
    /// A pointer's alignment.
    Align {
        /// Its position.
        index: u32,
        /// In bytes.
        bytes: u32,
    },
}

/// A shape of launches that a tuned kernel was verified on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedShape {
    /// Grid that the application asks for.
    pub grid: [u32; 3],
    /// Block that it asks for.
    pub block: [u32; 3],
    /// Dynamic shared memory that it asks for, in bytes.
    pub dynamic_shared: u32,
    /// Recorded launches that decided the choice.
    pub tuned: u32,
    /// Recorded launches that did not, and were right too.
    pub held_out: u32,
    /// The tuned kernel's time as a part of the original's, over launches of this shape; 0 when they were not timed.
    pub ratio: f64,
}

/// The source that a tuned kernel was compiled from, where a search varied it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedSource {
    /// The file, as compilers name it.
    pub name: String,
    /// Text of the whole file.
    pub text: Blob,
    /// Text of the file as it was given.
    pub given: Blob,
    /// What differs between them, as a unified diff.
    pub diff: String,
    /// The compiler: `nvrtc`, `nvcc`, `clang`.
    pub compiler: String,
    /// Its options, without architecture and files.
    pub options: Vec<String>,
    /// How it came about, as JSON: the variants from the given one to it, each with what was done and how fast it was.
    pub lineage: String,
    /// The given source's time, compiled alike, as a part of the original's: median, and both ends of the interval. `None` when
    /// it was not measured with the result.
    pub given_ratio: Option<[f64; 3]>,
}

/// A kernel that stands for a captured one and is faster: what a search found. It is complete: neither the capture nor
/// the search is needed to use it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunedKernelRecord {
    /// Identifier. Of several for one kernel and one architecture the one with the highest holds.
    pub id: TunedId,
    /// Name of the captured kernel's entry function (mangled).
    pub kernel: String,
    /// 128-bit xxh3 of the image that the application loads the captured kernel from, little endian; zeros when that
    /// load was not seen.
    pub module_hash: [u8; 16],
    /// Parameters of the captured kernel, in order: the tuned one has the same.
    pub params: Vec<ParamLayout>,
    /// UUID of the capture that it was tuned on.
    pub archive: [u8; 16],
    /// 128-bit xxh3 of that file, little endian.
    pub archive_hash: [u8; 16],
    /// Its code, machine code first. Empty when the application's own code is launched in another shape.
    pub code: Vec<TunedCode>,
    /// How it is launched.
    pub launch: TunedLaunch,
    /// When it may be.
    pub guards: Vec<TunedGuard>,
    /// Shapes that it was verified on.
    pub shapes: Vec<TunedShape>,
    /// Its time as a part of the original's: median, and both ends of the interval.
    pub ratio: [f64; 3],
    /// Confidence of that interval.
    pub confidence: f64,
    /// Name of the device that it was measured on.
    pub device: String,
    /// Compute capability of that device, e.g. (9, 0).
    pub compute_capability: (i32, i32),
    /// `cuDriverGetVersion`, e.g. 13000; 0 where there is no driver.
    pub driver_version: i32,
    /// Whether results may differ from the original's within a tolerance.
    pub approximate: bool,
    /// What was tried, as JSON.
    pub candidate: String,
    /// What it stands on, as JSON: samples, held-out launches, versions.
    pub evidence: String,
    /// Version of R3 that found it.
    pub r3_version: String,
    /// When, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// The source that was varied; `None` where only how the captured code is compiled and launched was. Since version 2 of the
    /// record.
    pub source: Option<TunedSource>,
}

impl TunedKernelRecord {
    /// The code in one form.
    pub fn code(&self, form: TunedForm) -> Option<&TunedCode> {
        self.code.iter().find(|code| code.form == form)
    }
}
