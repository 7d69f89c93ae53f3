//! What an H200 wrote, against what the CPU device writes: every sample archive, every launch, every byte.
//!
//! The table of all kernels is in `docs/emulator.md`, and is checked here. With `R3_WRITE_TABLE=1` in the
//! environment this test writes it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_archive::model::LaunchId;
use r3_replay::compare::Tolerances;
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::replay::{ReplayOptions, Replayer};
use r3_replay::verify::{LaunchReport, Outcome, VerifyOptions, verify_launch};

fn archives() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "r3"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 20);
    paths
}

fn verify(path: &Path, strict: bool) -> Vec<LaunchReport> {
    let archive = Archive::open(path).unwrap();
    // One thread: float atomics then add in the same order each time.
    let options = CpuOptions {
        threads: 1,
        ..CpuOptions::default()
    };
    let mut device = CpuDevice::new(options, Box::new(|_| {}));
    let mut replayer = Replayer::new(&archive, &mut device, ReplayOptions::default());
    let ids: Vec<LaunchId> = archive.launch_heads().iter().map(|l| l.id).collect();
    replayer.reserve(ids.iter().copied()).unwrap();
    let exact = Tolerances::exact();
    let options = VerifyOptions {
        strict,
        ..VerifyOptions::exactly(&exact)
    };
    ids.iter()
        .map(|id| verify_launch(&archive, &mut replayer, *id, options))
        .collect()
}

/// Launches whose kernels came as machine code only.
const MACHINE_CODE_ONLY: [(&str, &str); 2] = [("nvrtc", "prefix"), ("wilson_sass", "dslash(")];

fn machine_code_only(archive: &str, kernel: &str) -> bool {
    MACHINE_CODE_ONLY
        .iter()
        .any(|(known, start)| *known == archive && kernel.starts_with(start))
}

/// The worst of some launches of one kernel.
#[derive(Default)]
struct Row {
    launches: usize,
    different: u64,
    ulp: Option<u64>,
    relative: Option<f64>,
    why: Vec<String>,
}

#[test]
fn every_archive_with_ptx_verifies_and_the_table_in_the_documents_is_right() {
    let mut rows: BTreeMap<(String, String), Row> = BTreeMap::new();
    for path in archives() {
        let archive = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for report in verify(&path, false) {
            if machine_code_only(&archive, &report.kernel) {
                assert_eq!(report.outcome, Outcome::CannotRun, "{archive}: {report:#?}");
                continue;
            }
            assert!(
                matches!(report.outcome, Outcome::Identical | Outcome::Within),
                "{archive}: {report:#?}"
            );
            assert!(
                !report.inexact.is_empty() || report.outcome == Outcome::Identical,
                "{archive}: {report:#?}"
            );
            assert_eq!(report.notes, [""; 0], "{archive}");
            let row = rows.entry((archive.clone(), report.kernel)).or_default();
            row.launches += 1;
            for buffer in &report.buffers {
                row.different += buffer.found.within;
                row.ulp = row.ulp.max(buffer.found.largest_ulp);
                row.relative = match (row.relative, buffer.found.largest_relative) {
                    (Some(one), Some(other)) => Some(one.max(other)),
                    (one, other) => one.or(other),
                };
            }
            row.why = report
                .inexact
                .iter()
                .map(|reason| format!("`{}` (line {})", reason.what, reason.line))
                .collect();
        }
    }
    let table = table(&rows);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/emulator.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (before, rest) = document
        .split_once(BEGIN)
        .expect("the table has a beginning");
    let (written, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("R3_WRITE_TABLE").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(written, table, "R3_WRITE_TABLE=1 writes the table anew");
    }
}

const BEGIN: &str = "<!-- table: made by r3-replay/tests/archives.rs -->\n";
const END: &str = "<!-- end of table -->";

fn table(rows: &BTreeMap<(String, String), Row>) -> String {
    let mut table = String::from(
        "| archive | kernel | launches | elements that differ | worst ULP | worst relative error | what PTX leaves open |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for ((archive, kernel), row) in rows {
        let name = kernel
            .split('(')
            .next()
            .unwrap_or_default()
            .replace('|', "\\|");
        let ulp = row.ulp.map_or("0".to_owned(), |ulp| ulp.to_string());
        let relative = row.relative.map_or("0".to_owned(), |r| format!("{r:.1e}"));
        let why = match row.why.as_slice() {
            [] => "nothing: exact".to_owned(),
            why => why.join(", "),
        };
        table.push_str(&format!(
            "| `{archive}` | `{name}` | {} | {} | {ulp} | {relative} | {why} |\n",
            row.launches, row.different
        ));
    }
    table
}

#[test]
fn a_sample_of_blocks_agrees_with_the_recording() {
    let path = archives()
        .into_iter()
        .find(|path| path.ends_with("matmul.r3"))
        .unwrap();
    let archive = Archive::open(path).unwrap();
    let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| {}));
    let replay = ReplayOptions {
        blocks: Some("1..3".parse().unwrap()),
        ..ReplayOptions::default()
    };
    let mut replayer = Replayer::new(&archive, &mut device, replay);
    let exact = Tolerances::exact();
    let options = VerifyOptions {
        strict: false,
        ..VerifyOptions::exactly(&exact)
    };
    let report = verify_launch(&archive, &mut replayer, LaunchId(1), options);
    assert_eq!(report.outcome, Outcome::Sampled, "{report:#?}");
    let sample = report.sample.unwrap();
    // Tiles of 64 by 64 of a product of 96 by 96: two of them have 32 by 64 elements of 4 bytes, and the others the
    // rest. A byte that is the same before and after is in neither number.
    let (written, untouched) = (sample.written_bytes, sample.untouched_bytes);
    assert!((16_000..=16_384).contains(&written), "{sample:?}");
    assert!((20_000..=20_480).contains(&untouched), "{sample:?}");
}
