//! `mma`, dense and sparse.

use std::fmt::Write;

use super::kind::Kind;
use super::{HEAD, HEAD_A, LANES, block_case, list, result};
use crate::case::{Buffer, Case};
use crate::values::Random;

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

/// What came later, or was not thought of at once: the texts of the others stay as they are.
fn later() -> Vec<Row> {
    use Kind::{Bf16x2, E4m3x4, E5m2x4, F16x2, F32, Packed, S32, Tf32};
    let sparse = ", %e, 0x0";
    vec![
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16",
            [(F16x2, 2), (F16x2, 2), (F16x2, 4), (F32, 8)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e5m2.f32",
            [(E4m3x4, 2), (E5m2x4, 1), (F32, 4), (F32, 4)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f16.e5m2.e4m3.f16",
            [(E5m2x4, 2), (E4m3x4, 1), (F16x2, 2), (F16x2, 2)],
            "",
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16",
            [(E4m3x4, 4), (E4m3x4, 2), (F16x2, 2), (F16x2, 2)],
            "",
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
            [(F16x2, 2), (F16x2, 2), (F16x2, 2), (F16x2, 2)],
            ", %e, 0x1",
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
            [(Bf16x2, 2), (Bf16x2, 2), (F32, 4), (F32, 4)],
            ", %e, 0x1",
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32",
            [(Bf16x2, 4), (Bf16x2, 4), (F32, 4), (F32, 4)],
            sparse,
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            [(Tf32, 2), (Tf32, 2), (F32, 4), (F32, 4)],
            sparse,
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32",
            [(Tf32, 4), (Tf32, 4), (F32, 4), (F32, 4)],
            sparse,
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32",
            [(E4m3x4, 4), (E5m2x4, 4), (F32, 4), (F32, 4)],
            sparse,
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32",
            [(Packed, 2), (Packed, 2), (S32, 4), (S32, 4)],
            sparse,
        ),
        (
            "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32",
            [(Packed, 2), (Packed, 2), (S32, 4), (S32, 4)],
            sparse,
        ),
    ]
}

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let float = |row: &&Row| !matches!(row.1[0].0, Kind::Packed);
    let mut cases = Vec::new();
    for (head, rows) in [(HEAD, rows()), (HEAD_A, later())] {
        cases.extend(rows.iter().map(|row| mma(head, row, false)));
        cases.extend(rows.iter().filter(float).map(|row| mma(head, row, true)));
    }
    cases
}

/// Each lane loads its registers of the fragments as they come; `D` is stored likewise.
fn mma(head: &str, (instruction, [a, b, c, d], more): &Row, wild: bool) -> Case {
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
    block_case(head, LANES, &name, &declarations, &body, buffers)
}
