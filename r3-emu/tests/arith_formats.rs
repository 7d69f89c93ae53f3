//! Every value of the 16-bit and 8-bit formats.

use r3_emu::arith::half::{self, BF16, F16, Half, Modifiers, NAN};
use r3_emu::arith::single::Extremum;
use r3_emu::arith::small;
use r3_emu::arith::soft::Format;
use r3_emu::arith::{Compare, Round, approx, convert, single};

/// The value of a format by the formula of its definition; `None` for infinity and NaN.
fn value(bits: u16, format: Format) -> Option<f64> {
    let width = format.exponent_bits + format.fraction_bits;
    let magnitude = u64::from(bits) & ((1 << width) - 1);
    if magnitude > format.max_finite() {
        return None;
    }
    let field = (magnitude >> format.fraction_bits) as i32;
    let fraction = (magnitude & ((1 << format.fraction_bits) - 1)) as f64;
    let bias = (1 << (format.exponent_bits - 1)) - 1;
    let scaled = fraction / f64::from(1 << format.fraction_bits);
    let value = if field == 0 {
        scaled * 2_f64.powi(1 - bias)
    } else {
        (1.0 + scaled) * 2_f64.powi(field - bias)
    };
    Some(if bits >> width & 1 == 1 {
        -value
    } else {
        value
    })
}

fn every_half<H: Half>() {
    for bits in 0..=u16::MAX {
        let wide = H::widen(bits);
        match value(bits, H::FORMAT) {
            Some(value) => {
                assert_eq!(f64::from(wide).to_bits(), value.to_bits(), "{bits:#x}");
                assert_eq!(H::narrow(wide), bits);
                assert_eq!(
                    half::from_double::<H>(value, Round::NearestEven, false),
                    bits
                );
                assert_eq!(half::neg::<H>(bits, false), bits ^ 0x8000);
                assert_eq!(half::abs::<H>(bits, false), bits & 0x7fff);
            }
            None if bits & 0x7fff == H::EXPONENT => {
                assert_eq!(wide, f32::INFINITY.copysign(wide));
                assert_eq!(wide.is_sign_negative(), bits & 0x8000 != 0);
                assert_eq!(H::narrow(wide), bits);
            }
            None => {
                assert!(wide.is_nan());
                assert!(half::is_nan::<H>(bits));
                assert_eq!(H::narrow(wide), NAN);
                assert_eq!(half::neg::<H>(bits, false), NAN);
                assert_eq!(half::abs::<H>(bits, false), NAN);
                assert_eq!(half::relu::<H>(bits), NAN);
                assert_eq!(half::add::<H>(bits, 0, Modifiers::default()), NAN);
            }
        }
        let subnormal = bits & H::EXPONENT == 0;
        let flushed = if subnormal { bits & 0x8000 } else { bits };
        assert_eq!(half::flush_if::<H>(true, bits), flushed);
    }
}

#[test]
fn every_f16_and_bf16_has_its_value_and_comes_back() {
    every_half::<F16>();
    every_half::<BF16>();
    assert_eq!(F16::widen(0x7e01).to_bits(), single::NAN);
}

/// Rounding changes only at the middle between two neighbours.
#[test]
fn f32_to_16_bits_ties_to_even_between_all_neighbours() {
    fn check<H: Half>() {
        for low in 0..H::EXPONENT {
            let (a, b) = (f64::from(H::widen(low)), f64::from(H::widen(low + 1)));
            // Behind the largest number stands the one that would follow it.
            let b = if b.is_infinite() {
                2.0 * a - f64::from(H::widen(low - 1))
            } else {
                b
            };
            let middle = f64::midpoint(a, b) as f32;
            assert_eq!(f64::from(middle), f64::midpoint(a, b));
            let even = if low & 1 == 0 { low } else { low + 1 };
            assert_eq!(H::narrow(middle), even, "{low:#x}");
            assert_eq!(H::narrow(-middle), even | 0x8000);
            assert_eq!(H::narrow(middle.next_down()), low);
            assert_eq!(H::narrow(middle.next_up()), low + 1);
            let round = |x, round| half::from_single::<H>(x, round, false);
            assert_eq!(round(middle, Round::Zero), low);
            assert_eq!(round(-middle, Round::Zero), low | 0x8000);
            assert_eq!(round(middle, Round::Up), low + 1);
            assert_eq!(round(middle, Round::Down), low);
            assert_eq!(round(middle, Round::NearestAway), low + 1);
            // From f64 in one step: a rounding to f32 on the way would make this a tie.
            let above = f64::from(middle).next_up();
            assert_eq!(half::narrow_double::<H>(above), low + 1);
        }
        assert_eq!(H::narrow(f32::MAX), H::EXPONENT);
        let finite = half::from_single::<H>(f32::MAX, Round::NearestEven, true);
        assert_eq!(finite, H::EXPONENT - 1);
        let infinite = half::from_single::<H>(f32::NEG_INFINITY, Round::NearestEven, true);
        assert_eq!(infinite, (H::EXPONENT - 1) | 0x8000);
        assert_eq!(half::from_single::<H>(f32::NAN, Round::Zero, true), NAN);
    }
    check::<F16>();
    check::<BF16>();
}

