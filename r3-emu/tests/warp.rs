//! Instructions in which the lanes of a warp work together, through PTX text, against plain references.

mod warp_support;

use proptest::prelude::*;
use r3_emu::FaultKind;
use warp_support::{Arg, Shape, kernel, lanes, run, try_run};

/// `shfl` as the ISA describes it, one lane at a time.
fn shuffled(mode: &str, lane: i64, b: u32, c: u32) -> (i64, bool) {
    let bval = i64::from(b & 31);
    let cval = i64::from(c & 31);
    let mask = i64::from((c >> 8) & 31);
    let max_lane = (lane & mask) | (cval & !mask);
    let min_lane = lane & mask;
    let (j, p) = match mode {
        "up" => (lane - bval, lane - bval >= max_lane),
        "down" => (lane + bval, lane + bval <= max_lane),
        "bfly" => (lane ^ bval, lane ^ bval <= max_lane),
        "idx" => {
            let j = min_lane | (bval & !mask);
            (j, j <= max_lane)
        }
        _ => unreachable!(),
    };
    if p { (j, true) } else { (lane, false) }
}

fn array(values: &[u32]) -> [u64; 32] {
    std::array::from_fn(|i| u64::from(values[i]))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn shuffles_read_the_lane_that_the_isa_names(
        values in prop::collection::vec(any::<u32>(), 32),
        operands in prop::collection::vec(any::<u32>(), 32),
        controls in prop::collection::vec(any::<u32>(), 32),
        sync in any::<bool>(),
    ) {
        for mode in ["up", "down", "bfly", "idx"] {
            let (word, mask) = if sync { (".sync", ", 0xffffffff") } else { ("", "") };
            let out = lanes(
                &format!(
                    "ld.global.u32 %r0, [%p0];\nld.global.u32 %r1, [%p1];\nld.global.u32 %r2, [%p2];\n\
                     shfl{word}.{mode}.b32 %r3|%q0, %r0, %r1, %r2{mask};\nselp.u32 %r4, 1, 0, %q0;\n\
                     st.global.v2.u32 [%p3], {{%r3, %r4}};"
                ),
                &[array(&values), array(&operands), array(&controls)],
            );
            for lane in 0..32 {
                let (from, inside) = shuffled(mode, lane as i64, operands[lane], controls[lane]);
                // A segment mask may name a lane beyond the warp for an invalid clamp; the ISA leaves that open.
                if (0..32).contains(&from) {
                    let want = u64::from(values[from as usize]) | u64::from(inside) << 32;
                    prop_assert_eq!(out[lane], want, "{} lane {}", mode, lane);
                }
            }
        }
    }

    #[test]
    fn matches_find_equal_values(
        values in prop::collection::vec(prop_oneof![Just(1u64), Just(1 << 32 | 1), Just(7), any::<u64>()], 32),
        groups in any::<u32>(),
    ) {
        let input = std::array::from_fn(|i| values[i]);
        // Two groups of lanes execute the same instruction with their own masks.
        let masks = std::array::from_fn(|i| u64::from(if groups >> i & 1 == 1 { groups } else { !groups }));
        for wide in [false, true] {
            let ty = if wide { "b64" } else { "b32" };
            let register = if wide { "%rd0" } else { "%r0" };
            let body = |instruction: &str| format!(
                "ld.global.u64 %rd0, [%p0];\ncvt.u32.u64 %r0, %rd0;\nld.global.u32 %r1, [%p1];\n{instruction}\n\
                 st.global.v2.u32 [%p2], {{%r2, %r3}};"
            );
            let any_of = lanes(
                &body(&format!("match.any.sync.{ty} %r2, {register}, %r1;\nmov.u32 %r3, 0;")),
                &[input, masks],
            );
            let all_of = lanes(
                &body(&format!("match.all.sync.{ty} %r2|%q0, {register}, %r1;\nselp.u32 %r3, 1, 0, %q0;")),
                &[input, masks],
            );
            let key = |lane: usize| if wide { values[lane] } else { values[lane] & 0xffff_ffff };
            for lane in 0..32 {
                let group: Vec<usize> = (0..32).filter(|&o| masks[o] == masks[lane]).collect();
                let equal: u64 = group.iter().filter(|&&o| key(o) == key(lane)).map(|&o| 1 << o).sum();
                prop_assert_eq!(any_of[lane], equal);
                let all = group.iter().all(|&o| key(o) == key(group[0]));
                prop_assert_eq!(all_of[lane], if all { masks[lane] | 1 << 32 } else { 0 });
            }
        }
    }

    #[test]
    fn reductions_combine_the_lanes_of_their_mask(
        values in prop::collection::vec(any::<u32>(), 32),
        groups in any::<u32>(),
    ) {
        let masks = std::array::from_fn(|i| u64::from(if groups >> i & 1 == 1 { groups } else { !groups }));
        type Combine = fn(u32, u32) -> u32;
        let cases: [(&str, Combine); 9] = [
            ("add.u32", u32::wrapping_add),
            ("add.s32", u32::wrapping_add),
            ("min.u32", u32::min),
            ("max.u32", u32::max),
            ("min.s32", |a, b| (a as i32).min(b as i32) as u32),
            ("max.s32", |a, b| (a as i32).max(b as i32) as u32),
            ("and.b32", |a, b| a & b),
            ("or.b32", |a, b| a | b),
            ("xor.b32", |a, b| a ^ b),
        ];
        for (op, combine) in cases {
            let out = lanes(
                &format!(
                    "ld.global.u32 %r0, [%p0];\nld.global.u32 %r1, [%p1];\nredux.sync.{op} %r2, %r0, %r1;\n\
                     st.global.u32 [%p2], %r2;"
                ),
                &[array(&values), masks],
            );
            for lane in 0..32 {
                let members = (0..32).filter(|&o| masks[o] == masks[lane]);
                let want = members.map(|o| values[o]).reduce(combine);
                prop_assert_eq!(Some(out[lane] as u32), want, "{}", op);
            }
        }
    }

    #[test]
    fn votes_count_the_lanes_of_their_mask(flags in any::<u32>(), groups in any::<u32>()) {
        let flag = std::array::from_fn(|i| u64::from(flags >> i & 1));
        let masks: [u64; 32] =
            std::array::from_fn(|i| u64::from(if groups >> i & 1 == 1 { groups } else { !groups }));
        for negated in [false, true] {
            let not = if negated { "!" } else { "" };
            let out = lanes(
                &format!(
                    "ld.global.u32 %r0, [%p0];\nld.global.u32 %r1, [%p1];\nsetp.ne.u32 %q0, %r0, 0;\n\
                     vote.sync.all.pred %q1, {not}%q0, %r1;\nvote.sync.any.pred %q2, {not}%q0, %r1;\n\
                     vote.sync.uni.pred %q3, {not}%q0, %r1;\nvote.sync.ballot.b32 %r2, {not}%q0, %r1;\n\
                     selp.u32 %r3, 1, 0, %q1;\nselp.u32 %r4, 2, 0, %q2;\nselp.u32 %r5, 4, 0, %q3;\n\
                     or.b32 %r3, %r3, %r4;\nor.b32 %r3, %r3, %r5;\nst.global.v2.u32 [%p2], {{%r2, %r3}};"
                ),
                &[flag, masks],
            );
            let said = if negated { !flags } else { flags };
            for lane in 0..32 {
                let mask = masks[lane] as u32;
                let yes = said & mask;
                let bits = u64::from(yes == mask)
                    | u64::from(yes != 0) << 1
                    | u64::from(yes == mask || yes == 0) << 2;
                prop_assert_eq!(out[lane], u64::from(yes) | bits << 32);
            }
        }
    }
}

