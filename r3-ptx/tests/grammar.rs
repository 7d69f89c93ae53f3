//! Forms of the grammar, one by one. That an assembler takes them (or not) was tried with ptxas 13.

use r3_ptx::isa::{SpecialRegister, Word};
use r3_ptx::tree::{Init, Item, Module, Name, Number, Operand, Statement};

const HEAD: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

fn parse(text: &str) -> Module {
    match r3_ptx::parse(text) {
        Ok(module) => module,
        Err(errors) => panic!("{}", errors.render(text)),
    }
}

/// The operands of the last instruction of a body.
fn operands(body: &str) -> Vec<Operand> {
    let module = parse(&format!("{HEAD}.entry k () {{ {body} }}"));
    let Some(Item::Function(function)) = module.items.last() else {
        panic!("no function")
    };
    let body = function.body.as_ref().expect("a body");
    let instruction = body.statements.iter().rev().find_map(|s| match s {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    });
    body.range(instruction.expect("an instruction").operands)
        .to_vec()
}

fn number(text: &str) -> Number {
    match operands(&format!("mov.b64 d, {text};"))[1] {
        Operand::Number(number) => number,
        ref other => panic!("{other:?}"),
    }
}

fn init(text: &str) -> Init {
    let module = parse(&format!("{HEAD}.global .b64 x = {text};"));
    match module.items.into_iter().next() {
        Some(Item::Variable(variable)) => variable.init.expect("a value"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn literals() {
    let cases = [
        ("0", Number::Signed(0)),
        ("0U", Number::Unsigned(0)),
        ("017", Number::Signed(15)),
        ("0b101U", Number::Unsigned(5)),
        ("0xFF", Number::Signed(255)),
        ("9223372036854775807", Number::Signed(i64::MAX)),
        ("9223372036854775808", Number::Unsigned(1 << 63)),
        ("-9223372036854775808", Number::Signed(i64::MIN)),
        ("0xFFFFFFFFFFFFFFFF", Number::Unsigned(u64::MAX)),
        ("0f3F800000", Number::Single(0x3F80_0000)),
        ("0d3FF0000000000000", Number::Double(0x3FF0_0000_0000_0000)),
        ("1.5", Number::Decimal(1.5f64.to_bits())),
        ("-1.5e-3", Number::Decimal((-1.5e-3f64).to_bits())),
        (".5", Number::Decimal(0.5f64.to_bits())),
        ("5.", Number::Decimal(5f64.to_bits())),
        ("1E+5", Number::Decimal(1e5f64.to_bits())),
    ];
    for (text, value) in cases {
        assert_eq!(number(text), value, "{text}");
    }
}

/// Each of them as C computes it, 64 bits wide.
#[test]
fn constant_expressions() {
    let cases = [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-5 / 2", -2),
        ("7 % 4", 3),
        ("1 << 4 | 3", 19),
        ("-5 >> 1", -3),
        ("5 && 0 || 3", 1),
        ("3 ^ 1 & 5", 2),
        ("2 < 3 == 1", 1),
        ("!5", 0),
        ("~5", -6),
        ("1 ? 5 : 7", 5),
        ("0 ? 5 : 1 ? 6 : 7", 6),
        ("WARP_SZ * 4", 128),
        ("4 - -WARP_SZ", 36),
        ("(.s64) 0xFFFFFFFFFFFFFFFF", -1),
        ("1 << 64", 0),
    ];
    for (text, value) in cases {
        assert_eq!(number(text), Number::Signed(value), "{text}");
    }
    // One unsigned side makes both unsigned.
    assert_eq!(number("-5 / 2U"), Number::Unsigned((-5i64 as u64) / 2));
    assert_eq!(number("1.5 + 2.25"), Number::Double(3.75f64.to_bits()));
}

#[test]
fn addresses() {
    let a = Name(1);
    let cases = [
        ("[a]", Operand::Address(a, 0)),
        ("[a+0]", Operand::AddressPlusZero(a)),
        ("[a+-4]", Operand::Address(a, -4)),
        ("[a-4]", Operand::Address(a, -4)),
        ("[a - 4 + 6]", Operand::Address(a, 2)),
        ("[a+4*3]", Operand::Address(a, 12)),
        ("[a+0xFFFFFFFFFFFFFFFC]", Operand::Address(a, -4)),
        ("[16]", Operand::AbsoluteAddress(16)),
    ];
    for (text, operand) in cases {
        let body = format!(".reg .b32 d; ld.global.u32 d, {text};");
        // `k` and `d` come before `a`.
        let found = match operands(&body)[1] {
            Operand::Address(Name(2), offset) => Operand::Address(a, offset),
            Operand::AddressPlusZero(Name(2)) => Operand::AddressPlusZero(a),
            other => other,
        };
        assert_eq!(found, operand, "{text}");
    }
}

/// gpgpu-sim #115: these were not parsed.
#[test]
fn tables_and_prototypes() {
    let module = parse(&format!(
        "{HEAD}.entry k () .reqntid 32, 1, 1 {{
            t: .branchtargets a, b; c: .calltargets f, g;
            p: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
            a: b: ret; }}
        .section .debug_str {{ x: .b8 1, 2
            .b64 x+4 }}"
    ));
    let Some(Item::Function(function)) = module.items.first() else {
        panic!("no function")
    };
    let kinds = function.body.iter().flat_map(|body| &body.statements);
    let found: Vec<usize> = kinds
        .map(|statement| match statement {
            Statement::BranchTargets(_, names) | Statement::CallTargets(_, names) => names.len(),
            Statement::CallPrototype(_, found) => 10 * found.params.len() + found.results.len(),
            Statement::Label(..) => 100,
            _ => 1000,
        })
        .collect();
    assert_eq!(found, [100, 2, 100, 2, 100, 11, 100, 100, 1000]);
    assert!(matches!(module.items.get(1), Some(Item::Verbatim { .. })));
}

/// ZLUDA #79: clang 20 writes `.ptr .align 1` without a space.
#[test]
fn pointers_without_a_space() {
    let module = parse(&format!(
        "{HEAD}.entry k (.param .u64 .ptr .align 1 a, .param .u64 .ptr .global .align 16 b, .param .u64 .ptr c) {{ ret; }}"
    ));
    let Some(Item::Function(function)) = module.items.first() else {
        panic!("no function")
    };
    let found: Vec<_> = function.params.iter().map(|param| param.ptr).collect();
    insta::assert_compact_debug_snapshot!(found);
}

#[test]
fn modifiers_keep_the_order_of_the_text_and_may_have_blanks_before_them() {
    let module = parse(&format!(
        "{HEAD}.entry k () {{ vote.ballot.sync.b32 a, p, -1; vote .sync .ballot .b32 a, p, -1; vote.sync.ballot.b32 a, p, -1; }}"
    ));
    let texts: Vec<&str> = module.mnemonics.iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["vote.ballot.sync.b32", "vote.sync.ballot.b32"]);
    assert!(
        module
            .mnemonics
            .iter()
            .all(|m| m.words().contains(&Word::Ballot))
    );
}

