//! How fast memory goes into an archive and out of it.
//!
//! `zstd` compresses the same data in the same chunks on one thread and writes nothing: what the
//! writer reaches next to it is what hashing, deduplication and the file cost.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, path::Path, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use r3_archive::{Archive, ArchiveWriter, WriterOptions, chunk::*, model::*};

/// Data that is made once and submitted in parts, as a shim does.
const LEN: usize = 128 << 20;
const PART: usize = 8 << 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// 32-bit numbers between 0 and 1, as in most captured memory.
fn floats() -> Vec<u8> {
    let mut random = Random(1);
    (0..LEN / 4)
        .flat_map(|_| (random.next() as u32 as f32 / 4.3e9).to_le_bytes())
        .collect()
}

fn text() -> Vec<u8> {
    let words = [
        "mov.u32 ",
        "%r1",
        "%r27",
        ", ",
        ";\n",
        "add.s32 ",
        "ld.global.f32 ",
        "[%rd4]",
    ];
    let mut random = Random(2);
    let mut out = Vec::with_capacity(LEN + 16);
    while out.len() < LEN {
        out.extend_from_slice(words[random.next() as usize % words.len()].as_bytes());
    }
    out.truncate(LEN);
    out
}

fn writer(dir: &Path, workers: usize) -> ArchiveWriter {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let options = WriterOptions {
        workers,
        ..WriterOptions::default()
    };
    ArchiveWriter::create(&dir.join(format!("{next}.r3")), options).unwrap()
}

/// A written archive; dropping it removes the file.
struct Remove(ArchiveWriter);

impl Drop for Remove {
    fn drop(&mut self) {
        std::fs::remove_file(self.0.path()).unwrap();
    }
}

/// Parts of a buffer that lives as long as the program.
fn submit(writer: &ArchiveWriter, data: &'static [u8]) -> ChunkList {
    let tickets: Vec<_> = data.chunks(PART).map(|part| writer.submit(part)).collect();
    tickets
        .into_iter()
        .flat_map(|ticket| ticket.wait().unwrap())
        .collect()
}

fn writing(c: &mut Criterion, dir: &Path, name: &str, data: &'static [u8]) {
    let mut group = c.benchmark_group(format!("write/{name}"));
    group
        .throughput(Throughput::Bytes(data.len() as u64))
        .sample_size(10);
    group.measurement_time(Duration::from_secs(8));
    group.bench_function("zstd", |b| {
        let mut zstd = zstd::bulk::Compressor::new(1).unwrap();
        let mut out = vec![0; 2 * CHUNK_SIZE];
        b.iter(|| {
            for chunk in data.chunks(CHUNK_SIZE) {
                black_box(zstd.compress_to_buffer(chunk, &mut out[..]).unwrap());
            }
        });
    });
    for workers in [1, 2] {
        group.bench_function(format!("workers-{workers}"), |b| {
            b.iter_with_large_drop(|| {
                let writer = writer(dir, workers);
                black_box(submit(&writer, data));
                Remove(writer)
            });
        });
    }
    group.bench_function("again", |b| {
        let writer = writer(dir, 1);
        submit(&writer, data);
        b.iter(|| black_box(submit(&writer, data)));
    });
    group.finish();
}

fn reading(c: &mut Criterion, dir: &Path, name: &str, data: &'static [u8]) {
    let writer = writer(dir, 2);
    let region = |chunks| RegionSnapshot {
        owner: RegionOwner::Allocation(AllocationId(1)),
        address: 1 << 40,
        len: data.len() as u64,
        chunks,
    };
    let kernel = KernelRecord {
        id: KernelId(1),
        module: None,
        name: "k".into(),
        params: vec![],
        layout: LayoutSource::Driver,
        attributes: vec![],
    };
    writer.append(&kernel).unwrap();
    let before = Snapshot {
        regions: vec![region(submit(&writer, data))],
    };
    for id in 1..=100 {
        let launch = LaunchRecord {
            id: LaunchId(id),
            kernel: KernelId(1),
            device: 0,
            entry_point: "cuLaunchKernel".into(),
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared: 0,
            cooperative: false,
            attributes: vec![],
            params: vec![0; 256],
            pointers: vec![],
            function_settings: vec![],
            cache_config: None,
            limits: vec![],
            occurrence: id,
            sequence: id,
            thread: 1,
            unix_ns: 1,
            before: before.clone(),
            after: SnapshotDelta::default(),
            notes: vec![],
        };
        writer.append(&launch).unwrap();
    }
    let scanned = dir.join("scanned.r3");
    std::fs::copy(writer.path(), &scanned).unwrap();
    writer.finish().unwrap();

    let mut group = c.benchmark_group(format!("read/{name}"));
    group.sample_size(10);
    group.bench_function("open", |b| b.iter(|| Archive::open(writer.path()).unwrap()));
    group.bench_function("open-by-scan", |b| {
        b.iter(|| Archive::open(&scanned).unwrap())
    });
    group.throughput(Throughput::Bytes(data.len() as u64));
    let archive = Archive::open(writer.path()).unwrap();
    let launch = archive.load_launch(LaunchId(1)).unwrap();
    for threads in [1, 2] {
        group.bench_function(format!("region-threads-{threads}"), |b| {
            b.iter(|| {
                let part = data.len() as u64 / threads;
                std::thread::scope(|scope| {
                    for n in 0..threads {
                        let (archive, launch) = (&archive, &launch);
                        scope.spawn(move || {
                            let mut out = vec![0; PART];
                            for at in (n * part..(n + 1) * part).step_by(PART) {
                                archive.read_before(launch, 0, at, &mut out).unwrap();
                                black_box(&out);
                            }
                        });
                    }
                });
            });
        });
    }
    group.bench_function("fsck", |b| {
        b.iter(|| r3_archive::ops::check(&archive).unwrap())
    });
    group.finish();
}

fn all(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let zeros: &[u8] = vec![0; LEN].leak();
    let floats: &[u8] = floats().leak();
    let text: &[u8] = text().leak();
    for (name, data) in [("floats", floats), ("text", text), ("zeros", zeros)] {
        writing(c, dir.path(), name, data);
    }
    reading(c, dir.path(), "floats", floats);
    reading(c, dir.path(), "text", text);
}

criterion_group!(benches, all);
criterion_main!(benches);
