//! Writes seeds for the fuzz targets: `cargo run -p r3-archive --example fuzz-seeds`.
#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::{fs, path::Path};

use r3_archive::{ArchiveWriter, WriterOptions, format::*, model::*};

#[path = "../tests/archive/common.rs"]
#[allow(dead_code, reason = "a part is used")]
mod common;
use common::*;

fn main() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for target in ["reader", "record", "index"] {
        fs::create_dir_all(corpus.join(target)).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, launches, table, finish) in [
        ("finished", 2, false, true),
        ("killed", 2, false, false),
        ("table", 1, true, true),
        ("table-killed", 1, true, false),
        ("empty", 0, false, true),
    ] {
        let path = dir.path().join(name);
        let options = WriterOptions {
            workers: 0,
            ..WriterOptions::default()
        };
        let writer = ArchiveWriter::create(&path, options).unwrap();
        write_sample_of(&writer, launches, 300);
        if table {
            let chunk = writer.put_chunk(&[7; 65536]).unwrap();
            let region = (1, 100 << 16, std::iter::repeat_n(chunk, 100).collect());
            let change = ChunkChange {
                region: 0,
                chunk: 9,
                data: chunk,
            };
            writer
                .append(&launch(9, 1, &[region], vec![change]))
                .unwrap();
        }
        if finish {
            writer.finish().unwrap();
        }
        drop(writer);
        let bytes = fs::read(&path).unwrap();
        fs::write(corpus.join("reader").join(name), &bytes).unwrap();
        parts(&bytes, &corpus, name);
    }
}

/// The bodies of the blocks, for the targets that decode one.
fn parts(bytes: &[u8], corpus: &Path, name: &str) {
    let mut offset = BLOCKS_START as usize;
    while let Some(header) = bytes.get(offset..).and_then(<[u8]>::first_chunk) {
        let Some(header) = BlockHeader::parse(header) else {
            break;
        };
        let payload = &bytes[offset + HEADER_LEN..][..header.stored_len as usize];
        let body = match header.codec {
            0 => payload.to_vec(),
            _ => zstd::bulk::decompress(payload, header.raw_len as usize).unwrap(),
        };
        let file = format!("{name}-{offset}");
        match header.kind {
            Kind::CHUNK => {}
            Kind::INDEX => fs::write(corpus.join("index").join(file), body).unwrap(),
            kind => {
                let body = [&[kind.0 as u8], &body[..]].concat();
                fs::write(corpus.join("record").join(file), body).unwrap();
            }
        }
        offset += header.block_len().unwrap() as usize;
    }
}
