//! Searches, end to end: `r3-evolve` with a server of its own, compile workers and the CPU device.

use std::path::{Path, PathBuf};
use std::time::Duration;

use r3_archive::Archive;
use r3_tests::{Bed, End, Run};
use serde_json::Value;

/// A captured sample.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../capture-samples/archives")
        .join(name)
}

/// A copy of a sample in the bed, as `a.r3`.
fn copied(bed: &Bed, name: &str) {
    std::fs::copy(sample(name), bed.path().join("a.r3")).expect("a copy of the sample");
}

const SEARCH: &[&str] = &[
    "--device",
    "cpu",
    "--workers",
    "2",
    "--seed",
    "3",
    "--quiet",
    "--json",
];

fn tune(bed: &Bed, arguments: &[&str]) -> r3_tests::Program {
    bed.evolve(&[&["tune"], arguments, SEARCH].concat())
}

fn json(run: &Run) -> Value {
    assert_eq!(run.end, End::Exit(0), "{run}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

/// What of an exported run does not depend on time, nor on which of two equal candidates was measured.
fn repeatable(bed: &Bed, folder: &str) -> Value {
    let run = bed.evolve(&["export", folder, "--format", "json"]).run();
    let all = json(&run);
    let rows = all["evaluations"].as_array().expect("evaluations");
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let mut row = row.clone();
            for name in ["asked_at", "done_at"] {
                row[name] = Value::Null;
            }
            if let Some(outcome) = row["outcome"].as_object_mut() {
                outcome.remove("cost");
                outcome.remove("notes");
                if let Some(code) = outcome.get_mut("code").and_then(Value::as_object_mut) {
                    code.remove("equal_to");
                }
            }
            row
        })
        .collect();
    let mut summary = all["summary"].clone();
    for name in ["seconds", "utilisation", "notes"] {
        summary[name] = Value::Null;
    }
    serde_json::json!({ "evaluations": rows, "summary": summary })
}

#[test]
fn a_search_on_the_cpu_device_finds_something_better_and_verifies_it() {
    let bed = Bed::new();
    copied(&bed, "reduction.r3");
    let run = tune(
        &bed,
        &[
            "a.r3",
            "--kernel",
            "block_sums",
            "--run",
            "run",
            "--evaluations",
            "32",
            "--set",
            "top=2",
        ],
    )
    .run();
    let found = json(&run);
    assert_eq!(found["claim"], true, "{found:#}");
    assert!(found["best"]["ratio"]["median"].as_f64().expect("a ratio") < 1.0);
    assert!(!found["best"]["knobs"].as_array().expect("knobs").is_empty());

    // The result stands alone, and is sound.
    let best = bed.path().join("run/best.r3t");
    let archive = Archive::open(&best).expect("the result");
    assert_eq!(archive.tuned().len(), 1);
    let fsck = bed.replay(&["fsck", "run/best.r3t"]).run();
    assert_eq!(fsck.end, End::Exit(0), "{fsck}");
    let shown = bed.evolve(&["show", "run/best.r3t"]).run();
    assert!(shown.stdout.contains("verified"), "{shown}");
    let number = found["best"]["number"].to_string();
    let shown = bed.evolve(&["show", "run", &number]).run();
    assert!(shown.stdout.contains("final: right"), "{shown}");

    for (format, part) in [
        ("t4", "\"schema_version\": \"1.0.0\""),
        ("recorded", "r3-space"),
        ("nvcc-flags", ":"),
    ] {
        let run = bed.evolve(&["export", "run", "--format", format]).run();
        assert_eq!(run.end, End::Exit(0), "{run}");
        assert!(run.stdout.contains(part), "{run}");
    }
    // A second search in the same folder is refused, and says how to go on.
    let again = tune(&bed, &["a.r3", "--kernel", "block_sums", "--run", "run"]).run();
    assert_eq!(again.end, End::Exit(2), "{again}");
    assert!(again.stderr.contains("--resume"), "{again}");
}

