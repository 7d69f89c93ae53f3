//! A kernel that fills the device until the host acts. R3 waits for nothing without a limit, or the host
//! would never act.

use r3_tests::{Bed, End, open};

fn full(kernel: &str, variables: &[(&str, &str)]) {
    let expected = Bed::new().bare("full").env("SOFTCUDA_FULL", "1").run();
    assert_eq!(
        expected.stdout, "the kernel runs: 600\ndone: 3\n",
        "{expected}"
    );
    let bed = Bed::new();
    let program = variables
        .iter()
        .fold(bed.recorded("full"), |program, (n, v)| program.env(n, v));
    let run = program
        .env("SOFTCUDA_FULL", "1")
        .env("R3_TIMEOUT", "0.5")
        .env("R3_KERNEL", kernel)
        .run();
    assert_eq!(
        (run.end, &run.stdout),
        (End::Exit(0), &expected.stdout),
        "{run}"
    );
    assert!(
        run.stderr.lines().all(|line| line.starts_with("r3: ")),
        "{run}"
    );
    for path in bed.archive_paths() {
        assert!(open(&path).salvaged().is_none());
    }
}

/// The launch that fills the device is itself to be recorded.
#[test]
fn a_kernel_that_waits_for_the_host_is_not_waited_for() {
    full("spin|saxpy|fill", &[]);
}

/// It is not; then the first of our own work is what cannot run.
#[test]
fn work_of_our_own_that_cannot_run_is_not_waited_for() {
    full("saxpy|fill", &[]);
    full("fill", &[]);
}

/// Wherever memory is looked for.
#[test]
fn a_full_device_does_not_hold_up_a_snapshot_of_all_memory() {
    full("saxpy|fill", &[("R3_SNAPSHOT", "all")]);
}
