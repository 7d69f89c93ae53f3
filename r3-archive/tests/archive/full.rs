//! No space left, and a file that is taken away.

use std::{os::fd::AsRawFd, path::Path};

use r3_archive::{Archive, ArchiveWriter, WriteError, ops};

use crate::common::*;

/// Writes until an error comes; checks the error, and what is left in the file.
fn write_until_full(dir: &Path, at_least: u64, at_most: u64) {
    let path = dir.join("a.r3");
    let writer = ArchiveWriter::create(&path, options(2)).unwrap();
    write_sample(&writer, 1);
    let mut written = 1;
    let error = loop {
        let id = written + 1;
        let stored = writer.submit(noise(id, 300_000)).wait().and_then(|chunks| {
            let region = (id, 300_000, chunks.into_iter().collect());
            writer.append(&allocation(id, 300_000))?;
            writer.append(&launch(id, 1, &[region], vec![]))
        });
        match stored {
            Ok(()) => written = id,
            Err(error) => break error,
        }
        assert!(writer.stored_bytes() < at_most, "no error came");
    };
    let WriteError::Full {
        path: named,
        needed,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(**named, path);
    assert!(*needed > 0 && *needed < 70_000, "{error}");
    assert!(
        writer.stored_bytes() > at_least,
        "{} of the space used",
        writer.stored_bytes()
    );
    // It is final, and the same for everybody.
    let again = writer.append(&process()).unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
    assert!(error.is_final());
    assert_eq!(writer.finish().unwrap_err().to_string(), error.to_string());

    let archive = Archive::open(&path).unwrap();
    assert_eq!(archive.launches().len() as u64, written);
    let report = ops::check(&archive).unwrap();
    assert!(report.is_sound(), "{report}");
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn on_a_tiny_file_system() {
    let Some(dir) = child_dir() else { return };
    // SAFETY: system calls with constant arguments; the mounts are seen by this process only.
    let mounted = unsafe {
        (libc::unshare(libc::CLONE_NEWNS) == 0
            || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0)
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(
                c"none".as_ptr(),
                std::ffi::CString::new(dir.to_str().unwrap())
                    .unwrap()
                    .as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                c"size=8m".as_ptr().cast(),
            ) == 0
    };
    if !mounted {
        println!("NOT TESTED: this machine does not let us mount a file system");
        return;
    }
    let writer = ArchiveWriter::create(&dir.join("first.r3"), options(0)).unwrap();
    write_sample(&writer, 1);
    let taken = std::fs::metadata(writer.path()).unwrap().len();
    assert!(
        taken < 2 << 20,
        "{taken} bytes of 8 MiB are taken for {}",
        writer.stored_bytes()
    );
    std::fs::remove_file(writer.path()).unwrap();
    drop(writer);
    write_until_full(&dir, 7 << 20, 8 << 20);
    println!("TESTED");
}

#[test]
fn a_full_file_system_is_an_error_and_keeps_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let output = child("full::on_a_tiny_file_system", dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(stdout.contains("TESTED"));
    print!("{stdout}");
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn under_a_file_size_limit() {
    let Some(dir) = child_dir() else { return };
    let limit = libc::rlimit {
        rlim_cur: 10_000_001,
        rlim_max: 10_000_001,
    };
    // SAFETY: a system call that reads `limit`.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    write_until_full(&dir, 9_000_000, 10_000_001);
}

#[test]
fn a_file_size_limit_is_an_error_and_not_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let output = child("full::under_a_file_size_limit", dir.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status);
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn with_its_descriptors_closed() {
    let Some(dir) = child_dir() else { return };
    let path = dir.join("a.r3");
    let writer = ArchiveWriter::create(&path, options(0)).unwrap();
    write_sample(&writer, 1);
    // As daemons do; then the program opens files of its own, which get the same numbers.
    // SAFETY: nothing in this test uses a descriptor that was open before.
    unsafe { libc::close_range(3, 1023, 0) };
    let precious = dir.join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let held: Vec<_> = (0..400)
        .map(|_| {
            std::fs::File::options()
                .read(true)
                .write(true)
                .open(&precious)
                .unwrap()
        })
        .collect();
    assert!(held.iter().any(|file| file.as_raw_fd() == 200));
    // Enough to make the file grow several times.
    writer.put_bytes(&noise(1, 20 << 20)).unwrap();
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    if std::env::var_os("R3_TEST_REMOVE").is_some() {
        // SAFETY: as above.
        unsafe { libc::close_range(500, 1023, 0) };
        std::fs::remove_file(&path).unwrap();
        // SAFETY: as above.
        unsafe { libc::close_range(3, 1023, 0) };
        std::mem::forget(held);
        let error = writer.put_bytes(&noise(2, 200 << 20)).unwrap_err();
        assert!(matches!(error, WriteError::Lost { .. }), "{error}");
        assert!(matches!(writer.finish(), Err(WriteError::Lost { .. })));
        return;
    }
    writer.finish().unwrap();
    drop(writer);
    assert!(
        held.iter().all(|file| file.metadata().is_ok()),
        "a descriptor was closed"
    );
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    assert!(ops::fsck(&path).unwrap().is_sound());
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_and_the_archive() {
    for remove in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut command = child("full::with_its_descriptors_closed", dir.path());
        if remove {
            command.env("R3_TEST_REMOVE", "1");
        }
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn an_existing_file_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.r3");
    std::fs::write(&path, "mine").unwrap();
    let error = ArchiveWriter::create(&path, options(0)).unwrap_err();
    assert!(matches!(error, WriteError::Exists { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    let error = ArchiveWriter::create(&dir.path().join("no/a.r3"), options(0)).unwrap_err();
    assert!(matches!(error, WriteError::Create { .. }));
    assert!(error.to_string().contains("no/a.r3"));
}

#[test]
fn a_writer_that_is_dropped_gives_back_the_space_it_did_not_use() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(0)).unwrap();
    write_sample(&writer, 1);
    let (path, used) = (writer.path().to_owned(), writer.stored_bytes());
    assert!(std::fs::metadata(&path).unwrap().len() > used);
    drop(writer);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), used);
}
