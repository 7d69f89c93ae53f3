//! From an archive alone: the launches of programs that are gone, on the software driver.

use r3_tests::{Bed, End, open};

fn captured() -> (Bed, String) {
    let bed = Bed::new();
    let run = bed.recorded("direct").args(&["library"]).run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    let path = bed.archive_paths().remove(0).to_string_lossy().into_owned();
    (bed, path)
}

#[test]
fn an_archive_is_all_that_is_needed() {
    let (bed, path) = captured();
    let elsewhere = Bed::new();
    let copy = elsewhere.path().join("copy.r3");
    std::fs::copy(&path, &copy).expect("a copy");
    drop(bed);
    for _ in 0..5 {
        elsewhere.verify();
    }
}

#[test]
fn a_changed_byte_is_found() {
    let (bed, path) = captured();
    // A launch that computes something else: its parameters are changed in the archive's place by
    // a driver that fails to execute, so that nothing is written.
    let run = bed
        .replay(&["verify", &path])
        .layer("FAIL", "cuLaunchKernel:3+:1")
        .run();
    assert_ne!(run.end, End::Exit(0), "{run}");
}

#[test]
fn an_address_that_cannot_be_had_is_named() {
    let (bed, path) = captured();
    let run = bed
        .replay(&["verify", &path])
        .env("SOFTCUDA_RESERVE", "elsewhere")
        .run();
    assert_ne!(run.end, End::Exit(0), "{run}");
    assert!(
        run.stdout.contains("0x") || run.stderr.contains("0x"),
        "{run}"
    );
    let run = bed
        .replay(&["verify", "--addr", "remap", &path])
        .env("SOFTCUDA_RESERVE", "elsewhere")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
}

#[test]
fn without_a_driver_the_program_says_so_and_takes_the_cpu() {
    let (bed, path) = captured();
    let run = bed
        .replay(&["verify", &path])
        .env("LD_LIBRARY_PATH", "/nonexistent")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert!(run.stderr.contains("CPU device"), "{run}");
    assert!(run.stderr.contains("libcuda"), "{run}");
    // Unless a GPU is asked for.
    let run = bed
        .replay(&["verify", "--device", "cuda", &path])
        .env("LD_LIBRARY_PATH", "/nonexistent")
        .run();
    assert_ne!(run.end, End::Exit(0), "{run}");
    assert!(run.stderr.contains("libcuda"), "{run}");
    let run = bed
        .replay(&["info", &path])
        .env("LD_LIBRARY_PATH", "/nonexistent")
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
}

#[test]
fn every_command_reads_the_archive() {
    let (bed, path) = captured();
    let first = open(std::path::Path::new(&path)).launches()[0]
        .id
        .to_string();
    for arguments in [
        &["info", path.as_str()][..],
        &["info", "--json", &path],
        &["ls", &path],
        &["ls", "--json", &path],
        &["show", &path, &first],
        &["fsck", &path],
        &["convert", "--to", "json", &path],
        &["run", &path],
        &["bench", &path],
        &["noise", &path],
    ] {
        let run = bed.replay(arguments).run();
        assert_eq!(run.end, End::Exit(0), "{arguments:?}: {run}");
        assert!(!run.stdout.is_empty(), "{arguments:?}");
    }
    let run = bed.replay(&["info", "--json", &path]).run();
    serde_json::from_str::<serde_json::Value>(&run.stdout).expect("JSON");
}

#[test]
fn a_part_of_an_archive_is_an_archive() {
    let (bed, path) = captured();
    let part = bed.path().join("part").to_string_lossy().into_owned();
    let run = bed
        .replay(&["trim", "--kernel", "walk", &path, "--out", &part])
        .run();
    assert_eq!(run.end, End::Exit(0), "{run}");
    assert_eq!(open(std::path::Path::new(&part)).launches().len(), 1);
    let run = bed.replay(&["verify", &part]).run();
    assert_eq!(run.end, End::Exit(0), "{run}");
}
