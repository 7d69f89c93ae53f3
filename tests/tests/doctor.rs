//! Two captures of a program, compared: what lies elsewhere is no difference, and what differs is named.

use std::time::{SystemTime, UNIX_EPOCH};

use r3_tests::{Bed, End, Run};

/// Captures `varying` twice with these arguments, and compares.
fn doctor(bed: &Bed, first: [&str; 3], second: [&str; 3]) -> Run {
    for (name, arguments) in [("first.r3", first), ("second.r3", second)] {
        let run = bed.recorded("varying").args(&arguments).env("R3_OUT", name);
        let run = run.run();
        assert_eq!(run.end, End::Exit(0), "{run}");
    }
    bed.replay(&["doctor", "first.r3", "second.r3"]).run()
}

#[test]
fn the_same_run_at_other_addresses_is_the_same() {
    let bed = Bed::new();
    let run = doctor(&bed, ["0", "1", "0"], ["3000000", "1", "0"]);
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(
        run.stdout
            .contains("2 launches: nothing differs but addresses"),
        "{run}"
    );
}

#[test]
fn random_numbers_are_found_with_the_launch_that_reads_them() {
    let bed = Bed::new();
    let run = doctor(&bed, ["0", "1", "0"], ["3000000", "2", "0"]);
    assert_eq!(run.end, End::Exit(1), "{run}");
    let says = |text: &str| assert!(run.stdout.contains(text), "{text}: {run}");
    says("<- begins here");
    says("before  arg1");
    says("random bits");
    says("fixed seed");
    assert!(!run.stdout.contains("walk after"), "{run}");
}

/// The time stands in memory that the kernel is given and does not read.
#[test]
fn a_time_that_changes_nothing_is_told_as_that() {
    let bed = Bed::new();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock after 1970");
    let (early, late) = (now.as_nanos() - 345_000_000_000, now.as_nanos());
    let (early, late) = (early.to_string(), late.to_string());
    let run = doctor(&bed, ["0", "1", &early], ["0", "1", &late]);
    assert_eq!(run.end, End::Exit(1), "{run}");
    let says = |text: &str| assert!(run.stdout.contains(text), "{text}: {run}");
    says("a time of day, in nanoseconds");
    says("changes nothing that the launch writes");
}
