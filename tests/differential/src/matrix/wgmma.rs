//! `wgmma`: one warpgroup, factors in shared memory in each of its layouts.

use std::fmt::Write;

use super::kind::Kind;
use super::{HEAD_A, block_case, list, result, words};
use crate::case::Case;
use crate::values::Random;

const THREADS: usize = 128;
/// Bytes of shared memory: A in the first half, B in the second.
const SHARED: usize = 16384;

/// Types of a product.
struct Types {
    /// Of A and B.
    factors: [&'static str; 2],
    /// Their values.
    kind: Kind,
    /// Depth.
    k: usize,
    /// Of D, its values, and how many elements a register has.
    accumulator: (&'static str, Kind, usize),
    /// Operands behind the predicate.
    end: &'static str,
}

const fn single(factors: [&'static str; 2], kind: Kind, k: usize, end: &'static str) -> Types {
    Types {
        factors,
        kind,
        k,
        accumulator: ("f32", Kind::F32, 1),
        end,
    }
}

const TYPES: &[Types] = &[
    single(["f16", "f16"], Kind::F16x2, 16, ", 1, 1, 0, 0"),
    single(["bf16", "bf16"], Kind::Bf16x2, 16, ", 1, -1, 0, 0"),
    single(["tf32", "tf32"], Kind::Tf32, 8, ", -1, 1"),
    single(["e4m3", "e4m3"], Kind::E4m3x4, 32, ", 1, 1"),
    single(["e5m2", "e4m3"], Kind::E5m2x4, 32, ", 1, 1"),
    Types {
        accumulator: ("f16", Kind::F16x2, 2),
        ..single(["f16", "f16"], Kind::F16x2, 16, ", 1, 1, 0, 0")
    },
    Types {
        accumulator: ("f16", Kind::F16x2, 2),
        ..single(["e4m3", "e5m2"], Kind::E4m3x4, 32, ", 1, 1")
    },
    Types {
        accumulator: ("s32", Kind::S32, 1),
        ..single(["s8", "s8"], Kind::Packed, 32, "")
    },
    Types {
        accumulator: ("s32", Kind::S32, 1),
        ..single(["u8", "s8"], Kind::Packed, 32, "")
    },
];

/// How a factor lies in memory: name, code of the descriptor, distances of its pieces along the rows of 16 bytes and
/// across them.
const LAYOUTS: &[(&str, u64, u64, u64)] = &[
    ("plain", 0, 128, 256),
    ("swizzle 32", 3, 16, 256),
    ("swizzle 64", 2, 16, 512),
    ("swizzle 128", 1, 16, 1024),
];

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for types in TYPES {
        for layout in LAYOUTS {
            for n in [8, 64] {
                cases.push(product(types, *layout, n, types.end, "", false));
            }
        }
    }
    // The other way round, for which all distances count.
    for (name, code, along, across) in [
        ("plain", 0, 128, 1024),
        ("swizzle 32", 3, 512, 256),
        ("swizzle 64", 2, 1024, 512),
        ("swizzle 128", 1, 2048, 1024),
    ] {
        for end in [", 1, 1, 1, 0", ", 1, 1, 0, 1", ", 1, 1, 1, 1"] {
            let layout = (name, code, along, across);
            cases.push(product(&TYPES[0], layout, 64, end, end, false));
        }
    }
    for types in TYPES.iter().filter(|types| types.k == 16) {
        let end = ", 1, 1, 0";
        cases.push(product(types, LAYOUTS[3], 64, end, "A in registers", true));
    }
    cases
}

fn product(
    types: &Types,
    (layout, code, along, across): (&str, u64, u64, u64),
    n: usize,
    end: &str,
    more: &str,
    in_registers: bool,
) -> Case {
    let ([a, b], k, (accumulator, kind, packed)) = (types.factors, types.k, types.accumulator);
    let instruction = format!("wgmma.mma_async.sync.aligned.m64n{n}k{k}.{accumulator}.{a}.{b}");
    let name = format!("{instruction} {layout} {more}");
    let name = name.trim_end();
    let mut random = Random::of(name);
    let factors = words(types.kind, SHARED / 4, true, &mut random);
    let registers = n / 2 / packed;
    let c = words(kind, THREADS * registers, true, &mut random);
    let descriptor = code << 62 | (across >> 4) << 32 | (along >> 4) << 16;
    let mut body = String::from(
        "  ld.param.u64 %base, [p0];
  mad.wide.u32 %at, %lane, 16, %base;
  mov.u32 %box, box;
  mad.lo.u32 %row, %lane, 16, %box;
",
    );
    for step in (0..SHARED).step_by(THREADS * 16) {
        let _ = writeln!(
            body,
            "  ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%at+{step}];\n  st.shared.v4.b32 [%row+{step}], {{%a0, %a1, %a2, %a3}};"
        );
    }
    let _ = writeln!(
        body,
        "  fence.proxy.async;
  bar.sync 0;
  shr.u32 %row, %box, 4;
  cvt.u64.u32 %da, %row;
  or.b64 %da, %da, {descriptor:#x};
  add.u64 %db, %da, {};
  setp.eq.u32 %p, 0, 0;
  mul.lo.u32 %row, %lane, {};
  cvt.u64.u32 %offset, %row;
  ld.param.u64 %base, [p1];
  add.u64 %at, %base, %offset;",
        SHARED / 2 / 16,
        registers * 4
    );
    for register in 0..registers {
        let _ = writeln!(
            body,
            "  ld.global.{} %d{register}, [%at+{}];",
            kind.class(),
            register * 4
        );
    }
    let first = if in_registers {
        list('a', 4)
    } else {
        "%da".into()
    };
    let _ = writeln!(
        body,
        "  wgmma.fence.sync.aligned;
  {instruction} {}, {first}, %db, %p{end};
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  ld.param.u64 %base, [p2];
  add.u64 %at, %base, %offset;",
        list('d', registers)
    );
    for register in 0..registers {
        let _ = writeln!(
            body,
            "  st.global.{} [%at+{}], %d{register};",
            kind.class(),
            register * 4
        );
    }
    let declarations = format!(
        "  .shared .align 1024 .b8 box[{SHARED}];\n  .reg .b32 %a<4>, %box, %row;\n  .reg .b64 %da, %db, %offset;\n  .reg .pred %p;\n  .reg .{} %d<{registers}>;\n",
        kind.class()
    );
    let d = result(THREADS * registers * 4, 4);
    block_case(
        HEAD_A,
        THREADS,
        name,
        &declarations,
        &body,
        vec![factors, c, d],
    )
}
