//! Records to bytes and back.
//!
//! The only module that knows bincode. The number of the encoding is in every block header, so
//! that another one can follow without a new format version.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    chunk::{Blob, CHUNK_SIZE, ChunkId, ChunkList, ChunkRef, ChunkRun},
    format::Kind,
    model::*,
};

/// A chunk list with at least this many stored chunks goes into chunks of its own.
pub const TABLE_MIN_CHUNKS: u64 = 64;

/// Bytes of one entry of such a table.
pub const TABLE_ENTRY: usize = 16;

mod sealed {
    pub trait Sealed {}
}

/// A record of [`model`](crate::model): what [`ArchiveWriter::append`](crate::ArchiveWriter::append) takes.
pub trait Record: sealed::Sealed + Serialize + DeserializeOwned {
    /// Kind of block in which it is stored.
    const KIND: Kind;
    /// Version of its encoding that this crate writes, and the newest one that it reads.
    const VERSION: u16;

    /// The launch, when it is one: its chunk lists are stored apart.
    #[doc(hidden)]
    fn as_launch(&self) -> Option<&LaunchRecord> {
        None
    }
}

macro_rules! record {
    ($type:ty, $kind:ident, $version:literal) => {
        impl sealed::Sealed for $type {}
        impl Record for $type {
            const KIND: Kind = Kind::$kind;
            const VERSION: u16 = $version;
        }
    };
}

record!(ProcessRecord, PROCESS, 1);
record!(DeviceRecord, DEVICE, 1);
record!(ModuleRecord, MODULE, 1);
record!(SourceRecord, SOURCE, 1);
record!(KernelRecord, KERNEL, 1);
record!(AllocationRecord, ALLOCATION, 1);
record!(KernelStatsRecord, KERNEL_STATS, 1);
record!(ProcessStatsRecord, PROCESS_STATS, 1);
record!(AttachmentRecord, ATTACHMENT, 1);
record!(TunedKernelRecord, TUNED_KERNEL, 2);

impl sealed::Sealed for LaunchRecord {}
impl Record for LaunchRecord {
    const KIND: Kind = Kind::LAUNCH;
    const VERSION: u16 = 1;

    fn as_launch(&self) -> Option<&LaunchRecord> {
        Some(self)
    }
}

/// The newest version of a kind of record that this crate reads. `None` for an unknown kind.
pub(crate) fn supported_version(kind: Kind) -> Option<u16> {
    Some(match kind {
        Kind::PROCESS => ProcessRecord::VERSION,
        Kind::DEVICE => DeviceRecord::VERSION,
        Kind::MODULE => ModuleRecord::VERSION,
        Kind::SOURCE => SourceRecord::VERSION,
        Kind::KERNEL => KernelRecord::VERSION,
        Kind::ALLOCATION => AllocationRecord::VERSION,
        Kind::LAUNCH => LaunchRecord::VERSION,
        Kind::KERNEL_STATS => KernelStatsRecord::VERSION,
        Kind::PROCESS_STATS => ProcessStatsRecord::VERSION,
        Kind::ATTACHMENT => AttachmentRecord::VERSION,
        Kind::TUNED_KERNEL => TunedKernelRecord::VERSION,
        _ => return None,
    })
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard()
        .with_little_endian()
        .with_fixed_int_encoding()
}

/// The bytes of `value`.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    bincode::serde::encode_to_vec(value, config()).map_err(|error| error.to_string())
}

/// The value in `bytes`, all of them.
///
/// Allocates in proportion to `bytes`, whatever lengths are written in them: bincode refuses a
/// length above its limit, and the limit is the next of a few steps above the length of `bytes`.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    fn limited<T: DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, String> {
        let config = bincode::config::standard()
            .with_little_endian()
            .with_fixed_int_encoding()
            .with_limit::<LIMIT>();
        let (value, read) = bincode::serde::decode_from_slice::<T, _>(bytes, config)
            .map_err(|error| error.to_string())?;
        if read != bytes.len() {
            return Err(format!("{} bytes left over", bytes.len() - read));
        }
        Ok(value)
    }
    match bytes.len() {
        0..=0x400 => limited::<T, 0x800>(bytes),
        0x401..=0x4000 => limited::<T, 0x8000>(bytes),
        0x4001..=0x4_0000 => limited::<T, 0x8_0000>(bytes),
        0x4_0001..=0x40_0000 => limited::<T, 0x80_0000>(bytes),
        0x40_0001..=0x400_0000 => limited::<T, 0x800_0000>(bytes),
        _ => limited::<T, 0x8000_0000>(bytes),
    }
}

