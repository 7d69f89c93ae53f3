//! Rewritten samples are compiled by clang with R3's own declarations, where there is a clang 22.

use std::path::PathBuf;
use std::process::Command;

use r3_source::rewrite::{self, Scene};
use r3_source::syntax::Unit;

use crate::samples::{self, Sample, root};

pub fn clang() -> Option<PathBuf> {
    ["/usr/lib/llvm-22/bin/clang++", "/usr/bin/clang++-22"]
        .iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

/// Programs whose host code needs more than R3 declares.
const NEEDS_TOOLKIT: &[&str] = &["streams"];

fn compile(
    clang: &PathBuf,
    sample: &Sample,
    text: &str,
    folder: &tempfile::TempDir,
) -> Result<(), String> {
    let file = folder.path().join("kernel.cu");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(clang)
        .args([
            "-x",
            "cuda",
            "--cuda-device-only",
            "--cuda-gpu-arch=sm_90",
            "-nocudainc",
            "-nogpulib",
        ])
        .args([
            "-Xclang",
            "-target-feature",
            "-Xclang",
            "+ptx80",
            "-include",
            "r3_device.h",
        ])
        .args(["-w", "-O1", "-S", "-o"])
        .arg(folder.path().join("kernel.ptx"))
        .arg("-isystem")
        .arg(root().join("r3-codegen/cuda"))
        .arg("-I")
        .arg(sample.file.parent().unwrap())
        .arg("-I")
        .arg(root().join("capture-samples/programs"))
        .arg(&file)
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn compile_all(most_for_each_operator: usize) {
    let Some(clang) = clang() else {
        eprintln!("skipped: there is no clang 22 here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut seen: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
    let mut failures = Vec::new();
    for sample in samples::all() {
        if NEEDS_TOOLKIT.contains(&sample.program().as_str()) {
            continue;
        }
        let unit = Unit::parse(&sample.text).unwrap();
        let kernel = unit.kernel(sample.kernel).unwrap();
        let spans = samples::spans(&unit, &kernel);
        let scene = Scene {
            unit: &unit,
            kernel: &kernel,
            spans: &spans,
            facts: &sample.facts,
        };
        for site in rewrite::all_sites(&scene) {
            let count = seen.entry(site.operator.clone()).or_default();
            *count += 1;
            if *count > most_for_each_operator {
                continue;
            }
            let done = rewrite::apply(&scene, &site).unwrap();
            if let Err(message) = compile(&clang, &sample, &done.text, &folder) {
                failures.push(format!(
                    "{} {}: {site:?}\n{message}",
                    sample.program(),
                    sample.kernel
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(seen.len() > 15);
}

#[test]
fn a_rewrite_of_each_kind_compiles() {
    compile_all(1);
}

#[test]
#[ignore = "long: compiles some hundred programs"]
fn every_rewrite_of_every_sample_compiles() {
    compile_all(usize::MAX);
}
