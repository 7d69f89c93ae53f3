//! `wgmma` through PTX text: multiplicands in shared memory in all layouts, or A in registers.

mod warp_support;

use warp_support::{Arg, Shape, run};

/// How a multiplicand lies in shared memory.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Layout {
    /// Bytes of a row of the swizzle pattern: 16 for none, 32, 64 or 128.
    width: usize,
    /// Elements along `k` are neighbours.
    k_major: bool,
}

impl Layout {
    /// Place of an element of `bytes` bytes, in a matrix of 64 KiB at most with blocks in the order of the ISA's figures.
    fn place(self, mn: usize, k: usize, bytes: usize, depth: usize) -> usize {
        // The pattern has 8 rows of `width` bytes; its rows run along mn where k is contiguous, else along k.
        let (row, column, columns) = if self.k_major {
            (mn, k * bytes, depth * bytes)
        } else {
            (k, mn * bytes, 0)
        };
        let chunk = column % self.width / 16;
        let swizzled = match self.width {
            16 => chunk,
            32 => chunk ^ (row / 4 % 2),
            64 => chunk ^ (row / 2 % 4),
            _ => chunk ^ (row % 8),
        };
        let pattern = 8 * self.width;
        // Patterns along the contiguous direction come first where there are several.
        let across = if self.k_major {
            columns.div_ceil(self.width)
        } else {
            0
        };
        let index = if self.k_major {
            row / 8 * across + column / self.width
        } else {
            column / self.width * depth.div_ceil(8) + row / 8
        };
        index * pattern + row % 8 * self.width + swizzled * 16 + column % 16
    }

    /// The descriptor of a matrix that lies so from `start` on.
    fn descriptor(self, start: usize, bytes: usize, depth: usize) -> u64 {
        let pattern = 8 * self.width;
        let (leading, stride) = match (self.k_major, self.width) {
            (true, 16) => (pattern, pattern * (depth * bytes / 16)),
            (true, _) => (16, pattern * (depth * bytes).div_ceil(self.width)),
            (false, 16) => (pattern, pattern * (depth / 8)),
            (false, _) => (pattern * (depth / 8), pattern),
        };
        let mode = match self.width {
            16 => 0,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        (start >> 4 | leading >> 4 << 16 | stride >> 4 << 32) as u64 | mode << 62
    }
}

/// One product.
struct Case {
    ty: &'static str,
    d: &'static str,
    n: usize,
    k: usize,
    bytes: usize,
    a: Option<Layout>,
    b: Layout,
    signs: [i32; 2],
    accumulate: bool,
    /// How many products of this depth lie in front of it in the rows of the patterns.
    step: usize,
}

impl Case {
    /// Elements along `k` that a matrix has in memory.
    fn depth(&self, layout: Layout) -> usize {
        if layout.k_major {
            self.k.max(layout.width / self.bytes)
        } else {
            self.k
        }
    }

    /// Place of an element of the product.
    fn place(&self, layout: Layout, mn: usize, l: usize) -> usize {
        layout.place(mn, l + self.step * self.k, self.bytes, self.depth(layout))
    }

    fn descriptor(&self, layout: Layout, start: usize) -> u64 {
        let start = start + self.step * self.k * self.bytes;
        layout.descriptor(start, self.bytes, self.depth(layout))
    }
}

fn encode(ty: &str, value: i32) -> u32 {
    let float = |fraction: u32, bias: u32| {
        if value == 0 {
            return 0;
        }
        let top = value.unsigned_abs().ilog2();
        (top + bias) << fraction | (value.unsigned_abs() << fraction >> top) & ((1 << fraction) - 1)
    };
    match ty {
        "f16" => float(10, 15) | u32::from(value < 0) << 15,
        "bf16" => float(7, 127) | u32::from(value < 0) << 15,
        "tf32" => (value as f32).to_bits(),
        "e4m3" => float(3, 7) | u32::from(value < 0) << 7,
        "e5m2" => float(2, 15) | u32::from(value < 0) << 7,
        _ => value as u32 & 0xff,
    }
}

fn small(seed: u32, len: usize) -> Vec<i32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 20) as i32 % 7 - 3
        })
        .collect()
}

