//! Arithmetic through PTX text: from the modifiers of an instruction to the bits that a kernel stores.

use r3_emu::{LaunchConfig, Memory, Program, RunOptions};

/// Runs `body` for each row of `inputs` in a thread of its own. It finds the row in `%a0`, `%a1`, … (b64) and leaves its
/// results in `%r0` … `%r(results-1)` (b64).
fn run(body: &str, inputs: &[Vec<u64>], results: usize) -> Vec<Vec<u64>> {
    let columns = inputs[0].len();
    let mut text = format!(
        ".version 9.0\n.target sm_100a\n.address_size 64\n\
         .visible .entry k(.param .u64 in, .param .u64 out) {{\n\
         .reg .b64 %a<8>, %r<8>, %p<4>; .reg .b32 %i<4>;\n\
         .reg .b16 %h<8>; .reg .b32 %w<8>; .reg .f32 %f<8>; .reg .f64 %d<8>; .reg .pred %q<8>;\n\
         mov.u32 %i0, %ctaid.x;\nmov.u32 %i1, %ntid.x;\nmov.u32 %i2, %tid.x;\n\
         mad.lo.u32 %i0, %i0, %i1, %i2;\n\
         ld.param.u64 %p0, [in];\nld.param.u64 %p1, [out];\n\
         mad.wide.u32 %p0, %i0, {}, %p0;\nmad.wide.u32 %p1, %i0, {}, %p1;\n",
        8 * columns,
        8 * results
    );
    for i in 0..columns {
        text += &format!("ld.global.b64 %a{i}, [%p0+{}];\n", 8 * i);
    }
    text += body;
    for i in 0..results {
        text += &format!("\nst.global.b64 [%p1+{}], %r{i};", 8 * i);
    }
    text += "\nret;\n}\n";
    let tree = r3_ptx::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    let module = r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    let memory = Memory::new();
    let program =
        Program::load(&[&module], &memory, &mut |_| Err("no variables".into())).expect("it links");
    let (input, output) = (0x10_0000_u64, 0x9000_0000_u64);
    let bytes: Vec<u8> = inputs
        .iter()
        .flatten()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    memory.map(input, bytes.len() as u64).expect("room");
    memory.write(input, &bytes).expect("a mapping");
    let size = inputs.len() * results * 8;
    memory.map(output, size as u64).expect("room");
    let params: Vec<u8> = [input, output]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let config = LaunchConfig {
        grid: [inputs.len() as u32, 1, 1],
        block: [1, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &params,
        blocks: None,
    };
    // Full warps where the rows allow it.
    let config = if inputs.len().is_multiple_of(32) {
        LaunchConfig {
            grid: [inputs.len() as u32 / 32, 1, 1],
            block: [32, 1, 1],
            ..config
        }
    } else {
        config
    };
    let options = RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: None,
        print: &|_| {},
        cancel: None,
    };
    let kernel = program.kernel("k").expect("its kernel");
    program
        .launch(kernel, &config, &memory, &options)
        .unwrap_or_else(|fault| panic!("{fault}\n{text}"));
    let mut bytes = vec![0; size];
    memory.read(output, &mut bytes).expect("a mapping");
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")))
        .collect();
    words.chunks_exact(results).map(<[u64]>::to_vec).collect()
}

/// One instruction of `.f32`: its result for operands given as bits.
fn f32(instruction: &str, operands: &[u32]) -> u32 {
    let mut body = String::new();
    let mut list = String::new();
    for i in 0..operands.len() {
        body += &format!("cvt.u32.u64 %w{i}, %a{i}; mov.b32 %f{i}, %w{i};\n");
        list += &format!(", %f{i}");
    }
    body += &format!("{instruction} %f7{list};\nmov.b32 %w7, %f7; cvt.u64.u32 %r0, %w7;");
    let row = operands.iter().map(|&x| x.into()).collect();
    run(&body, &[row], 1)[0][0] as u32
}

