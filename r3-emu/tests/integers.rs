//! Integers and bits: the cases that others got wrong, with results as an H200 gives them.

mod common;

use common::{Device, run_threads};

/// What one thread leaves in `%d0` for each body.
fn long(body: &str) -> u64 {
    let ptx = format!(
        ".visible .entry k(.param .u64 p) {{
            .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<30>; .reg .b64 %d<30>; .reg .b64 %at; .reg .f32 %f<9>;
            ld.param.u64 %at, [p];
            {body}
            st.global.u64 [%at], %d0;
            ret;
        }}"
    );
    let device = Device::new(&ptx, &[0; 8]);
    device.launch("k", 1, 1).unwrap_or_else(|f| panic!("{f}"));
    device.longs(1)[0]
}

fn word(body: &str) -> u32 {
    run_threads(body, 1)[0]
}

/// gpgpu-sim #343
#[test]
fn selp_heeds_the_negation_of_its_predicate() {
    assert_eq!(word("setp.eq.u32 %p1, %t, 0; selp.u32 %r0, 1, 2, !%p1;"), 2);
}

/// gpgpu-sim #343, gpuocelot #65
#[test]
fn bit_fields_beyond_the_width_are_empty_or_the_sign() {
    for (body, want) in [
        ("mov.u32 %r1, 0x80000001; bfe.u32 %r0, %r1, 32, 4;", 0),
        ("mov.u32 %r1, 0x80000001; bfe.u32 %r0, %r1, 40, 4;", 0),
        (
            "mov.u32 %r1, 0x80000001; bfe.s32 %r0, %r1, 32, 4;",
            u32::MAX,
        ),
        (
            "mov.u32 %r1, 0x80000001; bfe.s32 %r0, %r1, 30, 8;",
            0xffff_fffe,
        ),
        ("mov.u32 %r1, 0x80000001; bfe.u32 %r0, %r1, 30, 8;", 2),
        ("mov.u32 %r1, 0x12345678; bfe.u32 %r0, %r1, 8, 0;", 0),
        ("mov.u32 %r1, 0x12345678; bfe.s32 %r0, %r1, 8, 8;", 0x56),
        (
            "mov.u32 %r1, 0xff; mov.u32 %r2, 0; bfi.b32 %r0, %r1, %r2, 28, 8;",
            0xf000_0000,
        ),
        (
            "mov.u32 %r1, 0xff; mov.u32 %r2, 5; bfi.b32 %r0, %r1, %r2, 32, 8;",
            5,
        ),
        (
            "mov.u32 %r1, 0xff; mov.u32 %r2, 5; bfi.b32 %r0, %r1, %r2, 4, 0;",
            5,
        ),
    ] {
        assert_eq!(word(body), want, "{body}");
    }
}

#[test]
fn bit_fields_of_64_bits_look_at_all_of_place_and_length() {
    for (body, want) in [
        ("bfe.u64 %d0, %d1, 0x80000000, 8;", 0),
        ("bfe.s64 %d0, %d1, 0x80000000, 256;", u64::MAX),
        ("bfe.u64 %d0, %d1, 4, 256;", 0x0f00_0000_0000_0001),
        ("bfi.b64 %d0, %d1, %d2, 8, 256;", 0x1107),
        ("bfi.b64 %d0, %d1, %d2, 256, 8;", 7),
    ] {
        let numbers = "mov.u64 %d1, 0xf000000000000011; mov.u64 %d2, 7;";
        assert_eq!(long(&format!("{numbers}{body}")), want, "{body}");
    }
}

/// gpgpu-sim #343
#[test]
fn additions_of_64_bits_keep_their_high_bits() {
    assert_eq!(
        long("mov.u64 %d1, 0xffffffffffff; add.u64 %d0, %d1, 1;"),
        0x1_0000_0000_0000
    );
}

/// gpuocelot #29, accel-sim-framework #298
#[test]
fn funnel_shifts_clamp_or_wrap_their_count() {
    for (form, count, want) in [
        ("l.clamp", 32, 0x1111_1111u32),
        ("l.clamp", 40, 0x1111_1111),
        ("l.clamp", 4, 0x2222_2221),
        ("l.wrap", 32, 0x2222_2222),
        ("l.wrap", 36, 0x2222_2221),
        ("r.clamp", 32, 0x2222_2222),
        ("r.clamp", 100, 0x2222_2222),
        ("r.wrap", 32, 0x1111_1111),
        ("r.wrap", 33, 0x0888_8888),
    ] {
        // `b:a` is 0x2222222211111111.
        let body = format!(
            "mov.u32 %r1, 0x11111111; mov.u32 %r2, 0x22222222; shf.{form}.b32 %r0, %r1, %r2, {count};"
        );
        assert_eq!(word(&body), want, "{form} {count}");
    }
}

