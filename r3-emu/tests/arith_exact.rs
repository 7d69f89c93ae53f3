//! Exactly rounded arithmetic against rational numbers of any size.
//!
//! The oracle rounds nothing: it asks whether the result is the neighbour that the rounding names. A result `r` of an
//! exact value `x` rounded down is the one with `r <= x < next(r)`, and so on.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{Signed, Zero};
use proptest::prelude::*;
use r3_emu::arith::half::{self, BF16, F16, Half, Modifiers};
use r3_emu::arith::soft::{Format, Special};
use r3_emu::arith::{Round, convert, double, single};

/// A finite number of a format, exactly.
fn rational(bits: u64, format: Format) -> BigRational {
    let fraction_bits = format.fraction_bits;
    let magnitude = bits & ((1 << (format.exponent_bits + fraction_bits)) - 1);
    let field = (magnitude >> fraction_bits) as i64;
    let fraction = magnitude & ((1 << fraction_bits) - 1);
    let bias = (1_i64 << (format.exponent_bits - 1)) - 1;
    let (significand, exponent) = if field == 0 {
        (fraction, 1 - bias - i64::from(fraction_bits))
    } else {
        (
            fraction | 1 << fraction_bits,
            field - bias - i64::from(fraction_bits),
        )
    };
    let negative = bits >> (format.exponent_bits + fraction_bits) & 1 == 1;
    let power = BigInt::from(1) << exponent.unsigned_abs();
    let value = if exponent >= 0 {
        BigRational::from(BigInt::from(significand) * power)
    } else {
        BigRational::new(BigInt::from(significand), power)
    };
    if negative { -value } else { value }
}

/// What the result of an exact value, not zero, must be. `format` has infinities.
fn round_exact(x: &BigRational, format: Format, round: Round) -> u64 {
    assert_eq!(format.special, Special::Ieee);
    let sign = 1_u64 << (format.exponent_bits + format.fraction_bits);
    let target = x.abs();
    // The largest magnitude that is not above, by bisection over bits: they are ordered like the values.
    let (mut low, mut high) = (0, format.infinity());
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if rational(middle, format) <= target {
            low = middle;
        } else {
            high = middle;
        }
    }
    let exact = rational(low, format) == target;
    let negative = x.is_negative();
    let away = match round {
        _ if exact => false,
        Round::Zero => false,
        Round::Down => negative,
        Round::Up => !negative,
        Round::NearestEven | Round::NearestAway => {
            // Infinity stands for the number that the next binade would begin with.
            let above = if high == format.infinity() {
                let last = rational(low, format);
                last.clone() + (last - rational(low - 1, format))
            } else {
                rational(high, format)
            };
            let middle = (rational(low, format) + above) / BigInt::from(2);
            target > middle || (target == middle && (round == Round::NearestAway || low & 1 == 1))
        }
    };
    let magnitude = if away { high } else { low };
    if negative {
        magnitude | sign
    } else {
        magnitude
    }
}

/// Bits that reach the corners often: small exponents, neighbours of powers of two, subnormal numbers, specials.
fn bits(format: Format) -> impl Strategy<Value = u64> {
    let (e, f) = (format.exponent_bits, format.fraction_bits);
    let all = (1_u64 << (e + f)) - 1;
    let near = move |field: u64, low: i64, sign: bool| {
        let magnitude = (field << f).wrapping_add_signed(low) & all;
        magnitude | u64::from(sign) << (e + f)
    };
    prop_oneof![
        2 => any::<u64>().prop_map(move |x| x & (all << 1 | 1)),
        2 => (0..1_u64 << e, -3..3_i64, any::<bool>()).prop_map(move |(a, b, c)| near(a, b, c)),
        1 => (prop_oneof![0..3_u64, (1_u64 << e) - 3..1_u64 << e], any::<u64>(), any::<bool>())
            .prop_map(move |(a, b, c)| near(a, (b & ((1 << f) - 1)) as i64, c)),
        3 => (0..4_u64, any::<u64>(), any::<bool>()).prop_map(move |(a, b, c)| {
            near((1_u64 << (e - 1)) - 2 + a, (b & ((1 << f) - 1)) as i64, c)
        }),
    ]
}

fn directed() -> impl Strategy<Value = Round> {
    prop_oneof![
        Just(Round::NearestEven),
        Just(Round::Zero),
        Just(Round::Down),
        Just(Round::Up)
    ]
}

fn finite(x: u64, format: Format) -> bool {
    let all = (1_u64 << (format.exponent_bits + format.fraction_bits)) - 1;
    x & all < format.infinity()
}

