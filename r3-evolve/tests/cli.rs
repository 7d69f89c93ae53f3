//! The program as its user meets it, where no evaluator is needed.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture-samples/archives/saxpy.r3")
}

fn evolve() -> Command {
    Command::new(env!("CARGO_BIN_EXE_r3-evolve"))
}

fn tune(options: &[&str]) -> std::io::Result<Output> {
    let mut command = evolve();
    command
        .arg("tune")
        .arg(archive())
        .args(["--kernel", "saxpy"]);
    // Nothing here comes so far that it asks for a server.
    command.env("R3_REPLAY", "/nonexistent").args(options);
    command.output()
}

#[test]
fn what_cannot_be_meant_is_told_before_anything_is_started() {
    for (options, said) in [
        (
            &["--evaluations", "-1"][..],
            "invalid value '-1' for '--evaluations",
        ),
        (
            &["--stagnation", "0"],
            "invalid value '0' for '--stagnation",
        ),
        (&["--time", "-3s"], "`-3s` is no time"),
        (&["--time", "1e999"], "`1e999` is no time"),
        (&["--gpu", "-1"], "invalid value '-1' for '--gpu"),
        (&["--workers", "0"], "invalid value '0' for '--workers"),
        (&["--workers", "1025"], "1025 is not in 1..=1024"),
        (&["--held-out", "-1"], "`-1` is neither a part"),
        (&["--seed", "-4"], "invalid value '-4' for '--seed"),
        (&["--gpu", "1", "--device", "cpu"], "leave one out"),
        (
            &["--with", "block=64x1x1", "--without", "block"],
            "--without block",
        ),
        (&["--set", "batch=99999999999"], "a number from 1 to 256"),
        (&["--dry-run", "--resume"], "cannot be used with '--resume'"),
        (&["--dry-run", "--print-space"], "cannot be used with"),
        (&["--set", "bacth=4"], "there is no setting `bacth`"),
    ] {
        let found = tune(options).unwrap();
        let error = String::from_utf8_lossy(&found.stderr);
        assert_eq!(found.status.code(), Some(2), "{options:?}: {error}");
        assert!(error.contains(said), "{options:?}: {error}");
        assert!(!error.contains("server"), "{options:?}: {error}");
    }
}

#[test]
fn what_is_no_file_of_its_kind_is_refused_by_name_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let made = Command::new("mkfifo").arg(place("pipe")).status();
    assert!(made.unwrap().success());
    // Without blocks on the disk.
    let large = std::fs::File::create(place("large")).unwrap();
    large.set_len(10 << 30).unwrap();
    std::fs::write(place("wide"), [0xff, 0xfe, b'a', 0]).unwrap();
    let files = [
        (PathBuf::from("/dev/zero"), "MiB"),
        (place("pipe"), "nobody writes to it"),
        (place("large"), "MiB"),
        (place("wide"), "UTF-16"),
        (folder.path().to_owned(), "folder"),
    ];
    for (command, option) in [
        ("tune", "--tolerance-file"),
        ("evolve", "--tolerance-file"),
        ("evolve", "--settings"),
        ("evolve", "--models"),
    ] {
        for (file, said) in &files {
            let mut run = evolve();
            run.arg(command).arg(archive()).args(["--kernel", "saxpy"]);
            run.env("R3_REPLAY", "/nonexistent").arg(option).arg(file);
            let found = run.output().unwrap();
            let error = String::from_utf8_lossy(&found.stderr);
            assert_eq!(found.status.code(), Some(2), "{option} {file:?}: {error}");
            let name = file.display().to_string();
            assert!(
                error.contains(&name) && error.contains(said),
                "{option}: {error}"
            );
        }
    }
}

#[test]
fn the_finer_settings_are_listed_without_an_archive() {
    let found = evolve()
        .args(["tune", "--set", "help=all"])
        .output()
        .unwrap();
    assert_eq!(found.status.code(), Some(0));
    let listed = String::from_utf8_lossy(&found.stdout);
    assert!(
        listed.lines().any(|line| line.starts_with("threshold ")),
        "{listed}"
    );
    // Any other one is of a run.
    let found = evolve()
        .args(["tune", "--set", "batch=2"])
        .output()
        .unwrap();
    assert_eq!(found.status.code(), Some(2));
}

#[test]
fn whoever_leaves_before_the_search_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let temporary = dir.path().join("t");
    std::fs::create_dir(&temporary).unwrap();
    // A server that says nothing until its parent is gone.
    let server = dir.path().join("server");
    std::fs::write(
        &server,
        "#!/bin/sh\necho $$ > \"$0.started\"\nexec cat > /dev/null\n",
    )
    .unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = dir.path().join("run");
    let mut command = evolve();
    command
        .arg("tune")
        .arg(archive())
        .args(["--kernel", "saxpy", "--device", "cpu", "--run"]);
    command
        .arg(&run)
        .env("R3_REPLAY", &server)
        .env("TMPDIR", &temporary);
    let process = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !dir.path().join("server.started").exists() {
        assert!(Instant::now() < until, "no server was started");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(run.exists());
    let id = libc::pid_t::try_from(process.id()).unwrap();
    // SAFETY: takes numbers; the process was not waited for.
    unsafe { libc::kill(id, libc::SIGINT) };
    let found = process.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&found.stderr);
    assert_eq!(found.status.code(), Some(130), "{error}");
    assert!(error.contains("nothing is kept"), "{error}");
    assert!(!run.exists());
}
