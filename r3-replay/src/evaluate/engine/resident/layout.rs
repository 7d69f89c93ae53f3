//! Copies of what a launch may write: how they are laid out, filled from memory, and summed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use r3_archive::model::{LaunchId, LaunchRecord};

use super::budget::lengths;
use super::kept::{LaunchKeys, Mask, Piece, Untouched};
use super::{Bound, Resident, Trouble, not_ready};
use crate::device::AddressRange;
use crate::replay::InPlace;
use crate::restore::segments::{self, Moment, Region};

/// Chunks that the launch may write: index of the region in the record, and of the chunk.
pub(super) type Chunks = BTreeSet<(usize, u64)>;

/// Bits of the bytes that are poisoned, by region. A region that is not there has none.
pub(super) type Masks = BTreeMap<usize, Vec<u8>>;

/// Alignment of pieces in the copies.
const PIECE_ALIGN: u64 = 256;

impl Resident<'_> {
    /// Lays the copies out for chunks that may be written and bytes that are poisoned, and makes the mask. The copies'
    /// content is undefined then.
    pub(super) fn lay_out(
        &mut self,
        id: LaunchId,
        chunks: &Chunks,
        masks: &Masks,
    ) -> Result<(), Trouble> {
        let keys = LaunchKeys {
            before: self.keys.key(),
            expected: self.keys.key(),
            sums: self.keys.key(),
        };
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        let (pieces, bits) = pieces(&kept.record, chunks, masks, &kept.still)?;
        kept.pieces = pieces;
        kept.mask = Rc::new(bits);
        // Other bytes under the same key would tell of both.
        kept.keys = keys;
        kept.inputs.clear();
        std::mem::take(&mut kept.copies).give(&mut self.pool);
        let lengths = lengths(kept);
        let copies = self
            .allocate(lengths)
            .map_err(|trouble| trouble.during("copies of what the launch may write"))?;
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        kept.copies = copies;
        let mask = Rc::clone(&kept.mask);
        if let [_, _, Some(address)] = kept.addresses() {
            self.replayer
                .device()
                .write(address, &mask)
                .map_err(|error| Trouble::of_device(error, false))?;
        }
        Ok(())
    }

    /// Writes recorded bytes from before the launch into chunks.
    pub(super) fn fill_before(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &[(usize, u64)],
    ) -> Result<(), Trouble> {
        self.fill_at(bound, everywhere, chunks, Moment::Before)
    }

    pub(super) fn fill_at(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &[(usize, u64)],
        moment: Moment,
    ) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let record = Rc::clone(&kept.record);
        self.replayer
            .fill_chunks(&record, everywhere, chunks, moment)
            .map_err(|error| Trouble::of_replay(error, false))
    }

    /// Makes the expected copy from recorded bytes.
    pub(super) fn seal_recorded(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &[(usize, u64)],
    ) -> Result<(), Trouble> {
        self.fill_at(bound, everywhere, chunks, Moment::After)?;
        self.seal(bound, true)?;
        self.fill_before(bound, everywhere, chunks)
    }

    /// Makes a copy of the present state of what may be written.
    pub(super) fn seal(&mut self, bound: &Bound, expected: bool) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let places = kept.sealing(&bound.code.targets, expected);
        self.place(&places, false)
    }

    /// Restores without poison.
    pub(super) fn restore_plainly(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let places = kept.restoring(&bound.code.targets, super::Restoring::Plain);
        self.place(&places, false)?;
        self.point_to_variables(bound)?;
        self.write_variables(bound, false)
    }

    /// Takes the checksums of the copies.
    pub(super) fn sum(&mut self, id: LaunchId) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        kept.sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &kept.ranges())
            .map_err(|error| Trouble::of_device(error, false))?;
        // Those of memory are under the same key.
        let ranges: Vec<AddressRange> = kept.untouched.iter().map(|u| u.range).collect();
        let sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &ranges)
            .map_err(|error| Trouble::of_device(error, false))?;
        for (untouched, sum) in kept.untouched.iter_mut().zip(sums) {
            untouched.sum = sum;
        }
        Ok(())
    }

    /// Takes the checksums of what is in no piece.
    pub(super) fn sum_untouched(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let id = bound.launch();
        let (Some(kept), Some(live)) = (self.launches.get_mut(&id), &self.live) else {
            return Err(not_ready(id));
        };
        let mut ranges = Vec::new();
        for (region, target) in live.place.targets.iter().enumerate() {
            let Some(target) = target else { continue };
            let mut start = target.start();
            for piece in kept.pieces.iter().filter(|piece| piece.region == region) {
                let from = target.start() + piece.offset;
                ranges.extend(AddressRange::between(start, from).map(|range| (region, range)));
                start = from + piece.len;
            }
            ranges.extend(AddressRange::between(start, target.end()).map(|r| (region, r)));
        }
        let list: Vec<AddressRange> = ranges.iter().map(|(_, range)| *range).collect();
        let sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &list)
            .map_err(|error| Trouble::of_device(error, false))?;
        kept.untouched = ranges
            .into_iter()
            .zip(sums)
            .map(|((region, range), sum)| Untouched { region, range, sum })
            .collect();
        Ok(())
    }
}

