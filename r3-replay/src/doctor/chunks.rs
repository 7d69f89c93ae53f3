//! The recorded bytes of two regions, side by side.

use std::collections::BTreeMap;

use r3_archive::ReadError;
use r3_archive::chunk::{CHUNK_SIZE, ChunkRef};

use super::memory::Moment;
use super::pairs::Pair;
use super::{MOST_CHUNKS, Side};

/// The same piece of two regions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Its offset in both.
    pub offset: u64,
    /// Bytes that both have of it.
    pub len: usize,
    /// What it holds.
    pub data: [ChunkRef; 2],
}

/// Chunks of a pair that are stored for one of them at least, ascending: all others are zeros in both.
pub(super) fn chunks<'a>(
    a: &'a Side<'_>,
    b: &'a Side<'_>,
    pair: &Pair,
    moment: Moment,
) -> impl Iterator<Item = Chunk> + use<'a> {
    let len = |side: &Side<'_>, index: usize| {
        let region = side.launch.before.regions.get(index);
        region.map_or(0, |region| region.len)
    };
    let len = len(a, pair.a).min(len(b, pair.b));
    let mut both: BTreeMap<u64, [ChunkRef; 2]> = BTreeMap::new();
    for (index, data) in held(a, pair.a, moment) {
        both.entry(index).or_insert([ChunkRef::Zero; 2])[0] = data;
    }
    for (index, data) in held(b, pair.b, moment) {
        both.entry(index).or_insert([ChunkRef::Zero; 2])[1] = data;
    }
    both.into_iter().filter_map(move |(index, data)| {
        let offset = index.checked_mul(CHUNK_SIZE as u64)?;
        let bytes = len.checked_sub(offset)?.min(CHUNK_SIZE as u64);
        (bytes > 0).then_some(Chunk {
            offset,
            len: bytes as usize,
            data,
        })
    })
}

/// What a region holds that is not zero, by chunk.
fn held(side: &Side<'_>, index: usize, moment: Moment) -> BTreeMap<u64, ChunkRef> {
    let Some(region) = side.launch.before.regions.get(index) else {
        return BTreeMap::new();
    };
    let stored = region.chunks.stored();
    let mut held: BTreeMap<u64, ChunkRef> = stored
        .map(|(index, id)| (index, ChunkRef::Data(id)))
        .collect();
    if moment == Moment::After {
        let changes = side.launch.changes_of(index).iter();
        held.extend(changes.map(|change| (change.chunk, change.data)));
    }
    held
}

/// Calls `look` with offset and bytes of both, chunk by chunk. Returns how many chunks were left out since there were too many.
pub(super) fn each_chunk(
    a: &Side<'_>,
    b: &Side<'_>,
    chunks: impl Iterator<Item = Chunk>,
    mut look: impl FnMut(u64, &[u8], &[u8]),
) -> Result<u64, ReadError> {
    let mut buffers = [Vec::new(), Vec::new()];
    let mut left_out = 0;
    for (count, chunk) in (0u64..).zip(chunks) {
        if count >= MOST_CHUNKS {
            left_out += 1;
            continue;
        }
        for ((side, buffer), data) in [a, b].into_iter().zip(&mut buffers).zip(chunk.data) {
            buffer.resize(whole(side, data, chunk.len), 0);
            side.archive.read_chunk(data, buffer)?;
        }
        let [ours, theirs] = &buffers;
        if let (Some(ours), Some(theirs)) = (ours.get(..chunk.len), theirs.get(..chunk.len)) {
            look(chunk.offset, ours, theirs);
        }
    }
    Ok(left_out)
}

/// Bytes of a chunk: where regions have different lengths, one may have more of it.
fn whole(side: &Side<'_>, data: ChunkRef, least: usize) -> usize {
    let stored = match data {
        ChunkRef::Zero => None,
        ChunkRef::Data(id) => side.archive.chunk_len_stored(id),
    };
    let stored = stored.map_or(least, |(len, _)| len as usize);
    stored.clamp(least, CHUNK_SIZE)
}

/// Little-endian words of eight bytes; what is left over is filled up with zeros.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks(8).map(|part| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(part) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    })
}
