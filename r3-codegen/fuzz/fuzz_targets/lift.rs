//! PTX of strangers: what the checker lets pass is lifted or refused, and what is lifted is a module that LLVM accepts.
#![no_main]

use inkwell::context::Context;
use libfuzzer_sys::fuzz_target;
use r3_codegen::lift::{Options, lift};

fuzz_target!(|text: &str| {
    let Ok(tree) = r3_ptx::parse(text) else { return };
    let Ok(module) = r3_ptx::check(&tree) else {
        return;
    };
    let context = Context::create();
    let options = Options {
        keep_nounroll: true,
        keep_guards: text.len() % 2 == 1,
        ..Options::default()
    };
    if let Ok(lifted) = lift(&context, &module, &options) {
        if let Err(reason) = lifted.module.verify() {
            panic!("{reason}\n{text}");
        }
    }
});
