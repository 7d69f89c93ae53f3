//! Loads and stores of all spaces, widths and vectors, and their faults.

mod memory_support;

use memory_support::{Run, address};
use r3_emu::FaultKind;

/// `%rd1` is the thread's place in buffer 0, `%rd2` in buffer 1, of so many bytes each.
fn places(from: u32, to: u32) -> String {
    format!("mad.wide.u32 %rd1, %t, {from}, %a0;\nmad.wide.u32 %rd2, %t, {to}, %a1;\n")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 37 + 11) as u8).collect()
}

#[test]
fn each_width_moves_its_bytes() {
    for (ty, register, bytes) in [
        ("b8", "%h1", 1),
        ("b16", "%h1", 2),
        ("u32", "%r1", 4),
        ("f32", "%f1", 4),
        ("b64", "%rd9", 8),
        ("f64", "%d1", 8),
        ("b128", "%q1", 16),
    ] {
        for (ld, st) in [
            ("ld.global", "st.global"),
            ("ld", "st"),
            ("ld.global.nc", "st.global.cg"),
        ] {
            let body = format!(
                "{}{ld}.{ty} {register}, [%rd1];\n{st}.{ty} [%rd2], {register};",
                places(bytes, bytes)
            );
            let data = pattern(bytes as usize * 32);
            let done = Run::new(&body).bytes(&data).zeros(data.len()).run();
            assert_eq!(done.bytes(1), data, "{ld}.{ty}");
        }
    }
}

#[test]
fn vectors_move_their_elements_in_order() {
    for (ty, n, list) in [
        ("v2.u32", 8, "{%r1, %r2}"),
        ("v4.u32", 16, "{%r1, %r2, %r3, %r4}"),
        ("v8.b32", 32, "{%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}"),
        ("v2.f64", 16, "{%d1, %d2}"),
        ("v4.b64", 32, "{%rd11, %rd12, %rd13, %rd14}"),
        ("v4.b8", 4, "{%h1, %h2, %h3, %h4}"),
        ("v2.b16", 4, "{%h1, %h2}"),
    ] {
        let body = format!(
            "{}ld.global.{ty} {list}, [%rd1];\nst.global.{ty} [%rd2], {list};",
            places(n, n)
        );
        let data = pattern(n as usize * 32);
        let done = Run::new(&body).bytes(&data).zeros(data.len()).run();
        assert_eq!(done.bytes(1), data, "{ty}");
    }
}

#[test]
fn narrow_loads_extend_to_wider_registers_by_their_sign() {
    let body = format!(
        "{}ld.global.s8 %r1, [%rd1];\nld.global.u8 %r2, [%rd1];\nld.global.s16 %r3, [%rd1];\nld.global.u16 %r4, [%rd1];\n\
         ld.global.s32 %rd11, [%rd1];\nld.global.u32 %rd12, [%rd1];\nld.global.s8 %rd13, [%rd1];\n\
         st.global.v4.u32 [%rd2], {{%r1, %r2, %r3, %r4}};\nst.global.v2.u64 [%rd2+16], {{%rd11, %rd12}};\n\
         st.global.u64 [%rd2+32], %rd13;",
        places(4, 48)
    );
    let done = Run::new(&body)
        .words(&[0x8765_f384; 32])
        .zeros(48 * 32)
        .run();
    let w = done.words(1);
    assert_eq!(&w[..4], &[0xffff_ff84, 0x84, 0xffff_f384, 0xf384]);
    let l = done.longs(1);
    assert_eq!(
        &l[2..5],
        &[0xffff_ffff_8765_f384, 0x8765_f384, 0xffff_ffff_ffff_ff84]
    );
}

#[test]
fn scattered_uniform_and_partial_accesses_agree() {
    // out[t] = in[31 - t], then in odd lanes in[5], under a guard.
    let body = "xor.b32 %r1, %t, 31;\nmad.wide.u32 %rd1, %r1, 4, %a0;\nmad.wide.u32 %rd2, %t, 4, %a1;\n\
         ld.global.u32 %r2, [%rd1];\nand.b32 %r3, %t, 1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 ld.global.u32 %r2, [%a0+20];\n\
         st.global.u32 [%rd2], %r2;\n@!%p1 st.global.u32 [%rd2+128], %r2;";
    let data: Vec<u32> = (100..132).collect();
    let done = Run::new(body).words(&data).zeros(256).run();
    for (t, w) in done.words(1).into_iter().enumerate() {
        let even = t % 2 == 0;
        let want = match t {
            0..32 if even => 131 - t as u32,
            0..32 => 105,
            _ if even => 131 - (t as u32 - 32),
            _ => 0,
        };
        assert_eq!(w, want, "{t}");
    }
}

