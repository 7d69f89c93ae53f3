use std::time::Duration;

use r3_archive::chunk::CHUNK_SIZE;
use r3_archive::model::AllocationKind;

use super::*;
use crate::device::cpu::{CpuDevice, CpuOptions};
use crate::testing::{TestArchive, TestDevice, TestRegion};

mod aside;
mod masks;
mod samples;

const A: u64 = 0x7f12_3460_0000;
const B: u64 = 0x7f12_3480_0000;

pub(super) struct Nobody;

impl Watch for Nobody {
    fn within(&self, _: Duration, _: &str) {}
    fn idle(&self) {}
}

fn options() -> ResidentOptions {
    ResidentOptions {
        seed: Some(7),
        ..ResidentOptions::default()
    }
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn recorded(resident: &Resident<'_>, launch: u64) -> Shape {
    let record = &resident.facts(LaunchId(launch)).unwrap().record;
    Shape {
        grid: record.grid,
        block: record.block,
        dynamic_shared: record.dynamic_shared,
        carveout: None,
    }
}

fn bind(resident: &mut Resident<'_>, launch: u64, code: Option<&Image>) -> Bound {
    let shape = recorded(resident, launch);
    resident.bind(LaunchId(launch), code, &shape).unwrap()
}

/// The closure kernel `name` of a test device.
fn other(name: &str) -> Image {
    Image {
        name: name.to_owned(),
        bytes: b"other".to_vec(),
        form: crate::code::Form::Ptx(50),
    }
}

fn judge(resident: &mut Resident<'_>, bound: &Bound, key: u64) -> Judgement {
    resident.reset(bound, key).unwrap();
    resident.run(bound).unwrap();
    resident.judgement(bound).unwrap()
}

/// Two words become their sum and their difference elsewhere; a third word there is added to; a fourth is written with
/// what is there already.
fn sums() -> (Archive, TestDevice) {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.allocation(2, B, 40, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[30, 12]), words(&[30, 12])),
        TestRegion::memory(2, B, words(&[1, 1, 100, 5, 9]), words(&[42, 18, 101, 5, 9])),
    ]);
    let device = TestDevice::new().with_kernel("kernel", |memory, _| {
        let (x, y) = (memory.load(A)?, memory.load(A + 8)?);
        memory.store(B, x.wrapping_add(y))?;
        memory.store(B + 8, x.wrapping_sub(y))?;
        let count = memory.load(B + 16)?;
        memory.store(B + 16, count.wrapping_add(1))?;
        memory.store(B + 24, 5)
    });
    (archive.open(), device)
}

#[test]
fn what_is_written_and_what_is_added_to_and_what_is_read_are_told_apart() {
    let (archive, mut device) = sums();
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!(facts.unusable, None);
    assert!(
        facts.deterministic && facts.as_recorded,
        "{:?}",
        facts.notes
    );
    // Three words are written and nothing in their buffer decides them, one of them with what was there.
    assert_eq!(facts.written, 24);
    assert_eq!(facts.changed_outside, 1, "100 becomes 101");
    let classes: Vec<_> = facts.buffers.iter().map(|buffer| buffer.class).collect();
    assert_eq!(classes, [BufferClass::Input, BufferClass::Written]);
    let bound = bind(&mut resident, 1, None);
    for key in 0..100 {
        let judgement = judge(&mut resident, &bound, key);
        assert!(judgement.is_right(), "{judgement:?}");
        assert_eq!(judgement.bytes, 0);
    }
    resident.unbind(bound).unwrap();
}

#[test]
fn a_kernel_that_does_nothing_or_leaves_something_out_is_wrong() {
    let (archive, device) = sums();
    let mut device = device.with_kernel("nothing", |_, _| Ok(())).with_kernel(
        "all but the word that is there already",
        |memory, _| {
            memory.store(B, 42)?;
            memory.store(B + 8, 18)?;
            memory.store(B + 16, 101)
        },
    );
    let mut resident = Resident::new(&archive, &mut device, options());
    resident.ready(LaunchId(1), &Nobody).unwrap();
    for name in ["nothing", "all but the word that is there already"] {
        let bound = bind(&mut resident, 1, Some(&other(name)));
        let judgement = judge(&mut resident, &bound, 3);
        assert!(
            !judgement.is_right() && !judgement.is_cheat(),
            "{judgement:?}"
        );
        let worst = judgement.worst.unwrap();
        assert_eq!(worst.buffer, "alloc 2");
        resident.unbind(bound).unwrap();
        // The original sees nothing of it.
        let bound = bind(&mut resident, 1, None);
        assert!(judge(&mut resident, &bound, 4).is_right());
        resident.unbind(bound).unwrap();
    }
}