#[test]
fn killed_at_any_instant_and_resumed_it_ends_as_if_it_had_not_been() {
    let arguments = [
        "a.r3",
        "--kernel",
        "saxpy",
        "--run",
        "run",
        "--evaluations",
        "24",
        "--set",
        "top=3",
    ];
    let calm = Bed::new();
    copied(&calm, "saxpy.r3");
    json(&tune(&calm, &arguments).run());
    let expected = repeatable(&calm, "run");

    let bed = Bed::new();
    copied(&bed, "saxpy.r3");
    let mut killed = 0;
    for milliseconds in [300, 900, 1500, 700, 2500] {
        let resumable = bed.path().join("run/space.toml").exists();
        let program = if resumable {
            tune(&bed, &["--resume", "--run", "run"])
        } else {
            let _ = std::fs::remove_dir_all(bed.path().join("run"));
            tune(&bed, &arguments)
        };
        let running = program.start();
        std::thread::sleep(Duration::from_millis(milliseconds));
        running.signal(libc::SIGKILL);
        let run = running.wait();
        if run.end != End::Signal(libc::SIGKILL) {
            assert_eq!(run.end, End::Exit(0), "{run}");
            break;
        }
        killed += 1;
    }
    assert!(killed > 0, "nothing was killed");
    if !bed.path().join("run/space.toml").exists() {
        let _ = std::fs::remove_dir_all(bed.path().join("run"));
        json(&tune(&bed, &arguments).run());
    } else {
        json(&tune(&bed, &["--resume", "--run", "run"]).run());
    }
    assert_eq!(repeatable(&bed, "run"), expected);
}

#[test]
fn a_run_does_not_go_on_with_another_archive() {
    let bed = Bed::new();
    copied(&bed, "saxpy.r3");
    json(
        &tune(
            &bed,
            &[
                "a.r3",
                "--kernel",
                "saxpy",
                "--run",
                "run",
                "--evaluations",
                "4",
            ],
        )
        .run(),
    );
    copied(&bed, "saxpy_shared.r3");
    let run = tune(&bed, &["--resume", "--run", "run", "--evaluations", "8"]).run();
    assert_eq!(run.end, End::Exit(2), "{run}");
    assert!(
        run.stderr
            .contains("is not the archive that the run began with"),
        "{run}"
    );
    // Nor with what would make it another search.
    copied(&bed, "saxpy.r3");
    let other = bed
        .evolve(&["tune", "--resume", "--run", "run", "--seed", "9"])
        .run();
    assert_eq!(other.end, End::Exit(2), "{other}");
    assert!(other.stderr.contains("--seed cannot change"), "{other}");
}

#[test]
fn ctrl_c_ends_the_search_and_keeps_the_best() {
    let bed = Bed::new();
    copied(&bed, "saxpy.r3");
    let running = tune(
        &bed,
        &["a.r3", "--kernel", "saxpy", "--run", "run", "--time", "10m"],
    )
    .start();
    let store = bed.path().join("run/space.toml");
    for _ in 0..600 {
        if store.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(2));
    running.signal(libc::SIGINT);
    let found = json(&running.wait());
    assert_eq!(found["end"], "stopped", "{found:#}");
}

#[test]
fn what_would_be_done_is_said_and_nothing_left_behind() {
    let bed = Bed::new();
    copied(&bed, "saxpy.r3");
    let of = |more: &[&str]| {
        let arguments = [
            &["tune", "a.r3", "--kernel", "saxpy", "--device", "cpu"],
            more,
        ]
        .concat();
        let run = bed.evolve(&arguments).run();
        assert_eq!(run.end, End::Exit(0), "{run}");
        run.stdout
    };
    let space = of(&["--print-space"]);
    assert!(space.contains("block"), "{space}");
    std::fs::write(bed.path().join("space.toml"), &space).expect("a file");
    let dry = of(&["--dry-run", "--space", "space.toml"]);
    assert!(
        dry.contains("the original") && dry.contains("decides"),
        "{dry}"
    );
    let baseline = of(&["--baseline-only"]);
    assert!(baseline.contains("cost"), "{baseline}");
    let names: Vec<_> = bed
        .files()
        .iter()
        .map(|path| path.file_name().map(ToOwned::to_owned))
        .collect();
    assert!(
        !names.iter().flatten().any(|name| name == "run.db"),
        "{names:?}"
    );

    // Nor of one that cannot begin.
    let missing = bed
        .evolve(&["tune", "a.r3", "--kernel", "nothing", "--device", "cpu"])
        .run();
    assert_eq!(missing.end, End::Exit(2), "{missing}");
    assert!(!bed.path().join("a-nothing.run").exists());

    let nameless = bed.evolve(&["tune", "a.r3"]).run();
    assert!(nameless.stderr.contains("which kernel"), "{nameless}");
    let unknown = bed
        .evolve(&["tune", "a.r3", "--kernel", "saxpy", "--set", "bacth=3"])
        .run();
    assert!(
        unknown.stderr.contains("there is no setting `bacth`"),
        "{unknown}"
    );
}
