//! Atomics and reductions: each operation and type, in global, shared and generic space.

mod memory_support;

use memory_support::Run;
use r3_emu::FaultKind;

/// One thread does `op` on the first word of buffer 0 with `b`; what it got goes to buffer 1.
fn single(op: &str, bytes: usize, old: u64, b: u64) -> (u64, u64) {
    let register = match bytes {
        2 => "%h1",
        4 => "%r1",
        _ => "%rd1",
    };
    let (ty, to) = match bytes {
        2 => ("b16", "%h2"),
        4 => ("b32", "%r2"),
        _ => ("b64", "%rd2"),
    };
    let body = format!(
        "ld.global.{ty} {register}, [%a0+8];\natom.{op} {to}, [%a0], {register};\nst.global.{ty} [%a1], {to};"
    );
    let mut input = old.to_le_bytes().to_vec();
    input.extend(b.to_le_bytes());
    let done = Run::new(&body).block(1).bytes(&input).zeros(8).run();
    let mask = if bytes == 8 {
        u64::MAX
    } else {
        (1 << (8 * bytes)) - 1
    };
    (done.longs(0)[0] & mask, done.longs(1)[0])
}

#[test]
fn each_operation_returns_the_old_value_and_stores_the_new_one() {
    let f = |x: f32| u64::from(x.to_bits());
    let minus = 0xffff_fff0u64;
    for (op, bytes, old, b, new) in [
        ("global.add.u32", 4, 0xffff_ffff, 2, 1),
        ("add.s32", 4, 5, minus, 0xffff_fff5),
        ("global.add.u64", 8, 0xffff_ffff, 1, 0x1_0000_0000),
        ("global.add.f32", 4, f(1.5), f(2.25), f(3.75)),
        (
            "global.add.f64",
            8,
            1.5f64.to_bits(),
            0.25f64.to_bits(),
            1.75f64.to_bits(),
        ),
        ("global.min.s32", 4, 5, minus, minus),
        ("global.min.u32", 4, 5, minus, 5),
        ("global.max.s32", 4, 5, minus, 5),
        ("global.max.u64", 8, 5, u64::MAX, u64::MAX),
        ("global.max.s64", 8, 5, u64::MAX, 5),
        ("global.and.b32", 4, 0b1100, 0b1010, 0b1000),
        ("global.or.b32", 4, 0b1100, 0b1010, 0b1110),
        ("global.xor.b64", 8, 0b1100, 0b1010, 0b0110),
        ("global.inc.u32", 4, 7, 7, 0),
        ("global.inc.u32", 4, 6, 7, 7),
        ("global.dec.u32", 4, 0, 7, 7),
        ("global.dec.u32", 4, 8, 7, 7),
        ("global.exch.b32", 4, 8, 7, 7),
        ("relaxed.gpu.global.exch.b64", 8, 8, 7, 7),
        ("acq_rel.sys.global.add.u32", 4, 8, 7, 15),
        ("global.add.noftz.f16", 2, 0x3c00, 0x4000, 0x4200),
        ("global.add.noftz.bf16", 2, 0x3f80, 0x4000, 0x4040),
        (
            "global.add.noftz.f16x2",
            4,
            0x3c00_4000,
            0x4000_3c00,
            0x4200_4200,
        ),
        (
            "global.add.noftz.bf16x2",
            4,
            0x3f80_4000,
            0x4000_3f80,
            0x4040_4040,
        ),
    ] {
        let (stored, returned) = single(op, bytes, old, b);
        assert_eq!(stored, new, "{op} stores");
        assert_eq!(returned, old, "{op} returns");
    }
}

#[test]
fn compare_and_swap_of_all_widths() {
    let body = "mov.b16 %h1, 5;\nmov.b16 %h2, 9;\natom.global.cas.b16 %h3, [%a0], %h1, %h2;\natom.global.cas.b16 %h3, [%a0], %h1, %h2;\n\
         atom.global.cas.b32 %r1, [%a0+4], 5, 9;\natom.cas.b64 %rd1, [%a0+8], 5, 9;\n\
         cvt.u32.u16 %r2, %h3;\nst.global.v2.u32 [%a1], {%r2, %r1};\nst.global.u64 [%a1+8], %rd1;\n\
         ld.global.b128 %q1, [%a0+32];\nld.global.b128 %q2, [%a0+48];\natom.global.cas.b128 %q3, [%a0+16], %q1, %q2;\n\
         st.global.b128 [%a1+16], %q3;\natom.global.exch.b128 %q4, [%a0+48], %q1;\nst.global.b128 [%a1+32], %q4;";
    let input = [5, 5, 5, 0, 1, 2, 3, 4, 1, 2, 3, 4, 6, 7, 8, 9];
    let done = Run::new(body).block(1).words(&input).zeros(48).run();
    assert_eq!(
        done.words(0),
        [9, 9, 9, 0, 6, 7, 8, 9, 1, 2, 3, 4, 1, 2, 3, 4]
    );
    assert_eq!(done.words(1), [9, 5, 5, 0, 1, 2, 3, 4, 6, 7, 8, 9]);
}