fn check(case: &Case) {
    let Case {
        ty, d, n, k, bytes, ..
    } = *case;
    let a = small(1, 64 * k);
    let b = small(2, n * k);
    let mut c = small(3, 64 * n);
    let a_bytes = 64 * case.a.map_or(0, |l| case.depth(l)) * bytes;
    let b_start = a_bytes.next_multiple_of(1024);
    let mut memory =
        vec![0u8; (b_start + n * case.depth(case.b) * bytes).next_multiple_of(128 * 16)];
    let mut put = |at: usize, value: i32| {
        memory[at..at + bytes].copy_from_slice(&encode(ty, value).to_le_bytes()[..bytes]);
    };
    for i in 0..64 {
        for l in 0..k {
            if let Some(layout) = case.a {
                put(case.place(layout, i, l), a[i * k + l]);
            }
        }
    }
    for j in 0..n {
        for l in 0..k {
            put(b_start + case.place(case.b, j, l), b[j * k + l]);
        }
    }
    let registers = n / 2;
    let list: Vec<_> = (0..registers).map(|r| format!("%d{r}")).collect();
    let d_register = if d == "s32" { "b32" } else { "f32" };
    let chunks = memory.len() / (128 * 16);
    let tail = match ty {
        "s8" => String::new(),
        "f16" | "bf16" => {
            let transposed = |l: Layout| u8::from(!l.k_major);
            let a = case
                .a
                .map_or(String::new(), |l| format!("{}, ", transposed(l)));
            format!(
                ", {}, {}, {a}{}",
                case.signs[0],
                case.signs[1],
                transposed(case.b)
            )
        }
        _ => format!(", {}, {}", case.signs[0], case.signs[1]),
    };
    let (a_operand, loads) = match case.a {
        Some(_) => ("%da".to_owned(), String::new()),
        None => (
            "{%a0, %a1, %a2, %a3}".to_owned(),
            "ld.param.u64 %p, [fragment];\nmad.wide.u32 %q, %tid0, 16, %p;\nld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%q];\n".to_owned(),
        ),
    };
    let mut text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 fragment, .param .u64 out, \
         .param .u64 da, .param .u64 db, .param .u32 add)\n{{\n.shared .align 1024 .b8 tile[{}];\n.reg .b32 %tid0, %at, %add, %a<4>, %v<4>;\n\
         .reg .{d_register} %d<{registers}>;\n.reg .b64 %p, %q, %da, %db;\n.reg .pred %on;\nmov.u32 %tid0, %tid.x;\n\
         ld.param.u64 %da, [da];\nld.param.u64 %db, [db];\nld.param.u32 %add, [add];\nsetp.ne.u32 %on, %add, 0;\n{loads}",
        memory.len()
    );
    text += "ld.param.u64 %p, [in];\nmov.u32 %at, tile;\nmad.wide.u32 %q, %tid0, 16, %p;\nmad.lo.u32 %at, %tid0, 16, %at;\n";
    for chunk in 0..chunks {
        let offset = chunk * 128 * 16;
        text += &format!(
            "ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%q+{offset}];\nst.shared.v4.b32 [%at+{offset}], {{%v0, %v1, %v2, %v3}};\n"
        );
    }
    text += &format!(
        "ld.param.u64 %p, [out];\nmad.wide.u32 %q, %tid0, {}, %p;\n",
        4 * registers
    );
    for r in 0..registers {
        text += &format!("ld.global.{d_register} %d{r}, [%q+{}];\n", 4 * r);
    }
    let types = format!("{d}.{ty}.{ty}");
    text += &format!(
        "bar.sync 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {{{}}}, {a_operand}, %db, %on{tail};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
        list.join(", ")
    );
    for r in 0..registers {
        text += &format!("st.global.{d_register} [%q+{}], %d{r};\n", 4 * r);
    }
    text += "ret;\n}\n";

    // Accumulators: each warp has 16 rows, in the pattern of 8 columns.
    let place = |thread: usize, r: usize| {
        let (warp, lane) = (thread / 32, thread % 32);
        let row = 16 * warp + lane / 4 + 8 * (r / 2 % 2);
        row * n + 8 * (r / 4) + 2 * (lane % 4) + r % 2
    };
    let bits = |value: i32| {
        if d == "s32" {
            value as u32
        } else {
            (value as f32).to_bits()
        }
    };
    let of = |values: &[i32]| -> Vec<u32> {
        (0..128 * registers)
            .map(|i| bits(values[place(i / registers, i % registers)]))
            .collect()
    };
    // A in registers: 16 rows of a warp, each register a part of a row.
    let per = 4 / bytes;
    let fragment: Vec<u32> = (0..512)
        .map(|i| {
            let (thread, register) = (i / 4, i % 4);
            let (warp, lane) = (thread / 32, thread % 32);
            let row = 16 * warp + lane / 4 + 8 * (register % 2);
            (0..per).fold(0, |word, e| {
                let column = lane % 4 * per + e + 4 * per * (register / 2);
                word | encode(ty, a[row * k + column]) << (8 * bytes * e)
            })
        })
        .collect();
    let mut args = [
        Arg::Buffer(memory),
        Arg::words(&fragment),
        Arg::words(&of(&c)),
        Arg::Scalar(case.a.map_or(0, |l| case.descriptor(l, 0))),
        Arg::Scalar(case.descriptor(case.b, b_start)),
        Arg::Scalar(u64::from(case.accumulate)),
    ];
    run(&text, "k", Shape::new(1, 128), &mut args);
    for i in 0..64 {
        for j in 0..n {
            let sum: i32 = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
            let before = if case.accumulate { c[i * n + j] } else { 0 };
            c[i * n + j] = before + sum * case.signs[0] * case.signs[1];
        }
    }
    assert_eq!(
        args[2].to_words(),
        of(&c),
        "{ty} n {n} a {:?} b {:?}",
        case.a,
        case.b
    );
}

