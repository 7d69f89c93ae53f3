//! `attach`, on the CPU device: `wilson_sass` was captured from a program with machine code alone.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use assert_cmd::Command;
use r3_archive::Archive;
use r3_image::{CodeForm, Image};
use tempfile::TempDir;

const DSLASH: &str = "_Z6dslash7LatticePK4LinkPK6SpinorPS3_if";

fn sample(name: &str) -> String {
    format!(
        "{}/../capture-samples/archives/{name}.r3",
        env!("CARGO_MANIFEST_DIR")
    )
}

/// A folder with `a.r3`, which has machine code alone, and the PTX of the same program.
fn folder() -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(sample("wilson_sass"), folder.path().join("a.r3")).unwrap();
    (folder, ptx_of("wilson"))
}

/// The PTX in the image of a sample.
fn ptx_of(name: &str) -> String {
    let archive = Archive::open(sample(name)).unwrap();
    let image = Image::from_vec(archive.read_blob(&archive.modules()[0].image).unwrap());
    let mut entries = image.entries().iter();
    let entry = entries.find(|entry| entry.form == CodeForm::Ptx).unwrap();
    String::from_utf8(entry.payload().unwrap().into_owned()).unwrap()
}

/// What a command prints, standard error included, and its exit code.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::cargo_bin("r3-replay").unwrap();
    let output = command
        .current_dir(folder)
        .args(arguments)
        .output()
        .unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    text.push_str(&String::from_utf8(output.stderr).unwrap());
    (output.status.code().unwrap(), text)
}

fn attach(folder: &Path, ptx: &str, more: &[&str]) -> (i32, String) {
    std::fs::write(folder.join("k.ptx"), ptx).unwrap();
    let mut arguments = vec!["attach", "a.r3", "--ptx", "k.ptx", "--device", "cpu"];
    arguments.extend(more);
    run(folder, &arguments)
}

/// The archive is as it was, and nothing lies beside it.
fn untouched(folder: &Path) {
    let (now, then) = (
        std::fs::read(folder.join("a.r3")),
        std::fs::read(sample("wilson_sass")),
    );
    assert!(now.unwrap() == then.unwrap(), "the archive has changed");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["a.r3", "k.ptx"]);
}

