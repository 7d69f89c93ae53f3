//! What the tests of this crate share: made-up records and memory.
#![allow(dead_code, reason = "each test binary uses a part")]

use r3_archive::{ArchiveWriter, WriterOptions, chunk::*, model::*};

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    out.truncate(len);
    out
}

/// Bytes that compress well.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 32);
    let mut line = seed;
    while out.len() < len {
        out.extend_from_slice(format!("line {line} of some text\n").as_bytes());
        line += 1;
    }
    out.truncate(len);
    out
}

pub fn options(workers: usize) -> WriterOptions {
    WriterOptions {
        workers,
        ..WriterOptions::default()
    }
}

pub fn process() -> ProcessRecord {
    ProcessRecord {
        r3_version: "0.1.0".into(),
        pid: 4711,
        host: "node1".into(),
        exe: "/home/u/app".into(),
        argv: vec!["app".into(), "-n".into()],
        cwd: "/home/u".into(),
        rank: Some(3),
        started_unix_ns: 1_700_000_000_000_000_000,
        driver_version: 13000,
        driver_path: "/usr/lib/libcuda.so.1".into(),
        environment: vec![("CUDA_VISIBLE_DEVICES".into(), "0".into())],
    }
}

pub fn device(ordinal: i32, uuid: u8) -> DeviceRecord {
    DeviceRecord {
        ordinal,
        name: "NVIDIA H200".into(),
        uuid: [uuid; 16],
        compute_capability: (9, 0),
        total_memory: 150 << 30,
        attributes: vec![(1, 1024)],
    }
}

pub fn module(id: u64, image: Blob, source: Option<u64>) -> ModuleRecord {
    ModuleRecord {
        id: ModuleId(id),
        kind: ImageKind::Ptx,
        image,
        loaded_by: "cuModuleLoadData".into(),
        jit_options: vec![(0, 64)],
        origin: None,
        source: source.map(SourceId),
    }
}

pub fn source(id: u64, text: Blob) -> SourceRecord {
    SourceRecord {
        id: SourceId(id),
        compiler: "nvrtc 13.0".into(),
        name: "k.cu".into(),
        text,
        headers: vec![],
        options: vec!["-arch=sm_90".into()],
        name_expressions: vec![("k<float>".into(), "_Z1kIfE".into())],
    }
}

pub fn kernel(id: u64, module: u64, name: &str) -> KernelRecord {
    KernelRecord {
        id: KernelId(id),
        module: Some(ModuleId(module)),
        name: name.into(),
        params: vec![ParamLayout { offset: 0, size: 8 }],
        layout: LayoutSource::Driver,
        attributes: vec![(4, 32)],
    }
}

pub fn allocation(id: u64, len: u64) -> AllocationRecord {
    AllocationRecord {
        id: AllocationId(id),
        address: 0x7f00_0000_0000 + (id << 32),
        len,
        kind: AllocationKind::Device,
        device: 0,
    }
}

/// A launch over whole allocations: (allocation, length, chunks), and what changed.
pub fn launch(
    id: u64,
    kernel: u64,
    regions: &[(u64, u64, ChunkList)],
    changes: Vec<ChunkChange>,
) -> LaunchRecord {
    let address = |allocation: u64| 0x7f00_0000_0000 + (allocation << 32);
    LaunchRecord {
        id: LaunchId(id),
        kernel: KernelId(kernel),
        device: 0,
        entry_point: "cuLaunchKernel".into(),
        grid: [64, 1, 1],
        block: [256, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        attributes: vec![LaunchAttribute {
            id: 4,
            value: vec![1; 64],
        }],
        params: address(regions.first().map_or(0, |r| r.0))
            .to_le_bytes()
            .to_vec(),
        pointers: regions
            .iter()
            .take(1)
            .map(|r| PointerWord {
                offset: 0,
                address: address(r.0),
                allocation: AllocationId(r.0),
            })
            .collect(),
        function_settings: vec![],
        cache_config: None,
        limits: vec![(0, 1024)],
        occurrence: id,
        sequence: id,
        thread: 4711,
        unix_ns: 1_700_000_000_000_000_000 + id,
        before: Snapshot {
            regions: regions
                .iter()
                .map(|(allocation, len, chunks)| RegionSnapshot {
                    owner: RegionOwner::Allocation(AllocationId(*allocation)),
                    address: address(*allocation),
                    len: *len,
                    chunks: chunks.clone(),
                })
                .collect(),
        },
        after: SnapshotDelta { changes },
        notes: vec![],
    }
}

/// Writes a small archive with `launches` launches, each on its own memory, and returns the
/// launches. The launch `i` has one region of 100,000 bytes of noise and changes its last chunk.
pub fn write_sample(writer: &ArchiveWriter, launches: u64) -> Vec<LaunchRecord> {
    writer.append(&process()).unwrap();
    writer.append(&device(0, 1)).unwrap();
    let text = writer
        .put_bytes(b"extern \"C\" __global__ void k() {}")
        .unwrap();
    writer.append(&source(1, text)).unwrap();
    let image = writer.put_bytes(&text_ptx()).unwrap();
    writer.append(&module(1, image, Some(1))).unwrap();
    writer.append(&kernel(1, 1, "k")).unwrap();
    let mut written = Vec::new();
    for id in 1..=launches {
        writer.append(&allocation(id, 100_000)).unwrap();
        let memory = writer.put_bytes(&noise(id, 100_000)).unwrap();
        let after = writer
            .put_chunk(&noise(1000 + id, 100_000 - CHUNK_SIZE))
            .unwrap();
        let change = ChunkChange {
            region: 0,
            chunk: 1,
            data: after,
        };
        let record = launch(id, 1, &[(id, 100_000, memory.chunks)], vec![change]);
        writer.append(&record).unwrap();
        written.push(record);
    }
    writer
        .append(&KernelStatsRecord {
            kernel: KernelId(1),
            shapes: vec![ShapeCount {
                grid: [64, 1, 1],
                block: [256, 1, 1],
                dynamic_shared: 0,
                launches,
                captured: launches,
            }],
            skipped: vec![],
        })
        .unwrap();
    writer
        .append(&ProcessStatsRecord {
            launches,
            captured: launches,
            ..Default::default()
        })
        .unwrap();
    written
}

fn text_ptx() -> Vec<u8> {
    text(0, 3000)
}
