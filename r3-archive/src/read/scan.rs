//! Finding the blocks of a file that has no usable index.

use std::{collections::HashMap, os::fd::AsRawFd};

use super::{ReadError, salvage::Salvage, source::Source};
use crate::{
    chunk::{CHUNK_SIZE, ChunkId},
    codec::supported_version,
    format::{
        BLOCK_ALIGN, BLOCK_COMMITTED, BLOCK_RESERVED, BLOCKS_START, BlockHeader, HEADER_LEN, Kind,
    },
    index::{ChunkEntry, RecordEntry},
};

/// How much is read at a time between blocks.
const STRIDE: usize = 1 << 20;

/// The blocks of a file.
#[derive(Default)]
pub(crate) struct Blocks {
    pub records: Vec<RecordEntry>,
    pub chunks: HashMap<ChunkId, ChunkEntry>,
}

/// All complete blocks of the file.
pub(crate) fn scan(source: &Source, tag: u64, salvage: &mut Salvage) -> Result<Blocks, ReadError> {
    let mut blocks = Blocks::default();
    walk(source, tag, salvage, |offset, header, salvage| {
        note(header, offset, &mut blocks, salvage);
    })?;
    Ok(blocks)
}

/// Walks from header to header, calls `visit` for each complete block, and notes what is not in
/// order in `salvage`.
pub(crate) fn walk(
    source: &Source,
    tag: u64,
    salvage: &mut Salvage,
    mut visit: impl FnMut(u64, &BlockHeader, &mut Salvage),
) -> Result<(), ReadError> {
    let mut offset = BLOCKS_START;
    while offset.saturating_add(HEADER_LEN as u64) <= source.len() {
        let mut bytes = [0; HEADER_LEN];
        source.read_at(offset, &mut bytes)?;
        let header = match source.check_header(offset, &bytes, tag) {
            Ok(header) => header,
            Err(error) => {
                let gap = next_header(source, tag, offset)?;
                if gap.bytes > 0 {
                    let reason = match error {
                        ReadError::Damaged { reason, .. } => reason,
                        other => other.to_string(),
                    };
                    salvage.bytes_skipped += gap.bytes;
                    salvage.damage(offset, "block", reason);
                }
                offset = gap.end;
                continue;
            }
        };
        match header.state {
            BLOCK_COMMITTED => visit(offset, &header, salvage),
            BLOCK_RESERVED => salvage.incomplete_blocks += 1,
            _ => salvage.damage(
                offset,
                header.kind.name(),
                "the state of the block is damaged".into(),
            ),
        }
        // `check_header` found that this does not overflow.
        offset = offset.saturating_add(header.block_len().unwrap_or(BLOCK_ALIGN));
    }
    Ok(())
}

fn note(header: &BlockHeader, offset: u64, blocks: &mut Blocks, salvage: &mut Salvage) {
    match header.kind {
        Kind::CHUNK => match (
            u32::try_from(header.stored_len),
            u32::try_from(header.raw_len),
        ) {
            (Ok(stored_len), Ok(raw_len)) if raw_len as usize <= CHUNK_SIZE => {
                let entry = ChunkEntry {
                    offset,
                    stored_len,
                    raw_len,
                };
                blocks.chunks.entry(header.hash).or_insert(entry);
            }
            _ => salvage.damage(offset, "chunk", "it is longer than a chunk can be".into()),
        },
        Kind::INDEX => {}
        kind if supported_version(kind).is_some() => {
            blocks.records.push(RecordEntry {
                offset,
                kind,
                version: header.version,
            });
        }
        _ => salvage.unknown_blocks += 1,
    }
}

struct Gap {
    /// The next header, or the end of the file.
    end: u64,
    /// Bytes in between that are not zero: none in the unused tail of a killed writer's file.
    bytes: u64,
}

/// The next good header after `offset`.
fn next_header(source: &Source, tag: u64, offset: u64) -> Result<Gap, ReadError> {
    let mut at = offset;
    let mut bytes = 0;
    let mut buffer = Vec::new();
    let mut first = true;
    while at < source.len() {
        at = data_after(source, at);
        let len = (source.len().saturating_sub(at)).min(STRIDE as u64) as usize;
        buffer.resize(len, 0);
        source.read_at(at, &mut buffer)?;
        for (i, header) in buffer.chunks(HEADER_LEN).enumerate() {
            let here = at + (i * HEADER_LEN) as u64;
            if let Ok(header) = <&[u8; HEADER_LEN]>::try_from(header)
                && !(first && here == offset)
                && source.check_header(here, header, tag).is_ok()
            {
                return Ok(Gap { end: here, bytes });
            }
            if header.iter().any(|byte| *byte != 0) {
                bytes += header.len() as u64;
            }
        }
        first = false;
        at += len as u64;
    }
    Ok(Gap {
        end: source.len(),
        bytes,
    })
}

/// `offset`, or the first place after it where the file may have bytes other than zero.
fn data_after(source: &Source, offset: u64) -> u64 {
    let Some(file) = source.file() else {
        return offset;
    };
    let Ok(from) = libc::off_t::try_from(offset) else {
        return offset;
    };
    // SAFETY: a system call on an open descriptor; its file position is not used.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from, libc::SEEK_DATA) };
    match u64::try_from(found) {
        Ok(found) => found.max(offset) / BLOCK_ALIGN * BLOCK_ALIGN,
        // No data after `offset`; any other error is no reason not to look.
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => {
            source.len()
        }
        Err(_) => offset,
    }
}
