//! `wmma` as a compiler writes it: each type and shape, layouts of all kinds, a product through shared memory.

mod warp_support;

use warp_support::{Arg, Shape, run};

const WMMA: &str = include_str!("fixtures/warp/wmma.ptx");

/// Small integers without a period.
fn small(len: usize, seed: u32, range: i32) -> Vec<i32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 12) as i32 % range - range / 2
        })
        .collect()
}

fn half(value: i32) -> u16 {
    float16(value, 10, 15)
}

fn bf16(value: i32) -> u16 {
    ((value as f32).to_bits() >> 16) as u16
}

/// Bits of a small integer in a 16-bit format.
fn float16(value: i32, fraction: u32, bias: u32) -> u16 {
    if value == 0 {
        return 0;
    }
    let top = value.unsigned_abs().ilog2();
    let bits = (top + bias) << fraction
        | (value.unsigned_abs() << fraction >> top) & ((1 << fraction) - 1);
    bits as u16 | if value < 0 { 0x8000 } else { 0 }
}

/// Shape, whether A and B are row-major.
#[derive(Clone, Copy)]
struct Tile {
    m: usize,
    n: usize,
    k: usize,
    a_row: bool,
    b_row: bool,
}

impl Tile {
    fn product(self, a: &[i32], b: &[i32], c: &[i32]) -> Vec<i32> {
        let Self {
            m,
            n,
            k,
            a_row,
            b_row,
        } = self;
        let mut d = c.to_vec();
        for i in 0..m {
            for j in 0..n {
                for l in 0..k {
                    let x = a[if a_row { i * k + l } else { l * m + i }];
                    let y = b[if b_row { l * n + j } else { j * k + l }];
                    d[i * n + j] += x * y;
                }
            }
        }
        d
    }

    fn operands(self) -> [Vec<i32>; 3] {
        [
            small(self.m * self.k, 1, 17),
            small(self.k * self.n, 2, 17),
            small(self.m * self.n, 3, 99),
        ]
    }

    /// Runs the kernel `name`; answers what it must give and what it gave, in its own bits.
    fn check(
        self,
        name: &str,
        element: impl Fn(i32) -> Vec<u8>,
        accumulator: impl Fn(i32) -> Vec<u8>,
    ) {
        let [a, b, c] = self.operands();
        let bytes = |values: &[i32], of: &dyn Fn(i32) -> Vec<u8>| -> Vec<u8> {
            values.iter().flat_map(|&v| of(v)).collect()
        };
        let want = bytes(&self.product(&a, &b, &c), &accumulator);
        let mut args = [
            Arg::Buffer(bytes(&a, &element)),
            Arg::Buffer(bytes(&b, &element)),
            Arg::Buffer(bytes(&c, &accumulator)),
            Arg::zeros(want.len()),
        ];
        run(WMMA, name, Shape::new(1, 32), &mut args);
        let Arg::Buffer(out) = &args[3] else {
            unreachable!()
        };
        assert_eq!(out, &want, "{name}");
    }
}

fn tile(m: usize, n: usize, k: usize, a_row: bool, b_row: bool) -> Tile {
    Tile {
        m,
        n,
        k,
        a_row,
        b_row,
    }
}

fn single(v: i32) -> Vec<u8> {
    (v as f32).to_le_bytes().to_vec()
}

fn word(v: i32) -> Vec<u8> {
    v.to_le_bytes().to_vec()
}

#[test]
fn halves_multiply_in_every_shape() {
    let f16 = |v| half(v).to_le_bytes().to_vec();
    tile(16, 16, 16, true, false).check("half_row_col", f16, single);
    tile(32, 8, 16, false, true).check("half_col_row", f16, single);
    tile(8, 32, 16, true, true).check("half_row_row", f16, f16);
}

#[test]
fn other_floating_point_types_multiply() {
    let brain = |v| bf16(v).to_le_bytes().to_vec();
    tile(16, 16, 16, true, false).check("bf16_row_col", brain, single);
    tile(8, 32, 16, false, true).check("bf16_wide", brain, single);
    tile(16, 16, 8, true, true).check("tf32_row_row", single, single);
    let double = |v: i32| f64::from(v).to_le_bytes().to_vec();
    tile(8, 8, 4, true, false).check("double_row_col", double, double);
}