#[test]
fn a_declaration_hides_a_special_register_up_to_the_end_of_its_function() {
    let module = parse(&format!(
        "{HEAD}.entry a () {{ .reg .u32 %tid, %clock; mov.u32 %tid, %clock; }}
        .entry b () {{ mov.u32 x, %clock; mov.u32 x, %tid.y; }}"
    ));
    let count = |item: &Item| match item {
        Item::Function(function) => function.body.iter().flat_map(|body| &body.operands).fold(
            (0, 0),
            |(names, special), operand| match operand {
                Operand::Name(_) => (names + 1, special),
                Operand::Special(SpecialRegister::Clock | SpecialRegister::TidY) => {
                    (names, special + 1)
                }
                _ => (names, special),
            },
        ),
        _ => (0, 0),
    };
    let found: Vec<_> = module.items.iter().map(count).collect();
    assert_eq!(found, [(2, 0), (2, 2)]);
}

#[test]
fn initialisers() {
    let address = |offset, generic, mask| Init::Address {
        name: Name(1),
        offset,
        generic,
        mask,
    };
    let cases = [
        ("v", address(0, false, None)),
        ("v+4", address(4, false, None)),
        ("v+-4", address(-4, false, None)),
        ("generic(v)+8", address(8, true, None)),
        ("0xFF00(v+2)", address(2, false, Some(0xFF00))),
        ("0xFF(generic(v)+1)", address(1, true, Some(0xFF))),
        ("3 * 4", Init::Number(Number::Signed(12))),
        (
            "{ {1}, {v} }",
            Init::List(vec![
                Init::List(vec![Init::Number(Number::Signed(1))]),
                Init::List(vec![address(0, false, None)]),
            ]),
        ),
    ];
    for (text, value) in cases {
        assert_eq!(init(text), value, "{text}");
    }
}

/// Texture references of old programs.
#[test]
fn samplers_keep_their_fields() {
    let text = "{ filter_mode = nearest, addr_mode_0 = wrap }";
    let module = parse(&format!("{HEAD}.global .samplerref s = {text};"));
    match module.items.first() {
        Some(Item::Variable(variable)) => {
            assert_eq!(variable.init, Some(Init::Fields(text.into())))
        }
        other => panic!("{other:?}"),
    }
}

/// Version 3 of PTX: no address size, names with `%` and `$`, old debugging lines.
#[test]
fn old_modules() {
    let module = parse(
        ".version 3.1\n.target sm_30, texmode_independent\n@@DWARF .section .debug_info, \"\", @progbits\n@@DWARF .byte 1\n\
         .entry k (.param .u32 __cudaparm_k_n) {\n.reg .u32 %r<5>, $a;\n$LDWbegin_k:\n@@DWARF .4byte 7\nld.param.u32 %r1, [__cudaparm_k_n];\n\
         .loc\t14\t5\t0\n$Lt_0_1: mad24.lo.u32 $a, %r1, %r2, %r3;\nbra.uni $Lt_0_1;\n}\n",
    );
    assert_eq!((module.version, module.address_size), ((3, 1), None));
    assert_eq!(module.target, ["sm_30", "texmode_independent"]);
    assert_eq!(module.items.len(), 3);
}

/// Pairs, sinks, selectors, tensors, textures with residency.
#[test]
fn shapes_of_operands() {
    let texts = [
        "setp.lt.u32 p|q, a, b;",
        "elect.sync _|p, -1;",
        "tex.2d.v4.f32.f32 {r, g, b, a}|p, [t, s, {x, y}], {1, 2};",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [d+16], [m, {x, y}], [bar], mask;",
        "vadd4.u32.u32.u32 d.b3210, a.b7654, -b.b0, c;",
        "ld.global.u32 d, a[r+1];",
        "mov.b64 {lo, _}, x;",
        "selp.u32 d, v.x, v.a, !p;",
        "mov.u32 d, %tid.x;",
        "call (r), f, (a, 1, _), proto;",
        "add.f32x2 d, -1.0, +2;",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [t+4], {a, b};",
    ];
    let mut shown = String::new();
    for text in texts {
        let text = format!("{HEAD}.entry k () {{ {text} }}");
        let module = parse(&text);
        let printed = module.to_string();
        let line = printed.lines().find(|line| line.starts_with('\t'));
        shown.push_str(line.unwrap_or_default().trim());
        shown.push('\n');
    }
    insta::assert_snapshot!(shown);
}