/// The record in `bytes`, which were written as this version of it.
pub(crate) fn decode_record<R: Record>(version: u16, mut bytes: Vec<u8>) -> Result<R, String> {
    // Fields that have come since stand at the end, and may be missing: each is an option that is not there.
    let missing: u16 = match R::KIND {
        Kind::TUNED_KERNEL => 2u16.saturating_sub(version),
        _ => 0,
    };
    bytes.extend(std::iter::repeat_n(0, missing.into()));
    decode(&bytes)
}

/// A launch as it is stored: its chunk lists, which can be long and are mostly the same from one
/// launch to the next, are kept in chunks, so that equal parts are stored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredLaunch {
    /// The record with nothing in `before` and `after`.
    pub head: LaunchRecord,
    /// `before.regions`.
    pub regions: Vec<StoredRegion>,
    /// `after.changes`.
    pub changes: Vec<ChunkChange>,
}

/// A [`RegionSnapshot`] as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredRegion {
    pub owner: RegionOwner,
    pub address: u64,
    pub len: u64,
    pub chunks: StoredList,
}

/// A [`ChunkList`] as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum StoredList {
    /// A short list.
    Inline(ChunkList),
    /// A long one: a blob of one identity per chunk, all zeros for a chunk of zeros.
    Table(Blob),
}

impl StoredLaunch {
    /// `launch` as it is stored. `put` stores a table.
    pub fn new<E>(
        launch: &LaunchRecord,
        mut put: impl FnMut(&[u8]) -> Result<ChunkRef, E>,
    ) -> Result<Self, E> {
        let mut regions = Vec::with_capacity(launch.before.regions.len());
        for region in &launch.before.regions {
            regions.push(StoredRegion {
                owner: region.owner.clone(),
                address: region.address,
                len: region.len,
                chunks: StoredList::new(&region.chunks, &mut put)?,
            });
        }
        let head = LaunchRecord {
            id: launch.id,
            kernel: launch.kernel,
            device: launch.device,
            entry_point: launch.entry_point.clone(),
            grid: launch.grid,
            block: launch.block,
            dynamic_shared: launch.dynamic_shared,
            cooperative: launch.cooperative,
            attributes: launch.attributes.clone(),
            params: launch.params.clone(),
            pointers: launch.pointers.clone(),
            function_settings: launch.function_settings.clone(),
            cache_config: launch.cache_config,
            limits: launch.limits.clone(),
            occurrence: launch.occurrence,
            sequence: launch.sequence,
            thread: launch.thread,
            unix_ns: launch.unix_ns,
            before: Snapshot::default(),
            after: SnapshotDelta::default(),
            notes: launch.notes.clone(),
        };
        Ok(Self {
            head,
            regions,
            changes: launch.after.changes.clone(),
        })
    }
}

impl StoredList {
    fn new<E>(
        list: &ChunkList,
        put: &mut impl FnMut(&[u8]) -> Result<ChunkRef, E>,
    ) -> Result<Self, E> {
        let stored = list.runs().iter().fold(0u64, |n, run| match run {
            ChunkRun::Zero(_) => n,
            ChunkRun::Data(ids) => n.saturating_add(ids.len() as u64),
        });
        if stored < TABLE_MIN_CHUNKS {
            return Ok(Self::Inline(list.clone()));
        }
        let mut table = Table {
            put,
            chunks: ChunkList::new(),
            part: Vec::new(),
            len: 0,
            error: PhantomData,
        };
        for run in list.runs() {
            match run {
                ChunkRun::Zero(count) => table.push_zeros(*count)?,
                ChunkRun::Data(ids) => {
                    for id in ids {
                        table.push(&id.0)?;
                    }
                }
            }
        }
        Ok(Self::Table(table.finish()?))
    }
}

/// Cuts a table into chunks as it grows, so that a long one is never whole in memory.
struct Table<'a, E, F: FnMut(&[u8]) -> Result<ChunkRef, E>> {
    put: &'a mut F,
    chunks: ChunkList,
    part: Vec<u8>,
    len: u64,
    error: PhantomData<E>,
}