const WIDTHS: [usize; 4] = [16, 32, 64, 128];

fn along_k(width: usize) -> Layout {
    Layout {
        width,
        k_major: true,
    }
}

fn along_mn(width: usize) -> Layout {
    Layout {
        width,
        k_major: false,
    }
}

#[test]
fn halves_lie_along_k_in_all_swizzles() {
    for width in WIDTHS {
        // A row of a pattern holds several products along k: the descriptor moves on by 32 bytes.
        for step in 0..(width / 32).max(1) {
            for ty in ["f16", "bf16"] {
                check(&Case {
                    ty,
                    d: "f32",
                    n: 24,
                    k: 16,
                    bytes: 2,
                    a: Some(along_k(width)),
                    b: along_k(width),
                    signs: [1, 1],
                    accumulate: true,
                    step,
                });
            }
        }
    }
}

#[test]
fn halves_lie_along_rows_and_columns_in_all_swizzles() {
    for width in WIDTHS {
        for a in [Some(along_mn(width)), Some(along_k(32)), None] {
            let case = Case {
                ty: "f16",
                d: "f32",
                n: 64,
                k: 16,
                bytes: 2,
                a,
                b: along_mn(width),
                signs: [1, -1],
                accumulate: true,
                step: 0,
            };
            check(&case);
        }
    }
}

#[test]
fn other_types_lie_along_k() {
    for (ty, d, k, bytes) in [
        ("tf32", "f32", 8, 4),
        ("e4m3", "f32", 32, 1),
        ("e5m2", "f32", 32, 1),
        ("s8", "s32", 32, 1),
    ] {
        for a in [Some(along_k(16)), Some(along_k(32)), None] {
            for accumulate in [false, true] {
                let signs = if ty == "s8" { [1, 1] } else { [-1, 1] };
                check(&Case {
                    ty,
                    d,
                    n: 16,
                    k,
                    bytes,
                    a,
                    b: along_k(32),
                    signs,
                    accumulate,
                    step: 0,
                });
            }
        }
    }
}

#[test]
fn the_widest_product_has_256_columns() {
    check(&Case {
        ty: "bf16",
        d: "f32",
        n: 256,
        k: 16,
        bytes: 2,
        a: Some(along_k(32)),
        b: along_mn(128),
        signs: [1, 1],
        accumulate: false,
        step: 0,
    });
}

