//! Elements of multiplicands as integers: what tensor cores add up are exact products of significands.

/// Formats of floating-point elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F16,
    Bf16,
    /// The low 13 bits of the register are ignored.
    Tf32,
    E4m3,
    E5m2,
    E2m1,
    E2m3,
    E3m2,
}

/// Exponent that stands for an infinity.
pub(super) const INFINITE: i32 = 1 << 20;
/// Exponent that stands for a NaN.
pub(super) const NAN: i32 = INFINITE + 1;
/// Exponent of a zero: below that of every product, so that it never decides an alignment.
pub(super) const ZERO: i32 = -(1 << 16);

/// A number: `significand * 2^(exponent - 10)`. Significands have 11 bits and a sign; those of subnormal numbers are
/// not normalised, as in the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub significand: i32,
    pub exponent: i32,
}

/// Layout of a format: bits of exponent and fraction, bias, and what the largest exponent means.
struct Layout {
    exponent: u32,
    fraction: u32,
    bias: i32,
    special: Special,
}

/// Meaning of the largest exponent.
enum Special {
    /// Infinities and NaN, as in IEEE 754.
    Ieee,
    /// Only all ones is NaN.
    NanOnly,
    /// Numbers like all others.
    None,
}

impl Format {
    fn layout(self) -> Layout {
        let (exponent, fraction, bias, special) = match self {
            Self::F16 => (5, 10, 15, Special::Ieee),
            Self::Bf16 => (8, 7, 127, Special::Ieee),
            Self::Tf32 => (8, 10, 127, Special::Ieee),
            Self::E4m3 => (4, 3, 7, Special::NanOnly),
            Self::E5m2 => (5, 2, 15, Special::Ieee),
            Self::E2m1 => (2, 1, 1, Special::None),
            Self::E2m3 => (2, 3, 1, Special::None),
            Self::E3m2 => (3, 2, 3, Special::None),
        };
        Layout {
            exponent,
            fraction,
            bias,
            special,
        }
    }

    /// Bits that an element takes in a register.
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::Tf32 => 32,
            Self::F16 | Self::Bf16 => 16,
            // 4- and 6-bit formats are padded to a byte.
            _ => 8,
        }
    }

    /// Whether it is one of the formats of 8 bits and fewer.
    pub(crate) fn narrow(self) -> bool {
        self.bits() == 8
    }

    /// Reads an element from the low bits of `raw`.
    pub(super) fn decode(self, raw: u32) -> Element {
        let layout = self.layout();
        let raw = match self {
            Self::Tf32 => raw >> 13,
            // Padding bits: 4-bit data stands in bits 2..6 of its byte, 6-bit data in the low ones.
            Self::E2m1 => raw >> 2,
            _ => raw,
        };
        let fraction = raw & ((1 << layout.fraction) - 1);
        let top = (1 << layout.exponent) - 1;
        let biased = (raw >> layout.fraction) & top;
        let negative = (raw >> (layout.fraction + layout.exponent)) & 1 != 0;
        let sign = if negative { -1 } else { 1 };
        let special = match layout.special {
            Special::Ieee if biased == top => Some(if fraction == 0 { INFINITE } else { NAN }),
            Special::NanOnly if biased == top && fraction == (1 << layout.fraction) - 1 => {
                Some(NAN)
            }
            _ => None,
        };
        if let Some(exponent) = special {
            return Element {
                significand: sign,
                exponent,
            };
        }
        let (significand, exponent) = if biased == 0 {
            (fraction, 1 - layout.bias)
        } else {
            (
                fraction | (1 << layout.fraction),
                biased.cast_signed() - layout.bias,
            )
        };
        Element {
            significand: sign * (significand << (10 - layout.fraction)).cast_signed(),
            exponent: if significand == 0 { ZERO } else { exponent },
        }
    }
}

impl Element {
    /// As a double, exactly.
    pub(super) fn value(self) -> f64 {
        match self.exponent {
            NAN => f64::NAN,
            INFINITE => f64::from(self.significand) * f64::INFINITY,
            ZERO => 0.0,
            exponent => f64::from(self.significand) * power_of_two(exponent - 10),
        }
    }
}

/// `2^exponent`, for exponents of normal doubles.
pub(super) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).cast_unsigned()) << 52)
}

/// What an accumulator is, and how a sum is rounded to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accumulator {
    /// Single precision, rounded towards zero.
    F32,
    /// Single precision whose fraction is cut to 13 bits: fp8 of `wgmma`.
    F32Short,
    /// Half precision, rounded to nearest.
    F16,
}

impl Accumulator {
    /// Significand with 23 bits of fraction, and exponent.
    pub(super) fn decode(self, raw: u32) -> Element {
        match self {
            Self::F16 => {
                let half = Format::F16.decode(raw);
                if half.exponent >= INFINITE {
                    return half;
                }
                Element {
                    significand: half.significand << 13,
                    exponent: half.exponent,
                }
            }
            Self::F32 | Self::F32Short => {
                let fraction = (raw & 0x7f_ffff).cast_signed();
                let biased = ((raw >> 23) & 0xff).cast_signed();
                let sign = if raw >> 31 != 0 { -1 } else { 1 };
                match biased {
                    0xff => Element {
                        significand: sign,
                        exponent: if fraction == 0 { INFINITE } else { NAN },
                    },
                    0 => Element {
                        significand: sign * fraction,
                        exponent: if fraction == 0 { ZERO } else { -126 },
                    },
                    _ => Element {
                        significand: sign * (fraction | 1 << 23),
                        exponent: biased - 127,
                    },
                }
            }
        }
    }

