//! A hostile environment: directories, descriptors, limits, variables. The program never suffers.

use std::os::unix::fs::PermissionsExt;

use r3_tests::{Bed, End, Program, Run, libr3, open, programs, same_with_r3};

const OUTPUT: &str = "running\n20 launches\n";

fn run_with(bed: &Bed, variables: &[(&str, &str)]) -> Run {
    let program = variables
        .iter()
        .fold(bed.recorded("running"), |program, (n, v)| program.env(n, v));
    let run = program.args(&["20"]).run();
    assert_eq!(
        (run.end, run.stdout.as_str()),
        (End::Exit(0), OUTPUT),
        "{run}"
    );
    run
}

fn says(run: &Run, words: &[&str]) {
    assert!(!run.stderr.is_empty(), "no message");
    assert!(
        run.stderr.lines().all(|line| line.starts_with("r3: ")),
        "{run}"
    );
    for word in words {
        assert!(run.stderr.contains(word), "{word} is missing: {run}");
    }
}

#[test]
fn the_program_may_change_its_surroundings() {
    for when in ["early", "late"] {
        for what in [
            "chdir",
            "clearenv",
            "close",
            "umask",
            "memlock",
            "undumpable",
            "signals",
            "rename",
            "reopen",
        ] {
            let bed = Bed::new();
            let bare = Bed::new();
            let expected = bare.bare("surroundings").args(&[when, what]).run();
            let out = bed.path().join("out.r3");
            let run = bed
                .recorded("surroundings")
                .args(&[when, what])
                .env("R3_OUT", &out)
                .run();
            assert_eq!(
                (run.end, &run.stdout),
                (expected.end, &expected.stdout),
                "{when} {what}: {run}"
            );
            assert!(
                run.stderr.lines().all(|line| line.starts_with("r3: ")),
                "{when} {what}: {run}"
            );
            let archive = open(&out);
            assert_eq!(archive.launches().len(), 3, "{when} {what}: {run}");
            assert!(archive.salvaged().is_none(), "{when} {what}");
        }
    }
}

/// `errno` is the program's, also where a call of R3's own fails.
#[test]
fn errno_is_kept() {
    for out in ["kept.r3", "/proc/out.r3", "/nonexistent/out.r3"] {
        let bed = Bed::new();
        let run = bed
            .recorded("surroundings")
            .args(&["early", "nothing"])
            .env("R3_OUT", out)
            .run();
        assert!(run.stdout.contains("errno 44 55"), "{out}: {run}");
    }
}

/// Limits that make recording impossible: it is given up, the program is not.
#[test]
fn limits_cost_launches_and_not_the_program() {
    for when in ["early", "late"] {
        for what in ["nofile", "fsize", "nproc", "memory", "stderr"] {
            let bed = Bed::new();
            let bare = Bed::new();
            // The driver starts no threads for a launch: where address space runs out, they end the process.
            let one = |program: Program| program.args(&[when, what]).env("SOFTCUDA_THREADS", "1");
            let expected = one(bare.bare("surroundings")).run();
            let run = one(bed.recorded("surroundings")).run();
            assert_eq!(
                (run.end, &run.stdout),
                (expected.end, &expected.stdout),
                "{when} {what}: {run}"
            );
            for path in bed.archive_paths() {
                open(&path);
            }
        }
    }
}

/// Case 47: a relative path stays where the program was at the start.
#[test]
fn a_relative_path_does_not_follow_the_program() {
    let bed = Bed::new();
    bed.recorded("surroundings").args(&["late", "chdir"]).run();
    assert_eq!(bed.archive().launches().len(), 3);
}

