//! Damaged files: what is not damaged is read, what is lost is named, and nothing panics.

use std::collections::BTreeSet;

use r3_archive::{
    Archive, ArchiveWriter, Limits, ReadError, SalvageReason, chunk::*, format::*, model::*, ops,
};

use crate::common::*;

/// Offset and header of every block.
fn blocks(bytes: &[u8]) -> Vec<(usize, BlockHeader)> {
    let mut found = Vec::new();
    let mut offset = BLOCKS_START as usize;
    while let Some(header) = bytes.get(offset..offset + HEADER_LEN) {
        let header = BlockHeader::parse(header.try_into().unwrap()).unwrap();
        found.push((offset, header));
        offset += header.block_len().unwrap() as usize;
    }
    assert_eq!(offset, bytes.len());
    found
}

/// Opens damaged bytes, reads everything and checks them. What can be read must be right.
fn survivors(bytes: Vec<u8>, launches: &[LaunchRecord]) -> BTreeSet<u64> {
    let archive = match Archive::from_bytes(bytes) {
        Ok(archive) => archive,
        Err(ReadError::NotAnArchive { .. }) => return BTreeSet::new(),
        Err(error) => panic!("{error}"),
    };
    read_all(&archive);
    ops::check(&archive).unwrap();
    for launch in archive.launches() {
        assert!(
            launches.contains(launch),
            "a launch that was never written: {launch:?}"
        );
    }
    archive
        .launches()
        .iter()
        .map(|launch| launch.id.0)
        .collect()
}

#[test]
fn a_cut_file_keeps_every_launch_that_lies_before_the_cut() {
    let (bytes, launches) = sample_bytes(4);
    let blocks = blocks(&bytes);
    let mut cuts: Vec<usize> = blocks
        .iter()
        .flat_map(|(at, _)| [*at, *at + 1, *at + HEADER_LEN])
        .collect();
    let mut random = noise(7, 8 * 200).into_iter();
    cuts.extend((0..200).map(|_| {
        let word: Vec<u8> = random.by_ref().take(8).collect();
        u64::from_le_bytes(word.try_into().unwrap()) as usize % bytes.len()
    }));
    for cut in cuts {
        let whole = |(at, header): &&(usize, BlockHeader)| {
            header.kind == Kind::LAUNCH && at + header.block_len().unwrap() as usize <= cut
        };
        let expected = blocks.iter().filter(whole).count() as u64;
        let found = survivors(bytes[..cut].to_vec(), &launches);
        assert_eq!(found, (1..=expected).collect(), "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_costs_at_most_the_block_it_is_in() {
    let (bytes, launches) = sample_bytes(4);
    let blocks = blocks(&bytes);
    let mut places: Vec<usize> = (0..256).chain(blocks.iter().map(|(at, _)| *at)).collect();
    places.extend(blocks.iter().flat_map(|(at, _)| *at..*at + HEADER_LEN));
    places.extend(
        noise(9, 4 * 400)
            .chunks(4)
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()) as usize % bytes.len()),
    );
    for (n, place) in places.into_iter().enumerate() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (n % 8);
        let found = survivors(damaged, &launches);
        let hit = blocks
            .iter()
            .rev()
            .find(|(at, _)| *at <= place)
            .map_or(Kind::INDEX, |(_, header)| header.kind);
        let least = match hit {
            Kind::KERNEL => 0,
            Kind::LAUNCH | Kind::CHUNK => 3,
            _ => 4,
        };
        assert!(
            found.len() >= least,
            "{} launches left, bit of byte {place}",
            found.len()
        );
    }
}

#[test]
fn a_damaged_launch_is_dropped_and_named_with_and_without_the_index() {
    let (bytes, _) = sample_bytes(3);
    let blocks = blocks(&bytes);
    let (at, header) = blocks
        .iter()
        .filter(|(_, h)| h.kind == Kind::LAUNCH)
        .nth(1)
        .unwrap();
    let mut damaged = bytes.clone();
    damaged[at + HEADER_LEN + header.stored_len as usize / 2] ^= 1;
    for index in [true, false] {
        if !index {
            damaged[IDENTITY_LEN..IDENTITY_LEN + CLOSING_LEN]
                .copy_from_slice(&Closing::default().to_bytes());
        }
        let archive = Archive::from_bytes(damaged.clone()).unwrap();
        let salvage = archive.salvaged().unwrap();
        let reason = if index {
            SalvageReason::Blocks
        } else {
            SalvageReason::NotFinished
        };
        assert_eq!(salvage.reason, reason);
        assert_eq!(salvage.dropped.len(), 1);
        assert_eq!(salvage.dropped[0].offset, *at as u64);
        let left: Vec<u64> = archive
            .launches()
            .iter()
            .map(|launch| launch.id.0)
            .collect();
        assert_eq!(left, [1, 3]);
        assert!(matches!(
            archive.load_launch(LaunchId(2)),
            Err(ReadError::NoLaunch { .. })
        ));
    }
}

