//! Special values: what the ISA's tables and published hardware behaviour say.

use r3_emu::arith::half::{self, F16, Modifiers};
use r3_emu::arith::single::{self, Extremum};
use r3_emu::arith::video::{MultiplyAdd, Operation, Part, Relation, Scalar, Second, Simd};
use r3_emu::arith::{Compare, Property, Round, approx, convert, double};

const INF: f32 = f32::INFINITY;
const SUBNORMAL: f32 = f32::from_bits(0x0040_0000);

fn is(x: f32, bits: u32) {
    assert_eq!(x.to_bits(), bits, "{x} ({:#x}), not {bits:#x}", x.to_bits());
}

fn same(x: f32, y: f32) {
    is(x, y.to_bits());
}

#[test]
fn nan_results_of_f32_are_canonical() {
    let signalling = f32::from_bits(0xff80_0001);
    for round in Round::ALL {
        if round == Round::NearestAway {
            continue;
        }
        is(single::add(signalling, 1.0, round, false), single::NAN);
        is(single::add(INF, -INF, round, false), single::NAN);
        is(single::mul(0.0, INF, round, false), single::NAN);
        is(single::fma(0.0, INF, signalling, round, false), single::NAN);
        is(single::div(0.0, 0.0, round, false), single::NAN);
        is(single::sqrt(-1.0, round, false), single::NAN);
        same(single::add(INF, 1.0, round, false), INF);
        same(single::div(1.0, -0.0, round, false), -INF);
        same(single::sqrt(-0.0, round, false), -0.0);
        same(single::sqrt(INF, round, false), INF);
    }
    is(single::neg(signalling, false), single::NAN);
    is(single::abs(signalling, false), single::NAN);
}

/// Which payload stays, as seen on an H200.
#[test]
fn nan_results_of_f64_keep_a_payload() {
    let bits = f64::from_bits;
    let a = bits(0x7ff0_0000_0000_0001);
    let b = bits(0xfff8_0000_1234_5678);
    let c = bits(0xfff7_ffff_ffff_ffff);
    let (quiet_a, quiet_b, quiet_c) = (0x7ff8_0000_0000_0001, b.to_bits(), u64::MAX);
    for round in [Round::NearestEven, Round::Down] {
        assert_eq!(double::add(a, 1.0, round).to_bits(), quiet_a);
        assert_eq!(double::add(1.0, b, round).to_bits(), quiet_b);
        assert_eq!(double::add(a, b, round).to_bits(), quiet_b);
        assert_eq!(double::sub(1.0, b, round).to_bits(), quiet_b);
        assert_eq!(double::sub(c, a, round).to_bits(), quiet_a);
        assert_eq!(double::mul(c, a, round).to_bits(), quiet_a);
        assert_eq!(double::fma(b, c, 1.0, round).to_bits(), quiet_c);
        assert_eq!(double::fma(1.0, b, a, round).to_bits(), quiet_b);
        assert_eq!(double::fma(c, 1.0, a, round).to_bits(), quiet_a);
        assert_eq!(double::fma(c, 1.0, 1.0, round).to_bits(), quiet_c);
        assert_eq!(double::div(a, b, round).to_bits(), quiet_a);
        assert_eq!(double::div(1.0, c, round).to_bits(), quiet_c);
        let invalid = double::sub(f64::INFINITY, f64::INFINITY, round);
        assert_eq!(invalid.to_bits(), double::NAN);
        assert_eq!(
            double::fma(-0.0, f64::INFINITY, 1.0, round).to_bits(),
            double::NAN
        );
        assert_eq!(double::div(0.0, 0.0, round).to_bits(), double::NAN);
        assert_eq!(double::sqrt(-1.0, round).to_bits(), double::NAN);
    }
    assert_eq!(double::extremum(b, a, false).to_bits(), quiet_a);
    assert_eq!(double::extremum(b, 2.0, false), 2.0);
}

