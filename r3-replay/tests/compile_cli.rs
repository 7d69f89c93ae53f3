//! `attach` and `remix` from the outside: options that do not belong together, files beside the code.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use r3_archive::Archive;
use r3_replay::attach::store::{Place, StoreError, store};
use tempfile::TempDir;

fn sample(name: &str) -> String {
    format!(
        "{}/../capture-samples/archives/{name}.r3",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// What a command prints, standard error included, and its exit code.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = Command::cargo_bin("r3-replay")
        .unwrap()
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    (output.status.code().unwrap(), text)
}

// What is about --source must not be dropped in silence with another form of code.
#[test]
fn options_about_source_are_refused_with_other_code() {
    let folder = tempfile::tempdir().unwrap();
    for form in [
        &["--ptx", "k.ptx"][..],
        &["--bitcode", "k.bc"],
        &["--from-capture"],
        &["--triton-cache", "."],
    ] {
        for option in [
            ["--command", "nvcc -c k.cu"],
            ["--command-directory", "."],
            ["--compile-commands", "."],
            ["--compiler", "clang"],
        ] {
            let arguments = [&["attach", "a.r3"][..], form, &option].concat();
            let (code, text) = run(folder.path(), &arguments);
            assert_eq!(code, 2, "{text}");
            assert!(
                text.contains("cannot be used with"),
                "{arguments:?}: {text}"
            );
        }
    }
    let (code, text) = run(
        folder.path(),
        &["attach", "a.r3", "--ptx", "k.ptx", "--target", "sm_90"],
    );
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("cannot be used with"), "{text}");
}

/// A folder with an archive of `advance`, and its own PTX to attach.
fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a.r3");
    std::fs::copy(sample("managed"), &archive).unwrap();
    let path = archive.to_str().unwrap();
    let arguments = ["remix", path, "1", "--emit", "ptx", "--output", "k.ptx"];
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{text}");
    (folder, archive)
}

#[test]
fn what_cannot_be_read_of_a_damaged_archive_is_not_lost_by_attaching() {
    let (folder, archive) = folder();
    let whole = std::fs::read(&archive).unwrap();
    let cut = &whole[..whole.len() - 100];
    std::fs::write(&archive, cut).unwrap();
    let arguments = ["attach", "a.r3", "--ptx", "k.ptx", "--no-verify"];
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("is damaged") && text.contains("--output"),
        "{text}"
    );
    assert_eq!(std::fs::read(&archive).unwrap(), cut);
    // What can be read goes elsewhere.
    let arguments = [&arguments[..], &["--output", "b.r3"]].concat();
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{text}");
    assert_eq!(run(folder.path(), &["fsck", "b.r3"]).0, 0);
}

#[test]
fn an_archive_that_somebody_else_writes_meanwhile_is_not_replaced() {
    let (_folder, path) = folder();
    let archive = Archive::open(&path).unwrap();
    let place = Place::of(&archive, None).unwrap();
    let theirs = path.with_extension("theirs");
    std::fs::copy(&path, &theirs).unwrap();
    std::fs::rename(&theirs, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = store(&archive, &[], &place).unwrap_err();
    assert!(matches!(error, StoreError::Changed { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let left = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2, "the archive and its PTX");
}

#[test]
fn a_folder_that_cannot_be_written_to_is_told_before_anything_runs() {
    let (folder, _) = folder();
    let arguments = [
        "attach",
        "a.r3",
        "--ptx",
        "k.ptx",
        "--output",
        "no/where.r3",
    ];
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 2, "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("no cannot be written to"), "{text}");
}

#[test]
fn without_a_place_for_temporary_files_the_variable_is_named() {
    let (folder, _) = folder();
    let output = Command::cargo_bin("r3-replay")
        .unwrap()
        .current_dir(folder.path())
        .env("TMPDIR", "/nonexistent")
        .args(["remix", "a.r3", "1", "--device", "cpu"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("/nonexistent") && text.contains("TMPDIR"),
        "{text}"
    );
    assert!(!text.contains("tool is missing"), "{text}");
}

#[test]
fn code_is_not_written_over_the_archive_that_it_is_of() {
    let (folder, archive) = folder();
    let before = std::fs::read(&archive).unwrap();
    std::os::unix::fs::symlink("a.r3", folder.path().join("link")).unwrap();
    for output in ["a.r3", "./a.r3", "link"] {
        let arguments = ["remix", "a.r3", "1", "--emit", "ptx", "--output", output];
        let (code, text) = run(folder.path(), &arguments);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("written over"), "{text}");
        assert_eq!(std::fs::read(&archive).unwrap(), before);
    }
}

#[test]
fn emitting_to_a_file_leaves_a_report_for_programs() {
    let (folder, _) = folder();
    let arguments = [
        "remix", "a.r3", "1", "-O1", "--emit", "ptx", "--output", "o", "--json",
    ];
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["kernels"][0]["candidates"][0]["candidate"], "-O1");
    assert_eq!(report["device"], "");
}

#[test]
fn code_with_other_parameters_is_refused_and_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let archive = sample("graph");
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
                .visible .entry _Z5driftPjij(.param .u64 a, .param .u64 b) { ret; }\n";
    std::fs::write(folder.path().join("k.ptx"), text).unwrap();
    let arguments = ["remix", &archive, "1", "--device", "cpu", "--code", "k.ptx"];
    let (code, text) = run(folder.path(), &arguments);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("another kernel") && text.contains("3 parameters"),
        "{text}"
    );
}