#[test]
fn the_last_lane_of_a_uniform_store_stays() {
    let done = Run::new("setp.lt.u32 %p1, %t, 20;\n@%p1 st.global.u32 [%a0], %t;")
        .zeros(4)
        .run();
    assert_eq!(done.words(0), [19]);
}

#[test]
fn shared_memory_by_offset_and_by_generic_address() {
    for address in ["%r9", "%rd9"] {
        let body = format!(
            "mov.u32 %r8, s;\nmad.lo.u32 %r9, %t, 4, %r8;\ncvt.u64.u32 %rd9, %r9;\nst.shared.u32 [{address}], %t;\nbar.sync 0;\n\
             mov.u64 %rd3, s;\ncvta.shared.u64 %rd3, %rd3;\nxor.b32 %r1, %t, 7;\nmad.wide.u32 %rd3, %r1, 4, %rd3;\n\
             ld.u32 %r2, [%rd3];\nst.u32 [%rd3], %r2;\nld.shared.u32 %r2, [%r9];\nmad.wide.u32 %rd2, %r1, 4, %a0;\n\
             st.global.u32 [%rd2], %r2;"
        );
        let done = Run::with(".shared .align 4 .b8 s[256];", &body)
            .block(64)
            .zeros(256)
            .run();
        let want: Vec<u32> = (0..64).map(|t| t ^ 7).collect();
        assert_eq!(done.words(0), want);
    }
}

#[test]
fn local_memory_is_each_threads_own() {
    let body = ".local .align 8 .b8 l[64];\nmov.u64 %rd5, l;\ncvta.local.u64 %rd6, %rd5;\nand.b32 %r1, %t, 7;\nmad.wide.u32 %rd6, %r1, 8, %rd6;\n\
         st.u32 [%rd6], %t;\nmad.wide.u32 %rd5, %r1, 8, %rd5;\nld.local.u32 %r2, [%rd5];\nst.volatile.local.u32 [l+60], %r2;\n\
         ld.volatile.local.u32 %r3, [l+60];\nmad.wide.u32 %rd2, %t, 4, %a0;\nst.global.u32 [%rd2], %r3;";
    let done = Run::new(body).zeros(128).run();
    // Lanes whose first place is at offset 56 have it next to the second one.
    let want: Vec<u32> = (0..32).collect();
    assert_eq!(done.words(0), want);
}

#[test]
fn parameters_are_read_byte_by_byte() {
    let body = "ld.param.b8 %h1, [map+3];\nld.param.b16 %h2, [map+6];\nld.param.v2.u32 {%r1, %r2}, [map+8];\ncvt.u32.u16 %r3, %h1;\n\
         cvt.u32.u16 %r4, %h2;\nmov.b64 %rd5, map;\ncvta.param.u64 %rd5, %rd5;\nld.u32 %r5, [%rd5+16];\n\
         st.global.v4.u32 [%a0], {%r1, %r2, %r3, %r4};\nst.global.u32 [%a0+16], %r5;";
    let data = pattern(64);
    let done = Run::new(body).zeros(20).extra(&data).run();
    let word = |at: usize| u32::from_le_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let half = u32::from(data[6]) | u32::from(data[7]) << 8;
    assert_eq!(
        done.words(0),
        [word(8), word(12), u32::from(data[3]), half, word(16)]
    );
}

#[test]
fn addresses_of_constants_fit_into_32_bits() {
    // As LLVM writes them with short pointers: the address in a register of 32 bits, and from there to a generic one.
    let front = ".const .align 4 .u32 c[4] = {10, 20, 30, 40};";
    let body = "and.b32 %r1, %t, 3;\nshl.b32 %r1, %r1, 2;\nmov.b32 %r4, c;\nadd.s32 %r1, %r4, %r1;\n\
         ld.const.b32 %r2, [%r1];\nsub.s32 %r5, %r1, 12;\nld.const.b32 %r5, [%r5+12];\n\
         cvt.u64.u32 %rd3, %r1;\ncvta.const.u64 %rd4, %rd3;\nld.b32 %r3, [%rd4];\n\
         cvta.to.const.u64 %rd5, %rd4;\ncvt.u32.u64 %r6, %rd5;\nld.const.b32 %r6, [%r6];\n\
         add.u32 %r2, %r2, %r3;\nadd.u32 %r2, %r2, %r5;\nadd.u32 %r2, %r2, %r6;\n\
         mad.wide.u32 %rd2, %t, 4, %a0;\nst.global.u32 [%rd2], %r2;";
    let done = Run::with(front, body).zeros(128).run();
    let expected: Vec<u32> = (0..32).map(|i| 4 * (10 + 10 * (i % 4))).collect();
    assert_eq!(done.words(0), expected);
}

