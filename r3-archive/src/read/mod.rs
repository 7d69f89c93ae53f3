//! Reading an archive.
//!
//! A file is treated as hostile: every length is checked against the file or against [`Limits`]
//! before anything is allocated, every payload against its hash before it is used.

mod error;
mod launches;
mod memory;
mod open;
mod salvage;
mod scan;
mod source;

use std::{collections::HashMap, path::Path, sync::OnceLock};

pub use error::ReadError;
pub use salvage::{DamagedBlock, DroppedLaunch, MAX_NAMED, Salvage, SalvageReason};

pub(crate) use launches::Slot;
pub(crate) use source::Source;

use crate::{
    chunk::{Blob, CHUNK_SIZE, ChunkId, ChunkRef},
    format::{BlockHeader, CHUNK_VERSION, Identity, Kind},
    index::ChunkEntry,
    model::*,
};

/// Bounds on what a file can make its reader allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one record once decompressed.
    pub record_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of a blob that is read at once.
    pub blob_bytes: u64,
    /// Stored chunks that the regions and changes of one launch name. The default is 1 TiB of memory.
    pub launch_chunks: u64,
    /// Stored chunks that all launches of [`Archive::launches`] together name.
    pub all_launch_chunks: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            record_bytes: 1 << 28,
            index_bytes: 1 << 32,
            blob_bytes: 1 << 31,
            launch_chunks: 1 << 24,
            all_launch_chunks: 1 << 27,
        }
    }
}

/// An archive that was opened. Reads nothing but its index and records until memory is asked for;
/// all methods take `&self` and can be called from several threads at once.
pub struct Archive {
    source: Source,
    limits: Limits,
    identity: Identity,
    tag: u64,
    salvage: Option<Salvage>,
    chunks: HashMap<ChunkId, ChunkEntry>,
    processes: Vec<ProcessRecord>,
    devices: Vec<DeviceRecord>,
    modules: Vec<ModuleRecord>,
    sources: Vec<SourceRecord>,
    kernels: Vec<KernelRecord>,
    allocations: Vec<AllocationRecord>,
    kernel_stats: Vec<KernelStatsRecord>,
    process_stats: ProcessStatsRecord,
    attachments: Vec<AttachmentRecord>,
    tuned: Vec<TunedKernelRecord>,
    ids: Ids,
    /// Ascending by launch id.
    slots: Vec<Slot>,
    heads: Vec<LaunchRecord>,
    launches: OnceLock<Vec<LaunchRecord>>,
}

/// Where records are in their lists.
#[derive(Default)]
struct Ids {
    modules: HashMap<ModuleId, usize>,
    sources: HashMap<SourceId, usize>,
    kernels: HashMap<KernelId, usize>,
    allocations: HashMap<AllocationId, usize>,
}