#[test]
fn all_threads_of_all_blocks_count() {
    for (front, op) in [
        ("", "red.global.add.u32 [%a0], 1;"),
        ("", "atom.global.add.u32 %r1, [%a0], 1;"),
        ("", "red.relaxed.gpu.global.add.u32 [%a0], 1;"),
        ("", "atom.inc.u32 %r1, [%a0], 0xffffffff;"),
        (
            ".shared .align 4 .u32 s;",
            "atom.shared.add.u32 %r1, [s], 1;\nmov.u64 %rd1, s;\ncvta.shared.u64 %rd1, %rd1;\natom.add.u32 %r1, [%rd1], 1;\nbar.sync 0;\n\
             setp.ne.u32 %p1, %t, 0;\n@%p1 ret;\nld.shared.u32 %r2, [s];\nshr.u32 %r2, %r2, 1;\nred.global.add.u32 [%a0], %r2;",
        ),
    ] {
        let done = Run::with(front, op)
            .grid(37)
            .block(100)
            .threads(4)
            .zeros(4)
            .run();
        assert_eq!(done.words(0), [3700], "{op}");
    }
}

#[test]
fn lanes_go_in_their_order() {
    let body = "atom.global.exch.b32 %r1, [%a0], %t;\nmad.wide.u32 %rd1, %t, 4, %a1;\nst.global.u32 [%rd1], %r1;";
    let done = Run::new(body).words(&[99]).zeros(128).run();
    let want: Vec<u32> = std::iter::once(99).chain(0..31).collect();
    assert_eq!(done.words(1), want);
    assert_eq!(done.words(0), [31]);
}

#[test]
fn vectors_of_floats_are_added_element_by_element() {
    let body = "mov.f32 %f1, 0f3f800000;\nmov.f32 %f2, 0f40000000;\natom.global.add.v2.f32 {%f3, %f4}, [%a0], {%f1, %f2};\n\
         red.global.add.v4.f32 [%a0+16], {%f1, %f2, %f1, %f2};\nmov.b32 %r1, 0x3c004000;\nmov.b32 %r2, 0x40003c00;\n\
         red.global.max.noftz.v2.f16x2 [%a0+8], {%r1, %r2};\nst.global.v2.f32 [%a1], {%f3, %f4};";
    let one = 1f32.to_bits();
    let input = [one, one, 0x4000_3c00, 0x4000_3c00, 0, one, 0, one];
    let done = Run::new(body).block(1).words(&input).zeros(8).run();
    let w = done.words(0);
    assert_eq!(f32::from_bits(w[0]), 2.0);
    assert_eq!(f32::from_bits(w[1]), 3.0);
    assert_eq!(&w[2..4], &[0x4000_4000, 0x4000_3c00]);
    let sums: Vec<f32> = w[4..].iter().map(|b| f32::from_bits(*b)).collect();
    assert_eq!(sums, [1.0, 3.0, 1.0, 3.0]);
    assert_eq!(done.singles(1), [1.0, 1.0]);
}

#[test]
fn atomics_fault_like_stores() {
    let (kind, thread) = Run::new("mad.wide.u32 %rd1, %t, 4, %a0;\nred.global.add.u32 [%rd1], 1;")
        .zeros(8)
        .fails();
    assert!(matches!(
        kind,
        FaultKind::OutOfBounds {
            space: "global",
            write: true,
            ..
        }
    ));
    assert_eq!(thread, 2);
    let (kind, _) = Run::new("red.global.add.u64 [%a0+4], 1;").zeros(64).fails();
    assert!(matches!(kind, FaultKind::Misaligned { align: 8, .. }));
}

/// A lock that the lanes of one warp take after each other needs progress of the lane that has it.
#[test]
fn lanes_of_a_warp_can_wait_for_each_others_lock() {
    let body = "LOOP:\natom.global.cas.b32 %r1, [%a0], 0, 1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra LOOP;\nld.volatile.global.u32 %r2, [%a0+4];\n\
         add.u32 %r2, %r2, 1;\nst.volatile.global.u32 [%a0+4], %r2;\nmembar.gl;\natom.global.exch.b32 %r1, [%a0], 0;";
    let done = Run::new(body)
        .block(64)
        .grid(4)
        .threads(2)
        .words(&[0, 0])
        .run();
    assert_eq!(done.words(0), [0, 256]);
}

/// A block waits with acquire loads for what a later block releases.
#[test]
fn a_block_can_wait_for_a_later_block() {
    let body = "mov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 bra LAST;\nWAIT:\nld.acquire.gpu.global.u32 %r2, [%a0];\n\
         setp.eq.u32 %p2, %r2, 0;\n@%p2 bra WAIT;\nld.global.u32 %r3, [%a0+4];\nred.global.add.u32 [%a0+8], %r3;\nret;\n\
         LAST:\nst.global.u32 [%a0+4], 11;\nst.release.gpu.global.u32 [%a0], 1;";
    for threads in [1, 3] {
        let done = Run::new(body)
            .block(1)
            .grid(4)
            .threads(threads)
            .words(&[0; 3])
            .run();
        assert_eq!(done.words(0), [1, 11, 33]);
    }
}