/// `mul.ftz` with a subnormal operand, and with a subnormal result, in a program that also multiplies without it.
#[test]
fn ftz_flushes_inputs_and_results_and_keeps_signs() {
    let two = 2.0;
    is(
        single::mul(-SUBNORMAL, two, Round::NearestEven, true),
        0x8000_0000,
    );
    is(
        single::mul(-SUBNORMAL, two, Round::NearestEven, false),
        0x8080_0000,
    );
    is(
        single::mul(f32::MIN_POSITIVE, -0.5, Round::NearestEven, true),
        0x8000_0000,
    );
    is(
        single::mul(f32::MIN_POSITIVE, -0.5, Round::NearestEven, false),
        0x8040_0000,
    );
    is(
        single::add(SUBNORMAL, SUBNORMAL, Round::NearestEven, true),
        0,
    );
    is(
        single::add(SUBNORMAL, SUBNORMAL, Round::NearestEven, false),
        0x0080_0000,
    );
    is(
        single::fma(SUBNORMAL, 4.0, 1.0, Round::NearestEven, true),
        0x3f80_0000,
    );
    is(single::div(SUBNORMAL, 1.0, Round::NearestEven, true), 0);
    is(
        single::div(1.0, SUBNORMAL, Round::NearestEven, true),
        0x7f80_0000,
    );
    is(single::sqrt(SUBNORMAL, Round::NearestEven, true), 0);
    assert!(single::compare(Compare::Eq, SUBNORMAL, -0.0, true));
    assert!(!single::compare(Compare::Eq, SUBNORMAL, -0.0, false));
}

#[test]
fn saturation_clamps_and_turns_nan_to_zero() {
    for (x, y) in [
        (2.0, 1.0),
        (INF, 1.0),
        (0.25, 0.25),
        (-0.0, 0.0),
        (-1.0, 0.0),
        (f32::NAN, 0.0),
    ] {
        same(single::saturate(x), y);
        assert_eq!(double::saturate(x.into()).to_bits(), f64::from(y).to_bits());
    }
}

#[test]
fn min_max_prefer_numbers_and_order_zeros() {
    let least = Extremum::default();
    let most = Extremum {
        greater: true,
        ..least
    };
    let strict = Extremum { nan: true, ..least };
    same(single::extremum(-0.0, 0.0, least), -0.0);
    same(single::extremum(0.0, -0.0, least), -0.0);
    same(single::extremum(-0.0, 0.0, most), 0.0);
    same(single::extremum(0.0, -0.0, most), 0.0);
    same(single::extremum(f32::NAN, 3.0, least), 3.0);
    same(single::extremum(3.0, f32::NAN, most), 3.0);
    is(single::extremum(f32::NAN, -f32::NAN, most), single::NAN);
    is(single::extremum(f32::NAN, 3.0, strict), single::NAN);
    let xorsign = Extremum {
        abs: true,
        xorsign: true,
        ..most
    };
    same(single::extremum(-1.0, 3.0, xorsign), -3.0);
    same(single::extremum(-1.0, -3.0, xorsign), 3.0);
    same(single::max(SUBNORMAL, -1.0, true), 0.0);
    assert!(double::extremum(0.0, -0.0, false).is_sign_negative());
    assert!(double::extremum(-0.0, 0.0, true).is_sign_positive());
}

#[test]
fn comparisons_with_nan() {
    use Compare::*;
    let ordered = [Eq, Ne, Lt, Le, Gt, Ge, Num];
    let unordered = [Equ, Neu, Ltu, Leu, Gtu, Geu, Nan];
    for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::NAN)] {
        for relation in ordered {
            assert!(!single::compare(relation, a, b, false), "{relation:?}");
            assert!(!double::compare(relation, a.into(), b.into()));
        }
        for relation in unordered {
            assert!(single::compare(relation, a, b, false), "{relation:?}");
            assert!(double::compare(relation, a.into(), b.into()));
        }
    }
    let numbers = [
        (Lt, Ltu),
        (Le, Leu),
        (Gt, Gtu),
        (Ge, Geu),
        (Eq, Equ),
        (Ne, Neu),
    ];
    for (a, b) in [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)] {
        for (plain, or_unordered) in numbers {
            assert_eq!(
                single::compare(plain, a, b, false),
                single::compare(or_unordered, a, b, false)
            );
        }
        assert_eq!(single::compare(Lt, a, b, false), a < b);
        assert_eq!(single::compare(Ge, a, b, false), a >= b);
        assert_eq!(single::compare(Ne, a, b, false), a != b);
    }
}

