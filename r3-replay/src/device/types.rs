//! Plain values of the [`Device`](super::Device) interface.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use r3_archive::model::LaunchAttribute;

use super::COMPARE_CHUNK;
use crate::compare::ElementType;

/// A range of device addresses, not empty and not wrapping around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    start: u64,
    len: u64,
}

impl AddressRange {
    /// The `len` bytes from `start`; `None` when empty or beyond the end of the address space.
    pub fn new(start: u64, len: u64) -> Option<Self> {
        if len == 0 {
            return None;
        }
        start.checked_add(len).map(|_| Self { start, len })
    }

    /// From `start` up to, not including, `end`; `None` when empty.
    pub fn between(start: u64, end: u64) -> Option<Self> {
        end.checked_sub(start).and_then(|len| Self::new(start, len))
    }

    /// First address.
    pub fn start(self) -> u64 {
        self.start
    }

    /// First address after the range.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    /// Length in bytes; never 0.
    #[allow(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        self.len
    }

    /// Whether `address` lies in the range.
    pub fn contains(self, address: u64) -> bool {
        address >= self.start && address - self.start < self.len
    }

    /// Whether all of `other` lies in the range.
    pub fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// Whether the ranges share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// The smallest range around this one that is aligned to `granularity`, a power of two.
    /// `None` when it would reach beyond the end of the address space.
    pub fn round_out(self, granularity: u64) -> Option<Self> {
        let mask = granularity.wrapping_sub(1);
        let end = self.end().checked_add(mask)? & !mask;
        Self::between(self.start & !mask, end)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}-{:#x}", self.start, self.end())
    }
}

/// Where code runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Platform {
    /// A GPU, through its CUDA driver.
    #[default]
    Cuda,
    /// Host threads that interpret PTX.
    Cpu,
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceInfo {
    /// Where code runs.
    pub platform: Platform,
    /// Name, e.g. `NVIDIA H200`.
    pub name: String,
    /// Device ordinal.
    pub ordinal: i32,
    /// Compute capability, e.g. (9, 0).
    pub compute_capability: (i32, i32),
    /// Device memory in bytes.
    pub total_memory: u64,
    /// Driver version, e.g. 13000.
    pub driver_version: i32,
    /// Identity of the device, as NVML spells it (`GPU-…`); empty when it has none.
    pub uuid: String,
}

impl DeviceInfo {
    /// Architecture, e.g. 90 for compute capability 9.0.
    pub fn architecture(&self) -> u32 {
        let (major, minor) = self.compute_capability;
        u32::try_from(major.saturating_mul(10).saturating_add(minor)).unwrap_or(0)
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sm = self.architecture();
        match self.platform {
            Platform::Cuda => write!(
                f,
                "{} (sm_{sm}, CUDA {}.{} driver)",
                self.name,
                self.driver_version / 1000,
                self.driver_version % 1000 / 10
            ),
            Platform::Cpu => write!(f, "{} (PTX, as on sm_{sm})", self.name),
        }
    }
}

/// A loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleHandle(pub u64);

/// A kernel of a loaded module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelHandle(pub u64);

/// Where a module's variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalAddress {
    /// Address of its first byte.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
}

/// A `CUjit_option` with a plain value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitOption {
    /// Number of the option.
    pub option: u32,
    /// Its value.
    pub value: u64,
}

/// Some bytes to be written in one go. At most one archive chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
    /// What it belongs to. Copies never run over the end of a variable into the next one: the driver
    /// refuses that, also where variables lie side by side.
    pub region: usize,
}

/// Two ranges to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareRange {
    /// The bytes in question.
    pub actual: u64,
    /// What they should be; `None` stands for zeros.
    pub expected: Option<u64>,
    /// Length of both in bytes.
    pub len: u64,
}

impl CompareRange {
    /// Number of chunks, the last of which may be shorter.
    pub fn chunk_count(&self) -> u64 {
        self.len.div_ceil(COMPARE_CHUNK)
    }