impl<E, F: FnMut(&[u8]) -> Result<ChunkRef, E>> Table<'_, E, F> {
    fn push(&mut self, id: &[u8; TABLE_ENTRY]) -> Result<(), E> {
        self.part.extend_from_slice(id);
        self.len = self.len.saturating_add(TABLE_ENTRY as u64);
        if self.part.len() == CHUNK_SIZE {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn push_zeros(&mut self, mut count: u64) -> Result<(), E> {
        const PER_CHUNK: u64 = (CHUNK_SIZE / TABLE_ENTRY) as u64;
        while count > 0 && !self.part.is_empty() {
            self.push(&[0; TABLE_ENTRY])?;
            count -= 1;
        }
        self.chunks.push_zeros(count / PER_CHUNK);
        let whole = count - count % PER_CHUNK;
        self.len = self
            .len
            .saturating_add(whole.saturating_mul(TABLE_ENTRY as u64));
        for _ in 0..count % PER_CHUNK {
            self.push(&[0; TABLE_ENTRY])?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), E> {
        self.chunks.push((self.put)(&self.part)?);
        self.part.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Blob, E> {
        if !self.part.is_empty() {
            self.flush()?;
        }
        Ok(Blob {
            len: self.len,
            chunks: self.chunks,
        })
    }
}

/// The chunks that one chunk of a table names.
pub(crate) fn table_entries(part: &[u8]) -> impl Iterator<Item = ChunkRef> + '_ {
    part.as_chunks::<TABLE_ENTRY>().0.iter().map(|id| {
        if *id == [0; TABLE_ENTRY] {
            ChunkRef::Zero
        } else {
            ChunkRef::Data(ChunkId(*id))
        }
    })
}

/// Decodes `bytes` as a record of `kind`; what decodes must encode to the same bytes.
#[cfg(fuzzing)]
pub fn fuzz_record(kind: Kind, bytes: &[u8]) {
    fn check<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
        if let Ok(value) = decode::<T>(bytes) {
            assert_eq!(encode(&value).as_deref(), Ok(bytes));
        }
    }
    match kind {
        Kind::PROCESS => check::<ProcessRecord>(bytes),
        Kind::DEVICE => check::<DeviceRecord>(bytes),
        Kind::MODULE => check::<ModuleRecord>(bytes),
        Kind::SOURCE => check::<SourceRecord>(bytes),
        Kind::KERNEL => check::<KernelRecord>(bytes),
        Kind::ALLOCATION => check::<AllocationRecord>(bytes),
        Kind::LAUNCH => check::<StoredLaunch>(bytes),
        Kind::KERNEL_STATS => check::<KernelStatsRecord>(bytes),
        Kind::PROCESS_STATS => check::<ProcessStatsRecord>(bytes),
        Kind::ATTACHMENT => check::<AttachmentRecord>(bytes),
        Kind::TUNED_KERNEL => check::<TunedKernelRecord>(bytes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuned_kernel_of_the_first_version_is_read_as_one_without_a_source() {
        let record = TunedKernelRecord {
            id: TunedId(1),
            kernel: "k".into(),
            module_hash: [0; 16],
            params: Vec::new(),
            archive: [0; 16],
            archive_hash: [0; 16],
            code: Vec::new(),
            launch: TunedLaunch {
                block: None,
                grid: [TunedGrid::Cover; 3],
                shared: TunedShared::Same,
                carveout: None,
            },
            guards: Vec::new(),
            shapes: Vec::new(),
            ratio: [1.0; 3],
            confidence: 0.95,
            device: String::new(),
            compute_capability: (9, 0),
            driver_version: 0,
            approximate: false,
            candidate: "{}".into(),
            evidence: "{}".into(),
            r3_version: "0.1.0".into(),
            unix_ns: 7,
            source: None,
        };
        let now = encode(&record).unwrap();
        // The first version ended before the source.
        let before = now[..now.len() - 1].to_vec();
        assert_eq!(decode_record(1, before.clone()), Ok(record.clone()));
        assert_eq!(decode_record(2, now), Ok(record));
        assert!(decode_record::<TunedKernelRecord>(2, before).is_err());
    }
}
