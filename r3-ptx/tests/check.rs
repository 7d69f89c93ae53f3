//! What the checker says of modules that follow the grammar and are wrong all the same.

#![allow(clippy::unwrap_used)]

use r3_ptx::typed::{self, Operand, Symbol};

/// A kernel with a body, checked.
fn check(body: &str) -> Result<typed::Module, String> {
    let text = module(body);
    let tree = r3_ptx::parse(&text).map_err(|errors| errors.render(&text))?;
    r3_ptx::check(&tree).map_err(|errors| errors.render(&text))
}

fn module(body: &str) -> String {
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.global .u32 counter;
.func (.param .b32 back) twice (.param .b32 a)
{{
ret;
}}
.visible .entry kernel(.param .u64 out)
{{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<8>;
.reg .b64 %l<4>;
.reg .f32 %f<4>;
{body}
ret;
}}
"
    )
}

/// First lines of the messages, without their places in the frame of the module.
fn messages(body: &str) -> String {
    match check(body) {
        Ok(_) => "no error".into(),
        Err(text) => text,
    }
}

#[test]
fn a_register_of_another_type_is_named_with_what_is_expected() {
    insta::assert_snapshot!(messages(
        "add.s32 %r1, %f1, %r2;\nadd.f32 %f1, %f2, %h1;\nmov.u32 %r1, %l1;"
    ));
}

#[test]
fn an_unknown_register_is_named() {
    insta::assert_snapshot!(messages("add.s32 %r1, %r2, %r8;\nmov.u32 %q, 1;"));
}

#[test]
fn too_few_and_too_many_operands_are_counted() {
    insta::assert_snapshot!(messages("add.s32 %r1, %r2;\nbar.sync 0, 64, 1;"));
}

#[test]
fn an_unknown_modifier_is_told_with_those_that_exist() {
    insta::assert_snapshot!(messages(
        "bfe.ftz.u32 %r1, %r2, %r3, %r4;\nshf.l.b32 %r1, %r2, %r3, %r4;"
    ));
}

#[test]
fn modifiers_that_do_not_go_together_are_told_with_the_nearest_form() {
    insta::assert_snapshot!(messages(
        "add.rz.bf16 %h1, %h2, %h3;\nsetp.hi.s32 %p1, %r1, %r2;"
    ));
}

#[test]
fn a_branch_to_a_label_of_another_block_or_none_is_an_error() {
    insta::assert_snapshot!(messages("bra NOWHERE;\n{\nINSIDE:\n}\nbra INSIDE;"));
}

#[test]
fn duplicates_are_told_with_their_first_place() {
    insta::assert_snapshot!(messages(".reg .b32 x;\n.reg .f32 x;\nL:\nL:"));
}

#[test]
fn immediates_have_a_range() {
    insta::assert_snapshot!(messages(
        "bar.sync 16;\nlop3.b32 %r1, %r2, %r3, %r4, 256;\nmov.b32 %r1, 1.5;\nadd.f32 %f1, %f2, 1;"
    ));
}

#[test]
fn calls_are_checked_against_the_function() {
    insta::assert_snapshot!(messages(
        "{\n.param .b64 a;\n.param .b32 b;\ncall (b), twice, (a);\ncall (b), twice, (b, b);\ncall (b), thrice, (b);\n}"
    ));
}

#[test]
fn an_address_of_another_space_is_an_error() {
    insta::assert_snapshot!(messages(
        "ld.shared.u32 %r1, [counter];\nld.global.u32 %r1, [%f1];"
    ));
}

fn body(module: &typed::Module) -> &typed::Body {
    let kernel = module.functions.iter().find(|f| f.entry).unwrap();
    kernel.body.as_ref().unwrap()
}

#[test]
fn registers_of_a_huge_set_exist_when_they_are_used() {
    let checked = check(".reg .b32 %big<4294967295>;\nmov.b32 %big4294967294, %big0;").unwrap();
    assert_eq!(body(&checked).registers.len(), 2);
}

#[test]
fn a_set_of_an_inner_block_covers_registers_of_the_same_name() {
    let checked =
        check("mov.b32 %r1, 1;\n{\n.reg .f32 %r<2>;\nmov.f32 %r1, 0f3F800000;\n}\nmov.b32 %r1, 2;")
            .unwrap();
    let body = body(&checked);
    let written: Vec<_> = body
        .instructions
        .iter()
        .map(|i| body.operands(i).first().copied())
        .collect();
    assert_ne!(written[0], written[1]);
    assert_eq!(written[0], written[2]);
}