    /// As a double, exactly.
    pub(super) fn value(self, raw: u32) -> f64 {
        match self {
            Self::F16 => Format::F16.decode(raw).value(),
            Self::F32 | Self::F32Short => f64::from(f32::from_bits(raw)),
        }
    }

    /// Rounds `sum * 2^exponent`.
    pub(super) fn round(self, sum: i64, exponent: i32) -> u32 {
        let magnitude = sum.unsigned_abs();
        if magnitude == 0 {
            return 0;
        }
        let top = 63 - magnitude.leading_zeros().cast_signed() + exponent;
        let negative = u32::from(sum < 0);
        match self {
            Self::F32 | Self::F32Short => {
                let bits = if top > 127 {
                    0x7f80_0000
                } else {
                    let unit = (top - 23).max(-149);
                    let significand = shift_right(magnitude, unit - exponent);
                    if top < -126 {
                        significand
                    } else {
                        (((top + 127).cast_unsigned()) << 23) | (significand & 0x7f_ffff)
                    }
                };
                let bits = if self == Self::F32Short && top <= 127 {
                    bits & !0x3ff
                } else {
                    bits
                };
                negative << 31 | bits
            }
            Self::F16 => {
                let unit = (top - 10).max(-24);
                let shift = unit - exponent;
                let mut significand = shift_right(magnitude, shift);
                if shift > 0 {
                    let rest = if shift > 63 {
                        magnitude
                    } else {
                        magnitude & ((1 << shift) - 1)
                    };
                    let half = if shift > 64 {
                        u64::MAX
                    } else {
                        1 << (shift - 1)
                    };
                    let up = rest > half || rest == half && significand & 1 == 1;
                    significand += u32::from(up);
                }
                // A carry out of the fraction makes the next exponent by itself.
                let bits = if top < -14 {
                    significand
                } else {
                    ((top + 14).clamp(0, 64).cast_unsigned() << 10) + significand
                };
                negative << 15 | bits.min(0x7c00)
            }
        }
    }

    /// The sum where an operand is not finite.
    pub(super) fn special(self, sum: f64) -> u32 {
        let nan = sum.is_nan();
        let negative = sum.is_sign_negative();
        match self {
            Self::F16 if nan => 0x7fff,
            Self::F16 => u32::from(negative) << 15 | 0x7c00,
            _ if nan => 0x7fff_ffff,
            _ => u32::from(negative) << 31 | 0x7f80_0000,
        }
    }
}

/// Shifts right by `shift`, left where that is negative. The result is known to fit.
fn shift_right(value: u64, shift: i32) -> u32 {
    let shifted = match shift {
        64.. => 0,
        0..64 => value >> shift,
        _ => value << shift.unsigned_abs().min(63),
    };
    (shifted & 0xffff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_values_of_their_formats() {
        for (format, raw, value) in [
            (Format::F16, 0x3c00, 1.0),
            (Format::F16, 0x0001, 2f64.powi(-24)),
            (Format::F16, 0xfbff, -65504.0),
            (Format::Bf16, 0x4049, 3.140625),
            (Format::Tf32, 0x3f80_1fff, 1.0),
            (Format::E4m3, 0x7e, 448.0),
            (Format::E4m3, 0x01, 2f64.powi(-9)),
            (Format::E5m2, 0x7b, 57344.0),
            (Format::E2m1, 0b0111 << 2, 6.0),
            (Format::E2m3, 0b01_1111, 7.5),
            (Format::E3m2, 0b01_1111, 28.0),
        ] {
            assert_eq!(format.decode(raw).value(), value, "{format:?} {raw:#x}");
        }
        assert!(Format::E4m3.decode(0xff).value().is_nan());
        assert_eq!(Format::E5m2.decode(0xfc).value(), f64::NEG_INFINITY);
    }

    #[test]
    fn sums_round_to_half_as_ieee_754_says() {
        for (sum, exponent, bits) in [
            (1, 0, 0x3c00),
            (-65504, 0, 0xfbff),
            (65520, 0, 0x7c00),
            (65519, 0, 0x7bff),
            (1, -24, 1),
            (1, -25, 0),
            (3, -25, 2),
            (0x7ff, -25, 0x400),
            (0x1001, -12, 0x3c00),
            (0x1003, -12, 0x3c01),
            (1, -200, 0),
        ] {
            assert_eq!(
                Accumulator::F16.round(sum, exponent),
                bits,
                "{sum} 2^{exponent}"
            );
        }
    }

    #[test]
    fn sums_are_cut_to_single() {
        for (sum, exponent, bits) in [
            (1i64, 0, 0x3f80_0000u32),
            ((1 << 24) + 1, 0, 0x4b80_0000),
            (-((1 << 25) - 1), 0, 0xcbff_ffff),
            (3, -150, 1),
            (1, 128, 0x7f80_0000),
        ] {
            assert_eq!(
                Accumulator::F32.round(sum, exponent),
                bits,
                "{sum} 2^{exponent}"
            );
        }
        assert_eq!(Accumulator::F32Short.round((1 << 24) - 1, 0), 0x4b7f_fc00);
    }
}
