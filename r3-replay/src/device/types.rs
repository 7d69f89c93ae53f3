//! Plain values of the [`Device`](super::Device) interface.

use std::fmt;

use r3_archive::model::LaunchAttribute;

use super::COMPARE_CHUNK;

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

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceInfo {
    /// `CUDA` or what else runs the code.
    pub platform: String,
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
    /// The parameter buffer.
    pub params: &'a [u8],
}
