//! `cp.async`, mbarriers, bulk copies, stores to other blocks.

mod memory_support;

use memory_support::{Run, address};
use r3_emu::FaultKind;

const SHARED: &str = ".shared .align 128 .b8 s[2048];\n.shared .align 8 .b64 bar;";

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 37 + 11) as u8).collect()
}

/// Copies the first bytes of `s` to buffer 1, 16 a thread.
const OUT: &str = "mov.u32 %r30, s;\nmad.lo.u32 %r30, %t, 16, %r30;\nld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r30];\n\
                   mad.wide.u32 %rd30, %t, 16, %a1;\nst.global.v4.u32 [%rd30], {%r20, %r21, %r22, %r23};\n";

#[test]
fn asynchronous_copies_of_all_sizes_and_parts() {
    let copy = |text: &str| {
        let body = format!(
            "mov.u32 %r1, s;\nmad.lo.u32 %r1, %t, 16, %r1;\nst.shared.v4.u32 [%r1], {{-1, -1, -1, -1}};\nmad.wide.u32 %rd1, %t, 16, %a0;\n\
             setp.ge.u32 %p1, %t, 16;\nmov.u32 %r2, %t;\nmin.u32 %r2, %r2, 16;\n{text}\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
             bar.sync 0;\n{OUT}"
        );
        Run::with(SHARED, &body)
            .bytes(&pattern(512))
            .zeros(512)
            .run()
            .bytes(1)
    };
    assert_eq!(
        copy("cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;"),
        pattern(512)
    );
    let part = |bytes: usize| -> Vec<u8> {
        let source = pattern(512);
        (0..512)
            .map(|i| if i % 16 < bytes { source[i] } else { 0xff })
            .collect()
    };
    assert_eq!(copy("cp.async.ca.shared.global [%r1], [%rd1], 4;"), part(4));
    assert_eq!(
        copy("cp.async.ca.shared::cta.global [%r1], [%rd1], 8;"),
        part(8)
    );
    // Bytes behind the source's are zeros.
    let source = pattern(512);
    let by_thread: Vec<u8> = (0..512)
        .map(|i| if i % 16 < i / 16 { source[i] } else { 0 })
        .collect();
    assert_eq!(
        copy("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;"),
        by_thread
    );
    let ignored: Vec<u8> = (0..512)
        .map(|i| if i < 256 { source[i] } else { 0 })
        .collect();
    assert_eq!(
        copy("cp.async.cg.shared.global [%r1], [%rd1], 16, %p1;"),
        ignored
    );
}

#[test]
fn a_copy_of_nothing_does_not_read_its_source() {
    let body = "mov.u32 %r1, s;\nmov.u64 %rd1, 0;\nmov.u32 %r2, 0;\ncp.async.ca.shared.global [%r1], [%rd1], 8, %r2;\ncp.async.wait_all;";
    Run::with(SHARED, body).run();
    let (kind, _) = Run::with(SHARED, &body.replace("%r2, 0;", "%r2, 1;")).fails();
    assert!(matches!(
        kind,
        FaultKind::OutOfBounds {
            space: "global",
            address: 0,
            ..
        }
    ));
}

#[test]
fn a_pipeline_over_an_mbarrier() {
    // Warp 1 produces four times, warp 0 consumes; two mbarriers, by parity.
    let front =
        ".shared .align 8 .b64 full;\n.shared .align 8 .b64 empty;\n.shared .align 4 .b8 s[128];";
    let body = "setp.ne.u32 %p1, %t, 0;\n@%p1 bra READY;\nmbarrier.init.shared::cta.b64 [full], 32;\nmbarrier.init.shared::cta.b64 [empty], 32;\n\
         fence.mbarrier_init.release.cluster;\nREADY:\nbar.sync 0;\nand.b32 %r1, %t, 31;\nmov.u32 %r2, s;\nmad.lo.u32 %r2, %r1, 4, %r2;\n\
         mov.u32 %r3, 0;\nmov.u32 %r9, 0;\nsetp.ge.u32 %p2, %t, 32;\nLOOP:\nand.b32 %r4, %r3, 1;\nxor.b32 %r5, %r4, 1;\n@%p2 bra PRODUCE;\n\
         CONSUME:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r4;\n@!%p3 bra CONSUME;\nld.shared.u32 %r6, [%r2];\n\
         mad.lo.u32 %r9, %r9, 10, %r6;\nmbarrier.arrive.shared::cta.b64 _, [empty];\nbra NEXT;\nPRODUCE:\n\
         mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p3, [empty], %r5;\n@!%p3 bra PRODUCE;\nadd.u32 %r6, %r3, 1;\nst.shared.u32 [%r2], %r6;\n\
         mbarrier.arrive.release.cta.shared::cta.b64 %rd9, [full];\nNEXT:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p4, %r3, 4;\n@%p4 bra LOOP;\n\
         @%p2 ret;\nmad.wide.u32 %rd1, %t, 4, %a0;\nst.global.u32 [%rd1], %r9;";
    let done = Run::with(front, body)
        .block(64)
        .zeros(128)
        .racecheck()
        .run();
    assert_eq!(done.words(0), [1234; 32]);
    assert_eq!(done.report.races, []);
}