#[test]
fn one_byte_too_much_is_seen_wherever_it_is() {
    let (archive, device) = sums();
    let places = [
        ("in what is read", A + 3),
        ("behind what is read", A + 16),
        ("in what is left alone of an output", B + 39),
        ("behind an output", B + 40),
        ("far behind, in memory that was not recorded", A + (1 << 20)),
        ("just before an output", B - 1),
    ];
    let mut device = device;
    for (name, address) in places {
        device = device.with_kernel(name, move |memory, _| {
            memory.store(B, 42)?;
            memory.store(B + 8, 18)?;
            memory.store(B + 16, 101)?;
            memory.store(B + 24, 5)?;
            let start = address / 8 * 8;
            let word = memory.load(start)?;
            memory.store(start, word ^ 1 << (8 * (address - start)))
        });
    }
    let mut resident = Resident::new(&archive, &mut device, options());
    resident.ready(LaunchId(1), &Nobody).unwrap();
    for (name, _) in places {
        let bound = bind(&mut resident, 1, Some(&other(name)));
        let judgement = judge(&mut resident, &bound, 5);
        assert!(!judgement.is_right(), "{name}: {judgement:?}");
        let outside = name.contains("behind") || name.contains("before");
        assert_eq!(judgement.is_cheat(), outside, "{name}: {judgement:?}");
        assert!(judgement.reason().is_some());
        resident.unbind(bound).unwrap();
        let bound = bind(&mut resident, 1, None);
        let after = judge(&mut resident, &bound, 6);
        assert!(after.is_right(), "after {name}: {after:?}");
        resident.unbind(bound).unwrap();
    }
}

#[test]
fn a_copy_that_was_written_to_costs_its_writer_and_nobody_else() {
    let (archive, device) = sums();
    // Everything that is neither recorded nor mapped for it: the copies, which no candidate can know the place of.
    let mut device = device.with_kernel("vandal", |memory, _| {
        memory.store(B, 42)?;
        memory.store(B + 8, 18)?;
        memory.store(B + 16, 101)?;
        memory.store(B + 24, 5)?;
        for address in (0x10_0000_0000u64..0x10_0010_0000).step_by(8) {
            if let Ok(word) = memory.load(address) {
                memory.store(address, !word)?;
            }
        }
        Ok(())
    });
    let mut resident = Resident::new(&archive, &mut device, options());
    resident.ready(LaunchId(1), &Nobody).unwrap();
    let original = bind(&mut resident, 1, None);
    let bound = bind(&mut resident, 1, Some(&other("vandal")));
    let judgement = judge(&mut resident, &bound, 5);
    assert!(judgement.checksums.is_some() && judgement.is_cheat());
    resident.unbind(bound).unwrap();
    for key in 10..13 {
        let after = judge(&mut resident, &original, key);
        assert!(after.is_right(), "{after:?}");
    }
}

#[test]
fn nothing_right_lies_about_after_a_reset() {
    let (archive, mut device) = sums();
    let mut resident = Resident::new(&archive, &mut device, options());
    resident.ready(LaunchId(1), &Nobody).unwrap();
    let bound = bind(&mut resident, 1, None);
    assert!(judge(&mut resident, &bound, 1).is_right());
    resident.reset(&bound, 2).unwrap();
    let mut found = vec![0; 40];
    let _ = resident;
    device.read(B, &mut found).unwrap();
    let right = words(&[42, 18, 101, 5, 9]);
    for (at, (now, right)) in found.iter().zip(&right).enumerate().take(16) {
        // A poisoned byte is right by chance once in 256 times; these are not, with this seed.
        assert_ne!(now, right, "byte {at}");
    }
    assert_eq!(found[16], 100);
}

