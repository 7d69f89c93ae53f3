use r3_archive::Archive;
use r3_archive::model::{AllocationKind, LaunchId, LaunchRecord, ModuleId, RegionOwner};

use super::looks::Kind;
use super::memory::Moment;
use super::{Report, Side, examine, pairs};
use crate::testing::{TestArchive, TestRegion};

const HERE: u64 = 0x7f00_0000_0000;
const THERE: u64 = 0x7f80_0040_0000;
const LEN: usize = 4096;
/// A day in 2026, in nanoseconds since 1970.
const NOW: u64 = 1_780_000_000_000_000_000;

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut random = r3_codegen::passes::Random::new(seed);
    (0..len).map(|_| (random.next() >> 40) as u8).collect()
}

fn words(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn floats(of: impl Fn(usize) -> f32) -> Vec<u8> {
    (0..LEN / 4).flat_map(|i| of(i).to_le_bytes()).collect()
}

/// An archive with one launch on one buffer.
fn one(base: u64, before: Vec<u8>, after: Vec<u8>) -> Archive {
    with(base, before, after, |_| {})
}

fn with(
    base: u64,
    before: Vec<u8>,
    after: Vec<u8>,
    change: impl FnOnce(&mut LaunchRecord),
) -> Archive {
    let mut archive = TestArchive::new();
    archive.allocation(1, base, before.len() as u64, AllocationKind::Device);
    let region = TestRegion::memory(1, base, before, after);
    archive.launch_with(&[region], |launch| {
        launch.unix_ns = NOW;
        change(launch);
    });
    archive.open()
}

fn report(a: &Archive, b: &Archive) -> Report {
    let side = |archive| Side::new(archive, LaunchId(1)).unwrap();
    examine(&side(a), &side(b)).unwrap()
}

/// Kinds before, and after.
fn kinds(report: &Report) -> (Vec<Kind>, Vec<Kind>) {
    let of = |moment| {
        let found = report.memory.iter().filter(|found| found.moment == moment);
        found.map(|found| found.look.kind).collect()
    };
    (of(Moment::Before), of(Moment::After))
}

fn says(report: &Report, words: &str) {
    let found = report.advice.iter().any(|advice| advice.contains(words));
    assert!(found, "{words}: {:#?}", report.advice);
}

#[test]
fn memory_that_lies_elsewhere_is_the_same() {
    // A list in a second allocation, which the first one points to, and which points to itself.
    let archive = |base: u64, next: u64| {
        let mut archive = TestArchive::new();
        archive.allocation(1, base, LEN as u64, AllocationKind::Device);
        archive.allocation(2, next, LEN as u64, AllocationKind::Device);
        let first = words((0..LEN as u64 / 8).map(|i| if i == 3 { next + 8 * i } else { i }));
        let second = words((0..LEN as u64 / 8).map(|i| if i % 2 == 0 { next + 8 * i } else { 7 }));
        let mut after = first.clone();
        after[LEN - 8..].copy_from_slice(&next.to_le_bytes());
        archive.launch(&[
            TestRegion::memory(1, base, first, after),
            TestRegion::memory(2, next, second.clone(), second),
        ]);
        archive.open()
    };
    let report = report(
        &archive(HERE, HERE + 0x10_0000),
        &archive(THERE, THERE + 0x50_0000),
    );
    assert!(report.same(), "{report:#?}");
    assert_eq!((report.regions, report.advice.len()), (2, 0));
}

#[test]
fn two_buffers_that_changed_places_are_not_the_same() {
    let archive = |turned: bool| {
        let mut archive = TestArchive::new();
        let at = [HERE, HERE + 0x10_0000];
        for (id, address) in (1..).zip(at) {
            archive.allocation(id, address, LEN as u64, AllocationKind::Device);
        }
        let own = words([at[0], at[usize::from(turned)], 9, 9]);
        archive.launch(&[
            TestRegion::memory(1, at[0], own.clone(), own),
            TestRegion::memory(2, at[1], random(2, 32), random(2, 32)),
        ]);
        archive.open()
    };
    let report = report(&archive(true), &archive(false));
    assert_eq!(kinds(&report).0, [Kind::Pointers]);
    assert_eq!(report.memory[0].first, Some(10));
}

#[test]
fn addresses_of_memory_that_was_not_recorded_look_like_addresses() {
    let of = |base: u64, elsewhere: u64| {
        let memory = words((0..8).map(|i| elsewhere + 0x100 * i));
        one(base, memory.clone(), memory)
    };
    let report = report(&of(HERE, HERE + 0x77_0000), &of(THERE, THERE + 0x99_0000));
    assert_eq!(kinds(&report).0, [Kind::Pointers]);
}

#[test]
fn random_numbers_make_themselves_known() {
    let of = |seed| one(HERE, random(seed, LEN), random(seed, LEN));
    let report = report(&of(1), &of(2));
    assert_eq!(kinds(&report), (vec![Kind::Random], vec![Kind::Random]));
    assert_eq!(report.memory[0].name, "arg0, alloc 1");
    assert!(report.memory[1].inherited);
}

#[test]
fn a_random_state_that_decides_results_is_named_with_what_to_do() {
    let of = |seed| {
        let mut after = random(seed, 2 * LEN);
        after[LEN..].copy_from_slice(&random(seed + 7, LEN));
        let mut before = random(seed, 2 * LEN);
        before[LEN..].fill(0);
        one(HERE, before, after)
    };
    let report = report(&of(1), &of(2));
    assert_eq!(kinds(&report).0, [Kind::Random]);
    says(&report, "fixed seed");
}

#[test]
fn a_time_in_memory_is_a_clock_in_its_unit() {
    let of = |unit: u64, more: u64| {
        let value = (NOW + more) / unit;
        let memory = words((0..64).map(|i| if i == 5 { value } else { i }));
        let mut after = memory.clone();
        after[80..88].copy_from_slice(&(value * 3).to_le_bytes());
        one(HERE, memory, after)
    };
    for (unit, name) in [
        (1, "nanoseconds"),
        (1_000_000, "milliseconds"),
        (1_000_000_000, "seconds"),
    ] {
        let report = report(&of(unit, 0), &of(unit, 7_000_000_000));
        assert_eq!(kinds(&report).0, [Kind::Clock]);
        assert_eq!(report.memory[0].look.unit, Some(name));
        assert_eq!(report.memory[0].first.map(|first| first / 8), Some(5));
        says(&report, "holds a time");
    }
}

#[test]
fn sums_in_another_order_are_roundings_and_tolerances_are_advised() {
    let before = floats(|i| i as f32);
    let sum = |more: f32| floats(move |i| (i as f32 + 1.0).sqrt() * (1.0 + more * (i % 3) as f32));
    let report = report(
        &one(HERE, before.clone(), sum(0.0)),
        &one(THERE, before, sum(3e-7)),
    );
    assert_eq!(kinds(&report), (vec![], vec![Kind::Rounding]));
    let relative = report.memory[0].look.relative.unwrap();
    assert!((1e-8..1e-5).contains(&relative), "{relative}");
    says(&report, "r3-replay noise");
}

#[test]
fn other_values_after_the_same_inputs_point_to_what_is_not_recorded() {
    let before = floats(|i| i as f32);
    let of = |factor: f32| {
        let before = before.clone();
        one(HERE, before, floats(|i| (i as f32).mul_add(factor, 1.0)))
    };
    let report = report(&of(2.0), &of(-5.0));
    assert_eq!(kinds(&report), (vec![], vec![Kind::Values]));
    assert!(report.same_inputs() && report.differs_after());
    says(&report, "--racecheck");
    says(&report, "--snapshot all");
}

#[test]
fn memory_that_nobody_wrote_and_that_does_not_matter_is_told_as_that() {
    // Scratch memory is garbage in one run and zero in the other, and the launch overwrites it.
    let after = floats(|i| i as f32);
    let report = report(
        &one(HERE, vec![0; LEN], after.clone()),
        &one(HERE, random(9, LEN), after),
    );
    assert_eq!(kinds(&report), (vec![Kind::Unwritten], vec![]));
    says(&report, "changes nothing that the launch writes");
}

#[test]
fn memory_that_nobody_wrote_and_that_matters_is_to_be_cleared() {
    let of = |garbage: Vec<u8>, result: u64| {
        let mut before = garbage;
        before.extend(words([1, 1]));
        let mut after = before.clone();
        after[LEN..].copy_from_slice(&words([result << 32, 1]));
        one(HERE, before, after)
    };
    let report = report(&of(vec![0xCD; LEN], 5), &of(random(4, LEN), 1 << 20));
    assert_eq!(kinds(&report).0, [Kind::Unwritten]);
    says(&report, "initcheck");
}

#[test]
fn arguments_shapes_and_code_are_named() {
    let memory = || words([1, 2, 3]);
    let plain = with(HERE, memory(), memory(), |_| {});
    let other = with(HERE, memory(), memory(), |launch| launch.grid = [9, 1, 1]);
    let found = report(&plain, &other);
    assert_eq!(found.settings[0].name, "grid");
    assert!(!found.same() && found.memory.is_empty());
    says(&found, "two different launches");
    let scalar = |value: u64| {
        with(HERE, memory(), memory(), |launch| {
            launch.params = value.to_le_bytes().to_vec();
            launch.pointers.clear();
        })
    };
    let found = report(&scalar(7), &scalar(8));
    let setting = &found.settings[0];
    assert_eq!((setting.name.as_str(), setting.a.as_str()), ("arg0", "7"));
    assert!(!setting.untracked);
    says(&found, "other arguments: arg0");
    // An address at which nothing is recorded.
    let found = report(&scalar(THERE + 0x1000), &scalar(THERE + 0x9000));
    assert!(found.settings[0].untracked);
    says(&found, "this is the memory to look for");
}

#[test]
fn memory_that_one_launch_has_alone_is_named() {
    let archive = |two: bool| {
        let mut archive = TestArchive::new();
        archive.allocation(1, HERE, 32, AllocationKind::Device);
        archive.allocation(2, THERE, 64, AllocationKind::Device);
        let mut regions = vec![TestRegion::memory(1, HERE, vec![1; 32], vec![1; 32])];
        if two {
            regions.push(TestRegion::memory(2, THERE, vec![2; 64], vec![2; 64]));
        }
        archive.launch(&regions);
        archive.open()
    };
    let found = report(&archive(true), &archive(false));
    assert_eq!(
        (found.alone[0].name.as_str(), found.alone[0].first),
        ("alloc 2", true)
    );
    says(&found, "with the first launch alone");
}

#[test]
fn a_variable_that_counts_launches_is_a_counter() {
    let of = |count: u32| {
        let mut archive = TestArchive::new();
        let bytes = |count: u32| count.to_le_bytes().to_vec();
        archive.launch(&[TestRegion {
            owner: RegionOwner::Global {
                module: ModuleId(1),
                name: "launches".to_owned(),
            },
            address: HERE,
            before: bytes(count),
            after: bytes(count + 1),
        }]);
        archive.open()
    };
    let found = report(&of(3), &of(12));
    assert_eq!(kinds(&found).0, [Kind::Counter]);
    assert_eq!(found.memory[0].name, "global launches");
}

#[test]
fn launches_are_found_again_by_kernel_shape_and_occurrence() {
    let archive = |grids: &[u32]| {
        let mut archive = TestArchive::new();
        for (index, grid) in (0u64..).zip(grids) {
            let earlier = grids.iter().take(index as usize);
            let occurrence = 1 + earlier.filter(|other| *other == grid).count() as u64;
            archive.launch_with(&[], |launch| {
                launch.grid = [*grid, 1, 1];
                launch.occurrence = occurrence;
            });
        }
        archive.open()
    };
    let found = pairs::launches(&archive(&[1, 2, 1, 3]), &archive(&[2, 1, 1, 4]));
    let ids = |ids: &[(u64, u64)]| -> Vec<(LaunchId, LaunchId)> {
        ids.iter()
            .map(|(a, b)| (LaunchId(*a), LaunchId(*b)))
            .collect()
    };
    assert_eq!(found.pairs, ids(&[(1, 2), (2, 1), (3, 3)]));
    assert_eq!(found.only_first, [LaunchId(4)]);
    assert_eq!(found.only_second, [LaunchId(4)]);
}

#[test]
fn regions_of_different_lengths_are_compared_as_far_as_both_go() {
    let of = |len: usize| one(HERE, vec![5; len], vec![5; len]);
    let found = report(&of(70_000), &of(66_000));
    assert_eq!(kinds(&found), (vec![Kind::Length], vec![]));
    assert_eq!(found.memory[0].lens, [70_000, 66_000]);
}