/// Half of A is stored: two of four neighbours, which ones is in the metadata of each warp's rows.
#[test]
fn sparse_rows_have_their_elements_where_the_metadata_says() {
    const CHOICES: [(u32, [usize; 2]); 6] = [
        (0b0100, [0, 1]),
        (0b1000, [0, 2]),
        (0b1100, [0, 3]),
        (0b1001, [1, 2]),
        (0b1101, [1, 3]),
        (0b1110, [2, 3]),
    ];
    let (n, k) = (8, 32);
    let layout = along_k(16);
    let stored = small(4, 64 * 16);
    let b = small(5, n * k);
    let mut dense = vec![0; 64 * k];
    let mut bits = [0u32; 64];
    for row in 0..64 {
        for chunk in 0..8 {
            let (nibble, places) = CHOICES[(row * 5 + chunk) % 6];
            bits[row] |= nibble << (4 * chunk);
            for (s, place) in places.into_iter().enumerate() {
                dense[row * k + 4 * chunk + place] = stored[row * 16 + 2 * chunk + s];
            }
        }
    }
    let mut memory = vec![0u8; n * k * 2];
    for j in 0..n {
        for l in 0..k {
            let at = layout.place(j, l, 2, k);
            memory[at..at + 2].copy_from_slice(&encode("f16", b[j * k + l]).to_le_bytes()[..2]);
        }
    }
    for selector in 0..2 {
        let fragment: Vec<u32> = (0..128 * 5)
            .map(|i| {
                let (thread, register) = (i / 5, i % 5);
                let (warp, lane) = (thread / 32, thread % 32);
                let (group, member) = (lane / 4, lane % 4);
                if register == 4 {
                    // Two lanes of four have the metadata: 16 columns of a row and of the eighth after it.
                    let shift = 16 * (member % 2);
                    let of = |row: usize| bits[16 * warp + row] >> shift & 0xffff;
                    return if member / 2 == selector {
                        of(group) | of(group + 8) << 16
                    } else {
                        0xdead_beef
                    };
                }
                let row = 16 * warp + group + 8 * (register % 2);
                let element = |e: usize| {
                    encode(
                        "f16",
                        stored[row * 16 + 2 * member + e + 8 * (register / 2)],
                    )
                };
                element(0) | element(1) << 16
            })
            .collect();
        let text = format!(
            ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 fragment, .param .u64 out, \
             .param .u64 db)\n{{\n.shared .align 1024 .b8 tile[512];\n.reg .b32 %t, %at, %m, %a<4>;\n.reg .f32 %d<4>;\n\
             .reg .b64 %p, %q, %db;\n.reg .pred %on;\nmov.u32 %t, %tid.x;\nld.param.u64 %db, [db];\nsetp.ne.u32 %on, 0, 0;\n\
             ld.param.u64 %p, [in];\nmad.wide.u32 %q, %t, 4, %p;\nld.global.b32 %a0, [%q];\nmov.u32 %at, tile;\n\
             mad.lo.u32 %at, %t, 4, %at;\nst.shared.b32 [%at], %a0;\nld.param.u64 %p, [fragment];\nmad.wide.u32 %q, %t, 20, %p;\n\
             ld.global.b32 %a0, [%q];\nld.global.b32 %a1, [%q+4];\nld.global.b32 %a2, [%q+8];\nld.global.b32 %a3, [%q+12];\n\
             ld.global.b32 %m, [%q+16];\nbar.sync 0;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {{%d0, %d1, %d2, %d3}}, {{%a0, %a1, %a2, %a3}}, %db, %m, {selector}, \
             %on, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nld.param.u64 %p, [out];\n\
             mad.wide.u32 %q, %t, 16, %p;\nst.global.v4.f32 [%q], {{%d0, %d1, %d2, %d3}};\nret;\n}}\n"
        );
        let mut args = [
            Arg::Buffer(memory.clone()),
            Arg::words(&fragment),
            Arg::zeros(2048),
            Arg::Scalar(layout.descriptor(0, 2, k)),
        ];
        run(&text, "k", Shape::new(1, 128), &mut args);
        for (i, got) in args[2].to_singles().into_iter().enumerate() {
            let (thread, r) = (i / 4, i % 4);
            let (warp, lane) = (thread / 32, thread % 32);
            let (row, column) = (16 * warp + lane / 4 + 8 * (r / 2), 2 * (lane % 4) + r % 2);
            let want: i32 = (0..k).map(|l| dense[row * k + l] * b[column * k + l]).sum();
            assert_eq!(
                got, want as f32,
                "selector {selector} row {row} column {column}"
            );
        }
    }
}