#[test]
fn a_kernel_of_machine_code_alone_runs_from_attached_ptx() {
    let (folder, ptx) = folder();
    let folder = folder.path();
    let (code, text) = run(folder, &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("r3-replay attach"), "{text}");

    let (code, text) = attach(folder, &ptx, &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("parameters as captured"), "{text}");
    assert!(text.contains("code attached to 1 kernel"), "{text}");

    for command in ["verify", "run", "bench", "noise"] {
        let (code, text) = run(folder, &[command, "a.r3", "--device", "cpu"]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("PTX attached from k.ptx runs"), "{text}");
    }
    let (_, text) = run(folder, &["show", "a.r3", "1"]);
    assert!(
        text.contains("attached    PTX from k.ptx; verified on CPU device"),
        "{text}"
    );
    assert!(
        text.contains("launches 1, 2, 3, within tolerance"),
        "{text}"
    );
    let (_, text) = run(folder, &["info", "a.r3"]);
    assert!(text.contains("SASS sm_90; attached PTX"), "{text}");
    assert_eq!(run(folder, &["fsck", "a.r3"]).0, 0);
    let (_, text) = run(folder, &["convert", "a.r3"]);
    assert!(text.contains(r#""record":"attachment""#), "{text}");
    let (code, text) = run(folder, &["extract", "a.r3", "-o", "out"]);
    assert_eq!(code, 0, "{text}");
    let extracted = std::fs::read_to_string(folder.join("out/attached1.ptx")).unwrap();
    assert!(extracted == ptx);
}

#[test]
fn another_program_has_none_of_the_kernels() {
    let (folder, _) = folder();
    let (code, text) = attach(folder.path(), &ptx_of("saxpy"), &[]);
    assert_eq!(code, 2);
    assert!(
        text.contains("none of the captured kernels is in it"),
        "{text}"
    );
    assert!(
        text.contains("saxpy(int, int, float const*, float*)"),
        "{text}"
    );
    assert!(text.contains("dslash(Lattice, Link const*"), "{text}");
    untouched(folder.path());
}

#[test]
fn a_kernel_of_the_same_name_with_other_parameters_is_another_kernel() {
    let (folder, ptx) = folder();
    let wider = ptx.replace(
        &format!(".param .u32 {DSLASH}_param_4"),
        &format!(".param .u64 {DSLASH}_param_4"),
    );
    assert!(wider != ptx);
    let (code, text) = attach(folder.path(), &wider, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains(
            "another kernel: parameter 4 is at 40 with 8 bytes here, and at 40 with 4 bytes in the captured kernel"
        ),
        "{text}"
    );
    untouched(folder.path());
}

#[test]
fn code_that_computes_something_else_is_refused() {
    let (folder, ptx) = folder();
    let wrong = ptx.replacen("sqrt.rn.f32", "neg.f32", 1);
    assert!(wrong != ptx);
    let (code, text) = attach(folder.path(), &wrong, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("MISMATCH"), "{text}");
    assert!(
        text.contains("refused: it does not leave the recorded memory"),
        "{text}"
    );
    untouched(folder.path());

    // Right, but not to the last bit: the recorded machine code has multiplications and additions fused.
    let (code, text) = attach(folder.path(), &ptx, &["--strict"]);
    assert_eq!(code, 1, "{text}");
    untouched(folder.path());
}

#[test]
fn code_that_was_not_verified_is_said_to_be_so_wherever_it_runs() {
    let (folder, ptx) = folder();
    let wrong = ptx.replacen("sqrt.rn.f32", "neg.f32", 1);
    let (code, text) = attach(folder.path(), &wrong, &["--no-verify"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("attached without being verified"), "{text}");
    let (code, text) = run(folder.path(), &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("it was attached without being verified"),
        "{text}"
    );
    let (_, text) = run(folder.path(), &["show", "a.r3", "1"]);
    assert!(
        text.contains("attached    PTX from k.ptx; not verified"),
        "{text}"
    );

    // The newest holds.
    let (code, text) = attach(folder.path(), &ptx, &[]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(folder.path(), &["verify", "a.r3", "--device", "cpu"]);
    assert_eq!(code, 0, "{text}");
    let (_, text) = run(folder.path(), &["show", "a.r3", "1", "--json"]);
    let show: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(show["attached"][0]["id"], 2);
    assert_eq!(
        show["attached"][0]["verified"],
        serde_json::json!([1, 2, 3])
    );
    assert_eq!(show["attached"][1]["verified"], serde_json::json!([]));
}

#[test]
fn a_new_archive_leaves_the_old_one_alone() {
    let (folder, ptx) = folder();
    let path = folder.path();
    let (code, text) = attach(path, &ptx, &["--output", "b.r3"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(run(path, &["verify", "b.r3", "--device", "cpu"]).0, 0);
    let (code, text) = attach(path, &ptx, &["--output", "b.r3"]);
    assert_eq!(code, 2);
    assert!(text.contains("b.r3 exists already"), "{text}");
    std::fs::remove_file(path.join("b.r3")).unwrap();
    untouched(path);
}

#[test]
fn a_static_kernel_is_found_by_the_name_that_another_compiler_gives_it() {
    let (folder, ptx) = folder();
    let by_clang = ptx.replace(DSLASH, &DSLASH.replacen("_Z", "_ZL", 1));
    let (code, text) = attach(folder.path(), &by_clang, &["--json"]);
    assert_eq!(code, 0, "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kernel = &report["code"][0]["kernels"][0];
    assert_eq!(kernel["verdict"], "accepted");
    assert_eq!(kernel["mangled"], DSLASH);
    let archive = Archive::open(folder.path().join("a.r3")).unwrap();
    let attachment = &archive.attachments()[0];
    assert_eq!(attachment.kernels[0].name, DSLASH.replacen("_Z", "_ZL", 1));
    assert_eq!(
        run(folder.path(), &["verify", "a.r3", "--device", "cpu"]).0,
        0
    );
}

#[test]
fn only_selected_kernels_are_looked_for() {
    let (folder, ptx) = folder();
    let (code, text) = attach(folder.path(), &ptx, &["--kernel", "!dslash"]);
    assert_eq!(code, 2);
    assert!(
        text.contains("none of its 3 launches is selected"),
        "{text}"
    );
    let (code, text) = attach(folder.path(), &ptx, &["--launch", "2"]);
    assert_eq!(code, 0, "{text}");
    let (_, text) = run(folder.path(), &["show", "a.r3", "1"]);
    assert!(text.contains(": launch 2, within tolerance"), "{text}");
}
