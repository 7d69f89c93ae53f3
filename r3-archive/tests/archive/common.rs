//! What the tests share: made-up records and memory.

use r3_archive::{Archive, ArchiveWriter, ReadError, WriterOptions, chunk::*, model::*};

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

/// Length of the one region of each launch of [`write_sample`].
pub const SAMPLE_LEN: u64 = 100_000;

/// Writes a small archive with `launches` launches, each on its own memory, and returns the
/// launches. Each has one region of [`SAMPLE_LEN`] bytes of noise and changes its last chunk.
pub fn write_sample(writer: &ArchiveWriter, launches: u64) -> Vec<LaunchRecord> {
    write_sample_of(writer, launches, SAMPLE_LEN)
}

/// The same with regions of another length.
pub fn write_sample_of(writer: &ArchiveWriter, launches: u64, len: u64) -> Vec<LaunchRecord> {
    writer.append(&process()).unwrap();
    writer.append(&device(0, 1)).unwrap();
    let text = writer
        .put_bytes(b"extern \"C\" __global__ void k() {}")
        .unwrap();
    writer.append(&source(1, text)).unwrap();
    let image = writer.put_bytes(&text_ptx()).unwrap();
    writer.append(&module(1, image, Some(1))).unwrap();
    writer.append(&kernel(1, 1, "k")).unwrap();
    let last = (len - 1) / CHUNK_SIZE as u64;
    let last_len = len as usize - last as usize * CHUNK_SIZE;
    let mut written = Vec::new();
    for id in 1..=launches {
        writer.append(&allocation(id, len)).unwrap();
        let memory = writer.put_bytes(&noise(id, len as usize)).unwrap();
        let after = writer.put_chunk(&noise(1000 + id, last_len)).unwrap();
        let change = ChunkChange {
            region: 0,
            chunk: last,
            data: after,
        };
        let record = launch(id, 1, &[(id, len, memory.chunks)], vec![change]);
        writer.append(&record).unwrap();
        written.push(record);
    }
    let count = ShapeCount {
        grid: [64, 1, 1],
        block: [256, 1, 1],
        dynamic_shared: 0,
        launches,
        captured: launches,
    };
    let stats = KernelStatsRecord {
        kernel: KernelId(1),
        shapes: vec![count],
        skipped: vec![],
    };
    writer.append(&stats).unwrap();
    let stats = ProcessStatsRecord {
        launches,
        captured: launches,
        ..Default::default()
    };
    writer.append(&stats).unwrap();
    written
}

fn text_ptx() -> Vec<u8> {
    text(0, 3000)
}

/// A finished archive like that of [`write_sample`] with smaller regions, as bytes.
pub fn sample_bytes(launches: u64) -> (Vec<u8>, Vec<LaunchRecord>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    let written = write_sample_of(&writer, launches, 5000);
    writer.finish().unwrap();
    (std::fs::read(path).unwrap(), written)
}

/// Reads everything that an archive offers, as a tool would.
pub fn read_all(archive: &Archive) -> Vec<ReadError> {
    let mut errors = Vec::new();
    let mut note = |result: Result<Vec<u8>, ReadError>| errors.extend(result.err());
    for module in archive.modules() {
        note(archive.read_blob(&module.image));
    }
    for source in archive.sources() {
        note(archive.read_blob(&source.text));
        source
            .headers
            .iter()
            .for_each(|(_, text)| note(archive.read_blob(text)));
    }
    for launch in archive.launches() {
        for (index, region) in launch.before.regions.iter().enumerate() {
            note(archive.region_before(launch, index, 0..region.len.min(1 << 24)));
            note(archive.region_after(launch, index, 0..region.len.min(1 << 24)));
        }
    }
    errors
}

/// Runs one ignored test of this binary in a process of its own.
pub fn child(test: &str, dir: &std::path::Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("R3_TEST_DIR", dir);
    command
}

/// The directory given to this process by [`child`]; `None` when it was started in another way.
pub fn child_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("R3_TEST_DIR").map(Into::into)
}
