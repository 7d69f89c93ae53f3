//! The life of a process: fork, exec, every kind of end (interception.md, section 4, cases 45 to 52).

use r3_archive::Archive;
use r3_tests::{Bed, End, open, recorded_by_kernel, same_with_r3};

fn launches(bed: &Bed) -> Vec<usize> {
    let mut counts: Vec<_> = bed
        .archive_paths()
        .iter()
        .map(|path| open(path).launches().len())
        .collect();
    counts.sort_unstable();
    counts
}

/// No call reaches a driver that has shut down (case 49): the layer would end the process.
fn with_strict_end(program: r3_tests::Program) -> r3_tests::Program {
    program
        .layer("STRICT_END", "1")
        .env("SOFTCUDA_TEARDOWN", "atexit")
}

/// Cases 45, 48: children that are forked before the driver is used record into files of their own.
#[test]
fn each_process_records_into_its_own_archive() {
    let (bed, _) = same_with_r3("forks", &["before"], |program| program);
    assert_eq!(launches(&bed), [2, 3]);
    let (bed, _) = same_with_r3("forks", &["many"], |program| program);
    assert_eq!(launches(&bed), [1; 9]);
}

/// Cases 45, 46, 48: a child of a process that uses the driver can end as it likes; the parent goes
/// on recording.
#[test]
fn a_forked_child_disturbs_nothing() {
    for mode in ["after", "_exit", "abort", "kill", "clone"] {
        let (bed, _) = same_with_r3("forks", &[mode], |program| program);
        assert_eq!(launches(&bed), [3], "{mode}");
        assert!(
            bed.archive().salvaged().is_none(),
            "{mode}: the parent's archive is complete"
        );
        bed.verify();
    }
}

/// Cases 45, 48: forks while other threads are in the middle of recorded launches.
#[test]
fn forks_in_the_middle_of_launches_hang_nobody() {
    let (bed, _) = same_with_r3("forks", &["threads"], |program| {
        program.env("R3_LAUNCHES", "all")
    });
    assert!(!bed.archive().launches().is_empty());
    assert!(bed.archive().salvaged().is_none());
    bed.verify();
}

/// Case 48: exec after fork and vfork; and in place.
#[test]
fn programs_started_by_a_recorded_one_are_recorded() {
    for (mode, expected) in [("exec", vec![2, 2]), ("vfork", vec![2, 2])] {
        let (bed, _) = same_with_r3("forks", &[mode], |program| program);
        assert_eq!(launches(&bed), expected, "{mode}");
    }
    // A program that replaces itself keeps its process id: two archives, both readable. What the
    // first one launched last can be lost with it.
    let (bed, _) = same_with_r3("forks", &["replace"], |program| program);
    let recorded = launches(&bed);
    assert!(recorded == [0, 2] || recorded == [1, 2], "{recorded:?}");
}

/// Cases 49, 50: every kind of end keeps what was recorded, complete where the process could say so.
#[test]
fn every_orderly_end_completes_the_archive() {
    for mode in [
        "return",
        "exit",
        "thread_exit",
        "threads_left",
        "freed",
        "atexit_after",
    ] {
        let (bed, _) = same_with_r3("endings", &[mode], with_strict_end);
        let archive = bed.archive();
        assert!(archive.launches().len() >= 3, "{mode}");
        assert!(
            archive.salvaged().is_none(),
            "{mode}: {:?}",
            archive.salvaged()
        );
    }
}

/// A kernel that never ends is waited for as long as the user allows, and then it is the program's.
#[test]
fn an_end_while_a_kernel_runs_is_an_end() {
    let bed = Bed::new();
    let run = with_strict_end(bed.recorded("endings"))
        .args(&["busy"])
        .env("R3_TIMEOUT", "2")
        .run();
    assert_eq!(
        (run.end, run.stdout.as_str()),
        (End::Exit(2), "busy: 130560.0\n"),
        "{run}"
    );
    assert!(
        run.stderr.contains("spin: a launch is not recorded"),
        "{run}"
    );
    assert_eq!(bed.archive().launches().len(), 3);
    assert!(bed.archive().salvaged().is_none());
}

#[test]
fn every_sudden_end_leaves_a_readable_archive() {
    for mode in [
        "_exit",
        "quick_exit",
        "abort",
        "segfault",
        "terminated",
        "killed",
        "handler",
    ] {
        let bed = Bed::new();
        let run = bed.recorded("endings").args(&[mode]).run();
        let bare = Bed::new().bare("endings").args(&[mode]).run();
        assert_eq!(
            (run.end, &run.stdout, &run.stderr),
            (bare.end, &bare.stdout, &bare.stderr),
            "{mode}"
        );
        // The last launch can still be on its way to the file.
        let archive = bed.archive();
        assert!(archive.launches().len() <= 3, "{mode}");
        for launch in archive.launches() {
            for (index, region) in launch.before.regions.iter().enumerate() {
                archive
                    .region_after(launch, index, 0..region.len)
                    .expect("complete");
            }
        }
    }
}

