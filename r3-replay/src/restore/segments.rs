//! A region's bytes at one moment as runs of zeros and stored chunks.

use r3_archive::chunk::{CHUNK_SIZE, ChunkId, ChunkRef, ChunkRun};
use r3_archive::model::{ChunkChange, LaunchRecord, RegionOwner, RegionSnapshot};

use crate::device::AddressRange;

/// Before or after the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the launch.
    Before,
    /// After the launch.
    After,
}

/// Part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Chunks of zeros.
    Zeros {
        /// Index of the first one.
        first: u64,
        /// How many.
        count: u64,
    },
    /// One stored chunk.
    Stored {
        /// Its index.
        chunk: u64,
        /// Its content.
        id: ChunkId,
    },
}

/// A region of a launch that was found to be well-formed.
#[derive(Clone, Copy, Debug)]
pub struct Region<'a> {
    /// Index among the launch's regions.
    pub index: usize,
    /// The record.
    pub record: &'a RegionSnapshot,
    /// Where it was.
    pub range: AddressRange,
    /// The launch's changes to it, ascending.
    pub changes: &'a [ChunkChange],
}

const CHUNK: u64 = CHUNK_SIZE as u64;

impl Region<'_> {
    /// Offset and length in bytes of a chunk.
    pub fn chunk(&self, chunk: u64) -> (u64, u32) {
        let offset = chunk * CHUNK;
        (
            offset,
            self.range.len().saturating_sub(offset).min(CHUNK) as u32,
        )
    }

    /// What a chunk holds after the launch.
    pub fn after(&self, chunk: u64) -> ChunkRef {
        let change = self
            .changes
            .binary_search_by_key(&chunk, |change| change.chunk);
        match change.ok().and_then(|at| self.changes.get(at)) {
            Some(change) => change.data,
            None => self.before(chunk),
        }
    }

    /// What a chunk holds before the launch.
    pub fn before(&self, chunk: u64) -> ChunkRef {
        self.record.chunks.get(chunk).unwrap_or(ChunkRef::Zero)
    }

    /// The region's content at a moment, from its first chunk to its last.
    pub fn segments(&self, moment: Moment) -> Vec<Segment> {
        let changes = if moment == Moment::After {
            self.changes
        } else {
            &[]
        };
        let mut changes = changes.iter().peekable();
        let mut segments = Segments::default();
        let mut next = 0;
        for run in self.record.chunks.runs() {
            match run {
                ChunkRun::Zero(count) => {
                    let end = next + count;
                    while let Some(change) = changes.next_if(|change| change.chunk < end) {
                        segments.zeros(next, change.chunk - next);
                        segments.chunk(change.chunk, change.data);
                        next = change.chunk + 1;
                    }
                    segments.zeros(next, end - next);
                    next = end;
                }
                ChunkRun::Data(ids) => {
                    for id in ids {
                        let data = changes
                            .next_if(|change| change.chunk == next)
                            .map_or(ChunkRef::Data(*id), |change| change.data);
                        segments.chunk(next, data);
                        next += 1;
                    }
                }
            }
        }
        segments.0
    }
}

impl Segment {
    /// Index of the first chunk, and of the first one behind.
    pub fn span(self) -> (u64, u64) {
        match self {
            Self::Zeros { first, count } => (first, first + count),
            Self::Stored { chunk, .. } => (chunk, chunk + 1),
        }
    }

    /// What of it lies from chunk `from` up to, not including, `to`.
    pub fn part(self, from: u64, to: u64) -> Option<Self> {
        let (start, end) = self.span();
        let (start, end) = (start.max(from), end.min(to));
        (start < end).then_some(match self {
            Self::Zeros { .. } => Self::Zeros {
                first: start,
                count: end - start,
            },
            stored => stored,
        })
    }
}

/// What of `wanted` is not in `known` already, which may have gaps.
pub fn changed(known: &[Segment], wanted: &[Segment]) -> Vec<Segment> {
    let mut changed = Segments::default();
    let mut known = known.iter().copied().peekable();
    for &segment in wanted {
        let (start, end) = segment.span();
        let mut next = start;
        while next < end {
            while known.next_if(|known| known.span().1 <= next).is_some() {}
            let later = known.peek().copied();
            let part = later.filter(|known| known.span().0 <= next);
            let until = match (part, later) {
                (Some(part), _) => part.span().1.min(end),
                (None, Some(later)) => later.span().0.min(end),
                (None, None) => end,
            };
            match (segment, part) {
                (Segment::Zeros { .. }, Some(Segment::Zeros { .. })) => {}
                (Segment::Zeros { .. }, _) => changed.zeros(next, until - next),
                (Segment::Stored { id, .. }, Some(Segment::Stored { id: there, .. }))
                    if there == id => {}
                (Segment::Stored { chunk, id }, _) => changed.chunk(chunk, ChunkRef::Data(id)),
            }
            next = until;
        }
    }
    changed.0
}

#[derive(Default)]
struct Segments(Vec<Segment>);

impl Segments {
    fn zeros(&mut self, first: u64, count: u64) {
        match self.0.last_mut() {
            _ if count == 0 => {}
            Some(Segment::Zeros {
                first: start,
                count: so_far,
            }) if *start + *so_far == first => {
                *so_far += count;
            }
            _ => self.0.push(Segment::Zeros { first, count }),
        }
    }