#[test]
fn testp_and_copysign() {
    use Property::*;
    let table = [
        (1.0, [true, false, true, false, true, false]),
        (0.0, [true, false, true, false, true, false]),
        (SUBNORMAL, [true, false, true, false, false, true]),
        (-INF, [false, true, true, false, false, false]),
        (f32::NAN, [false, false, false, true, false, false]),
    ];
    for (x, answers) in table {
        let properties = [Finite, Infinite, Number, NotANumber, Normal, Subnormal];
        for (property, answer) in properties.into_iter().zip(answers) {
            assert_eq!(single::test(property, x), answer, "{property:?} {x}");
            if x != SUBNORMAL {
                assert_eq!(double::test(property, x.into()), answer);
            }
        }
    }
    assert!(double::test(Subnormal, f64::from_bits(1)));
    same(single::copysign(-1.0, 3.0), -3.0);
    is(
        single::copysign(-1.0, f32::from_bits(0x7f80_0001)),
        0xff80_0001,
    );
    assert_eq!(double::copysign(-0.0, 3.0), -3.0);
}

/// The ISA: NaN gives 0 if the source is not `.f64` and the result has at most 32 bits, else the highest bit.
#[test]
fn float_to_integer_clamps_and_nan() {
    let rz = Round::Zero;
    assert_eq!(convert::single_to_integer::<i32>(f32::NAN, rz), 0);
    assert_eq!(convert::single_to_integer::<u32>(f32::NAN, rz), 0);
    assert_eq!(convert::single_to_integer::<i64>(f32::NAN, rz), i64::MIN);
    assert_eq!(convert::single_to_integer::<u64>(f32::NAN, rz), 1 << 63);
    assert_eq!(convert::double_to_integer::<i32>(f64::NAN, rz), i32::MIN);
    assert_eq!(convert::double_to_integer::<u32>(f64::NAN, rz), 1 << 31);
    assert_eq!(convert::double_to_integer::<u16>(f64::NAN, rz), 1 << 15);
    assert_eq!(convert::double_to_integer::<i8>(f64::NAN, rz), i8::MIN);
    assert_eq!(convert::double_to_integer::<i64>(f64::NAN, rz), i64::MIN);
    assert_eq!(convert::single_to_integer::<u8>(300.0, rz), 255);
    assert_eq!(convert::single_to_integer::<i8>(-300.0, rz), -128);
    assert_eq!(convert::single_to_integer::<u32>(-1.0, rz), 0);
    assert_eq!(convert::single_to_integer::<i32>(INF, rz), i32::MAX);
    assert_eq!(convert::single_to_integer::<i64>(9.3e18, rz), i64::MAX);
    assert_eq!(convert::double_to_integer::<u64>(-INF as f64, rz), 0);
    assert_eq!(
        convert::single_to_integer::<i32>(2.5, Round::NearestEven),
        2
    );
    assert_eq!(convert::single_to_integer::<i32>(-2.5, Round::Down), -3);
    assert_eq!(convert::single_to_integer::<i32>(-2.5, Round::Up), -2);
    assert_eq!(convert::clamp_integer(-5, 8, false), 0);
    assert_eq!(convert::clamp_integer(300, 8, true), 127);
}

