//! The records of an archive: what was captured, in fixed-width types.
//!
//! Everything here is plain data. Identifiers are unique within one archive and
//! carry no meaning beyond it. Addresses are device virtual addresses of the
//! captured process; lengths are in bytes.

use serde::{Deserialize, Serialize};

use crate::chunk::{Blob, ChunkList, ChunkRef};

mod tuned;

pub use tuned::*;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub struct $name(pub u64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A loaded device-code image (a `CUmodule` or a `CUlibrary`).
    ModuleId
);
id!(
    /// A kernel: one entry function of one module.
    KernelId
);
id!(
    /// One contiguous range of device-visible memory.
    AllocationId
);
id!(
    /// A recorded launch. Ascending in the order in which launches were recorded.
    LaunchId
);
id!(
    /// Source text that was compiled at run time.
    SourceId
);
id!(
    /// Code that was attached after the capture. Ascending in the order in which it was attached.
    AttachmentId
);
id!(
    /// A tuned kernel. Ascending in the order in which they were written.
    TunedId
);

/// The captured process. Written first, once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Version of R3 that wrote the archive.
    pub r3_version: String,
    /// Process id on the capturing host.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// Path of the executable.
    pub exe: String,
    /// Command line, argument 0 included.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Rank given by the MPI, Slurm or Flux launcher, if any.
    pub rank: Option<u32>,
    /// Start of the capture, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// `cuDriverGetVersion`, e.g. 13000.
    pub driver_version: i32,
    /// File from which the driver library was loaded.
    pub driver_path: String,
    /// `CUDA_*` and `R3_*` variables of the process; nothing else of its environment.
    pub environment: Vec<(String, String)>,
}

/// A GPU on which something was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// Device ordinal in the captured process.
    pub ordinal: i32,
    /// `cuDeviceGetName`.
    pub name: String,
    /// `cuDeviceGetUuid_v2`.
    pub uuid: [u8; 16],
    /// Compute capability, e.g. (9, 0).
    pub compute_capability: (i32, i32),
    /// Device memory in bytes.
    pub total_memory: u64,
    /// `CUdevice_attribute` numbers with their values.
    pub attributes: Vec<(i32, i32)>,
}

/// What kind of bytes a module was loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageKind {
    /// One or more fatbin containers (magic `0xBA55ED50`), one after the other.
    Fatbin,
    /// A cubin: an ELF file for one architecture.
    Cubin,
    /// PTX text, without the terminating NUL.
    Ptx,
    /// Something else, kept as it was.
    Unknown,
}

/// A device-code image as the application loaded it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModuleRecord {
    /// Identifier.
    pub id: ModuleId,
    /// Kind of `image`.
    pub kind: ImageKind,
    /// The image.
    pub image: Blob,
    /// Driver entry point that loaded it, e.g. `cuLibraryLoadData`.
    pub loaded_by: String,
    /// `CUjit_option` numbers and values given by the application (pointers as integers).
    pub jit_options: Vec<(u32, u64)>,
    /// ELF file in which the image lies, when it is part of a loaded program or library.
    pub origin: Option<String>,
    /// The run-time compiled source from which this image came.
    pub source: Option<SourceId>,
}

/// Source text that a run-time compiler (NVRTC) turned into an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Identifier.
    pub id: SourceId,
    /// Compiler, e.g. `nvrtc 13.0`.
    pub compiler: String,
    /// Program name given to `nvrtcCreateProgram`.
    pub name: String,
    /// The source text.
    pub text: Blob,
    /// Headers given by name and content.
    pub headers: Vec<(String, Blob)>,
    /// Compiler options.
    pub options: Vec<String>,
    /// Name expressions and their lowered names.
    pub name_expressions: Vec<(String, String)>,
}

/// Offset and size of one kernel parameter in the parameter buffer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ParamLayout {
    /// Offset in the buffer.
    pub offset: u32,
    /// Size.
    pub size: u32,
}

/// Where a parameter layout was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LayoutSource {
    /// `cuFuncGetParamInfo` or `cuKernelGetParamInfo`.
    Driver,
    /// `.nv.info` of the cubin.
    Cubin,
    /// `.param` declarations of the PTX text.
    Ptx,
    /// Not known: the application gave one buffer (`extra`), kept whole.
    Buffer,
}

/// A kernel of which at least one launch was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// Identifier.
    pub id: KernelId,
    /// Its module; `None` when the load was not seen.
    pub module: Option<ModuleId>,
    /// Name of the entry function (mangled).
    pub name: String,
    /// Parameters in order.
    pub params: Vec<ParamLayout>,
    /// Where `params` comes from.
    pub layout: LayoutSource,
    /// `CUfunction_attribute` numbers with their values, at the first captured launch.
    pub attributes: Vec<(i32, i32)>,
}