    /// Offset and length of each chunk.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let len = self.len;
        (0..self.chunk_count()).map(move |chunk| {
            let offset = chunk * COMPARE_CHUNK;
            (offset, (len - offset).min(COMPARE_CHUNK))
        })
    }
}

/// A launch: everything but the kernel.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig<'a> {
    /// Grid dimensions in blocks.
    pub grid: [u32; 3],
    /// Block dimensions in threads.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub dynamic_shared: u32,
    /// Whether the launch is cooperative.
    pub cooperative: bool,
    /// Further attributes.
    pub attributes: &'a [LaunchAttribute],
    /// Run only these blocks of the grid.
    pub blocks: Option<BlockRange>,
    /// The parameter buffer.
    pub params: &'a [u8],
}

/// Some blocks of a grid, by linear index (x runs fastest): from `first` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BlockRange {
    /// The first block.
    pub first: u64,
    /// The first block that is not in it.
    pub end: u64,
}

impl BlockRange {
    /// The part of it that a grid has; `None` when that is nothing.
    pub fn within(self, grid: [u32; 3]) -> Option<Self> {
        let end = self.end.min(Self::all(grid).end);
        (self.first < end).then_some(Self { end, ..self })
    }

    /// All blocks of a grid.
    pub fn all(grid: [u32; 3]) -> Self {
        let end = grid
            .iter()
            .fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
        Self { first: 0, end }
    }

    /// How many blocks.
    pub fn count(self) -> u64 {
        self.end.saturating_sub(self.first)
    }
}

impl From<BlockRange> for Range<u64> {
    fn from(blocks: BlockRange) -> Self {
        blocks.first..blocks.end
    }
}

impl fmt::Display for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.end)
    }
}

impl std::str::FromStr for BlockRange {
    type Err = String;

    /// `4..8`; `..8` and `4..` leave an end out, `5` is one block.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str, missing: u64| match part.trim() {
            "" => Ok(missing),
            part => part.parse::<u64>().map_err(|_| {
                format!("`{part}` is no block number; blocks are given as FIRST..END, e.g. 0..16")
            }),
        };
        let blocks = match text.split_once("..") {
            Some((first, end)) => Self {
                first: number(first, 0)?,
                end: number(end, u64::MAX)?,
            },
            None => {
                let first = number(text, 0)?;
                let end = first.saturating_add(1);
                Self { first, end }
            }
        };
        if text.trim().is_empty() || blocks.first >= blocks.end {
            return Err(format!("`{text}` has no blocks: the end is not part of it"));
        }
        Ok(blocks)
    }
}

/// What a timed launch took.
#[derive(Clone, Debug, PartialEq)]
pub enum Effort {
    /// Running time on the device, in nanoseconds.
    Nanoseconds(f64),
    /// What the launch did, on a device that counts instead of measuring.
    Work(Box<Work>),
}

/// What a launch did, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Weighted count of warp instructions: what stands for time on this device.
    pub cost: u64,
    /// Warp instructions by class. The classes are those of the device, in its order.
    pub warp_instructions: Vec<(&'static str, u64)>,
    /// Instructions of single threads.
    pub thread_instructions: u64,
    /// 32-byte sectors of global memory that warps touched.
    pub global_sectors: u64,
    /// Extra passes through shared memory because of bank conflicts.
    pub bank_conflicts: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Races on shared memory, for people.
    pub races: Vec<String>,
    /// Time that the host took.
    pub wall: Duration,
}

/// Why a kernel may leave other bits on this device than on a GPU, although both are right.
#[derive(Clone, Debug, PartialEq)]
pub struct Inexact {
    /// What it is, for people: `ex2.approx.ftz.f32`, `mul and add may be fused`.
    pub what: String,
    /// Line of the first place in the PTX.
    pub line: u32,
    /// How many such instructions there are.
    pub count: u32,
    /// How far one result may be off, relative to its value.
    pub relative: f64,
    /// The type of all elements that the kernel writes to memory, when it is one floating-point type.
    pub stored: Option<ElementType>,
}