#[test]
fn constants_are_read_by_symbol_and_by_register() {
    let front = ".const .align 4 .u32 c[4] = {10, 20, 30, 40};";
    let body = "and.b32 %r1, %t, 3;\nmov.u64 %rd1, c;\nmad.wide.u32 %rd1, %r1, 4, %rd1;\nld.const.u32 %r2, [%rd1];\n\
         ld.const.u32 %r3, [c+4];\nadd.u32 %r2, %r2, %r3;\nmad.wide.u32 %rd2, %t, 4, %a0;\nst.global.u32 [%rd2], %r2;";
    let done = Run::with(front, body).zeros(128).run();
    assert_eq!(&done.words(0)[..5], &[30, 40, 50, 60, 30]);
}

#[test]
fn orders_scopes_and_cache_words_are_loads_and_stores() {
    for (ld, st) in [
        ("ld.volatile.global.u32", "st.volatile.global.u32"),
        ("ld.relaxed.gpu.global.u32", "st.relaxed.sys.global.u32"),
        ("ld.acquire.gpu.global.u32", "st.release.cta.global.u32"),
        ("ld.acquire.sys.u32", "st.release.gpu.u32"),
        (
            "ld.mmio.relaxed.sys.global.u32",
            "st.mmio.relaxed.sys.global.u32",
        ),
        (
            "ld.global.L1::no_allocate.L2::128B.u32",
            "st.global.L1::no_allocate.u32",
        ),
        ("ld.weak.global.u32", "st.weak.global.u32"),
        ("ldu.global.u32", "st.global.wt.u32"),
    ] {
        let body = format!("{}{ld} %r1, [%rd1];\n{st} [%rd2], %r1;", places(4, 4));
        let data: Vec<u32> = (7..39).collect();
        let done = Run::new(&body).words(&data).zeros(128).run();
        assert_eq!(done.words(1), data, "{ld} {st}");
    }
}

#[test]
fn out_of_bounds_names_the_first_lane_its_address_and_what_is_near() {
    // 20 words: lane 20 is the first behind them.
    let body = "mad.wide.u32 %rd1, %t, 4, %a0;\nld.global.u32 %r1, [%rd1];";
    let fault = Run::new(body).zeros(80).fault();
    assert_eq!(fault.thread, Some([20, 0, 0]));
    assert_eq!(
        fault.kind,
        FaultKind::OutOfBounds {
            space: "global",
            address: address(0) + 80,
            len: 4,
            write: false,
            nearby: Some("right behind the mapping 0x7f0000000000 of 80 bytes".to_owned()),
        }
    );
}

#[test]
fn lanes_that_are_off_do_not_fault() {
    let body = "setp.lt.u32 %p1, %t, 20;\nmad.wide.u32 %rd1, %t, 4, %a0;\n@%p1 ld.global.u32 %r1, [%rd1];\n@%p1 st.global.u32 [%rd1], %t;";
    let done = Run::new(body).zeros(80).run();
    assert_eq!(done.words(0)[19], 19);
}

#[test]
fn misaligned_accesses_fault_before_anything_else() {
    let (kind, thread) = Run::new("mad.wide.u32 %rd1, %t, 2, %a0;\nst.global.u32 [%rd1], %t;")
        .zeros(8)
        .fails();
    let expected = FaultKind::Misaligned {
        space: "global",
        address: address(0) + 2,
        align: 4,
    };
    assert_eq!((kind, thread), (expected, 1));
    // A vector is aligned as a whole.
    let (kind, _) = Run::new("ld.global.v2.u32 {%r1, %r2}, [%a0+4];")
        .zeros(64)
        .fails();
    let expected = FaultKind::Misaligned {
        space: "global",
        address: address(0) + 4,
        align: 8,
    };
    assert_eq!(kind, expected);
}