#[test]
fn a_delta_of_32_and_more_is_cut_to_five_bits() {
    let values: [u64; 32] = std::array::from_fn(|i| 100 + i as u64);
    let out = lanes(
        "ld.global.u32 %r0, [%p0];\nmov.u32 %r1, 33;\nshfl.sync.down.b32 %r2, %r0, %r1, 31, -1;\n\
         st.global.u32 [%p1], %r2;",
        &[values],
    );
    for (lane, &out) in out[..31].iter().enumerate() {
        assert_eq!(out, 101 + lane as u64);
    }
}

#[test]
fn floating_point_reductions_treat_nan_and_zeros_as_minimum_and_maximum_do() {
    let nan = f32::NAN.to_bits();
    let of = |values: [f32; 4]| -> [u64; 32] {
        std::array::from_fn(|i| u64::from(values[i % 4].to_bits()))
    };
    let mixed = of([1.5, -2.5, f32::NAN, 0.5]);
    let zeros = of([0.0, -0.0, 0.0, -0.0]);
    for (op, input, want) in [
        ("min", mixed, (-2.5f32).to_bits()),
        ("max", mixed, 1.5f32.to_bits()),
        ("min.NaN", mixed, 0x7fff_ffff),
        ("max.abs", mixed, 2.5f32.to_bits()),
        ("min.abs", mixed, 0.5f32.to_bits()),
        ("max.abs.NaN", mixed, 0x7fff_ffff),
        ("min", zeros, (-0.0f32).to_bits()),
        ("max", zeros, 0),
        ("max", [u64::from(nan); 32], 0x7fff_ffff),
    ] {
        let out = lanes(
            &format!(
                "ld.global.u32 %r0, [%p0];\nmov.b32 %f0, %r0;\nredux.sync.{op}.f32 %f1, %f0, 0xffffffff;\n\
                 st.global.f32 [%p1], %f1;"
            ),
            &[input],
        );
        assert_eq!(out[7] as u32, want, "{op}");
    }
}

