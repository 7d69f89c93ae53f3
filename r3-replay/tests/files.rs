//! Files that a user names and that are none: each command says so by name, and waits for nothing.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;

/// What a command prints, standard error included, and its exit code.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::cargo_bin("r3-replay")
        .unwrap()
        .current_dir(folder)
        .args(arguments)
        .timeout(std::time::Duration::from_secs(300))
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), text)
}

#[test]
fn what_is_no_file_of_its_kind_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../capture-samples/archives/saxpy.r3"
    );
    std::fs::copy(sample, folder.join("a.r3")).unwrap();
    std::fs::write(folder.join("k.cu"), "__global__ void k() {}\n").unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("pipe"))
        .status();
    assert!(made.unwrap().success());
    // Without blocks on the disk.
    let large = std::fs::File::create(folder.join("large")).unwrap();
    large.set_len(10 << 30).unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();

    let commands: &[&[&str]] = &[
        &["verify", "a.r3", "--device", "cpu", "--tolerance-file"],
        &["verify", "a.r3", "--device", "cpu", "--ptx"],
        &["attach", "a.r3", "--device", "cpu", "--ptx"],
        &["attach", "a.r3", "--device", "cpu", "--bitcode"],
        &["attach", "a.r3", "--device", "cpu", "--source"],
        &[
            "attach",
            "a.r3",
            "--device",
            "cpu",
            "--source",
            "k.cu",
            "--compile-commands",
        ],
        &[
            "evaluate",
            "a.r3",
            "--device",
            "cpu",
            "--kernel",
            "saxpy",
            "--plan-file",
        ],
    ];
    for command in commands {
        for (file, said) in [
            ("/dev/zero", "MiB"),
            ("pipe", "nobody writes to it"),
            ("large", "MiB"),
            ("folder", "folder"),
        ] {
            let arguments = [command, &[file][..]].concat();
            let (code, text) = run(folder, &arguments);
            assert_eq!(code, 2, "{arguments:?}: {text}");
            assert!(
                text.contains(file) && text.contains(said),
                "{arguments:?}: {text}"
            );
            assert!(!text.contains("panicked"), "{arguments:?}: {text}");
        }
    }
}
