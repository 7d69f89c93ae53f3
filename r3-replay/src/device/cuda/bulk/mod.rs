//! Operations in bulk on a GPU: kernels of our own, and tables that tell them what to do.
//!
//! What is to be done becomes a table of pieces ([`tables`]), which goes to the device anew for each operation: whatever a launch
//! did to the memory of an earlier one changes nothing. [`Bulk`] is the same for a GPU ([`gpu`]) and for the CPU device, on which
//! tests run the very same kernels.

mod gpu;
mod tables;

use self::tables::{Batch, FOUND_LEN, Part, Table, batches, found, join};
use crate::device::operations::{JudgeJob, Judged, MarkJob, MaskJob, Place};
use crate::device::{AddressRange, DeviceError};

pub use gpu::Gpu;

/// The kernels, made of `kernels.cpp` by `make.sh`.
pub const PTX: &str = include_str!("kernels.ptx");

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Bytes of a tile: what a block does.
const TILE: u64 = 16 << 10;

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// `place`.
    Place,
    /// `mark_equal`.
    MarkEqual,
    /// `change_masks`.
    ChangeMasks,
    /// `sums`.
    Sums,
    /// `judge_bits`.
    JudgeBits,
    /// `judge_tiles`.
    JudgeTiles,
    /// `judge_pieces`.
    JudgePieces,
    /// `compare_chunks`.
    CompareChunks,
}

impl Kernel {
    /// All of them, in their order.
    pub const ALL: [Self; 8] = [
        Self::Place,
        Self::MarkEqual,
        Self::ChangeMasks,
        Self::Sums,
        Self::JudgeBits,
        Self::JudgeTiles,
        Self::JudgePieces,
        Self::CompareChunks,
    ];

    /// Its name in [`PTX`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::MarkEqual => "mark_equal",
            Self::ChangeMasks => "change_masks",
            Self::Sums => "sums",
            Self::JudgeBits => "judge_bits",
            Self::JudgeTiles => "judge_tiles",
            Self::JudgePieces => "judge_pieces",
            Self::CompareChunks => "compare_chunks",
        }
    }
}

/// What runs the kernels. All of it is in order.
pub trait Machine {
    /// Brings a table to the device, and returns its address. It stays until the next one.
    fn upload(&mut self, table: &[u8]) -> Result<u64, DeviceError>;

    /// Memory for results, until the next call. Its content is undefined.
    fn scratch(&mut self, len: u64) -> Result<u64, DeviceError>;

    /// Launches a kernel with blocks of [`THREADS`].
    fn launch(&mut self, kernel: Kernel, blocks: u32, params: &[u64]) -> Result<(), DeviceError>;

    /// Fills with a byte.
    fn fill(&mut self, address: u64, byte: u8, len: u64) -> Result<(), DeviceError>;

    /// Waits for all that, and reads.
    fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), DeviceError>;
}

/// The operations.
pub struct Bulk<M> {
    machine: M,
    /// Blocks that it runs at a time, more or less.
    at_a_time: u32,
    /// Number of the last call whose answer carries it.
    ticket: u64,
    /// Where tables were written since they were wiped.
    written: Option<AddressRange>,
}

impl<M: Machine> Bulk<M> {
    /// With nothing done yet. The machine runs some `at_a_time` blocks at a time.
    pub fn new(machine: M, at_a_time: u32) -> Self {
        Self {
            machine,
            at_a_time: at_a_time.max(1),
            ticket: 0,
            written: None,
        }
    }

    /// [`Device::place`](crate::device::Device::place). Code that is tried comes after it: no table is left on the device
    /// then, since keys and addresses of sealed copies are in tables.
    pub fn place(&mut self, pieces: &[Place]) -> Result<(), DeviceError> {
        let placed = self.each(Kernel::Place, pieces, |piece| piece.len);
        self.wipe().and(placed)
    }

    /// Clears the tables on the device, behind what still works with them.
    fn wipe(&mut self) -> Result<(), DeviceError> {
        match self.written.take() {
            Some(written) => self.machine.fill(written.start(), 0, written.len()),
            None => Ok(()),
        }
    }

    fn upload(&mut self, table: &[u8]) -> Result<u64, DeviceError> {
        let address = self.machine.upload(table)?;
        let end = address.saturating_add(table.len() as u64);
        self.written = match self.written {
            Some(known) => AddressRange::between(known.start().min(address), known.end().max(end)),
            None => AddressRange::between(address, end),
        };
        Ok(address)
    }

    /// [`Device::mark_equal`](crate::device::Device::mark_equal).
    pub fn mark_equal(&mut self, jobs: &[MarkJob]) -> Result<(), DeviceError> {
        self.each(Kernel::MarkEqual, jobs, |job| job.len)
    }

