//! Moving bytes between archive and device: restoring memory, and comparing it with what was
//! recorded.
//!
//! Zeros cost no transfer in either direction: the device fills and checks them itself. Stored
//! chunks are decompressed in parallel; for a comparison they go into a bounded buffer on the
//! device, and only chunks that differ come back.

use std::sync::atomic::{AtomicU64, Ordering};

use r3_archive::chunk::{CHUNK_SIZE, ChunkId, ChunkRef};
use r3_archive::{Archive, ReadError};

use super::segments::{Moment, Region, Segment, changed};
use super::translate::Translation;
use crate::device::{AddressRange, COMPARE_CHUNK, CompareRange, Device, DeviceError, Piece};

/// Most device memory that a comparison uses.
const EXPECTED_LEN: u64 = 256 << 20;

/// A region, and where its bytes are now.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The region.
    pub region: Region<'a>,
    /// Address of its first byte on the device.
    pub target: u64,
    /// It is to be compared by reading it back: a variable, which may lie in constant memory, out
    /// of a kernel's reach.
    pub by_reading: bool,
}

/// Produces the recorded bytes of chunks, with moved addresses rewritten.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The archive.
    pub archive: &'a Archive,
    /// What moved.
    pub translation: &'a Translation,
}

impl Source<'_> {
    /// Reads a chunk of a region. Returns how many words were rewritten.
    pub fn read(
        &self,
        region: &Region<'_>,
        chunk: u64,
        data: ChunkRef,
        out: &mut [u8],
    ) -> Result<u64, ReadError> {
        self.archive.read_chunk(data, out)?;
        let address = region.range.start() + region.chunk(chunk).0;
        Ok(self.translation.rewrite(address, out))
    }
}

/// One stored chunk of some region.
#[derive(Clone, Copy)]
struct Stored {
    region: usize,
    chunk: u64,
    id: ChunkId,
}

/// Bytes that are known to be on the device.
#[derive(Clone, Debug)]
pub struct KnownRegion {
    /// Where.
    pub range: AddressRange,
    /// What.
    pub segments: Vec<Segment>,
}

