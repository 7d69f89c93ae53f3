//! A kernel of R3's own reads memory of the program only while that is there, and only where the device
//! may access it: anything else would end the program's context.

use r3_tests::{Bed, End, recorded_by_kernel, same_with_r3};

/// Another thread frees memory that a launch could reach while that launch is recorded.
#[test]
fn memory_that_is_freed_during_a_launch_is_not_read() {
    for mode in ["ordered", "unmapped"] {
        let (bed, _) = same_with_r3("freed", &[mode], |program| program);
        let archive = bed.archive();
        assert_eq!(
            recorded_by_kernel(&archive),
            [("spin".to_owned(), 1)],
            "{mode}"
        );
        let notes = &archive.launches()[0].notes;
        assert!(
            notes.iter().any(|note| note.contains("freed")),
            "{mode}: {notes:?}"
        );
    }
}

#[test]
fn memory_that_comes_and_goes_all_the_while_is_not_read_too_late() {
    let (bed, _) = same_with_r3("freed", &["often"], |program| {
        program.env("R3_LAUNCHES", "all")
    });
    assert!(!bed.archive().launches().is_empty());
}

/// Memory of another device, or that was not opened to this one: whether it is saved or not, the
/// launches are recorded, and no kernel of ours touches it.
#[test]
fn memory_that_the_device_may_not_access_is_not_read_by_a_kernel() {
    for mode in ["other", "mapped", "pool"] {
        let (bed, run) = same_with_r3("two_devices", &[mode], |program| {
            program.env("SOFTCUDA_DEVICES", "2")
        });
        assert!(
            run.stdout.starts_with("access from device 0: 0\n"),
            "{mode}: {run}"
        );
        assert_eq!(
            recorded_by_kernel(&bed.archive()),
            [("saxpy".to_owned(), 2)],
            "{mode}"
        );
    }
}

/// Another stream writes between the fingerprint of memory and its copy: the fingerprint does not stand
/// for what was copied, and a later launch that meets the first content is recorded with it.
#[test]
fn a_racing_write_does_not_reach_the_record_of_a_later_launch() {
    let bed = Bed::new();
    let run = bed.recorded("raced").layer("RACE", "r3_fingerprint").run();
    assert_eq!(
        (run.end, run.stdout.as_str(), run.stderr.as_str()),
        (End::Exit(0), "two launches\n", "")
    );
    let archive = bed.archive();
    let [_, second] = archive.launches() else {
        panic!("two launches are recorded");
    };
    let regions = &second.before.regions;
    let index = regions.iter().position(|region| region.len == 1 << 20);
    let before = archive
        .region_before(second, index.expect("the memory"), 0..1 << 16)
        .expect("readable");
    assert!(
        before.iter().all(|byte| *byte == 0xaa),
        "it begins with {:x?}",
        &before[..4]
    );
    bed.verify();
}
