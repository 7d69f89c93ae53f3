//! Single behaviours that a compiler is known to get wrong.

use r3_codegen::recipe::Preset;
use r3_ptx::isa::Mnemonic;

use crate::forms::{self, Instruction};
use crate::run::{self, THREADS};
use crate::values::{Kind, Random, value};

/// A kernel whose body finds 8 bytes of each source at `[%in+8*THREADS*k]`, and stores likewise to `%out`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .pred %p<10>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .f32 %f<40>; .reg .f64 %g<20>;
.reg .b32 %i; .reg .b64 %in, %out;
mov.u32 %i, %tid.x;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mad.wide.u32 %in, %i, 8, %in; mad.wide.u32 %out, %i, 8, %out;
{body}
ret;
}}
"
    )
    .replace("#1", &(8 * THREADS).to_string())
    .replace("#2", &(16 * THREADS).to_string())
    .replace("#3", &(24 * THREADS).to_string())
}

/// Runs a body as it is, with O0 and with O3, on the same sources; all results must be the same bytes. Returns the PTX of O3.
fn same(body: &str, sources: &[Kind], results: usize) -> String {
    let text = kernel(body);
    let mut random = Random::of(body);
    let input: Vec<u8> = sources
        .iter()
        .flat_map(|&kind| (0..THREADS).map(move |_| kind))
        .flat_map(|kind| value(kind, &mut random).to_le_bytes())
        .collect();
    let bytes = results * 8 * THREADS;
    let expected = run::run(&text, &input, bytes, THREADS).expect("runs");
    let mut last = String::new();
    for (preset, level) in [(Preset::O0, 0), (Preset::O3, 3)] {
        let lifted = run::lift(&text, preset, level).expect("lifts");
        let actual = run::run(&lifted.ptx, &input, bytes, THREADS).expect("runs lifted");
        let place = expected.iter().zip(&actual).position(|(a, b)| a != b);
        if let Some(place) = place {
            let (column, row) = (place / 8 / THREADS, place / 8 % THREADS);
            let word = |bytes: &[u8], column: usize| {
                let at = (column * THREADS + row) * 8;
                u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
            };
            let of: Vec<String> = (0..sources.len())
                .map(|k| format!("{:#x}", word(&input, k)))
                .collect();
            panic!(
                "{preset:?}: result {column} of {of:?} is {:#x}, not {:#x}\n{}\n{}",
                word(&actual, column),
                word(&expected, column),
                lifted.llvm,
                lifted.ptx
            );
        }
        last = lifted.ptx;
    }
    last
}

/// How often a word is in a text.
fn count(text: &str, word: &str) -> usize {
    text.split(|c: char| c.is_whitespace() || c == ';')
        .filter(|w| *w == word)
        .count()
}

