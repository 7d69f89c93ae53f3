//! `r3-replay remix` as its users meet it: verdicts, guards, code that goes out and comes back, exit codes.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn archive(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
    PathBuf::from(folder).join(format!("{name}.r3"))
}

/// Exit code, standard output and standard error.
fn remix(folder: &Path, name: &str, line: &str) -> (i32, String, String) {
    let mut command = Command::cargo_bin("r3-replay").unwrap();
    let done = command
        .current_dir(folder)
        .arg("remix")
        .arg(archive(name))
        .args(line.split(' ').filter(|word| !word.is_empty()))
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

fn json(name: &str, line: &str) -> (i32, Value) {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("{line} --device cpu --threads 1 --json");
    let (code, said, complaints) = remix(folder.path(), name, &line);
    let value = serde_json::from_str(&said);
    (code, value.unwrap_or_else(|_| panic!("{said}{complaints}")))
}

fn verdicts(value: &Value) -> Vec<&str> {
    value["kernels"][0]["candidates"][0]["launches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|launch| launch["verdict"].as_str().unwrap())
        .collect()
}

#[test]
fn code_for_one_launch_does_not_run_on_another() {
    // Launches that differ in one number.
    let (code, value) = json("saxpy", "--specialize scalars,grid,noalias,align");
    assert_eq!(verdicts(&value), ["identical", "guard", "guard"]);
    assert_eq!(code, 0);
    let candidate = &value["kernels"][0]["candidates"][0];
    let guards: Vec<&str> = candidate["guards"]
        .as_array()
        .unwrap()
        .iter()
        .map(|guard| guard["text"].as_str().unwrap())
        .collect();
    assert!(guards.contains(&"parameter 1 = 0"), "{guards:?}");
    assert!(guards.contains(&"grid = 79x1x1"), "{guards:?}");
    assert!(
        guards.contains(&"parameter 3 has memory of its own"),
        "{guards:?}"
    );
    assert_eq!(
        candidate["launches"][2]["reason"],
        "parameter 1 = 0 was wanted, 2 is given"
    );
    // Without that number it is for all of them.
    let (code, value) = json("saxpy", "--specialize param:0,grid,block");
    assert_eq!(verdicts(&value), ["identical"; 3]);
    assert_eq!(code, 0);
    let launch = &value["kernels"][0]["candidates"][0]["launches"][0];
    let cost = |side: &str| launch[side]["cost"].as_u64().unwrap();
    assert!(cost("remixed") <= cost("original"), "{launch}");
}

#[test]
fn what_went_out_as_ptx_or_llvm_comes_back_and_is_right() {
    let folder = tempfile::tempdir().unwrap();
    for (form, file) in [("ptx", "kernel.ptx"), ("llvm", "kernel.ll")] {
        let line = format!("1 -O2 --emit {form} --output {file}");
        let (code, said, complaints) = remix(folder.path(), "nbody", &line);
        assert_eq!((code, said.as_str()), (0, ""), "{complaints}");
        let line = format!("1 --device cpu --threads 1 --code {file}");
        let (code, said, complaints) = remix(folder.path(), "nbody", &line);
        assert_eq!(code, 0, "{said}{complaints}");
        assert!(said.contains("1 of 1 right on CPU device"), "{said}");
    }
    // The same question has the same answer, byte for byte.
    let written = std::fs::read_to_string(folder.path().join("kernel.ptx")).unwrap();
    let (_, said, _) = remix(folder.path(), "nbody", "1 -O2 --emit ptx");
    assert_eq!(said, written);
}

#[test]
fn wrong_code_is_found_out() {
    let folder = tempfile::tempdir().unwrap();
    let (_, ptx, _) = remix(folder.path(), "graph", "1 -O1 --emit ptx");
    let wrong = ptx.replace("add.s32", "sub.s32");
    assert_ne!(wrong, ptx);
    std::fs::write(folder.path().join("wrong.ptx"), wrong).unwrap();
    let line = "1 --device cpu --threads 1 -O1 --code wrong.ptx";
    let (code, said, complaints) = remix(folder.path(), "graph", line);
    assert_eq!(code, 1, "{said}{complaints}");
    assert!(
        said.contains("MISMATCH") && said.contains("0 of 1 right"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_compiled_is_told_and_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let told = |name: &str, line: &str| {
        let line = format!("{line} --device cpu");
        let (code, said, complaints) = remix(folder.path(), name, &line);
        assert_eq!(code, 2, "{said}{complaints}");
        format!("{said}{complaints}")
    };
    let said = told("nbody", "1 --passes function(bogus)");
    assert!(said.contains("unknown function pass 'bogus'"), "{said}");
    let said = told("wilson_sass", "1");
    assert!(said.contains("r3-replay attach"), "{said}");
    let said = told("nbody", "1 --from llvm");
    assert!(said.contains("in this form: it has PTX"), "{said}");
    let said = told("nbody", "1 --specialize param:1");
    assert!(said.contains("it is a pointer"), "{said}");
    let said = told("reduction", "--emit ptx");
    assert!(
        said.contains("the code of one kernel, and 2 are selected"),
        "{said}"
    );
}