#[test]
fn lanes_that_left_are_not_waited_for() {
    // Lanes 20 and above exit; the others name all lanes.
    let values = std::array::from_fn(|i| i as u64 + 1);
    let out = lanes(
        "setp.ge.u32 %q0, %lane, 20;\n@%q0 exit;\nld.global.u32 %r0, [%p0];\n\
         shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffffffff;\nsetp.gt.u32 %q1, %r0, 0;\n\
         vote.sync.ballot.b32 %r2, %q1, 0xffffffff;\nst.global.v2.u32 [%p1], {%r1, %r2};",
        &[values],
    );
    for lane in 0..20u64 {
        assert_eq!(out[lane as usize], ((lane ^ 1) + 1) | 0xf_ffff << 32);
    }
    assert_eq!(out[20..], [0; 12]);
}

#[test]
fn shuffles_after_a_divergent_write_see_what_was_written() {
    // Both arms write the shuffled register, at different lengths of way.
    let out = lanes(
        "and.b32 %r0, %lane, 1;\nsetp.eq.u32 %q0, %r0, 0;\nmov.u32 %r1, 5;\n@%q0 bra even;\n\
         mul.lo.u32 %r1, %lane, 10;\nadd.u32 %r1, %r1, 1;\nxor.b32 %r2, %r1, 3;\nadd.u32 %r1, %r1, 1;\nbra join;\n\
         even:\nmul.lo.u32 %r1, %lane, 1000;\njoin:\nshfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;\nst.global.u32 [%p0], %r3;",
        &[],
    );
    for lane in 0..32u64 {
        let other = lane ^ 1;
        let want = if other % 2 == 0 {
            other * 1000
        } else {
            other * 10 + 2
        };
        assert_eq!(out[lane as usize], want);
    }
}

#[test]
fn lanes_of_one_arm_shuffle_among_themselves() {
    let out = lanes(
        "mov.u32 %r9, 77;\nsetp.lt.u32 %q0, %lane, 16;\n@!%q0 bra done;\n\
         shfl.sync.idx.b32 %r9, %lane, 15, 31, 0xffff;\nvote.sync.ballot.b32 %r8, 1, 0xffff;\nadd.u32 %r9, %r9, %r8;\n\
         done:\nst.global.u32 [%p0], %r9;",
        &[],
    );
    assert_eq!(out[..16], [15 + 0xffff; 16]);
    assert_eq!(out[16..], [77; 16]);
}

#[test]
fn lanes_that_do_not_take_part_give_zero() {
    // Lanes 0 to 15 ask their neighbours 16 lanes up, who are elsewhere; with the old form and the new one.
    for (word, mask) in [("", ""), (".sync", ", 0xffff")] {
        let out = lanes(
            &format!(
                "add.u32 %r0, %lane, 7;\nmov.u32 %r1, 5;\nsetp.ge.u32 %q0, %lane, 16;\n@%q0 bra done;\n\
                 shfl{word}.bfly.b32 %r1|%q1, %r0, 16, 31{mask};\nselp.u32 %r2, 1, 0, %q1;\ndone:\n\
                 st.global.v2.u32 [%p0], {{%r1, %r2}};"
            ),
            &[],
        );
        assert_eq!(out[..16], [1 << 32; 16]);
        assert_eq!(out[16..], [5; 16]);
    }
}