#[test]
fn a_launch_that_writes_nothing_is_unusable() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.launch(&[TestRegion::memory(1, A, words(&[1, 2]), words(&[1, 2]))]);
    let archive = archive.open();
    let mut device = TestDevice::new().with_kernel("kernel", |memory, _| memory.load(A).map(drop));
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert!(
        facts.unusable.as_ref().unwrap().contains("does nothing"),
        "{facts:?}"
    );
    assert!(matches!(
        resident.bind(LaunchId(1), None, &recorded_of(&facts)),
        Err(Trouble::Machine(_))
    ));
}

#[test]
fn a_launch_that_writes_what_is_there_already_is_usable() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.launch(&[TestRegion::memory(1, A, words(&[1, 2]), words(&[1, 2]))]);
    let archive = archive.open();
    let mut device = TestDevice::new().with_kernel("kernel", |memory, _| memory.store(A + 8, 2));
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!((facts.unusable.clone(), facts.written), (None, 8));
}

fn recorded_of(facts: &Facts) -> Shape {
    Shape {
        grid: facts.record.grid,
        block: facts.record.block,
        dynamic_shared: facts.record.dynamic_shared,
        carveout: None,
    }
}

/// Launches at the same addresses with other contents, some of them in memory that others do not have.
fn several() -> (Archive, TestDevice, Vec<u64>) {
    let mut archive = TestArchive::new();
    let len = 3 * CHUNK_SIZE + 64;
    archive.allocation(1, A, 64, AllocationKind::Device);
    archive.allocation(2, B, len as u64, AllocationKind::Device);
    archive.allocation(3, B + (4 << 20), 64, AllocationKind::Device);
    let mut launches = Vec::new();
    for n in 1..=6u64 {
        let mut large = vec![0u8; len];
        // Contents that some launches share, and zeros that others have there.
        for (chunk, bytes) in large.chunks_mut(CHUNK_SIZE).enumerate() {
            if !(n + chunk as u64).is_multiple_of(3) {
                bytes.fill((n % 2) as u8 + chunk as u8);
            }
        }
        let first = u64::from_le_bytes(large[..8].try_into().unwrap());
        let last = u64::from_le_bytes(large[len - 8..].try_into().unwrap());
        let mut after = large.clone();
        after[CHUNK_SIZE..CHUNK_SIZE + 8].copy_from_slice(&(first + n).to_le_bytes());
        let before = words(&[n, 0, 0, 0, 0, 0, 0, 0]);
        let small = words(&[n, first ^ last, 0, 0, 0, 0, 0, 0]);
        let mut regions = vec![
            TestRegion::memory(1, A, before, small),
            TestRegion::memory(2, B, large, after),
        ];
        if n % 2 == 0 {
            let same = words(&[n; 8]);
            regions.push(TestRegion::memory(3, B + (4 << 20), same.clone(), same));
        }
        launches.push(archive.launch(&regions).0);
    }
    let device = TestDevice::new().with_kernel("kernel", move |memory, _| {
        let n = memory.load(A)?;
        let (first, last) = (memory.load(B)?, memory.load(B + len as u64 - 8)?);
        memory.store(A + 8, first ^ last)?;
        memory.store(B + CHUNK_SIZE as u64, first + n)
    });
    (archive.open(), device, launches)
}

#[test]
fn switching_launches_under_any_budget_gives_what_a_fresh_restore_gives() {
    for (memory_budget, host_budget) in [(None, 1 << 30), (Some(1), 1 << 30), (Some(1), 0)] {
        let (archive, mut device, launches) = several();
        let how = ResidentOptions {
            memory_budget,
            host_budget,
            ..options()
        };
        let mut resident = Resident::new(&archive, &mut device, how);
        resident
            .reserve(launches.iter().map(|id| LaunchId(*id)))
            .unwrap();
        for launch in &launches {
            let facts = resident.ready(LaunchId(*launch), &Nobody).unwrap();
            assert_eq!(facts.unusable, None);
        }
        let bounds: Vec<Bound> = launches
            .iter()
            .map(|launch| bind(&mut resident, *launch, None))
            .collect();
        let mut seed = 5;
        for key in 0..40 {
            seed = (seed * 5 + 3) % 64;
            let bound = &bounds[seed % bounds.len()];
            let judgement = judge(&mut resident, bound, key);
            assert!(judgement.is_right(), "{:?}: {judgement:?}", bound.launch());
        }
        // The memory of another launch is in place for the next: it must be reset first.
        let present = resident.live.as_ref().unwrap().launch;
        let absent = bounds.iter().find(|b| b.launch() != present).unwrap();
        assert!(matches!(resident.run(absent), Err(Trouble::Machine(_))));
        assert!(matches!(
            resident.judgement(absent),
            Err(Trouble::Machine(_))
        ));
        let kept = resident.kept_bytes();
        for bound in bounds {
            resident.unbind(bound).unwrap();
        }
        if memory_budget.is_some() {
            // One launch's copies, and no more.
            assert!(kept < 600_000, "{kept}");
        }
        resident.clear().unwrap();
        assert_eq!(resident.kept_bytes(), 0);
    }
}