#[test]
fn shifts_by_the_width_or_more_leave_nothing_or_the_sign() {
    for (body, want) in [
        ("mov.u32 %r1, 0xffffffff; shl.b32 %r0, %r1, 32;", 0),
        ("mov.u32 %r1, 0xffffffff; shr.u32 %r0, %r1, 33;", 0),
        ("mov.u32 %r1, 0x80000000; shr.s32 %r0, %r1, 99;", u32::MAX),
        ("mov.u32 %r1, 0x40000000; shr.s32 %r0, %r1, 99;", 0),
    ] {
        assert_eq!(word(body), want, "{body}");
    }
}

/// OpenPTXas: ptxas 13.0 was said to get this wrong.
#[test]
fn a_shift_subtract_of_64_bits_is_exact() {
    let body = "mov.u64 %d1, 0x0123456789ABCDEF; shl.b64 %d2, %d1, 8; shr.u64 %d3, %d1, 56; sub.u64 %d0, %d2, %d3;";
    assert_eq!(long(body), 0x2345_6789_ABCD_EEFF);
}

/// llvm #160482
#[test]
fn the_smallest_16_bit_number_negated_is_itself() {
    let body = "mov.b16 %h1, 0x8000; neg.s16 %h2, %h1; cvt.u32.u16 %r0, %h2;";
    assert_eq!(word(body), 0x8000);
}

/// gpgpu-sim #103: `madc.hi` has four operands, and a carry in.
#[test]
fn a_product_of_64_bits_out_of_carry_chains_is_exact() {
    let body = "
        mov.u64 %d1, 0xFEDCBA9876543210; mov.u64 %d2, 0x0F1E2D3C4B5A6978;
        mov.b64 {%r1, %r2}, %d1; mov.b64 {%r3, %r4}, %d2;
        mul.lo.u32 %r10, %r1, %r3;
        mul.hi.u32 %r11, %r1, %r3;
        mad.lo.cc.u32 %r11, %r1, %r4, %r11;
        madc.hi.u32 %r12, %r1, %r4, 0;
        mad.lo.cc.u32 %r11, %r2, %r3, %r11;
        madc.hi.cc.u32 %r12, %r2, %r3, %r12;
        addc.u32 %r13, 0, 0;
        mad.lo.cc.u32 %r12, %r2, %r4, %r12;
        madc.hi.u32 %r13, %r2, %r4, %r13;
        mov.b64 %d3, {%r10, %r11}; mov.b64 %d4, {%r12, %r13};
        xor.b64 %d0, %d3, %d4;";
    let product = 0xFEDC_BA98_7654_3210u128 * 0x0F1E_2D3C_4B5A_6978u128;
    assert_eq!(long(body), product as u64 ^ (product >> 64) as u64);
}

/// modular #7027: modular multiplication with 32-bit limbs: carries and borrows through chains with other instructions
/// between.
#[test]
fn carries_and_borrows_survive_other_instructions() {
    let body = "
        mov.u32 %r1, 0xffffffff; mov.u32 %r2, 0xffffffff;
        add.cc.u32 %r3, %r1, 1;
        add.u32 %r9, %r1, %r2;
        shl.b32 %r9, %r9, 3;
        addc.cc.u32 %r4, %r2, 0;
        addc.u32 %r5, 0, 0;
        sub.cc.u32 %r6, %r3, %r5;
        subc.cc.u32 %r7, %r4, 0;
        subc.u32 %r8, 0, 0;
        setp.eq.u32 %p1, %r6, 0xffffffff;
        setp.eq.and.u32 %p2, %r7, 0xffffffff, %p1;
        selp.u32 %r0, %r8, 7, %p2;";
    assert_eq!(word(body), u32::MAX);
}

