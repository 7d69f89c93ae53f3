//! Any records and any memory come back as they were.

use proptest::{collection::vec, prelude::*};
use r3_archive::{Archive, ArchiveWriter, chunk::*, model::*};

use crate::common::*;

fn name() -> impl Strategy<Value = String> {
    ".{0,20}"
}

fn blob() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..300),
        (any::<u64>(), 0usize..200_000).prop_map(|(seed, len)| noise(seed, len)),
        (any::<u64>(), 0usize..200_000).prop_map(|(seed, len)| text(seed, len)),
        (0usize..300_000).prop_map(|len| vec![0; len]),
    ]
}

fn shape() -> impl Strategy<Value = ([u32; 3], [u32; 3])> {
    (any::<[u32; 3]>(), any::<[u32; 3]>())
}

fn any_launch() -> impl Strategy<Value = LaunchRecord> {
    let numbers = (
        any::<[u64; 3]>(),
        any::<i32>(),
        any::<bool>(),
        any::<Option<u32>>(),
    );
    (
        shape(),
        numbers,
        name(),
        vec(any::<u8>(), 0..4000),
        vec(name(), 0..3),
    )
        .prop_map(
            |(
                (grid, block),
                (numbers, device, cooperative, cache_config),
                entry_point,
                params,
                notes,
            )| {
                LaunchRecord {
                    grid,
                    block,
                    device,
                    cooperative,
                    cache_config,
                    entry_point,
                    params,
                    notes,
                    sequence: numbers[0],
                    thread: numbers[1],
                    unix_ns: numbers[2],
                    function_settings: vec![(device, device)],
                    ..launch(1, 1, &[], vec![])
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read(
        mut process in name().prop_map(|exe| ProcessRecord { exe, ..process() }),
        argv in vec(name(), 0..5),
        attributes in vec(any::<(i32, i32)>(), 0..40),
        images in vec(blob(), 1..4),
        records in vec((any_launch(), vec((blob(), blob()), 0..3)), 0..5),
        finish in any::<bool>(),
        workers in 0usize..3,
    ) {
        process.argv = argv;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.r3");
        let writer = ArchiveWriter::create(&path, options(workers)).unwrap();
        writer.append(&process).unwrap();
        let device = DeviceRecord { attributes, ..device(0, 1) };
        writer.append(&device).unwrap();
        let modules: Vec<ModuleRecord> = (1..)
            .zip(&images)
            .map(|(id, image)| module(id, writer.put_bytes(image).unwrap(), None))
            .collect();
        modules.iter().for_each(|module| writer.append(module).unwrap());
        writer.append(&kernel(1, 1, "k")).unwrap();

        let mut launches = Vec::new();
        let mut memory = Vec::new();
        for (id, (mut record, regions)) in (1..).zip(records) {
            record.id = LaunchId(id);
            for (at, (before, after)) in regions.into_iter().enumerate() {
                // The memory after a launch has the length of the memory before it.
                let mut after = after;
                after.resize(before.len(), 7);
                let len = before.len() as u64;
                let chunks: Vec<ChunkRef> = writer.submit(before.clone()).wait().unwrap();
                for (chunk, (old, new)) in chunks.iter().zip(after.chunks(CHUNK_SIZE)).enumerate() {
                    let data = writer.put_chunk(new).unwrap();
                    if data != *old {
                        let change = ChunkChange { region: at as u32, chunk: chunk as u64, data };
                        record.after.changes.push(change);
                    }
                }
                record.before.regions.push(RegionSnapshot {
                    owner: RegionOwner::Allocation(AllocationId(at as u64)),
                    address: (at as u64) << 40,
                    len,
                    chunks: chunks.into_iter().collect(),
                });
                memory.push((launches.len(), at, before, after));
            }
            writer.append(&record).unwrap();
            launches.push(record);
        }
        if finish {
            writer.finish().unwrap();
        }

        let archive = Archive::open(&path).unwrap();
        prop_assert_eq!(archive.salvaged().is_none(), finish);
        prop_assert_eq!(archive.process(), &process);
        prop_assert_eq!(archive.devices(), &[device][..]);
        prop_assert_eq!(archive.modules(), modules);
        prop_assert_eq!(archive.launches(), &launches[..]);
        for (module, image) in archive.modules().iter().zip(&images) {
            prop_assert!(archive.read_blob(&module.image).unwrap() == *image);
        }
        for (launch, region, before, after) in memory {
            let launch = &archive.launches()[launch];
            let len = before.len() as u64;
            prop_assert!(archive.region_before(launch, region, 0..len).unwrap() == before);
            prop_assert!(archive.region_after(launch, region, 0..len).unwrap() == after);
            let (from, to) = (len / 3, len - len / 5);
            if from < to {
                let part = archive.region_after(launch, region, from..to).unwrap();
                prop_assert!(part == after[from as usize..to as usize]);
            }
        }
    }

    #[test]
    fn a_chunk_list_is_the_list_that_was_pushed(runs in vec((any::<bool>(), 1u64..200), 0..20)) {
        let mut list = ChunkList::new();
        let mut plain = Vec::new();
        for (n, (zero, count)) in runs.into_iter().enumerate() {
            if zero {
                list.push_zeros(count);
                plain.extend((0..count).map(|_| ChunkRef::Zero));
            } else {
                let id = ChunkRef::Data(ChunkId([n as u8; 16]));
                (0..count).for_each(|_| list.push(id));
                plain.extend((0..count).map(|_| id));
            }
        }
        prop_assert_eq!(list.len(), plain.len() as u64);
        prop_assert!((0..list.len()).all(|at| list.get(at) == Some(plain[at as usize])));
        prop_assert_eq!(list.get(list.len()), None);
        let start = plain.len() / 2;
        prop_assert_eq!(list.iter_from(start as u64).collect::<Vec<_>>(), &plain[start..]);
        let stored: Vec<(u64, ChunkRef)> =
            list.stored().map(|(at, id)| (at, ChunkRef::Data(id))).collect();
        let expected: Vec<(u64, ChunkRef)> =
            (0..).zip(plain).filter(|(_, chunk)| *chunk != ChunkRef::Zero).collect();
        prop_assert_eq!(stored, expected);
    }
}