#[test]
fn states_counts_and_drops_of_an_mbarrier() {
    let body = "mbarrier.init.shared.b64 [bar], 3;\nmbarrier.arrive.shared.b64 %rd1, [bar];\nmbarrier.pending_count.b64 %r1, %rd1;\n\
         mbarrier.arrive.noComplete.shared.b64 %rd2, [bar], 1;\nmbarrier.pending_count.b64 %r2, %rd2;\n\
         mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;\nmbarrier.arrive_drop.shared.b64 %rd3, [bar];\n\
         mbarrier.test_wait.shared.b64 %p2, [bar], %rd1;\nmbarrier.arrive.shared.b64 %rd4, [bar], 2;\nmbarrier.pending_count.b64 %r3, %rd4;\n\
         mbarrier.test_wait.parity.shared.b64 %p3, [bar], 1;\nselp.u32 %r4, 1, 0, %p1;\nselp.u32 %r5, 1, 0, %p2;\nselp.u32 %r6, 1, 0, %p3;\n\
         mbarrier.inval.shared.b64 [bar];\nst.global.v4.u32 [%a0], {%r1, %r2, %r3, %r4};\nst.global.v2.u32 [%a0+16], {%r5, %r6};";
    let done = Run::with(SHARED, body).block(1).zeros(24).run();
    assert_eq!(done.words(0), [3, 2, 2, 0, 1, 1]);
}

#[test]
fn wrong_uses_of_an_mbarrier_are_faults() {
    let text = |body: &str| match Run::with(SHARED, body).block(1).fails().0 {
        FaultKind::Invalid(text) => text,
        other => format!("{other:?}"),
    };
    assert!(text("mbarrier.arrive.shared.b64 %rd1, [bar];").contains("no initialised mbarrier"));
    assert!(text("mbarrier.init.shared.b64 [bar], 0;").contains("count 0"));
    assert!(
        text("mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.shared.b64 %rd1, [bar], 2;")
            .contains("2 arrivals at an mbarrier whose phase waits for 1")
    );
    assert!(
        text("mov.u32 %r1, bar;\nmbarrier.init.shared.b64 [%r1+4], 1;").starts_with("Misaligned")
    );
}

#[test]
fn copies_arrive_at_an_mbarrier() {
    for (noinc, count, complete) in [("", 1, 0), (".noinc", 1, 1)] {
        let body = format!(
            "mbarrier.init.shared.b64 [bar], {count};\nmov.u32 %r1, s;\ncp.async.ca.shared.global [%r1], [%a0], 4;\n\
             cp.async.mbarrier.arrive{noinc}.shared.b64 [bar];\nmbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;\nselp.u32 %r2, 1, 0, %p1;\n\
             st.global.u32 [%a0], %r2;"
        );
        let done = Run::with(SHARED, &body).block(1).zeros(4).run();
        assert_eq!(done.words(0), [complete]);
    }
}

#[test]
fn bulk_copies_there_and_back() {
    let body = format!(
        "setp.ne.u32 %p1, %t, 0;\n@%p1 bra READY;\nmbarrier.init.shared.b64 [bar], 1;\nmov.u32 %r1, s;\nmov.u32 %r2, bar;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 512;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 256, [%r2];\nadd.u64 %rd1, %a0, 256;\n\
         cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r1+256], [%rd1], 256, [%r2];\nREADY:\nbar.sync 0;\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\n{OUT}@%p1 ret;\nfence.proxy.async.shared::cta;\n\
         cp.async.bulk.global.shared::cta.bulk_group [%a2], [%r1], 512;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;"
    );
    let done = Run::with(SHARED, &body)
        .bytes(&pattern(512))
        .zeros(512)
        .zeros(512)
        .run();
    assert_eq!(done.bytes(1), pattern(512));
    assert_eq!(done.bytes(2), pattern(512));
}

