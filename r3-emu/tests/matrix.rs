//! Matrix instructions through PTX text, against plain sums of products and the ISA's published index formulas.

mod warp_support;

use proptest::prelude::*;
use warp_support::{Arg, Shape, run};

/// Row and column of element `i` of a lane, given its group (`lane / 4`) and its place in it.
type Place = fn(group: usize, member: usize, i: usize) -> (usize, usize);

/// A dense `mma`: shape, types, and where the ISA says that elements are.
struct Form {
    mnemonic: &'static str,
    m: usize,
    n: usize,
    k: usize,
    a: Kind,
    b: Kind,
    c: Kind,
    places: [Place; 3],
}

/// A type of elements.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// Bits of exponent and fraction.
    Float(u32, u32),
    Tf32,
    F32,
    F64,
    Signed(u32),
    Unsigned(u32),
    Bit,
    S32,
}
use Kind::{Bit, F32, F64, S32, Signed, Tf32, Unsigned};
const F16: Kind = Kind::Float(5, 10);
const BF16: Kind = Kind::Float(8, 7);
const E4M3: Kind = Kind::Float(4, 3);
const E5M2: Kind = Kind::Float(5, 2);

impl Kind {
    fn bits(self) -> usize {
        match self {
            Self::Float(e, f) => (e + f + 1) as usize,
            Tf32 | F32 | S32 => 32,
            F64 => 64,
            Signed(bits) | Unsigned(bits) => bits as usize,
            Bit => 1,
        }
    }

    /// A small integer that the type has.
    fn small(self, n: u32) -> i64 {
        let n = i64::from(n);
        match self {
            Bit => n % 2,
            Unsigned(bits) => n % (1 << bits),
            Signed(bits) => n % (1 << bits) - (1 << (bits - 1)),
            Kind::Float(_, 2) => [0, 1, -1, 2, -4, 3, 6, -8][n as usize % 8],
            S32 => n % 2001 - 1000,
            _ => n % 17 - 8,
        }
    }

    /// Its bits.
    fn encode(self, value: i64) -> u64 {
        match self {
            F32 | Tf32 => u64::from((value as f32).to_bits()),
            F64 => (value as f64).to_bits(),
            Kind::Float(e, f) => {
                let sign = u64::from(value < 0) << (e + f);
                if value == 0 {
                    return 0;
                }
                let top = value.unsigned_abs().ilog2();
                let fraction = (value.unsigned_abs() << f >> top) & ((1 << f) - 1);
                let biased = u64::from(top) + (1 << (e - 1)) - 1;
                sign | biased << f | fraction
            }
            _ => value as u64 & (u64::MAX >> (64 - self.bits())),
        }
    }

    /// The number of its bits.
    fn decode(self, bits: u64) -> i64 {
        match self {
            F32 => f32::from_bits(bits as u32) as i64,
            F64 => f64::from_bits(bits) as i64,
            F16 => {
                let magnitude = bits & 0x7fff;
                if magnitude == 0 {
                    return 0;
                }
                let shift = (magnitude >> 10) as i64 - 25;
                let significand = (magnitude & 0x3ff | 0x400) as f64;
                let value = (significand * (shift as f64).exp2()) as i64;
                if bits >> 15 == 1 { -value } else { value }
            }
            _ => i64::from(bits as u32 as i32),
        }
    }

    /// Register type and its bytes.
    fn register(self) -> (&'static str, usize) {
        match self {
            F64 => ("f64", 8),
            F32 => ("f32", 4),
            _ => ("b32", 4),
        }
    }
}

/// A generator of numbers that has no period to speak of.
fn numbers(seed: u32) -> impl FnMut() -> u32 {
    let mut state = u64::from(seed) << 32 | 0x9e37_79b9;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32
    }
}

