use r3_archive::chunk::{CHUNK_SIZE, ChunkList, ChunkRef};
use r3_archive::model::*;

use super::*;
use crate::compare::Tolerances;
use crate::device::AddressRange;
use crate::testing::{TestArchive, TestDevice, TestRegion};
use crate::verify::{LaunchReport, Outcome, VerifyOptions, verify_launch};

const A: u64 = 0x7f12_3460_0000;
const B: u64 = 0x7f12_3480_0000;

fn words(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// The pointer in the parameters.
fn argument(params: &[u8]) -> u64 {
    u64::from_le_bytes(params[..8].try_into().unwrap())
}

fn verify(archive: &Archive, device: &mut TestDevice, options: ReplayOptions) -> Vec<LaunchReport> {
    let mut replayer = Replayer::new(archive, device, options);
    let ids: Vec<LaunchId> = archive
        .launch_heads()
        .iter()
        .map(|launch| launch.id)
        .collect();
    replayer.reserve(ids.iter().copied()).unwrap();
    let reports = ids
        .iter()
        .map(|id| {
            verify_launch(
                archive,
                &mut replayer,
                *id,
                VerifyOptions::exactly(&Tolerances::exact()),
            )
        })
        .collect();
    replayer.clear().unwrap();
    reports
}

/// A device whose kernel adds one to the first word behind its argument.
fn increment() -> TestDevice {
    TestDevice::new().with_kernel("kernel", |memory, params| {
        let value = memory.load(argument(params))?;
        memory.store(argument(params), value + 1)
    })
}

fn one_launch(before: Vec<u8>, after: Vec<u8>) -> Archive {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, before.len() as u64, AllocationKind::Device);
    archive.launch(&[TestRegion::memory(1, A, before, after)]);
    archive.open()
}

#[test]
fn a_launch_that_does_the_same_again_verifies() {
    let archive = one_launch(words(&[41, 7]), words(&[42, 7]));
    let mut device = increment();
    let reports = verify(&archive, &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical, "{reports:?}");
    assert_eq!((reports[0].bytes, reports[0].changed_bytes), (16, 16));
    assert_eq!(reports[0].code.as_deref(), Some("PTX compute_50"));
    assert_eq!(reports[0].caveats, []);
}

#[test]
fn a_wrong_byte_is_found_named_and_counted() {
    let archive = one_launch(words(&[41, 7]), words(&[43, 7]));
    let reports = verify(&archive, &mut increment(), ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Mismatch);
    let buffer = &reports[0].buffers[0];
    assert_eq!(
        (buffer.buffer.as_str(), buffer.found.out, buffer.found.bytes),
        ("arg0", 1, 1)
    );
    let first = &buffer.found.first[0];
    assert_eq!(
        (first.offset, first.expected.as_str(), first.actual.as_str()),
        (0, "0x0000002b", "0x0000002a")
    );
}

#[test]
fn a_change_where_none_was_recorded_is_found() {
    // The last byte of the last, short chunk of a region that the launch should not touch.
    let len = 2 * CHUNK_SIZE + 24;
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.allocation(2, B, len as u64, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[0]), words(&[0])),
        TestRegion::memory(2, B, vec![0; len], vec![0; len]),
    ]);
    let mut device = TestDevice::new().with_kernel("kernel", move |memory, _| {
        memory.store(B + len as u64 - 8, 1 << 56)
    });
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Mismatch);
    let buffer = &reports[0].buffers[0];
    assert_eq!(
        (buffer.buffer.as_str(), buffer.chunks, buffer.found.bytes),
        ("alloc 2", 1, 1)
    );
    assert_eq!(buffer.found.first[0].offset, len as u64 - 4);
}

#[test]
fn a_kernel_that_does_nothing_fails() {
    let archive = one_launch(words(&[41]), words(&[42]));
    let mut device = TestDevice::new().with_kernel("kernel", |_, _| Ok(()));
    let reports = verify(&archive, &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Mismatch);
}