/// One instruction from and to any registers (`h`, `w`, `f`, `d`, `a`), on bits.
fn any(instruction: &str, to: char, from: &str, operands: &[u64]) -> u64 {
    let mut body = String::new();
    let mut list = String::new();
    for (i, kind) in from.chars().enumerate() {
        body += &match kind {
            'h' => format!("cvt.u16.u64 %h{i}, %a{i};\n"),
            'w' => format!("cvt.u32.u64 %w{i}, %a{i};\n"),
            'f' => format!("cvt.u32.u64 %w{i}, %a{i}; mov.b32 %f{i}, %w{i};\n"),
            'd' => format!("mov.b64 %d{i}, %a{i};\n"),
            _ => String::new(),
        };
        list += &format!(", %{kind}{i}");
    }
    body += &format!("{instruction} %{to}7{list};\n");
    body += match to {
        'h' => "cvt.u64.u16 %r0, %h7;",
        'w' => "cvt.u64.u32 %r0, %w7;",
        'f' => "mov.b32 %w7, %f7; cvt.u64.u32 %r0, %w7;",
        'd' => "mov.b64 %r0, %d7;",
        'q' => "selp.u64 %r0, 1, 0, %q7;",
        _ => "mov.b64 %r0, %a7;",
    };
    run(&body, &[operands.to_vec()], 1)[0][0]
}

const ONE: u32 = 0x3f80_0000;
const TINY: u32 = 1;
const SUBNORMAL: u32 = 0x0040_0000;
const NAN: u32 = 0x7fff_ffff;

/// gpgpu-sim #343: `.rm` and `.rp` of add and mul end that simulator.
#[test]
fn add_and_mul_round_down_and_up() {
    assert_eq!(f32("add.rm.f32", &[ONE, TINY]), ONE);
    assert_eq!(f32("add.rp.f32", &[ONE, TINY]), ONE + 1);
    assert_eq!(
        f32("add.rz.f32", &[ONE | 1 << 31, TINY]),
        (ONE | 1 << 31) - 1
    );
    let third = 0x3eaa_aaab;
    assert_eq!(f32("mul.rm.f32", &[third, third]), 0x3de3_8e39);
    assert_eq!(f32("mul.rp.f32", &[third, third]), 0x3de3_8e3a);
    assert_eq!(f32("fma.rm.f32", &[third, third, TINY]), 0x3de3_8e39);
    assert_eq!(f32("div.rp.f32", &[ONE, 0x4040_0000]), third);
    assert_eq!(f32("div.rm.f32", &[ONE, 0x4040_0000]), third - 1);
    assert_eq!(f32("sqrt.rp.f32", &[0x4000_0000]), 0x3fb5_04f4);
    assert_eq!(f32("sqrt.rz.f32", &[0x4000_0000]), 0x3fb5_04f3);
    let one = 1.0_f64.to_bits();
    assert_eq!(any("add.rm.f64", 'd', "dd", &[one, 1]), one);
    assert_eq!(any("add.rp.f64", 'd', "dd", &[one, 1]), one + 1);
    assert_eq!(any("mul.rp.f64", 'd', "dd", &[one + 1, one + 1]), one + 3);
}

/// gpgpu-sim #343: `cvt.rz.f32.s32` rounds up there.
#[test]
fn integers_to_floats_round_as_told() {
    let big = 0x7fff_ffff;
    assert_eq!(any("cvt.rz.f32.s32", 'f', "w", &[big]), 0x4eff_ffff);
    assert_eq!(any("cvt.rn.f32.s32", 'f', "w", &[big]), 0x4f00_0000);
    assert_eq!(any("cvt.rm.f32.s32", 'f', "w", &[0x8000_0001]), 0xcf00_0000);
    assert_eq!(any("cvt.rp.f32.s32", 'f', "w", &[0x8000_0001]), 0xceff_ffff);
    assert_eq!(any("cvt.rz.f32.u64", 'f', "a", &[u64::MAX]), 0x5f7f_ffff);
    assert_eq!(
        any("cvt.rn.f64.u64", 'd', "a", &[u64::MAX]),
        0x43f0_0000_0000_0000
    );
    assert_eq!(
        any("cvt.rz.f64.s64", 'd', "a", &[i64::MAX as u64]),
        0x43df_ffff_ffff_ffff
    );
    assert_eq!(any("cvt.rn.f16.u32", 'h', "w", &[65_520]), 0x7c00);
    assert_eq!(any("cvt.rz.f16.u32", 'h', "w", &[65_520]), 0x7bff);
    assert_eq!(any("cvt.rn.f32.s8", 'f', "w", &[0x80]), 0xc300_0000);
}

