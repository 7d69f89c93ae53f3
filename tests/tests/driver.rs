//! The bed itself: the software driver and the layer do what the other tests rely on.

use r3_tests::{Bed, End};

fn prints(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let bed = Bed::new();
    let program = variables
        .iter()
        .fold(bed.bare(name), |program, (n, v)| program.env(n, v));
    let run = program.args(arguments).run();
    assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{run}");
    run.stdout
}

const DIRECT: &str = "saxpy 135750.0\nby_value 46050.0\ncount 1\nscale 23025.0\n\
                      add_constants 31275.0\nwalk 15\n";

#[test]
fn kernels_compute_what_their_source_says() {
    for mode in [&[][..], &["library"], &["fatbin"]] {
        assert_eq!(prints("direct", mode, &[]), DIRECT);
    }
}

#[test]
fn work_is_asynchronous_and_in_order() {
    // With random delays of each piece of work, streams and events still order it.
    assert_eq!(
        prints("direct", &[], &[("SOFTCUDA_DELAY_US", "2000")]),
        DIRECT
    );
    let busy = prints("busy", &["behind"], &[]);
    assert_eq!(busy, "launched, still spinning: 600\ny 130560.0\n");
}

#[test]
fn captures_follow_the_rules() {
    let invalidated = prints("graphs", &["invalidated"], &[]);
    let expected = "launch: 0\nallocation: 900\nstatus 2\nlaunch: 901\nend: 901 no graph\n\
                    launch: 0\ny 65280.0\n";
    assert_eq!(invalidated, expected);
    let legacy = prints("graphs", &["legacy"], &[]);
    assert!(legacy.contains("default stream capturing: 906"), "{legacy}");
}

#[test]
fn the_nth_call_can_be_made_to_fail() {
    let bed = Bed::new();
    let failing = bed
        .bare("running")
        .args(&["20"])
        .layer("FAIL", "cuLaunchKernel:7:719")
        .run();
    assert_eq!(failing.end, End::Exit(1));
    assert!(failing.stderr.contains("= 719"), "{failing}");
}

#[test]
fn calls_after_the_end_are_refused_or_end_the_process() {
    let late = prints(
        "endings",
        &["atexit_before"],
        &[("SOFTCUDA_TEARDOWN", "atexit")],
    );
    assert!(
        late.ends_with("late launch: 4\nlate allocation: 4\n"),
        "{late}"
    );
    let bed = Bed::new();
    let aborted = bed
        .bare("endings")
        .args(&["atexit_before"])
        .layer("STRICT_END", "1")
        .run();
    assert_eq!(aborted.end, End::Signal(libc::SIGABRT));
}

#[test]
fn a_forked_child_cannot_use_its_parents_driver() {
    let output = prints("forks", &["after"], &[]);
    assert!(output.starts_with("child: launch 3\n"), "{output}");
}

#[test]
fn an_old_driver_lacks_functions() {
    let old = r3_tests::OldDriver::without(&["cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"]);
    let bed = Bed::new();
    let run = bed
        .bare("proc_address")
        .on(&old)
        .env("SOFTCUDA_DRIVER_VERSION", "12000")
        .run();
    assert!(
        run.stdout.contains("cuLaunchKernelEx 11060 0: 0 null 1"),
        "{run}"
    );
    let direct = bed.bare("direct").on(&old).run();
    assert_ne!(
        direct.end,
        End::Exit(0),
        "a program that is linked to a missing function cannot run"
    );
}
