//! `ldmatrix`, `stmatrix`, `movmatrix`.

use std::fmt::Write;

use super::{list, result, warp_case};
use crate::case::{Buffer, Case};
use crate::values::Random;

/// All cases.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
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
    cases
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