#[test]
fn a_launch_that_changed_nothing_is_marked_vacuous() {
    let archive = one_launch(words(&[41]), words(&[41]));
    let mut device = TestDevice::new().with_kernel("kernel", |_, _| Ok(()));
    let reports = verify(&archive, &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical);
    assert_eq!(reports[0].caveats, [crate::trust::Caveat::Vacuous]);
}

#[test]
fn every_launch_starts_from_its_own_memory() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    // Launches that do not follow from one another.
    archive.launch(&[TestRegion::memory(1, A, words(&[1]), words(&[2]))]);
    archive.launch(&[TestRegion::memory(1, A, words(&[10]), words(&[11]))]);
    archive.launch(&[TestRegion::memory(1, A, words(&[1]), words(&[2]))]);
    let mut device = increment();
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert!(
        reports
            .iter()
            .all(|report| report.outcome == Outcome::Identical)
    );
    let maps = device
        .log
        .iter()
        .filter(|line| line.starts_with("map"))
        .count();
    assert_eq!(
        maps, 1,
        "memory stays where the next launch needs it: {:?}",
        device.log
    );
}

#[test]
fn memory_of_another_launch_is_not_there() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.allocation(2, B, 8, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[1]), words(&[2])),
        TestRegion::memory(2, B, words(&[1]), words(&[1])),
    ]);
    archive.launch(&[TestRegion::memory(1, A, words(&[B]), words(&[B]))]);
    // The second launch reads through a pointer to memory that was not saved with it.
    let mut device = TestDevice::new().with_kernel("kernel", |memory, params| {
        let value = memory.load(argument(params))?;
        if value == B {
            return memory.load(B).map(|_| ());
        }
        memory.store(argument(params), value + 1)
    });
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical);
    assert_eq!(reports[1].outcome, Outcome::NotRun);
    assert!(
        reports[1]
            .error
            .as_ref()
            .unwrap()
            .contains("ILLEGAL_ADDRESS")
    );
}

#[test]
fn after_a_fault_later_launches_are_not_run() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    for _ in 0..2 {
        archive.launch(&[TestRegion::memory(1, A, words(&[1]), words(&[2]))]);
    }
    let mut device =
        TestDevice::new().with_kernel("kernel", |memory, _| memory.load(0).map(|_| ()));
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert_eq!(
        reports[1].error.as_deref(),
        Some("not run: launch 1 left the GPU context unusable")
    );
}

#[test]
fn a_hundred_gigabytes_of_zeros_are_refused_by_a_small_device() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 100 << 30, AllocationKind::Mapped);
    archive.launch_with(
        &[TestRegion::memory(1, A, words(&[0]), words(&[0]))],
        |launch| {
            let mut chunks = ChunkList::new();
            chunks.push_zeros((100 << 30) / CHUNK_SIZE as u64);
            launch.before.regions[0].len = 100 << 30;
            launch.before.regions[0].chunks = chunks;
        },
    );
    let reports = verify(&archive.open(), &mut increment(), ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::NotRun);
    assert_eq!(
        reports[0].error.as_deref(),
        Some("107374182400 bytes of device memory are needed, and the device has 1073741824")
    );
}

#[test]
fn regions_of_zeros_and_data_come_back_whole() {
    let mut before = vec![0; 5 * CHUNK_SIZE + 100];
    before[CHUNK_SIZE] = 1;
    before[3 * CHUNK_SIZE + 5] = 2;
    before[5 * CHUNK_SIZE + 99] = 3;
    let mut after = before.clone();
    after[0] = 1;
    // A chunk that becomes zeros again.
    after[CHUNK_SIZE] = 0;
    let archive = one_launch(before.clone(), after);
    let mut device = TestDevice::new().with_kernel("kernel", move |memory, params| {
        let start = argument(params);
        for (offset, wanted) in before.chunks_exact(8).enumerate() {
            let found = memory.load(start + 8 * offset as u64)?;
            assert_eq!(found.to_le_bytes(), *wanted, "word {offset}");
        }
        memory.store(start, 1)?;
        memory.store(start + CHUNK_SIZE as u64, 0)
    });
    let reports = verify(&archive, &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical, "{reports:?}");
}

