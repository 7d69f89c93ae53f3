//! `ldmatrix`, `stmatrix` and `movmatrix` through PTX text.

mod warp_support;

use r3_emu::FaultKind;
use warp_support::{Arg, Shape, run, try_run};

/// A kernel that fills shared memory from a buffer, executes `body` with `%row` = address of the lane's row of 16 bytes,
/// and writes shared memory and four registers of each lane back.
fn kernel(rows: usize, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 memory, .param .u64 out)\n{{\n\
         .shared .align 16 .b8 tile[512];\n.reg .b32 %lane, %row, %at, %r<8>;\n.reg .b64 %p, %q;\n.reg .pred %more;\n\
         mov.u32 %lane, %tid.x;\nld.param.u64 %p, [in];\nmov.u32 %row, tile;\nmad.wide.u32 %q, %lane, 16, %p;\n\
         mad.lo.u32 %at, %lane, 16, %row;\nld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%q];\n\
         st.shared.v4.b32 [%at], {{%r4, %r5, %r6, %r7}};\nbar.sync 0;\n\
         and.b32 %row, %lane, {};\nmov.u32 %r0, 0;\nmov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\n\
         shl.b32 %row, %row, 4;\nmov.u32 %r4, tile;\nadd.u32 %row, %row, %r4;\n{body}\nbar.sync 0;\n\
         ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%at];\nld.param.u64 %p, [memory];\nmad.wide.u32 %q, %lane, 16, %p;\n\
         st.global.v4.b32 [%q], {{%r4, %r5, %r6, %r7}};\nld.param.u64 %p, [out];\nmad.wide.u32 %q, %lane, 16, %p;\n\
         st.global.v4.b32 [%q], {{%r0, %r1, %r2, %r3}};\nret;\n}}\n",
        rows - 1
    )
}

fn input() -> Vec<u32> {
    (0..128)
        .map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ 0x5555)
        .collect()
}

/// 16-bit element of a row of the input.
fn half(words: &[u32], row: usize, column: usize) -> u32 {
    words[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff
}

fn byte(words: &[u32], row: usize, column: usize) -> u32 {
    words[row * 4 + column / 4] >> (8 * (column % 4)) & 0xff
}

fn registers(count: usize) -> String {
    let all: Vec<_> = (0..count).map(|i| format!("%r{i}")).collect();
    format!("{{{}}}", all.join(", "))
}

#[test]
fn rows_of_halves_are_spread_over_groups_of_four_lanes() {
    let words = input();
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let word = if transposed { ".trans" } else { "" };
            let text = kernel(
                8 * count,
                &format!(
                    "ldmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16 {}, [%row];",
                    registers(count)
                ),
            );
            let mut args = [Arg::words(&words), Arg::zeros(512), Arg::zeros(512)];
            run(&text, "k", Shape::new(1, 32), &mut args);
            let out = args[2].to_words();
            for lane in 0..32 {
                for matrix in 0..4 {
                    let element = |i: usize| {
                        let (row, column) = (lane / 4, 2 * (lane % 4) + i);
                        let (row, column) = if transposed {
                            (column, row)
                        } else {
                            (row, column)
                        };
                        half(&words, 8 * matrix + row, column)
                    };
                    let want = if matrix < count {
                        element(0) | element(1) << 16
                    } else {
                        0
                    };
                    assert_eq!(
                        out[lane * 4 + matrix],
                        want,
                        "x{count}{word} lane {lane} matrix {matrix}"
                    );
                }
            }
        }
    }
}

#[test]
fn stores_put_back_what_loads_took() {
    let words = input();
    for (load, store) in [("", ""), (".trans", ".trans"), (".trans", "")] {
        let text = kernel(
            32,
            &format!(
                "ldmatrix.sync.aligned.m8n8.x4{load}.shared::cta.b16 {0}, [%row];\nbar.sync 0;\n\
                 stmatrix.sync.aligned.m8n8.x4{store}.shared.b16 [%row], {0};",
                registers(4)
            ),
        );
        let mut args = [Arg::words(&words), Arg::zeros(512), Arg::zeros(512)];
        run(&text, "k", Shape::new(1, 32), &mut args);
        let out = args[1].to_words();
        for row in 0..32 {
            for column in 0..8 {
                let want = if load == store {
                    half(&words, row, column)
                } else {
                    half(&words, row / 8 * 8 + column, row % 8)
                };
                assert_eq!(half(&out, row, column), want, "{load} {store}");
            }
        }
    }
}

#[test]
fn registers_are_transposed_without_memory() {
    let words = input();
    let text = kernel(
        8,
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%row];\nmovmatrix.sync.aligned.m8n8.trans.b16 %r1, %r0;\n\
         ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r2}, [%row];",
    );
    let mut args = [Arg::words(&words), Arg::zeros(512), Arg::zeros(512)];
    run(&text, "k", Shape::new(1, 32), &mut args);
    for lane in args[2].to_words().chunks(4) {
        assert_eq!(lane[1], lane[2]);
        assert_ne!(lane[0], lane[1]);
    }
}

#[test]
fn bytes_are_transposed_in_tiles_of_sixteen() {
    let words = input();
    let text = kernel(
        32,
        "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r0, %r1, %r2, %r3}, [%row];",
    );
    let mut args = [Arg::words(&words), Arg::zeros(512), Arg::zeros(512)];
    run(&text, "k", Shape::new(1, 32), &mut args);
    let out = args[2].to_words();
    for lane in 0..32 {
        for register in 0..4 {
            for i in 0..4 {
                let (matrix, row) = (register / 2, lane / 4 + 8 * (register % 2));
                let want = byte(&words, 16 * matrix + 4 * (lane % 4) + i, row);
                assert_eq!(out[lane * 4 + register] >> (8 * i) & 0xff, want);
            }
        }
    }
}

#[test]
fn four_bit_elements_get_a_byte_each() {
    let words = input();
    let text = kernel(
        8,
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r0}, [%row];",
    );
    let mut args = [Arg::words(&words), Arg::zeros(512), Arg::zeros(512)];
    run(&text, "k", Shape::new(1, 32), &mut args);
    let out = args[2].to_words();
    for lane in 0..32 {
        for i in 0..4 {
            let column = 4 * (lane % 4) + i;
            let nibble = byte(&words, lane / 4, column / 2) >> (4 * (column % 2)) & 15;
            assert_eq!(out[lane * 4] >> (8 * i) & 0xff, nibble << 2);
        }
    }
}

#[test]
fn a_row_that_is_not_aligned_is_a_fault_of_the_lane_that_named_it() {
    let text = kernel(
        8,
        "mov.u32 %r6, 0;\nsetp.eq.u32 %more, %lane, 3;\n@%more mov.u32 %r6, 4;\nadd.u32 %row, %row, %r6;\n\
         ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%row];",
    );
    let mut args = [Arg::words(&input()), Arg::zeros(512), Arg::zeros(512)];
    let fault = try_run(&text, "k", Shape::new(1, 32), &mut args).expect_err("misaligned");
    assert!(
        matches!(fault.kind, FaultKind::Misaligned { align: 16, .. }),
        "{fault}"
    );
    assert_eq!(fault.thread, Some([3, 0, 0]));
}