/// A form of device code that the application did not load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AttachedForm {
    /// PTX text.
    Ptx,
    /// LLVM bitcode.
    Bitcode,
    /// LLVM IR as text.
    Llvm,
    /// NVIDIA's LTO-IR.
    LtoIr,
    /// CUDA C++. Files that it includes are not kept.
    Source,
}

/// Attached code in one form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttachedCode {
    /// Which one.
    pub form: AttachedForm,
    /// The code. PTX has no terminating NUL.
    pub code: Blob,
}

/// A kernel for which attached code can stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedKernel {
    /// The kernel.
    pub kernel: KernelId,
    /// Its name in the attached code, other than PTX, which has the captured name. Another one than the captured name
    /// where compilers make names up, as for unnamed namespaces.
    pub name: String,
    /// Launches that the code was replayed on before it was accepted: each left the recorded memory, or memory within
    /// the tolerance. Empty when that was not asked for.
    pub verified: Vec<LaunchId>,
    /// Launches among these that were not the same bit for bit.
    pub within: Vec<LaunchId>,
}

/// How attached code was made from source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedBuild {
    /// Compiler and its version, e.g. `nvcc 13.0.88`.
    pub compiler: String,
    /// What was run, or the options that a compiler in a library was given.
    pub command: Vec<String>,
    /// Folder in which that was.
    pub directory: String,
}

/// Code that was attached to kernels after the capture, in addition to what the application loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttachmentRecord {
    /// Identifier. Of several attachments of a kernel the one with the highest holds.
    pub id: AttachmentId,
    /// The kernels that it is for.
    pub kernels: Vec<AttachedKernel>,
    /// The code: PTX, which is what runs, then what that was made from.
    pub forms: Vec<AttachedCode>,
    /// The file that was given.
    pub file: String,
    /// 128-bit xxh3 of that file, little endian.
    pub file_hash: [u8; 16],
    /// The recorded source that was compiled, where it was one.
    pub source: Option<SourceId>,
    /// How it was compiled. `None` for code that was given as it is.
    pub build: Option<AttachedBuild>,
    /// Device on which it was verified; empty when it was not.
    pub device: String,
    /// Version of R3 that attached it.
    pub r3_version: String,
    /// When, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}

impl AttachmentRecord {
    /// The code in one form.
    pub fn code(&self, form: AttachedForm) -> Option<&Blob> {
        let found = self.forms.iter().find(|code| code.form == form)?;
        Some(&found.code)
    }

    /// What is said of one kernel.
    pub fn kernel(&self, kernel: KernelId) -> Option<&AttachedKernel> {
        self.kernels.iter().find(|entry| entry.kernel == kernel)
    }
}

/// How a range of memory came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AllocationKind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocPitch`.
    Pitched,
    /// `cuMemAllocAsync`, `cuMemAllocFromPoolAsync`.
    Async,
    /// `cuMemMap` of a `cuMemCreate` handle.
    Mapped,
    /// `cuMemAllocManaged`.
    Managed,
    /// `cuMemAllocHost`, `cuMemHostAlloc`: pinned host memory.
    Host,
    /// `cuMemHostRegister`: the application's own host memory, registered.
    HostRegistered,
    /// `cuIpcOpenMemHandle`: memory of another process.
    Ipc,
    /// `cuExternalMemoryGetMappedBuffer`.
    External,
    /// Not seen at allocation; the driver named the range when asked about a pointer.
    Foreign,
}

/// A range of memory that some launch could reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllocationRecord {
    /// Identifier.
    pub id: AllocationId,
    /// Device address.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// How it was allocated.
    pub kind: AllocationKind,
    /// Ordinal of the device that holds it; -1 for host memory.
    pub device: i32,
}

/// What a region of memory belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegionOwner {
    /// An allocation. The region covers it from its start.
    Allocation(AllocationId),
    /// A `__device__`, `__constant__` or `__managed__` variable of a module.
    Global {
        /// The module.
        module: ModuleId,
        /// The variable's name (mangled).
        name: String,
    },
}

/// The bytes of one region at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionSnapshot {
    /// What the region belongs to.
    pub owner: RegionOwner,
    /// Device address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// The bytes, in chunks of [`CHUNK_SIZE`](crate::chunk::CHUNK_SIZE); the last one may be shorter.
    pub chunks: ChunkList,
}

/// All memory that was saved before a launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Regions, disjoint, ascending by address.
    pub regions: Vec<RegionSnapshot>,
}

/// One chunk that a launch changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkChange {
    /// Index into [`Snapshot::regions`].
    pub region: u32,
    /// Index of the chunk in the region.
    pub chunk: u64,
    /// Its bytes after the launch.
    pub data: ChunkRef,
}

