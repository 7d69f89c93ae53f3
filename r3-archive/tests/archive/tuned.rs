//! Tuned kernels: files of results, and archives that hold some.

use std::path::Path;

use r3_archive::{Archive, ArchiveWriter, model::*, ops};

use crate::common::*;

fn tuned(writer: &ArchiveWriter, id: u64, kernel: &str) -> TunedKernelRecord {
    let code = |form, bytes: &[u8]| TunedCode {
        form,
        name: kernel.into(),
        target: "sm_90a".into(),
        code: writer.put_bytes(bytes).unwrap(),
    };
    TunedKernelRecord {
        id: TunedId(id),
        kernel: kernel.into(),
        module_hash: [5; 16],
        params: vec![
            ParamLayout { offset: 0, size: 8 },
            ParamLayout { offset: 8, size: 4 },
        ],
        archive: [1; 16],
        archive_hash: [2; 16],
        code: vec![
            code(TunedForm::Cubin, &noise(id, 100_000)),
            code(TunedForm::Ptx, b".version 8.0"),
        ],
        launch: TunedLaunch {
            block: Some([64, 2, 1]),
            grid: [TunedGrid::Cover, TunedGrid::Scale(1, 2), TunedGrid::Same],
            shared: TunedShared::PerThread,
            carveout: Some(50),
        },
        guards: vec![TunedGuard::Param {
            index: 1,
            offset: 0,
            bytes: vec![4, 0, 0, 0],
        }],
        shapes: vec![TunedShape {
            grid: [64, 1, 1],
            block: [256, 1, 1],
            dynamic_shared: 0,
            tuned: 3,
            held_out: 1,
            ratio: 0.71,
        }],
        ratio: [0.71, 0.70, 0.72],
        confidence: 0.95,
        device: "NVIDIA H200".into(),
        compute_capability: (9, 0),
        driver_version: 13000,
        approximate: false,
        candidate: "{}".into(),
        evidence: "{}".into(),
        r3_version: "0.1.0".into(),
        unix_ns: 1_700_000_000_000_000_000,
        source: (id % 2 == 1).then(|| TunedSource {
            name: "k.cu".into(),
            text: writer
                .put_bytes(b"__global__ void k() { /* faster */ }")
                .unwrap(),
            given: writer.put_bytes(b"__global__ void k() {}").unwrap(),
            diff: "@@".into(),
            compiler: "nvrtc".into(),
            options: vec!["-O3".into()],
            lineage: "[]".into(),
            given_ratio: Some([1.0, 0.99, 1.01]),
        }),
    }
}

fn sound(path: &Path) {
    let report = ops::fsck(path).unwrap();
    assert!(
        report.is_sound() && report.warnings == 0 && report.unused_chunks == 0,
        "{report}"
    );
}

#[test]
fn a_file_of_results_is_an_archive_without_a_process_and_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("best.r3t");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    let record = tuned(&writer, 1, "k");
    writer.append(&record).unwrap();
    writer.finish().unwrap();

    let archive = Archive::open(&path).unwrap();
    assert!(archive.salvaged().is_none());
    assert_eq!(archive.tuned(), [record]);
    assert!(archive.launches().is_empty());
    let cubin = archive.tuned()[0].code(TunedForm::Cubin).unwrap();
    assert_eq!(archive.read_blob(&cubin.code).unwrap(), noise(1, 100_000));
    assert!(archive.tuned()[0].code(TunedForm::Llvm).is_none());
    let source = archive.tuned()[0].source.as_ref().unwrap();
    let text = archive.read_blob(&source.text).unwrap();
    assert!(text.ends_with(b"/* faster */ }"));
    sound(&path);
}

#[test]
fn results_in_an_archive_survive_trim_merge_and_attach() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let writer = ArchiveWriter::create(&path("a.r3"), options(0)).unwrap();
    write_sample(&writer, 1);
    let kept = tuned(&writer, 1, "k");
    writer.append(&kept).unwrap();
    writer.append(&tuned(&writer, 2, "another")).unwrap();
    writer.finish().unwrap();
    let archive = Archive::open(path("a.r3")).unwrap();

    // Only what is for a kernel that is kept.
    ops::trim(&archive, |_| true, &path("trimmed.r3")).unwrap();
    let trimmed = Archive::open(path("trimmed.r3")).unwrap();
    assert_eq!(trimmed.tuned(), [kept]);
    sound(&path("trimmed.r3"));

    ops::merge(&[&archive, &trimmed], &path("merged.r3")).unwrap();
    let merged = Archive::open(path("merged.r3")).unwrap();
    let ids: Vec<_> = merged.tuned().iter().map(|tuned| tuned.id.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    sound(&path("merged.r3"));

    ops::attach(&archive, &[], &path("copy.r3")).unwrap();
    let copy = Archive::open(path("copy.r3")).unwrap();
    assert_eq!(copy.tuned(), archive.tuned());
    sound(&path("copy.r3"));
}

#[test]
fn a_guard_on_a_parameter_that_is_not_there_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("best.r3t");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    let mut record = tuned(&writer, 1, "k");
    record.guards.push(TunedGuard::Align {
        index: 2,
        bytes: 16,
    });
    writer.append(&record).unwrap();
    writer.finish().unwrap();
    let report = ops::fsck(&path).unwrap();
    assert!(!report.is_sound());
    assert!(report.to_string().contains("no parameter 2"), "{report}");
}
