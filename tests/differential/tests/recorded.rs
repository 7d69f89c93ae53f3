//! All cases on the CPU device against what an H200 gave (`h200.zst`).
//!
//! One test a family, so that they run at the same time.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use r3_differential::case::Case;
use r3_differential::record::{self, Entry};
use r3_differential::{cases, compare};
use r3_replay::device::cpu::{CpuDevice, CpuOptions};

fn recorded() -> Vec<Entry> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("h200.zst");
    let (head, entries) = record::read(&path).unwrap();
    assert_eq!(head.device, "NVIDIA H200");
    entries
}

fn family(name: &str) {
    let all = cases::all(&[format!("{name}/")], cases::RECORDED_PROGRAMS);
    let chosen: Vec<Case> = all.into_iter().filter(|c| c.family() == name).collect();
    check(&chosen);
}

fn check(cases: &[Case]) {
    assert!(!cases.is_empty());
    let options = CpuOptions {
        instruction_limit: Some(1 << 30),
        ..CpuOptions::default()
    };
    let mut device = CpuDevice::new(options, Box::new(|_| ()));
    let verdicts = compare::all(&mut device, cases, &recorded());
    let failures: Vec<String> = verdicts
        .iter()
        .filter_map(|(case, verdict)| Some(format!("{}: {}", case.name, verdict.failure.as_ref()?)))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

macro_rules! families {
    ($($name:ident),*) => {
        $(
            #[test]
            fn $name() {
                family(stringify!($name));
            }
        )*
        const FAMILIES: &[&str] = &[$(stringify!($name)),*, "random"];
    };
}

families!(
    approximate,
    bits,
    compare,
    convert,
    float,
    half,
    integer,
    kernels,
    matrix,
    video,
    warp
);

/// Random programs, in two halves.
fn random(rest: usize) {
    let all = cases::all(&["random/".into()], cases::RECORDED_PROGRAMS);
    let half = all
        .into_iter()
        .enumerate()
        .filter(|(number, _)| number % 2 == rest);
    check(&half.map(|(_, case)| case).collect::<Vec<_>>());
}

#[test]
fn random_even() {
    random(0);
}

#[test]
fn random_odd() {
    random(1);
}

#[test]
fn the_record_has_every_case_once_and_the_families_above_are_all() {
    let cases = cases::all(&[], cases::RECORDED_PROGRAMS);
    let families: BTreeSet<&str> = cases.iter().map(Case::family).collect();
    assert_eq!(families, FAMILIES.iter().copied().collect());
    let names: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    assert_eq!(names.len(), cases.len());
    let entries = recorded();
    assert_eq!(entries.len(), cases.len());
    let recorded: BTreeSet<String> = entries.into_iter().map(|entry| entry.name).collect();
    assert_eq!(recorded, names);
}
