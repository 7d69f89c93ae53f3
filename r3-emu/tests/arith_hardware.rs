//! What random programs showed of an H200, beyond what the ISA says in words.

mod common;

use common::Device;

/// One instruction of one lane: 64-bit sources `%a0` …, a result in `%r0`.
fn run(body: &str, sources: &[u64]) -> u64 {
    let mut text = String::from(
        ".visible .entry k(.param .u64 p) {\n.reg .b64 %a<4>, %p; .reg .b64 %r0;\n\
         .reg .b32 %w<8>; .reg .f32 %f<4>; .reg .f64 %d<4>; .reg .b16 %h; .reg .pred %q<4>;\n\
         ld.param.u64 %p, [p];\n",
    );
    for i in 0..sources.len() {
        text += &format!(
            "ld.global.u64 %a{i}, [%p+{}]; cvt.u32.u64 %w{i}, %a{i};\n",
            8 * i
        );
    }
    text += body;
    text += "\nst.global.u64 [%p], %r0;\nret;\n}\n";
    let bytes: Vec<u8> = sources.iter().flat_map(|x| x.to_le_bytes()).collect();
    let device = Device::new(&text, &bytes);
    device.launch("k", 1, 1).expect("the kernel runs");
    device.longs(1)[0]
}

fn narrow(modifiers: &str, x: u64) -> u64 {
    let body = format!(
        "mov.b64 %d0, %a0; cvt.{modifiers}.f32.f64 %f0, %d0; mov.b32 %w4, %f0; cvt.u64.u32 %r0, %w4;"
    );
    run(&body, &[x])
}

/// Exactly between the largest subnormal of single precision and the smallest normal number, and the double above.
const BETWEEN: u64 = 0x380f_ffff_e000_0000;
const TINY: u64 = 1;

#[test]
fn narrowing_with_ftz_and_sat_flushes_what_is_tiny_before_it_is_rounded_to_a_subnormal() {
    for modifiers in ["rp.ftz.sat", "rn.ftz.sat", "rp.ftz"] {
        assert_eq!(narrow(modifiers, TINY), 0, "{modifiers}");
    }
    // With the range of exponents open, 24 bits hold the one and not the other, which becomes normal.
    assert_eq!(narrow("rp.ftz.sat", BETWEEN), 0);
    assert_eq!(narrow("rp.ftz.sat", BETWEEN + 1), 0x0080_0000);
    assert_eq!(narrow("rp.sat", TINY), 1);
    assert_eq!(narrow("rp.ftz.sat", f64::NAN.to_bits()), 0);
    assert_eq!(narrow("rm.ftz.sat", (-1.0_f64).to_bits()), 0);
    assert_eq!(narrow("rn.ftz.sat", 2.5_f64.to_bits()), 0x3f80_0000);
}

#[test]
fn narrowing_to_a_half_flushes_nothing() {
    let half = |modifiers: &str, x: u64| {
        let body =
            format!("mov.b32 %f0, %w0; cvt.{modifiers}.f16.f32 %h, %f0; cvt.u64.u16 %r0, %h;");
        run(&body, &[x])
    };
    assert_eq!(half("rp.ftz", 1), 1);
    assert_eq!(half("rm.ftz", 0x8000_0001), 0x8001);
    assert_eq!(half("rm.ftz", 1), 0);
    assert_eq!(half("rn.ftz", 0x807f_ffff), 0x8000);
}

#[test]
fn a_second_min_or_max_of_a_video_instruction_sees_all_bits_of_the_first() {
    let video = |instruction: &str, sources: [u64; 3]| {
        let body = format!("{instruction} %w4, %w0, %w1, %w2; cvt.u64.u32 %r0, %w4;");
        run(&body, &sources)
    };
    // As an unsigned number of more than 32 bits the first result is larger than any third operand with sign.
    let large = 0xc906_6a68;
    assert_eq!(video("vmax.s32.u32.u32.max", [large, 5, 1]), large);
    assert_eq!(video("vmax.s32.u32.u32.min", [large, 5, 1]), 1);
    assert_eq!(video("vmin.s32.s32.s32.max", [large, 5, 1]), 1);
    let shifted = video("vshl.s32.s32.u32.clamp.min", [0x6e88_d108, 40, 7]);
    assert_eq!(shifted, 7);
    // Sums are cut first.
    assert_eq!(video("vadd.s32.u32.u32.max", [large, 5, 1]), 1);
    assert_eq!(video("vadd.s32.u32.u32.min", [large, 5, 1]), large + 5);
    // Clamped, it has a sign again.
    assert_eq!(
        video("vmax.s32.u32.u32.sat.min", [large, 5, 0x7fff_fffe]),
        0x7fff_fffe
    );
    assert_eq!(
        video("vmax.u32.u32.u32.min", [large, 5, 0xffff_ffff]),
        large
    );
}