#[test]
fn special_values_of_approximate_functions() {
    for ftz in [false, true] {
        same(approx::rcp(0.0, ftz), INF);
        same(approx::rcp(-0.0, ftz), -INF);
        same(approx::rcp(-INF, ftz), -0.0);
        same(approx::sqrt(-0.0, ftz), -0.0);
        same(approx::sqrt(INF, ftz), INF);
        is(approx::sqrt(-1.0, ftz), single::NAN);
        same(approx::rsqrt(-0.0, ftz), -INF);
        same(approx::rsqrt(0.0, ftz), INF);
        same(approx::rsqrt(INF, ftz), 0.0);
        is(approx::rsqrt(-INF, ftz), single::NAN);
        same(approx::lg2(0.0, ftz), -INF);
        same(approx::lg2(-0.0, ftz), -INF);
        same(approx::lg2(1.0, ftz), 0.0);
        same(approx::lg2(INF, ftz), INF);
        is(approx::lg2(-1.0, ftz), single::NAN);
        same(approx::ex2(-INF, ftz), 0.0);
        same(approx::ex2(INF, ftz), INF);
        same(approx::ex2(128.0, ftz), INF);
        same(approx::ex2(-0.0, ftz), 1.0);
        same(approx::ex2(SUBNORMAL, ftz), 1.0);
        same(approx::sin(-0.0, ftz), -0.0);
        same(approx::sin(0.0, ftz), 0.0);
        is(approx::sin(INF, ftz), single::NAN);
        is(approx::cos(-INF, ftz), single::NAN);
        same(approx::cos(-0.0, ftz), 1.0);
        same(approx::cos(SUBNORMAL, ftz), 1.0);
        for f in [
            approx::rcp,
            approx::sqrt,
            approx::rsqrt,
            approx::lg2,
            approx::ex2,
            approx::sin,
        ] {
            is(f(f32::from_bits(0xffc0_0001), ftz), single::NAN);
        }
    }
    same(approx::tanh_single(INF), 1.0);
    same(approx::tanh_single(-INF), -1.0);
    same(approx::tanh_single(-0.0), -0.0);
    is(approx::tanh_single(f32::NAN), single::NAN);
    // Subnormal numbers, kept and flushed.
    same(approx::rcp(SUBNORMAL, false), 1.0 / SUBNORMAL);
    same(approx::rcp(-SUBNORMAL, true), -INF);
    same(approx::rcp(f32::MAX, true), 0.0);
    same(approx::lg2(SUBNORMAL, false), -127.0);
    same(approx::lg2(SUBNORMAL, true), -INF);
    is(approx::lg2(-SUBNORMAL, false), single::NAN);
    same(approx::ex2(-127.0, false), SUBNORMAL);
    same(approx::ex2(-127.0, true), 0.0);
    same(approx::rsqrt(-SUBNORMAL, true), -INF);
    same(approx::sqrt(-SUBNORMAL, true), -0.0);
    same(approx::sin(-SUBNORMAL, true), -0.0);
}

/// Above 2^126 `div.approx` gives 0, or NaN of infinity; `div.full` divides.
#[test]
fn division_by_huge_numbers() {
    let huge = 2_f32.powi(127);
    same(approx::div(1.0e30, -huge, false), -0.0);
    is(approx::div(INF, huge, false), single::NAN);
    same(approx::div(huge, 2_f32.powi(126), false), 2.0);
    same(approx::div(1.0, INF, false), 0.0);
    same(approx::div_full(huge, huge, false), 1.0);
    same(approx::div_full(INF, huge, false), INF);
    same(approx::div_full(1.0, huge, true), 0.0);
}

/// `rcp`, `rsqrt` `.approx.ftz.f64` read the upper half only, write 0 to the lower, and flush.
#[test]
fn approximations_of_f64_use_the_upper_half() {
    let low_bits = f64::from_bits(4.0_f64.to_bits() | 0xffff_ffff);
    assert_eq!(approx::rsqrt_upper(low_bits), 0.5);
    assert_eq!(approx::rcp_upper(low_bits), 0.25);
    for x in [3.0, 1e-300, 7e200] {
        assert_eq!(approx::rsqrt_upper(x).to_bits() as u32, 0);
        assert_eq!(approx::rcp_upper(x).to_bits() as u32, 0);
        let error = approx::rsqrt_upper(x) * x.sqrt() - 1.0;
        assert!(error.abs() < 2_f64.powi(-19));
    }
    let subnormal = f64::from_bits(0x000f_ffff_ffff_ffff);
    assert_eq!(approx::rsqrt_upper(subnormal), f64::INFINITY);
    assert_eq!(approx::rsqrt_upper(-subnormal), f64::NEG_INFINITY);
    assert_eq!(approx::rcp_upper(-subnormal), f64::NEG_INFINITY);
    assert_eq!(approx::rcp_upper(f64::MAX).to_bits(), 0);
    assert!(approx::rsqrt_upper(-1.0).is_nan());
    assert_eq!(approx::rsqrt_double(0.25), 2.0);
}