    /// [`Device::change_masks`](crate::device::Device::change_masks).
    pub fn change_masks(&mut self, jobs: &[MaskJob]) -> Result<(), DeviceError> {
        self.each(Kernel::ChangeMasks, jobs, |job| job.bytes)
    }

    fn each<P: Part>(
        &mut self,
        kernel: Kernel,
        pieces: &[P],
        len: impl Fn(&P) -> u64,
    ) -> Result<(), DeviceError> {
        for batch in batches(pieces.iter().map(len)) {
            let table = Table::new(pieces, &batch);
            let address = self.upload(&table.bytes)?;
            self.machine
                .launch(kernel, table.tiles, &[address, table.count])?;
        }
        Ok(())
    }

    /// [`Device::checksums`](crate::device::Device::checksums).
    pub fn checksums(
        &mut self,
        key: u64,
        ranges: &[AddressRange],
    ) -> Result<Vec<u64>, DeviceError> {
        self.sums(ranges, 0, key)
    }

    /// [`Device::count_bits`](crate::device::Device::count_bits).
    pub fn count_bits(&mut self, masks: &[AddressRange]) -> Result<Vec<u64>, DeviceError> {
        self.sums(masks, 1, 0)
    }

    fn sums(
        &mut self,
        ranges: &[AddressRange],
        count_bits: u64,
        key: u64,
    ) -> Result<Vec<u64>, DeviceError> {
        let batches: Vec<Batch> = batches(ranges.iter().map(|range| range.len())).collect();
        let parts: usize = batches.iter().map(Batch::len).sum();
        if parts == 0 {
            return Ok(Vec::new());
        }
        let len = 8 * parts as u64;
        let results = self.machine.scratch(len)?;
        self.machine.fill(results, 0, len)?;
        let mut at = results;
        for batch in &batches {
            let table = Table::new(ranges, batch);
            let address = self.upload(&table.bytes)?;
            let params = [address, table.count, count_bits, key, at];
            self.machine.launch(Kernel::Sums, table.tiles, &params)?;
            at += 8 * table.count;
        }
        let mut answer = vec![0; len as usize];
        self.machine.read(results, &mut answer)?;
        let mut sums = vec![0u64; ranges.len()];
        let (words, _) = answer.as_chunks::<8>();
        for (part, word) in batches.iter().flat_map(Batch::parts).zip(words) {
            if let Some(sum) = sums.get_mut(part.piece) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
        Ok(sums)
    }

    /// [`Device::judge`](crate::device::Device::judge).
    pub fn judge(&mut self, jobs: &[JudgeJob]) -> Result<Vec<Judged>, DeviceError> {
        let batches: Vec<Batch> = batches(jobs.iter().map(|job| job.len)).collect();
        let parts: usize = batches.iter().map(Batch::len).sum();
        let mut judged = vec![Judged::default(); jobs.len()];
        if parts == 0 {
            return Ok(judged);
        }
        self.ticket += 1;
        let most_tiles = batches.iter().map(Batch::tiles).max().unwrap_or(0);
        let len = FOUND_LEN * parts as u64;
        let results = self
            .machine
            .scratch(len + (FOUND_LEN + 4) * u64::from(most_tiles))?;
        let tiles = results + len;
        let differs = tiles + FOUND_LEN * u64::from(most_tiles);
        let mut at = results;
        for batch in &batches {
            let table = Table::new(jobs, batch);
            let address = self.upload(&table.bytes)?;
            let params = [address, table.count, differs];
            self.machine
                .launch(Kernel::JudgeBits, table.tiles, &params)?;
            // Mostly nothing differs, and few blocks see that sooner than many.
            let group = (table.tiles / self.at_a_time).clamp(1, THREADS);
            let blocks = table.tiles.div_ceil(group);
            let all = [u64::from(table.tiles), u64::from(group)];
            let params = [address, table.count, differs, tiles, all[0], all[1]];
            self.machine.launch(Kernel::JudgeTiles, blocks, &params)?;
            let blocks = u32::try_from(table.count).unwrap_or(u32::MAX);
            let params = [address, differs, tiles, at, self.ticket];
            self.machine.launch(Kernel::JudgePieces, blocks, &params)?;
            at += FOUND_LEN * table.count;
        }
        let mut answer = vec![0; len as usize];
        self.machine.read(results, &mut answer)?;
        let answers = answer.chunks_exact(FOUND_LEN as usize);
        for (part, bytes) in batches.iter().flat_map(Batch::parts).zip(answers) {
            let found = found(bytes, self.ticket).ok_or_else(|| {
                DeviceError::Unsupported("the comparison on the device gave no answer".to_owned())
            })?;
            if let Some(judged) = judged.get_mut(part.piece) {
                join(judged, found, part.offset);
            }
        }
        Ok(judged)
    }

    /// What runs the kernels.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }
}

#[cfg(test)]
mod tests;
