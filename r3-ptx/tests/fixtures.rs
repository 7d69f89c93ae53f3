//! Real compiler output and the traps that parsers have fallen into.
//!
//! `mma`, `asm`, `variables`, `calls`, `hopper`, `blackwell` come out of `corpus/kernels.py`, `debug` and `lineinfo`
//! of two small sources (nvcc 13.0 -G, -lineinfo). `traps` is written by hand; ptxas takes each of its lines.

use r3_ptx::tree::{Item, Module};

const FIXTURES: &[(&str, &str)] = &[
    ("asm", include_str!("fixtures/asm.ptx")),
    ("blackwell", include_str!("fixtures/blackwell.ptx")),
    ("calls", include_str!("fixtures/calls.ptx")),
    ("debug", include_str!("fixtures/debug.ptx")),
    ("hopper", include_str!("fixtures/hopper.ptx")),
    ("lineinfo", include_str!("fixtures/lineinfo.ptx")),
    ("mma", include_str!("fixtures/mma.ptx")),
    ("traps", include_str!("fixtures/traps.ptx")),
    ("variables", include_str!("fixtures/variables.ptx")),
];

fn parse(text: &str) -> Module {
    match r3_ptx::parse(text) {
        Ok(module) => module,
        Err(errors) => panic!("{}", errors.render(text)),
    }
}

#[test]
fn printed_text_gives_the_same_tree() {
    for (name, text) in FIXTURES {
        let mut module = parse(text);
        let mut again = parse(&module.to_string());
        module.clear_positions();
        again.clear_positions();
        assert!(module == again, "{name}");
    }
}

/// Editors on some systems do so, and archives keep what they got.
#[test]
fn byte_order_marks_line_ends_and_nul_make_no_difference() {
    for (name, text) in FIXTURES {
        let mut module = parse(text);
        let other = format!("\u{FEFF}{}\0trailing", text.replace('\n', "\r\n"));
        let mut again = parse(&other);
        module.clear_positions();
        again.clear_positions();
        // Sections are kept as text, with their line ends.
        for item in &mut again.items {
            if let Item::Verbatim { text, .. } = item {
                *text = text.replace("\r\n", "\n").into();
            }
        }
        assert!(module == again, "{name}");
    }
}

#[test]
fn snapshots() {
    for (name, text) in FIXTURES {
        if ["asm", "debug", "hopper", "traps", "variables"].contains(name) {
            insta::assert_snapshot!(*name, parse(text));
        }
    }
}

/// What the text says is what the tree says: numbers, names, places.
#[test]
fn places_are_those_of_the_text() {
    use r3_ptx::tree::Statement;
    for (name, text) in FIXTURES {
        let lines: Vec<&str> = text.split('\n').collect();
        let module = parse(text);
        let functions = module.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        });
        for function in functions {
            let at = |pos: r3_ptx::source::Pos| {
                lines
                    .get(pos.line as usize - 1)
                    .and_then(|line| line.get(pos.column as usize - 1..))
                    .unwrap_or_default()
            };
            assert!(at(function.pos).starts_with(module.name(function.name)));
            for statement in function.body.iter().flat_map(|body| &body.statements) {
                let (pos, start) = match statement {
                    Statement::Instruction(found) => (
                        found.pos,
                        match found.guard {
                            Some(_) => "@",
                            None => module.mnemonic(found.mnemonic).opcode().text(),
                        },
                    ),
                    Statement::Label(pos, name) => (*pos, module.name(*name)),
                    Statement::Variable(found) => (found.pos, module.name(found.name)),
                    Statement::BlockBegin(pos) => (*pos, "{"),
                    Statement::BlockEnd(pos) => (*pos, "}"),
                    Statement::Loc(pos, _) => (*pos, ".loc"),
                    Statement::Pragma(pos, _) => (*pos, ".pragma"),
                    Statement::BranchTargets(pos, _) => (*pos, ".branchtargets"),
                    Statement::CallTargets(pos, _) => (*pos, ".calltargets"),
                    Statement::CallPrototype(pos, _) => (*pos, ".callprototype"),
                    Statement::Verbatim(pos, text) => (*pos, &**text),
                };
                assert!(at(pos).starts_with(start), "{name} {pos}: {start}");
            }
        }
    }
}
