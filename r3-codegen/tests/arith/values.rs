//! Values of operands: edges of each type, and random bits, always the same.

/// A small generator (SplitMix64, by Steele, Lea and Flood).
pub struct Random(u64);

impl Random {
    /// From a text.
    pub fn of(text: &str) -> Self {
        let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }
}

/// What an operand is, for its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pred,
    F16,
    BF16,
    F16x2,
    BF16x2,
    F32,
    F64,
    Int(u32),
    /// -40 to 40, in 32 bits.
    Small,
}

/// A value: an edge, two times of three.
pub fn value(kind: Kind, random: &mut Random) -> u64 {
    let edge = random.below(3) > 0;
    let pick = |list: &[u64], random: &mut Random| list[random.below(list.len())];
    let half = |list: &[u64], random: &mut Random| match random.below(4) {
        0 => random.bits() & 0xffff,
        _ => list[random.below(list.len())],
    };
    match kind {
        Kind::Small => (random.bits() % 81).wrapping_sub(40) & 0xffff_ffff,
        Kind::Pred => random.bits() & 1,
        Kind::F16 => half(F16, random),
        Kind::BF16 => half(BF16, random),
        Kind::F16x2 => half(F16, random) << 16 | half(F16, random),
        Kind::BF16x2 => half(BF16, random) << 16 | half(BF16, random),
        Kind::F32 if edge => pick(F32, random),
        Kind::F32 => (random.bits() & 0x83ff_ffff) | 0x3c00_0000,
        Kind::F64 if edge => pick(F64, random),
        Kind::F64 => (random.bits() & 0x803f_ffff_ffff_ffff) | 0x3fc0_0000_0000_0000,
        Kind::Int(bits) => {
            let mask = u64::MAX >> (64 - bits);
            let top = 1_u64 << (bits - 1);
            let number = match random.below(12) {
                0 => random.bits() % 70,
                1 => 0,
                2 => 1,
                3 => top,
                4 => top - 1,
                5 => mask,
                6 => mask - random.bits() % 70,
                7 => 1_u64 << (random.below(bits as usize)),
                8 => top + 1,
                9 => random.bits() >> random.below(64),
                _ => random.bits(),
            };
            number & mask
        }
    }
}

const F32: &[u64] = &[
    0,
    0x8000_0000,
    1,
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
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc1_2345,
    0x7f80_0001,
    0x4f00_0000,
    0xcf00_0000,
    0x4eff_ffff,
    0x4f80_0000,
    0x5f00_0000,
    0xdf00_0000,
    0x5f80_0000,
    0x477f_e000,
    0x4780_0000,
    0x3300_0000,
    0x4b00_0001,
    0x40490fdb,
    0x42b1_7218,
    0x1f80_0000,
    0x4000_0000,
    0x4040_0000,
    0x4080_0000,
    0x437f_8000,
    0xc300_8000,
    0x477f_ff80,
];

const F64: &[u64] = &[
    0,
    1 << 63,
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
    0x7fef_ffff_ffff_ffff,
    0xffef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_1234_5678,
    0x7ff0_0000_0000_0001,
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
    0x4000_0000_0000_0000,
    0x40ef_fc00_0000_0000,
    0x4008_0000_0000_0000,
];

const F16: &[u64] = &[
    0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x0401, 0x3c00, 0xbc00, 0x3800,
    0xb800, 0x3e00, 0x4100, 0xc300, 0x3bff, 0x3c01, 0x7bff, 0xfbff, 0x7800, 0x7c00, 0xfc00, 0x7e00,
    0xfe12, 0x7c01, 0x4000, 0x5c00, 0x6400, 0x4248, 0x1400, 0x4200,
];

const BF16: &[u64] = &[
    0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x8080, 0x0081, 0x3f80, 0xbf80, 0x3f00,
    0xbf00, 0x3fc0, 0x4020, 0xc060, 0x3f7f, 0x3f81, 0x7f7f, 0xff7f, 0x7f00, 0x7f80, 0xff80, 0x7fc0,
    0xffc1, 0x7f81, 0x4f00, 0x4300, 0x4049, 0x1f80, 0x4000, 0x4080,
];
