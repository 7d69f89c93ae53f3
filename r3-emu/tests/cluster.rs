//! Clusters: shared memory of other blocks, and barriers over a cluster.

mod warp_support;

use r3_emu::FaultKind;
use warp_support::{Arg, Shape, run, try_run};

const CLUSTER: &str = include_str!("fixtures/warp/cluster.ptx");

#[test]
fn blocks_of_a_cluster_count_into_each_others_bins() {
    let input: Vec<u32> = (0..3000u32)
        .map(|i| i.wrapping_mul(2_654_435_761) >> 7)
        .collect();
    let mut args = [Arg::words(&input), Arg::zeros(256), Arg::Scalar(3000)];
    run(
        CLUSTER,
        "histogram",
        Shape::new(8, 64).clusters(4),
        &mut args,
    );
    let mut want = [0; 64];
    for v in input {
        want[v as usize % 64] += 1;
    }
    assert_eq!(args[1].to_words(), want);
}

#[test]
fn the_kernel_says_how_big_its_clusters_are() {
    // `.reqnctapercluster` holds where the launch names none.
    let mut args = [
        Arg::words(&[5, 20, 40, 63]),
        Arg::zeros(256),
        Arg::Scalar(4),
    ];
    run(CLUSTER, "histogram", Shape::new(4, 32), &mut args);
    let out = args[1].to_words();
    assert_eq!(out.iter().sum::<u32>(), 4);
    assert_eq!([out[5], out[20], out[40], out[63]], [1; 4]);
}

#[test]
fn values_go_round_a_ring_of_blocks() {
    for size in [1, 2, 3, 8] {
        let mut args = [Arg::zeros(4 * 24)];
        run(
            CLUSTER,
            "ring",
            Shape::new(24, 40).clusters(size),
            &mut args,
        );
        for (block, out) in args[0].to_words().into_iter().enumerate() {
            // Doubled at each step, back where it began.
            let rank = block as u32 % size;
            assert_eq!(
                out,
                (rank + 1) << size,
                "block {block} of clusters of {size}"
            );
        }
    }
}

#[test]
fn addresses_know_their_block() {
    let mut args = [Arg::zeros(16 * 12)];
    run(CLUSTER, "ranks", Shape::new(12, 32).clusters(3), &mut args);
    for (block, out) in args[0].to_words().chunks(4).enumerate() {
        let rank = block as u32 % 3;
        assert_eq!(out, [(rank + 1) % 3, rank, rank, 3]);
    }
}

/// A kernel of clusters of two.
fn pair(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) .reqnctapercluster 2, 1, 1\n{{\n\
         .shared .align 8 .b8 box[256];\n.reg .b64 %rd<8>;\n.reg .b32 %r<16>;\n.reg .pred %q<4>;\n.reg .b32 %lane, %rank;\n\
         mov.u32 %lane, %tid.x;\nmov.u32 %rank, %cluster_ctarank;\nld.param.u64 %rd0, [out];\nmov.u32 %r0, %ctaid.x;\n\
         mad.lo.u32 %r0, %r0, 32, %lane;\nmad.wide.u32 %rd0, %r0, 4, %rd0;\n{body}\nret;\n}}\n"
    )
}

#[test]
fn threads_that_left_are_not_waited_for_by_the_cluster() {
    // Half of block 1 leaves before the barrier.
    let text = pair(
        "setp.eq.u32 %q0, %rank, 1;\nsetp.lt.u32 %q1, %lane, 16;\nand.pred %q0, %q0, %q1;\n@%q0 exit;\n\
         shl.b32 %r1, %lane, 2;\nmov.u32 %r2, box;\nadd.u32 %r1, %r1, %r2;\nmad.lo.u32 %r3, %rank, 100, %lane;\n\
         st.shared.u32 [%r1], %r3;\nbarrier.cluster.arrive;\nadd.u32 %r3, %r3, 1;\nbarrier.cluster.wait;\n\
         xor.b32 %r4, %rank, 1;\nmapa.shared::cluster.u32 %r5, %r1, %r4;\nld.shared::cluster.u32 %r6, [%r5];\n\
         barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\nst.global.u32 [%rd0], %r6;",
    );
    let mut args = [Arg::zeros(256)];
    run(&text, "k", Shape::new(2, 32), &mut args);
    let out = args[0].to_words();
    for lane in 16..32 {
        assert_eq!(out[lane], 100 + lane as u32);
        assert_eq!(out[32 + lane], lane as u32);
    }
}

