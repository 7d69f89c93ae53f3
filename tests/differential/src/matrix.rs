//! Matrix instructions. Values are small integers, so that sums are exact in whatever order they are made; then each
//! with values of many magnitudes, which show how sums are made.

use std::fmt::Write;

use half::{bf16, f16};

use crate::case::{Buffer, Case, Element, Result};
use crate::values::Random;

/// What a register of a fragment holds.
#[derive(Clone, Copy)]
enum Kind {
    F16x2,
    Bf16x2,
    /// Single precision; as `.tf32` in a `.b32` register.
    F32,
    Tf32,
    F64,
    /// Four of e4m3 or e5m2.
    E4m3x4,
    E5m2x4,
    /// Integers of any width below 32, packed: random bits.
    Packed,
    S32,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            _ => "b32",
        }
    }

    fn bytes(self) -> usize {
        if matches!(self, Self::F64) { 8 } else { 4 }
    }

    /// Values over 24 powers of two; rarely anything, infinities and NaN included.
    fn wild(self, random: &mut Random) -> u64 {
        let bits = random.bits();
        if random.below(48) == 0 {
            return if self.bytes() == 8 {
                bits
            } else {
                bits & 0xffff_ffff
            };
        }
        let mut exponent = |bias: u64| bias - 12 + random.below(25) as u64;
        match self {
            Self::F16x2 => {
                let halves = [exponent(15) << 10, exponent(15) << 10];
                (bits & 0x83ff_83ff) | halves[0] | halves[1] << 16
            }
            Self::Bf16x2 => {
                let halves = [exponent(127) << 7, exponent(127) << 7];
                (bits & 0x807f_807f) | halves[0] | halves[1] << 16
            }
            Self::F32 | Self::Tf32 => (bits & 0x807f_ffff) | exponent(127) << 23,
            Self::F64 => (bits & 0x800f_ffff_ffff_ffff) | exponent(1023) << 52,
            _ => bits & 0xffff_ffff,
        }
    }

    fn value(self, random: &mut Random) -> u64 {
        let mut small = || random.below(9) as i32 - 4;
        match self {
            Self::F16x2 => {
                let (a, b) = (f16::from_f32(small() as f32), f16::from_f32(small() as f32));
                u64::from(a.to_bits()) | u64::from(b.to_bits()) << 16
            }
            Self::Bf16x2 => {
                let (a, b) = (
                    bf16::from_f32(small() as f32),
                    bf16::from_f32(small() as f32),
                );
                u64::from(a.to_bits()) | u64::from(b.to_bits()) << 16
            }
            Self::F32 | Self::Tf32 => (small() as f32).to_bits().into(),
            Self::F64 => f64::from(small()).to_bits(),
            // 0, 1, 2, 0.5 and their negatives.
            Self::E4m3x4 => bytes_of(random, [0x00, 0x38, 0x40, 0x30, 0xb8, 0xc0, 0xb0, 0x80]),
            Self::E5m2x4 => bytes_of(random, [0x00, 0x3c, 0x40, 0x38, 0xbc, 0xc0, 0xb8, 0x80]),
            Self::Packed => random.bits() & 0xffff_ffff,
            Self::S32 => random.bits() % 2001,
        }
    }
}

fn bytes_of(random: &mut Random, values: [u8; 8]) -> u64 {
    (0..4).fold(0, |word, _| word << 8 | u64::from(values[random.below(8)]))
}

/// An instruction, and registers of A, B, C and D for each lane; then the text of further operands.
type Row = (&'static str, [(Kind, usize); 4], &'static str);

