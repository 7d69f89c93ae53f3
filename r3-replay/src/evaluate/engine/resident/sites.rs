//! Words in memory that point to variables of the kernel's module.
//!
//! Each code has its variables elsewhere, so that such words differ from code to code. Copies hold them as they were
//! recorded; a reset makes them point to the bound code's variables, and before a comparison they are turned back.

use r3_archive::chunk::ChunkRef;
use r3_archive::model::LaunchRecord;
use rayon::prelude::*;

use super::{Bound, Resident, Trouble};
use crate::device::{AddressRange, Piece};
use crate::restore::contents::Source;
use crate::restore::segments::{Moment, Region, Segment};
use crate::restore::translate::Translation;

/// A word that points to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Index of the region in the record.
    pub region: usize,
    /// Where in the region.
    pub offset: u64,
    /// As it was recorded.
    pub word: u64,
}

/// The words of a launch's memory at a moment that point into, or just behind, some ranges.
pub(super) fn find(
    source: Source<'_>,
    regions: &[&Region<'_>],
    into: &[AddressRange],
    moment: Moment,
) -> Result<Vec<Site>, Trouble> {
    if into.is_empty() {
        return Ok(Vec::new());
    }
    // Everything else stays the same under this: only words that change are looked for.
    let away = Translation::new(into.iter().map(|range| (*range, !range.start())));
    let mut chunks = Vec::new();
    for region in regions {
        for segment in region.segments(moment) {
            if let Segment::Stored { chunk, id } = segment {
                chunks.push((*region, chunk, id));
            }
        }
    }
    let found: Result<Vec<Vec<Site>>, Trouble> = chunks
        .into_par_iter()
        .map_init(Vec::new, |bytes: &mut Vec<u8>, (region, chunk, id)| {
            let (offset, len) = region.chunk(chunk);
            bytes.clear();
            bytes.resize(len as usize, 0);
            source
                .read(region, chunk, ChunkRef::Data(id), bytes)
                .map_err(|error| Trouble::Machine(error.to_string()))?;
            Ok(words(region.range.start() + offset, bytes)
                .filter(|(_, word)| away.apply(*word).is_some())
                .map(|(at, word)| Site {
                    region: region.index,
                    offset: offset + at as u64,
                    word,
                })
                .collect())
        })
        .collect();
    Ok(found?.into_iter().flatten().collect())
}

/// The words of bytes that begin at an address, at addresses divisible by 8, and how far into the bytes they are.
pub(super) fn words(address: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let skip = (address.wrapping_neg() % 8) as usize;
    let aligned = bytes.get(skip..).unwrap_or_default();
    aligned
        .as_chunks::<8>()
        .0
        .iter()
        .enumerate()
        .map(move |(index, word)| (skip + 8 * index, u64::from_le_bytes(*word)))
}

/// The ranges of a launch's variables, where they were recorded.
pub(super) fn variable_ranges(
    record: &LaunchRecord,
    variables: impl IntoIterator<Item = usize>,
) -> Vec<AddressRange> {
    variables
        .into_iter()
        .filter_map(|region| {
            let region = record.before.regions.get(region)?;
            AddressRange::new(region.address, region.len)
        })
        .collect()
}

impl Resident<'_> {
    /// Makes restored words point to the variables of the bound code.
    pub(super) fn point_to_variables(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Ok(());
        };
        let [sites, _] = &kept.sites;
        let moved = moved(sites, bound);
        if moved.is_empty() {
            return Ok(());
        }
        let pieces: Vec<Piece> = moved
            .iter()
            .map(|(address, _, _)| Piece {
                address: *address,
                len: 8,
                region: 0,
            })
            .collect();
        let fill = |index: usize, out: &mut [u8]| {
            if let Some((_, _, now)) = moved.get(index) {
                out.copy_from_slice(&now.to_le_bytes());
            }
            Ok(())
        };
        self.replayer
            .device()
            .write_pieces(&pieces, &fill)
            .map_err(|error| Trouble::of_device(error, bound.candidate))
    }

    /// Turns words that point to the variables of the bound code into what they were recorded as, where they are expected.
    pub(super) fn point_as_recorded(
        &mut self,
        bound: &Bound,
        sites: &[Site],
    ) -> Result<(), Trouble> {
        let trouble = |error| Trouble::of_device(error, bound.candidate);
        for (address, recorded, now) in moved(sites, bound) {
            let mut word = [0; 8];
            let device = self.replayer.device();
            device.read(address, &mut word).map_err(trouble)?;
            if u64::from_le_bytes(word) == now {
                device
                    .write(address, &recorded.to_le_bytes())
                    .map_err(trouble)?;
            }
        }
        Ok(())
    }
}

/// Sites whose word is another one for a bound code: address, word as recorded, word now.
fn moved(sites: &[Site], bound: &Bound) -> Vec<(u64, u64, u64)> {
    sites
        .iter()
        .filter_map(|site| {
            let target = bound.code.targets.get(site.region).copied().flatten()?;
            let now = bound.code.translation.apply(site.word)?;
            (now != site.word).then_some((target.start() + site.offset, site.word, now))
        })
        .collect()
}
