//! Values of operands: edges of each type, and random bits. The same for ever: recorded results depend on them.

pub use crate::forms::Values as Kind;
use crate::forms::Values;

/// A small generator (SplitMix64, by Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a text, so that each case has values of its own that do not depend on the others.
    pub fn of(text: &str) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }
}

/// Bytes that a value of this type takes in a buffer. Predicates are 32 bits.
pub fn bytes(ty: &str) -> usize {
    match ty {
        "b8" | "u8" | "s8" => 1,
        "b16" | "u16" | "s16" | "f16" | "bf16" | "e4m3x2" | "e5m2x2" => 2,
        "b64" | "u64" | "s64" | "f64" => 8,
        _ => 4,
    }
}

/// Edge values as bits.
pub fn edges(ty: &str, values: Values) -> Vec<u64> {
    match values {
        Values::Counts => vec![
            0,
            1,
            5,
            8,
            15,
            16,
            17,
            31,
            32,
            33,
            63,
            64,
            65,
            127,
            255,
            256,
            0x8000_0000,
            0xffff_ffff,
        ],
        Values::Lane => (0..32).collect(),
        Values::Small => (-40_i64..=40).map(|v| v as u64 & 0xffff_ffff).collect(),
        Values::Clamp => vec![0x1f, 0, 0x1c03, 0x181f, 0x100f, 0x1e1f, 0x1f1f, 7],
        Values::Few => vec![0, 1, 2, u64::MAX],
        Values::Edges => match ty {
            "pred" => vec![0, 1],
            "f32" | "tf32" => F32.iter().map(|&b| b.into()).collect(),
            "f64" => F64.to_vec(),
            "f16" => F16.iter().map(|&b| b.into()).collect(),
            "bf16" => BF16.iter().map(|&b| b.into()).collect(),
            "f16x2" => pairs(&F16),
            "bf16x2" => pairs(&BF16),
            _ => integers(bytes(ty)),
        },
    }
}

fn pairs(values: &[u16]) -> Vec<u64> {
    (0..values.len())
        .map(|i| u64::from(values[i]) | u64::from(values[(i * 7 + 3) % values.len()]) << 16)
        .collect()
}

fn integers(bytes: usize) -> Vec<u64> {
    let bits = bytes as u32 * 8;
    let mask = u64::MAX >> (64 - bits);
    let top = 1 << (bits - 1);
    let half = 1_u64 << (bits / 2);
    let mut values = vec![
        0,
        1,
        2,
        3,
        7,
        0x80,
        0xff,
        half - 1,
        half,
        half + 1,
        top - 1,
        top,
        top + 1,
        mask - 1,
        mask,
        0x5555_5555_5555_5555 & mask,
        0x8040_2010_8040_2010 & mask,
        0x0123_4567_89ab_cdef & mask,
    ];
    values.dedup();
    values
}

/// Zeros, smallest and largest subnormal and normal numbers, ones, halves (ties of rounding), limits of integers,
/// infinities, quiet and signalling NaNs with payloads, numbers whose functions are exact.
const F32: [u32; 48] = [
    0x0000_0000,
    0x8000_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x0080_0001,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0xbf00_0000,
    0x3fc0_0000,
    0x4020_0000,
    0xc060_0000,
    0x3f7f_ffff,
    0x3f80_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f00_0000,
    0x7e80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc1_2345,
    0x7f80_0001,
    0xffbf_ffff,
    0x4f00_0000,
    0xcf00_0000,
    0x4eff_ffff,
    0x4f80_0000,
    0x5f00_0000,
    0xdf00_0000,
    0x5f80_0000,
    0x4380_0000,
    0x477f_e000,
    0x4780_0000,
    0x3300_0000,
    0x4b00_0001,
    0x40490fdb,
    0x42b1_7218,
    0xc2ce_8ed0,
    0x1f80_0000,
    0x6080_0000,
    0x4040_0000,
    0x4080_0000,
    0x0040_0000,
];

const F64: [u64; 40] = [
    0,
    0x8000_0000_0000_0000,
    1,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x8010_0000_0000_0001,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0xbfe0_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0xc00c_0000_0000_0000,
    0x3fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0001,
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_1234_5678,
    0x7ff0_0000_0000_0001,
    0xfff7_ffff_ffff_ffff,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41f0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x47ef_ffff_f000_0000,
    0x3810_0000_0000_0000,
    0x36a0_0000_0000_0000,
    0x3690_0000_0000_0000,
    0x400921fb_54442d18,
    0x7fe0_0000_0000_0000,
    0x0020_0000_0000_0000,
    0x40ef_fc00_0000_0000,
    0x4008_0000_0000_0000,
];

const F16: [u16; 36] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x0401, 0x3c00, 0xbc00, 0x3800,
    0xb800, 0x3e00, 0x4100, 0xc300, 0x3bff, 0x3c01, 0x7bff, 0xfbff, 0x7800, 0x7c00, 0xfc00, 0x7e00,
    0xfe12, 0x7c01, 0xfdff, 0x5c00, 0x6400, 0x6401, 0x4248, 0x1400, 0x2401, 0x4200, 0x4400, 0x0200,
];

const BF16: [u16; 34] = [
    0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x0081, 0x3f80, 0xbf80, 0x3f00,
    0xbf00, 0x3fc0, 0x4020, 0xc060, 0x3f7f, 0x3f81, 0x7f7f, 0xff7f, 0x7f00, 0x7f80, 0xff80, 0x7fc0,
    0xffc1, 0x7f81, 0xffbf, 0x4f00, 0x4f80, 0x4300, 0x4049, 0x1f80, 0x4040, 0x4080,
];

/// `count` values for each of several operands: all combinations of edges as far as they fit into half of it, then
/// edges and random bits mixed.
pub fn columns(operands: &[(&str, Values)], count: usize, random: &mut Random) -> Vec<Vec<u64>> {
    let edges: Vec<Vec<u64>> = operands
        .iter()
        .map(|(ty, values)| edges(ty, *values))
        .collect();
    let combinations = edges
        .iter()
        .try_fold(1_usize, |n, e| n.checked_mul(e.len()))
        .unwrap_or(usize::MAX);
    let ordered = if combinations <= count / 2 * 3 / 2 {
        combinations.min(count)
    } else {
        0
    };
    let mut columns = vec![Vec::with_capacity(count); operands.len()];
    for row in 0..count {
        let mut rest = row;
        for (operand, column) in columns.iter_mut().enumerate() {
            let (ty, values) = operands[operand];
            let edges = &edges[operand];
            let mask = u64::MAX >> (64 - 8 * bytes(ty));
            let value = if row < ordered {
                let value = edges[rest % edges.len()];
                rest /= edges.len();
                value
            } else if values != Values::Edges || ty == "pred" || random.below(3) > 0 {
                edges[random.below(edges.len())]
            } else {
                near_one(ty, random)
            };
            column.push(value & mask);
        }
    }
    columns
}

/// Random bits; of floating-point types, half of the values are of ordinary size.
fn near_one(ty: &str, random: &mut Random) -> u64 {
    let bits = random.bits();
    let ordinary = random.below(2) == 0;
    match ty {
        "f32" | "tf32" if ordinary => (bits & 0x83ff_ffff) | 0x3c00_0000,
        "f64" if ordinary => (bits & 0x803f_ffff_ffff_ffff) | 0x3fc0_0000_0000_0000,
        "f16" | "f16x2" if ordinary => (bits & 0x8fff_8fff) | 0x3000_3000,
        "bf16" | "bf16x2" if ordinary => (bits & 0x83ff_83ff) | 0x3c00_3c00,
        _ => bits,
    }
}
