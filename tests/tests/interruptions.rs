//! What can end a thread or the program in the middle of R3's own work, and must not: cancellation, and
//! a standard error that nobody reads.

use r3_tests::{Bed, End, same_with_r3};

/// A launch is no cancellation point because of R3.
#[test]
fn a_pending_cancellation_does_not_act_in_a_launch() {
    let (_, run) = same_with_r3("cancelled", &["pending"], |program| {
        program.env("R3_LAUNCHES", "all")
    });
    assert!(
        run.stdout.starts_with("pending: cancelled 1, launched 1\n"),
        "{run}"
    );
}

/// A cancellation that acts inside the driver passes through the hook.
#[test]
fn a_cancellation_inside_a_driver_call_is_one() {
    for (call, launches) in [
        ("cuMemAlloc_v2", "all"),
        ("cuMemFree_v2", "all"),
        ("cuCtxSynchronize", "all"),
        ("cuLaunchKernel", "all"),
        ("cuLaunchKernel", "1000"),
    ] {
        let (_, run) = same_with_r3("cancelled", &[call], |program| {
            program.layer("SLOW", call).env("R3_LAUNCHES", launches)
        });
        assert!(run.stdout.contains("cancelled 1, launched 0\n"), "{run}");
    }
}

/// The software driver puts a cancellation off until its call is over: its frames cannot be unwound.
#[test]
fn a_cancellation_while_the_driver_reads_an_image_waits() {
    let (_, run) = same_with_r3("cancelled", &["reading"], |program| program);
    assert!(
        run.stdout.starts_with("reading: cancelled 1, launched 1\n"),
        "{run}"
    );
}

/// Its messages go nowhere then.
#[test]
fn a_standard_error_without_a_reader_ends_nothing() {
    for log in ["debug", "warn"] {
        let bare = Bed::new().bare("standard_error").args(&["broken"]).run();
        let bed = Bed::new();
        let run = bed
            .recorded("standard_error")
            .args(&["broken"])
            .env("R3_LOG", log)
            .env("R3_BUDGET", "100")
            .run();
        assert_eq!(
            (run.end, &run.stdout),
            (End::Exit(0), &bare.stdout),
            "{run}"
        );
        assert!(run.stdout.ends_with("pending 0, blocked 0\n"), "{run}");
    }
    // And options that are wrong are told to nobody.
    let bed = Bed::new();
    let run = bed
        .recorded("standard_error")
        .args(&["broken"])
        .env("R3_NONSENSE", "1")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
}

/// Descriptor 2 is a file of the program's: nothing is written into it.
#[test]
fn a_file_that_took_the_number_of_standard_error_gets_no_messages() {
    let bed = Bed::new();
    let run = bed
        .recorded("standard_error")
        .args(&["data"])
        .env("R3_LOG", "debug")
        .env("R3_BUDGET", "100")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    let data = std::fs::read_to_string(bed.path().join("data")).expect("the program's file");
    assert_eq!(data, "");
}