/// The regions of a record.
pub(super) fn regions(record: &LaunchRecord) -> Result<Vec<Region<'_>>, Trouble> {
    segments::regions(record).map_err(|error| Trouble::Machine(error.to_string()))
}

/// What a chunk's mask is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    All,
    Some,
}

/// Pieces for chunks, and the bits of those in which only some bytes are poisoned.
fn pieces(
    record: &LaunchRecord,
    chunks: &Chunks,
    masks: &Masks,
    still: &Masks,
) -> Result<(Vec<Piece>, Vec<u8>), Trouble> {
    let regions = regions(record)?;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut bits: Vec<u8> = Vec::new();
    let (mut before, mut expected) = (0u64, 0u64);
    let mut last: Option<(usize, u64, Kind)> = None;
    for (index, chunk) in chunks {
        let Some(region) = regions.iter().find(|region| region.index == *index) else {
            continue;
        };
        let (offset, len) = region.chunk(*chunk);
        let len = u64::from(len);
        if len == 0 {
            continue;
        }
        let part = masks.get(index).and_then(|mask| {
            let from = (offset / 8) as usize;
            mask.get(from..from + len.div_ceil(8) as usize)
        });
        let kind = match part {
            Some(part) if part.iter().all(|byte| *byte == 0) => Kind::None,
            Some(part) if full(part, len) => Kind::All,
            Some(_) => Kind::Some,
            None => Kind::None,
        };
        let goes_on = last == Some((*index, chunk.wrapping_sub(1), kind));
        last = Some((*index, *chunk, kind));
        match pieces.last_mut() {
            Some(piece) if goes_on => {
                piece.len += len;
            }
            _ => {
                expected = expected.next_multiple_of(PIECE_ALIGN);
                before = before.next_multiple_of(PIECE_ALIGN);
                bits.resize(bits.len().next_multiple_of(16), 0);
                pieces.push(Piece {
                    region: *index,
                    offset,
                    len,
                    expected,
                    before: (kind != Kind::All).then_some(before),
                    mask: match kind {
                        Kind::None => Mask::None,
                        Kind::All => Mask::All,
                        Kind::Some => Mask::Bits(bits.len() as u64),
                    },
                    still: None,
                });
            }
        }
        expected += len;
        if kind != Kind::All {
            before += len;
        }
        if let (Kind::Some, Some(part)) = (kind, part) {
            bits.extend_from_slice(part);
        }
    }
    for piece in &mut pieces {
        let from = (piece.offset / 8) as usize;
        let len = piece.len.div_ceil(8) as usize;
        let part = still
            .get(&piece.region)
            .and_then(|still| still.get(from..from + len));
        if let Some(part) = part.filter(|part| part.iter().any(|byte| *byte != 0)) {
            bits.resize(bits.len().next_multiple_of(16), 0);
            piece.still = Some(bits.len() as u64);
            bits.extend_from_slice(part);
        }
    }
    Ok((pieces, bits))
}

/// Whether all of `len` bits are set.
fn full(bits: &[u8], len: u64) -> bool {
    let whole = (len / 8) as usize;
    let rest = (len % 8) as u32;
    let (head, tail) = bits.split_at(whole.min(bits.len()));
    head.iter().all(|byte| *byte == 0xff)
        && (rest == 0
            || tail
                .first()
                .is_some_and(|byte| byte.trailing_ones() >= rest))
}
