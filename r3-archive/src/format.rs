//! The layout of a file: superblock, block headers, kinds.
//!
//! Everything is little endian. This module only turns bytes into values and back; it reads and
//! writes no file. `docs/archive-format.md` describes the same for other implementations.

use crate::chunk::ChunkId;

/// First bytes of every archive. Not ASCII, and with both line endings in it, so that a transfer
/// in text mode is noticed at once.
pub const FILE_MAGIC: [u8; 8] = *b"\x89R3\r\n\x1a\n\0";

/// Version of the layout that this crate writes, and the newest one that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Version of chunk blocks that this crate writes, and the newest one that it reads.
pub const CHUNK_VERSION: u16 = 1;

/// Where the first block starts.
pub const BLOCKS_START: u64 = 4096;

/// Blocks start at multiples of this.
pub const BLOCK_ALIGN: u64 = 64;

/// Length of a block header.
pub const HEADER_LEN: usize = 64;

/// Length of the part of the superblock that never changes after creation.
pub const IDENTITY_LEN: usize = 64;

/// Length of the part of the superblock that tells how the file was closed.
pub const CLOSING_LEN: usize = 64;

/// First bytes of every block header.
const BLOCK_MAGIC: [u8; 4] = *b"R3bk";

const STATE_WRITING: u32 = 0;
const STATE_COMPLETE: u32 = 1;

/// Offset in the header of the word that says whether the block is complete.
pub const BLOCK_STATE_OFFSET: usize = 12;

/// The block's space is taken, its payload may be missing.
pub const BLOCK_RESERVED: u32 = 0x5652_5352;

/// The block is complete.
pub const BLOCK_COMMITTED: u32 = 0x5449_4d43;

/// What is in a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

impl Kind {
    /// One chunk of memory.
    pub const CHUNK: Self = Self(1);
    /// The index of the file.
    pub const INDEX: Self = Self(2);
    /// [`ProcessRecord`](crate::model::ProcessRecord).
    pub const PROCESS: Self = Self(16);
    /// [`DeviceRecord`](crate::model::DeviceRecord).
    pub const DEVICE: Self = Self(17);
    /// [`ModuleRecord`](crate::model::ModuleRecord).
    pub const MODULE: Self = Self(18);
    /// [`SourceRecord`](crate::model::SourceRecord).
    pub const SOURCE: Self = Self(19);
    /// [`KernelRecord`](crate::model::KernelRecord).
    pub const KERNEL: Self = Self(20);
    /// [`AllocationRecord`](crate::model::AllocationRecord).
    pub const ALLOCATION: Self = Self(21);
    /// [`LaunchRecord`](crate::model::LaunchRecord).
    pub const LAUNCH: Self = Self(22);
    /// [`KernelStatsRecord`](crate::model::KernelStatsRecord).
    pub const KERNEL_STATS: Self = Self(23);
    /// [`ProcessStatsRecord`](crate::model::ProcessStatsRecord).
    pub const PROCESS_STATS: Self = Self(24);
    /// A record of code that was attached after the capture.
    pub const ATTACHMENT: Self = Self(25);
    /// [`TunedKernelRecord`](crate::model::TunedKernelRecord).
    pub const TUNED_KERNEL: Self = Self(26);

    /// The kind's name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::CHUNK => "chunk",
            Self::INDEX => "index",
            Self::PROCESS => "process",
            Self::DEVICE => "device",
            Self::MODULE => "module",
            Self::SOURCE => "source",
            Self::KERNEL => "kernel",
            Self::ALLOCATION => "allocation",
            Self::LAUNCH => "launch",
            Self::KERNEL_STATS => "kernel statistics",
            Self::PROCESS_STATS => "process statistics",
            Self::ATTACHMENT => "attachment",
            Self::TUNED_KERNEL => "tuned kernel",
            _ => "unknown",
        }
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

/// How a payload is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Stored as it is.
    None,
    /// One zstd frame.
    Zstd,
}

impl Codec {
    /// The number in the header.
    pub fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Zstd => 1,
        }
    }

    /// The codec with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// How the raw bytes of a payload are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Plain bytes: chunks, and the index.
    Bytes,
    /// bincode 2, little endian, fixed-width integers.
    Bincode,
}

impl Encoding {
    /// The number in the header.
    pub fn number(self) -> u8 {
        match self {
            Self::Bytes => 0,
            Self::Bincode => 1,
        }
    }
}

/// A block header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// What is in the block.
    pub kind: Kind,
    /// Version of that kind.
    pub version: u16,
    /// Number of the [`Codec`].
    pub codec: u8,
    /// Number of the [`Encoding`].
    pub encoding: u8,
    /// [`BLOCK_RESERVED`] or [`BLOCK_COMMITTED`]; anything else is damage.
    pub state: u32,
    /// Length of the payload in the file.
    pub stored_len: u64,
    /// Length of the payload once decompressed.
    pub raw_len: u64,
    /// The 128-bit xxh3 of the decompressed payload.
    pub hash: ChunkId,
    /// Ties the block to its file: see [`Identity::tag`].
    pub tag: u64,
}