#[test]
fn a_taken_address_is_named_with_its_allocation() {
    let archive = one_launch(words(&[1]), words(&[2]));
    let mut device = increment();
    device.taken.push(AddressRange::new(A, 4096).unwrap());
    let reports = verify(&archive, &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::NotRun);
    let error = reports[0].error.as_ref().unwrap();
    assert!(
        error.starts_with("arg0 was at 0x7f1234600000-0x7f1234600008"),
        "{error}"
    );
    assert!(error.contains("--addr remap"), "{error}");
}

#[test]
fn remapped_memory_takes_its_pointers_along() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.allocation(2, B, 16, AllocationKind::Device);
    // A list: A -> B + 8, where a counter is; and an end pointer, which is only carried along.
    archive.launch(&[
        TestRegion::memory(1, A, words(&[B + 8, A + 16]), words(&[B + 8, A + 16])),
        TestRegion::memory(2, B, words(&[5, 6]), words(&[5, 7])),
    ]);
    let follow = |memory: &mut crate::testing::Memory, params: &[u8]| {
        let next = memory.load(argument(params))?;
        let value = memory.load(next)?;
        memory.store(next, value + 1)
    };
    let mut device = TestDevice::new().with_kernel("kernel", follow);
    device.taken.push(AddressRange::new(A, 1 << 30).unwrap());
    let options = ReplayOptions {
        addresses: AddressMode::Remap,
        ..ReplayOptions::default()
    };
    let reports = verify(&archive.open(), &mut device, options);
    assert_eq!(reports[0].outcome, Outcome::Identical, "{reports:?}");
    assert_eq!(
        reports[0].rewritten,
        Rewritten {
            params: 1,
            memory: 2
        }
    );
}

fn global(before: Vec<u8>, after: Vec<u8>) -> TestRegion {
    TestRegion {
        owner: RegionOwner::Global {
            module: ModuleId(1),
            name: "counter".to_owned(),
        },
        address: 0x7f55_0000_0000,
        before,
        after,
    }
}

#[test]
fn a_variable_is_restored_where_the_code_has_it_and_pointers_follow() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[0x7f55_0000_0000]), words(&[0x7f55_0000_0000])),
        global(words(&[1]), words(&[2])),
    ]);
    let archive = archive.open();
    let device = || {
        TestDevice::new()
            .with_global("counter", 0x66_0000_0000, 8)
            .with_kernel("kernel", |memory, params| {
                let variable = memory.load(argument(params))?;
                let value = memory.load(variable)?;
                memory.store(variable, value + 1)
            })
    };
    let reports = verify(&archive, &mut device(), ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical, "{reports:?}");
    assert_eq!(
        reports[0].rewritten,
        Rewritten {
            params: 0,
            memory: 1
        }
    );
    let kept = ReplayOptions {
        follow_globals: false,
        ..ReplayOptions::default()
    };
    let reports = verify(&archive, &mut device(), kept);
    assert_eq!(
        reports[0].outcome,
        Outcome::NotRun,
        "the pointer leads nowhere"
    );
    assert!(
        reports[0]
            .error
            .as_ref()
            .unwrap()
            .contains("ILLEGAL_ADDRESS")
    );
}

#[test]
fn a_wrong_variable_is_found() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[1]), words(&[2])),
        global(words(&[1]), words(&[2])),
    ]);
    let mut device = increment().with_global("counter", 0x66_0000_0000, 8);
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Mismatch);
    assert_eq!(reports[0].buffers[0].buffer, "global counter");
}

#[test]
fn host_memory_is_host_memory_again_or_device_memory_with_a_note() {
    let host = 0x7f99_0000_1100;
    let build = || {
        let mut archive = TestArchive::new();
        archive.allocation(1, host, 8, AllocationKind::HostRegistered);
        archive.launch(&[TestRegion::memory(1, host, words(&[1]), words(&[2]))]);
        archive.open()
    };
    let mut device = increment();
    let reports = verify(&build(), &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical);
    assert!(
        device
            .log
            .contains(&"map host 0x7f9900001000-0x7f9900002000".to_owned())
    );
    assert!(reports[0].notes.is_empty());

    let mut device = increment();
    device.host = false;
    let reports = verify(&build(), &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical, "{reports:?}");
    assert!(
        reports[0].notes[0].contains("replayed as device memory"),
        "{:?}",
        reports[0].notes
    );
}

