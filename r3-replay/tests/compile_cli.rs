//! `attach` and `remix` from the outside: options that do not belong together, files beside the code.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;

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