#[test]
fn other_inputs_are_judged_by_the_original_and_the_recorded_ones_come_back() {
    let (archive, device) = sums();
    let mut device = device.with_kernel("constant", |memory, _| {
        memory.store(B, 42)?;
        memory.store(B + 8, 18)?;
        memory.store(B + 16, 101)?;
        memory.store(B + 24, 5)
    });
    let mut resident = Resident::new(&archive, &mut device, options());
    let id = LaunchId(1);
    resident.ready(id, &Nobody).unwrap();
    let constant = bind(&mut resident, 1, Some(&other("constant")));
    let original = bind(&mut resident, 1, None);
    assert!(judge(&mut resident, &constant, 1).is_right());
    let mut word = [0; 8];
    resident.read_before(id, 0, 8, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 12);
    let edit = Edit {
        region: 0,
        offset: 8,
        bytes: 13u64.to_le_bytes().to_vec(),
    };
    assert_eq!(resident.alter(id, vec![edit], &Nobody).unwrap(), Ok(()));
    resident.read_expected(id, 1, 0, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 43);
    assert!(judge(&mut resident, &original, 2).is_right());
    let judgement = judge(&mut resident, &constant, 3);
    assert_eq!(judgement.out, 2, "sum and difference: {judgement:?}");
    resident.unalter(id).unwrap();
    for (key, bound) in [(4, &constant), (5, &original)] {
        let judgement = judge(&mut resident, bound, key);
        assert!(judgement.is_right(), "{judgement:?}");
    }
}

#[test]
fn other_inputs_are_not_based_on_what_a_candidate_left_that_nobody_judged() {
    let (archive, device) = sums();
    let mut device = device.with_kernel("stray", |memory, _| memory.store(A, 1));
    let mut resident = Resident::new(&archive, &mut device, options());
    let id = LaunchId(1);
    resident.ready(id, &Nobody).unwrap();
    let stray = bind(&mut resident, 1, Some(&other("stray")));
    for look in [true, false] {
        resident.reset(&stray, 1).unwrap();
        resident.run(&stray).unwrap();
        if look {
            assert!(resident.inspect().unwrap().is_some());
            assert_eq!(resident.inspect().unwrap(), None, "it is told once");
        }
        let edit = Edit {
            region: 0,
            offset: 8,
            bytes: 13u64.to_le_bytes().to_vec(),
        };
        assert_eq!(resident.alter(id, vec![edit], &Nobody).unwrap(), Ok(()));
        let mut word = [0; 8];
        resident.read_expected(id, 1, 0, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 43, "30 and 13");
        resident.unalter(id).unwrap();
    }
}

#[test]
fn launches_that_take_turns_are_not_read_from_the_archive_again() {
    let read = |rounds: u64| {
        let (archive, mut device, launches) = several();
        let mut resident = Resident::new(&archive, &mut device, options());
        resident
            .reserve(launches.iter().map(|id| LaunchId(*id)))
            .unwrap();
        let mut bounds = Vec::new();
        for launch in &launches {
            resident.ready(LaunchId(*launch), &Nobody).unwrap();
            bounds.push(bind(&mut resident, *launch, None));
        }
        for key in 0..rounds {
            for bound in &bounds {
                assert!(judge(&mut resident, bound, key + 1).is_right());
            }
        }
        drop(resident);
        device.pieces.iter().sum::<usize>()
    };
    assert_eq!(read(2), read(4));
}