#[test]
fn one_instruction_serves_groups_with_masks_of_their_own() {
    let out = lanes(
        "shr.u32 %r0, %lane, 3;\nshl.b32 %r1, %r0, 3;\nmov.u32 %r2, 0xff;\nshl.b32 %r2, %r2, %r1;\n\
         shfl.sync.idx.b32 %r3, %lane, 3, 0x181f, %r2;\nredux.sync.add.u32 %r4, %lane, %r2;\n\
         st.global.v2.u32 [%p0], {%r3, %r4};",
        &[],
    );
    for lane in 0..32u64 {
        let first = lane & !7;
        let sum: u64 = (first..first + 8).sum();
        assert_eq!(out[lane as usize], (first + 3) | sum << 32);
    }
}

#[test]
fn warp_barriers_in_both_arms_meet() {
    // Shared memory is exchanged across the two barriers.
    let out = lanes(
        ".shared .align 4 .b32 box[32];\nmov.u32 %r0, box;\nshl.b32 %r1, %lane, 2;\nadd.u32 %r0, %r0, %r1;\n\
         and.b32 %r2, %lane, 1;\nsetp.eq.u32 %q0, %r2, 0;\n@%q0 bra even;\nst.shared.u32 [%r0], 100;\n\
         bar.warp.sync 0xffffffff;\nld.shared.u32 %r3, [%r0+-4];\nbra join;\n\
         even:\nst.shared.u32 [%r0], 200;\nbar.warp.sync -1;\nld.shared.u32 %r3, [%r0+4];\njoin:\nst.global.u32 [%p0], %r3;",
        &[],
    );
    for pair in out.chunks(2) {
        assert_eq!(pair, [100, 200]);
    }
}

#[test]
fn a_value_that_nobody_set_may_be_shuffled() {
    // Lanes from 4 on pass a register that was never written; nobody looks at what comes from them.
    let out = lanes(
        "setp.ge.u32 %q0, %lane, 4;\n@%q0 bra skip;\nadd.u32 %r0, %lane, 50;\nskip:\n\
         shfl.sync.idx.b32 %r1, %r0, 2, 31, -1;\nsetp.ne.u32 %q1, %r1, 52;\n@%q1 trap;\nst.global.u32 [%p0], %r1;",
        &[],
    );
    assert_eq!(out, [52; 32]);
}

#[test]
fn scans_are_right_when_lanes_come_at_different_times() {
    // Each lane counts to its own number before the scan; twice, so that the second scan follows the first closely.
    let out = lanes(
        "mov.u32 %r0, 0;\nmov.u32 %r9, 2;\nagain:\nmov.u32 %r1, 0;\ncount:\nadd.u32 %r1, %r1, 1;\n\
         setp.le.u32 %q0, %r1, %lane;\n@%q0 bra count;\nmov.u32 %r2, 1;\nscan:\n\
         shfl.sync.up.b32 %r3|%q1, %r1, %r2, 0, -1;\n@%q1 add.u32 %r1, %r1, %r3;\nshl.b32 %r2, %r2, 1;\n\
         setp.lt.u32 %q2, %r2, 32;\n@%q2 bra scan;\nadd.u32 %r0, %r0, %r1;\nsub.u32 %r9, %r9, 1;\n\
         setp.ne.u32 %q3, %r9, 0;\n@%q3 bra again;\nst.global.u32 [%p0], %r0;",
        &[],
    );
    for lane in 0..32u64 {
        assert_eq!(out[lane as usize], (lane + 1) * (lane + 2));
    }
}

#[test]
fn old_votes_are_about_the_active_lanes() {
    let out = lanes(
        "setp.lt.u32 %q0, %lane, 10;\n@!%q0 bra done;\nsetp.ne.u32 %q1, %lane, 3;\nvote.ballot.b32 %r0, %q1;\n\
         vote.all.pred %q2, %q1;\nvote.any.pred %q3, %q1;\nvote.uni.pred %q4, %q1;\nselp.u32 %r1, 1, 0, %q2;\n\
         selp.u32 %r2, 2, 0, %q3;\nselp.u32 %r3, 4, 0, %q4;\nor.b32 %r1, %r1, %r2;\nor.b32 %r1, %r1, %r3;\n\
         activemask.b32 %r4;\nshl.b32 %r4, %r4, 8;\nor.b32 %r1, %r1, %r4;\ndone:\nst.global.v2.u32 [%p0], {%r0, %r1};",
        &[],
    );
    assert_eq!(out[..10], [0x3f7 | (2 | 0x3ff << 8) << 32; 10]);
    assert_eq!(out[10..], [0; 22]);
}

#[test]
fn modifiers_of_votes_come_in_any_order() {
    let out = lanes(
        "setp.lt.u32 %q0, %lane, 5;\nvote.ballot.sync.b32 %r0, %q0, 0xffffffff;\nst.global.u32 [%p0], %r0;",
        &[],
    );
    assert_eq!(out, [31; 32]);
}