fn single(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn double(x: u64) -> f64 {
    f64::from_bits(x)
}

/// Compares with the oracle where the exact value is not zero; a zero has to be a zero.
fn expect(
    result: u64,
    exact: &BigRational,
    format: Format,
    round: Round,
) -> Result<(), TestCaseError> {
    if exact.is_zero() {
        let magnitude = result & ((1 << (format.exponent_bits + format.fraction_bits)) - 1);
        prop_assert_eq!(magnitude, 0);
    } else {
        let wanted = round_exact(exact, format, round);
        prop_assert_eq!(result, wanted, "{:#x}, not {:#x}", result, wanted);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn single_add_mul_div_fma_round_once(
        a in bits(Format::F32), b in bits(Format::F32), c in bits(Format::F32), round in directed()
    ) {
        let f = Format::F32;
        prop_assume!(finite(a, f) && finite(b, f) && finite(c, f));
        let (x, y, z) = (rational(a, f), rational(b, f), rational(c, f));
        let bits = |r: f32| u64::from(r.to_bits());
        expect(bits(single::add(single(a), single(b), round, false)), &(&x + &y), f, round)?;
        expect(bits(single::sub(single(a), single(b), round, false)), &(&x - &y), f, round)?;
        expect(bits(single::mul(single(a), single(b), round, false)), &(&x * &y), f, round)?;
        let fused = &x * &y + &z;
        expect(bits(single::fma(single(a), single(b), single(c), round, false)), &fused, f, round)?;
        if !y.is_zero() {
            let quotient = &x / &y;
            expect(bits(single::div(single(a), single(b), round, false)), &quotient, f, round)?;
            expect(bits(single::rcp(single(b), round, false)), &y.recip(), f, round)?;
        }
    }

    #[test]
    fn double_add_mul_div_fma_round_once(
        a in bits(Format::F64), b in bits(Format::F64), c in bits(Format::F64), round in directed()
    ) {
        let f = Format::F64;
        prop_assume!(finite(a, f) && finite(b, f) && finite(c, f));
        let (x, y, z) = (rational(a, f), rational(b, f), rational(c, f));
        expect(double::add(double(a), double(b), round).to_bits(), &(&x + &y), f, round)?;
        expect(double::sub(double(a), double(b), round).to_bits(), &(&x - &y), f, round)?;
        expect(double::mul(double(a), double(b), round).to_bits(), &(&x * &y), f, round)?;
        let fused = &x * &y + &z;
        expect(double::fma(double(a), double(b), double(c), round).to_bits(), &fused, f, round)?;
        if !y.is_zero() {
            expect(double::div(double(a), double(b), round).to_bits(), &(&x / &y), f, round)?;
        }
    }

    #[test]
    fn square_roots_are_the_right_neighbour(
        a in bits(Format::F32), b in bits(Format::F64), round in directed()
    ) {
        let positive = |x: u64, f: Format| x != 0 && x < f.infinity();
        // r rounded down: r² <= x < next(r)²; up: prev(r)² < x <= r²; nearest: x between the squares of the middles.
        let check = |x: u64, r: u64, f: Format| {
            let x = rational(x, f);
            let square = |bits: u64| { let r = rational(bits, f); &r * &r };
            let middle = |low: u64| {
                let m = (rational(low, f) + rational(low + 1, f)) / BigInt::from(2);
                &m * &m
            };
            match round {
                Round::Zero | Round::Down => square(r) <= x && x < square(r + 1),
                Round::Up => square(r - 1) < x && x <= square(r),
                _ => middle(r - 1) <= x && x <= middle(r),
            }
        };
        if positive(a, Format::F32) {
            let r = single::sqrt(single(a), round, false);
            prop_assert!(check(a, u64::from(r.to_bits()), Format::F32), "{a:#x} {round:?} {r}");
        }
        if positive(b, Format::F64) {
            let r = double::sqrt(double(b), round);
            prop_assert!(check(b, r.to_bits(), Format::F64), "{b:#x} {round:?} {r}");
        }
    }

    #[test]
    fn halves_round_once(a in any::<u16>(), b in any::<u16>(), c in any::<u16>()) {
        fn check<H: Half>(a: u16, b: u16, c: u16) -> Result<(), TestCaseError> {
            let f = H::FORMAT;
            if !(finite(a.into(), f) && finite(b.into(), f) && finite(c.into(), f)) {
                return Ok(());
            }
            let plain = Modifiers::default();
            let near = Round::NearestEven;
            let [x, y, z] = [a, b, c].map(|x| rational(x.into(), f));
            expect(half::add::<H>(a, b, plain).into(), &(&x + &y), f, near)?;
            expect(half::sub::<H>(a, b, plain).into(), &(&x - &y), f, near)?;
            expect(half::mul::<H>(a, b, plain).into(), &(&x * &y), f, near)?;
            expect(half::fma::<H>(a, b, c, plain).into(), &(&x * &y + &z), f, near)
        }
        check::<F16>(a, b, c)?;
        check::<BF16>(a, b, c)?;
        // The same near 1, where sums and products meet.
        check::<F16>(a & 0x83ff | 0x3800, b & 0x87ff | 0x3800, c & 0x8fff | 0x3000)?;
        check::<BF16>(a & 0x80ff | 0x3f00, b & 0x80ff | 0x3f00, c & 0x83ff | 0x3c00)?;
        // Products of bf16 below the range of f32.
        check::<BF16>(a & 0x83ff | 0x1c00, b & 0x83ff | 0x1c00, c & 0x80ff)?;
    }

    #[test]
    fn conversions_between_floats_round_once(
        a in bits(Format::F64), b in bits(Format::F32), which in 0..5_usize
    ) {
        let round = Round::ALL[which];
        if finite(a, Format::F64) {
            let x = rational(a, Format::F64);
            let narrowed = u64::from(single::narrow(double(a), round).to_bits());
            expect(narrowed, &x, Format::F32, round)?;
            expect(half::from_double::<F16>(double(a), round, false).into(), &x, Format::F16, round)?;
            expect(half::from_double::<BF16>(double(a), round, false).into(), &x, Format::BF16, round)?;
        }
        if finite(b, Format::F32) {
            let x = rational(b, Format::F32);
            expect(half::from_single::<F16>(single(b), round, false).into(), &x, Format::F16, round)?;
            expect(half::from_single::<BF16>(single(b), round, false).into(), &x, Format::BF16, round)?;
        }
    }

    #[test]
    fn conversions_of_integers_round_once(a in any::<i64>(), shift in 0..64_u32, which in 0..5_usize) {
        let round = Round::ALL[which];
        let a = a >> shift;
        let x = BigRational::from(BigInt::from(a));
        let positive = BigRational::from(BigInt::from(a as u64));
        let bits = |r: f32| u64::from(r.to_bits());
        expect(bits(convert::s64_to_single(a, round)), &x, Format::F32, round)?;
        expect(bits(convert::u64_to_single(a as u64, round)), &positive, Format::F32, round)?;
        expect(convert::s64_to_double(a, round).to_bits(), &x, Format::F64, round)?;
        expect(convert::u64_to_double(a as u64, round).to_bits(), &positive, Format::F64, round)?;
        let small = BigRational::from(BigInt::from(a as i32));
        expect(bits(convert::small_to_single((a as i32).into(), round)), &small, Format::F32, round)?;
        let half = half::from_integer::<F16>(a < 0, a.unsigned_abs(), round);
        expect(half.into(), &x, Format::F16, round)?;
    }
}

#[test]
fn cancelling_gives_minus_zero_only_when_rounding_down() {
    for round in [Round::NearestEven, Round::Zero, Round::Up, Round::Down] {
        let wanted = round == Round::Down;
        for x in [1.5_f32, f32::from_bits(1), f32::MAX] {
            assert_eq!(single::add(x, -x, round, false).is_sign_negative(), wanted);
            assert_eq!(
                single::fma(x, 1.0, -x, round, false).is_sign_negative(),
                wanted
            );
            let x = f64::from(x);
            assert_eq!(double::add(x, -x, round).is_sign_negative(), wanted);
            assert_eq!(double::fma(x, 1.0, -x, round).is_sign_negative(), wanted);
        }
        assert_eq!(
            single::add(0.0, -0.0, round, false).is_sign_negative(),
            wanted
        );
        assert_eq!(double::add(0.0, -0.0, round).is_sign_negative(), wanted);
        assert!(single::add(0.0, 0.0, round, false).is_sign_positive());
        assert!(single::add(-0.0, -0.0, round, false).is_sign_negative());
        assert!(double::add(-0.0, -0.0, round).is_sign_negative());
    }
}

/// add/mul `.rm`, `.rp` abort in other emulators; `cvt.rz.f32.s32` rounds up there.
#[test]
fn directed_roundings_of_add_mul_and_cvt() {
    let tiny = f32::from_bits(1);
    assert_eq!(single::add(1.0, tiny, Round::Down, false), 1.0);
    assert_eq!(single::add(1.0, tiny, Round::Up, false), 1.0 + f32::EPSILON);
    let third = 1.0_f32 / 3.0;
    assert_eq!(
        single::mul(third, third, Round::Down, false).to_bits(),
        0x3de3_8e39
    );
    assert_eq!(
        single::mul(third, third, Round::Up, false).to_bits(),
        0x3de3_8e3a
    );
    assert_eq!(
        convert::small_to_single(0x7fff_ffff, Round::Zero),
        2_147_483_520.0
    );
    assert_eq!(
        convert::small_to_single(-0x7fff_ffff, Round::Zero),
        -2_147_483_520.0
    );
    assert_eq!(
        convert::small_to_single(0x7fff_ffff, Round::NearestEven),
        2_147_483_648.0
    );
    assert_eq!(single::mul(f32::MAX, 2.0, Round::Zero, false), f32::MAX);
    assert_eq!(single::mul(f32::MAX, -2.0, Round::Up, false), f32::MIN);
    assert_eq!(
        single::mul(f32::MAX, -2.0, Round::Down, false),
        f32::NEG_INFINITY
    );
}
