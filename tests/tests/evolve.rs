//! Searches over source, end to end: `r3-evolve` with a server of its own, a compiler of this machine and the CPU device.
//!
//! Where no compiler of CUDA C++ is found, these tests say so and pass.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use r3_archive::Archive;
use r3_tests::{Bed, End, Run};
use serde_json::Value;

/// A bed with a captured sample as `a.r3` and its source as `a.cu`; `None` without a compiler.
fn bed(sample: &str) -> Option<Bed> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture-samples");
    if !has_compiler() {
        eprintln!("skipped: no compiler of CUDA C++ on this machine");
        return None;
    }
    let bed = Bed::new();
    let copy = |from: PathBuf, to: &str| {
        std::fs::copy(&from, bed.path().join(to))
            .unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    copy(samples.join(format!("archives/{sample}.r3")), "a.r3");
    copy(samples.join(format!("programs/{sample}.cu")), "a.cu");
    copy(samples.join("programs/sample.h"), "sample.h");
    Some(bed)
}

fn has_compiler() -> bool {
    let found = |name: &str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
    };
    let mut names = vec!["nvcc".to_owned(), "clang".to_owned(), "clang++".to_owned()];
    names.extend((18..=30).map(|version| format!("clang-{version}")));
    std::env::var_os("R3_NVCC").is_some()
        || std::env::var_os("R3_CLANG").is_some()
        || names.iter().any(|name| found(name))
}

const SEARCH: &[&str] = &["--device", "cpu", "--workers", "2", "--quiet", "--json"];

fn evolve(bed: &Bed, arguments: &[&str]) -> r3_tests::Program {
    let first = ["evolve", "a.r3", "--source", "a.cu", "--no-models"];
    bed.evolve(&[&first, arguments, SEARCH].concat())
}

fn resume(bed: &Bed) -> r3_tests::Program {
    bed.evolve(&[&["resume", "run", "--no-models"], SEARCH].concat())
}