#[test]
fn labels_of_blocks_may_have_the_same_name() {
    let checked = check("{\nbra L;\nL:\n}\n{\nbra L;\nL:\n}").unwrap();
    let body = body(&checked);
    assert_eq!(body.operands(&body.instructions[0]), [Operand::Label(1)]);
    assert_eq!(body.operands(&body.instructions[1]), [Operand::Label(2)]);
}

#[test]
fn literals_become_bits_of_their_type() {
    let checked = check(
        "mov.u16 %h1, 70000;\nmov.b32 %r1, -1;\nmov.f32 %f1, 0d3FF8000000000000;\nmov.f32 %f1, 0.1;\nmov.b64 %l1, -2;\nmov.b32 %r1, WARP_SZ;",
    )
    .unwrap();
    let body = body(&checked);
    let bits: Vec<_> = body
        .instructions
        .iter()
        .map(|i| body.operands(i).get(1).copied())
        .collect();
    let expected = [
        70000 & 0xFFFF,
        0xFFFF_FFFF,
        0x3FC0_0000,
        0x3DCC_CCCD,
        -2i64 as u64,
        32,
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|n| Some(Operand::Number(n)))
        .collect();
    assert_eq!(bits[..6], expected);
}

#[test]
fn an_operand_that_a_form_leaves_open_is_absent() {
    let checked =
        check("bar.red.popc.u32 %r1, 0, !%p1;\nbar.red.popc.u32 %r1, 0, 64, !%p1;").unwrap();
    let body = body(&checked);
    let counts: Vec<_> = body.instructions.iter().map(|i| i.operands).collect();
    assert_eq!(counts[..2], [3, 4]);
}

#[test]
fn modifiers_may_stand_in_the_order_that_compilers_write() {
    check("vote.ballot.sync.b32 %r1, %p1, -1;\natom.global.add.u32 %r1, [%l1], 1;\nld.global.relaxed.gpu.u32 %r1, [%l1];").unwrap();
}

fn global(text: &str) -> Result<typed::Module, String> {
    let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{text}\n");
    let tree = r3_ptx::parse(&text).map_err(|errors| errors.render(&text))?;
    r3_ptx::check(&tree).map_err(|errors| errors.render(&text))
}

#[test]
fn initialisers_fill_rows_and_keep_addresses_as_relocations() {
    let checked = global(
        ".global .u32 a;
.global .u16 m[2][3] = {{1, 2}, {3}};
.global .u64 p[3] = {a, generic(a)+4, 7};
.global .u8 b[2] = {0xFF(a), 0xFF00(a)};
.global .f32 f[] = {1.5, 0f40000000, 3};",
    )
    .unwrap();
    let init = |n: usize| checked.variables[n].init.clone().unwrap();
    assert_eq!(init(1), [1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0]);
    assert_eq!(init(2)[16..], [7, 0, 0, 0, 0, 0, 0, 0]);
    let relocations = &checked.variables[2].relocations;
    assert_eq!(relocations.len(), 2);
    assert_eq!(
        (
            relocations[1].offset,
            relocations[1].addend,
            relocations[1].generic
        ),
        (8, 4, true)
    );
    assert_eq!(relocations[0].symbol, Symbol::Variable(typed::VarId(0)));
    let bytes = &checked.variables[3].relocations;
    assert_eq!((bytes[1].offset, bytes[1].bytes, bytes[1].shift), (1, 1, 8));
    assert_eq!(checked.variables[4].size, 12);
    let floats: Vec<_> = init(4)
        .chunks(4)
        .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(floats, [1.5, 2.0, 3.0]);
}

#[test]
fn initialisers_that_do_not_fit_are_errors() {
    insta::assert_snapshot!(
        [
            ".global .u16 a[2] = {1, 2, 3};",
            ".global .u32 a = b;",
            ".global .align 3 .b8 a[4];",
            ".global .b8 a[1099511627776] = {1};"
        ]
        .map(|text| global(text).unwrap_err())
        .join("\n")
    );
}

#[test]
fn parameters_have_the_offsets_of_the_abi() {
    let checked = global(
        ".entry k(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u16 d) { ret; }",
    )
    .unwrap();
    assert_eq!(checked.functions[0].param_offsets, [0, 8, 16, 36]);
    assert_eq!(checked.functions[0].param_bytes, 38);
}