#[test]
fn without_any_compiler_what_to_install_is_told() {
    let (folder, _) = folder();
    std::fs::write(folder.path().join("k.cu"), "__global__ void k() {}").unwrap();
    let output = Command::cargo_bin("r3-replay")
        .unwrap()
        .current_dir(folder.path())
        .envs(["R3_NVCC", "R3_NVRTC", "R3_CLANG"].map(|name| (name, "/nonexistent")))
        .args(["attach", "a.r3", "--source", "k.cu", "--no-verify"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("Install a CUDA toolkit"), "{text}");
    // Who names a compiler gets no other one.
    assert!(text.contains("R3_CLANG = /nonexistent"), "{text}");
}

// The archive is of a GPU with sm_90.
#[test]
fn machine_code_that_is_only_written_is_for_the_target_that_was_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, _) = folder();
    let assembler = folder.path().join("ptxas");
    std::fs::write(&assembler, "#!/bin/sh\necho \"error: $*\" >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&assembler, PermissionsExt::from_mode(0o755)).unwrap();
    for target in ["sm_80", "sm_100"] {
        let output = Command::cargo_bin("r3-replay")
            .unwrap()
            .current_dir(folder.path())
            .env("R3_PTXAS", &assembler)
            .args(["remix", "a.r3", "1", "--emit", "cubin", "--target", target])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(target) && !text.contains("sm_90"), "{text}");
    }
}

// Names in bitcode may have any bytes; a terminal obeys some.
#[test]
fn names_in_code_do_not_reach_the_terminal_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let text = "target triple = \"nvptx64-nvidia-cuda\"\n\
                define ptx_kernel void @\"\\1B]0;title\\07\"(i32 %a) { ret void }\n";
    std::fs::write(folder.path().join("k.ll"), text).unwrap();
    let archive = sample("graph");
    for arguments in [
        &["remix", &archive, "1", "--device", "cpu", "--code", "k.ll"][..],
        &["remix", &archive, "1", "--emit", "ptx", "--code", "k.ll"],
        &["attach", &archive, "--output", "b.r3", "--bitcode", "k.ll"],
    ] {
        let (code, text) = run(folder.path(), arguments);
        assert_eq!(code, 2, "{text}");
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(control), "{text:?}");
    }
}

#[test]
fn numbers_beyond_reason_are_refused_or_harmless() {
    let (folder, _) = folder();
    let remix = |more: &[&str]| {
        let arguments = [&["remix", "a.r3", "1", "--device", "cpu"][..], more].concat();
        run(folder.path(), &arguments)
    };
    // Each pipeline is a copy of the code.
    let (code, text) = remix(&["--random-pipelines", "1000000000"]);
    assert_eq!(code, 2, "{text}");
    // 2^44 MiB are 2^64 bytes.
    let (code, text) = remix(&[
        "--memory-limit",
        "17592186044416",
        "--time-limit",
        "18446744073709551615",
    ]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn an_entry_that_cannot_be_used_is_named_with_its_database() {
    let (folder, _) = folder();
    std::fs::write(folder.path().join("k.cu"), "").unwrap();
    for (entry, wanted) in [
        (serde_json::json!({}), "neither `command` nor `arguments`"),
        (
            serde_json::json!({"arguments": []}),
            "neither `command` nor `arguments`",
        ),
        (
            serde_json::json!({"command": "make k.o"}),
            "no word of the command is a compiler",
        ),
        (
            serde_json::json!({"command": "nvcc \"-c k.cu"}),
            "a quote that is not closed",
        ),
    ] {
        let mut entry = entry;
        entry["directory"] = ".".into();
        entry["file"] = "k.cu".into();
        let database = serde_json::json!([entry]).to_string();
        std::fs::write(folder.path().join("db.json"), database).unwrap();
        let source = ["--source", "k.cu", "--compile-commands", "db.json"];
        let (code, text) = run(folder.path(), &[&["attach", "a.r3"][..], &source].concat());
        assert_eq!(code, 2, "{text}");
        assert!(
            text.contains("db.json, k.cu: ") && text.contains(wanted),
            "{text}"
        );
    }
}

#[test]
fn code_of_a_relative_path_finds_headers_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("kernels");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("factor.h"), "#define FACTOR 3\n").unwrap();
    let text = "#include \"factor.h\"\n\
                __global__ void drift(unsigned int *x, int n, unsigned int y) { *x = FACTOR; }\n";
    std::fs::write(inner.join("k.cu"), text).unwrap();
    let archive = sample("graph");
    for (from, file) in [(folder.path(), "kernels/k.cu"), (&inner, "k.cu")] {
        let arguments = ["remix", &archive, "--code", file, "--emit", "llvm"];
        let (code, text) = run(from, &arguments);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("store i32 3"), "{text}");
    }
}