fn json(run: &Run) -> Value {
    assert_eq!(run.end, End::Exit(0), "{run}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// What of a run does not depend on time, nor on the order in which outcomes came.
fn repeatable(bed: &Bed) -> Value {
    let view = json(&bed.evolve(&["status", "run", "--json"]).run());
    let slots: Vec<Value> = view["slots"]
        .as_array()
        .expect("slots")
        .iter()
        .map(|row| serde_json::json!([row["slot"], row["island"], row["opening"], row["closing"]]))
        .collect();
    let variants: Vec<Value> = view["variants"]
        .as_array()
        .expect("variants")
        .iter()
        .map(|one| {
            let all = one["evaluations"].as_array().expect("evaluations");
            let search = all.iter().filter(|row| row["phase"] == "search");
            let mut evaluations: Vec<String> = search
                .map(|row| {
                    let row = [
                        &row["knobs"],
                        &row["verdict"],
                        &row["ratio"],
                        &row["reason"],
                    ];
                    format!("{row:?}")
                })
                .collect();
            evaluations.sort();
            serde_json::json!([
                one["number"],
                one["lineage"],
                one["text"],
                one["verdict"],
                one["ratio"],
                one["knobs"],
                one["cell"],
                one["checked"],
                evaluations,
            ])
        })
        .collect();
    serde_json::json!({
        "slots": slots,
        "variants": variants,
        "islands": view["islands"],
        "counts": view["counts"],
        "best": view["best"],
    })
}

#[test]
fn a_search_over_source_on_the_cpu_device_finds_something_better_and_verifies_it() {
    let Some(bed) = bed("reduction") else { return };
    let arguments = [
        "--kernel",
        "block_sums",
        "--run",
        "run",
        "--evaluations",
        "60",
        "--set",
        "top=2",
    ];
    let run = evolve(&bed, &arguments).run();
    let found = json(&run);
    assert!(
        found["best"]["ratio"]["median"].as_f64().expect("a ratio") < 1.0,
        "{found:#}"
    );
    let status = bed.evolve(&["status", "run"]).run();
    assert_eq!(status.end, End::Exit(0), "{status}");
    let view = json(&bed.evolve(&["status", "run", "--json"]).run());
    assert!(
        view["counts"]["variants"].as_u64().expect("variants") > 5,
        "{}",
        view["counts"]
    );
    for island in view["islands"].as_array().expect("islands") {
        assert!(
            island["occupancy"]["opened"].as_u64().expect("a number") > 0,
            "{island}"
        );
    }
    if found["claim"] == true {
        let archive = Archive::open(bed.path().join("run/best.r3t")).expect("the result");
        assert_eq!(archive.tuned().len(), 1);
        // What is claimed was checked in the end, whether or not the search came to it.
        let whole = bed.evolve(&["export", "run", "--format", "source"]).run();
        assert_eq!(whole.end, End::Exit(0), "{whole}");
        let best = ["export", "run", "best", "--format", "source"];
        let best = bed.evolve(&best).run();
        assert_eq!(best.stdout, whole.stdout, "{best}");
    }
    // A second search in the same folder is refused, and says how to go on.
    let again = evolve(&bed, &arguments).run();
    assert_eq!(again.end, End::Exit(2), "{again}");
    assert!(again.stderr.contains("resume"), "{again}");
    // One that has ended measures nothing more.
    let evaluations = view["counts"]["evaluations"].clone();
    json(&resume(&bed).run());
    let view = json(&bed.evolve(&["status", "run", "--json"]).run());
    assert_eq!(view["counts"]["evaluations"], evaluations);
}

#[test]
fn killed_at_random_instants_and_resumed_it_ends_with_the_same_elites() {
    let arguments = [
        "--kernel",
        "saxpy",
        "--run",
        "run",
        "--evaluations",
        "30",
        "--set",
        "top=2",
        "--set",
        "ablation=no",
    ];
    let Some(calm) = bed("saxpy") else { return };
    json(&evolve(&calm, &arguments).run());
    let expected = repeatable(&calm);

    let Some(bed) = bed("saxpy") else { return };
    let until = Instant::now() + Duration::from_secs(40);
    let mut killed = 0;
    // Instants that are spread over a run, the same ones in every run of this test.
    let mut instant: u64 = 20260;
    while Instant::now() < until && killed < 8 {
        instant = instant
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let milliseconds = 300 + (instant >> 33) % 3000;
        let begun = bed.path().join("run/run.db").exists();
        let program = if begun {
            resume(&bed)
        } else {
            evolve(&bed, &arguments)
        };
        let running = program.start();
        std::thread::sleep(Duration::from_millis(milliseconds));
        running.signal(libc::SIGKILL);
        let run = running.wait();
        match run.end {
            End::Signal(libc::SIGKILL) => killed += 1,
            End::Exit(0) => break,
            // Killed while it wrote down what the run is, it has not begun.
            _ if run.stderr.contains("killed before it began") => {
                let _ = std::fs::remove_dir_all(bed.path().join("run"));
            }
            _ => panic!("{run}"),
        }
    }
    assert!(killed > 0, "nothing was killed");
    let last = resume(&bed).run();
    if last.stderr.contains("begin again") || last.stderr.contains("no run here") {
        let _ = std::fs::remove_dir_all(bed.path().join("run"));
        json(&evolve(&bed, &arguments).run());
    } else {
        json(&last);
    }
    assert_eq!(repeatable(&bed), expected);
}

#[test]
fn a_source_that_is_another_kernel_is_refused_before_anything_is_compiled() {
    let Some(bed) = bed("saxpy") else { return };
    std::fs::write(
        bed.path().join("a.cu"),
        "__global__ void other(float *x) { x[0] = 1; }\n",
    )
    .expect("a file");
    let run = evolve(
        &bed,
        &["--kernel", "saxpy", "--run", "run", "--evaluations", "10"],
    )
    .run();
    assert_eq!(run.end, End::Exit(2), "{run}");
    assert!(run.stderr.contains("saxpy"), "{run}");
    assert!(!bed.path().join("run/run.db").exists());
}