/// Case 50: the end comes in a constructor.
#[test]
fn an_exit_in_a_constructor_is_an_exit() {
    let (bed, run) = same_with_r3("endings", &[], |program| {
        program.env("ENDING", "constructor")
    });
    assert_eq!(run.end, End::Exit(7));
    let recorded: usize = bed
        .archive_paths()
        .iter()
        .map(|path| open(path).launches().len())
        .sum();
    assert!(recorded == 3 || bed.archive_paths().is_empty());
    let (bed, _) = same_with_r3("endings", &[], |program| {
        program.env("ENDING", "constructor_unused")
    });
    assert!(bed.files().is_empty());
}

/// Case 49: calls of the program itself after the driver has shut down.
#[test]
fn calls_after_the_drivers_end_are_answered_by_the_driver() {
    for mode in ["atexit_before", "destructor"] {
        for teardown in ["", "atexit"] {
            let (bed, _) = same_with_r3("endings", &[mode], |program| {
                program.env("SOFTCUDA_TEARDOWN", teardown)
            });
            assert!(bed.archive().launches().len() >= 3, "{mode} {teardown}");
        }
    }
}

/// Case 47: killed at any instant, the archive is readable, and every launch in it is whole.
#[test]
fn a_killed_process_leaves_a_readable_archive() {
    let mut recorded = 0;
    for round in 0..20u64 {
        let bed = Bed::new();
        let mut running = bed
            .recorded("running")
            .env("R3_LAUNCHES", "all")
            .env("R3_LEVEL", "1")
            .start();
        assert_eq!(running.line(), "running\n");
        std::thread::sleep(std::time::Duration::from_micros(round * round * 173));
        running.signal(libc::SIGKILL);
        assert_eq!(running.wait().end, End::Signal(libc::SIGKILL));
        let archive = bed.archive();
        check_every_byte(&archive);
        recorded += archive.launches().len();
        let fsck = bed
            .replay(&["fsck", &bed.archive_paths()[0].to_string_lossy()])
            .run();
        assert!(matches!(fsck.end, End::Exit(_)), "{fsck}");
    }
    // One that is killed early enough has recorded nothing yet.
    assert!(recorded > 0);
}

fn check_every_byte(archive: &Archive) {
    for launch in archive.launches() {
        for (index, region) in launch.before.regions.iter().enumerate() {
            archive
                .region_before(launch, index, 0..region.len)
                .expect("complete");
            archive
                .region_after(launch, index, 0..region.len)
                .expect("complete");
        }
    }
}

/// Case 51: ranks do not overwrite each other's files, and a launcher that uses no GPU leaves none.
#[test]
fn ranks_have_archives_of_their_own() {
    let bed = Bed::new();
    for rank in ["0", "1", "2"] {
        let run = bed
            .recorded("running")
            .args(&["3"])
            .env("OMPI_COMM_WORLD_RANK", rank)
            .env("R3_OUT", "out.%r.r3")
            .run();
        assert_eq!(run.end, End::Exit(0), "{run}");
    }
    let names: Vec<_> = bed
        .archive_paths()
        .iter()
        .map(|path| {
            path.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(names, ["out.0.r3", "out.1.r3", "out.2.r3"]);
    assert_eq!(open(&bed.archive_paths()[2]).process().rank, Some(2));
}

/// Case 51: the same name twice: nothing is overwritten.
#[test]
fn an_existing_archive_is_never_overwritten() {
    let bed = Bed::new();
    for launches in ["1", "2", "3"] {
        bed.recorded("running")
            .args(&[launches])
            .env("R3_OUT", "same.r3")
            .run();
    }
    assert_eq!(self::launches(&bed), [1, 2, 3]);
}

/// Cases 51, 52: a process that uses no GPU cannot tell that R3 is there.
#[test]
fn a_program_without_a_gpu_sees_nothing_of_r3() {
    let (bed, _) = same_with_r3("plain", &[], |program| program);
    assert!(bed.files().is_empty());
    // Nor with options that are wrong: only a program that could be recorded is told.
    let (bed, _) = same_with_r3("plain", &[], |program| program.env("R3_NONSENSE", "1"));
    assert!(bed.files().is_empty());
    let bed = Bed::new();
    let script = "true && ls / > /dev/null && echo $((1 + 1))";
    let run = bed.recorded("/bin/sh").args(&["-c", script]).run();
    assert_eq!(
        (run.end, run.stdout.as_str(), run.stderr.as_str()),
        (End::Exit(0), "2\n", "")
    );
}

/// A program that initialises the driver and launches nothing.
#[test]
fn a_program_without_launches_leaves_no_archive() {
    let bed = Bed::new();
    let run = bed.recorded("running").args(&["0"]).run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(bed.files().is_empty(), "{:?}", bed.files());
}

/// What is recorded of the process itself.
#[test]
fn the_process_is_described() {
    let bed = Bed::new();
    bed.recorded("running")
        .args(&["3"])
        .env("CUDA_CACHE_DISABLE", "1")
        .env("R3_MAX", "2")
        .env("SECRET", "x")
        .run();
    let archive = bed.archive();
    let process = archive.process();
    assert!(
        process.exe.ends_with("/running") && process.argv[1..] == ["3"],
        "{process:?}"
    );
    assert_eq!(process.driver_version, 13000);
    let names: Vec<_> = process
        .environment
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["CUDA_CACHE_DISABLE", "R3_MAX"]);
    assert_eq!(recorded_by_kernel(&archive), [("fill".to_owned(), 2)]);
}
