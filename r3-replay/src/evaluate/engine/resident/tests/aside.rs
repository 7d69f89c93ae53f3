//! Other inputs, and how the recorded ones come back.

use super::*;

/// Gives a launch another input, judges the original and one that has the recorded result by heart, and goes back.
fn other_inputs(resident: &mut Resident<'_>, bounds: &[Bound; 2], key: u64) {
    let id = LaunchId(1);
    let edits = vec![edit(key + 13)];
    assert_eq!(resident.alter(id, edits, &Nobody).unwrap(), Ok(()));
    let [original, constant] = bounds;
    assert!(judge(resident, original, key + 1).is_right());
    assert!(!judge(resident, constant, key + 2).is_right());
    assert_eq!(resident.unalter(id).unwrap(), None);
}

fn edit(word: u64) -> Edit {
    Edit {
        region: 0,
        offset: 8,
        bytes: word.to_le_bytes().to_vec(),
    }
}

fn bed() -> (Archive, TestDevice) {
    let (archive, device) = sums();
    let device = device.with_kernel("constant", |memory, _| {
        memory.store(B, 42)?;
        memory.store(B + 8, 18)?;
        memory.store(B + 16, 101)?;
        memory.store(B + 24, 5)
    });
    (archive, device)
}

fn ready<'a>(
    archive: &'a Archive,
    device: &'a mut TestDevice,
    memory_budget: Option<u64>,
) -> (Resident<'a>, [Bound; 2]) {
    let options = ResidentOptions {
        memory_budget,
        ..options()
    };
    let mut resident = Resident::new(archive, device, options);
    resident.ready(LaunchId(1), &Nobody).unwrap();
    let original = bind(&mut resident, 1, None);
    let constant = bind(&mut resident, 1, Some(&other("constant")));
    (resident, [original, constant])
}

/// Both are right on what was recorded, and nothing that does nothing is.
fn as_recorded(resident: &mut Resident<'_>, bounds: &[Bound; 2]) {
    for (key, bound) in (100..).zip(bounds) {
        let judgement = judge(resident, bound, key);
        assert!(judgement.is_right(), "{judgement:?}");
        resident.reset(bound, key).unwrap();
        assert!(!resident.judgement(bound).unwrap().is_right());
    }
}

#[test]
fn recorded_inputs_come_back_without_the_archive_where_there_is_room() {
    let read = |rounds: u64, budget: Option<u64>| {
        let (archive, mut device) = bed();
        let (mut resident, bounds) = ready(&archive, &mut device, budget);
        for round in 0..rounds {
            other_inputs(&mut resident, &bounds, 10 * round);
            as_recorded(&mut resident, &bounds);
        }
        resident.clear().unwrap();
        assert_eq!(resident.kept_bytes(), 0);
        drop(resident);
        device.pieces.iter().sum::<usize>()
    };
    assert_eq!(read(1, None), read(4, None));
    // Without room they do, and from there.
    assert!(read(1, Some(1)) < read(4, Some(1)));
}

#[test]
fn what_is_put_aside_is_given_back_with_everything_else() {
    let (archive, mut device) = bed();
    let (mut resident, _) = ready(&archive, &mut device, None);
    let id = LaunchId(1);
    assert_eq!(resident.alter(id, vec![edit(7)], &Nobody).unwrap(), Ok(()));
    resident.clear().unwrap();
    assert_eq!(resident.kept_bytes(), 0);
}

#[test]
fn copies_that_were_put_aside_are_looked_at_before_they_are_used() {
    let (archive, mut device) = bed();
    let (mut resident, bounds) = ready(&archive, &mut device, None);
    let id = LaunchId(1);
    let mut places = 0;
    for place in 0.. {
        assert_eq!(resident.alter(id, vec![edit(7)], &Nobody).unwrap(), Ok(()));
        let altered = resident.launches[&id].altered.as_ref().unwrap();
        let addresses = altered.aside.as_ref().unwrap().addresses();
        let Some(address) = addresses.get(place) else {
            resident.unalter(id).unwrap();
            break;
        };
        // A candidate that finds them.
        resident.device().write(*address, &[0xab; 8]).unwrap();
        let told = resident.unalter(id).unwrap();
        assert!(told.is_some(), "copy {place} of {}", addresses.len());
        as_recorded(&mut resident, &bounds);
        places += 1;
    }
    assert!(places >= 3, "{places}");
}

