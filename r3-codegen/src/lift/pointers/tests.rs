//! Roots of real compilers' output and of small texts.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;

use super::roots;
use r3_ptx::isa::{Opcode, Space};
use r3_ptx::typed::{Module, Operand, RegId};

fn checked(ptx: &str) -> Module {
    let text = match ptx.contains(".version") {
        true => ptx.to_owned(),
        false => format!(".version 8.5\n.target sm_90\n.address_size 64\n{ptx}"),
    };
    let tree = r3_ptx::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(&text)))
}

/// Pointer registers of each function, by space, and parameters.
fn table(module: &Module) -> String {
    let mut out = String::new();
    for function in &module.functions {
        let Some(body) = &function.body else {
            continue;
        };
        let found = roots(module, function);
        let mixed = if found.mixed { ", mixed" } else { "" };
        let params = (0..function.params.len()).filter(|i| found.parameter(*i).is_some());
        let params: Vec<_> = params.map(|i| i.to_string()).collect();
        writeln!(out, "{}{mixed}", function.name).unwrap();
        writeln!(out, "  parameters {}", params.join(" ")).unwrap();
        let spaces = [
            Space::Generic,
            Space::Global,
            Space::Shared,
            Space::Const,
            Space::Local,
            Space::Param,
        ];
        for space in spaces {
            let registers = body.registers.iter().enumerate();
            let names: Vec<&str> = registers
                .filter(|(i, _)| found.register(RegId(*i as u32)) == Some(space))
                .map(|(_, register)| &*register.name)
                .collect();
            if !names.is_empty() {
                writeln!(out, "  {} {}", space.text(), names.join(" ")).unwrap();
            }
        }
    }
    out
}

/// Loads, stores and atomics of which the address is an integer.
fn unrooted(module: &Module) -> Vec<u32> {
    let mut lines = Vec::new();
    for function in &module.functions {
        let Some(body) = &function.body else {
            continue;
        };
        let found = roots(module, function);
        for instruction in &body.instructions {
            let mnemonic = &module.mnemonics[instruction.mnemonic.0 as usize];
            let accesses = [Opcode::Ld, Opcode::St, Opcode::Atom, Opcode::Red];
            for operand in body.operands(instruction) {
                if let Operand::MemoryRegister(register, _) = *operand
                    && accesses.contains(&mnemonic.opcode())
                    && found.register(register).is_none()
                {
                    lines.push(instruction.pos.line);
                }
            }
        }
    }
    lines
}

/// One function with these statements.
fn one(body: &str) -> String {
    let text = format!(
        ".global .align 8 .b8 var[64]; .shared .align 8 .b8 sh[64]; .shared .align 8 .b8 other[64];\n\
         .const .align 8 .b8 con[64];\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n)\n{{\n\
         .reg .b64 %rd<16>; .reg .b32 %r<16>; .reg .pred %p<4>; .reg .f32 %f<4>;\n{body}\nret;\n}}\n"
    );
    let table = table(&checked(&text));
    table.lines().skip(1).collect::<Vec<_>>().join("\n")
}

#[test]
fn kernels_of_nvcc() {
    let module = checked(include_str!("../../../tests/fixtures/pointers/nvcc.ptx"));
    insta::assert_snapshot!(table(&module));
    // The one that aligns an address by arithmetic.
    assert_eq!(unrooted(&module).len(), 1);
}

#[test]
fn a_kernel_of_triton_uses_its_parameters_as_global_addresses() {
    let module = checked(include_str!("../../../tests/fixtures/pointers/triton.ptx"));
    insta::assert_snapshot!(table(&module));
    assert!(unrooted(&module).is_empty());
}

