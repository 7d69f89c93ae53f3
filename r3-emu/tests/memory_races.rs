//! The race check on shared memory, cache hints, and memory that changes while kernels run.

mod memory_support;

use memory_support::{Run, address};
use r3_emu::{FaultKind, Race};
use std::sync::atomic::{AtomicBool, Ordering};

const SHARED: &str = ".shared .align 16 .b8 s[1024];";

fn races(body: &str) -> Vec<Race> {
    let body = format!("mov.u32 %r1, s;\nmad.lo.u32 %r2, %t, 4, %r1;\n{body}");
    Run::with(SHARED, &body)
        .block(64)
        .zeros(256)
        .racecheck()
        .run()
        .report
        .races
}

#[test]
fn reading_a_neighbours_word_needs_a_barrier() {
    let body = |barrier: &str| {
        format!(
            "st.shared.u32 [%r2], %t;\n{barrier}\nxor.b32 %r3, %t, 32;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];"
        )
    };
    assert_eq!(races(&body("bar.sync 0;")), []);
    assert_eq!(races(&body("barrier.sync 3;")), []);
    let found = races(&body(""));
    assert_eq!(found.len(), 1, "{found:?}");
    let race = &found[0];
    assert_ne!(race.threads[0][0] / 32, race.threads[1][0] / 32);
    // Which of the two came first is up to the scheduler; the store is the one of the earlier line.
    let store = usize::from(race.pos[0].line > race.pos[1].line);
    assert_eq!((race.writes[store], race.writes[1 - store]), (true, false));
}

#[test]
fn the_barrier_at_the_end_of_a_loop_is_needed_too() {
    // Reads of the first round against writes of the second.
    let body = |barrier: &str| {
        format!(
            "mov.u32 %r5, 0;\nLOOP:\nst.shared.u32 [%r2], %t;\nbar.sync 0;\nxor.b32 %r3, %t, 32;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];\n\
             {barrier}\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 2;\n@%p1 bra LOOP;"
        )
    };
    assert_eq!(races(&body("bar.sync 0;")), []);
    let found = races(&body(""));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_ne!(found[0].writes[0], found[0].writes[1]);
}

#[test]
fn lanes_of_one_store_race_when_their_values_differ() {
    assert_eq!(
        races("st.shared.u32 [s], 7;\nbar.sync 0;").len(),
        1,
        "two warps write the same place"
    );
    let one_warp = |value: &str| {
        let body = format!("st.shared.u32 [s], {value};");
        Run::with(SHARED, &body).racecheck().run().report.races
    };
    assert_eq!(one_warp("7"), []);
    let found = one_warp("%t");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].threads, [[0, 0, 0], [1, 0, 0]]);
}

#[test]
fn atomics_flags_and_warp_synchronous_code_are_no_races() {
    assert_eq!(
        races("atom.shared.add.u32 %r3, [s], 1;\nred.shared.add.u32 [s+4], 1;"),
        []
    );
    // Warp 0 writes and sets a flag, warp 1 waits for it.
    let body = "setp.ge.u32 %p1, %t, 32;\n@%p1 bra WAIT;\nst.shared.u32 [%r2], %t;\nbar.warp.sync 0xffffffff;\nsetp.ne.u32 %p2, %t, 0;\n@%p2 ret;\n\
                st.release.cta.shared.u32 [s+512], 1;\nret;\nWAIT:\nld.acquire.cta.shared.u32 %r3, [s+512];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra WAIT;\n\
                xor.b32 %r3, %t, 32;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];";
    assert_eq!(races(body), []);
    // A volatile reduction within a warp.
    let body = "setp.ge.u32 %p1, %t, 32;\n@%p1 ret;\nst.volatile.shared.u32 [%r2], %t;\nld.volatile.shared.u32 %r3, [%r2+64];\nst.volatile.shared.u32 [%r2], %r3;";
    assert_eq!(races(body), []);
}

#[test]
fn asynchronous_copies_write() {
    let body = |wait: &str| {
        format!(
            "cp.async.ca.shared.global [%r2], [%a0], 4;\ncp.async.wait_all;\n{wait}\nxor.b32 %r3, %t, 32;\nmad.lo.u32 %r3, %r3, 4, %r1;\nld.shared.u32 %r4, [%r3];"
        )
    };
    assert_eq!(races(&body("bar.sync 0;")), []);
    assert_eq!(races(&body("")).len(), 1);
}

#[test]
fn hints_do_nothing_but_check_lines() {
    let body = "mov.u64 %rd1, 0;\nprefetch.global.L2 [%rd1];\nprefetchu.L1 [%rd1];\ncreatepolicy.fractional.L2::evict_last.b64 %rd2, 1.0;\n\
                ld.global.L2::cache_hint.u32 %r1, [%a0], %rd2;\ndiscard.global.L2 [%a0], 128;\napplypriority.global.L2::evict_normal [%a0], 128;";
    Run::new(body).zeros(128).run();
    let (kind, _) = Run::new("discard.global.L2 [%a0+64], 128;")
        .zeros(256)
        .fails();
    assert!(matches!(kind, FaultKind::Misaligned { align: 128, .. }));
}

/// A kernel that waits for a word sees what the host writes, and memory that the host maps meanwhile.
#[test]
fn the_host_maps_and_writes_while_a_kernel_waits() {
    let body = "WAIT:\nld.acquire.sys.global.u64 %rd1, [%a0];\nsetp.eq.u64 %p1, %rd1, 0;\n@%p1 bra WAIT;\nld.global.u32 %r1, [%rd1];\nst.global.u32 [%a0+8], %r1;\n\
                st.release.sys.global.u32 [%a0+12], 1;";
    let run = Run::new(body).block(1).zeros(16);
    let memory = run.memory.clone();
    let done = AtomicBool::new(false);
    let words = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Many other mappings come and go before the one that the kernel reads.
            for i in 0..200u64 {
                let at = 0x6000_0000_0000 + i * 0x1_0000;
                memory.map(at, 0x8000).expect("maps");
                if i % 2 == 0 {
                    memory.unmap(at, 0x8000).expect("unmaps");
                }
            }
            let at = 0x6000_0000_0000 + 199 * 0x1_0000;
            memory.write(at, &4242u32.to_le_bytes()).expect("writes");
            memory.write(address(0), &at.to_le_bytes()).expect("writes");
            done.store(true, Ordering::Release);
        });
        run.run().words(0)
    });
    assert!(done.load(Ordering::Acquire));
    assert_eq!(&words[2..], &[4242, 1]);
}
