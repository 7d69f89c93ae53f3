//! What is written is read back, by the index and by a scan.

use r3_archive::{Archive, ArchiveWriter, ReadError, SalvageReason, chunk::*, model::*};

use crate::common::*;

#[test]
fn a_finished_archive_is_read_by_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    let launches = write_sample(&writer, 3);
    writer.finish().unwrap();
    writer.finish().unwrap();

    let archive = Archive::open(&path).unwrap();
    assert!(
        archive.salvaged().is_none(),
        "{}",
        archive.salvaged().unwrap()
    );
    check_sample(&archive, &launches);
    assert_eq!(archive.uuid(), writer.uuid());
    assert_eq!(archive.file_len(), writer.stored_bytes());
}

#[test]
fn an_unfinished_archive_is_read_by_a_scan() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    let launches = write_sample(&writer, 3);

    let archive = Archive::open(&path).unwrap();
    let salvage = archive.salvaged().unwrap();
    assert_eq!(salvage.reason, SalvageReason::NotFinished);
    assert_eq!((salvage.bytes_skipped, salvage.incomplete_blocks), (0, 0));
    assert!(salvage.damaged.is_empty() && salvage.dropped.is_empty());
    check_sample(&archive, &launches);
}

fn check_sample(archive: &Archive, launches: &[LaunchRecord]) {
    assert_eq!(archive.process(), &process());
    assert_eq!(archive.devices(), &[device(0, 1)]);
    assert_eq!(archive.launches(), launches);
    assert_eq!(archive.kernel(KernelId(1)), Some(&kernel(1, 1, "k")));
    assert_eq!(archive.kernel_stats().len(), 1);
    assert_eq!(archive.process_stats().launches, launches.len() as u64);
    let source = archive.source(SourceId(1)).unwrap();
    assert_eq!(
        archive.read_blob(&source.text).unwrap(),
        b"extern \"C\" __global__ void k() {}"
    );
    for launch in launches {
        let id = launch.id.0;
        let mut memory = noise(id, 100_000);
        assert_eq!(
            archive.region_before(launch, 0, 0..100_000).unwrap(),
            memory
        );
        memory[CHUNK_SIZE..].copy_from_slice(&noise(1000 + id, 100_000 - CHUNK_SIZE));
        assert_eq!(archive.region_after(launch, 0, 0..100_000).unwrap(), memory);
        assert_eq!(
            archive.region_after(launch, 0, 60_000..70_000).unwrap(),
            memory[60_000..70_000]
        );
        let mut part = vec![1; 70_000];
        archive.read_after(launch, 0, 30_000, &mut part).unwrap();
        assert_eq!(part, memory[30_000..]);
        assert_eq!(launch.chunk_after(0, 1), Some(launch.after.changes[0].data));
        assert_eq!(
            launch.chunk_after(0, 0),
            launch.before.regions[0].chunks.get(0)
        );
        assert_eq!(launch.chunk_after(0, 2), None);
        let beyond = archive.read_before(launch, 0, 30_001, &mut part);
        assert!(matches!(beyond, Err(ReadError::OutOfRegion { .. })));
        assert!(archive.region_before(launch, 1, 0..1).is_err());
        assert_eq!(archive.load_launch(launch.id).unwrap(), *launch);
    }
}

#[test]
fn a_submitted_buffer_gives_the_same_chunks_as_put_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(2)).unwrap();
    let mut bytes = noise(1, 5 << 20);
    bytes[1 << 20..2 << 20].fill(0);
    bytes.extend_from_slice(b"tail");
    let chunks = writer.submit(bytes.clone()).wait().unwrap();
    let blob = writer.put_bytes(&bytes).unwrap();
    assert_eq!(blob.chunks, chunks.into_iter().collect());
    assert!(writer.submit(Vec::new()).wait().unwrap().is_empty());
    writer.finish().unwrap();
    let archive = Archive::open(writer.path()).unwrap();
    assert_eq!(archive.read_blob(&blob).unwrap(), bytes);
}