#[test]
fn what_was_found_out_is_remembered_and_tried_before_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Rc::new(Cell::new(0));
    let (archive, _) = sums();
    let ready = |also: u64| {
        let count = Rc::clone(&runs);
        let mut device = TestDevice::new().with_kernel("kernel", move |memory, _| {
            count.set(count.get() + 1);
            let (x, y) = (memory.load(A)?, memory.load(A + 8)?);
            memory.store(B, x.wrapping_add(y))?;
            memory.store(B + 8, x.wrapping_sub(y))?;
            let sum = memory.load(B + 16)?;
            memory.store(B + 16, sum.wrapping_add(1))?;
            // What was written with what was there already now depends on it, on another device.
            let word = memory.load(B + 24)?;
            memory.store(B + 24, if also == 0 { 5 } else { word })
        });
        let how = ResidentOptions {
            profiles: Some(folder.path().to_owned()),
            ..options()
        };
        let mut resident = Resident::new(&archive, &mut device, how);
        runs.set(0);
        let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
        assert_eq!(facts.unusable, None);
        let ran = runs.get();
        let bound = bind(&mut resident, 1, None);
        assert!(judge(&mut resident, &bound, 1).is_right());
        (facts.written, ran)
    };
    let (written, first) = ready(0);
    assert_eq!(written, 24);
    let (written, again) = ready(0);
    assert_eq!((written, again), (24, 4), "and {first} at first");
    assert!(first > 10);
    let (written, _) = ready(1);
    assert_eq!(written, 16, "what does not stand is found out anew");
}

#[test]
fn memory_does_not_grow_while_code_comes_and_goes() {
    let archive = masks::copying();
    let mut device = cpu();
    let mut resident = Resident::new(&archive, &mut device, options());
    resident.ready(LaunchId(1), &Nobody).unwrap();
    let mut free = Vec::new();
    for cycle in 0..1000 {
        let bound = bind(&mut resident, 1, None);
        assert!(judge(&mut resident, &bound, cycle + 1).is_right());
        resident.unbind(bound).unwrap();
        if cycle == 10 || cycle == 999 {
            free.push((
                resident.device().free_memory().unwrap(),
                resident.kept_bytes(),
            ));
        }
    }
    assert_eq!(free[0], free[1]);
}

#[test]
fn a_buffer_whose_poison_lost_the_device_is_named_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.allocation(2, B, 16, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[1, 2]), words(&[1, 2])),
        TestRegion::memory(2, B, words(&[0, 0]), words(&[2, 0])),
    ]);
    let archive = archive.open();
    let ready = || {
        let mut device = TestDevice::new().with_kernel("kernel", |memory, _| {
            // An index that leads out of memory when it is not what it was.
            let index = memory.load(A)?;
            let value = memory.load(A.wrapping_add(index.wrapping_mul(8)))?;
            memory.store(B, value)
        });
        let how = ResidentOptions {
            profiles: Some(folder.path().to_owned()),
            ..options()
        };
        let mut resident = Resident::new(&archive, &mut device, how);
        resident.ready(LaunchId(1), &Nobody)
    };
    let Err(Trouble::Lost(lost)) = ready() else {
        panic!("it does not stop");
    };
    assert_eq!(lost.poisoned, Some((LaunchId(1), "arg0".to_owned())));
    assert!(!lost.by_candidate);
    let facts = ready().unwrap();
    assert_eq!((facts.unusable.clone(), facts.written), (None, 8));
    assert_eq!(facts.buffers[0].class, BufferClass::Input);
}

#[test]
fn a_watch_is_told_which_buffer_is_poisoned() {
    struct Told(std::cell::RefCell<Vec<String>>);
    impl Watch for Told {
        fn within(&self, _: Duration, what: &str) {
            self.0.borrow_mut().push(what.to_owned());
        }
        fn idle(&self) {}
    }
    let (archive, mut device) = sums();
    let mut resident = Resident::new(&archive, &mut device, options());
    let told = Told(Default::default());
    resident.ready(LaunchId(1), &told).unwrap();
    let found: std::collections::BTreeSet<_> = told
        .0
        .borrow()
        .iter()
        .filter_map(|what| poisoned_buffer(what))
        .collect();
    let names = ["alloc 2", "arg0"].map(|name| (LaunchId(1), name.to_owned()));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), names);
}