/// ZLUDA #642, #644, #610
#[test]
fn counts_of_64_bits_are_32_bits_wide() {
    for (body, want) in [
        ("mov.u64 %d1, 0xff00000000000001; popc.b64 %r0, %d1;", 9),
        ("mov.u64 %d1, 0; clz.b64 %r0, %d1;", 64),
        ("mov.u64 %d1, 1; clz.b64 %r0, %d1;", 63),
        ("mov.u64 %d1, 0x100000000; bfind.u64 %r0, %d1;", 32),
        ("mov.u64 %d1, 0x100000000; bfind.shiftamt.u64 %r0, %d1;", 31),
        ("mov.u32 %r1, 0; bfind.u32 %r0, %r1;", u32::MAX),
        ("mov.u32 %r1, -1; bfind.s32 %r0, %r1;", u32::MAX),
        ("mov.u32 %r1, -3; bfind.shiftamt.s32 %r0, %r1;", 30),
    ] {
        assert_eq!(word(body), want, "{body}");
    }
}

#[test]
fn division_by_zero_gives_all_ones() {
    for op in ["div.u32", "div.s32", "rem.u32", "rem.s32"] {
        let body = format!("mov.u32 %r1, 5; mov.u32 %r2, 0; {op} %r0, %r1, %r2;");
        assert_eq!(word(&body), u32::MAX, "{op}");
    }
    assert_eq!(
        word("mov.u32 %r1, 0x80000000; mov.u32 %r2, -1; div.s32 %r0, %r1, %r2;"),
        1 << 31
    );
    assert_eq!(
        word("mov.u32 %r1, 0x80000000; mov.u32 %r2, -1; rem.s32 %r0, %r1, %r2;"),
        0
    );
}

#[test]
fn vectors_pack_and_unpack_in_order() {
    for (body, want) in [
        (
            "mov.b32 %r1, 0x11223344; mov.b32 {%h1, %h2}, %r1; mov.b32 %r0, {%h2, %h1};",
            0x3344_1122,
        ),
        (
            "mov.b64 %d1, 0x1122334455667788; mov.b64 {_, %r0}, %d1;",
            0x1122_3344,
        ),
        (
            "mov.b64 %d1, 0x1122334455667788; mov.b64 {%h1, %h2, %h3, %h4}, %d1; mov.b32 %r0, {%h1, %h4};",
            0x1122_7788,
        ),
        (
            ".reg .v2 .b32 %v; mov.b64 %d1, 0x1122334455667788; mov.b64 {%v.x, %v.y}, %d1; mov.b32 %r0, %v.y;",
            0x1122_3344,
        ),
    ] {
        assert_eq!(word(body), want, "{body}");
    }
}

#[test]
fn comparisons_of_floats_with_nan_are_ordered_or_not() {
    for (relation, want) in [
        ("lt", 0),
        ("ltu", 1),
        ("ne", 0),
        ("neu", 1),
        ("num", 0),
        ("nan", 1),
    ] {
        let body = format!(
            "mov.f32 %f1, 0f7FC00000; mov.f32 %f2, 0f3F800000; setp.{relation}.f32 %p1, %f1, %f2; selp.u32 %r0, 1, 0, %p1;"
        );
        assert_eq!(word(&body), want, "{relation}");
    }
}

#[test]
fn the_second_predicate_of_setp_is_the_opposite_combined() {
    let body = "
        setp.eq.u32 %p3, 0, 0;
        setp.lt.and.u32 %p1|%p2, %t, 4, %p3;
        selp.u32 %r1, 1, 0, %p1;
        selp.u32 %r0, 2, %r1, %p2;";
    assert_eq!(run_threads(body, 6), [1, 1, 1, 1, 2, 2]);
}

#[test]
fn narrow_and_wide_registers_meet_in_conversions_and_shifts() {
    assert_eq!(
        word("mov.b16 %h1, 0x8001; mul.wide.s16 %r0, %h1, 2;"),
        (-65534i32) as u32
    );
    assert_eq!(
        word("mov.b16 %h1, 0x8001; shr.s16 %h2, %h1, 4; cvt.s32.s16 %r0, %h2;"),
        0xffff_f800
    );
}

#[test]
fn prmt_replicates_signs_and_has_its_modes() {
    let bytes = "mov.u32 %r1, 0x84030281; mov.u32 %r2, 0x88878605;";
    for (form, want) in [
        // Byte 7, and the signs of bytes 4, 3 and 1.
        ("prmt.b32 %r0, %r1, %r2, 0x9bc7;", 0x00ff_0088),
        ("prmt.b32.f4e %r0, %r1, %r2, 1;", 0x0584_0302),
        ("prmt.b32.rc16 %r0, %r1, %r2, 1;", 0x8403_8403),
    ] {
        assert_eq!(word(&format!("{bytes}{form}")), want, "{form}");
    }
}
