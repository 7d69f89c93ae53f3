//! The CPU device on the command line, as its users meet it: what launches come out as, in words, in JSON and as
//! exit codes.

#![allow(clippy::unwrap_used)]

#[path = "common/kernels.rs"]
mod kernels;

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn sample() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    kernels::write(folder.path());
    folder
}

/// Exit code, standard output and standard error.
fn run(folder: &Path, line: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("r3-replay").unwrap();
    let done = command
        .current_dir(folder)
        .args(line.split(' '))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

fn json(folder: &Path, line: &str) -> (i32, Value) {
    let (code, said, complaints) = run(folder, line);
    let value = serde_json::from_str(&said);
    (code, value.unwrap_or_else(|_| panic!("{said}{complaints}")))
}

#[test]
fn verify_says_of_each_launch_how_it_came_out() {
    let folder = sample();
    let (code, said, _) = run(folder.path(), "verify kernels.r3 --device cpu");
    assert_eq!(code, 2, "one of them faults");
    insta::assert_snapshot!("verify", said);
    let (code, value) = json(folder.path(), "verify kernels.r3 --device cpu --json");
    assert_eq!(code, 2);
    insta::assert_json_snapshot!("verify_json", value);
}

#[test]
fn exit_codes_tell_outcomes_apart() {
    let folder = sample();
    let code = |options: &str| {
        run(
            folder.path(),
            &format!("verify kernels.r3 --device cpu {options}"),
        )
        .0
    };
    assert_eq!(code("--launch 1,3"), 0);
    assert_eq!(code("--launch 3 --strict"), 1);
    assert_eq!(code("--launch 1,2"), 1);
    assert_eq!(code("--launch 1,2,4"), 2);
    assert_eq!(code("--launch 6"), 0);
    assert_eq!(code("--launch 6 --racecheck"), 1);
    // Machine code only: never a success by itself, and one beside others if that is asked for.
    assert_eq!(code("--launch 7"), 3);
    assert_eq!(code("--launch 1,7"), 3);
    assert_eq!(code("--launch 1,7 --skip-unsupported"), 0);
    assert_eq!(code("--launch 7 --skip-unsupported"), 3);
    assert_eq!(code("--launch 2,7 --skip-unsupported"), 1);
    assert_eq!(code("--launch 5 --blocks 0"), 3);
    assert_eq!(code("--launch 1 --blocks 0"), 0);
    assert_eq!(code("--launch 2 --blocks 1"), 1);
}

#[test]
fn a_sample_is_never_called_verified() {
    let folder = sample();
    let (_, said, _) = run(
        folder.path(),
        "verify kernels.r3 --device cpu --blocks 0 --launch 1-3,5",
    );
    insta::assert_snapshot!("sample", said);
    assert!(!said.contains("verified on"));
    let (_, value) = json(
        folder.path(),
        "verify kernels.r3 --device cpu --blocks 0 --launch 1 --json",
    );
    assert_eq!(
        (&value["verified"], &value["sampled"]),
        (&0.into(), &1.into())
    );
    insta::assert_json_snapshot!("sample_json", value["launches"][0]["sample"]);
}

#[test]
fn races_are_told_with_threads_and_lines() {
    let folder = sample();
    let (_, said, _) = run(
        folder.path(),
        "verify kernels.r3 --device cpu --launch 6 --racecheck --threads 1",
    );
    insta::assert_snapshot!("races", said);
}

/// A time of the host is in no snapshot.
fn without_times(value: &mut Value) {
    for launch in value["launches"].as_array_mut().unwrap() {
        for field in ["wall_nanoseconds", "wall_samples"] {
            if let Some(time) = launch.get_mut(field) {
                *time = "(depends on the host)".into();
            }
        }
        if let Some(speed) = launch.pointer_mut("/work/thread_instructions_per_second") {
            *speed = "(depends on the host)".into();
        }
    }
}

#[test]
fn bench_counts_the_same_in_every_run_and_names_its_units() {
    let folder = sample();
    let (code, mut value) = json(
        folder.path(),
        "bench kernels.r3 --device cpu --launch 1-3,7 --json",
    );
    assert_eq!(code, 3, "one is machine code");
    without_times(&mut value);
    insta::assert_json_snapshot!("bench_json", value);
    let (_, mut again) = json(
        folder.path(),
        "bench kernels.r3 --device cpu --launch 1-3,7 --threads 1 --json",
    );
    without_times(&mut again);
    assert_eq!(value, again);
    let (_, said, _) = run(folder.path(), "bench kernels.r3 --device cpu --launch 1");
    let header = said.lines().next().unwrap();
    assert!(
        header.contains("cost") && header.contains("host ms"),
        "{said}"
    );
    assert!(said.contains("cost: weighted warp instructions"), "{said}");
    assert!(!said.contains("µs"), "{said}");
}

#[test]
fn run_leaves_the_memory_and_says_what_it_took() {
    let folder = sample();
    let (code, said, _) = run(
        folder.path(),
        "run kernels.r3 --device cpu --launch 1 --dump out",
    );
    assert_eq!(code, 0);
    assert!(
        said.contains(" weighted warp instructions, ")
            && said.contains(" ms of the host on CPU device"),
        "{said}"
    );
    let left = std::fs::read(folder.path().join("out/launch1-arg0.bin")).unwrap();
    let wanted: Vec<u8> = (1..129u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(left, wanted);
    assert_eq!(
        run(folder.path(), "run kernels.r3 --device cpu --launch 7").0,
        3
    );
    assert_eq!(
        run(folder.path(), "run kernels.r3 --device cpu --launch 4,7").0,
        2
    );
}

#[test]
fn attached_ptx_runs_instead_of_machine_code() {
    let folder = sample();
    let ptx = kernels::ptx().replace("increment", "machine_code");
    std::fs::write(folder.path().join("machine.ptx"), ptx).unwrap();
    let (code, said, _) = run(
        folder.path(),
        "verify kernels.r3 --device cpu --launch 7 --ptx machine.ptx",
    );
    // Recorded with 4 words for 128 threads: it runs, and out of bounds.
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("kernel machine_code"), "{said}");
    let (code, _, complaint) = run(
        folder.path(),
        "verify kernels.r3 --device cpu --ptx kernels.r3",
    );
    assert_eq!(
        (code, complaint.as_str()),
        (2, "r3-replay: --ptx kernels.r3: there is no PTX in it\n")
    );
}

#[test]
fn options_of_the_other_device_are_refused() {
    let folder = sample();
    let refused = |options: &str| {
        let (code, said, complaint) = run(folder.path(), &format!("verify kernels.r3 {options}"));
        assert_eq!((code, said.as_str()), (2, ""), "{options}");
        complaint
    };
    assert_eq!(
        refused("--device cuda --blocks 0..4"),
        "r3-replay: --blocks is for the CPU device: use it with --device cpu\n"
    );
    assert_eq!(
        refused("--device cpu --gpu 1"),
        "r3-replay: --gpu is for GPUs: use it with --device cuda\n"
    );
    assert!(refused("--device cpu --blocks 4..4").contains("has no blocks"));
    assert!(refused("--device cpu --blocks x").contains("`x` is no block number"));
}
