//! The chunk store: each content once.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

use super::{
    error::WriteError,
    file::{Block, BlockFile},
};
use crate::{
    chunk::{CHUNK_SIZE, ChunkId, ChunkRef},
    compress::Compressors,
    format::{CHUNK_VERSION, Codec, Encoding, Kind},
    index::ChunkEntry,
};

const SHARDS: usize = 64;

pub(super) struct ChunkStore {
    /// By the first byte of the identity. A shard stays locked while one of its chunks is
    /// compressed and written, so that a second thread with the same content waits for the first
    /// instead of naming a chunk that may never be written.
    shards: [Mutex<HashMap<ChunkId, ChunkEntry>>; SHARDS],
}

impl ChunkStore {
    pub fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    fn shard(&self, id: ChunkId) -> &Mutex<HashMap<ChunkId, ChunkEntry>> {
        &self.shards[usize::from(id.0[0]) % SHARDS]
    }

    /// Stores `bytes` unless they are there already. `scratch` is for the compressed form.
    pub fn put(
        &self,
        file: &BlockFile,
        compressors: &Compressors,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<ChunkRef, WriteError> {
        if bytes.len() > CHUNK_SIZE {
            return Err(WriteError::ChunkTooLong { len: bytes.len() });
        }
        file.check_owner()?;
        if is_zero(bytes) {
            return Ok(ChunkRef::Zero);
        }
        let id = ChunkId::of(bytes);
        self.store(file, id, || {
            let compressed =
                compressors
                    .compress(bytes, scratch)
                    .map_err(|error| WriteError::Encode {
                        record: "chunk",
                        reason: error.to_string(),
                    })?;
            Ok(match compressed {
                true => (Codec::Zstd, bytes.len() as u32, &scratch[..]),
                false => (Codec::None, bytes.len() as u32, bytes),
            })
        })
    }

    /// Stores the chunk `id` unless it is there already. `make` gives codec, raw length and payload.
    pub fn store<'a>(
        &self,
        file: &BlockFile,
        id: ChunkId,
        make: impl FnOnce() -> Result<(Codec, u32, &'a [u8]), WriteError>,
    ) -> Result<ChunkRef, WriteError> {
        file.check_owner()?;
        let mut shard = self
            .shard(id)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(entry) = shard.entry(id) {
            if let Some(error) = file.error() {
                return Err(error);
            }
            let (codec, raw_len, payload) = make()?;
            let offset = file.append(&Block {
                kind: Kind::CHUNK,
                version: CHUNK_VERSION,
                codec,
                encoding: Encoding::Bytes,
                raw_len: u64::from(raw_len),
                hash: id,
                payload,
            })?;
            entry.insert(ChunkEntry {
                offset,
                stored_len: payload.len() as u32,
                raw_len,
            });
        }
        Ok(ChunkRef::Data(id))
    }

    pub fn contains(&self, id: ChunkId) -> bool {
        self.shard(id)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(&id)
    }

    /// All chunks, in file order.
    pub fn entries(&self) -> Vec<(ChunkId, ChunkEntry)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(shard.iter().map(|(id, entry)| (*id, *entry)));
        }
        all.sort_unstable_by_key(|(_, entry)| entry.offset);
        all
    }
}

/// Whether all bytes are zero. Most memory that is not shows it in the first block.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<256>();
    blocks
        .iter()
        .all(|block| block.iter().fold(0, |any, byte| any | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}