#[test]
fn lanes_of_a_warp_may_wait_for_the_cluster_at_different_places() {
    let text = pair(
        "and.b32 %r1, %lane, 1;\nsetp.eq.u32 %q0, %r1, 0;\nmov.u32 %r7, 0;\n@%q0 bra even;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nadd.u32 %r7, %r7, 1;\nbra join;\n\
         even:\nbarrier.cluster.arrive;\nadd.u32 %r7, %r7, 10;\nbarrier.cluster.wait;\njoin:\nst.global.u32 [%rd0], %r7;",
    );
    let mut args = [Arg::zeros(256)];
    run(&text, "k", Shape::new(2, 32), &mut args);
    for (i, out) in args[0].to_words().into_iter().enumerate() {
        assert_eq!(out, if i % 2 == 0 { 10 } else { 1 });
    }
}

#[test]
fn generic_addresses_reach_other_blocks() {
    let text = pair(
        "st.shared.u32 [box+8], %rank;\n\
         mov.u64 %rd1, box;\ncvta.shared.u64 %rd2, %rd1;\nxor.b32 %r4, %rank, 1;\nmapa.u64 %rd3, %rd2, %r4;\n\
         getctarank.u64 %r5, %rd3;\nisspacep.shared::cluster %q0, %rd3;\nisspacep.shared::cta %q1, %rd3;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nld.u32 %r6, [%rd3+8];\natom.add.u32 %r7, [%rd3+16], 1;\n\
         barrier.cluster.arrive;\nbarrier.cluster.wait;\nld.shared.u32 %r8, [box+16];\n\
         selp.u32 %r9, 1, 0, %q0;\nselp.u32 %r10, 2, 0, %q1;\nshl.b32 %r6, %r6, 4;\nshl.b32 %r5, %r5, 8;\nshl.b32 %r8, %r8, 12;\n\
         or.b32 %r6, %r6, %r5;\nor.b32 %r6, %r6, %r9;\nor.b32 %r6, %r6, %r10;\nor.b32 %r6, %r6, %r8;\nst.global.u32 [%rd0], %r6;",
    );
    let mut args = [Arg::zeros(256)];
    run(&text, "k", Shape::new(2, 32), &mut args);
    for (i, out) in args[0].to_words().into_iter().enumerate() {
        let other = 1 - i as u32 / 32;
        assert_eq!(out, other << 4 | other << 8 | 1 | 32 << 12);
    }
}

#[test]
fn a_block_that_the_cluster_does_not_have_is_a_fault() {
    let text = pair(
        "mov.u32 %r2, box;\nmapa.shared::cluster.u32 %r3, %r2, 5;\nld.shared::cluster.u32 %r4, [%r3];",
    );
    let fault =
        try_run(&text, "k", Shape::new(2, 32), &mut [Arg::zeros(256)]).expect_err("no such block");
    assert!(
        matches!(fault.kind, FaultKind::OutOfBounds { .. }),
        "{fault}"
    );
    assert!(fault.to_string().contains("block 5"), "{fault}");
}

#[test]
fn a_rank_that_cannot_be_is_no_block_either() {
    let text = pair(
        "mov.u32 %r2, box;\nmapa.shared::cluster.u32 %r3, %r2, 0xffffffff;\nld.shared::cluster.u32 %r4, [%r3];",
    );
    let fault =
        try_run(&text, "k", Shape::new(2, 32), &mut [Arg::zeros(256)]).expect_err("no such block");
    assert!(
        matches!(fault.kind, FaultKind::OutOfBounds { .. }),
        "{fault}"
    );
}

#[test]
fn waiting_without_having_arrived_is_a_deadlock() {
    let text = pair("barrier.cluster.wait;");
    let fault = try_run(&text, "k", Shape::new(2, 32), &mut [Arg::zeros(256)]).expect_err("hangs");
    assert!(matches!(fault.kind, FaultKind::Deadlock(_)), "{fault}");
}

#[test]
fn clusters_must_divide_the_grid() {
    let fault = try_run(
        CLUSTER,
        "ring",
        Shape::new(5, 32).clusters(2),
        &mut [Arg::zeros(64)],
    )
    .expect_err("5 blocks in clusters of 2");
    assert!(matches!(fault.kind, FaultKind::InvalidLaunch(_)), "{fault}");
}