#[test]
fn a_taken_host_address_is_a_collision() {
    let host = 0x7f99_0000_1100;
    let mut archive = TestArchive::new();
    archive.allocation(1, host, 8, AllocationKind::Host);
    let id = archive.launch(&[TestRegion::memory(1, host, words(&[1]), words(&[2]))]);
    let archive = archive.open();
    let mut device = increment();
    device.taken.push(AddressRange::new(host, 1).unwrap());
    let mut replayer = Replayer::new(&archive, &mut device, ReplayOptions::default());
    assert_eq!(replayer.reserve([id]).unwrap().len(), 1);
    let report = verify_launch(
        &archive,
        &mut replayer,
        id,
        VerifyOptions::exactly(&Tolerances::exact()),
    );
    assert!(report.error.unwrap().starts_with("arg0 was at"));
}

#[test]
fn large_dynamic_shared_memory_is_allowed_before_the_launch() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.launch_with(
        &[TestRegion::memory(1, A, words(&[1]), words(&[2]))],
        |launch| {
            launch.dynamic_shared = 100 << 10;
            launch.function_settings = vec![(9, 100)];
        },
    );
    let mut device = increment();
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert_eq!(reports[0].outcome, Outcome::Identical);
    assert_eq!(device.settings, [(8, 100 << 10), (9, 100)]);
}

#[test]
fn contradictory_records_are_errors() {
    let damage = |change: fn(&mut LaunchRecord)| {
        let mut archive = TestArchive::new();
        archive.allocation(1, A, 8, AllocationKind::Device);
        archive.launch_with(
            &[TestRegion::memory(1, A, words(&[1]), words(&[2]))],
            change,
        );
        let reports = verify(&archive.open(), &mut increment(), ReplayOptions::default());
        reports
            .first()
            .map(|report| (report.outcome, report.error.clone().unwrap_or_default()))
    };
    let (outcome, error) = damage(|launch| {
        let mut again = launch.before.regions[0].clone();
        again.address += 4;
        launch.before.regions.push(again);
    })
    .unwrap();
    assert_eq!(outcome, Outcome::NotRun);
    assert!(error.contains("overlap"), "{error}");
    let (_, error) = damage(|launch| launch.before.regions[0].address = u64::MAX - 3).unwrap();
    assert!(error.contains("beyond the address space"), "{error}");
}

#[test]
fn a_kernel_without_code_says_why() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    let kernel = KernelRecord {
        id: KernelId(2),
        module: None,
        name: "unseen".to_owned(),
        params: Vec::new(),
        layout: LayoutSource::Buffer,
        attributes: Vec::new(),
    };
    archive.writer.append(&kernel).unwrap();
    archive.launch_with(
        &[TestRegion::memory(1, A, words(&[1]), words(&[2]))],
        |launch| {
            launch.kernel = KernelId(2);
        },
    );
    let reports = verify(&archive.open(), &mut increment(), ReplayOptions::default());
    assert!(
        reports[0]
            .error
            .as_ref()
            .unwrap()
            .contains("module was loaded before the capture")
    );
}

#[test]
fn the_overlay_of_changes_splits_runs() {
    let mut chunks = ChunkList::new();
    chunks.push_zeros(4);
    let record = RegionSnapshot {
        owner: RegionOwner::Allocation(AllocationId(1)),
        address: A,
        len: 4 * CHUNK_SIZE as u64,
        chunks,
    };
    let id = r3_archive::chunk::ChunkId([7; 16]);
    let changes = [ChunkChange {
        region: 0,
        chunk: 2,
        data: ChunkRef::Data(id),
    }];
    let region = Region {
        index: 0,
        record: &record,
        range: AddressRange::new(A, record.len).unwrap(),
        changes: &changes,
    };
    use crate::restore::segments::{Moment, Segment};
    assert_eq!(
        region.segments(Moment::Before),
        [Segment::Zeros { first: 0, count: 4 }]
    );
    assert_eq!(
        region.segments(Moment::After),
        [
            Segment::Zeros { first: 0, count: 2 },
            Segment::Stored { chunk: 2, id },
            Segment::Zeros { first: 3, count: 1 },
        ]
    );
}