impl BlockHeader {
    /// The bytes of the header.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..4].copy_from_slice(&BLOCK_MAGIC);
        out[4..6].copy_from_slice(&self.kind.0.to_le_bytes());
        out[6..8].copy_from_slice(&self.version.to_le_bytes());
        out[8] = self.codec;
        out[9] = self.encoding;
        out[12..16].copy_from_slice(&self.state.to_le_bytes());
        out[16..24].copy_from_slice(&self.stored_len.to_le_bytes());
        out[24..32].copy_from_slice(&self.raw_len.to_le_bytes());
        out[32..48].copy_from_slice(&self.hash.0);
        out[48..56].copy_from_slice(&self.tag.to_le_bytes());
        let sum = header_checksum(&out);
        out[56..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The header in `bytes`, if there is one and its checksum holds.
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        if bytes[0..4] != BLOCK_MAGIC || !sum_holds(le64(bytes, 56), header_checksum(bytes)) {
            return None;
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&bytes[32..48]);
        Some(Self {
            kind: Kind(u16::from_le_bytes([bytes[4], bytes[5]])),
            version: u16::from_le_bytes([bytes[6], bytes[7]]),
            codec: bytes[8],
            encoding: bytes[9],
            state: le32(bytes, BLOCK_STATE_OFFSET),
            stored_len: le64(bytes, 16),
            raw_len: le64(bytes, 24),
            hash: ChunkId(hash),
            tag: le64(bytes, 48),
        })
    }

    /// Length of the whole block, header and padding included. `None` when it overflows.
    pub fn block_len(&self) -> Option<u64> {
        block_len(self.stored_len)
    }
}

/// Length of a block whose payload has `stored_len` bytes. `None` when it overflows.
pub fn block_len(stored_len: u64) -> Option<u64> {
    stored_len
        .checked_add(HEADER_LEN as u64)?
        .checked_next_multiple_of(BLOCK_ALIGN)
}

/// The state word is left out: it is the last word to be written, and must not need a second one.
fn header_checksum(bytes: &[u8; HEADER_LEN]) -> u64 {
    let mut covered = [0; 56];
    covered.copy_from_slice(&bytes[..56]);
    covered[BLOCK_STATE_OFFSET..BLOCK_STATE_OFFSET + 4].fill(0);
    xxhash_rust::xxh3::xxh3_64(&covered)
}

/// The first part of the superblock. Its layout is the same in every version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Version of the format.
    pub version: u32,
    /// Identity of the file.
    pub uuid: [u8; 16],
    /// Version of R3 that wrote the file, ASCII, padded with zeros.
    pub writer: [u8; 16],
}

impl Identity {
    /// The bytes.
    pub fn to_bytes(self) -> [u8; IDENTITY_LEN] {
        let mut out = [0; IDENTITY_LEN];
        out[0..8].copy_from_slice(&FILE_MAGIC);
        out[8..12].copy_from_slice(&self.version.to_le_bytes());
        out[16..32].copy_from_slice(&self.uuid);
        out[32..48].copy_from_slice(&self.writer);
        let sum = xxhash_rust::xxh3::xxh3_64(&out[..56]);
        out[56..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The identity in `bytes`, if there is one and its checksum holds.
    pub fn parse(bytes: &[u8; IDENTITY_LEN]) -> Option<Self> {
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..56]);
        if bytes[0..8] != FILE_MAGIC || !sum_holds(le64(bytes, 56), sum) {
            return None;
        }
        let (mut uuid, mut writer) = ([0; 16], [0; 16]);
        uuid.copy_from_slice(&bytes[16..32]);
        writer.copy_from_slice(&bytes[32..48]);
        Some(Self {
            version: le32(bytes, 8),
            uuid,
            writer,
        })
    }

    /// Repeated in every block header, so that the blocks of an archive that lies inside a chunk
    /// of this one are never taken for this one's.
    pub fn tag(&self) -> u64 {
        tag_of(&self.uuid)
    }

    /// Version of R3 that wrote the file, for people.
    pub fn writer_version(&self) -> String {
        let text = self.writer.split(|b| *b == 0).next().unwrap_or(&[]);
        text.iter()
            .map(|b| {
                if b.is_ascii_graphic() {
                    char::from(*b)
                } else {
                    '?'
                }
            })
            .collect()
    }
}

/// The tag that blocks of the file with this UUID carry.
pub fn tag_of(uuid: &[u8; 16]) -> u64 {
    le64(uuid, 0)
}

/// The second part of the superblock: written once, when the file is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Whether the file was closed.
    pub complete: bool,
    /// Where the index block starts.
    pub index_offset: u64,
    /// Length of the index block.
    pub index_len: u64,
    /// Length of the file.
    pub file_len: u64,
}

impl Closing {
    /// The bytes.
    pub fn to_bytes(self) -> [u8; CLOSING_LEN] {
        let mut out = [0; CLOSING_LEN];
        let state = if self.complete {
            STATE_COMPLETE
        } else {
            STATE_WRITING
        };
        out[0..4].copy_from_slice(&state.to_le_bytes());
        out[8..16].copy_from_slice(&self.index_offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.index_len.to_le_bytes());
        out[24..32].copy_from_slice(&self.file_len.to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&out[..56]);
        out[56..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// The closing in `bytes`, if its checksum holds.
    pub fn parse(bytes: &[u8; CLOSING_LEN]) -> Option<Self> {
        if !sum_holds(le64(bytes, 56), xxhash_rust::xxh3::xxh3_64(&bytes[..56])) {
            return None;
        }
        Some(Self {
            complete: match le32(bytes, 0) {
                STATE_WRITING => false,
                STATE_COMPLETE => true,
                _ => return None,
            },
            index_offset: le64(bytes, 8),
            index_len: le64(bytes, 16),
            file_len: le64(bytes, 24),
        })
    }
}

/// A fuzzer cannot guess checksums, so it does without.
fn sum_holds(found: u64, computed: u64) -> bool {
    found == computed || cfg!(fuzzing)
}

/// Callers pass constant offsets inside fixed arrays; anything else reads as zeros.
fn le64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        word.copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    if let Some(found) = bytes.get(at..at + 4) {
        word.copy_from_slice(found);
    }
    u32::from_le_bytes(word)
}
