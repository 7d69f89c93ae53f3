//! Many threads on one writer, and on one reader.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use r3_archive::{Archive, ArchiveWriter, WriteError, WriterOptions, chunk::*, model::*, ops};

use crate::common::*;

#[test]
fn threads_that_write_at_the_same_time_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(3)).unwrap();
    write_sample(&writer, 0);
    let memory = |id: u64| {
        // Half of it is the same in all threads, so that they race for the same chunks.
        let mut memory = noise(id % 4, 300_000);
        memory.extend(noise(100 + id, 200_000));
        memory
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..25 {
                    let id = 1 + thread * 25 + n;
                    let memory = memory(id);
                    let len = memory.len() as u64;
                    let chunks: ChunkList = if n % 2 == 0 {
                        writer.submit(memory).wait().unwrap().into_iter().collect()
                    } else {
                        writer.put_bytes(&memory).unwrap().chunks
                    };
                    writer.append(&allocation(id, len)).unwrap();
                    writer
                        .append(&launch(id, 1, &[(id, len, chunks)], vec![]))
                        .unwrap();
                }
            });
        }
    });
    assert!(writer.drain(Duration::from_secs(60)));
    writer.finish().unwrap();
    let report = ops::fsck(writer.path()).unwrap();
    assert!(report.is_sound() && report.warnings == 0, "{report}");
    assert_eq!(report.unused_chunks, 0);

    let archive = Archive::open(writer.path()).unwrap();
    assert_eq!(archive.launches().len(), 100);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let archive = &archive;
            scope.spawn(move || {
                for launch in archive.launches().iter().skip(thread).step_by(4) {
                    let bytes = archive.region_before(launch, 0, 0..500_000).unwrap();
                    assert!(bytes == memory(launch.id.0));
                }
            });
        }
    });
}

/// A buffer that counts how many of its kind are alive.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_buffer_is_dropped_before_its_ticket_is_done() {
    let dir = tempfile::tempdir().unwrap();
    for workers in [0, 1, 4] {
        let path = dir.path().join(format!("{workers}.r3"));
        let writer = ArchiveWriter::create(&path, options(workers)).unwrap();
        let alive = Arc::new(AtomicUsize::new(0));
        let tickets: Vec<_> = (0..8)
            .map(|n| {
                alive.fetch_add(1, Ordering::SeqCst);
                writer.submit(Counted(noise(n, 700_000), alive.clone()))
            })
            .collect();
        // A ticket may be waited for on another thread.
        let waiter = std::thread::spawn(|| {
            for ticket in tickets {
                assert_eq!(ticket.wait().unwrap().len(), 11);
            }
        });
        waiter.join().unwrap();
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        // A ticket that nobody waits for is worked on all the same.
        alive.fetch_add(1, Ordering::SeqCst);
        drop(writer.submit(Counted(noise(99, 700_000), alive.clone())));
        assert!(writer.drain(Duration::from_secs(60)));
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn finishing_while_others_write_leaves_a_sound_file() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = dir.path().join(format!("{round}.r3"));
        let writer = ArchiveWriter::create(&path, options(2)).unwrap();
        write_sample(&writer, 1);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let writer = &writer;
                scope.spawn(move || {
                    for n in 0.. {
                        let id = 10 + thread * 1000 + n;
                        let written = writer.put_bytes(&noise(id, 70_000)).and_then(|blob| {
                            writer.append(&allocation(id, blob.len))?;
                            writer.append(&launch(id, 1, &[(id, blob.len, blob.chunks)], vec![]))
                        });
                        match written {
                            Ok(()) => {}
                            Err(WriteError::Finished { .. }) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_micros(500 * round));
            writer.finish().unwrap();
        });
        let report = ops::fsck(&path).unwrap();
        assert!(report.is_sound() && report.finished, "{report}");
        assert_eq!(report.file_len, writer.stored_bytes());
    }
}

#[test]
fn the_threads_have_a_name_and_block_every_signal() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(2)).unwrap();
    let threads = || {
        let mut found = Vec::new();
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let task = task.unwrap().path();
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.trim() == "r3-archive" {
                found.push(std::fs::read_to_string(task.join("status")).unwrap());
            }
        }
        found
    };
    // None before the first use. Other tests of this process have threads of their own.
    let before = threads().len();
    writer.submit(noise(1, 1000)).wait().unwrap();
    let after = threads();
    assert!(
        after.len() >= before.min(2),
        "{before} before, {} after",
        after.len()
    );
    for status in after {
        let blocked = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))
            .unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        // SIGKILL and SIGSTOP cannot be blocked, and the C library keeps two for itself.
        let exempt = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1) | 0b11 << 31;
        assert_eq!(blocked | exempt, u64::MAX, "{blocked:x}");
    }
}

#[test]
fn a_budget_stops_chunks_and_lets_records_pass() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions {
        byte_budget: 1 << 20,
        ..options(2)
    };
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options).unwrap();
    let launches = write_sample(&writer, 2);
    let error = writer.submit(noise(1, 4 << 20)).wait().unwrap_err();
    assert!(
        matches!(
            error,
            WriteError::Budget {
                budget: 1048576,
                ..
            }
        ),
        "{error}"
    );
    assert!(!error.is_final() && writer.error().is_none());
    assert!(writer.stored_bytes() <= 1 << 20);
    // What is stored already costs nothing.
    writer.put_bytes(&noise(1, CHUNK_SIZE)).unwrap();
    writer
        .append(&ProcessStatsRecord {
            launches: 77,
            ..Default::default()
        })
        .unwrap();
    writer.finish().unwrap();
    let archive = Archive::open(writer.path()).unwrap();
    assert_eq!(archive.launches(), launches);
    assert_eq!(archive.process_stats().launches, 77);
}