#[test]
fn what_is_there_already_is_not_written_again() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.allocation(2, B, 3 * CHUNK_SIZE as u64, AllocationKind::Device);
    let mut big = vec![7; 3 * CHUNK_SIZE];
    for value in 1..=3 {
        let region = TestRegion::memory(1, A, words(&[value]), words(&[value + 1]));
        if value == 3 {
            // One chunk is not what the launch before left.
            big[CHUNK_SIZE] = 8;
        }
        archive.launch(&[region, TestRegion::memory(2, B, big.clone(), big.clone())]);
    }
    let archive = archive.open();
    let mut device = increment();
    let reports = verify(&archive, &mut device, ReplayOptions::default());
    assert!(
        reports
            .iter()
            .all(|report| report.outcome == Outcome::Identical),
        "{reports:?}"
    );
    // Of each launch the pieces that were restored, and those that it was compared with.
    assert_eq!(device.pieces, [4, 4, 0, 4, 1, 4]);
}

#[test]
fn after_a_mismatch_everything_is_written_again() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.allocation(2, B, 8, AllocationKind::Device);
    for _ in 0..2 {
        archive.launch(&[
            TestRegion::memory(1, A, words(&[1]), words(&[5])),
            TestRegion::memory(2, B, words(&[7]), words(&[7])),
        ]);
    }
    let mut device = increment();
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert!(
        reports
            .iter()
            .all(|report| report.outcome == Outcome::Mismatch)
    );
    assert_eq!(device.pieces, [2, 2, 2, 2]);
}

#[test]
fn an_allocation_of_another_length_at_the_same_address_is_mapped_anew() {
    let mut archive = TestArchive::new();
    let len = 3 << 20;
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.allocation(2, A, len, AllocationKind::Device);
    let mut long = vec![0; len as usize];
    long[0] = 1;
    let mut after = long.clone();
    after[0] = 2;
    archive.launch(&[TestRegion::memory(1, A, words(&[1]), words(&[2]))]);
    archive.launch(&[TestRegion::memory(2, A, long, after)]);
    archive.launch(&[TestRegion::memory(1, A, words(&[1]), words(&[2]))]);
    let mut device = increment();
    let reports = verify(&archive.open(), &mut device, ReplayOptions::default());
    assert!(
        reports
            .iter()
            .all(|report| report.outcome == Outcome::Identical),
        "{reports:?}"
    );
    let short = "0x7f1234600000-0x7f1234800000";
    let long = "0x7f1234600000-0x7f1234a00000";
    let maps: Vec<&str> = device
        .log
        .iter()
        .filter(|line| line.starts_with("map") || line.starts_with("unmap"))
        .map(String::as_str)
        .collect();
    assert_eq!(
        maps,
        [
            format!("map {short}"),
            format!("unmap {short}"),
            format!("map {long}"),
            format!("unmap {long}"),
            format!("map {short}"),
            format!("unmap {short}"),
        ]
    );
}

mod hostile {
    use proptest::prelude::*;
    use r3_archive::chunk::ChunkId;

    use super::*;

    fn any_number() -> impl Strategy<Value = u64> {
        prop_oneof![
            0u64..0x1000,
            (0u64..64).prop_map(|shift| 1 << shift),
            (0u64..64).prop_map(|shift| u64::MAX >> shift),
            A..A + (8 << 20),
            any::<u64>(),
        ]
    }

