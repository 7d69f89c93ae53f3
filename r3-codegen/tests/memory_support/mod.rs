//! What the tests of memory have in common.

#![allow(dead_code, clippy::unwrap_used)]

use r3_codegen::passes::random_pipeline;
use r3_codegen::recipe::Pipeline;

use crate::common::{self, Launch, PIPELINES};

/// Checks that a kernel leaves the same bytes, lifted or not: through the pipelines of all tests, and through one of its own
/// that is drawn by its text.
pub fn same(ptx: &str, launch: &Launch<'_>) {
    let expected = common::run(ptx, launch).unwrap_or_else(|e| panic!("the original: {e}\n{ptx}"));
    assert!(expected != launch.buffers, "the kernel does nothing\n{ptx}");
    let seed = ptx.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let own = (Pipeline::Text(random_pipeline(seed)), 3);
    for (pipeline, level) in PIPELINES.iter().chain([&own]) {
        let printed = common::relifted(ptx, pipeline, *level);
        let found = common::run(&printed, launch)
            .unwrap_or_else(|e| panic!("{pipeline:?} at {level}: {e}\n{printed}"));
        assert!(
            expected == found,
            "{pipeline:?} at {level}: {:?}\n{}\n{printed}",
            first_difference(&expected, &found),
            common::with_header(ptx),
        );
    }
}

/// Buffer, byte, expected, found.
fn first_difference(expected: &[Vec<u8>], found: &[Vec<u8>]) -> Option<(usize, usize, u8, u8)> {
    expected
        .iter()
        .zip(found)
        .enumerate()
        .find_map(|(n, (expected, found))| {
            let mut bytes = expected.iter().zip(found).enumerate();
            bytes.find_map(|(at, (a, b))| (a != b).then_some((n, at, *a, *b)))
        })
}

/// Bytes that differ from each other, and as floats are numbers of some size.
pub fn noise(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 7) as u8
        })
        .collect()
}

/// Instructions of a body: lines that begin with one of these words.
pub fn lines<'t>(ptx: &'t str, words: &[&str]) -> Vec<&'t str> {
    let mut found = Vec::new();
    for line in ptx.lines().map(str::trim) {
        if words.iter().any(|word| line.starts_with(word)) {
            found.push(line);
        }
    }
    found
}
