//! Random programs, from the generator of r3-ptx.

use std::ops::RangeInclusive;

use r3_ptx::generate::{Options, kernel};

use crate::case::{Buffer, Case, Element, Mixed, Result};

/// `count` programs, by seeds from 1. Most are short, so that a difference is easy to find; some have more warps.
pub fn all(count: u64) -> Vec<Case> {
    range(1..=count)
}

/// The programs of these seeds.
pub fn range(seeds: RangeInclusive<u64>) -> Vec<Case> {
    seeds.map(case).collect()
}

/// As [`range`], but programs of a few operations and one warp, for trying very many of them: `small/SEED`.
pub fn small(seeds: RangeInclusive<u64>) -> Vec<Case> {
    let small = |seed: u64| {
        let operations = if seed.is_multiple_of(32) { 40 } else { 8 };
        let name = format!("small/{seed}");
        made(name, seed, operations, 32)
    };
    seeds.map(small).collect()
}

fn case(seed: u64) -> Case {
    let (operations, threads) = match seed % 8 {
        0 => (200, 256),
        1 | 2 => (40, 64),
        _ => (8, 64),
    };
    made(format!("random/{seed}"), seed, operations, threads)
}

fn made(name: String, seed: u64, operations: usize, threads: u32) -> Case {
    let options = Options {
        operations,
        threads,
        ..Options::default()
    };
    let made = kernel(seed, &options);
    let output = (made.threads * made.thread_bytes + 4 * made.accumulators) as usize;
    let approximate = made
        .slots
        .iter()
        .filter_map(|slot| Some((slot.offset, slot.approximate.clone()?)));
    Case {
        name,
        ptx: made.text,
        kernel: "kernel".into(),
        grid: [1; 3],
        block: [made.threads, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        as_written: true,
        buffers: vec![
            Buffer {
                bytes: made
                    .input
                    .iter()
                    .flat_map(|word| word.to_le_bytes())
                    .collect(),
                result: None,
            },
            Buffer {
                bytes: vec![0; output],
                result: Some(Result {
                    element: Element::Bits(4),
                    approximate: None,
                    sources: Vec::new(),
                    mixed: Some(Mixed {
                        stride: made.thread_bytes,
                        end: made.threads * made.thread_bytes,
                        approximate: approximate.collect(),
                    }),
                }),
            },
        ],
    }
}
