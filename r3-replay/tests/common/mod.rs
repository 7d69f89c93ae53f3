//! A small archive, written with the archive's own writer.

use r3_archive::chunk::{CHUNK_SIZE, ChunkList};
use r3_archive::model::*;
use r3_archive::{ArchiveWriter, WriterOptions};
use tempfile::TempDir;

pub const PTX: &str = "\
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.visible .entry _Z5saxpyfPKfPf(
\t.param .f32 _Z5saxpyfPKfPf_param_0,
\t.param .u64 _Z5saxpyfPKfPf_param_1,
\t.param .u64 _Z5saxpyfPKfPf_param_2
)
{
\tld.param.u64 %rd1, [_Z5saxpyfPKfPf_param_2];
\tst.global.f32 [%rd1], %f1;
\tret;
}
.visible .entry scale(.param .u64 scale_param_0)
{
\tcall.uni (retval0), vprintf, (param0, param1);
\tret;
}
";

pub const SOURCE: &str = "__global__ void saxpy(float a, const float *x, float *y);\n";

const X: u64 = 0x7f12_3460_0000;
const Y: u64 = 0x7f12_3460_0200;

/// A folder with `sample.r3`.
pub fn sample() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("sample.r3"));
    folder
}

/// Another process's archive, with the launches of `sample.r3`.
pub fn other_process(path: &std::path::Path) {
    write_as(path, 4712);
}

fn floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn write(path: &std::path::Path) {
    write_as(path, 4711);
}

fn write_as(path: &std::path::Path, pid: u32) {
    let options = WriterOptions {
        workers: 0,
        ..WriterOptions::default()
    };
    let writer = ArchiveWriter::create(path, options).unwrap();
    code(&writer, pid);
    memory(&writer);
    launches(&writer);
    statistics(&writer);
    writer.finish().unwrap();
}

fn code(writer: &ArchiveWriter, pid: u32) {
    let process = ProcessRecord {
        r3_version: "0.1.0".to_owned(),
        pid,
        host: "node1".to_owned(),
        exe: "/home/user/app".to_owned(),
        argv: vec!["./app".to_owned(), "--size=4".to_owned()],
        cwd: "/home/user".to_owned(),
        rank: Some(0),
        started_unix_ns: 1_700_000_000_000_000_000,
        driver_version: 13000,
        driver_path: "/usr/lib/libcuda.so.1".to_owned(),
        environment: Vec::new(),
    };
    writer.append(&process).unwrap();
    let device = DeviceRecord {
        ordinal: 0,
        name: "NVIDIA H200".to_owned(),
        uuid: [7; 16],
        compute_capability: (9, 0),
        total_memory: 141 << 30,
        attributes: Vec::new(),
    };
    writer.append(&device).unwrap();
    let source = SourceRecord {
        id: SourceId(1),
        compiler: "nvrtc 13.0".to_owned(),
        name: "saxpy.cu".to_owned(),
        text: writer.put_bytes(SOURCE.as_bytes()).unwrap(),
        headers: vec![(
            "../../etc/passwd".to_owned(),
            writer.put_bytes(b"header\n").unwrap(),
        )],
        options: vec!["--gpu-architecture=compute_80".to_owned()],
        name_expressions: Vec::new(),
    };
    writer.append(&source).unwrap();
    let module = ModuleRecord {
        id: ModuleId(1),
        kind: ImageKind::Ptx,
        image: writer.put_bytes(PTX.as_bytes()).unwrap(),
        loaded_by: "cuModuleLoadData".to_owned(),
        jit_options: Vec::new(),
        origin: None,
        source: Some(SourceId(1)),
    };
    writer.append(&module).unwrap();
    let param = |offset, size| ParamLayout { offset, size };
    let saxpy = KernelRecord {
        id: KernelId(1),
        module: Some(ModuleId(1)),
        name: "_Z5saxpyfPKfPf".to_owned(),
        params: vec![param(0, 4), param(8, 8), param(16, 8)],
        layout: LayoutSource::Driver,
        attributes: Vec::new(),
    };
    writer.append(&saxpy).unwrap();
    let scale = KernelRecord {
        id: KernelId(2),
        name: "scale".to_owned(),
        params: vec![param(0, 8)],
        layout: LayoutSource::Ptx,
        ..saxpy.clone()
    };
    writer.append(&scale).unwrap();
    let only_counted = KernelRecord {
        id: KernelId(3),
        module: None,
        name: "only_counted".to_owned(),
        params: Vec::new(),
        ..saxpy
    };
    writer.append(&only_counted).unwrap();
}

