//! Trim, merge, fsck.

use r3_archive::{Archive, ArchiveWriter, chunk::*, model::*, ops};

use crate::common::*;

/// Two kernels of two modules, a global, an allocation that only one launch uses.
fn write_two_kernels(path: &std::path::Path) -> Vec<LaunchRecord> {
    let writer = ArchiveWriter::create(path, options(0)).unwrap();
    let mut launches = write_sample(&writer, 3);
    let image = writer.put_bytes(&noise(500, 200_000)).unwrap();
    writer.append(&module(2, image, None)).unwrap();
    writer.append(&kernel(2, 2, "other")).unwrap();
    writer.append(&device(1, 2)).unwrap();
    writer.append(&allocation(9, 4 << 20)).unwrap();
    let memory = writer.put_bytes(&noise(900, 4 << 20)).unwrap();
    let mut record = launch(4, 2, &[(9, 4 << 20, memory.chunks)], vec![]);
    record.device = 1;
    let global = writer.put_bytes(b"global").unwrap();
    record.before.regions.push(RegionSnapshot {
        owner: RegionOwner::Global {
            module: ModuleId(2),
            name: "table".into(),
        },
        address: 0x7fff_0000_0000,
        len: 6,
        chunks: global.chunks,
    });
    writer.append(&record).unwrap();
    writer.finish().unwrap();
    launches.push(record);
    launches
}

#[test]
fn trim_keeps_what_the_chosen_launches_need_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.r3"), dir.path().join("b.r3"));
    let launches = write_two_kernels(&path);
    let archive = Archive::open(&path).unwrap();

    let written = ops::trim(&archive, |launch| launch.id == LaunchId(2), &out).unwrap();
    let small = Archive::open(&out).unwrap();
    assert!(small.salvaged().is_none());
    assert_eq!(small.launches(), &launches[1..2]);
    assert_eq!(small.kernels(), &archive.kernels()[..1]);
    assert_eq!(small.modules(), &archive.modules()[..1]);
    assert_eq!(small.sources(), archive.sources());
    assert_eq!(small.allocations(), [allocation(2, 100_000)]);
    assert_eq!(small.devices(), archive.devices());
    assert_eq!(small.process(), archive.process());
    assert_eq!(small.kernel_stats(), archive.kernel_stats());
    let memory = small.region_after(&launches[1], 0, 0..100_000).unwrap();
    assert_eq!(
        memory,
        archive.region_after(&launches[1], 0, 0..100_000).unwrap()
    );
    let report = ops::fsck(&out).unwrap();
    assert!(
        report.is_sound() && report.warnings == 0 && report.unused_chunks == 0,
        "{report}"
    );
    assert_eq!(
        (written.launches, written.kernels, written.modules),
        (1, 1, 1)
    );
    assert_eq!(written.bytes, small.file_len());
    assert!(small.file_len() < 250_000);

    // The module of a global and long chunk lists come along, too.
    let out = dir.path().join("c.r3");
    ops::trim(&archive, |launch| launch.kernel == KernelId(2), &out).unwrap();
    let report = ops::fsck(&out).unwrap();
    assert!(report.is_sound() && report.unused_chunks == 0, "{report}");
    assert_eq!(Archive::open(&out).unwrap().launches(), &launches[3..]);
}

#[test]
fn trim_of_nothing_writes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.r3"), dir.path().join("b.r3"));
    write_two_kernels(&path);
    let archive = Archive::open(&path).unwrap();
    let error = ops::trim(&archive, |_| false, &out).unwrap_err();
    assert!(matches!(error, ops::OpError::NothingSelected));
    assert!(!out.exists());
}

#[test]
fn trim_does_not_carry_damage_on() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("a.r3"), dir.path().join("b.r3"));
    let launches = write_two_kernels(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let id = launches[0].before.regions[0]
        .chunks
        .stored()
        .next()
        .unwrap()
        .1;
    let at = bytes.windows(16).position(|window| window == id.0).unwrap() - 32;
    bytes[at + 64 + 1000] ^= 1;
    let archive = Archive::from_bytes(bytes).unwrap();
    assert!(ops::trim(&archive, |launch| launch.id == LaunchId(1), &out).is_err());
    assert!(!out.exists(), "a broken file was left behind");
    ops::trim(&archive, |launch| launch.id == LaunchId(2), &out).unwrap();
}