#[test]
fn a_launch_whose_chunk_is_missing_is_dropped_and_the_chunk_named() {
    let (bytes, launches) = sample_bytes(3);
    let lost = launches[1].before.regions[0]
        .chunks
        .stored()
        .next()
        .unwrap()
        .1;
    let (at, _) = blocks(&bytes)
        .into_iter()
        .find(|(_, header)| header.hash == lost)
        .unwrap();
    let mut damaged = bytes;
    // The header goes, so that a scan cannot find the chunk; the index goes, so that it must.
    damaged[at..at + HEADER_LEN].fill(0xff);
    damaged[IDENTITY_LEN..IDENTITY_LEN + CLOSING_LEN]
        .copy_from_slice(&Closing::default().to_bytes());
    let archive = Archive::from_bytes(damaged).unwrap();
    let salvage = archive.salvaged().unwrap();
    assert_eq!(salvage.dropped.len(), 1);
    assert_eq!(salvage.dropped[0].id, Some(LaunchId(2)));
    assert!(
        salvage.dropped[0].reason.contains(&format!("{lost:?}")),
        "{salvage}"
    );
    assert!(salvage.bytes_skipped > 0);
    assert_eq!(archive.launches().len(), 2);
}

#[test]
fn a_damaged_chunk_is_an_error_when_it_is_read_and_fsck_names_its_launch() {
    let (bytes, launches) = sample_bytes(3);
    let id = launches[1].before.regions[0]
        .chunks
        .stored()
        .next()
        .unwrap()
        .1;
    let (at, _) = blocks(&bytes)
        .into_iter()
        .find(|(_, header)| header.hash == id)
        .unwrap();
    let mut damaged = bytes;
    damaged[at + HEADER_LEN + 100] ^= 4;
    let archive = Archive::from_bytes(damaged).unwrap();
    let read = archive.region_before(&launches[1], 0, 0..10);
    assert!(matches!(read, Err(ReadError::Damaged { offset, .. }) if offset == at as u64));
    let report = ops::check(&archive).unwrap();
    assert!(
        report
            .findings
            .iter()
            .any(|f| f.what.starts_with("launch 2")),
        "{report}"
    );
    assert!(
        !report
            .findings
            .iter()
            .any(|f| f.what.starts_with("launch 1")),
        "{report}"
    );
}

#[test]
fn a_file_without_superblock_is_read_by_its_blocks() {
    let (mut bytes, launches) = sample_bytes(2);
    bytes[..BLOCKS_START as usize].fill(0);
    let archive = Archive::from_bytes(bytes).unwrap();
    assert_eq!(
        archive.salvaged().unwrap().reason,
        SalvageReason::Superblock
    );
    assert_eq!(archive.launches(), launches);
}

#[test]
fn what_is_not_an_archive_is_called_so() {
    for bytes in [
        Vec::new(),
        vec![0; 100],
        vec![0; 10_000],
        noise(1, 10_000),
        text(1, 10_000),
    ] {
        assert!(matches!(
            Archive::from_bytes(bytes),
            Err(ReadError::NotAnArchive { .. })
        ));
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Archive::open(dir.path()),
        Err(ReadError::NotAnArchive { .. })
    ));
    assert!(matches!(
        Archive::open(dir.path().join("none")),
        Err(ReadError::Io { .. })
    ));
}

#[test]
fn what_is_no_file_is_called_so_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: `name` is a string that ends with a zero, and lives on.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for path in [
        pipe.as_path(),
        folder.path(),
        std::path::Path::new("/dev/zero"),
    ] {
        assert!(
            matches!(Archive::open(path), Err(ReadError::NotAnArchive { .. })),
            "{}",
            path.display()
        );
    }
}

#[test]
fn an_archive_inside_a_chunk_is_not_taken_for_the_file_itself() {
    let (inner, _) = sample_bytes(1);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    // Its blocks lie 64-byte aligned in the outer file: noise keeps the chunk uncompressed.
    let mut chunk = inner[BLOCKS_START as usize..].to_vec();
    chunk.extend(noise(1, 40_000));
    writer.put_chunk(&chunk).unwrap();
    let launches = write_sample(&writer, 1);
    drop(writer);
    let mut bytes = std::fs::read(&path).unwrap();
    // Without its header, a scan looks into the chunk.
    bytes[BLOCKS_START as usize..][..HEADER_LEN].fill(0xff);
    let archive = Archive::from_bytes(bytes).unwrap();
    assert_eq!(archive.launches(), launches);
    assert_eq!(archive.processes().len(), 1);
    assert!(archive.salvaged().unwrap().bytes_skipped > 40_000);
}

