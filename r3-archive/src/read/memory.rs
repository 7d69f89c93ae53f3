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
        let snapshot = self.region(launch, region)?;
        let chunks = snapshot.chunks.iter_from(range.start / CHUNK_SIZE as u64);
        self.assemble(snapshot, range, chunks)
    }

    /// Bytes `range` of region `region` after `launch`.
    pub fn region_after(
        &self,
        launch: &LaunchRecord,
        region: usize,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ReadError> {
        let snapshot = self.region(launch, region)?;
        let first = range.start / CHUNK_SIZE as u64;
        let changes = launch.changes_of(region);
        let from = changes.partition_point(|change| change.chunk < first);
        let mut changes = changes[from..].iter().peekable();
        let chunks =
            (first..).zip(snapshot.chunks.iter_from(first)).map(
                move |(index, before)| match changes.next_if(|change| change.chunk == index) {
                    Some(change) => change.data,
                    None => before,
                },
            );
        self.assemble(snapshot, range, chunks)
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

    /// Bytes `range`; `chunks` starts with the chunk in which it starts.
    fn assemble(
        &self,
        region: &RegionSnapshot,
        range: Range<u64>,
        chunks: impl Iterator<Item = ChunkRef>,
    ) -> Result<Vec<u8>, ReadError> {
        let Range { start, end } = range;
        if start > end || end > region.len {
            return Err(ReadError::OutOfRegion {
                owner: region.owner.clone(),
                start,
                end,
                len: region.len,
            });
        }
        if end - start > self.limits.blob_bytes {
            return Err(ReadError::Limit {
                path: self.source.path.clone(),
                what: "a range of memory",
                needed: end - start,
                limit: self.limits.blob_bytes,
            });
        }
        let mut out = vec![0; usize::try_from(end - start).unwrap_or(0)];
        let mut rest = out.as_mut_slice();
        let mut skip = (start % CHUNK_SIZE as u64) as usize;
        let mut whole = Vec::new();
        for (index, chunk) in (start / CHUNK_SIZE as u64..).zip(chunks) {
            if rest.is_empty() {
                break;
            }
            let len = chunk_len(region.len, index).unwrap_or(0) as usize;
            let take = len.saturating_sub(skip).min(rest.len());
            let (part, after) = rest.split_at_mut(take);
            match chunk {
                ChunkRef::Zero => {}
                ChunkRef::Data(_) if take == len => self.read_chunk(chunk, part)?,
                ChunkRef::Data(_) => {
                    whole.resize(len, 0);
                    self.read_chunk(chunk, &mut whole)?;
                    part.copy_from_slice(whole.get(skip..skip + take).unwrap_or_default());
                }
            }
            rest = after;
            skip = 0;
        }
        Ok(out)
    }
}
