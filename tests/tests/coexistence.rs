//! R3 beside the program's errors and the driver's own (interception.md, section 4, cases 53 to 57).

use r3_tests::{Bed, End, recorded_by_kernel, same_with_r3, seen_by_kernel};

/// Case 56: errors are neither swallowed nor raised, sticky ones included.
#[test]
fn errors_come_back_unchanged() {
    // Launches that the driver refuses may count as occurrences; only accepted ones are recorded.
    let (bed, _) = same_with_r3("errors", &[], |program| program.env("R3_LAUNCHES", "all"));
    assert_eq!(
        recorded_by_kernel(&bed.archive()),
        [("saxpy".to_owned(), 1)]
    );
    bed.verify();
}

#[test]
fn a_kernel_that_faults_faults_as_before() {
    let bare = Bed::new().bare("errors").args(&["fault"]).run();
    let bed = Bed::new();
    let run = bed
        .recorded("errors")
        .args(&["fault"])
        .env("R3_LAUNCHES", "all")
        .run();
    assert_eq!((run.end, &run.stdout), (bare.end, &bare.stdout));
    // The driver's own messages are the same, too.
    let (own, others): (Vec<_>, Vec<_>) = run
        .stderr
        .lines()
        .partition(|line| line.starts_with("r3: "));
    assert_eq!(others, bare.stderr.lines().collect::<Vec<_>>());
    assert!(!own.is_empty(), "{run}");
    assert_eq!(
        recorded_by_kernel(&bed.archive()),
        [("saxpy".to_owned(), 1)]
    );
}

/// Whatever driver call of R3's own fails, whenever: the program computes the same. Its own calls
/// are on other functions here, or succeed.
#[test]
fn a_failing_call_of_r3_costs_launches_and_nothing_else() {
    let expected = Bed::new().bare("direct").args(&["library"]).run();
    for call in [
        "cuMemcpyDtoHAsync_v2",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
        "cuStreamQuery",
        "cuStreamWaitEvent",
        "cuStreamIsCapturing",
        "cuCtxGetCurrent",
        "cuCtxGetDevice",
        "cuCtxGetLimit",
        "cuThreadExchangeStreamCaptureMode",
        "cuMemHostRegister_v2",
        "cuMemHostAlloc",
        "cuMemHostGetDevicePointer_v2",
        "cuMemGetAddressRange_v2",
        "cuPointerGetAttributes",
        "cuPointerGetAttribute",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDeviceTotalMem_v2",
        "cuDeviceGetUuid_v2",
        "cuFuncGetAttribute",
        "cuKernelGetAttribute",
        "cuFuncGetParamInfo",
        "cuKernelGetParamInfo",
        "cuKernelGetFunction",
        "cuKernelGetName",
        "cuFuncGetName",
        "cuFuncGetModule",
        "cuDriverGetVersion",
        "cuModuleLoadData",
    ] {
        for from in ["1+", "2", "3+:719"] {
            let bed = Bed::new();
            let run = bed
                .recorded("direct")
                .args(&["library"])
                .layer("FAIL", format!("{call}:{from}"))
                .run();
            assert_eq!(
                (run.end, &run.stdout),
                (expected.end, &expected.stdout),
                "{call}:{from}: {run}"
            );
            assert!(
                run.stderr.lines().all(|line| line.starts_with("r3: ")),
                "{call}:{from}: {run}"
            );
            for path in bed.archive_paths() {
                r3_tests::open(&path);
            }
        }
    }
}

/// Cases 53, 54, 55: outside of selected launches R3 makes no driver call of its own, and none that
/// loads code or waits.
#[test]
fn a_launch_that_is_not_selected_makes_no_further_call() {
    let calls = |recorded: bool| {
        let bed = Bed::new();
        let log = bed.path().join("calls");
        let program = if recorded {
            bed.recorded("running")
        } else {
            bed.bare("running")
        };
        let run = program
            .args(&["1000"])
            .env("R3_KERNEL", "^none$")
            .layer("LOG", &log)
            .run();
        assert_eq!(run.end, End::Exit(0), "{run}");
        let text = std::fs::read_to_string(log).expect("a log");
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for line in text.lines() {
            *counts
                .entry(line.split(' ').nth(1).expect("a name").to_owned())
                .or_default() += 1;
        }
        counts
    };
    let (bare, recorded) = (calls(false), calls(true));
    assert_eq!(recorded["cuLaunchKernel"], bare["cuLaunchKernel"]);
    for (name, count) in &recorded {
        let before = bare.get(name).copied().unwrap_or(0);
        // Some questions when a kernel is first seen; nothing for each launch.
        assert!(
            count - before <= 20,
            "{name}: {count} calls, {before} without R3"
        );
    }
    for waits in [
        "cuCtxSynchronize",
        "cuStreamSynchronize",
        "cuEventSynchronize",
        "cuModuleLoadData",
    ] {
        assert_eq!(recorded.get(waits), bare.get(waits), "{waits}");
    }
}