/// ZLUDA #680, #655: only the upper half is read and written; subnormal numbers count as zero.
#[test]
fn rsqrt_approx_ftz_f64_uses_the_upper_half() {
    let four = 4.0_f64.to_bits();
    let half = 0.5_f64.to_bits();
    assert_eq!(
        any("rsqrt.approx.ftz.f64", 'd', "d", &[four | 0xffff_ffff]),
        half
    );
    let inf = f64::INFINITY.to_bits();
    assert_eq!(
        any("rsqrt.approx.ftz.f64", 'd', "d", &[0x000f_ffff_ffff_ffff]),
        inf
    );
    assert_eq!(
        any("rsqrt.approx.ftz.f64", 'd', "d", &[0x800f_0000_0000_0000]),
        inf | 1 << 63
    );
    assert_eq!(
        any("rcp.approx.ftz.f64", 'd', "d", &[four | 0xffff_ffff]),
        0.25_f64.to_bits()
    );
    let three = any("rsqrt.approx.ftz.f64", 'd', "d", &[3.0_f64.to_bits()]);
    assert_eq!(three as u32, 0);
}

/// ZLUDA #467: division and roots with and without flushing in one kernel.
#[test]
fn div_and_sqrt_with_and_without_ftz_side_by_side() {
    let body = "\
        cvt.u32.u64 %w0, %a0; mov.b32 %f0, %w0; cvt.u32.u64 %w1, %a1; mov.b32 %f1, %w1;\n\
        div.rn.ftz.f32 %f2, %f0, %f1; div.rn.f32 %f3, %f0, %f1;\n\
        sqrt.rn.ftz.f32 %f4, %f0; sqrt.rn.f32 %f5, %f0;\n\
        mov.b32 %w2, %f2; mov.b32 %w3, %f3; mov.b32 %w4, %f4; mov.b32 %w5, %f5;\n\
        cvt.u64.u32 %r0, %w2; cvt.u64.u32 %r1, %w3; cvt.u64.u32 %r2, %w4; cvt.u64.u32 %r3, %w5;";
    let row = vec![SUBNORMAL.into(), 0x3f00_0000];
    // 2^-127 / 0.5 = 2^-126; its root is 2^-63.5.
    assert_eq!(run(body, &[row], 4)[0], [0, 0x0080_0000, 0, 0x1fb5_04f3]);
}

/// ZLUDA #335, #289: `mul.ftz` with subnormal operands and results.
#[test]
fn mul_ftz_flushes() {
    let negative = 1 << 31;
    assert_eq!(f32("mul.ftz.f32", &[SUBNORMAL | negative, ONE]), negative);
    assert_eq!(
        f32("mul.f32", &[SUBNORMAL | negative, ONE]),
        SUBNORMAL | negative
    );
    assert_eq!(f32("mul.ftz.f32", &[0x0080_0000, 0x3f00_0000]), 0);
    assert_eq!(f32("mul.rn.f32", &[0x0080_0000, 0x3f00_0000]), SUBNORMAL);
    assert_eq!(f32("fma.rn.ftz.f32", &[SUBNORMAL, ONE, SUBNORMAL]), 0);
    assert_eq!(f32("fma.rn.f32", &[SUBNORMAL, ONE, SUBNORMAL]), 0x0080_0000);
}

/// ZLUDA's test add_ftz: the same sum with and without flushing must not become one.
#[test]
fn equal_sums_with_and_without_ftz_stay_two() {
    let body = "\
        cvt.u32.u64 %w0, %a0; mov.b32 %f0, %w0; cvt.u32.u64 %w1, %a1; mov.b32 %f1, %w1;\n\
        add.ftz.f32 %f2, %f0, %f1; add.f32 %f3, %f0, %f1;\n\
        mov.b32 %w2, %f2; mov.b32 %w3, %f3; cvt.u64.u32 %r0, %w2; cvt.u64.u32 %r1, %w3;";
    let row = vec![SUBNORMAL.into(), SUBNORMAL.into()];
    assert_eq!(run(body, &[row], 2)[0], [0, 0x0080_0000]);
}

