//! Kernels that Triton compiled, with numerical references: what its code generator emits for Ampere and Hopper.

mod warp_support;

use warp_support::{Arg, Shape, run};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("fixtures/warp/triton/", $name, ".ptx"))
    };
}

/// Numbers in -1..1 with few bits, without a period.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 20) as i32 % 65 - 32) as f32 / 32.0
        })
        .collect()
}

/// Bits of a number with few bits in a 16-bit format.
fn short(value: f32, fraction: u32, bias: i32) -> u16 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + bias;
    ((bits >> 31) << 15 | (exponent as u32) << fraction | (bits & 0x7f_ffff) >> (23 - fraction))
        as u16
}

fn half(value: f32) -> u16 {
    short(value, 10, 15)
}

fn bf16(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

fn from_half(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    let value = if magnitude < 0x400 {
        magnitude as f32 * 2f32.powi(-24)
    } else {
        f32::from_bits((magnitude << 13) + (112 << 23))
    };
    if bits >> 15 == 1 { -value } else { value }
}

fn halves(values: &[f32]) -> Arg {
    Arg::halves(&values.iter().map(|&v| half(v)).collect::<Vec<_>>())
}

/// Row-major product.
fn product(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut d = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                d[i * n + j] += f64::from(a[i * k + l]) * f64::from(b[l * n + j]);
            }
        }
    }
    d
}

fn assert_close(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        assert!(
            (f64::from(got) - want).abs() <= tolerance * (1.0 + want.abs()),
            "{i}: {got} for {want}"
        );
    }
}

/// The two pointers to scratch memory that Triton adds behind the parameters of a kernel.
fn scratch(args: &mut Vec<Arg>, bytes: usize) {
    args.push(Arg::zeros(bytes));
    args.push(Arg::zeros(256));
}

/// A compiled matrix product: rows and columns of a block, its threads and shared memory.
struct Compiled {
    ptx: &'static str,
    tile: [usize; 2],
    threads: u32,
    shared: u32,
}

impl Compiled {
    /// Runs it; the result has `bytes` an element. Shapes need not be multiples of the tiles, but of 16: the kernels
    /// were compiled so.
    fn run(&self, [m, n, k]: [usize; 3], a: Arg, b: Arg, bytes: usize) -> Arg {
        let mut args = vec![a, b, Arg::zeros(m * n * bytes)];
        for scalar in [m, n, k, k, n, n] {
            args.push(Arg::Scalar(scalar as u64));
        }
        scratch(&mut args, 256);
        let shape = Shape {
            grid: [
                m.div_ceil(self.tile[0]) as u32,
                n.div_ceil(self.tile[1]) as u32,
                1,
            ],
            shared: self.shared,
            ..Shape::new(1, self.threads)
        };
        run(self.ptx, "matmul", shape, &mut args);
        args.swap_remove(2)
    }
}

#[test]
fn products_of_halves_on_hopper() {
    let [m, n, k] = [112, 80, 80];
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let out = Compiled {
        ptx: fixture!("mm_f16_wgmma"),
        tile: [64, 64],
        threads: 128,
        shared: 24576,
    }
    .run([m, n, k], halves(&a), halves(&b), 2);
    let got: Vec<f32> = out.to_halves().into_iter().map(from_half).collect();
    assert_close(&got, &product(&a, &b, m, n, k), 1e-3);
}

#[test]
fn big_tiles_of_halves_on_hopper() {
    let [m, n, k] = [144, 160, 144];
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let out = Compiled {
        ptx: fixture!("mm_f16_128"),
        tile: [128, 128],
        threads: 256,
        shared: 98304,
    }
    .run([m, n, k], halves(&a), halves(&b), 4);
    assert_close(&out.to_singles(), &product(&a, &b, m, n, k), 1e-6);
}

#[test]
fn products_of_brain_floats_on_ampere() {
    let [m, n, k] = [80, 96, 48];
    let (a, b) = (numbers(m * k, 3), numbers(k * n, 4));
    let brain = |v: &[f32]| Arg::halves(&v.iter().map(|&v| bf16(v)).collect::<Vec<_>>());
    let out = Compiled {
        ptx: fixture!("mm_bf16_sm80"),
        tile: [64, 64],
        threads: 128,
        shared: 16384,
    }
    .run([m, n, k], brain(&a), brain(&b), 4);
    assert_close(&out.to_singles(), &product(&a, &b, m, n, k), 1e-6);
}

