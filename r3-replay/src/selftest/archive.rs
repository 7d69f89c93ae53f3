//! The archive that candidates are tried on, made here: six kernels with three launches each, whose results the host computes.

use std::path::Path;

use r3_archive::chunk::{CHUNK_SIZE, ChunkList};
use r3_archive::model::{
    AllocationId, AllocationKind, AllocationRecord, ChunkChange, DeviceRecord, ImageKind, KernelId,
    KernelRecord, KernelStatsRecord, LaunchId, LaunchRecord, LayoutSource, ModuleId, ModuleRecord,
    ParamLayout, PointerWord, ProcessRecord, RegionOwner, RegionSnapshot, ShapeCount, Snapshot,
    SnapshotDelta,
};
use r3_archive::{ArchiveWriter, WriteError, WriterOptions};

/// Launches of each kernel: all but the last decide, the last one is held out.
pub const LAUNCHES: u64 = 3;

/// Most elements of a buffer.
const MOST: usize = 3000;
/// Elements in the launches of each kernel.
const ELEMENTS: [usize; LAUNCHES as usize] = [MOST, MOST, 2500];
/// The scalar in the launches of each kernel.
const SCALARS: [f32; LAUNCHES as usize] = [0.75, 0.75, 0.6];
/// Columns of a row.
const COLUMNS: usize = 10;
/// Every so many-th flag is set.
const SET: usize = 97;
const BLOCK: u32 = 256;

/// Buffers begin inside a mapping, apart from its edges, and end inside one: there is room on both sides that is
/// nobody's.
const BASE: u64 = 0x7f10_0000_1000;
const APART: u64 = 64 << 20;

/// A parameter of a kernel.
enum Argument {
    Buffer(usize),
    Float(f32),
    Int(i32),
}

/// A launch as the host computes it: buffers before and after, and what it is given.
struct Computed {
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
    arguments: Vec<Argument>,
    threads: usize,
}

/// A kernel of the archive.
struct Target {
    name: &'static str,
    compute: fn(&Numbers, usize, f32) -> Computed,
}

const TARGETS: [Target; 6] = [
    Target {
        name: "scale_add",
        compute: scale_add,
    },
    Target {
        name: "smooth",
        compute: smooth,
    },
    Target {
        name: "row_sums",
        compute: row_sums,
    },
    Target {
        name: "gather",
        compute: gather,
    },
    Target {
        name: "mark",
        compute: mark,
    },
    Target {
        name: "divide",
        compute: divide,
    },
];

/// Numbers that depend on nothing but a seed.
struct Numbers(u64);

impl Numbers {
    fn bits(&self, stream: u64, index: usize) -> u32 {
        let mut random = r3_codegen::passes::Random::new(
            self.0 ^ stream.wrapping_mul(0x9E37_79B9) ^ ((index as u64) << 20),
        );
        (random.next() >> 32) as u32
    }