impl Archive {
    /// Opens a file: by its index, or by a scan when that is missing or damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        Self::open_with(path, Limits::default())
    }

    /// Like [`open`](Self::open), with other limits.
    pub fn open_with(path: impl AsRef<Path>, limits: Limits) -> Result<Self, ReadError> {
        open::open(Source::open(path.as_ref().to_owned())?, limits)
    }

    /// Opens an archive that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ReadError> {
        open::open(Source::memory(bytes), Limits::default())
    }

    /// What was lost, when the file is not whole.
    pub fn salvaged(&self) -> Option<&Salvage> {
        self.salvage.as_ref()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// Length of the file.
    pub fn file_len(&self) -> u64 {
        self.source.len()
    }

    /// Identity of the file. Zeros when the superblock is damaged.
    pub fn uuid(&self) -> [u8; 16] {
        self.identity.uuid
    }

    /// Version of R3 that wrote the file.
    pub fn writer_version(&self) -> String {
        self.identity.writer_version()
    }

    /// The captured process; the first one of a merged archive. Empty when its record is lost.
    pub fn process(&self) -> &ProcessRecord {
        static NONE: ProcessRecord = ProcessRecord {
            r3_version: String::new(),
            pid: 0,
            host: String::new(),
            exe: String::new(),
            argv: Vec::new(),
            cwd: String::new(),
            rank: None,
            started_unix_ns: 0,
            driver_version: 0,
            driver_path: String::new(),
            environment: Vec::new(),
        };
        self.processes.first().unwrap_or(&NONE)
    }

    /// All processes of a merged archive.
    pub fn processes(&self) -> &[ProcessRecord] {
        &self.processes
    }

    /// The devices.
    pub fn devices(&self) -> &[DeviceRecord] {
        &self.devices
    }

    /// The modules.
    pub fn modules(&self) -> &[ModuleRecord] {
        &self.modules
    }

    /// Sources that were compiled at run time.
    pub fn sources(&self) -> &[SourceRecord] {
        &self.sources
    }

    /// The kernels.
    pub fn kernels(&self) -> &[KernelRecord] {
        &self.kernels
    }

    /// The allocations.
    pub fn allocations(&self) -> &[AllocationRecord] {
        &self.allocations
    }

    /// Launch counts, at most one record per kernel: the last one that was written.
    pub fn kernel_stats(&self) -> &[KernelStatsRecord] {
        &self.kernel_stats
    }

    /// Counts of the process, as they were written last.
    pub fn process_stats(&self) -> &ProcessStatsRecord {
        &self.process_stats
    }

    /// Code that was attached after the capture, oldest first.
    pub fn attachments(&self) -> &[AttachmentRecord] {
        &self.attachments
    }

    /// Code that was attached to a kernel, newest first.
    pub fn attached_to(&self, kernel: KernelId) -> impl Iterator<Item = &AttachmentRecord> {
        let all = self.attachments.iter().rev();
        all.filter(move |attachment| attachment.kernel(kernel).is_some())
    }

    /// Kernels that were tuned, oldest first: what a file of results holds.
    pub fn tuned(&self) -> &[TunedKernelRecord] {
        &self.tuned
    }

    /// The module with this id.
    pub fn module(&self, id: ModuleId) -> Option<&ModuleRecord> {
        self.modules.get(*self.ids.modules.get(&id)?)
    }

    /// The source with this id.
    pub fn source(&self, id: SourceId) -> Option<&SourceRecord> {
        self.sources.get(*self.ids.sources.get(&id)?)
    }

    /// The kernel with this id.
    pub fn kernel(&self, id: KernelId) -> Option<&KernelRecord> {
        self.kernels.get(*self.ids.kernels.get(&id)?)
    }

    /// The allocation with this id.
    pub fn allocation(&self, id: AllocationId) -> Option<&AllocationRecord> {
        self.allocations.get(*self.ids.allocations.get(&id)?)
    }

    /// Raw and stored length of a chunk that is in the file.
    pub fn chunk_len_stored(&self, id: ChunkId) -> Option<(u32, u32)> {
        self.chunks
            .get(&id)
            .map(|entry| (entry.raw_len, entry.stored_len))
    }

    /// Identities of all stored chunks, in no order.
    pub fn chunk_ids(&self) -> impl ExactSizeIterator<Item = ChunkId> + '_ {
        self.chunks.keys().copied()
    }

    pub(crate) fn bytes(&self) -> &Source {
        &self.source
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Visits every complete block of the file, whatever the index says.
    pub(crate) fn walk(
        &self,
        salvage: &mut Salvage,
        mut visit: impl FnMut(u64, &BlockHeader),
    ) -> Result<(), ReadError> {
        scan::walk(&self.source, self.tag, salvage, |offset, header, _| {
            visit(offset, header)
        })
    }

    /// Header and offset of the block of a chunk.
    pub(crate) fn chunk_block(&self, id: ChunkId) -> Result<(u64, BlockHeader), ReadError> {
        let Some(entry) = self.chunks.get(&id) else {
            return Err(ReadError::NoChunk {
                path: self.source.path.clone(),
                chunk: id,
            });
        };
        let header = self.source.header(entry.offset, self.tag)?;
        if header.kind == Kind::CHUNK && header.version > CHUNK_VERSION {
            return Err(ReadError::TooNew {
                path: self.source.path.clone(),
                what: "chunk",
                found: header.version.into(),
                supported: CHUNK_VERSION.into(),
                writer: self.identity.writer_version(),
            });
        }
        if header.kind != Kind::CHUNK || header.hash != id || header.raw_len > CHUNK_SIZE as u64 {
            return Err(self
                .source
                .damaged(entry.offset, format!("chunk {id:?} is not there")));
        }
        Ok((entry.offset, header))
    }

    /// Reads a chunk into `out`, which must have its exact length; the hash is checked.
    pub fn read_chunk(&self, chunk: ChunkRef, out: &mut [u8]) -> Result<(), ReadError> {
        let ChunkRef::Data(id) = chunk else {
            out.fill(0);
            return Ok(());
        };
        let (offset, header) = self.chunk_block(id)?;
        if header.raw_len != out.len() as u64 {
            return Err(ReadError::ChunkLength {
                path: self.source.path.clone(),
                chunk: id,
                found: header.raw_len,
                wanted: out.len() as u64,
            });
        }
        self.source.payload_into(offset, &header, out)
    }

    /// Reads a blob. Refuses one that is longer than its chunks, or than the limit.
    pub fn read_blob(&self, blob: &Blob) -> Result<Vec<u8>, ReadError> {
        self.check_list(&blob.chunks, blob.len)?;
        if blob.len > self.limits.blob_bytes {
            return Err(ReadError::Limit {
                path: self.source.path.clone(),
                what: "a blob",
                needed: blob.len,
                limit: self.limits.blob_bytes,
            });
        }
        let mut out = vec![0; usize::try_from(blob.len).unwrap_or(0)];
        // What is not stored is zero already.
        for (index, id) in blob.chunks.stored() {
            if let Some(part) = out
                .chunks_mut(CHUNK_SIZE)
                .nth(usize::try_from(index).unwrap_or(usize::MAX))
            {
                self.read_chunk(ChunkRef::Data(id), part)?;
            }
        }
        Ok(out)
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive")
            .field("path", &self.source.path)
            .field("kernels", &self.kernels.len())
            .field("launches", &self.slots.len())
            .field("salvage", &self.salvage)
            .finish_non_exhaustive()
    }
}