/// What a launch changed: the chunks that differ from the snapshot before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotDelta {
    /// Changed chunks, ascending by region and chunk.
    pub changes: Vec<ChunkChange>,
}

/// A launch attribute (`CUlaunchAttribute`) as given by the application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`.
    pub id: u32,
    /// The 64 bytes of `CUlaunchAttributeValue`.
    pub value: Vec<u8>,
}

/// An aligned 8-byte word of the parameter buffer that points into recorded memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerWord {
    /// Offset of the word in the parameter buffer.
    pub offset: u32,
    /// The word.
    pub address: u64,
    /// The allocation it points into.
    pub allocation: AllocationId,
}

/// One recorded launch, with the memory before and after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Identifier.
    pub id: LaunchId,
    /// The kernel.
    pub kernel: KernelId,
    /// Ordinal of the device.
    pub device: i32,
    /// Driver entry point, e.g. `cuLaunchKernelEx`.
    pub entry_point: String,
    /// Grid dimensions in blocks (x, y, z).
    pub grid: [u32; 3],
    /// Block dimensions in threads (x, y, z).
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub dynamic_shared: u32,
    /// Launched cooperatively.
    pub cooperative: bool,
    /// Launch attributes other than cooperative.
    pub attributes: Vec<LaunchAttribute>,
    /// The parameter buffer.
    pub params: Vec<u8>,
    /// Words of `params` that point into recorded memory.
    pub pointers: Vec<PointerWord>,
    /// `CUfunction_attribute` numbers that the application can set, with their values at this launch.
    pub function_settings: Vec<(i32, i32)>,
    /// `CUfunc_cache` given by `cuFuncSetCacheConfig`, if the application called it.
    pub cache_config: Option<u32>,
    /// `CUlimit` numbers with the context's values, in bytes.
    pub limits: Vec<(u32, u64)>,
    /// 1 for the first launch of this kernel with this grid, block and shared size, and so on.
    pub occurrence: u64,
    /// 1 for the first launch seen in the process, and so on, recorded or not.
    pub sequence: u64,
    /// Kernel thread id of the launching thread.
    pub thread: u64,
    /// Time of the launch, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Memory before the launch.
    pub before: Snapshot,
    /// What changed.
    pub after: SnapshotDelta,
    /// What a replay should know, e.g. pointers into memory that could not be saved.
    pub notes: Vec<String>,
}

impl LaunchRecord {
    /// The changes of one region.
    pub fn changes_of(&self, region: usize) -> &[ChunkChange] {
        let changes = &self.after.changes;
        let start = changes.partition_point(|change| (change.region as usize) < region);
        let rest = changes.get(start..).unwrap_or_default();
        let len = rest.partition_point(|change| change.region as usize == region);
        rest.get(..len).unwrap_or_default()
    }

    /// One chunk of a region after the launch. `None` when there is no such chunk.
    pub fn chunk_after(&self, region: usize, chunk: u64) -> Option<ChunkRef> {
        let before = self.before.regions.get(region)?.chunks.get(chunk)?;
        let changes = self.changes_of(region);
        let change = changes
            .binary_search_by_key(&chunk, |change| change.chunk)
            .ok();
        Some(
            change
                .and_then(|at| changes.get(at))
                .map_or(before, |change| change.data),
        )
    }
}

/// How often a kernel was launched with one shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeCount {
    /// Grid dimensions in blocks.
    pub grid: [u32; 3],
    /// Block dimensions in threads.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub dynamic_shared: u32,
    /// Launches seen.
    pub launches: u64,
    /// Launches recorded.
    pub captured: u64,
}

/// Why launches that were selected were not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipCount {
    /// Reason, for people.
    pub reason: String,
    /// How many launches.
    pub launches: u64,
}

/// Launch counts of one kernel. Written again as counts grow: the last one holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelStatsRecord {
    /// The kernel.
    pub kernel: KernelId,
    /// Counts by shape.
    pub shapes: Vec<ShapeCount>,
    /// Selected launches that were not recorded, by reason.
    pub skipped: Vec<SkipCount>,
}

/// Work that was seen and is not in the archive. Written again as counts grow: the last one holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatsRecord {
    /// Launches seen, on capturing streams included.
    pub launches: u64,
    /// Launches recorded.
    pub captured: u64,
    /// Launches that went into a stream capture and run later as graph nodes.
    pub launches_into_graphs: u64,
    /// `cuGraphLaunch` calls.
    pub graph_launches: u64,
    /// Raw bytes of memory that were read for snapshots.
    pub snapshot_bytes: u64,
    /// Messages about what could not be recorded.
    pub messages: Vec<String>,
}