#[test]
fn products_of_singles_by_tf32() {
    let [m, n, k] = [64, 80, 48];
    let (a, b) = (numbers(m * k, 5), numbers(k * n, 6));
    let out = Compiled {
        ptx: fixture!("mm_f32_tf32"),
        tile: [64, 64],
        threads: 128,
        shared: 49152,
    }
    .run([m, n, k], Arg::singles(&a), Arg::singles(&b), 4);
    assert_close(&out.to_singles(), &product(&a, &b, m, n, k), 1e-6);
}

#[test]
fn products_of_eight_bits() {
    let [m, n, k] = [64, 64, 128];
    let eighths = |len, seed| -> Vec<f32> {
        numbers(len, seed)
            .iter()
            .map(|v| (v * 8.0).round() / 8.0)
            .collect()
    };
    let (a, b) = (eighths(m * k, 7), eighths(k * n, 8));
    let bytes = |v: &[f32]| {
        Arg::Buffer(
            v.iter()
                .map(|&v| {
                    let bits = short(v, 3, 7);
                    (bits & 0x7f | bits >> 8 & 0x80) as u8
                })
                .collect(),
        )
    };
    let out = Compiled {
        ptx: fixture!("mm_fp8"),
        tile: [64, 64],
        threads: 128,
        shared: 16384,
    }
    .run([m, n, k], bytes(&a), bytes(&b), 4);
    // 13 bits are kept of sums.
    assert_close(&out.to_singles(), &product(&a, &b, m, n, k), 2e-3);
}

#[test]
fn products_through_tensor_maps() {
    let [m, n, k] = [200, 96, 128];
    let (a, b) = (numbers(m * k, 9), numbers(k * n, 10));
    let mut args = vec![halves(&a), halves(&b), Arg::zeros(m * n * 2)];
    for scalar in [m, n, k] {
        args.push(Arg::Scalar(scalar as u64));
    }
    scratch(&mut args, 1 << 16);
    let shape = Shape {
        grid: [2, 2, 1],
        shared: 73752,
        ..Shape::new(1, 128)
    };
    run(fixture!("tma_matmul"), "tma_matmul", shape, &mut args);
    let got: Vec<f32> = args[2].to_halves().into_iter().map(from_half).collect();
    assert_close(&got, &product(&a, &b, m, n, k), 1e-3);
}

#[test]
fn softmax_of_rows() {
    let (rows, n) = (3, 1000);
    let x: Vec<f32> = numbers(rows * n, 11).iter().map(|v| v * 8.0).collect();
    let mut args = vec![
        Arg::singles(&x),
        Arg::zeros(rows * n * 4),
        Arg::Scalar(n as u64),
        Arg::Scalar(n as u64),
    ];
    scratch(&mut args, 256);
    run(
        fixture!("softmax"),
        "softmax",
        Shape {
            shared: 16,
            ..Shape::new(rows as u32, 128)
        },
        &mut args,
    );
    let want: Vec<f64> = x
        .chunks(n)
        .flat_map(|row| {
            let sum: f64 = row.iter().map(|&v| f64::from(v).exp()).sum();
            row.iter()
                .map(move |&v| f64::from(v).exp() / sum)
                .collect::<Vec<_>>()
        })
        .collect();
    assert_close(&args[1].to_singles(), &want, 1e-6);
}