#[test]
fn a_buffer_that_is_left_out_is_not_poisoned() {
    let (archive, mut device) = sums();
    let how = ResidentOptions {
        leave_out: vec![(LaunchId(1), "alloc 2".to_owned())],
        ..options()
    };
    let mut resident = Resident::new(&archive, &mut device, how);
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!((facts.unusable.clone(), facts.written), (None, 0));
    assert!(facts.notes.iter().any(|note| note.contains("alloc 2")));
    let bound = bind(&mut resident, 1, None);
    assert!(judge(&mut resident, &bound, 1).is_right());
}

#[test]
fn what_a_candidate_did_unjudged_costs_the_next_one_nothing() {
    let (archive, device) = sums();
    let mut device = device.with_kernel("stray", |memory, _| memory.store(A, 1));
    let mut resident = Resident::new(&archive, &mut device, options());
    resident.ready(LaunchId(1), &Nobody).unwrap();
    let original = bind(&mut resident, 1, None);
    let stray = bind(&mut resident, 1, Some(&other("stray")));
    resident.reset(&stray, 1).unwrap();
    resident.run_timed(&stray).unwrap();
    resident.unbind(stray).unwrap();
    let judgement = judge(&mut resident, &original, 2);
    assert!(judgement.is_right(), "{judgement:?}");
}

#[test]
fn what_the_original_leaves_here_counts_when_it_is_not_what_was_recorded() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.launch(&[TestRegion::memory(1, A, words(&[1, 2]), words(&[7, 2]))]);
    let archive = archive.open();
    let mut device = TestDevice::new()
        .with_kernel("kernel", |memory, _| memory.store(A, 8))
        .with_kernel("as recorded", |memory, _| memory.store(A, 7));
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert!(facts.deterministic && !facts.as_recorded);
    assert!(
        facts
            .notes
            .iter()
            .any(|note| note.contains("other bytes here"))
    );
    let original = bind(&mut resident, 1, None);
    let recorded = bind(&mut resident, 1, Some(&other("as recorded")));
    assert!(judge(&mut resident, &original, 1).is_right());
    assert_eq!(judge(&mut resident, &recorded, 2).out, 1);
}

#[test]
fn an_original_that_varies_is_compared_with_its_own_spread() {
    let floats = |values: [f32; 4]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    let (before, after) = (
        floats([0.0, 2.0, 3.0, 4.0]),
        floats([1000.0, 2.0, 3.0, 4.0]),
    );
    archive.launch(&[TestRegion::memory(1, A, before, after)]);
    let archive = archive.open();
    let run = Cell::new(0u32);
    let sum = |memory: &mut crate::testing::Memory, value: f32| {
        let word = u64::from(2f32.to_bits()) << 32 | u64::from(value.to_bits());
        memory.store(A, word)
    };
    let mut device = TestDevice::new()
        .with_kernel("kernel", move |memory, _| {
            run.set(run.get() + 1);
            sum(memory, f32::from_bits(1000f32.to_bits() + run.get() % 3))
        })
        .with_kernel("nearly", move |memory, _| {
            sum(memory, f32::from_bits(1000f32.to_bits() + 2))
        })
        .with_kernel("far off", move |memory, _| sum(memory, 1000.1));
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!(facts.unusable, None);
    assert!(!facts.deterministic && !facts.buffers[0].tolerance.is_exact());
    let original = bind(&mut resident, 1, None);
    for key in 1..20 {
        assert!(judge(&mut resident, &original, key).is_right());
    }
    let nearly = bind(&mut resident, 1, Some(&other("nearly")));
    assert!(judge(&mut resident, &nearly, 30).is_right());
    let far = bind(&mut resident, 1, Some(&other("far off")));
    assert_eq!(judge(&mut resident, &far, 31).out, 1);
}

