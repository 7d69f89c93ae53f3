//! What an evaluation does with the memory of a GPU, on the software driver: by kernels of R3's own, and by the host where a
//! driver cannot run them.

use r3_tests::{Bed, End, OldDriver};

const COMMAND: [&str; 7] = [
    "device-check",
    "--device",
    "cuda",
    "--cases",
    "4",
    "--bytes",
    "100000",
];

#[test]
fn a_gpu_does_what_the_host_does() {
    let bed = Bed::new();
    let run = bed.replay(&COMMAND).run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(run.stdout.contains("by kernels of its own"), "{run}");
}

#[test]
fn a_driver_that_loads_no_kernels_leaves_the_work_to_the_host() {
    let bed = Bed::new();
    let run = bed
        .replay(&COMMAND)
        .layer("FAIL", "cuModuleLoadData:1:218")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(run.stdout.contains("by the host: "), "{run}");
    assert!(run.stdout.contains("(218)"), "{run}");
}

#[test]
fn a_driver_that_launches_no_kernels_leaves_the_work_to_the_host() {
    let bed = Bed::new();
    let run = bed
        .replay(&COMMAND)
        .layer("FAIL", "cuLaunchKernel:2:1")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(run.stdout.contains("by the host: "), "{run}");
}

#[test]
fn an_older_driver_serves_as_far_as_it_goes() {
    let old = OldDriver::without(&[
        "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2",
        "cuMemsetD8Async",
        "cuCtxResetPersistingL2Cache",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    ]);
    let bed = Bed::new();
    let run = bed.replay(&COMMAND).on(&old).run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(
        run.stdout.contains("how many blocks fit is not known"),
        "{run}"
    );
}