/// A kernel that loads registers for a, b and c (and words behind them), executes `instruction` and stores d.
fn kernel(
    instruction: &str,
    counts: [usize; 4],
    kinds: [Kind; 4],
    tail: &str,
    extra: usize,
) -> String {
    let mut text = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, \
         .param .u64 d{})\n{{\n.reg .b64 %p, %q;\n.reg .b32 %lane, %e;\nmov.u32 %lane, %tid.x;\n",
        if extra > 0 { ", .param .u64 e" } else { "" }
    );
    let names = ["d", "a", "b", "c"];
    for (i, name) in names.iter().enumerate() {
        text += &format!(".reg .{} %{name}<{}>;\n", kinds[i].register().0, counts[i]);
    }
    for i in 1..4 {
        let (ty, bytes) = kinds[i].register();
        let name = names[i];
        text += &format!(
            "ld.param.u64 %p, [{name}];\nmad.wide.u32 %p, %lane, {}, %p;\n",
            counts[i] * bytes
        );
        for r in 0..counts[i] {
            text += &format!("ld.global.{ty} %{name}{r}, [%p+{}];\n", r * bytes);
        }
    }
    if extra > 0 {
        text += "ld.param.u64 %p, [e];\nmad.wide.u32 %p, %lane, 4, %p;\nld.global.b32 %e, [%p];\n";
    }
    let vectors: Vec<String> = names
        .iter()
        .zip(counts)
        .map(|(name, n)| {
            let all: Vec<_> = (0..n).map(|r| format!("%{name}{r}")).collect();
            format!("{{{}}}", all.join(", "))
        })
        .collect();
    text += &format!("{instruction} {}{tail};\n", vectors.join(", "));
    let (ty, bytes) = kinds[0].register();
    text += &format!(
        "ld.param.u64 %q, [d];\nmad.wide.u32 %q, %lane, {}, %q;\n",
        counts[0] * bytes
    );
    for r in 0..counts[0] {
        text += &format!("st.global.{ty} [%q+{}], %d{r};\n", r * bytes);
    }
    text + "ret;\n}\n"
}

/// Elements put into the registers of all lanes, as bytes lane after lane.
fn pack(kind: Kind, per_lane: usize, element: impl Fn(usize, usize) -> i64) -> Vec<u8> {
    let bits = kind.bits();
    let per_register = (32 / bits).max(1);
    let mut bytes = Vec::new();
    for lane in 0..32 {
        for first in (0..per_lane).step_by(per_register) {
            let word = (0..per_register).fold(0, |word, i| {
                word | kind.encode(element(lane, first + i)) << (i * bits)
            });
            bytes.extend_from_slice(&word.to_le_bytes()[..kind.register().1]);
        }
    }
    bytes
}

/// The elements of a lane, out of such bytes.
fn unpack(kind: Kind, per_lane: usize, bytes: &[u8], lane: usize, i: usize) -> i64 {
    let bits = kind.bits();
    let at = lane * per_lane * bits / 8 + i * bits / 8;
    let mut word = [0; 8];
    word[..bits / 8].copy_from_slice(&bytes[at..at + bits / 8]);
    kind.decode(u64::from_le_bytes(word))
}

fn multiply(form: &Form, a: &[i64], b: &[i64], c: &[i64]) -> Vec<i64> {
    let Form { m, n, k, .. } = *form;
    let mut d = c.to_vec();
    for i in 0..m {
        for j in 0..n {
            for l in 0..k {
                let (x, y) = (a[i * k + l], b[l * n + j]);
                d[i * n + j] += match form.mnemonic {
                    name if name.ends_with("xor.popc") => x ^ y,
                    name if name.ends_with("and.popc") => x & y,
                    _ => x * y,
                };
            }
        }
    }
    d
}

/// Where the 8 columns of an accumulator are, in all `m16n8` shapes.
const C16: Place = |g, t, i| (if i < 2 { g } else { g + 8 }, 2 * t + i % 2);
/// The same of the `m8n8` shapes.
const C8: Place = |g, t, i| (g, 2 * t + i);