    /// Floats from `low` up to `high`.
    fn floats(&self, stream: u64, low: f32, high: f32) -> Vec<f32> {
        (0..MOST)
            .map(|i| low + (high - low) * ((self.bits(stream, i) >> 8) as f32 / 16_777_216.0))
            .collect()
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

impl Computed {
    /// Of a kernel that takes all its buffers, then `more`, and whose last buffer alone changes, to `last`.
    fn new(before: Vec<Vec<u8>>, last: Vec<u8>, more: Vec<Argument>, threads: usize) -> Self {
        let mut arguments: Vec<Argument> = (0..before.len()).map(Argument::Buffer).collect();
        arguments.extend(more);
        let mut after = before.clone();
        if let Some(changed) = after.last_mut() {
            *changed = last;
        }
        Self {
            before,
            after,
            arguments,
            threads,
        }
    }
}

fn scale_add(numbers: &Numbers, n: usize, a: f32) -> Computed {
    let x = numbers.floats(1, -1.0, 1.0);
    let y = numbers.floats(2, -1.0, 1.0);
    let mut after = y.clone();
    for (y, x) in after.iter_mut().zip(&x).take(n) {
        *y = a.mul_add(*x, *y);
    }
    Computed::new(
        vec![bytes(&x), bytes(&y)],
        bytes(&after),
        vec![Argument::Float(a), Argument::Int(n as i32)],
        n,
    )
}

fn smooth(numbers: &Numbers, n: usize, weight: f32) -> Computed {
    let input = numbers.floats(1, -1.0, 1.0);
    let out = numbers.floats(2, -1.0, 1.0);
    let mut after = out.clone();
    for (out, near) in after.iter_mut().skip(1).zip(input.windows(3)).take(n - 2) {
        if let [left, here, right] = near {
            *out = (left + here + right) * weight;
        }
    }
    Computed::new(
        vec![bytes(&input), bytes(&out)],
        bytes(&after),
        vec![Argument::Float(weight), Argument::Int(n as i32)],
        n,
    )
}

fn row_sums(numbers: &Numbers, n: usize, _: f32) -> Computed {
    let input = numbers.floats(1, -1.0, 1.0);
    let rows = n / COLUMNS;
    let out = numbers.floats(2, -1.0, 1.0);
    let out = out.get(..MOST / COLUMNS).unwrap_or_default().to_vec();
    let mut after = out.clone();
    for (out, row) in after.iter_mut().zip(input.chunks(COLUMNS)).take(rows) {
        // Fewer columns than threads: each thread has one, and then they are added in a tree.
        let mut part = [0.0f32; BLOCK as usize];
        for (part, value) in part.iter_mut().zip(row) {
            *part += *value;
        }
        let mut half = part.len() / 2;
        while half > 0 {
            let (low, high) = part.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high.iter()) {
                *low += *high;
            }
            half /= 2;
        }
        *out = part[0];
    }
    Computed::new(
        vec![bytes(&input), bytes(&out)],
        bytes(&after),
        vec![Argument::Int(COLUMNS as i32)],
        rows * BLOCK as usize,
    )
}

fn gather(numbers: &Numbers, n: usize, _: f32) -> Computed {
    let index: Vec<u32> = (0..MOST)
        .map(|i| numbers.bits(3, i) % MOST as u32)
        .collect();
    let table = numbers.floats(1, -1.0, 1.0);
    let out = numbers.floats(2, -1.0, 1.0);
    let mut after = out.clone();
    for (out, at) in after.iter_mut().zip(&index).take(n) {
        *out = table.get(*at as usize).copied().unwrap_or_default();
    }
    let index: Vec<u8> = index.iter().flat_map(|at| at.to_le_bytes()).collect();
    Computed::new(
        vec![index, bytes(&table), bytes(&out)],
        bytes(&after),
        vec![Argument::Int(n as i32)],
        n,
    )
}

fn mark(numbers: &Numbers, n: usize, threshold: f32) -> Computed {
    // The same flags are set in every launch, and were set before it but for a few.
    let input: Vec<f32> = numbers
        .floats(1, 0.001, 0.2)
        .iter()
        .enumerate()
        .map(|(i, away)| {
            if i % SET == 0 {
                threshold + away
            } else {
                threshold - away
            }
        })
        .collect();
    let after: Vec<u8> = (0..MOST).map(|i| u8::from(i % SET == 0)).collect();
    let before = after
        .iter()
        .enumerate()
        .map(|(i, flag)| if i % (SET * 7) == 0 { 1 - flag } else { *flag })
        .collect();
    let mut after = after;
    for (i, flag) in after.iter_mut().enumerate().skip(n) {
        *flag = u8::from(i % SET == 0 && i % (SET * 7) != 0);
    }
    Computed::new(
        vec![bytes(&input), before],
        after,
        vec![Argument::Float(threshold), Argument::Int(n as i32)],
        n,
    )
}

fn divide(numbers: &Numbers, n: usize, _: f32) -> Computed {
    let a = numbers.floats(1, -1.0, 1.0);
    let b = numbers.floats(2, 0.5, 4.0);
    let out = numbers.floats(3, -1.0, 1.0);
    let mut after = out.clone();
    for (out, (a, b)) in after.iter_mut().zip(a.iter().zip(&b)).take(n) {
        *out = a / b.sqrt();
    }
    Computed::new(
        vec![bytes(&a), bytes(&b), bytes(&out)],
        bytes(&after),
        vec![Argument::Int(n as i32)],
        n,
    )
}

/// The launches of a target: those that decide, and the one that is held out.
pub fn launches(target: &str) -> Option<(Vec<LaunchId>, LaunchId)> {
    let at = TARGETS.iter().position(|known| known.name == target)? as u64;
    let first = at * LAUNCHES + 1;
    let tuned = (first..first + LAUNCHES - 1).map(LaunchId).collect();
    Some((tuned, LaunchId(first + LAUNCHES - 1)))
}

/// Writes the archive.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, ptx: &str, sm: (i32, i32)) -> Result<(), WriteError> {
    let writer = ArchiveWriter::create(path, WriterOptions::default())?;
    about(&writer, ptx, sm)?;
    let mut allocations = 0;
    for (at, target) in TARGETS.iter().enumerate() {
        let kernel = KernelId(at as u64 + 1);
        let computed: Vec<Computed> = ELEMENTS
            .iter()
            .zip(SCALARS)
            .enumerate()
            .map(|(launch, (&n, scalar))| {
                (target.compute)(&Numbers((at * 10 + launch) as u64 + 1), n, scalar)
            })
            .collect();
        let buffers = allocate(&writer, &computed, &mut allocations)?;
        kernel_records(&writer, kernel, target.name, &computed)?;
        for (launch, computed) in computed.iter().enumerate() {
            let id = LaunchId(at as u64 * LAUNCHES + launch as u64 + 1);
            launch_record(&writer, id, kernel, launch as u64 + 1, computed, &buffers)?;
        }
    }
    writer.finish()
}

