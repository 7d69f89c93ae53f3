//! The bytes of a file, and the blocks in them.
//!
//! Read with `pread` rather than mapped: a file that another process cuts is then an error and
//! not a signal, and what was checked cannot change before it is used.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
    sync::Arc,
};

use super::ReadError;
use crate::{
    chunk::ChunkId,
    compress::Decompressors,
    format::{BLOCK_COMMITTED, BLOCK_RESERVED, BlockHeader, Codec, HEADER_LEN, Kind},
};

/// What one byte of a zstd frame can become at most: a block of 128 KiB takes four.
const ZSTD_MOST: u64 = 1 << 15;

pub(crate) struct Source {
    pub path: Arc<PathBuf>,
    bytes: Bytes,
    len: u64,
    decompressors: Decompressors,
}

enum Bytes {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    pub fn open(path: PathBuf) -> Result<Self, ReadError> {
        let path = Arc::new(path);
        let failed = |error| ReadError::Io {
            path: path.clone(),
            error: Arc::new(error),
        };
        // A pipe that nobody writes to would be waited for, before anything can say that it is no archive.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&*path)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(ReadError::NotAnArchive {
                path,
                reason: "it is not a regular file".into(),
            });
        }
        Ok(Self {
            bytes: Bytes::File(file),
            len: metadata.len(),
            decompressors: Decompressors::default(),
            path,
        })
    }

    pub fn memory(bytes: Vec<u8>) -> Self {
        Self {
            path: Arc::new(PathBuf::from("(memory)")),
            len: bytes.len() as u64,
            bytes: Bytes::Memory(bytes),
            decompressors: Decompressors::default(),
        }
    }

    /// Length when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The file, when it is one.
    pub fn file(&self) -> Option<&File> {
        match &self.bytes {
            Bytes::File(file) => Some(file),
            Bytes::Memory(_) => None,
        }
    }

    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), ReadError> {
        let read = match &self.bytes {
            Bytes::File(file) => file.read_exact_at(out, offset),
            Bytes::Memory(bytes) => usize::try_from(offset)
                .ok()
                .and_then(|start| bytes.get(start..start.checked_add(out.len())?))
                .map(|found| out.copy_from_slice(found))
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into()),
        };
        read.map_err(|error| ReadError::Io {
            path: self.path.clone(),
            error: Arc::new(error),
        })
    }

    pub fn damaged(&self, offset: u64, reason: impl Into<String>) -> ReadError {
        ReadError::Damaged {
            path: self.path.clone(),
            offset,
            reason: reason.into(),
        }
    }

    /// The header at `offset`; its block lies within the file.
    pub fn header(&self, offset: u64, tag: u64) -> Result<BlockHeader, ReadError> {
        let mut bytes = [0; HEADER_LEN];
        if offset
            .checked_add(HEADER_LEN as u64)
            .is_none_or(|end| end > self.len)
        {
            return Err(self.damaged(offset, "the block is beyond the end of the file"));
        }
        self.read_at(offset, &mut bytes)?;
        self.check_header(offset, &bytes, tag)
    }

    /// The header in `bytes`, which are those at `offset`.
    pub fn check_header(
        &self,
        offset: u64,
        bytes: &[u8; HEADER_LEN],
        tag: u64,
    ) -> Result<BlockHeader, ReadError> {
        let Some(header) = BlockHeader::parse(bytes) else {
            return Err(self.damaged(offset, "no block header, or its checksum is wrong"));
        };
        if header.tag != tag {
            return Err(self.damaged(offset, "the block belongs to another archive"));
        }
        let end = header.block_len().and_then(|len| offset.checked_add(len));
        if end.is_none_or(|end| end > self.len) {
            return Err(self.damaged(
                offset,
                format!(
                    "the {} block goes beyond the end of the file",
                    header.kind.name()
                ),
            ));
        }
        Ok(header)
    }

    /// The decompressed payload of a block, checked against its hash. `raw_limit` bounds what is
    /// allocated for it; what is read is bounded by the file's own length.
    pub fn payload(
        &self,
        offset: u64,
        header: &BlockHeader,
        raw_limit: u64,
    ) -> Result<Vec<u8>, ReadError> {
        if header.raw_len > raw_limit {
            return Err(ReadError::Limit {
                path: self.path.clone(),
                what: "a block",
                needed: header.raw_len,
                limit: raw_limit,
            });
        }
        let most = match Codec::from_number(header.codec) {
            Some(Codec::Zstd) => header.stored_len.saturating_mul(ZSTD_MOST),
            _ => header.stored_len,
        };
        if header.raw_len > most {
            let what = header.kind.name();
            return Err(self.damaged(offset, format!("the lengths of the {what} disagree")));
        }
        let mut out = vec![0; usize::try_from(header.raw_len).unwrap_or(0)];
        self.payload_into(offset, header, &mut out)?;
        Ok(out)
    }

    /// Like [`payload`](Self::payload), into `out`, which has the payload's length.
    pub fn payload_into(
        &self,
        offset: u64,
        header: &BlockHeader,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        match header.state {
            BLOCK_COMMITTED => {}
            BLOCK_RESERVED => return Err(self.damaged(offset, "the block was not completed")),
            _ => return Err(self.damaged(offset, "the state of the block is damaged")),
        }
        let what = header.kind.name();
        match Codec::from_number(header.codec) {
            Some(Codec::None) if header.stored_len == out.len() as u64 => {
                self.read_at(offset + HEADER_LEN as u64, out)?;
            }
            Some(Codec::None) => {
                return Err(self.damaged(offset, format!("the lengths of the {what} disagree")));
            }
            Some(Codec::Zstd) => {
                let stored = self.stored(offset, header)?;
                self.decompressors
                    .decompress(&stored, out)
                    .map_err(|error| {
                        self.damaged(offset, format!("the {what} does not decompress: {error}"))
                    })?;
            }
            None => {
                return Err(self.damaged(
                    offset,
                    format!(
                        "the {what} has codec {}, which this R3 does not know",
                        header.codec
                    ),
                ));
            }
        }
        // A fuzzer cannot guess hashes, so it does without.
        if ChunkId::of(out) != header.hash && !cfg!(fuzzing) {
            let whose = match header.kind {
                Kind::CHUNK | Kind::INDEX => what.to_owned(),
                _ => format!("{what} record"),
            };
            return Err(self.damaged(offset, format!("the {whose}'s checksum is wrong")));
        }
        Ok(())
    }

    /// The payload as it is in the file. The header's lengths were checked against the file.
    pub fn stored(&self, offset: u64, header: &BlockHeader) -> Result<Vec<u8>, ReadError> {
        let mut stored = vec![0; usize::try_from(header.stored_len).unwrap_or(0)];
        self.read_at(offset + HEADER_LEN as u64, &mut stored)?;
        Ok(stored)
    }
}
