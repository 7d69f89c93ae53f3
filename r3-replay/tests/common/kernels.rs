//! An archive whose kernels run on the CPU device, each coming out differently.

use std::path::Path;

use r3_archive::chunk::ChunkList;
use r3_archive::model::*;
use r3_archive::{ArchiveWriter, WriterOptions};

/// Where the memory of the first launch was; that of the others is 1 MiB further each.
const FIRST: u64 = 0x7f12_3460_0000;

/// Kernels with one pointer argument; `%r0` is the thread in the grid.
const KERNELS: [(&str, &str); 5] = [
    (
        "increment",
        "mad.wide.u32 %rd1, %r0, 4, %rd0;\n\
         ld.global.u32 %r1, [%rd1];\n\
         add.u32 %r1, %r1, 1;\n\
         st.global.u32 [%rd1], %r1;",
    ),
    (
        "powers",
        "mad.wide.u32 %rd1, %r0, 4, %rd0;\n\
         ld.global.f32 %f1, [%rd1];\n\
         ex2.approx.ftz.f32 %f1, %f1;\n\
         st.global.f32 [%rd1], %f1;",
    ),
    (
        "behind",
        "mad.wide.u32 %rd1, %r0, 4, %rd0;\n\
         st.global.u32 [%rd1+4], %r0;",
    ),
    ("count", "atom.global.add.u32 %r1, [%rd0], 1;"),
    (
        "racy",
        "mov.u32 %r1, tile;\n\
         mad.lo.u32 %r2, %r8, 4, %r1;\n\
         st.shared.u32 [%r2], %r8;\n\
         xor.b32 %r3, %r8, 32;\n\
         mad.lo.u32 %r3, %r3, 4, %r1;\n\
         ld.shared.u32 %r4, [%r3];\n\
         mad.wide.u32 %rd1, %r0, 4, %rd0;\n\
         st.global.u32 [%rd1], %r8;",
    ),
];

/// The PTX of all of them.
pub fn ptx() -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_90\n.address_size 64\n.shared .align 4 .b8 tile[256];\n",
    );
    for (name, body) in KERNELS {
        text.push_str(&format!(
            ".visible .entry {name}(.param .u64 {name}_param_0)\n{{\n\
             .reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n\
             ld.param.u64 %rd0, [{name}_param_0];\n\
             mov.u32 %r6, %ctaid.x;\nmov.u32 %r7, %ntid.x;\nmov.u32 %r8, %tid.x;\n\
             mad.lo.s32 %r0, %r6, %r7, %r8;\n{body}\nret;\n}}\n"
        ));
    }
    text
}

/// A launch of 2 blocks of 64 threads: kernel, memory before and after.
type Launch = (&'static str, Vec<u8>, Vec<u8>);

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    words(values.into_iter().map(f32::to_bits))
}

fn launches() -> Vec<Launch> {
    let exponents = || (0..128u8).map(|n| f32::from(n % 16));
    let powers = || exponents().map(f32::exp2);
    let near = powers().enumerate().map(|(index, power)| match index {
        5 => power.next_up().next_up(),
        _ => power,
    });
    let mut wrong: Vec<u32> = (1..129).collect();
    wrong[100] = 0;
    vec![
        ("increment", words(0..128), words(1..129)),
        ("increment", words(0..128), words(wrong)),
        ("powers", floats(exponents()), floats(near)),
        ("behind", words([0; 128]), words(0..128)),
        ("count", words([0]), words([128])),
        ("racy", words([0; 128]), words((0..64).chain(0..64))),
        ("machine_code", words([0; 4]), words([1; 4])),
    ]
}

/// Writes `kernels.r3`, and `kernels.ptx` with the same PTX.
pub fn write(folder: &Path) {
    std::fs::write(folder.join("kernels.ptx"), ptx()).unwrap();
    let options = WriterOptions {
        workers: 0,
        ..WriterOptions::default()
    };
    let writer = ArchiveWriter::create(&folder.join("kernels.r3"), options).unwrap();
    let process = ProcessRecord {
        r3_version: "0.1.0".to_owned(),
        pid: 4711,
        host: "node1".to_owned(),
        exe: "/home/user/app".to_owned(),
        argv: vec!["./app".to_owned()],
        driver_version: 13000,
        ..ProcessRecord::default()
    };
    writer.append(&process).unwrap();
    let cubin = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../r3-image/tests/fixtures/saxpy-13.0-sm_90a.cubin"
    );
    for (id, kind, code) in [
        (1, ImageKind::Ptx, ptx().into_bytes()),
        (2, ImageKind::Cubin, std::fs::read(cubin).unwrap()),
    ] {
        let module = ModuleRecord {
            id: ModuleId(id),
            kind,
            image: writer.put_bytes(&code).unwrap(),
            loaded_by: "cuModuleLoadData".to_owned(),
            jit_options: Vec::new(),
            origin: None,
            source: None,
        };
        writer.append(&module).unwrap();
    }
    let names: Vec<&str> = KERNELS
        .iter()
        .map(|(name, _)| *name)
        .chain(["machine_code"])
        .collect();
    for (index, name) in names.iter().enumerate() {
        let kernel = KernelRecord {
            id: KernelId(index as u64 + 1),
            module: Some(ModuleId(if *name == "machine_code" { 2 } else { 1 })),
            name: (*name).to_owned(),
            params: vec![ParamLayout { offset: 0, size: 8 }],
            layout: LayoutSource::Ptx,
            attributes: Vec::new(),
        };
        writer.append(&kernel).unwrap();
    }
    for (index, (name, before, after)) in launches().into_iter().enumerate() {
        let kernel = names.iter().position(|known| *known == name).unwrap();
        launch(
            &writer,
            index as u64 + 1,
            kernel as u64 + 1,
            &before,
            &after,
        );
    }
    writer.finish().unwrap();
}

fn launch(writer: &ArchiveWriter, id: u64, kernel: u64, before: &[u8], after: &[u8]) {
    let address = FIRST + (id << 20);
    let allocation = AllocationRecord {
        id: AllocationId(id),
        address,
        len: before.len() as u64,
        kind: AllocationKind::Device,
        device: 0,
    };
    writer.append(&allocation).unwrap();
    let chunks: ChunkList = [writer.put_chunk(before).unwrap()].into_iter().collect();
    let record = LaunchRecord {
        id: LaunchId(id),
        kernel: KernelId(kernel),
        device: 0,
        entry_point: "cuLaunchKernel".to_owned(),
        grid: [2, 1, 1],
        block: [64, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        attributes: Vec::new(),
        params: address.to_le_bytes().to_vec(),
        pointers: vec![PointerWord {
            offset: 0,
            address,
            allocation: AllocationId(id),
        }],
        function_settings: Vec::new(),
        cache_config: None,
        limits: Vec::new(),
        occurrence: 1,
        sequence: id,
        thread: 4711,
        unix_ns: 0,
        before: Snapshot {
            regions: vec![RegionSnapshot {
                owner: RegionOwner::Allocation(AllocationId(id)),
                address,
                len: before.len() as u64,
                chunks,
            }],
        },
        after: SnapshotDelta {
            changes: vec![ChunkChange {
                region: 0,
                chunk: 0,
                data: writer.put_chunk(after).unwrap(),
            }],
        },
        notes: Vec::new(),
    };
    writer.append(&record).unwrap();
}