fn rows() -> Vec<Row> {
    use Kind::{Bf16x2, E4m3x4, E5m2x4, F16x2, F32, F64, Packed, S32, Tf32};
    let mut rows: Vec<Row> = vec![
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
            [(F16x2, 2), (F16x2, 2), (F32, 8), (F32, 8)],
            "",
        ),
        (
            "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32",
            [(F16x2, 2), (F16x2, 2), (F32, 8), (F32, 8)],
            "",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.row.f16.f16.f16.f16",
            [(F16x2, 2), (F16x2, 2), (F16x2, 4), (F16x2, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
            [(F16x2, 2), (F16x2, 1), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
            [(F16x2, 2), (F16x2, 1), (F16x2, 2), (F16x2, 2)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            [(F16x2, 4), (F16x2, 2), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
            [(F16x2, 4), (F16x2, 2), (F16x2, 2), (F16x2, 2)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
            [(Bf16x2, 2), (Bf16x2, 1), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
            [(Bf16x2, 4), (Bf16x2, 2), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
            [(Tf32, 2), (Tf32, 1), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            [(Tf32, 4), (Tf32, 2), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
            [(F64, 1), (F64, 1), (F64, 2), (F64, 2)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
            [(F64, 2), (F64, 1), (F64, 4), (F64, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
            [(F64, 4), (F64, 2), (F64, 4), (F64, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
            [(F64, 8), (F64, 4), (F64, 4), (F64, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
            [(E4m3x4, 4), (E4m3x4, 2), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32",
            [(E5m2x4, 4), (E4m3x4, 2), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            [(F16x2, 2), (F16x2, 2), (F32, 4), (F32, 4)],
            ", %e, 0x0",
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            [(F16x2, 4), (F16x2, 4), (F32, 4), (F32, 4)],
            ", %e, 0x0",
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32",
            [(Packed, 4), (Packed, 4), (S32, 4), (S32, 4)],
            ", %e, 0x0",
        ),
    ];
    for (name, a, b, c) in [
        ("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", 1, 1, 2),
        (
            "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.s8.s32",
            1,
            1,
            2,
        ),
        ("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32", 2, 1, 4),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4),
        ("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", 4, 2, 4),
        ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32", 1, 1, 2),
        ("mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32", 2, 1, 4),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32", 4, 2, 4),
        (
            "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
            1,
            1,
            2,
        ),
        (
            "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc",
            2,
            1,
            4,
        ),
        (
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
            4,
            2,
            4,
        ),
    ] {
        rows.push((name, [(Packed, a), (Packed, b), (S32, c), (S32, c)], ""));
    }
    rows
}

const HEAD: &str = ".version 8.6\n.target sm_90\n.address_size 64\n";
const LANES: usize = 32;

/// All cases.
pub fn all() -> Vec<Case> {
    let rows = rows();
    let mut cases: Vec<Case> = rows.iter().map(|row| mma(row, false)).collect();
    let floats = rows
        .iter()
        .filter(|(_, [a, ..], _)| !matches!(a.0, Kind::Packed));
    cases.extend(floats.map(|row| mma(row, true)));
    for (count, transposed) in [
        (1, false),
        (2, false),
        (4, false),
        (1, true),
        (2, true),
        (4, true),
    ] {
        cases.push(ldmatrix(count, transposed));
        cases.push(stmatrix(count, transposed));
    }
    cases.push(movmatrix());
    for (shape, m, n) in [
        ("m16n16k16", 16, 16),
        ("m32n8k16", 32, 8),
        ("m8n32k16", 8, 32),
    ] {
        for (a, b) in [("row", "col"), ("col", "row"), ("row", "row")] {
            cases.push(wmma(shape, m, n, a, b));
        }
    }
    cases
}

/// Registers of a fragment as `{%a0, %a1}`.
fn list(name: char, count: usize) -> String {
    let registers: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", registers.join(", "))
}

/// Each lane loads its registers of the fragments as they come; `D` is stored likewise.
fn mma((instruction, [a, b, c, d], more): &Row, wild: bool) -> Case {
    let mut random = Random::of(instruction);
    let mut value = |kind: Kind| {
        if wild {
            kind.wild(&mut random)
        } else {
            kind.value(&mut random)
        }
    };
    let mut buffers = Vec::new();
    for (kind, count) in [a, b, c] {
        let bytes = (0..LANES * count)
            .flat_map(|_| value(*kind).to_le_bytes().into_iter().take(kind.bytes()))
            .collect();
        buffers.push(Buffer {
            bytes,
            result: None,
        });
    }
    buffers.push(result(LANES * d.1 * d.0.bytes(), d.0.bytes()));
    let mut body = String::new();
    // Metadata of sparse products: each four bits name two of four elements, the smaller index first.
    body.push_str("  mov.b32 %e, 0x44e4e444;\n");
    for (index, (name, (kind, count))) in ['a', 'b', 'c'].into_iter().zip([a, b, c]).enumerate() {
        let bytes = kind.bytes();
        let _ = writeln!(body, "  ld.param.u64 %base, [p{index}];");
        let _ = writeln!(body, "  mad.wide.u32 %at, %lane, {}, %base;", bytes * count);
        for register in 0..*count {
            let _ = writeln!(
                body,
                "  ld.global.{} %{name}{register}, [%at+{}];",
                kind.class(),
                register * bytes
            );
        }
    }
    let _ = writeln!(
        body,
        "  {instruction} {}, {}, {}, {}{more};",
        list('d', d.1),
        list('a', a.1),
        list('b', b.1),
        list('c', c.1)
    );
    let _ = writeln!(body, "  ld.param.u64 %base, [p3];");
    let _ = writeln!(
        body,
        "  mad.wide.u32 %at, %lane, {}, %base;",
        d.0.bytes() * d.1
    );
    for register in 0..d.1 {
        let _ = writeln!(
            body,
            "  st.global.{} [%at+{}], %d{register};",
            d.0.class(),
            register * d.0.bytes()
        );
    }
    let mut declarations = String::from("  .reg .b32 %e;\n");
    for (name, (kind, count)) in ['a', 'b', 'c', 'd'].into_iter().zip([a, b, c, d]) {
        let _ = writeln!(declarations, "  .reg .{} %{name}<{count}>;", kind.class());
    }
    let name = if wild {
        format!("{instruction} many magnitudes")
    } else {
        (*instruction).to_owned()
    };
    warp_case(&name, &declarations, &body, buffers)
}

fn result(len: usize, element: usize) -> Buffer {
    Buffer {
        bytes: vec![0xa5; len],
        result: Some(Result {
            element: Element::Bits(element as u8),
            approximate: None,
            sources: Vec::new(),
            mixed: None,
        }),
    }
}

/// A kernel of one warp with `%lane`, `%base` and `%at`.
fn warp_case(name: &str, declarations: &str, body: &str, buffers: Vec<Buffer>) -> Case {
    let parameters: Vec<String> = (0..buffers.len())
        .map(|i| format!(".param .u64 p{i}"))
        .collect();
    Case {
        name: format!("matrix/{name}"),
        ptx: format!(
            "{HEAD}.visible .entry k({})\n{{\n{declarations}  .reg .b32 %lane;\n  .reg .b64 %base, %at;\n  mov.u32 %lane, %tid.x;\n{body}  ret;\n}}\n",
            parameters.join(", ")
        ),
        kernel: "k".into(),
        grid: [1; 3],
        block: [LANES as u32, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        as_written: false,
        buffers,
    }
}

fn random_words(seed: &str, count: usize) -> Buffer {
    let mut random = Random::of(seed);
    Buffer {
        bytes: (0..count)
            .flat_map(|_| (random.bits() as u32).to_le_bytes())
            .collect(),
        result: None,
    }
}

/// 512 bytes of shared memory, one row of 16 bytes for each lane.
const FILL_SHARED: &str = "  ld.param.u64 %base, [p0];
  mad.wide.u32 %at, %lane, 16, %base;
  ld.global.v4.b32 {%w0, %w1, %w2, %w3}, [%at];
  mov.u32 %box, box;
  mad.lo.u32 %row, %lane, 16, %box;
  st.shared.v4.b32 [%row], {%w0, %w1, %w2, %w3};
  bar.warp.sync 0xffffffff;
";
const SHARED: &str = "  .shared .align 16 .b8 box[512];\n  .reg .b32 %w<4>, %d<4>, %box, %row;\n";

fn ldmatrix(count: usize, transposed: bool) -> Case {
    let trans = if transposed { ".trans" } else { "" };
    let name = format!("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16");
    let mut body = FILL_SHARED.to_owned();
    let _ = writeln!(body, "  {name} {}, [%row];", list('d', count));
    let _ = writeln!(
        body,
        "  ld.param.u64 %base, [p1];\n  mad.wide.u32 %at, %lane, {}, %base;",
        4 * count
    );
    for register in 0..count {
        let _ = writeln!(
            body,
            "  st.global.b32 [%at+{}], %d{register};",
            register * 4
        );
    }
    warp_case(
        &name,
        SHARED,
        &body,
        vec![random_words(&name, 128), result(128 * count, 4)],
    )
}

fn stmatrix(count: usize, transposed: bool) -> Case {
    let trans = if transposed { ".trans" } else { "" };
    let name = format!("stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16");
    let mut body = FILL_SHARED.to_owned();
    let _ = writeln!(body, "  {name} [%row], {};", list('w', count));
    body.push_str(
        "  bar.warp.sync 0xffffffff;\n  ld.shared.v4.b32 {%d0, %d1, %d2, %d3}, [%row];\n",
    );
    body.push_str("  ld.param.u64 %base, [p1];\n  mad.wide.u32 %at, %lane, 16, %base;\n");
    body.push_str("  st.global.v4.b32 [%at], {%d0, %d1, %d2, %d3};\n");
    warp_case(
        &name,
        SHARED,
        &body,
        vec![random_words(&name, 128), result(512, 4)],
    )
}

fn movmatrix() -> Case {
    let name = "movmatrix.sync.aligned.m8n8.trans.b16";
    let body = format!(
        "  ld.param.u64 %base, [p0];\n  mad.wide.u32 %at, %lane, 4, %base;\n  ld.global.b32 %a, [%at];\n  {name} %d, %a;\n  ld.param.u64 %base, [p1];\n  mad.wide.u32 %at, %lane, 4, %base;\n  st.global.b32 [%at], %d;\n"
    );
    warp_case(
        name,
        "  .reg .b32 %a, %d;\n",
        &body,
        vec![random_words(name, 32), result(128, 4)],
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