/// Vectors of values, sums over lanes and warps, and values that all lanes read of one: the mix in which a published
/// emulator was wrong.
#[test]
fn layer_norm_of_rows() {
    let (rows, n) = (4, 500);
    let (x, w, b) = (numbers(rows * n, 12), numbers(n, 13), numbers(n, 14));
    let mut args = vec![
        halves(&x),
        Arg::zeros(rows * n * 2),
        halves(&w),
        halves(&b),
        Arg::Scalar(n as u64),
        Arg::Scalar(u64::from(1e-5f32.to_bits())),
    ];
    scratch(&mut args, 256);
    run(
        fixture!("layernorm"),
        "layernorm",
        Shape {
            shared: 16,
            ..Shape::new(rows as u32, 128)
        },
        &mut args,
    );
    let want: Vec<f64> = x
        .chunks(n)
        .flat_map(|row| {
            let mean = row.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
            let variance = row
                .iter()
                .map(|&v| (f64::from(v) - mean).powi(2))
                .sum::<f64>()
                / n as f64;
            row.iter()
                .zip(w.iter().zip(&b))
                .map(move |(&v, (&w, &b))| {
                    (f64::from(v) - mean) / (variance + 1e-5).sqrt() * f64::from(w) + f64::from(b)
                })
                .collect::<Vec<_>>()
        })
        .collect();
    let got: Vec<f32> = args[1].to_halves().into_iter().map(from_half).collect();
    assert_close(&got, &want, 2e-3);
}

fn attention(q: &[f32], k: &[f32], v: &[f32], d: usize, scale: f64) -> Vec<f64> {
    q.chunks(d)
        .flat_map(|q| {
            let weights: Vec<f64> = k
                .chunks(d)
                .map(|k| {
                    (q.iter()
                        .zip(k)
                        .map(|(&a, &b)| f64::from(a) * f64::from(b))
                        .sum::<f64>()
                        * scale)
                        .exp2()
                })
                .collect();
            let total: f64 = weights.iter().sum();
            (0..d)
                .map(|c| {
                    weights
                        .iter()
                        .zip(v.chunks(d))
                        .map(|(w, v)| w * f64::from(v[c]))
                        .sum::<f64>()
                        / total
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn attention_on_hopper_and_ampere() {
    let (rows, keys, d, scale) = (128, 96, 64, 0.25f32);
    let (q, k, v) = (
        numbers(rows * d, 15),
        numbers(keys * d, 16),
        numbers(keys * d, 17),
    );
    let want = attention(&q, &k, &v, d, f64::from(scale));
    for (ptx, shared, encode, decode, tolerance) in [
        (
            fixture!("flash90"),
            32768,
            half as fn(f32) -> u16,
            from_half as fn(u16) -> f32,
            2e-3,
        ),
        (
            fixture!("flash80"),
            24576,
            bf16,
            |bits: u16| f32::from_bits(u32::from(bits) << 16),
            1.5e-2,
        ),
    ] {
        let arg =
            |values: &[f32]| Arg::halves(&values.iter().map(|&v| encode(v)).collect::<Vec<_>>());
        let mut args = vec![
            arg(&q),
            arg(&k),
            arg(&v),
            Arg::zeros(rows * d * 2),
            Arg::Scalar(keys as u64),
            Arg::Scalar(u64::from(scale.to_bits())),
        ];
        scratch(&mut args, 256);
        run(
            ptx,
            "flash",
            Shape {
                shared,
                ..Shape::new(2, 128)
            },
            &mut args,
        );
        let got: Vec<f32> = args[3].to_halves().into_iter().map(decode).collect();
        assert_close(&got, &want, tolerance);
    }
}

#[test]
fn sorting_scanning_and_counting() {
    let x: Vec<u32> = numbers(256, 18)
        .iter()
        .map(|v| (v * 1000.0) as i32 as u32)
        .collect();
    let mut args = vec![
        Arg::words(&x),
        Arg::zeros(1024),
        Arg::zeros(1024),
        Arg::zeros(64),
    ];
    scratch(&mut args, 256);
    run(
        fixture!("sortscan"),
        "sortscan",
        Shape {
            shared: 1024,
            ..Shape::new(1, 128)
        },
        &mut args,
    );
    let mut sorted: Vec<i32> = x.iter().map(|&v| v as i32).collect();
    sorted.sort_unstable();
    assert_eq!(
        args[1].to_words(),
        sorted.iter().map(|&v| v as u32).collect::<Vec<_>>()
    );
    let sums: Vec<u32> = x
        .iter()
        .scan(0u32, |s, &v| {
            *s = s.wrapping_add(v);
            Some(*s)
        })
        .collect();
    assert_eq!(args[2].to_words(), sums);
    let mut counts = [0; 16];
    for v in x {
        counts[(v & 15) as usize] += 1;
    }
    assert_eq!(args[3].to_words(), counts);
}
