//! Programs that nobody would write: lines of random kernels taken out, doubled, moved. Whatever the checker lets through
//! must be lifted without a panic, into IR that LLVM accepts.

#![allow(clippy::unwrap_used)]

mod common;

use inkwell::context::Context;
use r3_codegen::lift::{Options, lift};
use r3_codegen::recipe::Pipeline;
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

#[test]
fn a_function_that_cannot_be_lifted_stays_text_with_its_reason() {
    let text = ".visible .entry one(.param .texref image, .param .u64 p)
{
.reg .b32 %r<6>; .reg .b64 %d;
mov.b32 %r0, 0;
tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [image, {%r0}];
ld.param.u64 %d, [p];
st.global.u32 [%d], %r1;
ret;
}
.visible .entry two(.param .u64 p)
{
.reg .b64 %d;
ld.param.u64 %d, [p];
st.global.u32 [%d], 5;
ret;
}";
    let (text, module) = common::checked(text);
    let context = Context::create();
    let lifted = common::lifted(&context, &module);
    let names: Vec<&str> = lifted.verbatim.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["one"]);
    assert!(
        lifted.verbatim[0].1.contains("texref"),
        "{:?}",
        lifted.verbatim
    );
    let printed = common::print(&lifted, &text, &module, &Pipeline::Nothing, 0);
    assert!(printed.contains("[image, "), "the text is gone:\n{printed}");
    assert!(
        printed.contains(".entry two"),
        "the other is gone:\n{printed}"
    );
}