#[test]
fn bytes_multiply() {
    let byte = |v: i32| vec![v as u8];
    tile(16, 16, 16, true, false).check("int8_row_col", byte, word);
    // Unsigned: the same small numbers, made positive.
    let t = tile(32, 8, 16, true, true);
    let [a, b, c] = t
        .operands()
        .map(|v| v.into_iter().map(|x| x + 50).collect::<Vec<_>>());
    let bytes = |v: &[i32]| v.iter().map(|&x| x as u8).collect::<Vec<_>>();
    let words = |v: &[i32]| v.iter().map(|&x| x as u32).collect::<Vec<_>>();
    let mut args = [
        Arg::Buffer(bytes(&a)),
        Arg::Buffer(bytes(&b)),
        Arg::words(&words(&c)),
        Arg::zeros(1024),
    ];
    run(WMMA, "uint8_tall", Shape::new(1, 32), &mut args);
    assert_eq!(args[3].to_words(), words(&t.product(&a, &b, &c)));
}

#[test]
fn tiles_through_shared_memory_make_a_big_product() {
    let (a, b) = (small(64 * 64, 8, 9), small(64 * 64, 9, 9));
    let halves = |v: &[i32]| v.iter().map(|&x| half(x)).collect::<Vec<_>>();
    let mut args = [
        Arg::halves(&halves(&a)),
        Arg::halves(&halves(&b)),
        Arg::zeros(64 * 64 * 4),
    ];
    let shape = Shape {
        grid: [4, 4, 1],
        ..Shape::new(1, 32)
    };
    run(WMMA, "gemm64", shape, &mut args);
    let want = tile(64, 64, 64, true, true).product(&a, &b, &[0; 4096]);
    let out = args[2].to_singles();
    assert!(
        out.iter()
            .zip(&want)
            .all(|(&got, &want)| got == want as f32)
    );
}

/// Single bits and 4-bit integers, which C++ has as experimental only: load, multiply, store.
#[test]
fn fragments_of_bits_and_nibbles_are_loaded_whole() {
    for (ty, k, mma) in [
        (
            "b1",
            128usize,
            "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
        ),
        (
            "s4",
            32,
            "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32",
        ),
        (
            "u4",
            32,
            "wmma.mma.sync.aligned.row.col.m8n8k32.s32.u4.u4.s32",
        ),
    ] {
        let shape = format!("m8n8k{k}");
        // Rows of A and columns of B are 32 bytes apart.
        let stride = 2 * k;
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n\
             {{\n.reg .b64 %p<4>;\n.reg .b32 %a, %b, %c<2>, %d<2>;\nld.param.u64 %p0, [a];\nld.param.u64 %p1, [b];\n\
             ld.param.u64 %p2, [c];\nld.param.u64 %p3, [d];\n\
             wmma.load.a.sync.aligned.row.{shape}.global.{ty} {{%a}}, [%p0], {stride};\n\
             wmma.load.b.sync.aligned.col.{shape}.global.{ty} {{%b}}, [%p1], {stride};\n\
             wmma.load.c.sync.aligned.row.{shape}.global.s32 {{%c0, %c1}}, [%p2];\n\
             {mma} {{%d0, %d1}}, {{%a}}, {{%b}}, {{%c0, %c1}};\n\
             wmma.store.d.sync.aligned.col.{shape}.global.s32 [%p3], {{%d0, %d1}}, 8;\nret;\n}}\n"
        );
        let bytes =
            |seed| -> Vec<u8> { small(256, seed, 256).into_iter().map(|v| v as u8).collect() };
        let (a, b) = (bytes(21), bytes(22));
        let c: Vec<u32> = (0..64).collect();
        let mut args = [
            Arg::Buffer(a.clone()),
            Arg::Buffer(b.clone()),
            Arg::words(&c),
            Arg::zeros(256),
        ];
        run(&text, "k", Shape::new(1, 32), &mut args);
        let element = |bytes: &[u8], row: usize, l: usize| -> i32 {
            let bits = if ty == "b1" { 1 } else { 4 };
            let at = (row * stride + l) * bits;
            let raw = i32::from(bytes[at / 8] >> (at % 8)) & ((1 << bits) - 1);
            if ty == "s4" && raw > 7 { raw - 16 } else { raw }
        };
        let out = args[3].to_words();
        for i in 0..8 {
            for j in 0..8 {
                let sum: i32 = (0..k)
                    .map(|l| match (element(&a, i, l), element(&b, j, l)) {
                        (x, y) if ty == "b1" => x ^ y,
                        (x, y) => x * y,
                    })
                    .sum();
                assert_eq!(
                    out[j * 8 + i] as i32,
                    sum + (i * 8 + j) as i32,
                    "{ty} {i} {j}"
                );
            }
        }
    }
}