/// ZLUDA #596: rounding and flushing are the instruction's, on both sides of a call.
#[test]
fn rounding_is_the_instructions_across_calls() {
    let text = ".version 9.0\n.target sm_90\n.address_size 64\n\
        .func (.reg .f32 %o) up(.reg .f32 %x, .reg .f32 %y) { add.rp.f32 %o, %x, %y; ret; }\n\
        .visible .entry k(.param .u64 out) {\n\
        .reg .f32 %f<6>; .reg .b64 %p;\n\
        mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f00000001;\n\
        add.rm.f32 %f2, %f0, %f1;\n\
        call.uni (%f3), up, (%f0, %f1);\n\
        add.rm.f32 %f4, %f0, %f1;\n\
        ld.param.u64 %p, [out];\n\
        st.global.f32 [%p], %f2; st.global.f32 [%p+4], %f3; st.global.f32 [%p+8], %f4;\n\
        ret; }\n";
    let tree = r3_ptx::parse(text).unwrap_or_else(|e| panic!("{}", e.render(text)));
    let module = r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(text)));
    let memory = Memory::new();
    let program = Program::load(&[&module], &memory, &mut |_| Err("none".into())).unwrap();
    memory.map(0x1000, 12).unwrap();
    let config = LaunchConfig {
        grid: [1; 3],
        block: [1; 3],
        cluster: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        params: &0x1000_u64.to_le_bytes(),
        blocks: None,
    };
    let options = RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: None,
        print: &|_| {},
        cancel: None,
    };
    let kernel = program.kernel("k").unwrap();
    program.launch(kernel, &config, &memory, &options).unwrap();
    let mut bytes = [0; 12];
    memory.read(0x1000, &mut bytes).unwrap();
    let floats: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(floats, [ONE, ONE + 1, ONE]);
}

#[test]
fn saturation_nan_and_extremes() {
    assert_eq!(f32("add.sat.f32", &[ONE, ONE]), ONE);
    assert_eq!(f32("mul.sat.f32", &[0x7fc0_0001, ONE]), 0);
    assert_eq!(f32("fma.rn.sat.f32", &[ONE | 1 << 31, ONE, 0]), 0);
    assert_eq!(f32("add.f32", &[0xff80_0001, ONE]), NAN);
    assert_eq!(f32("neg.f32", &[0xffc0_0000]), NAN);
    assert_eq!(f32("min.f32", &[NAN, ONE]), ONE);
    assert_eq!(f32("min.NaN.f32", &[NAN, ONE]), NAN);
    assert_eq!(f32("max.f32", &[1 << 31, 0]), 0);
    assert_eq!(
        f32("min.xorsign.abs.f32", &[0xc000_0000, ONE]),
        ONE | 1 << 31
    );
    assert_eq!(
        f32("max.f32", &[ONE, 0x4000_0000, 0x4040_0000]),
        0x4040_0000
    );
    assert_eq!(f32("copysign.f32", &[1 << 31, ONE]), ONE | 1 << 31);
    assert_eq!(any("testp.subnormal.f32", 'q', "f", &[TINY.into()]), 1);
    assert_eq!(any("testp.normal.f64", 'q', "d", &[1]), 0);
    let nan = 0x7ff8_0000_0000_0007;
    assert_eq!(any("min.f64", 'd', "dd", &[nan, 5]), 5);
    assert_eq!(any("abs.f64", 'd', "d", &[1 << 63]), 0);
}

#[test]
fn float_to_integer_conversions() {
    let minus_two_and_a_half = 0xc020_0000;
    assert_eq!(
        any("cvt.rni.s32.f32", 'w', "f", &[minus_two_and_a_half]),
        0xffff_fffe
    );
    assert_eq!(
        any("cvt.rmi.s32.f32", 'w', "f", &[minus_two_and_a_half]),
        0xffff_fffd
    );
    assert_eq!(
        any("cvt.rpi.s32.f32", 'w', "f", &[minus_two_and_a_half]),
        0xffff_fffe
    );
    assert_eq!(any("cvt.rzi.u32.f32", 'w', "f", &[minus_two_and_a_half]), 0);
    assert_eq!(any("cvt.rzi.s32.f32", 'w', "f", &[NAN.into()]), 0);
    assert_eq!(any("cvt.rzi.s64.f32", 'a', "f", &[NAN.into()]), 1 << 63);
    assert_eq!(any("cvt.rzi.u32.f64", 'w', "d", &[0x7ff8 << 48]), 1 << 31);
    assert_eq!(any("cvt.rzi.s8.f32", 'w', "f", &[0xc3c8_0000]), 0xffff_ff80);
    assert_eq!(any("cvt.rzi.u8.f64", 'w', "d", &[300.0_f64.to_bits()]), 255);
    assert_eq!(any("cvt.rpi.ftz.s32.f32", 'w', "f", &[TINY.into()]), 0);
    assert_eq!(any("cvt.rpi.s32.f32", 'w', "f", &[TINY.into()]), 1);
    assert_eq!(
        any("cvt.rzi.s32.f16", 'w', "h", &[0xc500]),
        -5_i32 as u32 as u64
    );
    assert_eq!(any("cvt.rni.f32.f32", 'f', "f", &[0x3f00_0000]), 0);
    assert_eq!(
        any("cvt.rpi.f64.f64", 'd', "d", &[0.25_f64.to_bits()]),
        1.0_f64.to_bits()
    );
    assert_eq!(any("cvt.rni.f16.f16", 'h', "h", &[0x3e00]), 0x4000);
}