const FORMS: &[Form] = &[
    Form {
        mnemonic: "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        m: 8,
        n: 8,
        k: 4,
        a: F64,
        b: F64,
        c: F64,
        places: [|g, t, _| (g, t), |g, t, _| (t, g), C8],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 4,
        a: F64,
        b: F64,
        c: F64,
        places: [|g, t, i| (g + 8 * i, t), |g, t, _| (t, g), C16],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 8,
        a: F64,
        b: F64,
        c: F64,
        places: [
            |g, t, i| {
                (
                    if i % 2 == 0 { g } else { g + 8 },
                    if i < 2 { t } else { t + 4 },
                )
            },
            |g, t, i| (t + 4 * i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
        m: 16,
        n: 8,
        k: 16,
        a: F64,
        b: F64,
        c: F64,
        places: [
            |g, t, i| (if i % 2 == 0 { g } else { g + 8 }, i * 2 - i % 2 * 2 + t),
            |g, t, i| (t + 4 * i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        m: 16,
        n: 8,
        k: 8,
        a: F16,
        b: F16,
        c: F32,
        places: [
            |g, t, i| (if i < 2 { g } else { g + 8 }, 2 * t + i % 2),
            |g, t, i| (2 * t + i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        m: 16,
        n: 8,
        k: 16,
        a: F16,
        b: F16,
        c: F32,
        places: [
            |g, t, i| {
                (
                    if i < 2 || (4..6).contains(&i) {
                        g
                    } else {
                        g + 8
                    },
                    2 * t + i % 2 + if i < 4 { 0 } else { 8 },
                )
            },
            |g, t, i| (2 * t + i % 2 + if i < 2 { 0 } else { 8 }, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        m: 16,
        n: 8,
        k: 16,
        a: F16,
        b: F16,
        c: F16,
        places: [
            |g, t, i| {
                (
                    if i < 2 || (4..6).contains(&i) {
                        g
                    } else {
                        g + 8
                    },
                    2 * t + i % 2 + if i < 4 { 0 } else { 8 },
                )
            },
            |g, t, i| (2 * t + i % 2 + if i < 2 { 0 } else { 8 }, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
        m: 16,
        n: 8,
        k: 8,
        a: BF16,
        b: BF16,
        c: F32,
        places: [
            |g, t, i| (if i < 2 { g } else { g + 8 }, 2 * t + i % 2),
            |g, t, i| (2 * t + i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
        m: 16,
        n: 8,
        k: 4,
        a: Tf32,
        b: Tf32,
        c: F32,
        places: [
            |g, t, i| (if i == 0 { g } else { g + 8 }, t),
            |g, t, _| (t, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        m: 16,
        n: 8,
        k: 8,
        a: Tf32,
        b: Tf32,
        c: F32,
        places: [
            |g, t, i| {
                (
                    if i % 2 == 0 { g } else { g + 8 },
                    if i < 2 { t } else { t + 4 },
                )
            },
            |g, t, i| (if i == 0 { t } else { t + 4 }, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
        m: 16,
        n: 8,
        k: 32,
        a: E4M3,
        b: E5M2,
        c: F32,
        places: [A8K32, B8K32, C16],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16",
        m: 16,
        n: 8,
        k: 32,
        a: E5M2,
        b: E4M3,
        c: F16,
        places: [A8K32, B8K32, C16],
    },
    Form {
        mnemonic: "mma.sync.aligned.m8n8k16.row.col.s32.s8.u8.s32",
        m: 8,
        n: 8,
        k: 16,
        a: Signed(8),
        b: Unsigned(8),
        c: S32,
        places: [|g, t, i| (g, 4 * t + i), |g, t, i| (4 * t + i, g), C8],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32",
        m: 16,
        n: 8,
        k: 16,
        a: Unsigned(8),
        b: Signed(8),
        c: S32,
        places: [
            |g, t, i| (if i < 4 { g } else { g + 8 }, 4 * t + i % 4),
            |g, t, i| (4 * t + i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        m: 16,
        n: 8,
        k: 32,
        a: Signed(8),
        b: Signed(8),
        c: S32,
        places: [A8K32, B8K32, C16],
    },
    Form {
        mnemonic: "mma.sync.aligned.m8n8k32.row.col.s32.s4.u4.s32",
        m: 8,
        n: 8,
        k: 32,
        a: Signed(4),
        b: Unsigned(4),
        c: S32,
        places: [|g, t, i| (g, 8 * t + i), |g, t, i| (8 * t + i, g), C8],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32",
        m: 16,
        n: 8,
        k: 32,
        a: Unsigned(4),
        b: Signed(4),
        c: S32,
        places: [
            |g, t, i| (if i < 8 { g } else { g + 8 }, 8 * t + i % 8),
            |g, t, i| (8 * t + i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        m: 16,
        n: 8,
        k: 64,
        a: Signed(4),
        b: Signed(4),
        c: S32,
        places: [
            |g, t, i| {
                (
                    if i < 8 || (16..24).contains(&i) {
                        g
                    } else {
                        g + 8
                    },
                    8 * t + i % 8 + if i < 16 { 0 } else { 32 },
                )
            },
            |g, t, i| (8 * t + i % 8 + if i < 8 { 0 } else { 32 }, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
        m: 8,
        n: 8,
        k: 128,
        a: Bit,
        b: Bit,
        c: S32,
        places: [|g, t, i| (g, 32 * t + i), |g, t, i| (32 * t + i, g), C8],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc",
        m: 16,
        n: 8,
        k: 128,
        a: Bit,
        b: Bit,
        c: S32,
        places: [
            |g, t, i| (if i < 32 { g } else { g + 8 }, 32 * t + i % 32),
            |g, t, i| (32 * t + i, g),
            C16,
        ],
    },
    Form {
        mnemonic: "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
        m: 16,
        n: 8,
        k: 256,
        a: Bit,
        b: Bit,
        c: S32,
        places: [
            |g, t, i| {
                (
                    if i < 32 || (64..96).contains(&i) {
                        g
                    } else {
                        g + 8
                    },
                    32 * t + i % 32 + if i < 64 { 0 } else { 128 },
                )
            },
            |g, t, i| (32 * t + i % 32 + if i < 32 { 0 } else { 128 }, g),
            C16,
        ],
    },
];
const A8K32: Place = |g, t, i| {
    let row = if i < 4 || (8..12).contains(&i) {
        g
    } else {
        g + 8
    };
    (row, 4 * t + i % 4 + if i < 8 { 0 } else { 16 })
};
const B8K32: Place = |g, t, i| (4 * t + i % 4 + if i < 4 { 0 } else { 16 }, g);

/// Random matrices a, b, c of a form.
fn operands(form: &Form, seed: u32) -> [Vec<i64>; 3] {
    let mut next = numbers(seed);
    let Form {
        m, n, k, a, b, c, ..
    } = *form;
    [(a, m * k), (b, k * n), (c, m * n)]
        .map(|(kind, len)| (0..len).map(|_| kind.small(next())).collect())
}

#[test]
fn products_of_every_shape_are_those_of_the_published_fragments() {
    for form in FORMS {
        let Form {
            m,
            n,
            k,
            a,
            b,
            c,
            places,
            ..
        } = *form;
        let [x, y, z] = operands(form, 7);
        let per_lane = [m * k / 32, k * n / 32, m * n / 32];
        let of = |i: usize, columns: usize, values: &[i64], lane: usize, e: usize| {
            let (row, column) = places[i](lane / 4, lane % 4, e);
            values[row * columns + column]
        };
        let registers =
            |kind: Kind, per_lane: usize| (per_lane * kind.bits()).div_ceil(8 * kind.register().1);
        let counts = [
            registers(c, per_lane[2]),
            registers(a, per_lane[0]),
            registers(b, per_lane[1]),
            registers(c, per_lane[2]),
        ];
        let text = kernel(form.mnemonic, counts, [c, a, b, c], "", 0);
        let mut args = [
            Arg::Buffer(pack(a, per_lane[0], |lane, e| of(0, k, &x, lane, e))),
            Arg::Buffer(pack(b, per_lane[1], |lane, e| of(1, n, &y, lane, e))),
            Arg::Buffer(pack(c, per_lane[2], |lane, e| of(2, n, &z, lane, e))),
            Arg::zeros(per_lane[2] * c.bits() / 8 * 32),
        ];
        run(&text, "k", Shape::new(1, 32), &mut args);
        let want = multiply(form, &x, &y, &z);
        let Arg::Buffer(out) = &args[3] else {
            unreachable!()
        };
        for lane in 0..32 {
            for e in 0..per_lane[2] {
                let got = unpack(c, per_lane[2], out, lane, e);
                assert_eq!(
                    got,
                    of(2, n, &want, lane, e),
                    "{} lane {lane} element {e}",
                    form.mnemonic
                );
            }
        }
    }
}

/// `m8n8k4` of `f16`: four products, each of a pair of quads.
#[test]
fn quads_multiply_in_all_layouts() {
    for (a_row, b_row) in [(true, true), (true, false), (false, true), (false, false)] {
        for (d, c) in [(F32, F32), (F16, F16), (F32, F16)] {
            let word = |row| if row { "row" } else { "col" };
            let ty = |kind| if kind == F16 { "f16" } else { "f32" };
            let mnemonic = format!(
                "mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{}",
                word(a_row),
                word(b_row),
                ty(d),
                ty(c)
            );
            let mut next = numbers(3);
            let mut random =
                |len: usize| -> Vec<i64> { (0..len).map(|_| F16.small(next())).collect() };
            let (a, b, z) = (random(4 * 32), random(4 * 32), random(4 * 64));
            let quad = |lane: usize| lane % 16 / 4;
            let a_of = |lane: usize, i: usize| {
                let (row, column) = match (a_row, lane < 16) {
                    (true, true) => (lane % 4, i),
                    (true, false) => (lane % 4 + 4, i),
                    (false, true) => (i % 4, lane % 4),
                    (false, false) => (i % 4 + 4, lane % 4),
                };
                a[32 * quad(lane) + row * 4 + column]
            };
            let b_of = |lane: usize, i: usize| {
                let (row, column) = match (b_row, lane < 16) {
                    (true, true) => (lane % 4, i),
                    (true, false) => (lane % 4, i + 4),
                    (false, true) => (i, lane % 4),
                    (false, false) => (i, lane % 4 + 4),
                };
                b[32 * quad(lane) + row * 8 + column]
            };
            let c_place = |kind: Kind, lane: usize, i: usize| {
                let upper = if lane < 16 { 0 } else { 4 };
                let (row, column) = if kind == F16 {
                    (lane % 4 + upper, i)
                } else {
                    ((lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1))
                };
                64 * quad(lane) + row * 8 + column
            };
            let mut want = z.clone();
            for q in 0..4 {
                for i in 0..8 {
                    for j in 0..8 {
                        for l in 0..4 {
                            want[64 * q + i * 8 + j] +=
                                a[32 * q + i * 4 + l] * b[32 * q + l * 8 + j];
                        }
                    }
                }
            }
            let registers = |kind: Kind| if kind == F16 { 4 } else { 8 };
            let text = kernel(
                &mnemonic,
                [registers(d), 2, 2, registers(c)],
                [d, F16, F16, c],
                "",
                0,
            );
            let mut args = [
                Arg::Buffer(pack(F16, 4, a_of)),
                Arg::Buffer(pack(F16, 4, b_of)),
                Arg::Buffer(pack(c, 8, |lane, i| z[c_place(c, lane, i)])),
                Arg::zeros(32 * 4 * registers(d)),
            ];
            run(&text, "k", Shape::new(1, 32), &mut args);
            let Arg::Buffer(out) = &args[3] else {
                unreachable!()
            };
            for lane in 0..32 {
                for i in 0..8 {
                    assert_eq!(
                        unpack(d, 8, out, lane, i),
                        want[c_place(d, lane, i)],
                        "{mnemonic} {lane} {i}"
                    );
                }
            }
        }
    }
}

#[test]
fn integer_sums_wrap_or_saturate() {
    for (word, want) in [
        (".satfinite", i32::MAX),
        ("", i32::MIN + 127 * 127 * 16 - 1),
    ] {
        let mnemonic = format!("mma.sync.aligned.m8n8k16.row.col{word}.s32.s8.s8.s32");
        let text = kernel(
            &mnemonic,
            [2, 1, 1, 2],
            [S32, Signed(8), Signed(8), S32],
            "",
            0,
        );
        let mut args = [
            Arg::Buffer(pack(Signed(8), 4, |_, _| 127)),
            Arg::Buffer(pack(Signed(8), 4, |_, _| 127)),
            Arg::Buffer(pack(S32, 2, |_, _| i64::from(i32::MAX))),
            Arg::zeros(256),
        ];
        run(&text, "k", Shape::new(1, 32), &mut args);
        assert_eq!(args[3].to_words(), [want as u32; 64]);
    }
}

/// One row of 16 products (the same in all rows and columns), and an accumulator.
fn one_sum(kind: Kind, a: [u16; 16], b: [u16; 16], c: u32) -> u32 {
    let ty = if kind == F16 { "f16" } else { "bf16" };
    let mnemonic = format!("mma.sync.aligned.m16n8k16.row.col.f32.{ty}.{ty}.f32");
    let text = kernel(&mnemonic, [4, 4, 2, 4], [F32, kind, kind, F32], "", 0);
    let halves = |of: &dyn Fn(usize, usize) -> u16, n: usize| {
        let all: Vec<u16> = (0..32 * n).map(|i| of(i / n, i % n)).collect();
        Arg::halves(&all)
    };
    let a_of = |lane: usize, i: usize| a[2 * (lane % 4) + i % 2 + if i < 4 { 0 } else { 8 }];
    let b_of = |lane: usize, i: usize| b[2 * (lane % 4) + i % 2 + if i < 2 { 0 } else { 8 }];
    let mut args = [
        halves(&a_of, 8),
        halves(&b_of, 4),
        Arg::words(&[c; 128]),
        Arg::zeros(512),
    ];
    run(&text, "k", Shape::new(1, 32), &mut args);
    let out = args[3].to_words();
    assert!(out.iter().all(|&word| word == out[0]));
    out[0]
}

#[test]
fn sums_of_products_are_cut_and_not_rounded() {
    let one = 0x3c00;
    let with = |values: &[(usize, u16)]| {
        let mut all = [0; 16];
        for &(i, v) in values {
            all[i] = v;
        }
        all
    };
    // 2^24 + 1 + 1: each 1 is below the last bit of the result, but the sum of both is kept while adding.
    let a = with(&[(0, one), (1, one)]);
    let b = with(&[(0, one), (1, one)]);
    let big = (1u32 << 24) as f32;
    assert_eq!(f32::from_bits(one_sum(F16, a, b, big.to_bits())), big + 2.0);
    // 3 more do not round up to 4.
    let a = with(&[(0, one), (1, one), (2, one)]);
    let b = a;
    assert_eq!(f32::from_bits(one_sum(F16, a, b, big.to_bits())), big + 2.0);
    // Towards zero on the other side, too.
    assert_eq!(
        f32::from_bits(one_sum(
            F16,
            a,
            with(&[(0, 0xbc00), (1, 0xbc00), (2, 0xbc00)]),
            (-big).to_bits()
        )),
        -big - 2.0
    );
    // Below 2^-25 of the largest, a product is lost.
    let tiny = 0x0001; // 2^-24
    let a = with(&[(0, one), (1, tiny)]);
    assert_eq!(one_sum(F16, a, with(&[(0, one), (1, one)]), 0), 0x3f80_0000);
    let a = with(&[(0, one), (1, tiny), (2, tiny)]);
    let cancelled = one_sum(
        F16,
        a,
        with(&[(0, one), (1, one), (2, one)]),
        (-1.0f32).to_bits(),
    );
    assert_eq!(f32::from_bits(cancelled), 2f32.powi(-23));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the order: 17 summands are cut 25 bits below the largest, and the sum once more.
    #[test]
    fn sums_of_products_are_as_exact_as_the_hardware(
        a in prop::array::uniform16((1u16..31, 0u16..1024, any::<bool>())),
        b in prop::array::uniform16((1u16..31, 0u16..1024, any::<bool>())),
        c in -1e6f32..1e6,
    ) {
        let bits = |(e, f, s): (u16, u16, bool)| u16::from(s) << 15 | e << 10 | f;
        let value = |(e, f, s): (u16, u16, bool)| {
            let magnitude = (1.0 + f64::from(f) / 1024.0) * 2f64.powi(i32::from(e) - 15);
            if s { -magnitude } else { magnitude }
        };
        let products: Vec<f64> = (0..16).map(|i| value(a[i]) * value(b[i])).collect();
        let exact = products.iter().sum::<f64>() + f64::from(c);
        let largest = products.iter().fold(f64::from(c.abs()), |m, p| m.max(p.abs()));
        let got = f64::from(f32::from_bits(one_sum(F16, a.map(bits), b.map(bits), c.to_bits())));
        let bound = largest * 17.0 * 2f64.powi(-25) + exact.abs() * 2f64.powi(-23) + 2f64.powi(-40);
        prop_assert!((got - exact).abs() <= bound, "{} for {}", got, exact);
    }
}

#[test]
fn infinities_and_nan_go_through_products() {
    let with = |i: usize, v: u16| {
        let mut all = [0x3c00; 16];
        all[i] = v;
        all
    };
    let ones = [0x3c00; 16];
    assert_eq!(one_sum(F16, with(3, 0x7c00), ones, 0), 0x7f80_0000);
    assert_eq!(one_sum(F16, with(3, 0xfc00), ones, 0), 0xff80_0000);
    assert_eq!(one_sum(F16, with(3, 0x7c00), with(3, 0), 0), 0x7fff_ffff);
    assert_eq!(one_sum(F16, with(3, 0x7e00), ones, 0), 0x7fff_ffff);
    assert_eq!(one_sum(F16, ones, ones, 0xff80_0000), 0xff80_0000);
    assert_eq!(
        one_sum(BF16, with(1, 0x7f80), ones, 0xff80_0000),
        0x7fff_ffff
    );
}

/// Sparse A: mnemonic, kinds, k, selector.
#[test]
fn sparse_products_find_their_elements_by_the_metadata() {
    for (mnemonic, a, b, c, k, selectors) in [
        ("m16n8k16.row.col.f32.f16.f16.f32", F16, F16, F32, 16, 4),
        ("m16n8k32.row.col.f32.bf16.bf16.f32", BF16, BF16, F32, 32, 2),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", Tf32, Tf32, F32, 8, 4),
        ("m16n8k16.row.col.f32.tf32.tf32.f32", Tf32, Tf32, F32, 16, 2),
        (
            "m16n8k32.row.col.s32.s8.u8.s32",
            Signed(8),
            Unsigned(8),
            S32,
            32,
            2,
        ),
        (
            "m16n8k64.row.col.s32.u8.s8.s32",
            Unsigned(8),
            Signed(8),
            S32,
            64,
            1,
        ),
        ("m16n8k64.row.col.f32.e4m3.e4m3.f32", E4M3, E4M3, F32, 64, 1),
        (
            "m16n8k64.row.col.s32.s4.s4.s32",
            Signed(4),
            Signed(4),
            S32,
            64,
            2,
        ),
        (
            "m16n8k128.row.col.s32.u4.u4.s32",
            Unsigned(4),
            Unsigned(4),
            S32,
            128,
            1,
        ),
    ] {
        for selector in 0..selectors {
            let mut next = numbers(selector + 11);
            let dense_b: Vec<i64> = (0..k * 8).map(|_| b.small(next())).collect();
            let z: Vec<i64> = (0..128).map(|_| c.small(next())).collect();
            // Which places of a chunk are kept, as the nibble says; 4-bit elements come in pairs.
            let (chunk, choices): (usize, &[(u64, &[usize])]) = match a {
                Tf32 => (2, &[(0b0100, &[0]), (0b1110, &[1])]),
                Signed(4) | Unsigned(4) => (
                    8,
                    &[
                        (0b0100, &[0, 1, 2, 3]),
                        (0b1101, &[2, 3, 6, 7]),
                        (0b1000, &[0, 1, 4, 5]),
                    ],
                ),
                _ => (
                    4,
                    &[
                        (0b0100, &[0, 1]),
                        (0b1000, &[0, 2]),
                        (0b1100, &[0, 3]),
                        (0b1001, &[1, 2]),
                        (0b1101, &[1, 3]),
                        (0b1110, &[2, 3]),
                    ],
                ),
            };
            let chunks = k / chunk;
            let mut stored = vec![0i64; 16 * k / 2];
            let mut dense = vec![0i64; 16 * k];
            let mut row_bits = [0u64; 16];
            for row in 0..16 {
                for g in 0..chunks {
                    let (nibble, places) = choices[next() as usize % choices.len()];
                    row_bits[row] |= nibble << (4 * g);
                    for (s, place) in places.iter().enumerate() {
                        let value = a.small(next());
                        stored[row * k / 2 + g * places.len() + s] = value;
                        dense[row * k + g * chunk + place] = value;
                    }
                }
            }
            // Metadata by the figures of the ISA: which lanes count, and what is in their words.
            let mut metadata: Vec<u32> = (0..32).map(|_| next()).collect();
            for (lane, word) in metadata.iter_mut().enumerate() {
                let (group, member) = (lane / 4, lane % 4);
                let (low, high) = (row_bits[group], row_bits[group + 8]);
                let own = selector as usize;
                match (4 * chunks, a.bits()) {
                    (16, _) if member == own => *word = (low | high << 16) as u32,
                    (32, 16 | 32) if member / 2 == own => {
                        let shift = 16 * (member % 2);
                        *word = ((low >> shift & 0xffff) | (high >> shift & 0xffff) << 16) as u32;
                    }
                    (32, 4 | 8) if member / 2 == own => {
                        *word = if member % 2 == 0 { low } else { high } as u32;
                    }
                    (64, _) => {
                        let row = if member % 2 == 0 { low } else { high };
                        *word = (row >> (32 * (member / 2))) as u32;
                    }
                    _ => {}
                }
            }
            // Stored elements lie as those of a dense matrix half as deep.
            let per = 32 / a.bits();
            let a_of = |lane: usize, i: usize| {
                let register = i / per;
                let row = lane / 4 + 8 * (register % 2);
                stored[row * k / 2 + lane % 4 * per + i % per + 4 * per * (register / 2)]
            };
            let b_of = |lane: usize, i: usize| {
                dense_b[(lane % 4 * per + i % per + 4 * per * (i / per)) * 8 + lane / 4]
            };
            let text = kernel(
                &format!("mma.sp::ordered_metadata.sync.aligned.{mnemonic}"),
                [4, 16 * k / 2 / 32 / per, 8 * k / 32 / per, 4],
                [c, a, b, c],
                &format!(", %e, {selector}"),
                1,
            );
            let mut args = [
                Arg::Buffer(pack(a, 16 * k / 2 / 32, a_of)),
                Arg::Buffer(pack(b, 8 * k / 32, b_of)),
                Arg::Buffer(pack(c, 4, |lane, i| {
                    let (r, n) = C16(lane / 4, lane % 4, i);
                    z[r * 8 + n]
                })),
                Arg::zeros(512),
                Arg::words(&metadata),
            ];
            run(&text, "k", Shape::new(1, 32), &mut args);
            let Arg::Buffer(out) = &args[3] else {
                unreachable!()
            };
            for lane in 0..32 {
                for i in 0..4 {
                    let (row, column) = C16(lane / 4, lane % 4, i);
                    let want = z[row * 8 + column]
                        + (0..k)
                            .map(|l| dense[row * k + l] * dense_b[l * 8 + column])
                            .sum::<i64>();
                    assert_eq!(
                        unpack(c, 4, out, lane, i),
                        want,
                        "{mnemonic} selector {selector} lane {lane}"
                    );
                }
            }
        }
    }
}

#[test]
fn dot_products_of_bytes_take_the_signs_of_their_types() {
    let mut next = numbers(5);
    let words: Vec<[u32; 3]> = (0..32).map(|_| [next(), next(), next()]).collect();
    let column = |i: usize| -> [u64; 32] {
        std::array::from_fn(|lane| u64::from(words[lane][i]) | 0xdead << 32)
    };
    for a_signed in [false, true] {
        for b_signed in [false, true] {
            let byte = |word: u32, i: u32, signed: bool| {
                let byte = (word >> (8 * i)) as u8;
                if signed {
                    i64::from(byte as i8)
                } else {
                    i64::from(byte)
                }
            };
            let half = |word: u32, i: u32, signed: bool| {
                let half = (word >> (16 * i)) as u16;
                if signed {
                    i64::from(half as i16)
                } else {
                    i64::from(half)
                }
            };
            let types = format!(
                "{}32.{}32",
                if a_signed { 's' } else { 'u' },
                if b_signed { 's' } else { 'u' }
            );
            for name in ["dp4a", "dp2a.lo", "dp2a.hi"] {
                let out = warp_support::lanes(
                    &format!(
                        "ld.global.u32 %r0, [%p0];\nld.global.u32 %r1, [%p1];\nld.global.u32 %r2, [%p2];\n\
                         {name}.{types} %r3, %r0, %r1, %r2;\nst.global.u32 [%p3], %r3;"
                    ),
                    &[column(0), column(1), column(2)],
                );
                for (lane, &[a, b, c]) in words.iter().enumerate() {
                    let sum: i64 = match name {
                        "dp4a" => (0..4)
                            .map(|i| byte(a, i, a_signed) * byte(b, i, b_signed))
                            .sum(),
                        "dp2a.lo" => (0..2)
                            .map(|i| half(a, i, a_signed) * byte(b, i, b_signed))
                            .sum(),
                        _ => (0..2)
                            .map(|i| half(a, i, a_signed) * byte(b, 2 + i, b_signed))
                            .sum(),
                    };
                    assert_eq!(
                        out[lane] as u32,
                        c.wrapping_add(sum as u32),
                        "{name}.{types}"
                    );
                }
            }
        }
    }
}
