//! Who runs when: lanes that meet, blocks that wait for each other, and waits that nobody ends.

mod common;

use common::{BUFFER, Device, run_threads};
use r3_emu::{FaultKind, LaunchConfig};

#[test]
fn lanes_that_an_indexed_branch_parted_meet_where_its_ways_meet() {
    for order in ["A, B, C", "C, B, A", "B, C, A"] {
        let body = format!(
            "T: .branchtargets {order};
            rem.u32 %r1, %t, 3;
            brx.idx %r1, T;
            A: add.u32 %r2, %t, 100; bra MEET;
            B: add.u32 %r2, %t, 200; bra MEET;
            C: add.u32 %r2, %t, 300;
            MEET: activemask.b32 %r0;"
        );
        assert_eq!(run_threads(&body, 32), [u32::MAX; 32], "{order}");
    }
}

/// What cooperative groups and CUB are made of: functions with shuffles that both sides of a branch call.
#[test]
fn a_function_with_a_shuffle_serves_both_sides_of_a_branch() {
    let text = "
        .func (.reg .b32 %out) sum(.reg .b32 %in, .reg .b32 %mask) .noinline {
            .reg .b32 %x; .reg .pred %p;
            mov.u32 %out, %in;
            shfl.sync.bfly.b32 %x, %out, 2, 31, %mask; add.u32 %out, %out, %x;
            shfl.sync.bfly.b32 %x, %out, 4, 31, %mask; add.u32 %out, %out, %x;
            shfl.sync.bfly.b32 %x, %out, 8, 31, %mask; add.u32 %out, %out, %x;
            shfl.sync.bfly.b32 %x, %out, 16, 31, %mask; add.u32 %out, %out, %x;
            ret;
        }
        .func (.reg .b32 %out) outer(.reg .b32 %in, .reg .b32 %mask) .noinline {
            call (%out), sum, (%in, %mask);
            add.u32 %out, %out, 1000;
            ret;
        }
        .visible .entry k(.param .u64 p) {
            .reg .b32 %r<8>; .reg .b64 %d<3>; .reg .pred %p1;
            ld.param.u64 %d1, [p];
            mov.u32 %r1, %tid.x;
            mad.wide.u32 %d2, %r1, 4, %d1;
            and.b32 %r2, %r1, 1;
            setp.eq.u32 %p1, %r2, 0;
            @%p1 bra EVEN;
            call (%r3), outer, (%r1, 0xaaaaaaaa);
            bra MEET;
            EVEN: call (%r3), sum, (%r1, 0x55555555);
            MEET: bar.warp.sync -1;
            call (%r4), sum, (1, -1);
            add.u32 %r3, %r3, %r4;
            st.global.u32 [%d2], %r3;
            ret;
        }";
    let device = Device::new(text, &[0; 128]);
    device.launch("k", 1, 32).unwrap();
    // Even lanes sum to 240, odd ones to 256; the last sum is over 16 lanes of one parity.
    let want: Vec<u32> = (0..32)
        .map(|t| [240 + 16, 256 + 1000 + 16][t % 2])
        .collect();
    assert_eq!(device.words(32), want);
}

/// facebookexperimental/triton #1040: a barrier with a name, half of the warps at each, in a loop with several ways out.
#[test]
fn named_barriers_in_loops_with_break_and_continue_keep_their_pairs() {
    let body = "
        .shared .b32 turn[2];
        shr.u32 %r1, %t, 6;
        shl.b32 %r9, %r1, 2;
        mov.u32 %r8, turn; add.u32 %r9, %r8, %r9;
        add.u32 %r2, %r1, 1;
        and.b32 %r3, %t, 63;
        setp.eq.u32 %p1, %r3, 5;
        mov.u32 %r4, 0; mov.u32 %r5, 0;
        LOOP:
            setp.ge.u32 %p2, %r4, 10;
            @%p2 bra DONE;
            add.u32 %r4, %r4, 1;
            @%p1 st.shared.u32 [%r9], %r4;
            bar.sync %r2, 64;
            ld.shared.u32 %r6, [%r9];
            bar.sync %r2, 64;
            and.b32 %r7, %r4, 1;
            setp.eq.u32 %p3, %r7, %r1;
            @%p3 bra LOOP;
            add.u32 %r5, %r5, %r6;
            bra LOOP;
        DONE: mov.u32 %r0, %r5;";
    let got = run_threads(body, 128);
    // The first half skips even turns, the second odd ones.
    let want: Vec<u32> = (0..128).map(|t| if t < 64 { 25 } else { 30 }).collect();
    assert_eq!(got, want);
}

