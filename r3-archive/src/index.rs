//! The index: where every block is, so that opening a file does not read all of it.
//!
//! Raw bytes of the block: the number of records (u64), the number of chunks (u64), then the
//! entries: records of 16 bytes {offset u64, kind u16, version u16, zero u32} in file order, and
//! chunks of 32 bytes {id, offset u64, stored length u32, raw length u32}.

use crate::{chunk::ChunkId, format::Kind};

/// Version of the index that this crate writes.
pub const INDEX_VERSION: u16 = 1;

const RECORD_LEN: usize = 16;
const CHUNK_LEN: usize = 32;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordEntry {
    /// Offset of its block.
    pub offset: u64,
    /// Kind of the record.
    pub kind: Kind,
    /// Version of the record.
    pub version: u16,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkEntry {
    /// Offset of its block.
    pub offset: u64,
    /// Length in the file, without header.
    pub stored_len: u32,
    /// Length of the chunk.
    pub raw_len: u32,
}

/// All blocks of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Records, in file order.
    pub records: Vec<RecordEntry>,
    /// Chunks.
    pub chunks: Vec<(ChunkId, ChunkEntry)>,
}

impl Index {
    /// The bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let len = 16 + self.records.len() * RECORD_LEN + self.chunks.len() * CHUNK_LEN;
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(&(self.records.len() as u64).to_le_bytes());
        out.extend_from_slice(&(self.chunks.len() as u64).to_le_bytes());
        for record in &self.records {
            out.extend_from_slice(&record.offset.to_le_bytes());
            out.extend_from_slice(&record.kind.0.to_le_bytes());
            out.extend_from_slice(&record.version.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
        }
        for (id, chunk) in &self.chunks {
            out.extend_from_slice(&id.0);
            out.extend_from_slice(&chunk.offset.to_le_bytes());
            out.extend_from_slice(&chunk.stored_len.to_le_bytes());
            out.extend_from_slice(&chunk.raw_len.to_le_bytes());
        }
        out
    }

    /// The index in `bytes`. `None` when the counts do not fit the length.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (records, rest) = bytes.split_first_chunk::<8>()?;
        let (chunks, rest) = rest.split_first_chunk::<8>()?;
        let records_len = usize::try_from(u64::from_le_bytes(*records))
            .ok()?
            .checked_mul(RECORD_LEN)?;
        let chunks_len = usize::try_from(u64::from_le_bytes(*chunks))
            .ok()?
            .checked_mul(CHUNK_LEN)?;
        if records_len.checked_add(chunks_len)? != rest.len() {
            return None;
        }
        let (records, chunks) = rest.split_at_checked(records_len)?;
        let records = records
            .as_chunks::<RECORD_LEN>()
            .0
            .iter()
            .map(|e| RecordEntry {
                offset: u64::from_le_bytes([e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7]]),
                kind: Kind(u16::from_le_bytes([e[8], e[9]])),
                version: u16::from_le_bytes([e[10], e[11]]),
            });
        let chunks = chunks.as_chunks::<CHUNK_LEN>().0.iter().map(|e| {
            let mut id = [0; 16];
            id.copy_from_slice(&e[..16]);
            let entry = ChunkEntry {
                offset: u64::from_le_bytes([
                    e[16], e[17], e[18], e[19], e[20], e[21], e[22], e[23],
                ]),
                stored_len: u32::from_le_bytes([e[24], e[25], e[26], e[27]]),
                raw_len: u32::from_le_bytes([e[28], e[29], e[30], e[31]]),
            };
            (ChunkId(id), entry)
        });
        Some(Self {
            records: records.collect(),
            chunks: chunks.collect(),
        })
    }
}