#[test]
fn bulk_copies_fault_on_sizes_alignment_and_bounds() {
    let fault = |copy: &str| {
        let body = format!("mov.u32 %r1, s;\ncp.async.bulk.global.shared::cta.bulk_group {copy};");
        Run::with(SHARED, &body).block(1).zeros(64).fails().0
    };
    assert!(
        matches!(fault("[%a0], [%r1], 24"), FaultKind::Invalid(text) if text.contains("24 bytes"))
    );
    assert!(matches!(
        fault("[%a0+8], [%r1], 16"),
        FaultKind::Misaligned { align: 16, .. }
    ));
    let expected = FaultKind::OutOfBounds {
        space: "global",
        address: address(0) + 16,
        len: 64,
        write: true,
        nearby: Some(
            "starts 48 bytes before the end of the mapping 0x7f0000000000 of 64 bytes".to_owned(),
        ),
    };
    assert_eq!(fault("[%a0+16], [%r1], 64"), expected);
    assert!(matches!(
        fault("[%a0], [%r1+2032], 32"),
        FaultKind::OutOfBounds {
            space: "shared",
            ..
        }
    ));
}

#[test]
fn bulk_reductions_combine_each_element() {
    let body = "mov.u32 %r1, s;\nst.shared.v4.u32 [%r1], {1, 2, 3, 4};\n\
         cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a0], [%r1], 16;\n\
         cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%a0+16], [%r1], 16;\nst.shared.v4.f32 [%r1], {0f3f800000, 0f3f800000, 0f40000000, 0f40000000};\n\
         cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%a0+32], [%r1], 16;\nst.shared.v4.u32 [%r1], {0x3c003c00, 0x3c003c00, 0x3c003c00, 0x3c003c00};\n\
         cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%a0+48], [%r1], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;";
    let one = 1f32.to_bits();
    let input = [
        10,
        10,
        10,
        10,
        2,
        2,
        2,
        u32::MAX,
        one,
        one,
        one,
        one,
        0x3c00_4000,
        0,
        0,
        0,
    ];
    let done = Run::with(SHARED, body).block(1).words(&input).run();
    let w = done.words(0);
    assert_eq!(&w[..8], &[11, 12, 13, 14, 2, 2, 3, 4]);
    let sums: Vec<f32> = w[8..12].iter().map(|b| f32::from_bits(*b)).collect();
    assert_eq!(sums, [2.0, 2.0, 3.0, 3.0]);
    assert_eq!(w[12], 0x4000_4200);
}

#[test]
fn blocks_of_a_cluster_send_to_each_other() {
    // Each block sends its rank to the next one's memory, in four ways, all counted at the mbarrier there.
    let front =
        ".shared .align 16 .b8 s[64];\n.shared .align 16 .b8 mine[16];\n.shared .align 8 .b64 bar;";
    let body = "mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;\nand.b32 %r2, %r2, 3;\nmov.u32 %r3, s;\nmov.u32 %r4, bar;\nmov.u32 %r12, mine;\n\
         mapa.shared::cluster.u32 %r5, %r3, %r2;\nmapa.shared::cluster.u32 %r6, %r4, %r2;\nmbarrier.init.shared.b64 [bar], 1;\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [bar], 36;\nst.shared.v4.u32 [%r12], {%r1, %r1, %r1, %r1};\nst.shared.u32 [s+32], 100;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\n\
         st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r5], %r1, [%r6];\n\
         st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r5+8], {%r1, 7}, [%r6];\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5+16], [%r12], 16, [%r6];\n\
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r5+32], 5, [%r6];\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\n\
         ld.shared.u32 %r7, [s];\nld.shared.u32 %r8, [s+8];\nld.shared.u32 %r9, [s+28];\nld.shared.u32 %r10, [s+32];\n\
         mad.wide.u32 %rd1, %r1, 16, %a0;\nst.global.v4.u32 [%rd1], {%r7, %r8, %r9, %r10};\nbarrier.cluster.arrive;\nbarrier.cluster.wait;";
    let done = Run::with(front, body)
        .block(1)
        .grid(4)
        .cluster(4)
        .zeros(64)
        .run();
    let want: Vec<u32> = [3, 0, 1, 2]
        .iter()
        .flat_map(|r| [*r, *r, *r, 105])
        .collect();
    assert_eq!(done.words(0), want);
}

#[test]
fn a_multicast_fills_all_blocks_of_its_mask() {
    let body = "mov.u32 %r1, %cluster_ctarank;\nmov.u32 %r2, s;\nmov.u32 %r3, bar;\nmbarrier.init.shared.b64 [bar], 1;\n\
         setp.eq.u32 %p3, %r1, 1;\n@!%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
         setp.eq.u32 %p1, %r1, 0;\nmov.b16 %h1, 5;\n\
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%a0], 16, [%r3], %h1;\n\
         @%p3 bra OUT;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\nOUT:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n\
         ld.shared.u32 %r4, [s+4];\nmad.wide.u32 %rd1, %r1, 4, %a1;\nst.global.u32 [%rd1], %r4;";
    let done = Run::with(SHARED, body)
        .block(1)
        .grid(3)
        .cluster(3)
        .words(&[1, 2, 3, 4])
        .zeros(12)
        .run();
    assert_eq!(done.words(1), [2, 0, 2]);
}
