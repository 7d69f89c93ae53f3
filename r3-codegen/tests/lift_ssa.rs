//! Random flow of control, not only what compilers make: values must meet where they would in registers.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;

use common::{Launch, same_bytes, words};
use proptest::prelude::*;

/// What a block does: operations as (kind, destination, sources, guard), and how it ends as (kind, targets).
#[derive(Clone, Debug)]
struct Block {
    operations: Vec<(u8, u8, u8, u8, u8)>,
    end: (u8, usize, usize, u8),
}

fn block() -> impl Strategy<Value = Block> {
    let operation = (0..8u8, 0..6u8, 0..6u8, 0..6u8, 0..6u8);
    let end = (0..6u8, 0..100usize, 0..100usize, 0..3u8);
    (prop::collection::vec(operation, 0..5), end)
        .prop_map(|(operations, end)| Block { operations, end })
}

/// A kernel of these blocks. A thread leaves it when it has been through enough of them.
fn kernel(blocks: &[Block]) -> String {
    let mut text = String::from(
        ".visible .entry k(.param .u64 p)
{
.reg .pred %p<4>; .reg .b32 %r<6>; .reg .b32 %t, %fuel; .reg .b64 %at;
ld.param.u64 %at, [p];
mov.u32 %t, %tid.x;
mad.wide.u32 %at, %t, 4, %at;
ld.global.u32 %r0, [%at];
mov.u32 %fuel, 40;
not.b32 %r1, %t; mul.lo.u32 %r2, %t, 77; mov.u32 %r3, 5; add.u32 %r4, %r0, %r2; xor.b32 %r5, %r0, %r1;
setp.lt.u32 %p0, %t, 7; setp.gt.s32 %p1, %r0, 0; setp.eq.u32 %p2, %r3, 5;
add.cc.u32 %r3, %r0, %r1;
",
    );
    let tables = blocks.iter().enumerate().filter(|(_, b)| b.end.0 == 4);
    for (i, block) in tables {
        let targets: Vec<_> = (0..4)
            .map(|n| format!("L{}", (block.end.1 * (n + 1) + block.end.2) % blocks.len()))
            .collect();
        _ = writeln!(text, "T{i}: .branchtargets {};", targets.join(", "));
    }
    for (i, block) in blocks.iter().enumerate() {
        _ = writeln!(text, "L{i}:");
        for &(kind, d, a, b, guard) in &block.operations {
            let guard = match guard {
                0..3 => format!("@%p{guard} "),
                3 => format!("@!%p{} ", d % 3),
                _ => String::new(),
            };
            _ = match kind {
                0 => writeln!(text, "{guard}add.u32 %r{d}, %r{a}, %r{b};"),
                1 => writeln!(text, "{guard}mov.b32 %r{d}, %r{a};"),
                2 => writeln!(text, "{guard}setp.lt.s32 %p{}, %r{a}, %r{b};", d % 3),
                3 => writeln!(text, "{guard}add.cc.u32 %r{d}, %r{a}, %r{b};"),
                4 => writeln!(text, "{guard}addc.u32 %r{d}, %r{a}, %r{b};"),
                5 => writeln!(text, "{guard}subc.cc.u32 %r{d}, %r{a}, %r{b};"),
                6 => writeln!(text, "{guard}ld.global.u32 %r{d}, [%at];"),
                _ => writeln!(text, "{guard}st.global.u32 [%at], %r{a};"),
            };
        }
        _ = writeln!(
            text,
            "sub.u32 %fuel, %fuel, 1; setp.eq.u32 %p3, %fuel, 0; @%p3 bra OUT;"
        );
        let (kind, one, other, predicate) = block.end;
        let (one, other) = (one % blocks.len(), other % blocks.len());
        _ = match kind {
            0 => writeln!(text, "@%p{predicate} bra L{one};"),
            1 => writeln!(text, "@!%p{predicate} bra L{one}; bra L{other};"),
            2 => writeln!(text, "bra L{one};"),
            3 => writeln!(text, "@%p{predicate} bra OUT;"),
            4 => writeln!(
                text,
                "and.b32 %t, %r{predicate}, 3; @%p{predicate} brx.idx %t, T{i};"
            ),
            _ => Ok(()),
        };
    }
    for register in 1..6 {
        _ = writeln!(text, "xor.b32 %r0, %r0, %r{register};");
    }
    _ = writeln!(
        text,
        "OUT: selp.u32 %r1, %r1, 3, %p1; add.u32 %r0, %r0, %r1; addc.u32 %r0, %r0, %r4;"
    );
    text.push_str("st.global.u32 [%at], %r0;\nret;\n}\n");
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_flow_of_control_computes_the_same(blocks in prop::collection::vec(block(), 1..14)) {
        let content: Vec<u32> = (0..32).map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ i).collect();
        same_bytes(&kernel(&blocks), &Launch::new("k", 32, words(&content)));
    }
}