#[test]
fn null_shared_local_and_parameter_faults_name_their_space() {
    let fault = |body: &str| {
        let (kind, _) = Run::with(".shared .align 4 .b8 s[16];", body)
            .zeros(4)
            .fails();
        match kind {
            FaultKind::OutOfBounds {
                space,
                len,
                write,
                nearby,
                ..
            } => {
                format!("{space} {len} {write} {}", nearby.unwrap_or_default())
            }
            other => format!("{other:?}"),
        }
    };
    assert_eq!(
        fault("mov.u64 %rd1, 0;\nst.u32 [%rd1], %t;"),
        "global 4 true a null pointer, or a small offset from one"
    );
    assert_eq!(
        fault("mov.u32 %r1, s;\nld.shared.u32 %r1, [%r1+16];"),
        "shared 4 false shared memory of the block has 16 bytes"
    );
    let local = ".local .align 4 .b8 l[16];\nmov.u64 %rd1, l;\nadd.u64 %rd1, %rd1, 1048576;\n";
    assert!(
        fault(&format!("{local}st.local.u32 [%rd1], %t;"))
            .starts_with("local 4 true local memory of the thread has")
    );
    assert_eq!(
        fault("mov.b64 %rd1, p0;\ncvta.param.u64 %rd1, %rd1;\nld.u32 %r1, [%rd1+8];"),
        "param 4 false the parameter buffer has 8 bytes"
    );
}

#[test]
fn parameters_cannot_be_written_through_a_generic_address() {
    for write in ["st.u32 [%rd1], %t;", "atom.add.u32 %r1, [%rd1], 1;"] {
        let body = format!("mov.b64 %rd1, p0;\ncvta.param.u64 %rd1, %rd1;\n{write}");
        let (kind, _) = Run::new(&body).zeros(4).fails();
        let FaultKind::OutOfBounds {
            space,
            write: true,
            nearby,
            ..
        } = kind
        else {
            panic!("{kind:?}");
        };
        assert_eq!(space, "param");
        assert_eq!(
            nearby.as_deref(),
            Some("kernel parameters cannot be written")
        );
    }
}

#[test]
fn lanes_in_different_mappings_and_spaces_mix() {
    // Even lanes read buffer 0, odd ones shared memory, through one generic load.
    let body = "mov.u64 %rd1, s;\ncvta.shared.u64 %rd1, %rd1;\nst.shared.u32 [s], 77;\nbar.sync 0;\nand.b32 %r1, %t, 1;\nsetp.eq.u32 %p1, %r1, 0;\n\
         selp.b64 %rd3, %a0, %rd1, %p1;\nld.u32 %r2, [%rd3];\nsetp.lt.u32 %p2, %t, 16;\nselp.b64 %rd4, %a0, %a1, %p2;\n\
         ld.global.u32 %r3, [%rd4];\nadd.u32 %r2, %r2, %r3;\nmad.wide.u32 %rd2, %t, 4, %a2;\nst.global.u32 [%rd2], %r2;";
    let done = Run::with(".shared .align 4 .b8 s[16];", body)
        .words(&[1000])
        .words(&[5])
        .zeros(128)
        .run();
    let w = done.words(2);
    assert_eq!((w[0], w[1], w[16], w[17]), (2000, 1077, 1005, 82));
}

/// A parameter that clang 20 declares as an unaligned pointer is an ordinary pointer.
#[test]
fn a_pointer_parameter_with_alignment_one_is_loaded() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 .ptr .align 1 p0)\n{\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd1, [p0];\nret;\n}\n";
    let tree = r3_ptx::parse(ptx).expect("parses");
    r3_ptx::check(&tree).expect("checks");
}

#[test]
fn sectors_and_bank_conflicts_are_counted() {
    let count = |body: &str| {
        let report = Run::with(".shared .align 4 .b8 s[4096];", body)
            .zeros(4096)
            .run()
            .report;
        (report.counts.global_sectors, report.counts.bank_conflicts)
    };
    assert_eq!(
        count("mad.wide.u32 %rd1, %t, 4, %a0;\nld.global.u32 %r1, [%rd1];"),
        (4, 0)
    );
    assert_eq!(
        count("mad.wide.u32 %rd1, %t, 32, %a0;\nld.global.u32 %r1, [%rd1];"),
        (32, 0)
    );
    assert_eq!(count("ld.global.u32 %r1, [%a0];"), (1, 0));
    assert_eq!(
        count("xor.b32 %r2, %t, 21;\nmad.wide.u32 %rd1, %r2, 4, %a0;\nld.global.u32 %r1, [%rd1];"),
        (4, 0)
    );
    let shared = |stride: u32| {
        format!(
            "mul.lo.u32 %r1, %t, {stride};\nmov.u32 %r2, s;\nadd.u32 %r1, %r1, %r2;\nld.shared.u32 %r3, [%r1];"
        )
    };
    assert_eq!(count(&shared(4)), (0, 0));
    assert_eq!(count(&shared(8)), (0, 1));
    assert_eq!(count(&shared(128)), (0, 31));
    assert_eq!(count(&shared(0)), (0, 0));
}