    fn chunk(&mut self, chunk: u64, data: ChunkRef) {
        match data {
            ChunkRef::Zero => self.zeros(chunk, 1),
            ChunkRef::Data(id) => self.0.push(Segment::Stored { chunk, id }),
        }
    }
}

/// A launch record that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record of the launch is damaged: {0}")]
pub struct Malformed(pub String);

/// The launch's regions, after checking that they make sense together.
pub fn regions(launch: &LaunchRecord) -> Result<Vec<Region<'_>>, Malformed> {
    let mut regions: Vec<Region<'_>> = Vec::with_capacity(launch.before.regions.len());
    let mut changes = launch.after.changes.as_slice();
    for (index, record) in launch.before.regions.iter().enumerate() {
        if record.len == 0 {
            // Nothing to restore; changes of it would be left over below.
            continue;
        }
        let range = AddressRange::new(record.address, record.len).ok_or_else(|| {
            Malformed(format!(
                "region {index} at {:#x} with {} bytes reaches beyond the address space",
                record.address, record.len
            ))
        })?;
        let chunks = record.len.div_ceil(CHUNK);
        if record.chunks.len() != chunks {
            return Err(Malformed(format!(
                "region {index} has {} bytes but {} chunks",
                record.len,
                record.chunks.len()
            )));
        }
        let own = changes.partition_point(|change| change.region as usize <= index);
        let (own, rest) = changes.split_at(own);
        changes = rest;
        let ascending = own.windows(2).all(|pair| pair[0].chunk < pair[1].chunk);
        let inside = own
            .iter()
            .all(|c| c.region as usize == index && c.chunk < chunks);
        if !ascending || !inside {
            return Err(Malformed(format!(
                "the changes of region {index} are out of order or range"
            )));
        }
        regions.push(Region {
            index,
            record,
            range,
            changes: own,
        });
    }
    // Variables come with the code, wherever that puts them; memory has one place.
    let mut memory: Vec<AddressRange> = regions
        .iter()
        .filter(|region| matches!(region.record.owner, RegionOwner::Allocation(_)))
        .map(|region| region.range)
        .collect();
    memory.sort_unstable();
    if let Some([one, other]) = memory
        .array_windows()
        .find(|[one, other]| one.overlaps(*other))
    {
        return Err(Malformed(format!(
            "the regions at {one} and {other} overlap"
        )));
    }
    if !changes.is_empty() {
        return Err(Malformed(
            "there are changes of regions that were not saved".to_owned(),
        ));
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A list of segments from one content per chunk; 0 stands for zeros.
    fn segments(contents: &[u8]) -> Vec<Segment> {
        let mut segments = Segments::default();
        for (chunk, &content) in (0..).zip(contents) {
            let data = match content {
                0 => ChunkRef::Zero,
                other => ChunkRef::Data(ChunkId([other; 16])),
            };
            segments.chunk(chunk, data);
        }
        segments.0
    }

    fn apply(contents: &mut [u8], segments: &[Segment]) {
        for segment in segments {
            let (from, to) = segment.span();
            for chunk in from..to {
                contents[chunk as usize] = match segment {
                    Segment::Zeros { .. } => 0,
                    Segment::Stored { id, .. } => id.0[0],
                };
            }
        }
    }

    proptest! {
        #[test]
        fn writing_what_changed_gives_what_is_wanted_and_nothing_is_written_twice(
            pairs in prop::collection::vec((0u8..3, 0u8..3), 0..40),
        ) {
            let (known, wanted): (Vec<u8>, Vec<u8>) = pairs.into_iter().unzip();
            let changed = changed(&segments(&known), &segments(&wanted));
            let mut result = known.clone();
            apply(&mut result, &changed);
            prop_assert_eq!(&result, &wanted);
            let written: u64 = changed.iter().map(|s| s.span().1 - s.span().0).sum();
            let different = known.iter().zip(&wanted).filter(|(k, w)| k != w).count();
            prop_assert_eq!(written, different as u64);
        }
    }

    #[test]
    fn what_is_not_known_is_written_and_what_lies_behind_it_is_not() {
        let zeros = |first, count| Segment::Zeros { first, count };
        let known = [zeros(0, 5), zeros(7, 100)];
        assert_eq!(changed(&known, &[zeros(0, 107)]), [zeros(5, 2)]);
        assert_eq!(
            changed(&known, &[zeros(0, 110)]),
            [zeros(5, 2), zeros(107, 3)]
        );
        assert_eq!(changed(&[], &[zeros(0, 3)]), [zeros(0, 3)]);
    }

    #[test]
    fn a_long_run_of_zeros_is_compared_as_one() {
        let known = [Segment::Zeros {
            first: 0,
            count: 1 << 40,
        }];
        let id = ChunkId([1; 16]);
        let wanted = [
            Segment::Zeros { first: 0, count: 5 },
            Segment::Stored { chunk: 5, id },
            Segment::Zeros {
                first: 6,
                count: (1 << 40) - 6,
            },
        ];
        assert_eq!(changed(&known, &wanted), [Segment::Stored { chunk: 5, id }]);
        assert_eq!(
            changed(&wanted, &known),
            [Segment::Zeros { first: 5, count: 1 }]
        );
    }
}
