//! The same content is stored once, and so are the same lists of chunks.

use r3_archive::{Archive, ArchiveWriter, chunk::*};

use crate::common::*;

#[test]
fn a_second_snapshot_of_the_same_memory_adds_less_than_one_percent() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(2)).unwrap();
    write_sample(&writer, 0);
    // 32 MiB that do not compress, 32 MiB that compress a hundredfold.
    let mut memory = noise(3, 32 << 20);
    memory.extend(text(5, 32 << 20));
    let mut sizes = vec![writer.stored_bytes()];
    for id in 1..=2 {
        let chunks: ChunkList = writer
            .submit(memory.clone())
            .wait()
            .unwrap()
            .into_iter()
            .collect();
        let record = launch(id, 1, &[(1, memory.len() as u64, chunks)], vec![]);
        writer.append(&record).unwrap();
        sizes.push(writer.stored_bytes());
    }
    let (first, second) = (sizes[1] - sizes[0], sizes[2] - sizes[1]);
    assert!(first > 32 << 20 && first < 36 << 20, "{first}");
    assert!(second < 2048, "{second} of {first}");
}

#[test]
fn a_change_in_a_large_region_adds_its_part_of_the_list_only() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(0)).unwrap();
    write_sample(&writer, 0);
    // 100,000 chunks, 6.1 GiB, of 256 different contents; the list is 1.6 MB long.
    let refs: Vec<ChunkRef> = (0..256)
        .map(|n| {
            writer
                .put_chunk(&noise(n, 64))
                .map(|_| writer.put_chunk(&text(n, CHUNK_SIZE)))
        })
        .map(|chunk| chunk.unwrap().unwrap())
        .collect();
    let mut list: Vec<ChunkRef> = noise(4, 100_000)
        .iter()
        .map(|byte| refs[usize::from(*byte)])
        .collect();
    let len = 100_000 * CHUNK_SIZE as u64;
    let mut written = Vec::new();
    let mut sizes = vec![writer.stored_bytes()];
    for id in 1..=3 {
        list[50_000 + id as usize] = ChunkRef::Zero;
        let region = (1, len, list.iter().copied().collect());
        let record = launch(id, 1, &[region], vec![]);
        writer.append(&record).unwrap();
        written.push(record);
        sizes.push(writer.stored_bytes());
    }
    let added: Vec<u64> = sizes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        added[1] < added[0] / 20 && added[2] < added[0] / 20,
        "{added:?}"
    );
    writer.finish().unwrap();

    let archive = Archive::open(writer.path()).unwrap();
    assert!(
        archive.salvaged().is_none(),
        "{}",
        archive.salvaged().unwrap()
    );
    assert_eq!(archive.launches(), written);
    let bytes = archive
        .region_before(&written[0], 0, len - 10..len)
        .unwrap();
    let mut last = vec![0; CHUNK_SIZE];
    archive.read_chunk(list[99_999], &mut last).unwrap();
    assert_eq!(bytes, last[CHUNK_SIZE - 10..]);
}

#[test]
fn zeros_are_not_stored_whatever_their_amount() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(2)).unwrap();
    write_sample(&writer, 0);
    let before = writer.stored_bytes();
    let chunks = writer.submit(vec![0; (20 << 20) + 5]).wait().unwrap();
    assert!(chunks.iter().all(|chunk| *chunk == ChunkRef::Zero));
    assert_eq!(chunks.len(), 321);
    assert_eq!(writer.stored_bytes(), before);

    // A terabyte, as a list, next to a single chunk of data.
    let data = writer.put_chunk(&noise(1, CHUNK_SIZE)).unwrap();
    let before = writer.stored_bytes();
    let mut list = ChunkList::new();
    list.push_zeros((1 << 24) - 1);
    list.push(data);
    let record = launch(1, 1, &[(1, 1 << 40, list)], vec![]);
    writer.append(&record).unwrap();
    assert!(writer.stored_bytes() - before < 1024);
    writer.finish().unwrap();
    let archive = Archive::open(writer.path()).unwrap();
    assert_eq!(archive.launches(), std::slice::from_ref(&record));
    let end = archive
        .region_after(&record, 0, (1 << 40) - 70_000..1 << 40)
        .unwrap();
    assert_eq!(end[70_000 - CHUNK_SIZE..], noise(1, CHUNK_SIZE));
    assert!(end[..70_000 - CHUNK_SIZE].iter().all(|byte| *byte == 0));
    // All of it at once is refused.
    let whole = archive.region_after(&record, 0, 0..1 << 40);
    assert!(matches!(whole, Err(r3_archive::ReadError::Limit { .. })));
}

#[test]
fn a_long_list_of_zeros_and_data_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(0)).unwrap();
    write_sample(&writer, 0);
    let data = writer.put_chunk(&noise(1, CHUNK_SIZE)).unwrap();
    let tail = writer.put_chunk(&noise(2, 10)).unwrap();
    let mut list = ChunkList::new();
    // Runs that end inside, at, and beyond the chunks of the table (4096 entries each).
    for (zeros, stored) in [(1, 70), (4025, 1), (10_000, 4096), (4096, 4096), (3, 100)] {
        list.push_zeros(zeros);
        (0..stored).for_each(|_| list.push(data));
    }
    list.push(tail);
    let len = (list.len() - 1) * CHUNK_SIZE as u64 + 10;
    let record = launch(1, 1, &[(1, len, list)], vec![]);
    writer.append(&record).unwrap();
    writer.finish().unwrap();
    let archive = Archive::open(writer.path()).unwrap();
    assert!(
        archive.salvaged().is_none(),
        "{}",
        archive.salvaged().unwrap()
    );
    assert_eq!(archive.launches(), [record]);
}

#[test]
fn a_chunk_of_the_wrong_length_drops_the_launch() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(0)).unwrap();
    write_sample(&writer, 0);
    let short = writer.put_chunk(&noise(2, 10)).unwrap();
    let full = writer.put_chunk(&noise(2, CHUNK_SIZE)).unwrap();
    let size = CHUNK_SIZE as u64;
    let in_table = |odd: usize| {
        let mut list = vec![full; 200];
        list[odd] = short;
        (1, 200 * size, list.into_iter().collect())
    };
    let cases: [(u64, u64, ChunkList); 5] = [
        (1, 2 * size, [short, full].into_iter().collect()),
        (1, size + 11, [full, short].into_iter().collect()),
        (1, 3 * size, [full, full].into_iter().collect()),
        in_table(5),
        in_table(199),
    ];
    for (id, case) in (1..).zip(cases) {
        writer.append(&launch(id, 1, &[case], vec![])).unwrap();
    }
    writer.finish().unwrap();
    let archive = Archive::open(writer.path()).unwrap();
    assert_eq!(archive.launches(), []);
    let dropped: Vec<String> = archive
        .salvaged()
        .unwrap()
        .dropped
        .iter()
        .map(|drop| drop.reason.clone())
        .collect();
    assert_eq!(dropped.len(), 5, "{dropped:#?}");
}