fn about(writer: &ArchiveWriter, ptx: &str, sm: (i32, i32)) -> Result<(), WriteError> {
    writer.append(&ProcessRecord {
        r3_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        host: String::new(),
        exe: "r3-replay".to_owned(),
        argv: vec!["r3-replay".to_owned(), "selftest".to_owned()],
        cwd: String::new(),
        rank: None,
        started_unix_ns: 0,
        driver_version: 0,
        driver_path: String::new(),
        environment: Vec::new(),
    })?;
    writer.append(&DeviceRecord {
        ordinal: 0,
        name: "computed by the host".to_owned(),
        uuid: [0; 16],
        compute_capability: sm,
        total_memory: 1 << 30,
        attributes: Vec::new(),
    })?;
    writer.append(&ModuleRecord {
        id: ModuleId(1),
        kind: ImageKind::Ptx,
        image: writer.put_bytes(ptx.as_bytes())?,
        loaded_by: "cuModuleLoadData".to_owned(),
        jit_options: Vec::new(),
        origin: None,
        source: None,
    })
}

/// The buffers of a kernel, the same ones in each launch: (allocation, address).
fn allocate(
    writer: &ArchiveWriter,
    computed: &[Computed],
    count: &mut u64,
) -> Result<Vec<(AllocationId, u64)>, WriteError> {
    let mut buffers = Vec::new();
    for contents in computed.iter().take(1).flat_map(|launch| &launch.before) {
        *count += 1;
        let allocation = AllocationRecord {
            id: AllocationId(*count),
            address: BASE + *count * APART,
            len: contents.len() as u64,
            kind: AllocationKind::Device,
            device: 0,
        };
        writer.append(&allocation)?;
        buffers.push((allocation.id, allocation.address));
    }
    Ok(buffers)
}

fn grid(computed: &Computed) -> [u32; 3] {
    [(computed.threads as u32).div_ceil(BLOCK), 1, 1]
}

