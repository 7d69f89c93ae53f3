//! The bytes of a launch's memory, before and after it.

use std::ops::Range;

use super::{Archive, ReadError, launches::chunk_len};
use crate::{
    chunk::{CHUNK_SIZE, ChunkList, ChunkRef},
    model::{LaunchRecord, RegionSnapshot},
};

impl Archive {
    /// `Ok` when `list` has as many chunks as `len` bytes take.
    pub(crate) fn check_list(&self, list: &ChunkList, len: u64) -> Result<(), ReadError> {
        let (needed, found) = (len.div_ceil(CHUNK_SIZE as u64), list.len());
        if needed == found {
            return Ok(());
        }
        Err(ReadError::ListLength {
            path: self.source.path.clone(),
            len,
            needed,
            found,
        })
    }

    /// Bytes `range` of region `region` before `launch`.
    pub fn region_before(
        &self,
        launch: &LaunchRecord,
        region: usize,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ReadError> {
        let mut out = self.buffer(launch, region, &range)?;
        self.read_before(launch, region, range.start, &mut out)?;
        Ok(out)
    }

    /// Bytes `range` of region `region` after `launch`.
    pub fn region_after(
        &self,
        launch: &LaunchRecord,
        region: usize,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ReadError> {
        let mut out = self.buffer(launch, region, &range)?;
        self.read_after(launch, region, range.start, &mut out)?;
        Ok(out)
    }

    /// Fills `out` with the bytes of region `region` before `launch`, from `offset` on.
    pub fn read_before(
        &self,
        launch: &LaunchRecord,
        region: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let snapshot = self.region(launch, region)?;
        let chunks = snapshot.chunks.iter_from(offset / CHUNK_SIZE as u64);
        self.assemble(snapshot, offset, out, chunks)
    }

    /// Fills `out` with the bytes of region `region` after `launch`, from `offset` on.
    pub fn read_after(
        &self,
        launch: &LaunchRecord,
        region: usize,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let snapshot = self.region(launch, region)?;
        let first = offset / CHUNK_SIZE as u64;
        let changes = launch.changes_of(region);
        let from = changes.partition_point(|change| change.chunk < first);
        let mut changes = changes.iter().skip(from).peekable();
        let chunks = (first..)
            .zip(snapshot.chunks.iter_from(first))
            .map(|(index, before)| {
                let change = changes.next_if(|change| change.chunk == index);
                change.map_or(before, |change| change.data)
            });
        self.assemble(snapshot, offset, out, chunks)
    }

    /// Zeros for `range` of a region, if it may be read at once.
    fn buffer(
        &self,
        launch: &LaunchRecord,
        region: usize,
        range: &Range<u64>,
    ) -> Result<Vec<u8>, ReadError> {
        let snapshot = self.region(launch, region)?;
        check_range(snapshot, range)?;
        let len = range.end - range.start;
        if len > self.limits.blob_bytes {
            return Err(ReadError::Limit {
                path: self.source.path.clone(),
                what: "a range of memory",
                needed: len,
                limit: self.limits.blob_bytes,
            });
        }
        Ok(vec![0; usize::try_from(len).unwrap_or(0)])
    }

    fn region<'a>(
        &self,
        launch: &'a LaunchRecord,
        region: usize,
    ) -> Result<&'a RegionSnapshot, ReadError> {
        let regions = &launch.before.regions;
        let snapshot = regions.get(region).ok_or_else(|| ReadError::NoRegion {
            path: self.source.path.clone(),
            launch: launch.id,
            region,
            regions: regions.len(),
        })?;
        self.check_list(&snapshot.chunks, snapshot.len)?;
        Ok(snapshot)
    }

    /// Fills `out` from `chunks`, the first of which holds the byte at `offset`.
    fn assemble(
        &self,
        region: &RegionSnapshot,
        offset: u64,
        out: &mut [u8],
        chunks: impl Iterator<Item = ChunkRef>,
    ) -> Result<(), ReadError> {
        check_range(region, &(offset..offset.saturating_add(out.len() as u64)))?;
        let mut rest = out;
        let mut skip = (offset % CHUNK_SIZE as u64) as usize;
        let mut whole = Vec::new();
        for (index, chunk) in (offset / CHUNK_SIZE as u64..).zip(chunks) {
            if rest.is_empty() {
                break;
            }
            let len = chunk_len(region.len, index).unwrap_or(0) as usize;
            let take = len.saturating_sub(skip).min(rest.len());
            let (part, after) = rest.split_at_mut(take);
            match chunk {
                ChunkRef::Data(_) if take != len => {
                    whole.resize(len, 0);
                    self.read_chunk(chunk, &mut whole)?;
                    part.copy_from_slice(whole.get(skip..skip + take).unwrap_or_default());
                }
                _ => self.read_chunk(chunk, part)?,
            }
            rest = after;
            skip = 0;
        }
        Ok(())
    }
}

fn check_range(region: &RegionSnapshot, range: &Range<u64>) -> Result<(), ReadError> {
    if range.start <= range.end && range.end <= region.len {
        return Ok(());
    }
    Err(ReadError::OutOfRegion {
        owner: region.owner.clone(),
        start: range.start,
        end: range.end,
        len: region.len,
    })
}