/// Case 55: the profiling library has one subscriber for each process, which R3 leaves to others.
#[test]
fn the_profiling_interface_is_not_used() {
    let library = std::fs::read(r3_tests::libr3()).expect("libr3.so");
    for name in [&b"libcupti"[..], b"cuptiSubscribe"] {
        assert!(!library.windows(name.len()).any(|window| window == name));
    }
}

/// Signals of the program's interrupt R3's system calls; its handlers run on its own threads only.
#[test]
fn signals_disturb_nothing() {
    let (bed, _) = same_with_r3("interrupted", &[], |program| {
        program.env("R3_LAUNCHES", "all")
    });
    assert_eq!(bed.archive().launches().len(), 60);
    bed.verify();
}

/// Memory, modules and streams that come and go on many threads, small stacks included.
#[test]
fn threads_may_do_everything_at_the_same_time() {
    for arguments in [&["6", "15"][..], &["6", "15", "small"]] {
        let (bed, _) = same_with_r3("churn", arguments, |program| {
            program
                .env("R3_LAUNCHES", "all")
                .env("SOFTCUDA_DELAY_US", "200")
        });
        assert_eq!(bed.archive().launches().len(), 180);
        bed.verify();
    }
}

/// The same when every snapshot takes everything that there is, also what others are freeing.
#[test]
fn memory_may_be_freed_while_it_is_recorded() {
    let bed = Bed::new();
    let run = bed
        .recorded("churn")
        .args(&["6", "15"])
        .env("R3_LAUNCHES", "all")
        .env("R3_SNAPSHOT", "all")
        .env("SOFTCUDA_DELAY_US", "200")
        .run();
    assert_eq!(
        (run.end, run.stdout.as_str()),
        (End::Exit(0), "6 threads, 15 rounds\n"),
        "{run}"
    );
    bed.verify();
}

/// Another tool that interposes `dlsym`: behind R3, both see the program's look-ups. (In front of it,
/// where it asks for a version of `dlsym`, it goes past R3: the program runs as with it alone.)
#[test]
fn another_interposer_works_too() {
    let other = r3_tests::programs().join("libinterposer.so");
    let (other, r3) = (other.display(), r3_tests::libr3().display());
    let run = |preload: String| {
        let bed = Bed::new();
        let run = bed.bare("dlopened").env("LD_PRELOAD", preload).run();
        assert_eq!(
            (run.end, run.stdout.as_str()),
            (End::Exit(0), "saxpy x 3 = 228480.0\n"),
            "{run}"
        );
        bed
    };
    assert_eq!(run(format!("{r3}:{other}")).archive().launches().len(), 3);
    run(format!("{other}:{r3}"));
}

/// Case 57: many launches are counted exactly, and few are recorded.
#[test]
fn many_launches_are_counted_exactly() {
    let (bed, _) = same_with_r3("running", &["20000"], |program| program);
    let archive = bed.archive();
    assert_eq!(seen_by_kernel(&archive), [("fill".to_owned(), 20_000)]);
    let occurrences: Vec<_> = archive
        .launches()
        .iter()
        .map(|launch| launch.occurrence)
        .collect();
    assert_eq!(occurrences, [1, 2, 3, 10, 100, 1000, 10_000]);
    bed.verify();
}

/// A stream that waits for the host: the launch is left out after the time limit, the program goes on.
#[test]
fn a_stream_that_never_comes_to_an_end_costs_one_launch() {
    let bed = Bed::new();
    let run = bed
        .recorded("busy")
        .args(&["behind"])
        .env("R3_TIMEOUT", "0.2")
        .run();
    assert_eq!(
        (run.end, run.stdout.as_str()),
        (End::Exit(0), "launched, still spinning: 600\ny 130560.0\n"),
        "{run}"
    );
    assert!(run.stderr.contains("is not recorded"), "{run}");
}

/// Work on other streams is not waited for.
#[test]
fn other_streams_are_not_waited_for() {
    let bed = Bed::new();
    let run = bed
        .recorded("busy")
        .args(&["beside"])
        .env("R3_KERNEL", "saxpy")
        .env("R3_TIMEOUT", "60")
        .run();
    assert_eq!((run.end, run.stderr.as_str()), (End::Exit(0), ""), "{run}");
    assert_eq!(
        recorded_by_kernel(&bed.archive()),
        [("saxpy".to_owned(), 3)]
    );
}