/// Writes the bytes of all regions before the launch, where they are not known to be there
/// already. Returns how many words were rewritten.
pub fn restore(
    device: &mut dyn Device,
    source: Source<'_>,
    regions: &[Placed<'_>],
    known: &[KnownRegion],
) -> Result<u64, DeviceError> {
    let mut pieces = Vec::new();
    let mut stored = Vec::new();
    for (index, placed) in regions.iter().enumerate() {
        let range = AddressRange::new(placed.target, placed.region.range.len());
        let mut segments = placed.region.segments(Moment::Before);
        if let Some(known) = known.iter().find(|known| Some(known.range) == range) {
            segments = changed(&known.segments, &segments);
        }
        for segment in segments {
            match segment {
                Segment::Zeros { first, count } => {
                    if let Some(range) = zeros(placed, first, count) {
                        device.zero(range)?;
                    }
                }
                Segment::Stored { chunk, id } => {
                    let (offset, len) = placed.region.chunk(chunk);
                    pieces.push(Piece {
                        address: placed.target + offset,
                        len,
                        region: index,
                    });
                    stored.push(Stored {
                        region: index,
                        chunk,
                        id,
                    });
                }
            }
        }
    }
    write(device, source, regions, &pieces, &stored)
}

/// Writes the bytes that some chunks (index into the regions, and of the chunk) had at a moment.
pub fn write_chunks(
    device: &mut dyn Device,
    source: Source<'_>,
    regions: &[Placed<'_>],
    chunks: &[(usize, u64)],
    moment: Moment,
) -> Result<(), DeviceError> {
    let mut pieces = Vec::new();
    let mut stored = Vec::new();
    for &(index, chunk) in chunks {
        let Some(placed) = regions.get(index) else {
            continue;
        };
        let data = match moment {
            Moment::Before => placed.region.before(chunk),
            Moment::After => placed.region.after(chunk),
        };
        let (offset, len) = placed.region.chunk(chunk);
        match data {
            ChunkRef::Zero => {
                if let Some(range) = AddressRange::new(placed.target + offset, u64::from(len)) {
                    device.zero(range)?;
                }
            }
            ChunkRef::Data(id) => {
                pieces.push(Piece {
                    address: placed.target + offset,
                    len,
                    region: index,
                });
                stored.push(Stored {
                    region: index,
                    chunk,
                    id,
                });
            }
        }
    }
    write(device, source, regions, &pieces, &stored)?;
    Ok(())
}

fn write(
    device: &mut dyn Device,
    source: Source<'_>,
    regions: &[Placed<'_>],
    pieces: &[Piece],
    stored: &[Stored],
) -> Result<u64, DeviceError> {
    let rewritten = AtomicU64::new(0);
    device.write_pieces(pieces, &|index, out| {
        let Some((chunk, placed)) = stored
            .get(index)
            .and_then(|chunk| Some((chunk, regions.get(chunk.region)?)))
        else {
            return Err("a piece that was not asked for".into());
        };
        let words = source.read(&placed.region, chunk.chunk, ChunkRef::Data(chunk.id), out)?;
        rewritten.fetch_add(words, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(rewritten.into_inner())
}

fn zeros(placed: &Placed<'_>, first: u64, count: u64) -> Option<AddressRange> {
    let (start, _) = placed.region.chunk(first);
    let end = first
        .saturating_add(count)
        .saturating_mul(CHUNK_SIZE as u64);
    let end = end.min(placed.region.range.len());
    AddressRange::new(placed.target + start, end.checked_sub(start)?)
}

/// A chunk whose bytes are not as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifferentChunk {
    /// Index into the regions that were compared.
    pub region: usize,
    /// Index of the chunk in the region.
    pub chunk: u64,
}

/// Finds the chunks that differ from what was recorded after the launch. Ascending by region and
/// chunk.
pub fn different_chunks(
    device: &mut dyn Device,
    source: Source<'_>,
    regions: &[Placed<'_>],
) -> Result<Vec<DifferentChunk>, DeviceError> {
    let mut different = Vec::new();
    let mut stored = Vec::new();
    let mut ranges = Vec::new();
    let mut chunks = Vec::new();
    for (index, placed) in regions.iter().enumerate() {
        if placed.by_reading {
            compare_by_reading(device, source, index, placed, &mut different)?;
            continue;
        }
        for segment in placed.region.segments(Moment::After) {
            match segment {
                Segment::Zeros { first, count } => {
                    if let Some(range) = zeros(placed, first, count) {
                        ranges.push(CompareRange {
                            actual: range.start(),
                            expected: None,
                            len: range.len(),
                        });
                        chunks.push((index, first));
                    }
                }
                Segment::Stored { chunk, id } => stored.push(Stored {
                    region: index,
                    chunk,
                    id,
                }),
            }
        }
    }
    collect(
        &device.compare(&ranges)?,
        &ranges,
        &chunks,
        |region, chunk| {
            different.push(DifferentChunk { region, chunk });
        },
    );
    if !stored.is_empty() {
        let (buffer, len) = expected_buffer(device, stored.len() as u64 * COMPARE_CHUNK)?;
        let found = compare_stored(
            device,
            source,
            regions,
            &stored,
            buffer,
            len,
            &mut different,
        );
        device.free(buffer)?;
        found?;
    }
    different.sort_unstable_by_key(|d| (d.region, d.chunk));
    Ok(different)
}

fn compare_by_reading(
    device: &mut dyn Device,
    source: Source<'_>,
    index: usize,
    placed: &Placed<'_>,
    different: &mut Vec<DifferentChunk>,
) -> Result<(), DeviceError> {
    let mut buffers = [vec![0; CHUNK_SIZE], vec![0; CHUNK_SIZE]];
    let [expected, actual] = &mut buffers;
    for segment in placed.region.segments(Moment::After) {
        let (first, count, data) = match segment {
            Segment::Zeros { first, count } => (first, count, ChunkRef::Zero),
            Segment::Stored { chunk, id } => (chunk, 1, ChunkRef::Data(id)),
        };
        for chunk in first..first.saturating_add(count) {
            let (offset, len) = placed.region.chunk(chunk);
            let (expected, actual) = (&mut expected[..len as usize], &mut actual[..len as usize]);
            source
                .read(&placed.region, chunk, data, expected)
                .map_err(|error| DeviceError::Fill(error.into()))?;
            device.read(placed.target + offset, actual)?;
            if expected != actual {
                different.push(DifferentChunk {
                    region: index,
                    chunk,
                });
            }
        }
    }
    Ok(())
}

/// Device memory for expected bytes: as much as is useful, or less when there is not so much.
fn expected_buffer(device: &mut dyn Device, useful: u64) -> Result<(u64, u64), DeviceError> {
    let mut len = useful.min(EXPECTED_LEN);
    loop {
        match device.allocate(len) {
            Ok(address) => return Ok((address, len)),
            Err(error) if len <= COMPARE_CHUNK => return Err(error),
            Err(_) => len = (len / 2).next_multiple_of(COMPARE_CHUNK),
        }
    }
}

fn compare_stored(
    device: &mut dyn Device,
    source: Source<'_>,
    regions: &[Placed<'_>],
    stored: &[Stored],
    buffer: u64,
    len: u64,
    different: &mut Vec<DifferentChunk>,
) -> Result<(), DeviceError> {
    let batch_len = usize::try_from(len / COMPARE_CHUNK)
        .unwrap_or(usize::MAX)
        .max(1);
    for batch in stored.chunks(batch_len) {
        let mut pieces = Vec::with_capacity(batch.len());
        let mut ranges: Vec<CompareRange> = Vec::new();
        let mut chunks = Vec::new();
        let mut expected = buffer;
        for chunk in batch {
            let Some(placed) = regions.get(chunk.region) else {
                continue;
            };
            let (offset, chunk_len) = placed.region.chunk(chunk.chunk);
            let actual = placed.target + offset;
            pieces.push(Piece {
                address: expected,
                len: chunk_len,
                region: 0,
            });
            match ranges.last_mut() {
                // Whole chunks that lie one after the other on both sides.
                Some(last)
                    if last.len % COMPARE_CHUNK == 0
                        && last.actual + last.len == actual
                        && last.expected.map(|e| e + last.len) == Some(expected)
                        && chunks
                            .last()
                            .is_some_and(|(region, _)| *region == chunk.region) =>
                {
                    last.len += u64::from(chunk_len);
                }
                _ => {
                    ranges.push(CompareRange {
                        actual,
                        expected: Some(expected),
                        len: u64::from(chunk_len),
                    });
                    chunks.push((chunk.region, chunk.chunk));
                }
            }
            expected += COMPARE_CHUNK;
        }
        write(device, source, regions, &pieces, batch)?;
        let flags = device.compare(&ranges)?;
        let mut expected = batch.iter();
        // Flags are in the order of the batch.
        for (differs, chunk) in flags.iter().zip(expected.by_ref()) {
            if *differs {
                different.push(DifferentChunk {
                    region: chunk.region,
                    chunk: chunk.chunk,
                });
            }
        }
    }
    Ok(())
}

/// Calls `found` with the region and chunk of each flag that is set.
fn collect(
    flags: &[bool],
    ranges: &[CompareRange],
    chunks: &[(usize, u64)],
    mut found: impl FnMut(usize, u64),
) {
    let mut flags = flags.iter();
    for (range, (region, first)) in ranges.iter().zip(chunks) {
        for (chunk, differs) in (0..range.chunk_count()).zip(flags.by_ref()) {
            if *differs {
                found(*region, first + chunk);
            }
        }
    }
}