#[test]
fn an_ftz_and_a_plain_addition_of_the_same_operands_are_two_values() {
    let text = same(
        "ld.global.f32 %f1, [%in]; ld.global.f32 %f2, [%in+#1];
        add.rn.ftz.f32 %f3, %f1, %f2; add.rn.f32 %f4, %f1, %f2; div.rn.ftz.f32 %f5, %f1, %f2; div.rn.f32 %f6, %f1, %f2;
        st.global.f32 [%out], %f3; st.global.f32 [%out+#1], %f4;
        st.global.f32 [%out+#2], %f5; st.global.f32 [%out+#3], %f6;",
        &[Kind::F32, Kind::F32],
        4,
    );
    assert_eq!(count(&text, "add.rn.ftz.f32"), 1, "{text}");
    assert_eq!(count(&text, "add.rn.f32"), 1, "{text}");
}

#[test]
fn a_funnel_shift_clamps_its_count() {
    same(
        "ld.global.u32 %r1, [%in]; ld.global.u32 %r2, [%in+#1]; ld.global.u32 %r3, [%in+#2];
        shf.l.clamp.b32 %r4, %r1, %r2, %r3; shf.r.clamp.b32 %r5, %r1, %r2, %r3; shf.l.clamp.b32 %r6, %r1, %r2, 32;
        shf.r.clamp.b32 %r7, %r1, %r2, 99; st.global.u32 [%out], %r4; st.global.u32 [%out+#1], %r5;
        st.global.u32 [%out+#2], %r6; st.global.u32 [%out+#3], %r7;",
        &[Kind::Int(32), Kind::Int(32), Kind::Int(32)],
        4,
    );
}

#[test]
fn the_smallest_16_bit_number_negated_and_clamped_is_the_largest() {
    same(
        "ld.global.u16 %h1, [%in]; cvt.s32.s16 %r1, %h1; neg.s32 %r2, %r1; min.s32 %r3, %r2, 32767; cvt.u16.u32 %h2, %r3;
        neg.s16 %h3, %h1; max.s16 %h4, %h1, %h3; abs.s16 %h5, %h1;
        st.global.u16 [%out], %h2; st.global.u16 [%out+#1], %h3; st.global.u16 [%out+#2], %h4; st.global.u16 [%out+#3], %h5;",
        &[Kind::Int(16)],
        4,
    );
}

#[test]
fn a_sign_shifted_up_and_extended_keeps_its_sign() {
    same(
        "ld.global.u32 %r1, [%in]; shr.s32 %r2, %r1, 31; shl.b32 %r3, %r2, 31; cvt.s64.s32 %d1, %r3;
        shl.b32 %r4, %r1, 31; shr.s32 %r5, %r4, 31; shl.b32 %r6, %r5, 31; cvt.s64.s32 %d2, %r6;
        st.global.u64 [%out], %d1; st.global.u64 [%out+#1], %d2;",
        &[Kind::Int(32)],
        2,
    );
}

#[test]
fn a_count_cut_from_64_bits_is_no_larger_than_its_32() {
    same(
        "ld.global.u64 %d1, [%in]; ld.global.u64 %d2, [%in+#1]; cvt.u32.u64 %r1, %d2;
        shl.b64 %d3, %d1, %r1; shr.u64 %d4, %d1, %r1; shr.s64 %d5, %d1, %r1;
        st.global.u64 [%out], %d3; st.global.u64 [%out+#1], %d4; st.global.u64 [%out+#2], %d5;",
        &[Kind::Int(64), Kind::Int(64)],
        3,
    );
}

#[test]
fn a_difference_of_shifts_is_no_rotation() {
    same(
        "ld.global.u64 %d1, [%in]; shl.b64 %d2, %d1, 8; shr.u64 %d3, %d1, 56; sub.s64 %d4, %d2, %d3; or.b64 %d5, %d2, %d3;
        st.global.u64 [%out], %d4; st.global.u64 [%out+#1], %d5;",
        &[Kind::Int(64)],
        2,
    );
}

#[test]
fn a_carry_goes_through_a_product_of_64_bits() {
    same(
        "ld.global.v2.u32 {%r1, %r2}, [%in]; ld.global.v2.u32 {%r3, %r4}, [%in+#1];
        mul.lo.u32 %r10, %r1, %r3; mul.hi.u32 %r11, %r1, %r3;
        mad.lo.cc.u32 %r11, %r1, %r4, %r11; madc.hi.u32 %r12, %r1, %r4, 0;
        mad.lo.cc.u32 %r11, %r2, %r3, %r11; madc.hi.cc.u32 %r12, %r2, %r3, %r12; addc.u32 %r13, 0, 0;
        mad.lo.cc.u32 %r12, %r2, %r4, %r12; madc.hi.u32 %r13, %r2, %r4, %r13;
        sub.cc.u32 %r20, %r10, %r3; subc.cc.u32 %r21, %r11, %r4; subc.cc.u32 %r22, %r12, 0; subc.u32 %r23, %r13, 0;
        st.global.v2.u32 [%out], {%r10, %r11}; st.global.v2.u32 [%out+#1], {%r12, %r13};
        st.global.v2.u32 [%out+#2], {%r20, %r21}; st.global.v2.u32 [%out+#3], {%r22, %r23};",
        &[Kind::Int(64), Kind::Int(64)],
        4,
    );
}

#[test]
fn products_and_sums_without_rn_stay_fusible_and_those_with_it_do_not() {
    let text = same(
        "ld.global.f32 %f1, [%in]; ld.global.f32 %f2, [%in+#1]; ld.global.f32 %f3, [%in+#2];
        mul.f32 %f4, %f1, %f2; add.f32 %f5, %f4, %f3; mul.rn.f32 %f6, %f1, %f3; add.rn.f32 %f7, %f6, %f2;
        mul.f32 %f8, %f1, 0f40400000; neg.f32 %f9, %f8; sub.f32 %f10, %f9, %f2;
        mul.f32 %f11, %f2, 0f40000000; add.f32 %f12, %f11, %f1;
        st.global.f32 [%out], %f5; st.global.f32 [%out+#1], %f7; st.global.f32 [%out+#2], %f10; st.global.f32 [%out+#3], %f12;",
        &[Kind::F32, Kind::F32, Kind::F32],
        4,
    );
    assert_eq!(count(&text, "mul.f32"), 3, "{text}");
    assert_eq!(
        count(&text, "add.f32") + count(&text, "sub.f32"),
        3,
        "{text}"
    );
    assert_eq!(count(&text, "mul.rn.f32"), 1, "{text}");
    assert_eq!(count(&text, "add.rn.f32"), 1, "{text}");
    assert!(!text.contains("fma"), "{text}");
}

#[test]
fn equal_products_of_which_one_may_be_fused_are_not_merged() {
    let text = same(
        "ld.global.f32 %f1, [%in]; ld.global.f32 %f2, [%in+#1]; ld.global.f32 %f3, [%in+#2];
        mul.f32 %f4, %f1, %f2; mul.rn.f32 %f5, %f1, %f2; add.f32 %f6, %f4, %f3; add.f32 %f7, %f5, %f3;
        st.global.f32 [%out], %f6; st.global.f32 [%out+#1], %f7;",
        &[Kind::F32, Kind::F32, Kind::F32],
        2,
    );
    assert_eq!(count(&text, "mul.f32"), 1, "{text}");
    assert_eq!(count(&text, "mul.rn.f32"), 1, "{text}");
}

#[test]
fn a_product_does_not_move_into_the_narrower_format_that_it_is_rounded_to() {
    let text = same(
        "ld.global.b16 %h1, [%in]; ld.global.b16 %h2, [%in+#1]; ld.global.b16 %h3, [%in+#2];
        cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2; mul.f32 %f3, %f1, %f2; cvt.rn.f16.f32 %h4, %f3; add.f16 %h5, %h4, %h3;
        ld.global.f32 %f4, [%in]; ld.global.f32 %f5, [%in+#1];
        cvt.f64.f32 %g1, %f4; cvt.f64.f32 %g2, %f5; mul.f64 %g3, %g1, %g2; cvt.rn.f32.f64 %f6, %g3; add.f32 %f7, %f6, %f4;
        st.global.b16 [%out], %h5; st.global.f32 [%out+#1], %f7;",
        &[Kind::F16, Kind::F16, Kind::F16],
        2,
    );
    assert_eq!(count(&text, "mul.f32"), 1, "{text}");
    assert_eq!(count(&text, "mul.f64"), 1, "{text}");
    assert_eq!(count(&text, "mul.f16"), 0, "{text}");
}

#[test]
fn halves_keep_their_products_apart_from_their_sums() {
    for (ty, load) in [
        ("f16", "b16"),
        ("bf16", "b16"),
        ("f16x2", "b32"),
        ("bf16x2", "b32"),
    ] {
        let register = if load == "b16" { "%h" } else { "%r" };
        let body =
            "ld.global.LOAD R1, [%in]; ld.global.LOAD R2, [%in+#1]; ld.global.LOAD R3, [%in+#2];
            mul.TY R4, R1, R2; add.TY R5, R4, R3; neg.TY R6, R4; sub.TY R7, R6, R2;
            st.global.LOAD [%out], R5; st.global.LOAD [%out+#1], R7;"
                .replace("LOAD", load)
                .replace("TY", ty)
                .replace('R', register);
        let kind = match ty {
            "f16" => Kind::F16,
            "bf16" => Kind::BF16,
            "f16x2" => Kind::F16x2,
            _ => Kind::BF16x2,
        };
        let text = same(&body, &[kind, kind, kind], 2);
        assert_eq!(count(&text, &format!("mul.{ty}")), 1, "{text}");
        assert_eq!(count(&text, &format!("add.{ty}")), 1, "{text}");
        assert!(!text.contains("fma"), "{text}");
    }
}

#[test]
fn a_division_by_an_approximate_root_is_no_approximate_reciprocal_root() {
    let text = same(
        "ld.global.f32 %f1, [%in]; sqrt.approx.f32 %f2, %f1; mov.f32 %f3, 0f3F800000; div.rn.f32 %f4, %f3, %f2;
        sqrt.approx.ftz.f32 %f5, %f1; rcp.rn.f32 %f6, %f5;
        st.global.f32 [%out], %f4; st.global.f32 [%out+#1], %f6;",
        &[Kind::F32],
        2,
    );
    assert!(!text.contains("rsqrt"), "{text}");
}

#[test]
fn a_smaller_zero_is_not_chosen_by_a_comparison() {
    same(
        "ld.global.f32 %f1, [%in]; setp.lt.f32 %p1, %f1, 0f00000000; selp.f32 %f2, %f1, 0f00000000, %p1;
        setp.gt.f32 %p2, %f1, 0f80000000; selp.f32 %f3, %f1, 0f80000000, %p2;
        mov.f32 %f4, 0f00000000; @%p1 mov.f32 %f4, %f1;
        st.global.f32 [%out], %f2; st.global.f32 [%out+#1], %f3; st.global.f32 [%out+#2], %f4;",
        &[Kind::F32],
        3,
    );
}

#[test]
fn bits_of_a_nan_survive_a_change_of_its_sign_bit() {
    same(
        "ld.global.f32 %f1, [%in]; mov.b32 %r1, %f1; xor.b32 %r2, %r1, 0x80000000; and.b32 %r3, %r1, 0x7fffffff;
        lop3.b32 %r4, %r1, 0x80000000, %r1, 0xfc; mov.b32 %f2, %r2;
        ld.global.f64 %g1, [%in+#1]; mov.b64 %d1, %g1; xor.b64 %d2, %d1, 0x8000000000000000; mov.b64 %g2, %d2;
        st.global.f32 [%out], %f2; st.global.u32 [%out+#1], %r3; st.global.u32 [%out+#2], %r4; st.global.f64 [%out+#3], %g2;",
        &[Kind::F32, Kind::F64],
        4,
    );
}

#[test]
fn a_negated_nan_that_is_used_as_an_integer_is_the_device_s() {
    same(
        "ld.global.f32 %f1, [%in]; neg.f32 %f2, %f1; mov.b32 %r1, %f2; shr.u32 %r2, %r1, 31;
        ld.global.b16 %h1, [%in+#1]; neg.f16 %h2, %h1; cvt.u32.u16 %r3, %h2; abs.f32 %f3, %f1; mov.b32 %r4, %f3;
        st.global.u32 [%out], %r2; st.global.u32 [%out+#1], %r3; st.global.u32 [%out+#2], %r4;",
        &[Kind::F32, Kind::F16],
        3,
    );
}

#[test]
fn an_operation_whose_result_is_an_operand_still_makes_the_device_s_nan_and_flushes() {
    same(
        "ld.global.f32 %f1, [%in]; ld.global.b16 %h1, [%in+#1]; mov.b16 %h2, %h1; min.ftz.NaN.f16 %h3, %h1, %h2;
        mul.ftz.f32 %f2, %f1, 0f3F800000; max.ftz.f32 %f3, %f1, %f1; add.ftz.f32 %f4, %f1, 0f80000000;
        fma.rn.ftz.f32 %f5, %f1, 0f3F800000, 0f80000000; fma.rn.ftz.f32 %f6, 0fBF800000, %f1, 0f00000000;
        st.global.b16 [%out], %h3; st.global.f32 [%out+#1], %f2; st.global.v2.f32 [%out+#2], {%f3, %f5};
        st.global.v2.f32 [%out+#3], {%f4, %f6};",
        &[Kind::F32, Kind::F16],
        4,
    );
}

#[test]
fn the_smaller_of_a_nan_and_itself_is_the_device_s() {
    same(
        "ld.global.f32 %f1, [%in]; ld.global.b16 %h1, [%in+#1]; mov.b16 %h2, %h1; min.NaN.f16 %h3, %h1, %h2;
        max.bf16 %h4, %h2, %h1; max.f32 %f2, %f1, %f1; min.f32 %f3, %f1, 0f7F800000;
        st.global.b16 [%out], %h3; st.global.b16 [%out+#1], %h4; st.global.f32 [%out+#2], %f2; st.global.f32 [%out+#3], %f3;",
        &[Kind::F32, Kind::F16],
        4,
    );
}

#[test]
fn of_two_nans_the_order_of_the_operands_tells_which_comes_out() {
    same(
        "ld.global.f64 %g1, [%in]; ld.global.f64 %g2, [%in+#1]; add.rn.f64 %g3, %g1, %g2; add.rn.f64 %g4, %g2, %g1;
        mul.rn.f64 %g5, %g4, %g1; fma.rn.f64 %g6, %g3, %g1, %g2; sub.rn.f64 %g7, %g5, %g3;
        st.global.f64 [%out], %g4; st.global.f64 [%out+#1], %g5; st.global.f64 [%out+#2], %g6; st.global.f64 [%out+#3], %g7;",
        &[Kind::F64, Kind::F64],
        4,
    );
}

#[test]
fn packed_constants_have_the_values_of_their_halves() {
    let text = same(
        "ld.global.b32 %r1, [%in]; mov.b32 %r2, 0x3f803f80; mov.b32 %r3, 0xbe004000; mov.b32 %r9, 0x7e013c00;
        fma.rn.bf16x2 %r4, %r1, %r2, %r3; fma.rn.f16x2 %r5, %r1, %r3, %r3; add.f16x2 %r6, %r1, %r9; max.s16x2 %r7, %r1, %r3;
        st.global.u32 [%out], %r4; st.global.u32 [%out+#1], %r5; st.global.u32 [%out+#2], %r6; st.global.u32 [%out+#3], %r7;",
        &[Kind::F16x2],
        4,
    );
    assert!(text.contains("max.s16x2"), "{text}");
}

#[test]
fn half_precision_does_not_flush_because_single_precision_does() {
    let text = same(
        "ld.global.f32 %f1, [%in]; ld.global.b16 %h1, [%in+#1]; ld.global.b16 %h2, [%in+#2];
        add.ftz.f32 %f2, %f1, %f1; mul.ftz.f32 %f3, %f2, %f1; add.ftz.f32 %f4, %f3, %f1; fma.rn.ftz.f32 %f5, %f4, %f3, %f2;
        add.f16 %h3, %h1, %h2; setp.lt.bf16 %p1, %h1, %h2; selp.b32 %r1, 1, 0, %p1; fma.rn.f16 %h4, %h1, %h2, %h2;
        st.global.b16 [%out], %h3; st.global.f32 [%out+#1], %f5; st.global.u32 [%out+#2], %r1; st.global.b16 [%out+#3], %h4;",
        &[Kind::F32, Kind::F16, Kind::F16],
        4,
    );
    assert_eq!(count(&text, "fma.rn.ftz.f32"), 1, "{text}");
    assert_eq!(count(&text, "setp.lt.bf16"), 1, "{text}");
}

#[test]
fn a_division_by_zero_has_the_device_s_result() {
    same(
        "ld.global.u32 %r1, [%in]; ld.global.u32 %r2, [%in+#1];
        div.s32 %r3, %r1, %r2; rem.u32 %r4, %r1, %r2; div.s32 %r5, %r1, -1; rem.s32 %r6, %r1, 0;
        st.global.u32 [%out], %r3; st.global.u32 [%out+#1], %r4; st.global.u32 [%out+#2], %r5; st.global.u32 [%out+#3], %r6;",
        &[Kind::Int(32), Kind::Int(32)],
        4,
    );
}

#[test]
fn constant_divisors_shifts_and_fields_are_exact() {
    let mut body = String::from(
        "ld.global.u32 %r1, [%in]; ld.global.u64 %d1, [%in+#1]; mov.u32 %r9, 0; mov.u64 %d9, 0;",
    );
    let mut step = |text: &str, wide: bool| {
        let (r, add) = if wide {
            ("%d", "add.u64 %d9, %d9, %d2; mul.lo.u64 %d9, %d9, 31;")
        } else {
            ("%r", "add.u32 %r9, %r9, %r2; mul.lo.u32 %r9, %r9, 31;")
        };
        body.push_str(&text.replace('$', r));
        body.push_str(add);
        body.push('\n');
    };
    for divisor in [
        "1",
        "2",
        "3",
        "7",
        "641",
        "-2",
        "-7",
        "2147483647",
        "-2147483648",
    ] {
        for (op, wide) in [
            ("div.s32", false),
            ("rem.s32", false),
            ("div.s64", true),
            ("rem.s64", true),
        ] {
            step(&format!("{op} $2, $1, {divisor};"), wide);
        }
        if !divisor.starts_with('-') {
            for (op, wide) in [
                ("div.u32", false),
                ("rem.u32", false),
                ("div.u64", true),
                ("rem.u64", true),
            ] {
                step(&format!("{op} $2, $1, {divisor};"), wide);
            }
        }
    }
    for place in ["0", "1", "5", "31", "32", "63", "64", "255", "256"] {
        for (op, wide) in [
            ("shl.b32", false),
            ("shr.u32", false),
            ("shr.s32", false),
            ("shl.b64", true),
            ("shr.u64", true),
            ("shr.s64", true),
        ] {
            step(&format!("{op} $2, $1, {place};"), wide);
        }
        for length in ["0", "1", "8", "31", "32", "33", "64", "200"] {
            for (op, wide) in [
                ("bfe.u32", false),
                ("bfe.s32", false),
                ("bfe.u64", true),
                ("bfe.s64", true),
            ] {
                step(&format!("{op} $2, $1, {place}, {length};"), wide);
            }
            step(&format!("bfi.b32 $2, $1, $9, {place}, {length};"), false);
            step(&format!("bfi.b64 $2, $1, $9, {place}, {length};"), true);
        }
    }
    body.push_str("st.global.u32 [%out], %r9; st.global.u64 [%out+#1], %d9;");
    same(&body, &[Kind::Int(32), Kind::Int(64)], 2);
}

#[test]
fn every_table_of_three_inputs_gives_its_bits() {
    let mnemonic = Mnemonic::parse("lop3.b32").expect("a mnemonic");
    let all: Vec<Instruction> = (0..256)
        .filter_map(|table| {
            Instruction::new(mnemonic.clone(), &format!("%r1, %r2, %r3, %r4, {table}"))
        })
        .collect();
    assert_eq!(all.len(), 256);
    let mut failures = Vec::new();
    for some in all.chunks(64) {
        crate::compare(some, &[(Preset::O3, 3)], &mut failures);
    }
    crate::assert_none(&failures);
}

/// What programs are full of: LLVM has to see it to make anything better of it.
#[test]
fn frequent_arithmetic_is_no_inline_assembly() {
    const FREQUENT: &[&str] = &[
        "abs.f32",
        "abs.s32",
        "add.f16x2",
        "add.f32",
        "add.f64",
        "add.ftz.f32",
        "add.rn.f32",
        "add.s32",
        "add.s64",
        "and.b32",
        "and.pred",
        "bfind.u32",
        "brev.b32",
        "clz.b32",
        "cvt.f32.f16",
        "cvt.f64.f32",
        "cvt.rn.bf16x2.f32",
        "cvt.rn.f16.f32",
        "cvt.rn.f32.s32",
        "cvt.rn.f32.f64",
        "cvt.rzi.s32.f32",
        "cvt.s64.s32",
        "cvt.u32.u16",
        "cvt.rn.f16x2.e4m3x2",
        "div.full.f32",
        "div.rn.f32",
        "dp4a.s32.s32",
        "ex2.approx.ftz.f32",
        "fma.rn.bf16x2",
        "fma.rn.f32",
        "fma.rn.f64",
        "fma.rn.ftz.f32",
        "lg2.approx.f32",
        "mad.lo.s32",
        "mad.wide.s32",
        "max.f32",
        "max.NaN.f32",
        "max.ftz.f32",
        "min.s32",
        "mul.f32",
        "mul.hi.u32",
        "mul.lo.s32",
        "mul.wide.u32",
        "neg.f32",
        "neg.s32",
        "not.b32",
        "or.b32",
        "popc.b64",
        "prmt.b32",
        "rcp.rn.f32",
        "rsqrt.approx.f32",
        "selp.b32",
        "selp.f32",
        "set.lt.u32.s32",
        "setp.lt.f32",
        "setp.ltu.ftz.f32",
        "setp.ne.and.s32",
        "shf.l.wrap.b32",
        "shl.b32",
        "shr.s32",
        "shr.u64",
        "sin.approx.f32",
        "sqrt.approx.ftz.f32",
        "sqrt.rn.f32",
        "sub.f32",
        "sub.s32",
        "xor.b32",
    ];
    let all = forms::all();
    for name in FREQUENT {
        let found = all.iter().find(|i| i.mnemonic.text() == *name);
        let instruction = found.unwrap_or_else(|| panic!("no form {name}"));
        let text = forms::kernel(std::slice::from_ref(instruction));
        let lifted = run::lift(&text, Preset::O0, 0).expect("lifts");
        assert_eq!(lifted.assembly, Vec::<String>::new(), "{name}");
    }
}