/// As seen on an H200: `.ftz` looks at the value rounded to 24 bits without a smallest exponent.
#[test]
fn ftz_is_decided_before_subnormal_rounding() {
    let bits = f32::from_bits;
    let below_one = bits(0x3f7f_ffff);
    let near = Round::NearestEven;
    is(
        single::mul(below_one, bits(0x8080_0000), near, true),
        0x8000_0000,
    );
    is(
        single::mul(below_one, bits(0x8080_0000), near, false),
        0x8080_0000,
    );
    is(
        single::mul(bits(0x0080_0000), below_one, Round::Up, true),
        0,
    );
    is(single::div(below_one, bits(0x7e80_0000), near, true), 0);
    is(
        single::div(bits(0x0080_0000), bits(0x3f80_0001), Round::Up, true),
        0,
    );
    let sum = single::fma(
        bits(0x8080_0000),
        bits(0x1f80_0000),
        bits(0x0080_0000),
        near,
        true,
    );
    is(sum, 0x0080_0000);
    let ftz = Modifiers {
        ftz: true,
        ..Modifiers::default()
    };
    assert_eq!(half::mul::<F16>(0x3bff, 0x0400, ftz), 0);
    assert_eq!(half::fma::<F16>(0x0400, 0x3bff, 0x03ff, ftz), 0);
    assert_eq!(
        half::mul::<F16>(0x3bff, 0x0400, Modifiers::default()),
        0x0400
    );
}

/// As seen on an H200.
#[test]
fn nan_payloads_of_conversions() {
    use convert::{Conversion, Number};
    let conversion = |from, to| Conversion {
        from,
        to,
        round: Round::NearestEven,
        integral: None,
        ftz: false,
        sat: false,
        satfinite: false,
        relu: false,
    };
    let down = conversion(Number::F64, Number::F32);
    assert_eq!(down.run(0x7ff7_5ee1_e97b_365f), 0x7ffa_f70f);
    assert_eq!(down.run(0xfff8_0000_1234_5678), 0xffc0_0000);
    let half = conversion(Number::F64, Number::F16);
    assert_eq!(half.run(0xfff7_ffff_ffff_ffff), 0xffff);
    assert_eq!(half.run(0x7ff0_0000_0000_0001), 0x7e00);
    let up = conversion(Number::F32, Number::F64);
    assert_eq!(up.run(0xffbf_ffff), 0xffff_ffff_e000_0000);
    assert_eq!(
        Conversion { ftz: true, ..up }.run(0xffbf_ffff),
        0x7fff_ffff_e000_0000
    );
    assert_eq!(Conversion { sat: true, ..up }.run(0xffbf_ffff), 0);
    let up = conversion(Number::F16, Number::F64);
    assert_eq!(up.run(0xfe12), 0xfff8_4800_0000_0000);
    let up = conversion(Number::F16, Number::F32);
    assert_eq!(up.run(0xfe12), 0x7fff_ffff);
}

/// `min.xorsign.abs` takes the sign of a NaN too.
#[test]
fn xorsign_counts_the_sign_of_nan() {
    let how = Extremum {
        abs: true,
        xorsign: true,
        ..Extremum::default()
    };
    assert_eq!(half::extremum::<F16>(0xfe12, 0x0001, how), 0x8001);
    is(
        single::extremum(f32::from_bits(0xffc1_2345), 2.0, how),
        0xc000_0000,
    );
}

#[test]
fn scalar_video() {
    let plain = Scalar {
        operation: Operation::Add,
        a: (Part::Word, true),
        b: (Part::Word, true),
        signed: true,
        sat: false,
        second: Second::None,
    };
    assert_eq!(plain.run(i32::MAX as u32, 1, 0), i32::MIN as u32);
    let sat = Scalar { sat: true, ..plain };
    assert_eq!(sat.run(i32::MAX as u32, 1, 0), i32::MAX as u32);
    let unsigned = Scalar {
        a: (Part::Word, false),
        signed: false,
        ..sat
    };
    // As seen on an H200: an unsigned word is clamped from below only.
    assert_eq!(unsigned.run(u32::MAX, 2, 0), 1);
    assert_eq!(unsigned.run(1, -2_i32 as u32, 0), 0);
    // Bytes: -1 + 2.
    let bytes = Scalar {
        a: (Part::Byte(3), true),
        b: (Part::Byte(0), true),
        ..plain
    };
    assert_eq!(bytes.run(0xff00_0000, 0x0000_0002, 0), 1);
    // Saturated to the part that is merged.
    let merge = Scalar {
        sat: true,
        second: Second::Merge(Part::Byte(1)),
        ..plain
    };
    assert_eq!(merge.run(1000, 0, 0x1122_3344), 0x1122_7f44);
    let difference = Scalar {
        operation: Operation::AbsDiff,
        a: (Part::Word, false),
        b: (Part::Word, false),
        signed: false,
        second: Second::Add,
        ..plain
    };
    assert_eq!(difference.run(3, 10, 100), 107);
    let set = Scalar {
        operation: Operation::Set(Relation::Lt),
        ..plain
    };
    assert_eq!(set.run(-1_i32 as u32, 0, 0), 1);
    let shift = |operation| Scalar {
        operation,
        a: (Part::Word, false),
        b: (Part::Word, false),
        signed: false,
        ..plain
    };
    assert_eq!(shift(Operation::ShiftLeft { clamp: true }).run(1, 40, 0), 0);
    assert_eq!(
        shift(Operation::ShiftLeft { clamp: false }).run(1, 40, 0),
        256
    );
    assert_eq!(
        shift(Operation::ShiftRight { clamp: false }).run(0x100, 40, 0),
        1
    );
}

