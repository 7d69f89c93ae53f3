//! Lanes that take different ways: they meet again, wait for each other, and end on their own.

mod common;

use common::{Device, per_thread, run_threads};

#[test]
fn lanes_that_took_different_ways_meet_and_vote_together() {
    let body = "
        and.b32 %r1, %t, 1;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra EVEN;
        add.u32 %r2, %t, 100;
        bra MEET;
        EVEN: add.u32 %r2, %t, 200;
        MEET: activemask.b32 %r3;
        setp.eq.u32 %p2, %r3, 0xffffffff;
        selp.u32 %r0, %r2, 0, %p2;";
    let want: Vec<u32> = (0..32)
        .map(|t| if t % 2 == 0 { t + 200 } else { t + 100 })
        .collect();
    assert_eq!(run_threads(body, 32), want);
}

#[test]
fn loops_of_different_length_meet_behind_the_loop() {
    let body = "
        mov.u32 %r0, 0;
        mov.u32 %r1, 0;
        LOOP: setp.ge.u32 %p1, %r1, %t;
        @%p1 bra DONE;
        add.u32 %r1, %r1, 1;
        add.u32 %r0, %r0, %r1;
        bra LOOP;
        DONE: activemask.b32 %r3;
        setp.ne.u32 %p2, %r3, 0xffffffff;
        @%p2 trap;";
    let want: Vec<u32> = (0..32).map(|t| t * (t + 1) / 2).collect();
    assert_eq!(run_threads(body, 32), want);
}

/// vortex #62, ventus-gpgpu #1: lowest-pc scheduling alone never lets the holder of the lock go on.
#[test]
fn lanes_of_a_warp_that_spin_for_a_lock_all_get_it() {
    let ptx = "
        .visible .entry k(.param .u64 p) {
            .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %d<4>;
            ld.param.u64 %d1, [p];
        SPIN:
            atom.global.cas.b32 %r1, [%d1], 0, 1;
            setp.ne.u32 %p1, %r1, 0;
            @%p1 bra SPIN;
            ld.volatile.global.u32 %r2, [%d1+4];
            add.u32 %r2, %r2, 1;
            st.volatile.global.u32 [%d1+4], %r2;
            membar.gl;
            atom.global.exch.b32 %r3, [%d1], 0;
            ret;
        }";
    let mut device = Device::new(ptx, &[0; 8]);
    device.threads = 2;
    device.launch("k", 4, 64).unwrap();
    assert_eq!(device.words(2), [0, 256]);
}

/// JuliaGPU/CUDAnative.jl #4: several exits with shared memory behind them.
#[test]
fn threads_that_exit_early_leave_the_others_alone() {
    let body = "
        setp.lt.u32 %p1, %t, 5;
        mov.u32 %r0, 7;
        @%p1 bra OUT;
        setp.gt.u32 %p2, %t, 40;
        @%p2 exit;
        bar.sync 0;
        activemask.b32 %r1;
        popc.b32 %r0, %r1;
        bra END;
        OUT: st.global.u32 [%at], %r0;
        exit;
        END:";
    let got = run_threads(body, 64);
    assert_eq!(got[..5], [7; 5]);
    assert_eq!(got[5..32], [27; 27]);
    assert_eq!(got[32..41], [9; 9]);
    assert_eq!(got[41..], [0; 23]);
}

#[test]
fn an_indexed_branch_sends_each_lane_to_its_target() {
    let body = "
        and.b32 %r1, %t, 3;
        T: .branchtargets A, B, C, D;
        brx.idx %r1, T;
        A: mov.u32 %r0, 10; bra E;
        B: mov.u32 %r0, 11; bra E;
        C: mov.u32 %r0, 12; bra E;
        D: mov.u32 %r0, 13;
        E:";
    let want: Vec<u32> = (0..32).map(|t| 10 + t % 4).collect();
    assert_eq!(run_threads(body, 32), want);
}

#[test]
fn a_warp_barrier_in_both_arms_of_a_branch_is_one_barrier() {
    let body = "
        setp.lt.u32 %p1, %t, 16;
        @%p1 bra LOW;
        bar.warp.sync 0xffffffff;
        mov.u32 %r0, 2;
        bra E;
        LOW: bar.warp.sync 0xffffffff;
        mov.u32 %r0, 1;
        E:";
    let want: Vec<u32> = (0..32).map(|t| if t < 16 { 1 } else { 2 }).collect();
    assert_eq!(run_threads(body, 32), want);
}

#[test]
fn the_last_warp_may_be_partial() {
    let want: Vec<u32> = (0..45).map(|t| if t < 32 { 32 } else { 13 }).collect();
    let body = "activemask.b32 %r1; popc.b32 %r0, %r1;";
    assert_eq!(run_threads(body, 45), want);
}

#[test]
fn predicated_instructions_change_only_their_lanes() {
    let body = "
        mov.u32 %r0, %t;
        setp.gt.u32 %p1, %t, 9;
        @%p1 add.u32 %r0, %r0, 1000;
        @!%p1 mul.lo.u32 %r0, %r0, 3;";
    let want: Vec<u32> = (0..32)
        .map(|t| if t > 9 { t + 1000 } else { t * 3 })
        .collect();
    assert_eq!(run_threads(body, 32), want);
}

#[test]
fn a_kernel_that_never_ends_reaches_the_limit() {
    let mut device = Device::new(&per_thread("L: bra L;"), &[0; 128]);
    device.limit = Some(100_000);
    let fault = device.launch("k", 1, 32).unwrap_err();
    assert_eq!(fault.kind, r3_emu::FaultKind::InstructionLimit(100_000));
}
