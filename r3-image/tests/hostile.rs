//! Bytes that no compiler wrote: nothing panics, and what is read stays within bounds.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use r3_image::compression::{EXPANSION_FLOOR, MAX_EXPANSION};
use r3_image::{Image, ImageKind, ptx};

static FIXTURES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    paths.retain(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("cubin" | "fatbin" | "ptx"))
    });
    paths.sort();
    assert!(paths.len() > 30);
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
});

/// Asks everything of an image.
fn walk(bytes: &[u8]) {
    let image = Image::parse(bytes);
    for entry in image.entries() {
        assert!(bytes.get(entry.range.clone()).is_some());
        if let Ok(payload) = entry.payload() {
            let stored = entry.stored().len() as u64;
            assert!(payload.len() as u64 <= EXPANSION_FLOOR.max(stored * MAX_EXPANSION));
        }
    }
    for range in image.containers() {
        assert!(bytes.get(range.clone()).is_some());
    }
    for name in image.kernel_names() {
        let kernel = image.kernel(&name).unwrap();
        assert_eq!(kernel.name, name);
        let _ = (kernel.params_len(), kernel.launches_kernels());
        let _ = image.kernel_for(&name, 90);
    }
    let _ = (image.variables(), image.code_forms());
    for problem in image.check() {
        assert!(!problem.to_string().is_empty());
    }
}

/// A real image with some bytes overwritten, and perhaps cut or joined with another.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let count = FIXTURES.len();
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..32);
    let cut = prop::option::of(any::<prop::sample::Index>());
    (0..count, edits, cut, prop::option::of(0..count)).prop_map(|(which, edits, cut, other)| {
        let mut bytes = FIXTURES[which].clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Some(other) = other {
            bytes.extend(&FIXTURES[other]);
        }
        bytes
    })
}

/// Headers are where lengths and offsets are: a real image with whole words of them replaced.
fn words_replaced() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just(0),
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        Just(1 << 31),
        0..1u64 << 16,
        any::<u64>(),
    ];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), value), 1..8);
    (0..FIXTURES.len(), any::<bool>(), edits).prop_map(|(which, front, edits)| {
        let mut bytes = FIXTURES[which].clone();
        let len = if front {
            bytes.len().min(256)
        } else {
            bytes.len()
        };
        for (at, value) in edits {
            let at = at.index(len / 4) * 4;
            let end = (at + 8).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        walk(&bytes);
        walk(&[b"\x50\xED\x55\xBA\x01\x00\x10\x00", &bytes[..]].concat());
        walk(&[b"\x7fELF\x02\x01\x01\x33\x07", &bytes[..]].concat());
    }

    #[test]
    fn damaged_images_are_read_without_a_panic(bytes in damaged()) {
        walk(&bytes);
    }

    #[test]
    fn images_with_wrong_lengths_are_read_without_a_panic(bytes in words_replaced()) {
        walk(&bytes);
    }

    #[test]
    fn arbitrary_declarations_are_scanned_without_a_panic(
        words in prop::collection::vec(
            prop::sample::select(vec![
                ".version 8.0", ".target sm_90", ".visible", ".extern", ".entry f", ".func g", "(",
                ")", "{", "}", "[", "]", ";", ",", "=", ".param", ".global", ".const", ".align 8",
                ".b8 x", ".u64", ".ptr", "4294967295", "18446744073709551615", "0x", "\"", "/*",
                "*/", "//", "\n", ".maxntid", ".pragma \"x\"", ".attribute(.managed)", "call f,",
                ".section .debug_str", "@", "\\", "%r1", ".v4 .f32",
            ]),
            0..64,
        )
    ) {
        let text = words.join(" ");
        ptx::parse(&text);
        walk(format!(".version 8.0 .target sm_90 {text}").as_bytes());
    }
}

#[test]
fn a_bomb_in_every_entry_is_bounded_for_the_image() {
    // 64 MiB of zeros pack into some 2 KiB; the image is refused long before all are unpacked.
    let zeros = vec![0; EXPANSION_FLOOR as usize];
    let packed = zstd::encode_all(&zeros[..], 1).unwrap();
    let padded = packed.len().next_multiple_of(8);
    let mut entry = vec![0; 64];
    entry[0] = 1;
    entry[4] = 64;
    entry[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
    entry[16..20].copy_from_slice(&(packed.len() as u32).to_le_bytes());
    entry[40..48].copy_from_slice(&0x8011u64.to_le_bytes());
    entry.extend(&packed);
    entry.resize(64 + padded, 0);
    let body = entry.repeat(20);
    let mut image = b"\x50\xED\x55\xBA\x01\x00\x10\x00".to_vec();
    image.extend((body.len() as u64).to_le_bytes());
    image.extend(&body);

    let image = Image::from_vec(image);
    assert_eq!(
        (image.kind(), image.entries().len()),
        (ImageKind::Fatbin, 20)
    );
    let limits = image
        .check()
        .iter()
        .filter(|p| p.to_string().contains("limit reached"))
        .count();
    assert!(limits >= 10, "{limits}");
}
