//! Programs that nobody would write: lines of random kernels taken out, doubled, moved. Whatever the checker lets through
//! must be lifted without a panic, into IR that LLVM accepts.

#![allow(clippy::unwrap_used)]

mod common;

use inkwell::context::Context;
use r3_codegen::lift::{Options, lift};
use r3_ptx::generate;

/// A small generator: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

#[test]
fn torn_programs_are_lifted_or_refused() {
    let mut lifted = 0;
    for seed in 0..300 {
        let mut random = Random(seed);
        let kernel = generate::kernel(seed % 20, &generate::Options::default());
        let mut lines: Vec<&str> = kernel.text.lines().collect();
        let start = lines.iter().position(|l| l.contains("%sum")).unwrap_or(0);
        for _ in 0..=random.below(12) {
            let (a, b) = (
                start + random.below(lines.len() - start),
                start + random.below(lines.len() - start),
            );
            match random.below(3) {
                0 => {
                    lines.remove(a);
                }
                1 if !lines[a].ends_with(':') => {
                    let line = lines[a];
                    lines.insert(b, line);
                }
                _ => lines.swap(a, b),
            }
        }
        let text = lines.join("\n");
        let Ok(tree) = r3_ptx::parse(&text) else {
            continue;
        };
        let Ok(module) = r3_ptx::check(&tree) else {
            continue;
        };
        let context = Context::create();
        let made = lift(&context, &module, &Options::default()).unwrap();
        if let Err(message) = made.module.verify() {
            panic!("seed {seed}: {}\n{text}", message.to_string());
        }
        lifted += 1;
    }
    assert!(lifted > 100, "only {lifted} of 300 programs were lifted");
}

#[test]
fn a_kernel_that_is_not_there_is_named() {
    let (_, module) = common::checked(
        ".visible .entry one() { ret; } .visible .entry two() { ret; } .func f() { ret; }",
    );
    let context = Context::create();
    for wanted in ["f", "three"] {
        let options = Options {
            kernel: Some(wanted.into()),
            ..Options::default()
        };
        let error = lift(&context, &module, &options).unwrap_err().to_string();
        assert!(
            error.contains(wanted) && error.contains("one, two"),
            "{error}"
        );
    }
}