#[test]
fn one_lane_of_the_mask_is_elected() {
    let out = lanes(
        "setp.ge.u32 %q0, %lane, 6;\n@!%q0 bra done;\nelect.sync %r0|%q1, 0xffffffc0;\nselp.u32 %r1, 1, 0, %q1;\n\
         done:\nst.global.v2.u32 [%p0], {%r0, %r1};",
        &[],
    );
    assert_eq!(out[6], 6 | 1 << 32);
    assert_eq!(out[7..], [6; 25]);
}

#[test]
fn a_lane_that_never_comes_is_a_deadlock() {
    // Lane 0 waits for lane 1 at a warp barrier, lane 1 for lane 0's word in shared memory, without end.
    let ptx = kernel(
        1,
        ".shared .align 4 .b32 box[2];\nst.shared.u32 [box], 0;\nsetp.eq.u32 %q0, %lane, 0;\n@%q0 bra first;\n\
         bar.sync 0, 64;\nbra done;\nfirst:\nshfl.sync.idx.b32 %r0, %lane, 1, 31, 3;\ndone:",
    );
    let fault = try_run(&ptx, "k", Shape::new(1, 32), &mut [Arg::zeros(8)]).expect_err("hangs");
    assert!(matches!(fault.kind, FaultKind::Deadlock(_)), "{fault}");
}

/// Code of a compiler.
mod compiled {
    use super::*;

    const GROUPS: &str = include_str!("fixtures/warp/groups.ptx");

    fn numbers(n: usize) -> Vec<u32> {
        (0..n as u32)
            .map(|i| i.wrapping_mul(2_654_435_761) >> 20)
            .collect()
    }

    #[test]
    fn cooperative_groups_add_over_a_grid() {
        let input = numbers(1000);
        let mut args = [Arg::words(&input), Arg::zeros(4), Arg::Scalar(1000)];
        run(GROUPS, "block_sum", Shape::new(3, 128), &mut args);
        assert_eq!(args[1].to_words(), [input.iter().sum::<u32>()]);
    }

    #[test]
    fn tiles_of_eight_find_their_maximum() {
        let input: Vec<f32> = numbers(64).iter().map(|&v| v as f32 - 2000.0).collect();
        let mut args = [Arg::singles(&input), Arg::zeros(256)];
        run(GROUPS, "tile_max", Shape::new(1, 64), &mut args);
        for (out, tile) in args[1].to_singles().chunks(8).zip(input.chunks(8)) {
            assert_eq!(out, [tile.iter().copied().fold(f32::MIN, f32::max); 8]);
        }
    }

    #[test]
    fn tiles_of_sixteen_scan() {
        let input = numbers(96);
        let mut args = [Arg::words(&input), Arg::zeros(96 * 4)];
        run(GROUPS, "tile_scan", Shape::new(1, 96), &mut args);
        for (i, out) in args[1].to_words().into_iter().enumerate() {
            assert_eq!(out, input[i / 16 * 16..i].iter().sum::<u32>());
        }
    }

    #[test]
    fn coalesced_lanes_take_places_together() {
        let input = numbers(200);
        let mut args = [
            Arg::words(&input),
            Arg::zeros(800),
            Arg::zeros(4),
            Arg::Scalar(200),
        ];
        run(GROUPS, "filter", Shape::new(2, 128), &mut args);
        let mut want: Vec<u32> = input.into_iter().filter(|v| v % 3 == 0).collect();
        assert_eq!(args[2].to_words(), [want.len() as u32]);
        let mut out = args[1].to_words();
        out.truncate(want.len());
        out.sort_unstable();
        want.sort_unstable();
        assert_eq!(out, want);
    }

    #[test]
    fn lanes_with_the_same_key_add_among_themselves() {
        let keys: Vec<u32> = numbers(64).iter().map(|v| v % 5).collect();
        let input = numbers(64);
        let mut args = [Arg::words(&keys), Arg::words(&input), Arg::zeros(256)];
        run(GROUPS, "by_key", Shape::new(1, 64), &mut args);
        for (i, out) in args[2].to_words().into_iter().enumerate() {
            let warp = i / 32 * 32..i / 32 * 32 + 32;
            let same = warp.filter(|&o| keys[o] == keys[i]);
            assert_eq!(out, same.map(|o| input[o]).sum::<u32>(), "thread {i}");
        }
    }
}