#[test]
fn merge_renumbers_and_stores_equal_chunks_once() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, out) = (
        dir.path().join("a.r3"),
        dir.path().join("b.r3"),
        dir.path().join("out.r3"),
    );
    let launches = write_two_kernels(&a);
    // The same capture on another process, whose device 0 is another GPU.
    let writer = ArchiveWriter::create(&b, options(0)).unwrap();
    writer
        .append(&ProcessRecord {
            pid: 5,
            ..process()
        })
        .unwrap();
    writer.append(&device(0, 77)).unwrap();
    let image = writer.put_bytes(&noise(500, 200_000)).unwrap();
    writer.append(&module(1, image, None)).unwrap();
    writer.append(&kernel(1, 1, "other")).unwrap();
    writer.append(&allocation(1, 4 << 20)).unwrap();
    let memory = writer.put_bytes(&noise(900, 4 << 20)).unwrap();
    writer
        .append(&launch(1, 1, &[(1, 4 << 20, memory.chunks)], vec![]))
        .unwrap();
    writer
        .append(&ProcessStatsRecord {
            launches: 10,
            ..Default::default()
        })
        .unwrap();
    writer.finish().unwrap();

    let archives = [Archive::open(&a).unwrap(), Archive::open(&b).unwrap()];
    ops::merge(&archives, &out).unwrap();
    let report = ops::fsck(&out).unwrap();
    assert!(
        report.is_sound() && report.warnings == 0 && report.unused_chunks == 0,
        "{report}"
    );
    let merged = Archive::open(&out).unwrap();
    assert_eq!(merged.process(), archives[0].process());
    assert_eq!(merged.processes().len(), 2);
    assert_eq!(merged.launches().len(), launches.len() + 1);
    assert_eq!(merged.process_stats().launches, 13);
    // All of the second archive's memory was in the first.
    assert!(merged.file_len() < archives[0].file_len() + 8192);

    let last = merged.launches().last().unwrap();
    assert_eq!(last.id, LaunchId(5));
    let kernel = merged.kernel(last.kernel).unwrap();
    assert_eq!(kernel.name, "other");
    let image = merged.module(kernel.module.unwrap()).unwrap();
    assert_eq!(merged.read_blob(&image.image).unwrap(), noise(500, 200_000));
    let device = merged
        .devices()
        .iter()
        .find(|device| device.ordinal == last.device)
        .unwrap();
    assert_eq!(device.uuid, [77; 16]);
    assert_eq!(merged.devices().len(), 3);
    let region = &last.before.regions[0];
    let RegionOwner::Allocation(owner) = region.owner else {
        panic!()
    };
    let allocation = merged.allocation(owner).unwrap();
    assert_eq!(
        (allocation.address, allocation.device),
        (region.address, last.device)
    );
    assert_eq!(last.pointers[0].allocation, owner);
    assert_eq!(
        merged.region_before(last, 0, 0..4 << 20).unwrap(),
        noise(900, 4 << 20)
    );
    assert!(
        last.notes[0].contains("launch 1 of /home/u/app, process 5"),
        "{:?}",
        last.notes
    );
    // Twice the same archive is fine, too.
    let twice = dir.path().join("twice.r3");
    ops::merge(&[&archives[0], &archives[0]], &twice).unwrap();
    let report = ops::fsck(&twice).unwrap();
    assert!(report.is_sound(), "{report}");
}

#[test]
fn fsck_names_every_reference_that_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    writer.append(&device(0, 1)).unwrap();
    let lost = ChunkRef::Data(ChunkId([9; 16]));
    let image = Blob {
        len: 10,
        chunks: [lost].into_iter().collect(),
    };
    writer.append(&module(1, image, Some(4))).unwrap();
    writer.append(&kernel(1, 8, "k")).unwrap();
    writer.append(&kernel(1, 8, "k")).unwrap();
    let zeros = |count| {
        let mut list = ChunkList::new();
        list.push_zeros(count);
        list
    };
    let mut record = launch(1, 1, &[(1, 70_000, zeros(2)), (2, 10, zeros(1))], vec![]);
    record.device = 3;
    record.params = vec![0; 8];
    record.before.regions[1].address = record.before.regions[0].address;
    writer.append(&record).unwrap();
    // Launches that a reader drops.
    writer.append(&launch(2, 7, &[], vec![])).unwrap();
    writer
        .append(&launch(
            3,
            1,
            &[(1, 10, [lost].into_iter().collect())],
            vec![],
        ))
        .unwrap();
    let beyond = ChunkChange {
        region: 0,
        chunk: 1,
        data: ChunkRef::Zero,
    };
    writer
        .append(&launch(4, 1, &[(1, 10, zeros(1))], vec![beyond]))
        .unwrap();
    let change = |chunk| ChunkChange {
        region: 0,
        chunk,
        data: ChunkRef::Zero,
    };
    let region = (1, 70_000, zeros(2));
    writer
        .append(&launch(5, 1, &[region], vec![change(1), change(0)]))
        .unwrap();
    let stats = KernelStatsRecord {
        kernel: KernelId(30),
        shapes: vec![],
        skipped: vec![],
    };
    writer.append(&stats).unwrap();
    writer.finish().unwrap();
    let mut report = ops::fsck(&path).unwrap();
    report.path = "a.r3".into();
    let shown = report.to_string();
    // Offsets and sizes are another test's business.
    let findings: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{:?}: {}: {}",
                finding.severity, finding.what, finding.message
            )
        })
        .collect();
    insta::assert_snapshot!(findings.join("\n"));
    assert!(shown.ends_with(&format!("{} errors, 0 warnings", report.errors)));
}