#[test]
fn memory_that_was_changed_between_is_put_back() {
    let (archive, mut device) = bed();
    let (mut resident, bounds) = ready(&archive, &mut device, None);
    let id = LaunchId(1);
    assert_eq!(resident.alter(id, vec![edit(7)], &Nobody).unwrap(), Ok(()));
    // What no edit replaced, and nobody judged.
    resident.device().write(A, &9u64.to_le_bytes()).unwrap();
    assert!(resident.unalter(id).unwrap().is_some());
    as_recorded(&mut resident, &bounds);
    // A judgement sees it, too, and then it is told by that.
    assert_eq!(resident.alter(id, vec![edit(7)], &Nobody).unwrap(), Ok(()));
    let [original, _] = &bounds;
    resident.reset(original, 5).unwrap();
    resident.device().write(A, &9u64.to_le_bytes()).unwrap();
    resident.run(original).unwrap();
    assert!(!resident.judgement(original).unwrap().is_right());
    assert_eq!(resident.unalter(id).unwrap(), None);
    as_recorded(&mut resident, &bounds);
}

/// Adds one and what a variable holds to a word; a large word sets the variable.
const FLAG: &str = ".version 7.0\n.target sm_80\n.address_size 64\n\
    .visible .global .align 8 .u64 flag;\n\
    .visible .entry kernel(.param .u64 kernel_param_0)\n{\n\
    .reg .b64 %p, %x, %y, %s;\n.reg .pred %q;\n\
    ld.param.u64 %p, [kernel_param_0];\nld.global.u64 %x, [%p];\n\
    mov.u64 %s, flag;\nld.global.u64 %y, [%s];\nadd.u64 %y, %y, %x;\nadd.u64 %y, %y, 1;\n\
    st.global.u64 [%p+8], %y;\nsetp.gt.u64 %q, %x, 100;\nmov.u64 %y, 1;\n\
    @%q st.global.u64 [%s], %y;\nret;\n}\n";

#[test]
fn variables_that_change_with_some_inputs_only_begin_anew_with_all() {
    for (recorded, other) in [(30u64, 200u64), (200, 30)] {
        let kind = r3_archive::model::ImageKind::Ptx;
        let mut archive = TestArchive::with_code(FLAG.as_bytes(), kind);
        archive.allocation(1, A, 16, AllocationKind::Device);
        let flag = TestRegion {
            owner: r3_archive::model::RegionOwner::Global {
                module: r3_archive::model::ModuleId(1),
                name: "flag".to_owned(),
            },
            address: 0x7f20_0000_0000,
            before: words(&[0]),
            after: words(&[u64::from(recorded > 100)]),
        };
        let (before, after) = (words(&[recorded, 0]), words(&[recorded, recorded + 1]));
        archive.launch(&[TestRegion::memory(1, A, before, after), flag]);
        let archive = archive.open();
        let mut device = cpu();
        let mut resident = Resident::new(&archive, &mut device, options());
        let id = LaunchId(1);
        let facts = resident.ready(id, &Nobody).unwrap();
        assert_eq!(facts.unusable, None);
        let image = Image {
            name: "kernel".to_owned(),
            bytes: FLAG.as_bytes().to_vec(),
            form: crate::code::Form::Ptx(80),
        };
        let bounds = [
            bind(&mut resident, 1, None),
            bind(&mut resident, 1, Some(&image)),
        ];
        let right = |resident: &mut Resident<'_>, key: u64| {
            for bound in &bounds {
                let judgement = judge(resident, bound, key);
                assert!(judgement.is_right(), "{recorded}, {key}: {judgement:?}");
            }
        };
        for round in 0..2 {
            right(&mut resident, 10 * round + 1);
            let edit = Edit {
                region: 0,
                offset: 0,
                bytes: other.to_le_bytes().to_vec(),
            };
            assert_eq!(resident.alter(id, vec![edit], &Nobody).unwrap(), Ok(()));
            right(&mut resident, 10 * round + 2);
            assert_eq!(resident.unalter(id).unwrap(), None);
        }
        right(&mut resident, 100);
    }
}