/// An atomic counter at which all blocks of a grid wait, many more than there are host threads, and no cooperative launch.
#[test]
fn a_barrier_of_the_grid_needs_no_cooperative_launch() {
    let text = "
        .visible .entry k(.param .u64 p) {
            .reg .b32 %r<9>; .reg .b64 %d<5>; .reg .pred %p<4>;
            ld.param.u64 %d1, [p];
            mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x;
            mov.u32 %r8, 0;
            setp.ne.u32 %p1, %r1, 0;
            ROUND:
            add.u32 %r8, %r8, 1;
            bar.sync 0;
            @%p1 bra WAITED;
            membar.gl;
            atom.global.add.u32 %r4, [%d1], 1;
            mul.lo.u32 %r5, %r3, %r8;
            SPIN: ld.acquire.gpu.global.u32 %r6, [%d1];
            setp.lt.u32 %p2, %r6, %r5;
            @%p2 bra SPIN;
            WAITED:
            bar.sync 0;
            setp.lt.u32 %p3, %r8, 3;
            @%p3 bra ROUND;
            @%p1 ret;
            atom.global.add.u32 %r7, [%d1+4], 1;
            ret;
        }";
    for threads in [1, 3] {
        let mut device = Device::new(text, &[0; 8]);
        device.threads = threads;
        device.launch("k", 300, 64).unwrap();
        assert_eq!(device.words(2), [900, 300]);
    }
}

/// Each block adds to what the block before it published: decoupled look-back, with blocks taking numbers as they start.
#[test]
fn blocks_that_look_back_find_what_blocks_before_them_published() {
    let text = "
        .visible .entry k(.param .u64 p) {
            .reg .b32 %r<9>; .reg .b64 %d<5>; .reg .pred %p<4>;
            ld.param.u64 %d1, [p];
            atom.global.add.u32 %r1, [%d1], 1;
            mov.u32 %r2, 0;
            setp.eq.u32 %p1, %r1, 0;
            mad.wide.u32 %d2, %r1, 4, %d1;
            @%p1 bra PUBLISH;
            SPIN: ld.relaxed.gpu.global.u32 %r2, [%d2];
            setp.eq.u32 %p2, %r2, 0;
            @%p2 bra SPIN;
            PUBLISH:
            add.u32 %r2, %r2, 7;
            st.release.gpu.global.u32 [%d2+4], %r2;
            ret;
        }";
    for threads in [1, 4] {
        let mut device = Device::new(text, &vec![0; 4 * 1002]);
        device.threads = threads;
        device.launch("k", 1000, 1).unwrap();
        let words = device.words(1001);
        assert_eq!(words[0], 1000);
        assert!((1..=1000).all(|i| words[i] == 7 * i as u32));
    }
}

fn deadlock(text: &str, grid: u32, block: u32, cluster: u32) -> String {
    let mut device = Device::new(text, &[0; 64]);
    // What ends these is not the limit.
    device.limit = None;
    let config = LaunchConfig {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        cluster: [cluster, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &BUFFER.to_le_bytes(),
        blocks: None,
    };
    let fault = device.run("k", &config).expect_err("a deadlock");
    assert!(matches!(fault.kind, FaultKind::Deadlock(_)), "{fault}");
    fault.to_string()
}

#[test]
fn a_phase_of_an_mbarrier_that_nobody_completes_is_a_deadlock() {
    for wait in ["try_wait", "test_wait"] {
        let text = format!(
            ".visible .entry k(.param .u64 p) {{
                .reg .pred %p; .reg .b64 %d; .reg .b32 %r;
                .shared .align 8 .b64 bar;
                mov.u32 %r, %tid.x;
                setp.eq.u32 %p, %r, 0;
                @%p mbarrier.init.shared.b64 [bar], 2;
                bar.sync 0;
                @%p mbarrier.arrive.shared.b64 %d, [bar];
                WAIT: mbarrier.{wait}.parity.shared.b64 %p, [bar], 0;
                @!%p bra WAIT;
                ret;
            }}"
        );
        let message = deadlock(&text, 3, 96, 1);
        assert!(
            message.contains("polls what nobody changes any more"),
            "{message}"
        );
        deadlock(&text, 4, 33, 2);
    }
}

