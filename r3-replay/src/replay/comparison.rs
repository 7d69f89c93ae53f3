//! What is not as recorded after a launch.

use r3_archive::chunk::ChunkRef;
use r3_archive::model::RegionOwner;

use super::{Buffer, Judge, Replayer, Restored};
use crate::compare::{ElementType, Tally, Tolerance};
use crate::device::AddressRange;
use crate::error::{Cause, ReplayError};
use crate::restore::contents::{self, KnownRegion, Placed, Source};
use crate::restore::segments::{Moment, Region};

/// A chunk that is not as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkDifference {
    /// Index into [`Restored::buffers`].
    pub buffer: usize,
    /// Index of the chunk in the buffer.
    pub chunk: u64,
    /// Its offset in bytes.
    pub offset: u64,
}

/// What was found in one buffer.
#[derive(Clone, Debug)]
pub struct BufferResult {
    /// Index into [`Restored::buffers`].
    pub buffer: usize,
    /// Type by which it was compared.
    pub element: ElementType,
    /// Tolerance by which it was compared.
    pub tolerance: Tolerance,
    /// Chunks with a difference.
    pub chunks: u64,
    /// Chunks among them that were looked into.
    pub examined: u64,
    /// Differences in those.
    pub tally: Tally,
}

impl BufferResult {
    /// Whether everything is within the tolerance.
    pub fn ok(&self) -> bool {
        self.tally.out == 0 && self.examined == self.chunks
    }
}

/// Chunks of one buffer that are looked into when there is no tolerance: what differs is wrong
/// anyway.
const MOST_EXAMINED: u64 = 4096;

impl<'a> Replayer<'a> {
    /// Compares all memory with what was recorded after the launch. Buffers without a difference
    /// are left out.
    pub fn compare(
        &mut self,
        restored: &Restored<'_>,
        judge: &mut Judge<'_>,
    ) -> Result<Vec<BufferResult>, ReplayError> {
        let mut results: Vec<BufferResult> = Vec::new();
        for difference in self.differences(restored)? {
            if results
                .last()
                .is_none_or(|last| last.buffer != difference.buffer)
            {
                let (element, tolerance) = judge.of(self, restored, difference.buffer)?;
                results.push(BufferResult {
                    buffer: difference.buffer,
                    element,
                    tolerance,
                    chunks: 0,
                    examined: 0,
                    tally: Tally::default(),
                });
            }
            let Some(result) = results.last_mut() else {
                continue;
            };
            result.chunks += 1;
            if result.tolerance.is_exact() && result.examined >= MOST_EXAMINED {
                continue;
            }
            result.examined += 1;
            let (expected, actual) = self.examine(restored, &difference)?;
            let (element, tolerance) = (result.element, result.tolerance);
            result
                .tally
                .add(difference.offset, &expected, &actual, element, &tolerance);
        }
        Ok(results)
    }

    /// The chunks that are not as recorded after the launch, ascending by buffer and chunk.
    pub fn differences(
        &mut self,
        restored: &Restored<'_>,
    ) -> Result<Vec<ChunkDifference>, ReplayError> {
        self.attempt(restored.launch, |this| this.differences_inner(restored))
    }

    /// The recorded and the present bytes of a chunk.
    pub fn examine(
        &mut self,
        restored: &Restored<'_>,
        difference: &ChunkDifference,
    ) -> Result<(Vec<u8>, Vec<u8>), ReplayError> {
        let recorded = self.recorded(restored, difference.buffer, difference.chunk)?;
        let mut actual = vec![0; recorded.len()];
        if let Some(buffer) = restored.buffers.get(difference.buffer) {
            self.read(restored, buffer, difference.offset, &mut actual)?;
        }
        Ok((recorded, actual))
    }

    /// The recorded bytes of a chunk after the launch, with pointers as they are now.
    pub fn recorded(
        &mut self,
        restored: &Restored<'_>,
        buffer: usize,
        chunk: u64,
    ) -> Result<Vec<u8>, ReplayError> {
        self.chunk_of(restored, buffer, chunk, |region| region.after(chunk))
    }

    /// The recorded bytes of a chunk before the launch, with pointers as they are now.
    pub fn recorded_before(
        &mut self,
        restored: &Restored<'_>,
        buffer: usize,
        chunk: u64,
    ) -> Result<Vec<u8>, ReplayError> {
        self.chunk_of(restored, buffer, chunk, |region| region.before(chunk))
    }

    fn chunk_of(
        &mut self,
        restored: &Restored<'_>,
        buffer: usize,
        chunk: u64,
        data: impl Fn(&Region<'_>) -> ChunkRef,
    ) -> Result<Vec<u8>, ReplayError> {
        self.attempt(restored.launch, |this| {
            let Some(buffer) = restored.buffers.get(buffer) else {
                return Ok(Vec::new());
            };
            let (_, len) = buffer.region.chunk(chunk);
            let mut bytes = vec![0; len as usize];
            let source = this.source(restored);
            source.read(&buffer.region, chunk, data(&buffer.region), &mut bytes)?;
            Ok(bytes)
        })
    }

    fn source<'s>(&self, restored: &'s Restored<'_>) -> Source<'s>
    where
        'a: 's,
    {
        Source {
            archive: self.archive,
            translation: &restored.translation,
        }
    }

    /// Reads a buffer as it is on the device now.
    pub fn read(
        &mut self,
        restored: &Restored<'_>,
        buffer: &Buffer<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| match buffer.target {
            Some(target) => Ok(this.device.read(target + offset, out)?),
            None => Ok(()),
        })
    }

    fn differences_inner(
        &mut self,
        restored: &Restored<'_>,
    ) -> Result<Vec<ChunkDifference>, Cause> {
        let source = self.source(restored);
        let placed = placed(&restored.buffers);
        let indices: Vec<usize> = (0..restored.buffers.len())
            .filter(|&index| {
                restored
                    .buffers
                    .get(index)
                    .is_some_and(|b| b.target.is_some())
            })
            .collect();
        let different = contents::different_chunks(self.device, source, &placed)?;
        if different.is_empty() && restored.translation.is_empty() {
            // Every byte was compared: the next launch need not be given what is there.
            self.known = placed
                .iter()
                .filter(|placed| !placed.by_reading)
                .filter_map(|placed| {
                    let range = AddressRange::new(placed.target, placed.region.range.len())?;
                    let segments = placed.region.segments(Moment::After);
                    Some(KnownRegion { range, segments })
                })
                .collect();
        }
        Ok(different
            .into_iter()
            .filter_map(|chunk| {
                Some(ChunkDifference {
                    buffer: *indices.get(chunk.region)?,
                    chunk: chunk.chunk,
                    offset: placed.get(chunk.region)?.region.chunk(chunk.chunk).0,
                })
            })
            .collect())
    }
}

pub(super) fn placed<'l>(buffers: &[Buffer<'l>]) -> Vec<Placed<'l>> {
    buffers
        .iter()
        .filter_map(|buffer| {
            Some(Placed {
                region: buffer.region,
                target: buffer.target?,
                by_reading: matches!(buffer.region.record.owner, RegionOwner::Global { .. }),
            })
        })
        .collect()
}