#[test]
fn every_small_float_has_its_value_and_comes_back() {
    let formats = [
        Format::E4M3,
        Format::E5M2,
        Format::E3M2,
        Format::E2M3,
        Format::E2M1,
    ];
    for format in formats {
        let width = format.exponent_bits + format.fraction_bits;
        for bits in 0..1_u16 << (width + 1) {
            let bits = bits as u8;
            let wide = small::widen(bits, format);
            match value(bits.into(), format) {
                Some(value) => {
                    assert_eq!(
                        f64::from(wide).to_bits(),
                        value.to_bits(),
                        "{format:?} {bits:#x}"
                    );
                    assert_eq!(small::narrow(wide, format, false), bits);
                    let relu = if bits >> width == 1 { 0 } else { bits };
                    assert_eq!(small::narrow(wide, format, true), relu);
                }
                None if wide.is_nan() => assert_eq!(wide.to_bits(), single::NAN),
                None => assert_eq!(format, Format::E5M2),
            }
        }
        // Ties to even between all neighbours, and saturation beyond the last.
        let last = format.max_finite() as u8;
        for low in 0..last {
            let (a, b) = (small::widen(low, format), small::widen(low + 1, format));
            let middle = f32::midpoint(a, b);
            let even = if low & 1 == 0 { low } else { low + 1 };
            assert_eq!(small::narrow(middle, format, false), even);
            assert_eq!(small::narrow(middle.next_up(), format, false), low + 1);
            assert_eq!(small::narrow(middle.next_down(), format, false), low);
        }
        let sign = 1 << width;
        for x in [f32::INFINITY, f32::MAX, 1e6] {
            assert_eq!(small::narrow(x, format, false), last);
            assert_eq!(small::narrow(-x, format, false), last | sign);
        }
    }
}

/// The largest and smallest numbers of the formats, as published.
#[test]
fn small_formats_have_their_published_limits() {
    assert_eq!(small::widen(0x7e, Format::E4M3), 448.0);
    assert_eq!(small::widen(0x01, Format::E4M3), 2_f32.powi(-9));
    assert!(small::widen(0x7f, Format::E4M3).is_nan());
    assert!(small::widen(0xff, Format::E4M3).is_nan());
    assert_eq!(small::widen(0x7b, Format::E5M2), 57_344.0);
    assert_eq!(small::widen(0x7c, Format::E5M2), f32::INFINITY);
    assert_eq!(small::widen(0x01, Format::E5M2), 2_f32.powi(-16));
    assert_eq!(small::widen(0x1f, Format::E3M2), 28.0);
    assert_eq!(small::widen(0x1f, Format::E2M3), 7.5);
    let e2m1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    for (bits, value) in e2m1.into_iter().enumerate() {
        assert_eq!(small::widen(bits as u8, Format::E2M1), value);
        assert_eq!(small::widen(bits as u8 | 8, Format::E2M1), -value);
    }
    // NaN: the format's own, or the largest number.
    assert_eq!(small::narrow(-f32::NAN, Format::E4M3, false), 0x7f);
    assert_eq!(small::narrow(f32::NAN, Format::E5M2, true), 0x7f);
    assert_eq!(small::narrow(f32::NAN, Format::E2M1, false), 0x7);
    assert_eq!(small::narrow(f32::NAN, Format::E2M3, false), 0x1f);
}

