//! Handles of functions are given out again, come several for one kernel, and are launched in vain: what
//! is counted and recorded is the kernel.

use r3_tests::{Bed, End, recorded_by_kernel, same_with_r3, seen_by_kernel};

/// One kernel that two contexts have a handle of: launches 1, 2, 3 and 10 of it, not of each handle.
#[test]
fn a_kernel_is_counted_once_by_whichever_handle() {
    let (bed, _) = same_with_r3("handles", &["two"], |program| program);
    let archive = bed.archive();
    assert_eq!(seen_by_kernel(&archive), [("saxpy".to_owned(), 40)]);
    assert_eq!(recorded_by_kernel(&archive), [("saxpy".to_owned(), 4)]);
    let shapes: Vec<usize> = archive
        .kernel_stats()
        .iter()
        .map(|stats| stats.shapes.len())
        .collect();
    assert_eq!(shapes, [1]);
    bed.verify();
}

/// A context has ended without an unload of its modules, and the next module gets their handles.
#[test]
fn a_handle_that_is_given_out_again_is_another_kernel() {
    let (bed, run) = same_with_r3("handles", &["reused"], |program| {
        program.env("SOFTCUDA_REUSE", "1")
    });
    assert!(run.stdout.ends_with("7, the same handle: 1\n"), "{run}");
    let archive = bed.archive();
    let once = |name: &str| (name.to_owned(), 1);
    assert_eq!(recorded_by_kernel(&archive), [once("fill"), once("saxpy")]);
    bed.verify();
}

/// Launches that the driver refuses use up neither the occurrences nor `R3_MAX`.
#[test]
fn refused_launches_take_nobodys_place() {
    let (bed, run) = same_with_r3("handles", &["refused"], |program| {
        program.env("R3_MAX", "2")
    });
    assert!(run.stdout.starts_with("refused 40, "), "{run}");
    let archive = bed.archive();
    assert_eq!(recorded_by_kernel(&archive), [("saxpy".to_owned(), 2)]);
    let accepted = archive
        .kernel_stats()
        .iter()
        .flat_map(|stats| &stats.shapes)
        .find(|shape| shape.dynamic_shared == 0);
    assert_eq!(
        accepted.map(|shape| (shape.launches, shape.captured)),
        Some((3, 2))
    );
    bed.verify();
}

/// A program that loads and unloads images without end keeps its size.
#[test]
fn images_that_come_and_go_leave_little_behind() {
    let growth = |recorded: bool| {
        let bed = Bed::new();
        let program = if recorded {
            bed.recorded("handles")
        } else {
            bed.bare("handles")
        };
        let run = program.args(&["again", "1200"]).run();
        assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{run}");
        run.stdout.trim().parse::<i64>().expect("a number of KiB")
    };
    let (bare, recorded) = (growth(false), growth(true));
    // 900 images of some 10 KiB each would be more.
    assert!(
        recorded - bare < 5000,
        "{recorded} KiB, {bare} KiB without R3"
    );
}