#[test]
fn an_empty_environment_is_enough() {
    let bed = Bed::new();
    let run = bed
        .recorded("running")
        .bare_environment()
        .args(&["20"])
        .run();
    assert_eq!(
        (run.end, run.stdout.as_str(), run.stderr.as_str()),
        (End::Exit(0), OUTPUT, "")
    );
    assert_eq!(bed.archive_paths().len(), 1);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    // To root every directory is writable, except where nothing can be written at all.
    let bed = Bed::new();
    says(
        &run_with(&bed, &[("R3_OUT", "/proc/out.r3")]),
        &["/proc/out.r3"],
    );
    let bed = Bed::new();
    let missing = bed.path().join("not/there/out.r3");
    let run = run_with(&bed, &[("R3_OUT", &missing.to_string_lossy())]);
    assert!(
        missing.exists() || run.stderr.contains("not/there"),
        "{run}"
    );
    let bed = Bed::new();
    let folder = bed.path().join("locked");
    std::fs::create_dir(&folder).expect("a directory");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).expect("permissions");
    let run = run_with(&bed, &[("R3_OUT", "locked/out.r3")]);
    if std::fs::File::create(folder.join("probe")).is_err() {
        says(&run, &["locked"]);
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Case 47: a full disk is a message; the program gets no signal, and what was written is readable.
#[test]
fn a_full_disk_ends_the_recording_only() {
    let bed = Bed::new();
    std::fs::create_dir(bed.path().join("disk")).expect("a directory");
    // A small file system in a mount namespace of its own: what is kept is copied out of it.
    let script = "mount -t tmpfs -o size=160k tmpfs disk || exit 77
        LD_PRELOAD=$1 R3_OUT=disk/out.r3 R3_LAUNCHES=all \"$2\" 400
        end=$?
        [ ! -e disk/out.r3 ] || cp disk/out.r3 kept.r3
        exit $end";
    let library = libr3().to_string_lossy();
    let program = programs().join("running").to_string_lossy().into_owned();
    let run = bed
        .bare("/usr/bin/unshare")
        .args(&[
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            &library,
            &program,
        ])
        .run();
    if run.stdout.is_empty() && run.end != End::Exit(0) {
        eprintln!("skipped: this machine allows no mount namespaces ({run})");
        return;
    }
    assert_eq!(
        (run.end, run.stdout.as_str()),
        (End::Exit(0), "running\n400 launches\n"),
        "{run}"
    );
    says(&run, &["disk/out.r3"]);
    let kept = open(&bed.path().join("kept.r3"));
    assert!(!kept.launches().is_empty() && kept.launches().len() < 400);
}

#[test]
fn options_that_are_wrong_are_named_and_the_program_runs() {
    for (name, value, words) in [
        ("R3_KERNELS", "x", &["R3_KERNELS", "R3_KERNEL"][..]),
        ("R3_LAUNCHES", "10-5", &["R3_LAUNCHES=10-5"]),
        ("R3_KERNEL", "(", &["R3_KERNEL=("]),
        ("R3_BUDGET", "lots", &["R3_BUDGET=lots"]),
        ("R3_OUT", "%q", &["R3_OUT=%q"]),
        ("R3_APPLY", "x", &["R3_APPLY", "not supported"]),
    ] {
        let bed = Bed::new();
        says(&run_with(&bed, &[(name, value)]), words);
        assert!(bed.files().is_empty(), "{name}={value}");
    }
}

#[test]
fn every_wrong_option_is_named_at_once() {
    let bed = Bed::new();
    let run = run_with(
        &bed,
        &[("R3_LEVEL", "99"), ("R3_NONSENSE", "1"), ("R3_RANKS", "x")],
    );
    says(&run, &["R3_LEVEL=99", "R3_NONSENSE", "R3_RANKS=x"]);
}

#[test]
fn a_program_that_is_not_selected_runs_unrecorded_and_silent() {
    for (name, value) in [
        ("R3_PROCESS", "^python"),
        ("R3_RANKS", "3"),
        ("R3_MAX", "0"),
        ("R3_KERNEL", "^nothing$"),
    ] {
        let (bed, _) = same_with_r3("running", &["20"], |program| program.env(name, value));
        for path in bed.archive_paths() {
            assert!(open(&path).launches().is_empty(), "{name}={value}");
        }
        if matches!(name, "R3_PROCESS" | "R3_RANKS") {
            assert!(bed.files().is_empty(), "{name}={value}");
        }
    }
}

#[test]
fn messages_can_be_switched_off_and_on() {
    let bed = Bed::new();
    let run = run_with(&bed, &[("R3_LOG", "off"), ("R3_OUT", "/proc/out.r3")]);
    assert_eq!(run.stderr, "");
    let bed = Bed::new();
    says(&run_with(&bed, &[("R3_LOG", "info")]), &[".r3"]);
}