#[test]
fn an_original_that_varies_more_than_its_first_runs_showed_is_run_more_often() {
    let floats = |value: f32| [value.to_le_bytes(), 2f32.to_le_bytes()].concat();
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 8, AllocationKind::Device);
    archive.launch(&[TestRegion::memory(1, A, floats(0.0), floats(1000.0))]);
    let archive = archive.open();
    // Atomics that come in almost the same order at first.
    let run = Cell::new(0u32);
    let mut device = TestDevice::new().with_kernel("kernel", move |memory, _| {
        run.set(run.get() + 1);
        let off = match run.get() {
            late if late > 10 && late.is_multiple_of(3) => 500,
            run => run % 2,
        };
        let value = 1000f32.to_bits() + off;
        memory.store(A, (u64::from(2f32.to_bits()) << 32) | u64::from(value))
    });
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!(facts.unusable, None);
    let told = |note: &&String| note.contains("varies from run to run");
    assert_eq!(facts.notes.iter().filter(told).count(), 1, "{facts:?}");
    let original = bind(&mut resident, 1, None);
    for key in 1..20 {
        assert!(judge(&mut resident, &original, key).is_right());
    }
}

#[test]
fn within_a_tolerance_is_what_the_launch_writes_and_not_what_it_leaves_alone() {
    let floats = |values: [f32; 4]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.allocation(2, B, 16, AllocationKind::Device);
    let (x, y) = (floats([1.0, 2.0, 3.0, 4.0]), floats([5.0, 6.0, 7.0, 8.0]));
    archive.launch(&[
        TestRegion::memory(1, A, x.clone(), x),
        TestRegion::memory(2, B, y, floats([5.0, 6.0, 1.5, 2.5])),
    ]);
    let archive = archive.open();
    let half = |memory: &mut crate::testing::Memory, more: u32| {
        let word = memory.load(A)?;
        let half = |bits: u64| u64::from((f32::from_bits(bits as u32) + 0.5).to_bits() + more);
        memory.store(B + 8, half(word & 0xffff_ffff) | half(word >> 32) << 32)
    };
    let mut device = TestDevice::new()
        .with_kernel("kernel", move |memory, _| half(memory, 0))
        .with_kernel("nearly", move |memory, _| half(memory, 1))
        .with_kernel("elsewhere", move |memory, _| {
            half(memory, 1)?;
            let word = memory.load(B)?;
            memory.store(B, word + 1)
        });
    let mut tolerances = Tolerances::exact();
    let rule = crate::compare::BufferRule {
        element: crate::compare::ElementType::F32,
        relative: 1e-5,
        ..Default::default()
    };
    tolerances.add(rule).unwrap();
    let how = ResidentOptions {
        tolerances,
        ..options()
    };
    let mut resident = Resident::new(&archive, &mut device, how);
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!((facts.unusable.clone(), facts.written), (None, 8));
    let nearly = bind(&mut resident, 1, Some(&other("nearly")));
    let judgement = judge(&mut resident, &nearly, 1);
    assert!(
        judgement.is_right() && judgement.within == 2,
        "{judgement:?}"
    );
    let elsewhere = bind(&mut resident, 1, Some(&other("elsewhere")));
    let judgement = judge(&mut resident, &elsewhere, 2);
    assert_eq!(judgement.out, 0);
    assert!(!judgement.is_right() && !judgement.is_cheat());
    assert!(judgement.reason().unwrap().contains("1 bytes of alloc 2"));
    assert!(judge(&mut resident, &nearly, 3).is_right());
}

#[test]
fn an_original_that_writes_beyond_what_was_recorded_is_not_judged_there() {
    let mut archive = TestArchive::new();
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.allocation(2, B, 16, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[1, 2]), words(&[1, 3])),
        TestRegion::memory(2, B, words(&[1, 2]), words(&[1, 2])),
    ]);
    let archive = archive.open();
    let mut device = TestDevice::new()
        .with_kernel("kernel", |memory, _| {
            memory.store(A + 8, 3)?;
            memory.store(A + 4096, 3)
        })
        .with_kernel("behind another", |memory, _| {
            memory.store(A + 8, 3)?;
            memory.store(B + 4096, 3)
        });
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!(facts.unusable, None);
    assert!(facts.notes.iter().any(|note| note.contains("not recorded")));
    let original = bind(&mut resident, 1, None);
    assert!(judge(&mut resident, &original, 1).is_right());
    let other = bind(&mut resident, 1, Some(&other("behind another")));
    assert!(judge(&mut resident, &other, 2).is_cheat());
}