/// Replaces the payload of the first block of `kind` by one of the same length, with a header
/// that fits: what a hostile writer would do.
fn forge(bytes: &mut [u8], kind: Kind, change: impl FnOnce(&mut BlockHeader, &mut [u8])) {
    let (at, mut header) = blocks(bytes)
        .into_iter()
        .find(|(_, h)| h.kind == kind)
        .unwrap();
    let payload = &mut bytes[at + HEADER_LEN..][..header.stored_len as usize];
    change(&mut header, payload);
    if header.codec == 0 {
        header.hash = ChunkId::of(payload);
    }
    bytes[at..at + HEADER_LEN].copy_from_slice(&header.to_bytes());
}

#[test]
fn forged_lengths_are_refused_before_anything_is_allocated() {
    let (good, _) = sample_bytes(1);
    // A raw length that no machine has, with a payload that cannot give it.
    for raw_len in [u64::MAX, 1 << 60, 1 << 40, (1 << 28) + 1] {
        let mut bytes = good.clone();
        forge(&mut bytes, Kind::LAUNCH, |header, _| {
            header.codec = 1;
            header.raw_len = raw_len;
        });
        let archive = Archive::from_bytes(bytes).unwrap();
        assert!(archive.launches().is_empty());
        assert_eq!(archive.salvaged().unwrap().dropped.len(), 1);
    }
    // A stored length beyond the file.
    let mut bytes = good.clone();
    forge(&mut bytes, Kind::LAUNCH, |header, _| {
        header.stored_len = u64::MAX - 100
    });
    assert!(Archive::from_bytes(bytes).unwrap().launches().is_empty());
    // Counts inside of a record: the kernel's name is longer than the record.
    let mut bytes = good.clone();
    forge(&mut bytes, Kind::KERNEL, |_, payload| {
        payload[17..25].copy_from_slice(&(1u64 << 50).to_le_bytes());
    });
    let archive = Archive::from_bytes(bytes).unwrap();
    assert!(archive.kernels().is_empty());
    assert!(
        archive.salvaged().unwrap().dropped[0]
            .reason
            .contains("kernel 1 is missing")
    );
    // An index that claims more than it has.
    let mut bytes = good.clone();
    forge(&mut bytes, Kind::INDEX, |header, _| {
        header.raw_len = 1 << 31
    });
    let archive = Archive::from_bytes(bytes).unwrap();
    assert!(matches!(
        archive.salvaged().unwrap().reason,
        SalvageReason::Index(_)
    ));
    // Counts of the index.
    let mut bytes = good;
    forge(&mut bytes, Kind::INDEX, |_, payload| {
        payload[8..16].copy_from_slice(&(u64::MAX / 32).to_le_bytes());
    });
    let archive = Archive::from_bytes(bytes).unwrap();
    assert!(matches!(
        archive.salvaged().unwrap().reason,
        SalvageReason::Index(_)
    ));
    assert_eq!(archive.launches().len(), 1);
}

#[test]
fn limits_bound_what_a_file_can_make_its_reader_hold() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    write_sample(&writer, 0);
    // A small file whose launches list 20,000 chunks each.
    let chunk = writer.put_chunk(&noise(1, CHUNK_SIZE)).unwrap();
    let list: ChunkList = std::iter::repeat_n(chunk, 20_000).collect();
    for id in 1..=5 {
        let region = (1, 20_000 * CHUNK_SIZE as u64, list.clone());
        writer.append(&launch(id, 1, &[region], vec![])).unwrap();
    }
    writer.finish().unwrap();
    let all = Archive::open(&path).unwrap();
    assert_eq!(all.launches().len(), 5);
    assert!(all.file_len() < 200_000);

    let limits = Limits {
        all_launch_chunks: 50_000,
        ..Limits::default()
    };
    let some = Archive::open_with(&path, limits).unwrap();
    assert_eq!((some.launches().len(), some.launch_heads().len()), (2, 5));
    assert_eq!(some.load_launch(LaunchId(5)).unwrap(), all.launches()[4]);

    let limits = Limits {
        launch_chunks: 10_000,
        ..Limits::default()
    };
    let none = Archive::open_with(&path, limits).unwrap();
    assert!(none.launches().is_empty());
    let dropped = &none.salvaged().unwrap().dropped;
    assert!(
        dropped.len() == 5 && dropped[0].reason.contains("10000"),
        "{dropped:?}"
    );

    let limits = Limits {
        blob_bytes: 100,
        ..Limits::default()
    };
    let small = Archive::open_with(&path, limits).unwrap();
    let read = small.read_blob(&small.modules()[0].image);
    assert!(matches!(
        read,
        Err(ReadError::Limit {
            needed: 3000,
            limit: 100,
            ..
        })
    ));
}