fn kernel_records(
    writer: &ArchiveWriter,
    kernel: KernelId,
    name: &str,
    computed: &[Computed],
) -> Result<(), WriteError> {
    let mut params = Vec::new();
    let mut offset = 0u32;
    for argument in computed.iter().take(1).flat_map(|launch| &launch.arguments) {
        let size = match argument {
            Argument::Buffer(_) => 8,
            Argument::Float(_) | Argument::Int(_) => 4,
        };
        offset = offset.next_multiple_of(size);
        params.push(ParamLayout { offset, size });
        offset += size;
    }
    writer.append(&KernelRecord {
        id: kernel,
        module: Some(ModuleId(1)),
        name: name.to_owned(),
        params,
        layout: LayoutSource::Ptx,
        attributes: Vec::new(),
    })?;
    let shapes = computed
        .iter()
        .map(|launch| ShapeCount {
            grid: grid(launch),
            block: [BLOCK, 1, 1],
            dynamic_shared: 0,
            launches: 1,
            captured: 1,
        })
        .collect::<Vec<_>>();
    writer.append(&KernelStatsRecord {
        kernel,
        shapes: merged(shapes),
        skipped: Vec::new(),
    })
}

/// Counts of one shape are one count.
fn merged(shapes: Vec<ShapeCount>) -> Vec<ShapeCount> {
    let mut merged: Vec<ShapeCount> = Vec::new();
    for shape in shapes {
        match merged.iter_mut().find(|known| known.grid == shape.grid) {
            Some(known) => {
                known.launches += shape.launches;
                known.captured += shape.captured;
            }
            None => merged.push(shape),
        }
    }
    merged
}

fn launch_record(
    writer: &ArchiveWriter,
    id: LaunchId,
    kernel: KernelId,
    occurrence: u64,
    computed: &Computed,
    buffers: &[(AllocationId, u64)],
) -> Result<(), WriteError> {
    let mut params = Vec::new();
    let mut pointers = Vec::new();
    for argument in &computed.arguments {
        match argument {
            Argument::Buffer(at) => {
                params.resize(params.len().next_multiple_of(8), 0);
                let Some(&(allocation, address)) = buffers.get(*at) else {
                    continue;
                };
                pointers.push(PointerWord {
                    offset: params.len() as u32,
                    address,
                    allocation,
                });
                params.extend(address.to_le_bytes());
            }
            Argument::Float(value) => params.extend(value.to_le_bytes()),
            Argument::Int(value) => params.extend(value.to_le_bytes()),
        }
    }
    let mut regions = Vec::new();
    let mut changes = Vec::new();
    let sides = computed.before.iter().zip(&computed.after);
    for (region, ((before, after), &(allocation, address))) in sides.zip(buffers).enumerate() {
        let mut chunks = ChunkList::new();
        let pieces = before.chunks(CHUNK_SIZE).zip(after.chunks(CHUNK_SIZE));
        for (chunk, (before, after)) in pieces.enumerate() {
            chunks.push(writer.put_chunk(before)?);
            if before != after {
                changes.push(ChunkChange {
                    region: region as u32,
                    chunk: chunk as u64,
                    data: writer.put_chunk(after)?,
                });
            }
        }
        regions.push(RegionSnapshot {
            owner: RegionOwner::Allocation(allocation),
            address,
            len: before.len() as u64,
            chunks,
        });
    }
    writer.append(&LaunchRecord {
        id,
        kernel,
        device: 0,
        entry_point: "cuLaunchKernel".to_owned(),
        grid: grid(computed),
        block: [BLOCK, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        attributes: Vec::new(),
        params,
        pointers,
        function_settings: Vec::new(),
        cache_config: None,
        limits: Vec::new(),
        occurrence,
        sequence: id.0,
        thread: 1,
        unix_ns: 0,
        before: Snapshot { regions },
        after: SnapshotDelta { changes },
        notes: Vec::new(),
    })
}