#[test]
fn ue8m0_is_the_exponent() {
    for bits in 1..0xff_u8 {
        let value = half::BF16::widen(small::widen_ue8m0(bits));
        assert_eq!(value, 2_f32.powi(i32::from(bits) - 127));
        for up in [false, true] {
            assert_eq!(small::narrow_ue8m0(value, up, false), bits);
            assert_eq!(small::narrow_ue8m0(-value, up, true), bits);
        }
        assert_eq!(small::narrow_ue8m0(value.next_up(), false, true), bits);
        assert_eq!(
            small::narrow_ue8m0(value.next_up(), true, true),
            (bits + 1).min(0xfe)
        );
        assert_eq!(small::narrow_ue8m0(value.next_up(), true, false), bits + 1);
    }
    let smallest = f32::from_bits(0x0040_0000);
    assert_eq!(half::BF16::widen(small::widen_ue8m0(0)), smallest);
    assert_eq!(small::narrow_ue8m0(0.0, true, false), 0);
    assert_eq!(small::narrow_ue8m0(smallest, true, false), 0);
    assert_eq!(small::narrow_ue8m0(smallest.next_up(), true, false), 1);
    assert_eq!(small::narrow_ue8m0(f32::NAN, true, true), 0xff);
    assert_eq!(small::narrow_ue8m0(f32::INFINITY, false, false), 0xff);
    assert_eq!(small::narrow_ue8m0(f32::INFINITY, false, true), 0xfe);
}

#[test]
fn tf32_keeps_ten_bits_of_fraction() {
    let one = 1.0_f32.to_bits();
    let tie = f32::from_bits(one | 0x1000);
    assert_eq!(small::tf32_away(tie, false), one + 0x2000);
    assert_eq!(small::tf32(tie, false, false, false), one);
    assert_eq!(
        small::tf32(f32::from_bits(one | 0x3000), false, false, false),
        one + 0x4000
    );
    assert_eq!(
        small::tf32(f32::from_bits(one | 0x3000), true, false, false),
        one + 0x2000
    );
    assert_eq!(small::tf32_away(f32::MAX, false), 0x7f80_0000);
    assert_eq!(small::tf32_away(f32::MAX, true), 0x7f7f_e000);
    assert_eq!(small::tf32(f32::MAX, false, true, false), 0x7f7f_e000);
    assert_eq!(small::tf32(-1.5, false, false, true), 0);
    assert_eq!(small::tf32(f32::NAN, false, false, true), 0x7fff_e000);
    // What ptxas writes for `.rna` adds nothing to NaN and clears the low bits.
    assert_eq!(
        small::tf32_away(f32::from_bits(0x7fff_ffff), false),
        0x7fff_e000
    );
    assert_eq!(
        small::tf32_away(f32::from_bits(0x7f80_0001), false),
        0x7f80_0000
    );
}

#[test]
fn f16_to_integers_every_value_and_rounding() {
    for bits in 0..=u16::MAX {
        let x = F16::widen(bits);
        for round in [Round::NearestEven, Round::Zero, Round::Down, Round::Up] {
            let s32: i32 = convert::single_to_integer(x, round);
            let s64: i64 = convert::single_to_integer(x, round);
            let u8: u8 = convert::single_to_integer(x, round);
            if x.is_nan() {
                assert_eq!((s32, s64, u8), (0, i64::MIN, 0));
            } else if x.is_infinite() {
                let negative = x < 0.0;
                assert_eq!(s32, if negative { i32::MIN } else { i32::MAX });
                assert_eq!(u8, if negative { 0 } else { 255 });
            } else {
                // Sixty-fourths of the half are integers: floor and rest by integer arithmetic.
                let scaled = (f64::from(x) * 16_777_216.0) as i64;
                let (floor, rest) = (scaled >> 24, scaled & 0xff_ffff);
                let up = match round {
                    Round::NearestEven => rest > 0x80_0000 || (rest == 0x80_0000 && floor & 1 == 1),
                    Round::Zero => rest != 0 && scaled < 0,
                    Round::Up => rest != 0,
                    _ => false,
                };
                let wanted = floor + i64::from(up);
                assert_eq!(s64, wanted, "{x} {round:?}");
                assert_eq!(i64::from(s32), wanted);
                assert_eq!(i64::from(u8), wanted.clamp(0, 255));
            }
        }
    }
}

