//! Files of a newer R3.

use r3_archive::{Archive, ReadError, format::*};

use crate::common::*;

#[test]
fn a_newer_format_is_named_with_the_version_that_wrote_it() {
    let (mut bytes, _) = sample_bytes(1);
    let mut identity = Identity::parse(bytes[..IDENTITY_LEN].try_into().unwrap()).unwrap();
    identity.version = 7;
    identity.writer = *b"9.3.1\0\0\0\0\0\0\0\0\0\0\0";
    bytes[..IDENTITY_LEN].copy_from_slice(&identity.to_bytes());
    let error = Archive::from_bytes(bytes).unwrap_err();
    assert!(matches!(
        &error,
        ReadError::TooNew {
            found: 7,
            supported: 1,
            ..
        }
    ));
    let shown = error
        .to_string()
        .replace(env!("CARGO_PKG_VERSION"), "(this version)");
    insta::assert_snapshot!(shown);
}

#[test]
fn a_newer_record_is_named_with_the_version_that_wrote_it() {
    let (mut bytes, _) = sample_bytes(1);
    let at = find(&bytes, Kind::LAUNCH);
    let mut header = BlockHeader::parse(bytes[at..at + HEADER_LEN].try_into().unwrap()).unwrap();
    header.version = 2;
    bytes[at..at + HEADER_LEN].copy_from_slice(&header.to_bytes());
    // A scan trusts the header; the index has the version, too.
    bytes[IDENTITY_LEN..IDENTITY_LEN + CLOSING_LEN].copy_from_slice(&Closing::default().to_bytes());
    let error = Archive::from_bytes(bytes).unwrap_err();
    assert!(matches!(
        &error,
        ReadError::TooNew {
            what: "launch",
            found: 2,
            supported: 1,
            ..
        }
    ));
}

#[test]
fn a_newer_chunk_is_named_when_it_is_read() {
    let (mut bytes, launches) = sample_bytes(1);
    let wanted = launches[0].before.regions[0]
        .chunks
        .stored()
        .next()
        .unwrap()
        .1;
    let at = bytes
        .windows(16)
        .position(|window| window == wanted.0)
        .unwrap()
        - 32;
    let mut header = BlockHeader::parse(bytes[at..at + HEADER_LEN].try_into().unwrap()).unwrap();
    assert_eq!(header.hash, wanted);
    header.version = 2;
    bytes[at..at + HEADER_LEN].copy_from_slice(&header.to_bytes());
    let archive = Archive::from_bytes(bytes).unwrap();
    let error = archive.region_before(&launches[0], 0, 0..10).unwrap_err();
    assert!(matches!(
        &error,
        ReadError::TooNew {
            what: "chunk",
            found: 2,
            supported: 1,
            ..
        }
    ));
}

#[test]
fn a_kind_that_is_not_known_is_skipped_and_counted() {
    let (mut bytes, launches) = sample_bytes(2);
    let at = find(&bytes, Kind::PROCESS_STATS);
    let mut header = BlockHeader::parse(bytes[at..at + HEADER_LEN].try_into().unwrap()).unwrap();
    header.kind = Kind(4000);
    header.version = 9;
    bytes[at..at + HEADER_LEN].copy_from_slice(&header.to_bytes());
    bytes[IDENTITY_LEN..IDENTITY_LEN + CLOSING_LEN].copy_from_slice(&Closing::default().to_bytes());
    let archive = Archive::from_bytes(bytes).unwrap();
    assert_eq!(archive.launches(), launches);
    assert_eq!(archive.salvaged().unwrap().unknown_blocks, 1);
}

fn find(bytes: &[u8], kind: Kind) -> usize {
    (BLOCKS_START as usize..bytes.len())
        .step_by(64)
        .find(|at| {
            bytes[*at..]
                .first_chunk()
                .and_then(BlockHeader::parse)
                .is_some_and(|header| header.kind == kind)
        })
        .unwrap()
}