#[test]
fn a_flag_in_shared_memory_that_nobody_sets_is_a_deadlock() {
    let text = ".visible .entry k(.param .u64 p) {
            .reg .pred %p; .reg .b32 %r<3>;
            .shared .b32 flag;
            mov.u32 %r1, %tid.x;
            setp.lt.u32 %p, %r1, 32;
            @%p bra WAIT;
            bar.sync 0;
            ret;
            WAIT: ld.volatile.shared.u32 %r2, [flag];
            setp.eq.u32 %p, %r2, 0;
            @%p bra WAIT;
            bar.sync 0;
            ret;
        }";
    let message = deadlock(text, 1, 64, 1);
    assert!(
        message.contains("32 threads of the block arrived"),
        "{message}"
    );
    let lock = ".visible .entry k(.param .u64 p) {
            .reg .pred %p; .reg .b32 %r;
            .shared .b32 held;
            LOCK: atom.shared.cas.b32 %r, [held], 0, 1;
            setp.ne.u32 %p, %r, 0;
            @%p bra LOCK;
            ret;
        }";
    deadlock(lock, 2, 64, 1);
}

/// Polls that end: by another warp late, by a clock, after a count.
#[test]
fn long_polls_are_no_deadlock() {
    let text = ".visible .entry k(.param .u64 p) {
            .reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<4>;
            .shared .b32 flag;
            ld.param.u64 %d1, [p];
            mov.u32 %r1, %tid.x;
            setp.lt.u32 %p, %r1, 32;
            @%p bra WAIT;
            mov.u64 %d2, %clock64;
            LATE: mov.u64 %d3, %clock64;
            nanosleep.u32 10;
            sub.u64 %d3, %d3, %d2;
            setp.lt.u64 %p, %d3, 20000;
            @%p bra LATE;
            mov.u32 %r3, 0;
            COUNT: ld.volatile.shared.u32 %r2, [flag];
            add.u32 %r3, %r3, 1;
            setp.lt.u32 %p, %r3, 20000;
            @%p bra COUNT;
            st.volatile.shared.u32 [flag], %r3;
            ret;
            WAIT: ld.volatile.shared.u32 %r2, [flag];
            setp.eq.u32 %p, %r2, 0;
            @%p bra WAIT;
            st.global.u32 [%d1], %r2;
            ret;
        }";
    let mut device = Device::new(text, &[0; 4]);
    device.limit = None;
    device.launch("k", 1, 64).unwrap();
    assert_eq!(device.words(1), [20000]);
}

/// llvm #101429: ordered and atomic accesses to local memory were lost.
#[test]
fn volatile_and_atomic_accesses_to_local_memory_take_place() {
    let body = "
        .local .align 8 .b32 x[2];
        mov.u64 %d1, x; cvta.local.u64 %d2, %d1;
        st.volatile.u32 [%d2], %t;
        atom.add.u32 %r1, [%d2], 5;
        ld.volatile.local.u32 %r2, [%d1];
        ld.relaxed.gpu.u32 %r3, [%d2];
        mul.lo.u32 %r2, %r2, 1000;
        add.u32 %r0, %r2, %r3; add.u32 %r0, %r0, %r1;";
    let want: Vec<u32> = (0..32).map(|t| (t + 5) * 1000 + t + 5 + t).collect();
    assert_eq!(run_threads(body, 32), want);
}

/// llvm #200924, #201165: a shift left by 31 with its sign extended, and a guarded wide shift.
#[test]
fn shifts_keep_their_width_before_they_are_extended() {
    let body = "
        shl.b32 %r1, %t, 31;
        cvt.s64.s32 %d1, %r1;
        shr.u64 %d2, %d1, 32;
        cvt.u32.u64 %r2, %d2;
        setp.lt.u32 %p1, %t, 16;
        cvt.u64.u32 %d3, %t;
        mul.lo.u32 %r4, %t, 5;
        shl.b64 %d4, %d3, %r4;
        shr.u64 %d4, %d4, %r4;
        cvt.u32.u64 %r3, %d4;
        selp.u32 %r0, %r2, %r3, %p1;";
    let want: Vec<u32> = (0..32u32)
        .map(|t| match t {
            0..16 => (t & 1).wrapping_neg(),
            _ => {
                let s = 5 * t;
                let kept = if s < 64 { (u64::from(t) << s) >> s } else { 0 };
                kept as u32
            }
        })
        .collect();
    assert_eq!(run_threads(body, 32), want);
}