#[test]
fn float_to_float_conversions() {
    let third = (1.0_f64 / 3.0).to_bits();
    assert_eq!(any("cvt.rn.f32.f64", 'f', "d", &[third]), 0x3eaa_aaab);
    assert_eq!(any("cvt.rz.f32.f64", 'f', "d", &[third]), 0x3eaa_aaaa);
    assert_eq!(
        any("cvt.rn.sat.f32.f64", 'f', "d", &[2.0_f64.to_bits()]),
        ONE.into()
    );
    assert_eq!(any("cvt.rn.f16.f32", 'h', "f", &[0x3eaa_aaab]), 0x3555);
    assert_eq!(any("cvt.rp.f16.f32", 'h', "f", &[0x3eaa_aaab]), 0x3556);
    assert_eq!(any("cvt.rn.relu.f16.f32", 'h', "f", &[0xbf80_0000]), 0);
    assert_eq!(
        any("cvt.rn.satfinite.bf16.f32", 'h', "f", &[0x7f80_0000]),
        0x7f7f
    );
    assert_eq!(any("cvt.rn.bf16.f32", 'h', "f", &[NAN.into()]), 0x7fff);
    assert_eq!(any("cvt.f32.f16", 'f', "h", &[0x0001]), 0x3380_0000);
    assert_eq!(any("cvt.f32.bf16", 'f', "h", &[0x3f80]), ONE.into());
    assert_eq!(
        any("cvt.f64.f32", 'd', "f", &[ONE.into()]),
        1.0_f64.to_bits()
    );
    assert_eq!(
        any("cvt.rn.f16x2.f32", 'w', "ff", &[ONE.into(), 0x4000_0000]),
        0x3c00_4000
    );
    assert_eq!(
        any(
            "cvt.rz.relu.bf16x2.f32",
            'w',
            "ff",
            &[0xbf80_0000, ONE.into()]
        ),
        0x3f80
    );
    assert_eq!(
        any("cvt.rna.tf32.f32", 'w', "f", &[0x3f80_1000]),
        0x3f80_2000
    );
    assert_eq!(
        any("cvt.rn.tf32.f32", 'w', "f", &[0x3f80_1000]),
        0x3f80_0000
    );
}

#[test]
fn small_formats() {
    let one = ONE.into();
    let huge = 0x7f00_0000;
    assert_eq!(
        any("cvt.rn.satfinite.e4m3x2.f32", 'h', "ff", &[one, huge]),
        0x387e
    );
    assert_eq!(
        any("cvt.rn.satfinite.e5m2x2.f32", 'h', "ff", &[one, huge]),
        0x3c7b
    );
    assert_eq!(
        any(
            "cvt.rn.satfinite.relu.e4m3x2.f16x2",
            'h',
            "w",
            &[0xbc00_3c00]
        ),
        0x0038
    );
    assert_eq!(any("cvt.rn.f16x2.e4m3x2", 'w', "h", &[0x387f]), 0x3c00_7fff);
    assert_eq!(any("cvt.rn.f16x2.e5m2x2", 'w', "h", &[0x7bbc]), 0x7b00_bc00);
    assert_eq!(
        any("cvt.rn.satfinite.e2m3x2.f32", 'h', "ff", &[one, huge]),
        0x081f
    );
    assert_eq!(any("cvt.rn.f16x2.e3m2x2", 'w', "h", &[0x0c1f]), 0x3c00_4f00);
    assert_eq!(
        any(
            "cvt.rp.satfinite.ue8m0x2.f32",
            'h',
            "ff",
            &[one, 0x3f80_0001]
        ),
        0x7f80
    );
    assert_eq!(
        any("cvt.rn.bf16x2.ue8m0x2", 'w', "h", &[0x7f80]),
        0x3f80_4000
    );
    let minus_one = 0xffff_ffff;
    assert_eq!(
        any("cvt.pack.sat.u16.s32", 'w', "ww", &[minus_one, 70_000]),
        0x0000_ffff
    );
    assert_eq!(
        any(
            "cvt.pack.sat.s8.s32.b32",
            'w',
            "www",
            &[200, minus_one, 0xabcd]
        ),
        0xabcd_7fff
    );
    assert_eq!(any("cvt.sat.u8.s32", 'w', "w", &[300]), 255);
    assert_eq!(any("cvt.sat.s16.u64", 'w', "a", &[u64::MAX]), 0x7fff);
    assert_eq!(any("cvt.s16.s8", 'h', "h", &[0x0180]), 0xff80);
    assert_eq!(any("cvt.u32.s16", 'w', "h", &[0x8000]), 0xffff_8000);
}