fn memory(writer: &ArchiveWriter) {
    for (id, address, len) in [(1, X, 16), (2, Y, 2 * CHUNK_SIZE as u64 + 16)] {
        let record = AllocationRecord {
            id: AllocationId(id),
            address,
            len,
            kind: AllocationKind::Device,
            device: 0,
        };
        writer.append(&record).unwrap();
    }
}

fn launches(writer: &ArchiveWriter) {
    let x = writer.put_chunk(&floats(&[1.0, 2.0, 3.0, 4.0])).unwrap();
    let y = writer.put_chunk(&floats(&[5.0, 6.0, 7.0, 8.0])).unwrap();
    let mut zeros = ChunkList::new();
    zeros.push_zeros(2);
    zeros.push(y);
    let region = |id, address, len, chunks| RegionSnapshot {
        owner: RegionOwner::Allocation(AllocationId(id)),
        address,
        len,
        chunks,
    };
    let mut params = 2f32.to_le_bytes().to_vec();
    params.extend([0; 4]);
    params.extend(X.to_le_bytes());
    params.extend(Y.to_le_bytes());
    let pointer = |offset, address, id| PointerWord {
        offset,
        address,
        allocation: AllocationId(id),
    };
    let first = LaunchRecord {
        id: LaunchId(1),
        kernel: KernelId(1),
        device: 0,
        entry_point: "cuLaunchKernel".to_owned(),
        grid: [2, 1, 1],
        block: [128, 1, 1],
        dynamic_shared: 1024,
        cooperative: false,
        attributes: Vec::new(),
        params,
        pointers: vec![pointer(8, X, 1), pointer(16, Y, 2)],
        function_settings: vec![(8, 49152), (9, 50)],
        cache_config: None,
        limits: vec![(0, 1024), (2, 8 << 20)],
        occurrence: 1,
        sequence: 1,
        thread: 4711,
        unix_ns: 1_700_000_001_000_000_000,
        before: Snapshot {
            regions: vec![
                region(1, X, 16, [x].into_iter().collect()),
                region(2, Y, 2 * CHUNK_SIZE as u64 + 16, zeros),
            ],
        },
        after: SnapshotDelta {
            changes: vec![ChunkChange {
                region: 1,
                chunk: 2,
                data: x,
            }],
        },
        notes: Vec::new(),
    };
    writer.append(&first).unwrap();
    let mut value = vec![0; 64];
    value[0] = 2;
    let second = LaunchRecord {
        id: LaunchId(2),
        attributes: vec![LaunchAttribute { id: 4, value }],
        occurrence: 2,
        sequence: 5,
        entry_point: "cuLaunchKernelEx".to_owned(),
        ..first.clone()
    };
    writer.append(&second).unwrap();
    let third = LaunchRecord {
        id: LaunchId(3),
        kernel: KernelId(2),
        grid: [4, 4, 2],
        block: [16, 16, 1],
        dynamic_shared: 0,
        cooperative: true,
        params: X.to_le_bytes().to_vec(),
        pointers: vec![pointer(0, X, 1)],
        before: Snapshot {
            regions: vec![region(1, X, 16, [x].into_iter().collect())],
        },
        after: SnapshotDelta::default(),
        notes: vec!["a pointer leads to memory that could not be saved".to_owned()],
        ..first
    };
    writer.append(&third).unwrap();
}

fn statistics(writer: &ArchiveWriter) {
    let shape = |grid, launches, captured| ShapeCount {
        grid,
        block: [128, 1, 1],
        dynamic_shared: 1024,
        launches,
        captured,
    };
    let stats = KernelStatsRecord {
        kernel: KernelId(1),
        shapes: vec![shape([1, 1, 1], 3, 0), shape([2, 1, 1], 40, 2)],
        skipped: vec![SkipCount {
            reason: "the archive reached its budget".to_owned(),
            launches: 4,
        }],
    };
    writer.append(&stats).unwrap();
    let only_counted = KernelStatsRecord {
        kernel: KernelId(3),
        shapes: vec![shape([1, 1, 1], 2, 0)],
        skipped: Vec::new(),
    };
    writer.append(&only_counted).unwrap();
    let process = ProcessStatsRecord {
        launches: 60,
        captured: 3,
        launches_into_graphs: 16,
        graph_launches: 100,
        snapshot_bytes: 1 << 20,
        messages: vec!["the budget of 8 GiB was reached".to_owned()],
    };
    writer.append(&process).unwrap();
}