/// A module with a variable that does not fit into constant memory, one that does, and a pointer to the first in
/// memory.
const VARIABLES: &str = ".version 7.0\n.target sm_80\n.address_size 64\n\
    .visible .global .align 8 .b8 large[131072];\n.visible .global .align 8 .u64 small;\n\
    .visible .entry kernel(.param .u64 kernel_param_0)\n{\n\
    .reg .b64 %p, %l, %x, %y, %s;\n\
    ld.param.u64 %p, [kernel_param_0];\nld.global.u64 %l, [%p];\n\
    ld.global.u64 %x, [%l+131064];\nmov.u64 %s, small;\nld.global.u64 %y, [%s];\n\
    add.u64 %x, %x, %y;\nst.global.u64 [%l+8], %x;\nst.global.u64 [%s], %x;\n\
    add.u64 %l, %l, 16;\nst.global.u64 [%p+8], %l;\nret;\n}\n";

#[test]
fn variables_are_restored_and_compared_wherever_each_code_has_them() {
    let large = 0x7f20_0000_0000u64;
    let small = 0x7f20_0100_0000u64;
    let variable = |name: &str, address, before, after| TestRegion {
        owner: r3_archive::model::RegionOwner::Global {
            module: r3_archive::model::ModuleId(1),
            name: name.to_owned(),
        },
        address,
        before,
        after,
    };
    let mut before = vec![3u8; 131_072];
    before[131_064..].copy_from_slice(&30u64.to_le_bytes());
    let mut after = before.clone();
    after[8..16].copy_from_slice(&42u64.to_le_bytes());
    let kind = r3_archive::model::ImageKind::Ptx;
    let mut archive = TestArchive::with_code(VARIABLES.as_bytes(), kind);
    archive.allocation(1, A, 16, AllocationKind::Device);
    archive.launch(&[
        TestRegion::memory(1, A, words(&[large, 0]), words(&[large, large + 16])),
        variable("large", large, before, after),
        variable("small", small, words(&[12]), words(&[42])),
    ]);
    let archive = archive.open();
    let mut device = cpu();
    let mut resident = Resident::new(&archive, &mut device, options());
    let facts = resident.ready(LaunchId(1), &Nobody).unwrap();
    assert_eq!(facts.unusable, None);
    assert!(facts.as_recorded, "{:?}", facts.notes);
    let image = |text: String| Image {
        name: "kernel".to_owned(),
        bytes: text.into_bytes(),
        form: crate::code::Form::Ptx(80),
    };
    // The first has the recorded addresses, the others have not.
    let bounds = [
        bind(&mut resident, 1, None),
        bind(&mut resident, 1, None),
        bind(&mut resident, 1, Some(&image(VARIABLES.to_owned()))),
    ];
    for key in 0..30 {
        let judgement = judge(&mut resident, &bounds[key % 3], key as u64 + 1);
        assert!(judgement.is_right(), "{judgement:?}");
    }
    let wrongs = [
        ("add.u64 %x, %x, %y;", "add.u64 %x, %x, 0;"),
        ("st.global.u64 [%s], %x;", ""),
        ("st.global.u64 [%l+8], %x;", ""),
        (
            "st.global.u64 [%l+8], %x;",
            "st.global.u64 [%l+8], %x;st.global.u64 [%l+80000], %x;",
        ),
        ("add.u64 %l, %l, 16;", "add.u64 %l, %l, 24;"),
    ];
    for (right, wrong) in wrongs {
        let text = VARIABLES.replace(right, wrong);
        assert_ne!(text, VARIABLES);
        let bound = bind(&mut resident, 1, Some(&image(text)));
        let judgement = judge(&mut resident, &bound, 50);
        assert!(!judgement.is_right(), "{wrong}");
        resident.unbind(bound).unwrap();
        assert!(judge(&mut resident, &bounds[0], 51).is_right());
    }
}

fn cpu() -> CpuDevice {
    let options = CpuOptions {
        threads: 1,
        ..CpuOptions::default()
    };
    CpuDevice::new(options, Box::new(|_| ()))
}
