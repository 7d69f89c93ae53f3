//! Writing an archive.

mod chunks;
mod error;
mod fd;
mod file;
mod workers;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use error::WriteError;
pub use workers::{Ticket, room_for_a_thread};

use crate::{
    chunk::{Blob, CHUNK_SIZE, ChunkId, ChunkRef},
    codec::{self, Record, StoredLaunch},
    compress::Compressors,
    format::{Codec, Encoding},
};
use chunks::ChunkStore;
use file::{Block, BlockFile};
use workers::Workers;

/// Records shorter than this are not compressed.
const COMPRESS_FROM: usize = 512;

/// How to write.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// zstd level of chunks and records.
    pub zstd_level: i32,
    /// Threads for [`ArchiveWriter::submit`], started at its first call. With none, `submit`
    /// does the work itself.
    pub workers: usize,
    /// Chunks that would make the file longer than this are refused; records are not.
    pub byte_budget: u64,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            zstd_level: 1,
            workers: 2,
            byte_budget: u64::MAX,
        }
    }
}

/// Writes one archive. All methods can be called from any thread at any time.
///
/// Without [`finish`](Self::finish) the file stays readable: it has no index, and
/// [`Archive::open`](crate::Archive::open) scans it.
///
/// In a child made by `fork` every method fails with [`WriteError::Forked`] and touches nothing.
pub struct ArchiveWriter {
    inner: Arc<Inner>,
    workers: Workers,
}

pub(crate) struct Inner {
    file: BlockFile,
    chunks: ChunkStore,
    compressors: Compressors,
}

impl Inner {
    fn put(&self, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<ChunkRef, WriteError> {
        self.chunks
            .put(&self.file, &self.compressors, bytes, scratch)
    }
}

impl ArchiveWriter {
    /// Creates `path`, which must not exist, readable and writable for its owner only.
    pub fn create(path: &Path, options: WriterOptions) -> Result<Self, WriteError> {
        Ok(Self {
            inner: Arc::new(Inner {
                file: BlockFile::create(path, options.byte_budget)?,
                chunks: ChunkStore::new(),
                compressors: Compressors::new(options.zstd_level),
            }),
            workers: Workers::new(options.workers),
        })
    }

    /// Stores one chunk, at most [`CHUNK_SIZE`] bytes, unless it is there already.
    pub fn put_chunk(&self, bytes: &[u8]) -> Result<ChunkRef, WriteError> {
        self.inner.put(bytes, &mut Vec::new())
    }

    /// Stores bytes of any length.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Blob, WriteError> {
        let mut scratch = Vec::new();
        let chunks = bytes
            .chunks(CHUNK_SIZE)
            .map(|chunk| self.inner.put(chunk, &mut scratch));
        Ok(Blob {
            len: bytes.len() as u64,
            chunks: chunks.collect::<Result<_, _>>()?,
        })
    }

    /// Queues a buffer of any length to the worker threads, which cut it into chunks, store
    /// them, and drop it. How much is queued is the caller's to bound.
    pub fn submit<B: AsRef<[u8]> + Send + 'static>(&self, buffer: B) -> Ticket {
        self.workers.submit(&self.inner, buffer)
    }

    /// Waits until everything that was submitted is stored. False when that took longer than
    /// `timeout`, and in a child made by fork.
    pub fn drain(&self, timeout: Duration) -> bool {
        self.inner.file.check_owner().is_ok() && self.workers.drain(timeout)
    }

    /// Appends a record. The chunks that it names must have been stored before: a reader drops
    /// launches whose chunks are missing.
    pub fn append<R: Record>(&self, record: &R) -> Result<(), WriteError> {
        self.inner.file.check_owner()?;
        let encoded = match record.as_launch() {
            Some(launch) => {
                let mut scratch = Vec::new();
                codec::encode(&StoredLaunch::new(launch, |part| {
                    self.inner.put(part, &mut scratch)
                })?)
            }
            None => codec::encode(record),
        };
        let failed = |reason| WriteError::Encode {
            record: R::KIND.name(),
            reason,
        };
        let raw = encoded.map_err(failed)?;
        let mut packed = Vec::new();
        let compressed = raw.len() >= COMPRESS_FROM
            && self
                .inner
                .compressors
                .compress(&raw, &mut packed)
                .map_err(|error| failed(error.to_string()))?;
        self.inner.file.append(&Block {
            kind: R::KIND,
            version: R::VERSION,
            codec: if compressed { Codec::Zstd } else { Codec::None },
            encoding: Encoding::Bincode,
            raw_len: raw.len() as u64,
            hash: ChunkId::of(&raw),
            payload: if compressed { &packed } else { &raw },
        })?;
        Ok(())
    }

    /// Stores the chunk `id` with a payload that is compressed already and was checked.
    pub(crate) fn put_stored(
        &self,
        id: ChunkId,
        codec: Codec,
        raw_len: u32,
        payload: &[u8],
    ) -> Result<(), WriteError> {
        let stored = self
            .inner
            .chunks
            .store(&self.inner.file, id, || Ok((codec, raw_len, payload)));
        stored.map(|_| ())
    }

    /// Whether the chunk `id` is stored.
    pub(crate) fn has_chunk(&self, id: ChunkId) -> bool {
        self.inner.chunks.contains(id)
    }

    /// Bytes of the file that are in use.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.file.end()
    }

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        self.inner.file.path()
    }

    /// Identity of the file.
    pub fn uuid(&self) -> [u8; 16] {
        self.inner.file.uuid()
    }

    /// The error after which nothing more is written, if there was one.
    pub fn error(&self) -> Option<WriteError> {
        self.inner.file.error()
    }

    /// Writes the index, cuts the file to its length and marks it complete. Later writes fail;
    /// calling this again does nothing. Queued buffers are not waited for: see
    /// [`drain`](Self::drain).
    ///
    /// After a final error the file is closed as well as it can be, and the error is returned.
    pub fn finish(&self) -> Result<(), WriteError> {
        self.inner.file.finish(|| self.inner.chunks.entries())
    }

    /// Lets go of the archive without touching it: for a child made by fork.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

impl Drop for ArchiveWriter {
    fn drop(&mut self) {
        if self.inner.file.check_owner().is_ok() {
            self.workers.close();
        }
    }
}

impl std::fmt::Debug for ArchiveWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path: &PathBuf = self.inner.file.path();
        f.debug_struct("ArchiveWriter")
            .field("path", path)
            .finish_non_exhaustive()
    }
}
