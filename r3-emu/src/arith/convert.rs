//! Between integers and floating-point numbers. (What stays within 16 bits and less is in [`super::half`] and
//! [`small`](super::small).)

use super::half::{self, BF16, F16, Half};
use super::single::{canonical, flush_if, from_double, narrow, saturate};
use super::soft::{Format, Value};
use super::{Round, double};

/// `.rni`, `.rzi`, `.rmi`, `.rpi`: rounds to an integral value.
#[inline(always)]
pub fn integral_single(x: f32, round: Round) -> f32 {
    match round {
        Round::NearestEven => x.round_ties_even(),
        Round::NearestAway => x.round(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

/// `.rni`, `.rzi`, `.rmi`, `.rpi`: rounds to an integral value.
#[inline(always)]
pub fn integral_double(x: f64, round: Round) -> f64 {
    match round {
        Round::NearestEven => x.round_ties_even(),
        Round::NearestAway => x.round(),
        Round::Zero => x.trunc(),
        Round::Down => x.floor(),
        Round::Up => x.ceil(),
    }
}

/// An integer that floating-point numbers are converted to.
pub trait Integer: Copy + 'static {
    /// Clamped to the range; NaN becomes 0.
    fn clamp_single(x: f32) -> Self;
    /// Clamped to the range; NaN becomes 0.
    fn clamp_double(x: f64) -> Self;
    /// What NaN becomes when source or result has 64 bits or the source is `.f64`: the highest bit alone.
    const NAN: Self;
    /// Whether it has 64 bits.
    const WIDE: bool;
    /// The bits, sign- or zero-extended.
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($ty:ident $unsigned:ident)*) => {$(
        impl Integer for $ty {
            #[inline(always)]
            fn clamp_single(x: f32) -> Self {
                x as $ty
            }
            #[inline(always)]
            fn clamp_double(x: f64) -> Self {
                x as $ty
            }
            const NAN: Self = (1 as $unsigned).rotate_right(1) as $ty;
            const WIDE: bool = $ty::BITS == 64;
            #[inline(always)]
            fn bits(self) -> u64 {
                self as i64 as u64
            }
        }
    )*};
}
integers!(i8 u8 i16 u16 i32 u32 i64 u64 u8 u8 u16 u16 u32 u32 u64 u64);

/// The bits of `$convert::<I>(…)` for the integer type of so many bits.
macro_rules! integer {
    ($convert:ident($($arg:expr),*), $bits:expr, $signed:expr) => {
        match ($bits, $signed) {
            (8, true) => $convert::<i8>($($arg),*).bits(),
            (8, false) => $convert::<u8>($($arg),*).bits(),
            (16, true) => $convert::<i16>($($arg),*).bits(),
            (16, false) => $convert::<u16>($($arg),*).bits(),
            (32, true) => $convert::<i32>($($arg),*).bits(),
            (32, false) => $convert::<u32>($($arg),*).bits(),
            (_, true) => $convert::<i64>($($arg),*).bits(),
            (_, false) => $convert::<u64>($($arg),*).bits(),
        }
    };
}

/// `.f32` (or `.f16`, `.bf16`, widened) to an integer.
#[inline(always)]
pub fn single_to_integer<I: Integer>(x: f32, round: Round) -> I {
    let result = I::clamp_single(integral_single(x, round));
    if I::WIDE && x.is_nan() {
        I::NAN
    } else {
        result
    }
}

/// `.f64` to an integer.
#[inline(always)]
pub fn double_to_integer<I: Integer>(x: f64, round: Round) -> I {
    let result = I::clamp_double(integral_double(x, round));
    if x.is_nan() { I::NAN } else { result }
}

/// An integer of at most 32 bits to `.f32`.
#[inline(always)]
pub fn small_to_single(x: i64, round: Round) -> f32 {
    // Exact as a double.
    narrow(x as f64, round)
}

/// `.s64` to `.f32`
#[inline(always)]
pub fn s64_to_single(x: i64, round: Round) -> f32 {
    match round {
        Round::NearestEven => x as f32,
        _ => encode_single(x < 0, x.unsigned_abs(), round),
    }
}

/// `.u64` to `.f32`
#[inline(always)]
pub fn u64_to_single(x: u64, round: Round) -> f32 {
    match round {
        Round::NearestEven => x as f32,
        _ => encode_single(false, x, round),
    }
}

#[inline(never)]
fn encode_single(negative: bool, magnitude: u64, round: Round) -> f32 {
    let value = Value::from_integer(negative, magnitude);
    f32::from_bits(Format::F32.encode(value, round, false) as u32)
}

/// `.s64` to `.f64`
#[inline(always)]
pub fn s64_to_double(x: i64, round: Round) -> f64 {
    match round {
        Round::NearestEven => x as f64,
        _ => encode_double(x < 0, x.unsigned_abs(), round),
    }
}

/// `.u64` to `.f64`
#[inline(always)]
pub fn u64_to_double(x: u64, round: Round) -> f64 {
    match round {
        Round::NearestEven => x as f64,
        _ => encode_double(false, x, round),
    }
}

#[inline(never)]
fn encode_double(negative: bool, magnitude: u64, round: Round) -> f64 {
    let value = Value::from_integer(negative, magnitude);
    f64::from_bits(Format::F64.encode(value, round, false))
}

/// An integer clamped to a range of `bits` bits, signed or not: `cvt.sat`, `cvt.pack`.
#[inline(always)]
pub fn clamp_integer(x: i64, bits: u32, signed: bool) -> i64 {
    let (low, high) = if signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    x.clamp(low, high)
}

/// A type that [`Conversion`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// An integer of 8, 16, 32 or 64 bits.
    Integer {
        /// How many.
        bits: u32,
        /// In two's complement.
        signed: bool,
    },
    /// `.f16`
    F16,
    /// `.bf16`
    BF16,
    /// `.f32`
    F32,
    /// `.f64`
    F64,
}