    fn any_len() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0u64..300_000, 1 => any_number()]
    }

    fn any_region() -> impl Strategy<Value = RegionSnapshot> {
        let owner = prop_oneof![
            (0u64..4).prop_map(|id| RegionOwner::Allocation(AllocationId(id))),
            (1u64..3).prop_map(|module| RegionOwner::Global {
                module: ModuleId(module),
                name: "counter".to_owned(),
            }),
        ];
        let odd = prop_oneof![6 => Just(0i64), 1 => -2i64..3];
        (owner, any_number(), any_len(), odd, any::<bool>()).prop_map(
            |(owner, address, len, odd, stored)| {
                let count = len.div_ceil(CHUNK_SIZE as u64).saturating_add_signed(odd);
                let mut chunks = ChunkList::new();
                chunks.push_zeros(count.saturating_sub(u64::from(stored)));
                if stored && count > 0 {
                    chunks.push(ChunkRef::Data(ChunkId([1; 16])));
                }
                RegionSnapshot {
                    owner,
                    address,
                    len,
                    chunks,
                }
            },
        )
    }

    fn any_change() -> impl Strategy<Value = ChunkChange> {
        (0u32..4, prop_oneof![4 => 0u64..4, 1 => any_number()]).prop_map(|(region, chunk)| {
            ChunkChange {
                region,
                chunk,
                data: ChunkRef::Zero,
            }
        })
    }

    fn any_launch() -> impl Strategy<Value = LaunchRecord> {
        (
            prop::collection::vec(any_region(), 0..5),
            prop::collection::vec(any_change(), 0..3),
            prop::collection::vec(any::<u8>(), 0..20),
            any::<u32>(),
            1u64..4,
            prop::collection::vec((0i32..20, any::<i32>()), 0..4),
            prop::collection::vec((0u32..20, prop::collection::vec(any::<u8>(), 0..70)), 0..3),
        )
            .prop_map(
                |(regions, changes, params, shared, kernel, settings, attributes)| LaunchRecord {
                    kernel: KernelId(kernel),
                    before: Snapshot { regions },
                    after: SnapshotDelta { changes },
                    params,
                    dynamic_shared: shared,
                    function_settings: settings,
                    attributes: attributes
                        .into_iter()
                        .map(|(id, value)| LaunchAttribute { id, value })
                        .collect(),
                    ..crate::testing::empty_launch()
                },
            )
    }

    /// Kernels 1 and 2; the archive has one allocation of each sort that matters.
    fn archive() -> Archive {
        let archive = TestArchive::new();
        archive.allocation(1, A, 1 << 20, AllocationKind::Device);
        archive.allocation(2, B, 1 << 20, AllocationKind::HostRegistered);
        let kernel = KernelRecord {
            id: KernelId(2),
            module: Some(ModuleId(9)),
            name: "kernel".to_owned(),
            params: vec![ParamLayout {
                offset: u32::MAX,
                size: u32::MAX,
            }],
            layout: LayoutSource::Cubin,
            attributes: Vec::new(),
        };
        archive.writer.append(&kernel).unwrap();
        archive.open()
    }

    proptest! {
        /// The device itself checks that memory is mapped inside reservations only, and that
        /// nothing is written elsewhere.
        #[test]
        fn records_that_make_no_sense_are_errors(
            launches in prop::collection::vec(any_launch(), 1..4),
            remap: bool,
        ) {
            let archive = archive();
            let mut device = TestDevice::new()
                .with_global("counter", 0x66_0000_0000, 8)
                .with_kernel("kernel", |_, _| Ok(()));
            device.info.total_memory = 64 << 20;
            let addresses = if remap { AddressMode::Remap } else { AddressMode::Exact };
            let options = ReplayOptions { addresses, ..ReplayOptions::default() };
            let mut replayer = Replayer::new(&archive, &mut device, options);
            for launch in &launches {
                let Ok(restored) = replayer.restore(launch) else { continue };
                replayer.launch(&restored).unwrap();
                replayer.compare(&restored, &mut Judge::new(&Tolerances::exact(), None)).unwrap();
            }
            replayer.clear().unwrap();
        }

        #[test]
        fn inspection_takes_any_record(launch in any_launch()) {
            let archive = archive();
            let report = crate::inspect::show::show(&archive, &launch);
            prop_assert_eq!(report.regions.is_empty(), launch.before.regions.is_empty() || launch.kernel.0 > 2);
        }
    }
}
