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
