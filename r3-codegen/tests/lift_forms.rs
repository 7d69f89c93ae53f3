//! A kernel for each form of each instruction.

#![allow(clippy::unwrap_used)]

mod common;

use inkwell::context::Context;
use r3_codegen::passes;
use r3_codegen::recipe::Pipeline;
use r3_ptx::generate;
use r3_ptx::isa::{Form, Forms};

/// Lifts, prints, and reads the examples of a form.
fn try_form(form: &Form, target: &str, version: (u16, u16)) {
    let examples = generate::examples(form);
    let texts: Vec<_> = examples.iter().map(|e| e.text.as_str()).collect();
    let version = format!("{}.{}", version.0, version.1);
    let (text, _) = generate::module(&version, target, &texts);
    let (_, module) = common::checked(&text);
    let context = Context::create();
    let lifted = common::lifted(&context, &module);
    assert_eq!(lifted.verbatim, [], "{}", form.text);
    let printed = common::print(&lifted, &text, &module, &Pipeline::Nothing, 0);
    let tree =
        r3_ptx::parse(&printed).unwrap_or_else(|e| panic!("{}: {}", form.text, e.render(&printed)));
    r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}: {}", form.text, e.render(&printed)));
}

#[test]
fn every_form_is_lifted_printed_and_read_again() {
    for form in Forms::table().all() {
        let target = match form.sm.map(|sm| sm.number) {
            Some(101..=119) => "sm_103a",
            Some(120..) => "sm_120a",
            Some(100) => "sm_100a",
            _ => "sm_90a",
        };
        try_form(form, target, (9, 0));
    }
}

#[test]
fn the_first_target_of_a_form_is_enough() {
    for form in Forms::table().all() {
        let target = form.sm.map_or("sm_50".to_owned(), |sm| sm.to_string());
        // LLVM does not know every target that PTX does.
        let Ok(least) = passes::least_ptx_version(&target) else {
            continue;
        };
        let ptx = form.ptx.map_or((6, 0), |(a, b)| (a.into(), b.into()));
        try_form(form, &target, least.max(ptx));
    }
}
