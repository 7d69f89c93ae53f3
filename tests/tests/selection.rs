//! What is recorded is what was asked for.

use r3_tests::{Bed, End, Run, recorded_by_kernel, seen_by_kernel};

fn recorded(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (Bed, Run) {
    let bed = Bed::new();
    let start = bed.recorded(program).args(arguments);
    let run = variables
        .iter()
        .fold(start, |program, (name, value)| program.env(name, value))
        .run();
    assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{run}");
    (bed, run)
}

fn occurrences(bed: &Bed) -> Vec<u64> {
    bed.archive()
        .launches()
        .iter()
        .map(|launch| launch.occurrence)
        .collect()
}

#[test]
fn kernels_are_selected_by_any_of_their_names() {
    for (pattern, expected) in [
        ("saxpy", &["saxpy"][..]),
        ("^scale<float>", &["_Z5scaleIfEvPT_S0_i"]),
        (
            "void scale<float>\\(float\\*, float, int\\)",
            &["_Z5scaleIfEvPT_S0_i"],
        ),
        ("_Z5scale", &["_Z5scaleIfEvPT_S0_i"]),
        ("^walk$\n^count$", &["count", "walk"]),
        ("!a", &["count"]),
    ] {
        let (bed, _) = recorded("direct", &[], &[("R3_KERNEL", pattern)]);
        let archive = bed.archive();
        let names: Vec<_> = recorded_by_kernel(&archive)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        // `by_value` has an `a` too.
        assert_eq!(names, expected, "{pattern}");
        // The others are counted all the same.
        assert_eq!(seen_by_kernel(&archive).len(), 6, "{pattern}");
    }
}

#[test]
fn launches_are_selected_by_occurrence() {
    for (ranges, expected) in [
        ("5", &[5][..]),
        ("2-4,7,29-40", &[2, 3, 4, 7, 29, 30]),
        ("28-", &[28, 29, 30]),
        ("decades", &[1, 2, 3, 10]),
    ] {
        let (bed, _) = recorded("running", &["30"], &[("R3_LAUNCHES", ranges)]);
        assert_eq!(occurrences(&bed), expected, "{ranges}");
        bed.verify();
    }
}

#[test]
fn the_number_of_launches_is_limited() {
    let (bed, _) = recorded(
        "running",
        &["30"],
        &[("R3_LAUNCHES", "all"), ("R3_MAX", "4")],
    );
    assert_eq!(occurrences(&bed), [1, 2, 3, 4]);
    assert_eq!(seen_by_kernel(&bed.archive()), [("fill".to_owned(), 30)]);
}

#[test]
fn the_size_of_the_archive_is_limited() {
    let bed = Bed::new();
    let run = bed
        .recorded("running")
        .args(&["200"])
        .env("R3_LAUNCHES", "all")
        .env("R3_BUDGET", "128K")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    let archive = bed.archive();
    assert!(
        archive.file_len() <= 128 << 10,
        "{} bytes",
        archive.file_len()
    );
    let recorded = archive.launches().len();
    assert!(recorded > 3 && recorded < 200, "{recorded} launches");
    assert_eq!(seen_by_kernel(&archive), [("fill".to_owned(), 200)]);
    bed.verify();
}

#[test]
fn little_memory_is_enough() {
    let (bed, _) = recorded(
        "memory",
        &["large"],
        &[("R3_MEMORY", "1M"), ("R3_WORKERS", "1")],
    );
    assert_eq!(bed.archive().launches().len(), 2);
    bed.verify();
}

fn grids(bed: &Bed) -> Vec<u32> {
    bed.archive()
        .launches()
        .iter()
        .map(|launch| launch.grid[0])
        .collect()
}

#[test]
fn the_profilers_marks_start_and_stop_recording() {
    let (bed, _) = recorded("triggers", &["profiler"], &[("R3_TRIGGER", "profiler")]);
    assert_eq!(grids(&bed), [2, 2]);
    let (bed, _) = recorded("triggers", &["profiler"], &[]);
    assert_eq!(grids(&bed), [1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_signal_starts_and_stops_recording() {
    let (bed, _) = recorded("triggers", &["signal"], &[("R3_TRIGGER", "signal:USR1")]);
    assert_eq!(grids(&bed), [2, 2]);
}

#[test]
fn a_file_starts_and_stops_recording() {
    let bed = Bed::new();
    let file = bed.path().join("record-now").to_string_lossy().into_owned();
    let run = bed
        .recorded("triggers")
        .args(&[&file])
        .env("R3_TRIGGER", format!("file:{file}"))
        .run();
    assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{run}");
    assert_eq!(grids(&bed), [2, 2]);
}

#[test]
fn the_launcher_sets_the_same_options() {
    let bed = Bed::new();
    let program = r3_tests::programs().join("running");
    let run = bed
        .replay(&[
            "capture",
            "--launches",
            "2,4-5",
            "--out",
            "captured.r3",
            "--kernel",
            "fill",
            "--",
        ])
        .args(&[program.to_string_lossy().as_ref(), "9"])
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(run.stdout.contains("9 launches"), "{run}");
    assert_eq!(occurrences(&bed), [2, 4, 5]);
    assert!(bed.path().join("captured.r3").exists());
}

#[test]
fn the_launcher_passes_the_programs_end_on() {
    let bed = Bed::new();
    let program = r3_tests::programs()
        .join("endings")
        .to_string_lossy()
        .into_owned();
    let run = bed.replay(&["capture", "--", &program, "exit"]).run();
    assert_eq!(run.end, End::Exit(3), "{run}");
}

#[test]
fn the_launcher_refuses_options_that_are_wrong() {
    let bed = Bed::new();
    let run = bed
        .replay(&["capture", "--launches", "5-1", "--", "/bin/true"])
        .run();
    assert_ne!(run.end, End::Exit(0), "{run}");
    assert!(run.stderr.contains("--launches=5-1"), "{run}");
}
