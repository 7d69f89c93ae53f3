//! The bytes of a small file, so that a change of the format is noticed.

use std::fmt::Write;

use r3_archive::{ArchiveWriter, format::*};

use crate::common::*;

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (n, row) in bytes.chunks(16).enumerate() {
        write!(out, "\n    {:04x} ", n * 16).unwrap();
        row.iter()
            .for_each(|byte| write!(out, " {byte:02x}").unwrap());
    }
    out
}

#[test]
fn the_layout_of_a_small_file() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ArchiveWriter::create(&dir.path().join("a.r3"), options(0)).unwrap();
    writer.append(&device(-1, 0xab)).unwrap();
    writer.put_chunk(b"a chunk of a few bytes").unwrap();
    writer.finish().unwrap();
    let mut bytes = std::fs::read(writer.path()).unwrap();

    // What differs from file to file and from version to version is made the same, after its
    // checksums were checked.
    let mut identity = Identity::parse(bytes[..64].try_into().unwrap()).unwrap();
    assert_eq!(identity.writer_version(), env!("CARGO_PKG_VERSION"));
    identity.uuid = [0x11; 16];
    identity.writer = *b"0.0.0\0\0\0\0\0\0\0\0\0\0\0";
    bytes[..64].copy_from_slice(&identity.to_bytes());
    let mut shown = format!("superblock{}\n", hex(&bytes[..128]));
    assert!(bytes[128..4096].iter().all(|byte| *byte == 0));
    let mut offset = 4096;
    while offset < bytes.len() {
        let (block, rest) = bytes[offset..].split_at_mut(HEADER_LEN);
        let mut header = BlockHeader::parse((&*block).try_into().unwrap()).unwrap();
        header.tag = tag_of(&identity.uuid);
        block.copy_from_slice(&header.to_bytes());
        let len = header.block_len().unwrap() as usize;
        writeln!(shown, "block {:?} at {offset}{}", header.kind, hex(block)).unwrap();
        writeln!(shown, "  payload{}", hex(&rest[..len - HEADER_LEN])).unwrap();
        offset += len;
    }
    insta::assert_snapshot!(shown);
}
