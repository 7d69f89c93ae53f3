//! A process that is killed while it writes.

use std::{
    io::Read,
    process::Stdio,
    time::{Duration, Instant},
};

use r3_archive::{Archive, ArchiveWriter, SalvageReason, chunk::*, ops};

use crate::common::*;

const REGION: u64 = 600_000;

fn memory(id: u64, after: bool) -> Vec<u8> {
    let mut memory = noise(id, REGION as usize);
    memory[200_000..300_000].fill(0);
    if after {
        memory[300_000..310_000].copy_from_slice(&noise(id + (1 << 32), 10_000));
    }
    memory
}

#[test]
#[ignore = "run by the test below, in a process of its own, and killed"]
fn writer() {
    let Some(dir) = child_dir() else { return };
    let writer = ArchiveWriter::create(&dir.join("a.r3"), options(2)).unwrap();
    write_sample(&writer, 0);
    println!("started");
    for id in 1.. {
        let before = writer.submit(memory(id, false));
        let after = writer.submit(memory(id, true));
        let (before, after) = (before.wait().unwrap(), after.wait().unwrap());
        let changes = before
            .iter()
            .zip(&after)
            .enumerate()
            .filter(|(_, (before, after))| before != after)
            .map(|(chunk, (_, after))| r3_archive::model::ChunkChange {
                region: 0,
                chunk: chunk as u64,
                data: *after,
            })
            .collect();
        let before: ChunkList = before.into_iter().collect();
        writer.append(&allocation(id, REGION)).unwrap();
        writer
            .append(&launch(id, 1, &[(id, REGION, before)], changes))
            .unwrap();
        println!("{id}");
    }
}

#[test]
fn a_killed_process_leaves_every_launch_that_it_had_written() {
    for round in 0..25u64 {
        let dir = tempfile::tempdir().unwrap();
        let mut process = child("kill::writer", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let path = dir.path().join("a.r3");
        let begun = Instant::now();
        while std::fs::metadata(&path).map_or(0, |m| m.len()) < 1 << 20 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_micros(100));
        }
        std::thread::sleep(Duration::from_micros(round * 1777 % 40_000));
        process.kill().unwrap();
        process.wait().unwrap();
        let mut output = String::new();
        process
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        let reported = output
            .lines()
            .filter_map(|line| line.parse::<u64>().ok())
            .max();

        let archive = Archive::open(&path).unwrap();
        let salvage = archive.salvaged().unwrap();
        assert_eq!(salvage.reason, SalvageReason::NotFinished);
        assert_eq!(salvage.bytes_skipped, 0, "{salvage}");
        assert!(
            salvage.dropped.is_empty() && salvage.damaged.is_empty(),
            "{salvage}"
        );
        let report = ops::check(&archive).unwrap();
        assert!(report.is_sound(), "{report}");
        let launches = archive.launches();
        // Everything that was reported is there, and at most one more.
        let (found, reported) = (launches.len() as u64, reported.unwrap_or(0));
        assert!(
            found == reported || found == reported + 1,
            "{found} of {reported}"
        );
        for launch in launches {
            let read = archive.region_before(launch, 0, 0..REGION).unwrap();
            assert!(read == memory(launch.id.0, false));
            let read = archive.region_after(launch, 0, 0..REGION).unwrap();
            assert!(read == memory(launch.id.0, true));
        }
    }
}

#[test]
fn a_process_killed_at_its_start_leaves_no_file_or_one_that_can_be_read() {
    let mut files = 0;
    for round in 0..40u64 {
        let dir = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let mut process = child("kill::writer", dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let path = dir.path().join("a.r3");
        // Half of them are killed as soon as the file has its name.
        let wait = Duration::from_micros(round * 500);
        while begun.elapsed() < wait || round % 2 == 0 && !path.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::hint::spin_loop();
        }
        process.kill().unwrap();
        process.wait().unwrap();
        if path.exists() {
            files += 1;
            let archive = Archive::open(&path).unwrap();
            let report = ops::check(&archive).unwrap();
            assert!(report.is_sound(), "{report}");
        }
    }
    assert!(files >= 20);
}
