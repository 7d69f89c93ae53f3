//! Arithmetic: what a lifted kernel computes is what the original computes, on the CPU device.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod behaviour;
mod forms;
mod run;
mod values;

use forms::Instruction;
use r3_codegen::recipe::Preset;
use r3_ptx::isa::Mnemonic;
use run::THREADS;

/// Runs a kernel of instructions as it is and lifted.
pub(crate) fn compare(
    instructions: &[Instruction],
    presets: &[(Preset, u8)],
    failures: &mut Vec<String>,
) {
    let original = forms::kernel(instructions);
    let input = forms::input(instructions);
    let bytes = forms::output(instructions);
    let expected = run::run(&original, &input, bytes, THREADS).expect("runs");
    for &(preset, level) in presets {
        let lifted = run::lift(&original, preset, level);
        let actual = lifted.and_then(|lifted| run::run(&lifted.ptx, &input, bytes, THREADS));
        match actual {
            Ok(actual) => failures.extend(
                forms::difference(instructions, &input, THREADS, &expected, &actual)
                    .map(|why| format!("{preset:?}: {why}")),
            ),
            Err(error) => failures.push(format!("{preset:?}: {error}")),
        }
    }
}

pub(crate) fn assert_none(failures: &[String]) {
    assert!(
        failures.is_empty(),
        "{} differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Each alone: LLVM's plain arithmetic has the mode that the instruction wants.
#[test]
fn every_form_computes_the_same() {
    let mut failures = Vec::new();
    let all = forms::all();
    assert!(all.len() > 1500, "{}", all.len());
    for instruction in &all {
        let presets = [(Preset::O0, 0), (Preset::O3, 3)];
        compare(std::slice::from_ref(instruction), &presets, &mut failures);
    }
    assert_none(&failures);
}

/// Many in one kernel, on the same operands: with and without `.ftz`, `.rn` and none, all roundings side by side.
#[test]
fn forms_that_differ_in_modifiers_alone_are_kept_apart() {
    let mut failures = Vec::new();
    for group in forms::all().chunk_by(|a, b| a.mnemonic.opcode() == b.mnemonic.opcode()) {
        for some in group.chunks(64) {
            compare(some, &[(Preset::O3, 3)], &mut failures);
        }
    }
    assert_none(&failures);
}

/// Among many others that flush, and among many that do not: the function's mode is theirs.
#[test]
fn no_form_takes_the_mode_of_its_function() {
    let mut failures = Vec::new();
    for mode in ["add.ftz.f32", "add.f32"] {
        let mnemonic = Mnemonic::parse(mode).expect("a mnemonic");
        let other = Instruction::new(mnemonic, "%f1, %f2, %f3").expect("an instruction");
        for some in forms::all().chunks(64) {
            let mut list = vec![other.clone(); 65];
            list.extend_from_slice(some);
            compare(&list, &[(Preset::O3, 3)], &mut failures);
        }
    }
    assert_none(&failures);
}

/// What LLVM computes at compile time.
#[test]
fn constants_are_computed_as_the_device_does() {
    let mut failures = Vec::new();
    let all = forms::all();
    for some in all.chunks(16) {
        // Each instruction with several operands.
        let many: Vec<Instruction> = some.iter().flat_map(|i| vec![i.clone(); 12]).collect();
        let original = forms::constant_kernel(&many);
        let bytes = forms::output(&many);
        let expected = run::run(&original, &[], bytes, 1).expect("runs");
        let lifted = run::lift(&original, Preset::O3, 3);
        match lifted.and_then(|lifted| run::run(&lifted.ptx, &[], bytes, 1)) {
            Ok(actual) => failures.extend(forms::difference(&many, &[], 1, &expected, &actual)),
            Err(error) => failures.push(error),
        }
    }
    assert_none(&failures);
}
