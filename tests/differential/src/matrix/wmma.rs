//! `wmma`.

use std::fmt::Write;

use super::kind::Kind;
use super::{HEAD_A, LANES, block_case, list, result, warp_case, words};
use crate::case::{Buffer, Case};
use crate::values::Random;

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for (shape, m, n) in [
        ("m16n16k16", 16, 16),
        ("m32n8k16", 32, 8),
        ("m8n32k16", 8, 32),
    ] {
        for (a, b) in [("row", "col"), ("col", "row"), ("row", "row")] {
            cases.push(wmma(shape, m, n, a, b));
        }
    }
    cases.extend(TYPED.iter().map(typed));
    cases
}

/// One product of given types, from memory to memory.
struct Typed {
    /// Between `mma` and `.sync`.
    operation: &'static str,
    /// What follows after the shape: rounding.
    rounding: &'static str,
    /// Rows, columns, depth.
    shape: [usize; 3],
    /// Layouts of A and B.
    layouts: [&'static str; 2],
    /// Types of A and B.
    types: [&'static str; 2],
    /// Values of both.
    kind: Kind,
    /// Bits of an element of A or B.
    bits: usize,
    /// Type of C and D.
    accumulator: (&'static str, Kind),
    /// `.satfinite`, or nothing.
    end: &'static str,
    /// Registers of A, B, and C or D.
    registers: [usize; 3],
}

const BASE: Typed = Typed {
    operation: "",
    rounding: "",
    shape: [16, 16, 16],
    layouts: ["row", "col"],
    types: ["s8", "s8"],
    kind: Kind::Packed,
    bits: 8,
    accumulator: ("s32", Kind::S32),
    end: "",
    registers: [2, 2, 8],
};

const TYPED: &[Typed] = &[
    BASE,
    Typed {
        layouts: ["col", "row"],
        types: ["u8", "u8"],
        end: ".satfinite",
        ..BASE
    },
    Typed {
        shape: [32, 8, 16],
        registers: [4, 1, 8],
        ..BASE
    },
    Typed {
        shape: [8, 32, 16],
        types: ["u8", "u8"],
        registers: [1, 4, 8],
        ..BASE
    },
    Typed {
        shape: [8, 8, 32],
        types: ["s4", "s4"],
        bits: 4,
        registers: [1, 1, 2],
        ..BASE
    },
    Typed {
        shape: [8, 8, 32],
        types: ["u4", "u4"],
        bits: 4,
        end: ".satfinite",
        registers: [1, 1, 2],
        ..BASE
    },
    Typed {
        operation: ".xor.popc",
        shape: [8, 8, 128],
        types: ["b1", "b1"],
        bits: 1,
        registers: [1, 1, 2],
        ..BASE
    },
    Typed {
        operation: ".and.popc",
        shape: [8, 8, 128],
        types: ["b1", "b1"],
        bits: 1,
        registers: [1, 1, 2],
        ..BASE
    },
    Typed {
        types: ["bf16", "bf16"],
        kind: Kind::Bf16x2,
        bits: 16,
        accumulator: ("f32", Kind::F32),
        registers: [4, 4, 8],
        ..BASE
    },
    Typed {
        shape: [32, 8, 16],
        layouts: ["col", "col"],
        types: ["bf16", "bf16"],
        kind: Kind::Bf16x2,
        bits: 16,
        accumulator: ("f32", Kind::F32),
        registers: [8, 2, 8],
        ..BASE
    },
    Typed {
        shape: [8, 32, 16],
        layouts: ["row", "row"],
        types: ["bf16", "bf16"],
        kind: Kind::Bf16x2,
        bits: 16,
        accumulator: ("f32", Kind::F32),
        registers: [2, 8, 8],
        ..BASE
    },
    Typed {
        shape: [16, 16, 8],
        types: ["tf32", "tf32"],
        kind: Kind::Tf32,
        bits: 32,
        accumulator: ("f32", Kind::F32),
        registers: [4, 4, 8],
        ..BASE
    },
    Typed {
        rounding: ".rn",
        shape: [8, 8, 4],
        types: ["f64", "f64"],
        kind: Kind::F64,
        bits: 64,
        accumulator: ("f64", Kind::F64),
        registers: [1, 1, 2],
        ..BASE
    },
];

fn typed(row: &Typed) -> Case {
    let [m, n, k] = row.shape;
    let shape = format!("m{m}n{n}k{k}");
    let ([la, lb], [ta, tb]) = (row.layouts, row.types);
    let (accumulator, kind) = row.accumulator;
    let product = format!(
        "wmma.mma{}.sync.aligned.{la}.{lb}.{shape}{}.{accumulator}.{ta}.{tb}.{accumulator}{}",
        row.operation, row.rounding, row.end
    );
    let mut random = Random::of(&product);
    let mut factor = |elements: usize| {
        let count = elements * row.bits / 8 / row.kind.bytes();
        words(row.kind, count, true, &mut random)
    };
    let (a, b) = (factor(m * k), factor(k * n));
    let c = words(kind, m * n, true, &mut random);
    let lead_a = if la == "row" { k } else { m };
    let lead_b = if lb == "row" { n } else { k };
    let [na, nb, nc] = row.registers;
    let (ra, rb) = (list('a', na), list('b', nb));
    let (rc, rd) = (list('c', nc), list('d', nc));
    let body = format!(
        "  ld.param.u64 %at, [p0];
  wmma.load.a.sync.aligned.{la}.{shape}.global.{ta} {ra}, [%at], {lead_a};
  ld.param.u64 %at, [p1];
  wmma.load.b.sync.aligned.{lb}.{shape}.global.{tb} {rb}, [%at], {lead_b};
  ld.param.u64 %at, [p2];
  wmma.load.c.sync.aligned.row.{shape}.global.{accumulator} {rc}, [%at], {n};
  {product} {rd}, {ra}, {rb}, {rc};
  ld.param.u64 %at, [p3];
  wmma.store.d.sync.aligned.row.{shape}.global.{accumulator} [%at], {rd}, {n};
"
    );
    let declarations = format!(
        "  .reg .{0} %a<{na}>, %b<{nb}>;\n  .reg .{1} %c<{nc}>, %d<{nc}>;\n",
        row.kind.class(),
        kind.class()
    );
    let d = result(m * n * kind.bytes(), kind.bytes());
    block_case(
        HEAD_A,
        LANES,
        &product,
        &declarations,
        &body,
        vec![a, b, c, d],
    )
}

/// Matrices go from memory to memory, so that the order of values in fragments does not matter.
fn wmma(shape: &str, m: usize, n: usize, a: &str, b: &str) -> Case {
    const K: usize = 16;
    let name = format!("wmma {shape} {a} {b}");
    let mut random = Random::of(&name);
    let mut halves = |count: usize| Buffer {
        bytes: (0..count / 2)
            .flat_map(|_| (Kind::F16x2.value(&mut random) as u32).to_le_bytes())
            .collect(),
        result: None,
    };
    let (input_a, input_b) = (halves(m * K), halves(K * n));
    let c = Buffer {
        bytes: (0..m * n)
            .flat_map(|i| ((i % 7) as f32).to_le_bytes())
            .collect(),
        result: None,
    };
    let (lead_a, lead_b) = (
        if a == "row" { K } else { m },
        if b == "row" { n } else { K },
    );
    let (ra, rb, rc, rd) = (list('a', 8), list('b', 8), list('c', 8), list('d', 8));
    let mut body = String::from("  ld.param.u64 %at, [p0];\n");
    let _ = writeln!(
        body,
        "  wmma.load.a.sync.aligned.{a}.{shape}.global.f16 {ra}, [%at], {lead_a};"
    );
    let _ = writeln!(body, "  ld.param.u64 %at, [p1];");
    let _ = writeln!(
        body,
        "  wmma.load.b.sync.aligned.{b}.{shape}.global.f16 {rb}, [%at], {lead_b};"
    );
    let _ = writeln!(body, "  ld.param.u64 %at, [p2];");
    let _ = writeln!(
        body,
        "  wmma.load.c.sync.aligned.row.{shape}.global.f32 {rc}, [%at], {n};"
    );
    let _ = writeln!(
        body,
        "  wmma.mma.sync.aligned.{a}.{b}.{shape}.f32.f32 {rd}, {ra}, {rb}, {rc};"
    );
    let _ = writeln!(body, "  ld.param.u64 %at, [p3];");
    let _ = writeln!(
        body,
        "  wmma.store.d.sync.aligned.col.{shape}.global.f32 [%at], {rd}, {m};"
    );
    let declarations = "  .reg .b32 %a<8>, %b<8>;\n  .reg .f32 %c<8>, %d<8>;\n";
    warp_case(
        &name,
        declarations,
        &body,
        vec![input_a, input_b, c, result(m * n * 4, 4)],
    )
}
