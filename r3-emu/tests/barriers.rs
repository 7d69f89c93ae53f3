//! Barriers: who counts, who waits, and what happens when nobody comes.

mod common;

use common::{Device, per_thread, run_threads};
use r3_emu::FaultKind;

/// numba #2655, #9770: a loop with `continue` around a barrier.
#[test]
fn divergent_lanes_may_reach_an_aligned_barrier_at_different_places() {
    let body = "
        and.b32 %r1, %t, 1;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra EVEN;
        bar.sync 0;
        mov.u32 %r0, 1;
        bra E;
        EVEN: bar.sync 0;
        mov.u32 %r0, 2;
        E:";
    let want: Vec<u32> = (0..64).map(|t| 2 - t % 2).collect();
    assert_eq!(run_threads(body, 64), want);
}

/// llvm #59632, #54633: what was written to shared memory before a barrier is there behind it.
#[test]
fn shared_memory_written_before_a_barrier_is_read_behind_it() {
    let body = "
        .shared .align 4 .b32 s[256];
        mov.u32 %r1, s;
        shl.b32 %r2, %t, 2;
        add.u32 %r2, %r1, %r2;
        st.shared.u32 [%r2], %t;
        bar.sync 0;
        sub.u32 %r3, 255, %t;
        shl.b32 %r3, %r3, 2;
        add.u32 %r3, %r1, %r3;
        ld.shared.u32 %r0, [%r3];";
    let want: Vec<u32> = (0..256).map(|t| 255 - t).collect();
    assert_eq!(run_threads(body, 256), want);
}

#[test]
fn exited_threads_count_as_arrived() {
    let body = "
        mov.u32 %r0, 5;
        setp.gt.u32 %p1, %t, 70;
        @%p1 exit;
        barrier.sync 3;
        barrier.sync 3;
        mov.u32 %r0, 6;";
    let got = run_threads(body, 128);
    assert_eq!(got[..71], [6; 71]);
    assert_eq!(got[71..], [0; 57]);
}

#[test]
fn a_producer_arrives_and_a_consumer_waits_at_a_counted_barrier() {
    let body = "
        .shared .align 4 .b32 s;
        setp.lt.u32 %p1, %t, 32;
        @%p1 bra CONSUMER;
        setp.eq.u32 %p2, %t, 40;
        @%p2 st.shared.u32 [s], 77;
        bar.arrive 2, 64;
        mov.u32 %r0, 1;
        bra E;
        CONSUMER: bar.sync 2, 64;
        ld.shared.u32 %r0, [s];
        E:";
    let got = run_threads(body, 64);
    assert_eq!(got[..32], [77; 32]);
    assert_eq!(got[32..], [1; 32]);
}

#[test]
fn reductions_at_a_barrier_count_all_threads() {
    let body = "
        setp.lt.u32 %p1, %t, 10;
        barrier.red.popc.u32 %r1, 1, %p1;
        barrier.red.and.pred %p2, 1, %p1;
        barrier.red.or.pred %p3, 1, %p1;
        barrier.red.and.pred %p4, 1, !%p5;
        selp.u32 %r2, 100, 0, %p2;
        selp.u32 %r3, 1000, 0, %p3;
        add.u32 %r0, %r1, %r2;
        add.u32 %r0, %r0, %r3;";
    assert_eq!(run_threads(body, 96), [1010; 96]);
}

/// facebookexperimental/triton #1040: a barrier that only some threads reach.
#[test]
fn a_barrier_that_some_never_reach_is_a_deadlock_that_names_who_waits() {
    let body = "
        .shared .align 4 .b32 s;
        setp.lt.u32 %p1, %t, 32;
        @%p1 bra A;
        barrier.sync 1;
        bra E;
        A: barrier.sync 2;
        E: mov.u32 %r0, 1;";
    let device = Device::new(&per_thread(body), &[0; 256]);
    let fault = device.launch("k", 1, 64).unwrap_err();
    let FaultKind::Deadlock(who) = &fault.kind else {
        panic!("{fault}");
    };
    assert!(who.contains("warp 0") && who.contains("warp 1"), "{who}");
    assert!(
        who.contains("barrier.sync 1") && who.contains("barrier.sync 2"),
        "{who}"
    );
    assert_eq!(fault.block, Some([0, 0, 0]));
}

#[test]
fn lanes_that_wait_for_a_lane_that_is_at_a_barrier_are_a_deadlock() {
    let body = "
        setp.eq.u32 %p1, %t, 3;
        @%p1 bra A;
        bar.warp.sync 0xffffffff;
        A: barrier.sync 0;
        mov.u32 %r0, 1;";
    let device = Device::new(&per_thread(body), &[0; 128]);
    let fault = device.launch("k", 1, 32).unwrap_err();
    let FaultKind::Deadlock(who) = &fault.kind else {
        panic!("{fault}");
    };
    assert!(who.contains("lanes 0x00000008 do not come"), "{who}");
}

/// A grid-wide barrier by hand: all blocks must be resident at once, on one host thread too.
#[test]
fn blocks_that_poll_for_each_other_all_run() {
    let ptx = "
        .visible .entry k(.param .u64 p) {
            .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>;
            ld.param.u64 %d1, [p];
            mov.u32 %r1, %tid.x;
            setp.ne.u32 %p1, %r1, 0;
            @%p1 bra WAIT;
            atom.global.add.u32 %r2, [%d1], 1;
        SPIN:
            ld.acquire.gpu.global.u32 %r3, [%d1];
            mov.u32 %r4, %nctaid.x;
            setp.lt.u32 %p2, %r3, %r4;
            @%p2 bra SPIN;
        WAIT:
            bar.sync 0;
            atom.global.add.u32 %r5, [%d1+4], 1;
            ret;
        }";
    for threads in [1, 2] {
        let mut device = Device::new(ptx, &[0; 8]);
        device.threads = threads;
        device.launch("k", 40, 64).unwrap();
        assert_eq!(device.words(2), [40, 40 * 64]);
    }
}

#[test]
fn a_race_on_shared_memory_is_reported_only_without_the_barrier() {
    let kernel = |barrier: &str| {
        per_thread(&format!(
            ".shared .align 4 .b32 s[64];
            mov.u32 %r1, s;
            shl.b32 %r2, %t, 2;
            add.u32 %r2, %r1, %r2;
            st.shared.u32 [%r2], %t;
            {barrier}
            xor.b32 %r3, %t, 32;
            shl.b32 %r3, %r3, 2;
            add.u32 %r3, %r1, %r3;
            ld.shared.u32 %r0, [%r3];"
        ))
    };
    for (barrier, races) in [("", true), ("bar.sync 0;", false)] {
        let mut device = Device::new(&kernel(barrier), &[0; 256]);
        device.racecheck = true;
        let report = device.launch("k", 1, 64).unwrap();
        assert_eq!(
            !report.races.is_empty(),
            races,
            "{barrier}: {:?}",
            report.races
        );
    }
}