#[test]
fn half_min_max_and_comparisons_over_specials() {
    let nan = 0x7e55;
    let (minus_zero, one, minus_two) = (0x8000, 0x3c00, 0xc000);
    let least = Extremum::default();
    let most = Extremum {
        greater: true,
        ..least
    };
    assert_eq!(half::extremum::<F16>(minus_zero, 0, least), minus_zero);
    assert_eq!(half::extremum::<F16>(minus_zero, 0, most), 0);
    assert_eq!(half::extremum::<F16>(nan, one, least), one);
    assert_eq!(half::extremum::<F16>(one, nan, most), one);
    assert_eq!(half::extremum::<F16>(nan, nan, most), NAN);
    let strict = Extremum { nan: true, ..most };
    assert_eq!(half::extremum::<F16>(one, nan, strict), NAN);
    let xorsign = Extremum {
        abs: true,
        xorsign: true,
        ..least
    };
    // The smaller magnitude with the product of the signs.
    assert_eq!(half::extremum::<F16>(one, minus_two, xorsign), 0xbc00);
    assert_eq!(half::extremum::<F16>(0xbc00, minus_two, xorsign), one);
    assert!(half::compare::<F16>(Compare::Equ, nan, one, false));
    assert!(!half::compare::<F16>(Compare::Ne, nan, one, false));
    assert!(half::compare::<F16>(Compare::Eq, 0x0001, 0x8001, true));
    assert!(half::compare::<F16>(Compare::Gt, 0x0001, 0x8001, false));
}

#[test]
fn half_modifiers() {
    let with = Modifiers::default();
    let sat = Modifiers { sat: true, ..with };
    assert_eq!(half::add::<F16>(0x3c00, 0x3c00, sat), 0x3c00);
    assert_eq!(half::add::<F16>(0xbc00, 0, sat), 0);
    assert_eq!(half::add::<F16>(0x7e00, 0, sat), 0);
    let ftz = Modifiers { ftz: true, ..with };
    assert_eq!(half::mul::<F16>(0x0401, 0x3800, ftz), 0);
    assert_eq!(half::mul::<F16>(0x0401, 0x3800, with), 0x0200);
    let relu = Modifiers { relu: true, ..with };
    assert_eq!(half::fma::<F16>(0xbc00, 0x3c00, 0, relu), 0);
    assert_eq!(half::fma::<F16>(0x7e00, 0x3c00, 0, relu), NAN);
    let oob = Modifiers { oob: true, ..with };
    assert_eq!(half::fma::<F16>(0xffff, 0x3c00, 0x3c00, oob), 0);
    assert_eq!(half::fma::<F16>(0x7fff, 0x3c00, 0x3c00, oob), NAN);
}

/// The functions of 16 bits against the host's library, all arguments: within one unit of the format.
#[test]
fn half_ex2_and_tanh_of_every_value() {
    fn check<H: Half>() {
        for bits in 0..=u16::MAX {
            let x = f64::from(H::widen(bits));
            for (ours, real) in [
                (approx::ex2_half::<H>(bits, false), x.exp2()),
                (approx::tanh_half::<H>(bits), x.tanh()),
            ] {
                let wanted = half::narrow_double::<H>(real);
                if x.is_nan() {
                    assert_eq!(ours, NAN);
                } else {
                    assert!(
                        ours.abs_diff(wanted) <= 1,
                        "{bits:#x}: {ours:#x} {wanted:#x}"
                    );
                }
            }
        }
        assert_eq!(approx::tanh_half::<H>(0x8000), 0x8000);
        assert_eq!(approx::tanh_half::<H>(H::EXPONENT), H::ONE);
        assert_eq!(approx::ex2_half::<H>(H::EXPONENT, false), H::EXPONENT);
        assert_eq!(approx::ex2_half::<H>(H::EXPONENT | 0x8000, false), 0);
        assert_eq!(approx::ex2_half::<H>(0x8000, false), H::ONE);
    }
    check::<F16>();
    check::<BF16>();
}