/// Two values in 8 bits: `e2m1x2` goes through a byte of a vector.
#[test]
fn fp4() {
    let body = ".reg .b8 %byte;\n\
        cvt.u32.u64 %w0, %a0; mov.b32 %f0, %w0; cvt.u32.u64 %w1, %a1; mov.b32 %f1, %w1;\n\
        cvt.rn.satfinite.e2m1x2.f32 %byte, %f0, %f1;\n\
        cvt.rn.f16x2.e2m1x2 %w2, %byte; cvt.u64.u32 %r0, %w2;";
    // 2.4 becomes 2, and -100 becomes -6.
    assert_eq!(
        run(body, &[vec![0x4019_999a, 0xc2c8_0000]], 1)[0][0],
        0x4000_c600
    );
}

#[test]
fn packed_halves() {
    assert_eq!(
        any("add.f16x2", 'w', "ww", &[0x3c00_7bff, 0x3c00_7bff]),
        0x4000_7c00
    );
    assert_eq!(any("add.sat.f16", 'h', "hh", &[0x3c00, 0x3c00]), 0x3c00);
    assert_eq!(any("mul.ftz.f16", 'h', "hh", &[0x0400, 0x3800]), 0);
    assert_eq!(
        any("sub.bf16x2", 'w', "ww", &[0x4000_3f80, 0x3f80_3f80]),
        0x3f80_0000
    );
    // Rounded once: 0x3c01² - 0x3c02 = 2^-20.
    assert_eq!(
        any("fma.rn.f16", 'h', "hhh", &[0x3c01, 0x3c01, 0xbc02]),
        0x0010
    );
    assert_eq!(any("fma.rn.relu.bf16", 'h', "hhh", &[0xbf80, 0x3f80, 0]), 0);
    assert_eq!(
        any("max.NaN.f16x2", 'w', "ww", &[0x7e00_3c00, 0x3c00_4000]),
        0x7fff_4000
    );
    assert_eq!(
        any("min.xorsign.abs.bf16", 'h', "hh", &[0xc000, 0x3f80]),
        0xbf80
    );
    assert_eq!(any("neg.f16x2", 'w', "w", &[0x3c00_7e01]), 0xbc00_7fff);
    assert_eq!(any("abs.bf16", 'h', "h", &[0xbf80]), 0x3f80);
    assert_eq!(any("ex2.approx.f16", 'h', "h", &[0x4000]), 0x4400);
    assert_eq!(
        any("tanh.approx.bf16x2", 'w', "w", &[0x7f80_ff80]),
        0x3f80_bf80
    );
    let pair = 0x3f80_0000_4000_0000;
    assert_eq!(
        any("add.rn.f32x2", 'a', "aa", &[pair, pair]),
        0x4000_0000_4080_0000
    );
    assert_eq!(
        any("fma.rz.ftz.f32x2", 'a', "aaa", &[pair, pair, 1]),
        0x3f80_0000_4080_0000
    );
    assert_eq!(
        any("add.rm.f32.f16", 'f', "hf", &[0x3c00, TINY.into()]),
        ONE.into()
    );
    assert_eq!(
        any("sub.f32.bf16", 'f', "hf", &[0x4000, ONE.into()]),
        ONE.into()
    );
    assert_eq!(
        any("fma.rn.f32.f16", 'f', "hhf", &[0x4000, 0x4000, ONE.into()]),
        0x40a0_0000
    );
}

