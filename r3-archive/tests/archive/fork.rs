//! A child made by fork has the parent's writer in its memory and must not use it.

use std::time::Duration;

use r3_archive::{ArchiveWriter, WriteError, ops};

use crate::common::*;

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn parent() {
    let Some(dir) = child_dir() else { return };
    let writer = ArchiveWriter::create(&dir.join("a.r3"), options(2)).unwrap();
    write_sample(&writer, 2);
    let queued = writer.submit(noise(50, 8 << 20));
    // SAFETY: the child calls only methods that take no lock in a child, and `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let refused = |result: Result<(), WriteError>| matches!(result, Err(WriteError::Forked { owner }) if owner != std::process::id());
        let ok = refused(writer.put_chunk(&noise(1, 10)).map(drop))
            && refused(writer.put_chunk(&[0; 10]).map(drop))
            && refused(writer.put_bytes(&noise(1, 10)).map(drop))
            && refused(writer.append(&process()))
            && refused(writer.submit(noise(1, 10)).wait().map(drop))
            && refused(writer.finish())
            && refused(queued.wait().map(drop))
            && refused(writer.error().map_or(Ok(()), Err))
            && !writer.drain(Duration::from_secs(600));
        if std::env::var_os("R3_TEST_ABANDON").is_some() {
            writer.abandon();
        } else {
            drop(writer);
        }
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) }
    }
    let mut status = 0;
    // SAFETY: waits for the child above.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child was not refused, or died");
    queued.wait().unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_child_is_refused_and_does_not_disturb_the_parent() {
    for abandon in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = child("fork::parent", dir.path());
        if abandon {
            command.env("R3_TEST_ABANDON", "1");
        }
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        let report = ops::fsck(dir.path().join("a.r3")).unwrap();
        assert!(report.is_sound() && report.finished, "{report}");
    }
}