#[test]
fn video_multiply_add() {
    let plain = MultiplyAdd {
        a: (Part::Word, false),
        b: (Part::Word, false),
        negate_product: false,
        negate_addend: false,
        plus_one: false,
        shift: 0,
        sat: false,
    };
    assert_eq!(plain.run(3, 5, 7), 22);
    assert_eq!(
        MultiplyAdd {
            plus_one: true,
            ..plain
        }
        .run(3, 5, 7),
        23
    );
    assert_eq!(
        MultiplyAdd {
            negate_product: true,
            ..plain
        }
        .run(3, 5, 7),
        -8_i32 as u32
    );
    assert_eq!(
        MultiplyAdd {
            negate_addend: true,
            ..plain
        }
        .run(3, 5, 7),
        8
    );
    assert_eq!(MultiplyAdd { shift: 7, ..plain }.run(128, 5, 7), 5);
    let sat = MultiplyAdd { sat: true, ..plain };
    // As seen on an H200: factors and addend have signs, whatever the types say.
    assert_eq!(sat.run(u32::MAX, u32::MAX, 0), 1);
    assert_eq!(sat.run(0, 0, u32::MAX), 0);
    let signed = MultiplyAdd {
        a: (Part::Word, true),
        ..sat
    };
    assert_eq!(signed.run(i32::MIN as u32, 2, 0), i32::MIN as u32);
}

#[test]
fn simd_video() {
    let plain = Simd {
        operation: Operation::Add,
        lanes: 4,
        a: [0, 1, 2, 3],
        b: [4, 5, 6, 7],
        signed: [false; 3],
        sat: false,
        add: false,
        mask: 15,
    };
    assert_eq!(plain.run(0x01ff_0304, 0x0101_0101, 0), 0x0200_0405);
    assert_eq!(
        Simd { sat: true, ..plain }.run(0x01ff_0304, 0x0101_0101, 0),
        0x02ff_0405
    );
    let difference = Simd {
        operation: Operation::AbsDiff,
        ..plain
    };
    assert_eq!(difference.run(0x0102_0304, 0x0403_0201, 0), 0x0301_0103);
    assert_eq!(
        Simd {
            add: true,
            ..difference
        }
        .run(0x0102_0304, 0x0403_0201, 10),
        18
    );
    assert_eq!(
        Simd {
            mask: 5,
            ..difference
        }
        .run(0x0102_0304, 0x0403_0201, 0xaaaa_aaaa),
        0xaa01_aa03
    );
    let halves = Simd {
        operation: Operation::Max,
        lanes: 2,
        a: [0, 1, 0, 0],
        b: [2, 3, 0, 0],
        signed: [true; 3],
        mask: 3,
        ..plain
    };
    assert_eq!(halves.run(0xffff_0003, 0x0000_0002, 0), 0x0000_0003);
    // Lanes taken crosswise: .h01 swaps the halves.
    let swapped = Simd {
        a: [1, 0, 0, 0],
        ..halves
    };
    assert_eq!(swapped.run(0x0005_0009, 0, 0), 0x0009_0005);
    let average = Simd {
        operation: Operation::Average,
        ..plain
    };
    assert_eq!(average.run(0x0000_0003, 0x0000_0004, 0) & 0xff, 4);
}
