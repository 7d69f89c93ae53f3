//! Code attached after the capture.

use std::path::Path;

use r3_archive::{Archive, ArchiveWriter, model::*, ops};

use crate::common::*;

fn write(path: &Path) {
    let writer = ArchiveWriter::create(path, options(0)).unwrap();
    write_sample(&writer, 2);
    writer.append(&kernel(2, 1, "other")).unwrap();
    writer.finish().unwrap();
}

fn attachment(kernels: &[u64], ptx: &[u8]) -> ops::NewAttachment {
    let kernels = kernels.iter().map(|id| AttachedKernel {
        kernel: KernelId(*id),
        name: format!("kernel{id}"),
        verified: vec![LaunchId(1), LaunchId(2)],
        within: vec![LaunchId(2)],
    });
    ops::NewAttachment {
        record: AttachmentRecord {
            id: AttachmentId(0),
            kernels: kernels.collect(),
            forms: Vec::new(),
            file: "k.cu".into(),
            file_hash: [3; 16],
            source: Some(SourceId(1)),
            build: Some(AttachedBuild {
                compiler: "nvcc 13.0.88".into(),
                command: vec!["nvcc".into(), "-ptx".into()],
                directory: "/home/u/build".into(),
            }),
            device: "CPU device".into(),
            r3_version: "0.1.0".into(),
            unix_ns: 1_700_000_000_000_000_000,
        },
        forms: vec![
            (AttachedForm::Ptx, ptx.to_vec()),
            (AttachedForm::Source, b"source".to_vec()),
        ],
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
fn an_archive_with_attachments_has_everything_it_had_and_the_newest_code_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    write(&path("a.r3"));
    let archive = Archive::open(path("a.r3")).unwrap();
    ops::attach(&archive, &[attachment(&[1, 2], b"first")], &path("b.r3")).unwrap();
    let once = Archive::open(path("b.r3")).unwrap();
    ops::attach(&once, &[attachment(&[1], b"second")], &path("c.r3")).unwrap();

    let twice = Archive::open(path("c.r3")).unwrap();
    assert_eq!(twice.launches(), archive.launches());
    assert_eq!(twice.kernels(), archive.kernels());
    assert_eq!(twice.modules(), archive.modules());
    assert_eq!(twice.kernel_stats(), archive.kernel_stats());
    assert_eq!(twice.process_stats(), archive.process_stats());
    let code = |kernel| -> Vec<Vec<u8>> {
        let records = twice.attached_to(KernelId(kernel));
        let blobs = records.filter_map(|record| record.code(AttachedForm::Ptx));
        blobs.map(|blob| twice.read_blob(blob).unwrap()).collect()
    };
    assert_eq!(code(1), [b"second".to_vec(), b"first".to_vec()]);
    assert_eq!(code(2), [b"first".to_vec()]);
    assert_eq!(
        twice.attachments()[0].build,
        attachment(&[1], b"").record.build
    );
    sound(&path("c.r3"));
}

#[test]
fn trim_keeps_what_is_attached_to_the_kernels_it_keeps() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    write(&path("a.r3"));
    let archive = Archive::open(path("a.r3")).unwrap();
    let both = [attachment(&[1, 2], b"both"), attachment(&[2], b"other")];
    ops::attach(&archive, &both, &path("b.r3")).unwrap();

    // Kernel 2 has no launch.
    let attached = Archive::open(path("b.r3")).unwrap();
    ops::trim(&attached, |_| true, &path("c.r3")).unwrap();
    let trimmed = Archive::open(path("c.r3")).unwrap();
    let [record] = trimmed.attachments() else {
        panic!("{:?}", trimmed.attachments());
    };
    assert_eq!(record.kernels.len(), 1);
    assert_eq!(record.kernels[0].kernel, KernelId(1));
    sound(&path("c.r3"));
}

#[test]
fn merge_numbers_attachments_and_what_they_name_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    write(&path("a.r3"));
    let archive = Archive::open(path("a.r3")).unwrap();
    ops::attach(&archive, &[attachment(&[1], b"code")], &path("b.r3")).unwrap();
    let attached = Archive::open(path("b.r3")).unwrap();
    ops::merge(&[&attached, &attached], &path("c.r3")).unwrap();

    let merged = Archive::open(path("c.r3")).unwrap();
    let [first, second] = merged.attachments() else {
        panic!("{:?}", merged.attachments());
    };
    assert_ne!(first.id, second.id);
    assert_ne!(first.source, second.source);
    let (first, second) = (&first.kernels[0], &second.kernels[0]);
    assert_ne!(first.kernel, second.kernel);
    assert_eq!(first.verified, [LaunchId(1), LaunchId(2)]);
    assert_eq!(second.verified, [LaunchId(3), LaunchId(4)]);
    assert_eq!(second.within, [LaunchId(4)]);
    sound(&path("c.r3"));
}

#[test]
fn code_for_a_kernel_that_is_not_there_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("a.r3"));
    let archive = Archive::open(dir.path().join("a.r3")).unwrap();
    let out = dir.path().join("b.r3");
    let error = ops::attach(&archive, &[attachment(&[7], b"code")], &out).unwrap_err();
    assert!(error.to_string().contains("no kernel 7"), "{error}");
    assert!(!out.exists());
}