#[test]
fn approximate_functions() {
    let two = 0x4000_0000;
    assert_eq!(f32("ex2.approx.f32", &[two]), 0x4080_0000);
    assert_eq!(f32("ex2.approx.ftz.f32", &[0xc2fe_0000]), 0);
    assert_eq!(f32("lg2.approx.f32", &[two]), ONE);
    assert_eq!(f32("rcp.approx.ftz.f32", &[two]), 0x3f00_0000);
    assert_eq!(f32("rsqrt.approx.f32", &[0x4080_0000]), 0x3f00_0000);
    assert_eq!(f32("sqrt.approx.f32", &[0x4080_0000]), two);
    assert_eq!(f32("sin.approx.f32", &[0x7f80_0000]), NAN);
    assert_eq!(f32("cos.approx.ftz.f32", &[0]), ONE);
    assert_eq!(f32("tanh.approx.f32", &[0x7f80_0000]), ONE);
    assert_eq!(f32("div.approx.f32", &[ONE, 0x7f00_0000]), 0);
    assert_eq!(f32("div.full.f32", &[ONE, two]), 0x3f00_0000);
    // Forms of the first versions.
    assert_eq!(f32("ex2.f32", &[0]), ONE);
    assert_eq!(f32("div.f32", &[ONE, two]), 0x3f00_0000);
}

#[test]
fn video() {
    let body = "cvt.u32.u64 %w0, %a0; cvt.u32.u64 %w1, %a1; cvt.u32.u64 %w2, %a2; \
        vabsdiff4.u32.u32.u32.add %w3, %w0, %w1, %w2; \
        vadd.s32.u32.s32.sat %w4, %w0.b3, %w1.b0; \
        vmad.u32.u32.u32 %w5, %w0.h0, %w1.h1, %w2; \
        vset4.u32.u32.gt %w6, %w0, %w1, %w2; \
        vadd2.s32.s32.s32 %w7.h1, %w0.h01, %w1.h32, %w2; \
        cvt.u64.u32 %r0, %w3; cvt.u64.u32 %r1, %w4; cvt.u64.u32 %r2, %w5; cvt.u64.u32 %r3, %w6; \
        cvt.u64.u32 %r4, %w7;";
    let row = vec![0x1020_0304, 0x0403_0201, 10];
    let result = &run(body, &[row], 5)[0];
    assert_eq!(result[0], 10 + 12 + 29 + 1 + 3);
    assert_eq!(result[1], 0x11);
    assert_eq!(result[2], 0x0304 * 0x0403 + 10);
    assert_eq!(result[3], 0x0101_0101);
    // Upper half: lower half of the first and upper half of the second; the lower is the third operand's.
    assert_eq!(result[4], (0x0304 + 0x0403) << 16 | 10);
}

/// Full warps take the vector paths: the same bits as one lane at a time.
#[test]
fn full_warps_and_single_lanes_agree() {
    let values = [
        0,
        1 << 31,
        TINY,
        SUBNORMAL,
        ONE,
        0x7f7f_ffff,
        0x7f80_0000,
        0xffc0_0001_u32,
    ];
    let rows: Vec<Vec<u64>> = (0..512)
        .map(|i| {
            [i % 8, i / 8 % 8, i / 64]
                .map(|k| values[k].into())
                .to_vec()
        })
        .collect();
    let mut body = String::new();
    for i in 0..3 {
        body += &format!("cvt.u32.u64 %w{i}, %a{i}; mov.b32 %f{i}, %w{i};\n");
    }
    body += "fma.rn.f32 %f3, %f0, %f1, %f2; fma.rm.ftz.f32 %f4, %f0, %f1, %f2; \
        min.ftz.f32 %f5, %f0, %f1; div.rz.f32 %f6, %f0, %f1; ex2.approx.f32 %f7, %f0;\n";
    for i in 3..8 {
        body += &format!("mov.b32 %w{i}, %f{i}; cvt.u64.u32 %r{}, %w{i};\n", i - 3);
    }
    let together = run(&body, &rows, 5);
    for (row, result) in rows.chunks(3).zip(together.chunks(3)) {
        // Three rows are no full warp: blocks of one thread.
        assert_eq!(run(&body, row, 5), result, "{row:x?}");
    }
}