#[test]
fn an_integer_that_is_no_address_stays_one() {
    let found = one("
        ld.param.u64 %rd1, [a]; add.s64 %rd2, %rd1, 8; mul.lo.s64 %rd3, %rd2, %rd2;
        ld.param.u64 %rd4, [b]; st.global.u64 [%rd4], %rd3;
    ");
    assert_eq!(found, "  parameters 1\n  global %rd4");
}

#[test]
fn a_register_with_one_other_definition_stays_an_integer() {
    let found = one("
        ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
        @%p1 and.b64 %rd2, %rd2, -16;
        ld.global.u32 %r2, [%rd2];
    ");
    assert_eq!(found, "  parameters 0\n  generic %rd1");
}

#[test]
fn two_parameters_added_are_told_apart_only_by_their_uses() {
    // Nothing tells which of the two is the address.
    let found = one("
        ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
        add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r1, [%rd3];
    ");
    assert_eq!(found, "  parameters ");
    // The second is used as one.
    let found = one("
        ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
        add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r1, [%rd3]; ld.global.u32 %r2, [%rd2];
    ");
    assert_eq!(found, "  parameters 1\n  global %rd2 %rd3");
}

#[test]
fn loops_carry_pointers() {
    let found = one("
        ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r1, [n]; mov.u32 %r2, sh;
    loop:
        ld.global.u32 %r3, [%rd1]; st.shared.u32 [%r2], %r3; ld.u64 %rd2, [%rd2+8];
        add.s64 %rd1, %rd1, 4; add.s32 %r2, %r2, 4; add.s32 %r1, %r1, -1;
        setp.ne.s32 %p1, %r1, 0; @%p1 bra loop;
    ");
    assert_eq!(
        found,
        "  parameters 0 1\n  generic %rd2\n  global %rd1\n  shared %r2"
    );
}

#[test]
fn an_index_that_is_a_way_between_variables_hides_where_addresses_come_from() {
    let found = table(&checked(
        ".shared .align 8 .b8 sh[64]; .shared .align 8 .b8 other[64];
        .visible .entry k(.param .u64 a)
        {
        .reg .b32 %r<16>;
        mov.u32 %r1, sh; mov.u32 %r2, other; sub.u32 %r3, %r2, %r1; mov.u32 %r4, %tid.x;
        mad.lo.u32 %r5, %r4, 4, %r1; st.shared.u32 [%r5], %r4; add.u32 %r6, %r5, %r3; st.shared.u32 [%r6], %r4;
        ret;
        }",
    ));
    assert_eq!(found, "k, mixed\n  parameters \n");
}

#[test]
fn a_way_between_parameters_leaves_them_integers() {
    // Nothing may be promised of such parameters; what is made of them are addresses all the same.
    let found = one("
        ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd2];
        sub.s64 %rd3, %rd2, %rd1; add.s64 %rd4, %rd1, 16; add.s64 %rd5, %rd4, %rd3; ld.global.u32 %r3, [%rd5];
    ");
    assert_eq!(found, "  parameters \n  global %rd1 %rd2 %rd4 %rd5");
}

#[test]
fn ends_of_loops_are_compared_and_no_mixture() {
    let found = one("
        ld.param.u64 %rd1, [a]; add.s64 %rd2, %rd1, 400;
    loop:
        ld.global.u32 %r3, [%rd1]; add.s64 %rd1, %rd1, 4; sub.s64 %rd4, %rd2, %rd1;
        setp.lt.u64 %p1, %rd1, %rd2; @%p1 bra loop;
    ");
    assert_eq!(found, "  parameters 0\n  global %rd1");
}

#[test]
fn shared_addresses_of_64_bits_are_pointers_when_no_bits_are_used() {
    let found = one("
        mov.u64 %rd1, sh; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
        st.shared.u32 [%rd3], %r1; cvta.shared.u64 %rd4, %rd3; ld.u32 %r2, [%rd4];
    ");
    assert_eq!(found, "  parameters \n  generic %rd4\n  shared %rd1 %rd3");
    let found = one("
        mov.u64 %rd1, sh; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
        st.shared.u32 [%rd3], %r1; shr.u64 %rd4, %rd3, 1; st.shared.u64 [%rd3], %rd4;
    ");
    assert_eq!(found, "  parameters ");
}

#[test]
fn widths_of_shared_addresses_change() {
    let found = one("
        mov.u32 %r1, sh; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, 4, %r1; cvt.u64.u32 %rd1, %r3;
        cvta.shared.u64 %rd2, %rd1; st.u32 [%rd2], %r2; cvta.to.shared.u64 %rd3, %rd2; cvt.u32.u64 %r4, %rd3;
        ld.shared.u32 %r5, [%r4];
    ");
    assert_eq!(
        found,
        "  parameters \n  generic %rd2\n  shared %r1 %r3 %rd1 %rd3 %r4"
    );
}

#[test]
fn numbers_among_addresses() {
    // A null pointer beside an address; a number alone is none.
    let found = one("
        ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
        mov.u64 %rd2, 0; @%p1 mov.u64 %rd2, %rd1; setp.ne.s64 %p2, %rd2, 0; @%p2 ld.global.u32 %r2, [%rd2];
        mov.u32 %r3, 16; st.shared.u32 [%r3], %r2;
    ");
    assert_eq!(found, "  parameters 0\n  global %rd1 %rd2");
}

#[test]
fn addresses_of_parameters_are_pointers_as_long_as_nobody_asks_for_their_bits() {
    let text = |more: &str| {
        format!(
            ".visible .entry k(.param .align 8 .b8 a[64]) {{ .reg .b64 %rd<4>; .reg .b32 %r<4>;
            mov.b64 %rd1, a; ld.param.u32 %r1, [%rd1+8]; cvta.param.u64 %rd2, %rd1; ld.u32 %r2, [%rd2]; {more} ret; }}"
        )
    };
    let found = table(&checked(&text("")));
    assert_eq!(found, "k\n  parameters \n  generic %rd2\n  param %rd1\n");
    let found = table(&checked(&text(
        "shr.u64 %rd3, %rd1, 2; st.local.u64 [0], %rd3;",
    )));
    assert_eq!(found, "k\n  parameters \n  generic %rd2\n");
}
