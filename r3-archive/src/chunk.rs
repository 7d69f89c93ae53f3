//! Chunks: the unit in which memory is hashed, compressed and stored once.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Length of a chunk in bytes. The last chunk of a blob or region may be shorter.
pub const CHUNK_SIZE: usize = 64 * 1024;

/// Identity of a chunk: the 128-bit xxh3 of its raw bytes, little endian.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub [u8; 16]);

impl ChunkId {
    /// The identity of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_128(bytes).to_le_bytes())
    }
}

impl std::fmt::Display for ChunkId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_le_bytes(self.0))
    }
}

impl std::fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// As one number of 128 bits in the file, which takes 16 bytes and one step rather than 16, and
/// as hexadecimal digits in JSON.
impl Serialize for ChunkId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_u128(u128::from_le_bytes(self.0))
        }
    }
}

impl<'de> Deserialize<'de> for ChunkId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = if deserializer.is_human_readable() {
            let digits = String::deserialize(deserializer)?;
            u128::from_str_radix(&digits, 16).map_err(serde::de::Error::custom)?
        } else {
            u128::deserialize(deserializer)?
        };
        Ok(Self(number.to_le_bytes()))
    }
}

/// The content of one chunk, by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChunkRef {
    /// All bytes are zero; nothing is stored.
    Zero,
    /// Stored in the archive under this identity.
    Data(ChunkId),
}

/// A run of chunks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChunkRun {
    /// This many chunks of zeros.
    Zero(u64),
    /// Stored chunks.
    Data(Vec<ChunkId>),
}

/// The chunks of a blob or region, run-length encoded, so that a hundred
/// gigabytes of untouched memory cost a few bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChunkList {
    runs: Vec<ChunkRun>,
}

impl ChunkList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one chunk.
    pub fn push(&mut self, chunk: ChunkRef) {
        match (chunk, self.runs.last_mut()) {
            (ChunkRef::Zero, Some(ChunkRun::Zero(n))) => *n = n.saturating_add(1),
            (ChunkRef::Zero, _) => self.runs.push(ChunkRun::Zero(1)),
            (ChunkRef::Data(id), Some(ChunkRun::Data(ids))) => ids.push(id),
            (ChunkRef::Data(id), _) => self.runs.push(ChunkRun::Data(vec![id])),
        }
    }

    /// Appends `count` chunks of zeros.
    pub fn push_zeros(&mut self, count: u64) {
        match self.runs.last_mut() {
            _ if count == 0 => {}
            Some(ChunkRun::Zero(n)) => *n = n.saturating_add(count),
            _ => self.runs.push(ChunkRun::Zero(count)),
        }
    }

    /// The runs, in order.
    pub fn runs(&self) -> &[ChunkRun] {
        &self.runs
    }

    /// Number of chunks. Saturates, so that a hostile list cannot overflow it.
    pub fn len(&self) -> u64 {
        self.runs.iter().fold(0u64, |n, run| {
            n.saturating_add(match run {
                ChunkRun::Zero(count) => *count,
                ChunkRun::Data(ids) => ids.len() as u64,
            })
        })
    }

    /// Whether the list has no chunk.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunks that are stored, with their index in the list; zeros are skipped, so that
    /// walking a mostly untouched region is cheap.
    pub fn stored(&self) -> impl Iterator<Item = (u64, ChunkId)> + '_ {
        let mut next = 0u64;
        self.runs.iter().flat_map(move |run| {
            let first = next;
            let ids: &[ChunkId] = match run {
                ChunkRun::Zero(count) => {
                    next = next.saturating_add(*count);
                    &[]
                }
                ChunkRun::Data(ids) => {
                    next = next.saturating_add(ids.len() as u64);
                    ids
                }
            };
            ids.iter()
                .enumerate()
                .map(move |(i, id)| (first.saturating_add(i as u64), *id))
        })
    }

    /// All chunks from `start` on, zeros one by one: for walking a bounded range.
    pub fn iter_from(&self, start: u64) -> impl Iterator<Item = ChunkRef> + '_ {
        let mut skip = start;
        self.runs.iter().flat_map(move |run| {
            let len = match run {
                ChunkRun::Zero(count) => *count,
                ChunkRun::Data(ids) => ids.len() as u64,
            };
            let from = skip.min(len);
            skip -= from;
            (from..len).map(move |at| match run {
                ChunkRun::Zero(_) => ChunkRef::Zero,
                ChunkRun::Data(ids) => usize::try_from(at)
                    .ok()
                    .and_then(|at| ids.get(at))
                    .map_or(ChunkRef::Zero, |id| ChunkRef::Data(*id)),
            })
        })
    }

    /// All chunks, in order. For lists that may be hostile, [`runs`](Self::runs) and
    /// [`stored`](Self::stored) cost no more than the list itself.
    pub fn iter(&self) -> impl Iterator<Item = ChunkRef> + '_ {
        self.runs.iter().flat_map(|run| {
            let (zeros, ids): (u64, &[ChunkId]) = match run {
                ChunkRun::Zero(count) => (*count, &[]),
                ChunkRun::Data(ids) => (0, ids),
            };
            (0..zeros)
                .map(|_| ChunkRef::Zero)
                .chain(ids.iter().map(|id| ChunkRef::Data(*id)))
        })
    }

    /// The chunk at `index`.
    pub fn get(&self, index: u64) -> Option<ChunkRef> {
        let mut first = 0u64;
        for run in &self.runs {
            match run {
                ChunkRun::Zero(count) => {
                    let end = first.saturating_add(*count);
                    if index < end {
                        return Some(ChunkRef::Zero);
                    }
                    first = end;
                }
                ChunkRun::Data(ids) => {
                    let at = index - first;
                    if at < ids.len() as u64 {
                        return Some(ChunkRef::Data(ids[at as usize]));
                    }
                    first = first.saturating_add(ids.len() as u64);
                }
            }
        }
        None
    }
}

impl FromIterator<ChunkRef> for ChunkList {
    fn from_iter<I: IntoIterator<Item = ChunkRef>>(chunks: I) -> Self {
        let mut list = Self::new();
        for chunk in chunks {
            list.push(chunk);
        }
        list
    }
}

/// Bytes of any length, stored as chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blob {
    /// Length in bytes.
    pub len: u64,
    /// The bytes.
    pub chunks: ChunkList,
}