/// Any `cvt` from one number to one number. The frequent ones have faster functions of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Type of the source.
    pub from: Number,
    /// Type of the result.
    pub to: Number,
    /// Rounding to the result's format.
    pub round: Round,
    /// Rounding to an integral value (`.rni` …), which comes first.
    pub integral: Option<Round>,
    /// `.ftz`, which is about `.f32` on either side.
    pub ftz: bool,
    /// `.sat`: to `[+0, 1]`, or to the range of an integer.
    pub sat: bool,
    /// `.satfinite`
    pub satfinite: bool,
    /// `.relu`
    pub relu: bool,
}

impl Conversion {
    /// Converts the bits of one value. Those of an integer come out sign- or zero-extended.
    pub fn run(&self, bits: u64) -> u64 {
        match self.from {
            Number::Integer {
                bits: width,
                signed,
            } => self.of_integer(bits, width, signed),
            // The payload stays, as on an H200.
            Number::F16
                if self.to == Number::F64 && !self.sat && half::is_nan::<F16>(bits as u16) =>
            {
                (bits & 0x8000) << 48 | 0x7ff8 << 48 | (bits & 0x3ff) << 42
            }
            Number::F16 => self.of_single(F16::widen(bits as u16)),
            Number::BF16 => self.of_single(BF16::widen(bits as u16)),
            // To halves nothing is flushed: assemblers drop `.ftz` there, and it would only be seen of `.rm` and `.rp`.
            Number::F32 => self.of_single(flush_if(
                self.ftz && self.to != Number::F16,
                f32::from_bits(bits as u32),
            )),
            Number::F64 => self.of_double(f64::from_bits(bits)),
        }
    }

    fn of_integer(&self, bits: u64, width: u32, signed: bool) -> u64 {
        let unused = 64 - width;
        let value = if signed {
            i128::from((bits << unused) as i64 >> unused)
        } else {
            i128::from(bits << unused >> unused)
        };
        if let Number::Integer { bits, signed } = self.to {
            let value = if self.sat {
                let low = if signed { -(1 << (bits - 1)) } else { 0 };
                let high = (1_i128 << (bits - u32::from(signed))) - 1;
                value.clamp(low, high)
            } else {
                value
            };
            let unused = 64 - bits;
            let cut = (value as u64) << unused;
            return if signed {
                (cut as i64 >> unused) as u64
            } else {
                cut >> unused
            };
        }
        let exact = Value::from_integer(value < 0, value.unsigned_abs() as u64);
        self.encode(exact)
    }

    /// From `.f32` and what is exact in it.
    fn of_single(&self, x: f32) -> u64 {
        let x = self.integral.map_or(x, |round| integral_single(x, round));
        match self.to {
            Number::Integer { bits, signed } => {
                let round = self.integral.unwrap_or(Round::Zero);
                integer!(single_to_integer(x, round), bits, signed)
            }
            Number::F64 if x.is_nan() && !self.sat => {
                let x = if self.ftz { canonical(x) } else { x };
                double::quiet(x.into()).to_bits()
            }
            _ => self.encode(Format::F32.decode(x.to_bits().into())),
        }
    }

    fn of_double(&self, x: f64) -> u64 {
        let x = self.integral.map_or(x, |round| integral_double(x, round));
        match self.to {
            Number::Integer { bits, signed } => {
                let round = self.integral.unwrap_or(Round::Zero);
                integer!(double_to_integer(x, round), bits, signed)
            }
            Number::F64 if x.is_nan() && !self.sat => double::quiet(x).to_bits(),
            // The upper bits of the payload stay, as on an H200. Whether a result is tiny is seen before `.sat`.
            Number::F32 => {
                let result = from_double(x, self.round, self.ftz);
                let result = if self.sat { saturate(result) } else { result };
                result.to_bits().into()
            }
            Number::F16 | Number::BF16 if x.is_nan() && !self.sat => {
                let fraction_bits = if self.to == Number::F16 { 10 } else { 7 };
                let bits = x.to_bits();
                let nan = 0x7fff_u64 >> (fraction_bits - 1) << (fraction_bits - 1);
                let payload = bits >> (52 - fraction_bits) & ((1 << fraction_bits) - 1);
                bits >> 48 & 0x8000 | nan | payload
            }
            _ => self.encode(Format::F64.decode(x.to_bits())),
        }
    }

    /// Rounds to a floating-point result, with the modifiers.
    fn encode(&self, value: Value) -> u64 {
        let format = match self.to {
            Number::F16 => Format::F16,
            Number::BF16 => Format::BF16,
            Number::F64 => Format::F64,
            Number::F32 | Number::Integer { .. } => Format::F32,
        };
        let bits = format.encode(value, self.round, self.satfinite);
        let sign = bits > format.nan();
        let nan = !sign && bits > format.infinity();
        let bits = if self.relu && sign { 0 } else { bits };
        if self.sat {
            // One is below infinity by half of the exponents.
            let one = ((1 << (format.exponent_bits - 1)) - 1) << format.fraction_bits;
            return if sign || nan { 0 } else { bits.min(one) };
        }
        match self.to {
            Number::F32 => flush_if(self.ftz, f32::from_bits(bits as u32))
                .to_bits()
                .into(),
            Number::F64 if nan => double::NAN,
            _ => bits,
        }
    }
}
