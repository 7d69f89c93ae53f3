//! Lifts, prints with everything put back, and compares on the CPU device.

#![allow(dead_code, clippy::unwrap_used)]

use inkwell::context::Context;
use r3_codegen::recipe::Pipeline;
use r3_codegen::{emit, passes};

use crate::common::{self, Launch, PIPELINES};

/// PTX lifted, sent through a pipeline, and printed.
pub fn emitted(ptx: &str, pipeline: &Pipeline, level: u8) -> String {
    let (text, module) = common::checked(ptx);
    let tree = r3_ptx::parse(&text).unwrap();
    let context = Context::create();
    let lifted = common::lifted(&context, &module);
    assert_eq!(lifted.verbatim, [], "functions that could not be lifted");
    let cpu = module.target.first().map_or("sm_90a", String::as_str);
    let version = passes::ptx_version_for(cpu, module.version).unwrap();
    let machine = passes::machine(cpu, version, level).unwrap();
    passes::prepare(&lifted.module, &machine);
    passes::run(&lifted.module, pipeline, &machine).unwrap();
    passes::fence_contraction(&lifted.module).unwrap();
    let options = emit::Options::default();
    emit::emit(&lifted, &machine, &tree, &module, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks that a kernel leaves the same bytes, lifted or not.
pub fn same(ptx: &str, launch: &Launch<'_>) {
    let expected = common::run(ptx, launch).unwrap_or_else(|e| panic!("the original: {e}\n{ptx}"));
    assert_ne!(expected, launch.buffers, "the kernel does nothing");
    for (pipeline, level) in PIPELINES {
        let printed = emitted(ptx, pipeline, *level);
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
    expected.iter().zip(found).enumerate().find_map(|(n, (expected, found))| {
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
