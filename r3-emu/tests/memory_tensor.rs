//! Tensor copies: boxes, edges, swizzles, reductions, changed maps.

mod memory_support;

use memory_support::{Run, address};
use r3_emu::FaultKind;
use r3_emu::tensor_map::{DataType, Swizzle, TensorMap, encode};

/// 8 x 6 words in buffer 0.
fn map() -> TensorMap {
    TensorMap {
        data_type: DataType::U32,
        rank: 2,
        address: address(0),
        dims: [8, 6, 1, 1, 1],
        strides: [32, 0, 0, 0],
        box_dims: [4, 4, 1, 1, 1],
        element_strides: [1; 5],
        interleave: 0,
        swizzle: Swizzle::None,
        l2_promotion: 0,
        nan_fill: false,
        im2col: None,
    }
}

const SHARED: &str = ".shared .align 1024 .b8 s[2048];\n.shared .align 8 .b64 bar;";

fn load(dims: &str, coordinates: &str, bytes: u32) -> String {
    format!(
        "mov.b64 %rd5, map;\ncvta.param.u64 %rd5, %rd5;\nmov.u32 %r1, s;\nmov.u32 %r2, bar;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 bra READY;\n\
         mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], {bytes};\n\
         cp.async.bulk.tensor.{dims}.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd5, {{{coordinates}}}], [%r2];\n\
         READY:\nbar.sync 0;\nWAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\n"
    )
}

/// Loads a box of 4 x 4 and writes shared memory to buffer 1.
fn run(map: &TensorMap, coordinates: &str, words: u32) -> Vec<u32> {
    let body = format!(
        "{}mad.lo.u32 %r3, %t, 4, %r1;\nld.shared.u32 %r4, [%r3];\nmad.wide.u32 %rd1, %t, 4, %a1;\nst.global.u32 [%rd1], %r4;",
        load("2d", coordinates, 64)
    );
    let input: Vec<u32> = (0..48).map(|i| i / 8 * 10 + i % 8).collect();
    let done = Run::with(SHARED, &body)
        .block(words)
        .words(&input)
        .zeros(4 * words as usize)
        .extra(&encode(map).expect("valid"))
        .run();
    done.words(1)
}

#[test]
fn a_box_inside_and_boxes_over_the_edges() {
    assert_eq!(
        run(&map(), "2, 1", 16),
        [
            12, 13, 14, 15, 22, 23, 24, 25, 32, 33, 34, 35, 42, 43, 44, 45
        ]
    );
    assert_eq!(
        run(&map(), "-1, -1", 16),
        [0, 0, 0, 0, 0, 0, 1, 2, 0, 10, 11, 12, 0, 20, 21, 22]
    );
    assert_eq!(
        run(&map(), "6, 4", 16),
        [46, 47, 0, 0, 56, 57, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn outside_is_nan_where_the_map_says_so() {
    let map = TensorMap {
        data_type: DataType::F32,
        nan_fill: true,
        ..map()
    };
    let out = run(&map, "7, 5", 16);
    assert_eq!(out[0], 57);
    assert!(out[1..].iter().all(|w| f32::from_bits(*w).is_nan()));
}

#[test]
fn a_swizzle_moves_the_chunks_of_each_row_of_128_bytes() {
    // Rows of 32 bytes; the 32-byte swizzle exchanges the halves in each second line of 128 bytes.
    let map = TensorMap {
        box_dims: [8, 6, 1, 1, 1],
        swizzle: Swizzle::B32,
        ..map()
    };
    let body = load("2d", "0, 0", 192)
        + "mad.lo.u32 %r3, %t, 4, %r1;\nld.shared.u32 %r4, [%r3];\nmad.wide.u32 %rd1, %t, 4, %a1;\nst.global.u32 [%rd1], %r4;";
    let input: Vec<u32> = (0..48).map(|i| i / 8 * 10 + i % 8).collect();
    let done = Run::with(SHARED, &body)
        .block(48)
        .words(&input)
        .zeros(192)
        .extra(&encode(&map).expect("valid"))
        .run();
    let w = done.words(1);
    assert_eq!(&w[..32], &input[..32]);
    assert_eq!(&w[32..40], &[44, 45, 46, 47, 40, 41, 42, 43]);
}

#[test]
fn stores_and_reductions_touch_only_what_is_inside() {
    let body = |copy: &str| {
        format!(
            "mov.b64 %rd5, map;\ncvta.param.u64 %rd5, %rd5;\nmov.u32 %r1, s;\nmad.lo.u32 %r3, %t, 4, %r1;\nadd.u32 %r4, %t, 100;\nst.shared.u32 [%r3], %r4;\n\
             bar.sync 0;\nsetp.ne.u32 %p1, %t, 0;\n@%p1 ret;\n{copy}.global.shared::cta.tile.bulk_group [%rd5, {{6, 4}}], [%r1];\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
        )
    };
    let run = |copy: &str| {
        let done = Run::with(SHARED, &body(copy))
            .block(16)
            .words(&[1; 48])
            .extra(&encode(&map()).expect("valid"))
            .run();
        done.words(0)
    };
    let w = run("cp.async.bulk.tensor.2d");
    assert_eq!(&w[36..], &[1, 1, 100, 101, 1, 1, 1, 1, 1, 1, 104, 105]);
    let text = body("cp.reduce.async.bulk.tensor.2d").replace("::cta.tile", "::cta.add.tile");
    let done = Run::with(SHARED, &text)
        .block(16)
        .words(&[1; 48])
        .extra(&encode(&map()).expect("valid"))
        .run();
    assert_eq!(
        &done.words(0)[36..],
        &[1, 1, 101, 102, 1, 1, 1, 1, 1, 1, 105, 106]
    );
}

#[test]
fn five_dimensions() {
    // 4 x 2 x 2 x 2 x 2 words, all of them but the first in the last dimension.
    let map = TensorMap {
        rank: 5,
        dims: [4, 2, 2, 2, 2],
        strides: [16, 32, 64, 128],
        box_dims: [4, 1, 2, 1, 2],
        ..map()
    };
    let body = load("5d", "0, 1, 0, 1, 1", 64)
        + "mad.lo.u32 %r3, %t, 4, %r1;\nld.shared.u32 %r4, [%r3];\nmad.wide.u32 %rd1, %t, 4, %a1;\nst.global.u32 [%rd1], %r4;";
    let input: Vec<u32> = (0..64).collect();
    let done = Run::with(SHARED, &body)
        .block(16)
        .words(&input)
        .zeros(64)
        .extra(&encode(&map).expect("valid"))
        .run();
    let w = done.words(1);
    assert_eq!(&w[..8], &[52, 53, 54, 55, 60, 61, 62, 63]);
    assert_eq!(&w[8..], &[0; 8], "the second half is outside");
}

#[test]
fn a_map_can_be_changed_in_memory() {
    // Buffer 2 has the map; its address and width become others.
    let body = "mov.u32 %r1, s;\nmov.u32 %r2, bar;\nadd.u64 %rd1, %a0, 16;\ntensormap.replace.tile.global_address.global.b1024.b64 [%a1], %rd1;\n\
        tensormap.replace.tile.global_dim.global.b1024.b32 [%a1], 0, 2;\nfence.proxy.tensormap::generic.release.gpu;\n\
        fence.proxy.tensormap::generic.acquire.gpu [%a1], 128;\nmbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n\
        cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%a1, {0, 0}], [%r2];\nWAIT:\n\
        mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\nld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [s];\nst.global.v4.u32 [%a2], {%r4, %r5, %r6, %r7};";
    let input: Vec<u32> = (0..52).collect();
    let done = Run::with(SHARED, body)
        .block(1)
        .words(&input)
        .bytes(&encode(&map()).expect("valid"))
        .zeros(16)
        .run();
    assert_eq!(done.words(2), [4, 5, 0, 0]);
}

/// As Triton does for descriptors that a kernel makes itself.
#[test]
fn a_map_can_be_made_from_zeros_in_shared_memory() {
    let field = |text: &str| format!("tensormap.replace.tile.{text};\n");
    let fields: String = [
        "global_address.shared::cta.b1024.b64 [m], %a0",
        "rank.shared::cta.b1024.b32 [m], 1",
        "box_dim.shared::cta.b1024.b32 [m], 0, 4",
        "box_dim.shared::cta.b1024.b32 [m], 1, 1",
        "global_dim.shared::cta.b1024.b32 [m], 0, 8",
        "global_dim.shared::cta.b1024.b32 [m], 1, 2",
        "global_stride.shared::cta.b1024.b64 [m], 0, 32",
        "element_stride.shared::cta.b1024.b32 [m], 0, 1",
        "element_stride.shared::cta.b1024.b32 [m], 1, 1",
        "elemtype.shared::cta.b1024.b32 [m], 2",
        "interleave_layout.shared::cta.b1024.b32 [m], 0",
        "swizzle_mode.shared::cta.b1024.b32 [m], 0",
        "fill_mode.shared::cta.b1024.b32 [m], 0",
    ]
    .map(field)
    .concat();
    let body = format!(
        "mov.u32 %r1, s;\nmov.u32 %r2, bar;\nmov.u32 %r3, m;\nmad.lo.u32 %r4, %t, 4, %r3;\nst.shared.u32 [%r4], 0;\nbar.warp.sync 0xffffffff;\n\
         setp.eq.u32 %p1, %t, 0;\n@!%p1 bra COPY;\n{fields}COPY:\nbar.warp.sync 0xffffffff;\n\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a1], [m], 128;\n@!%p1 ret;\n\
         mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n\
         cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%a1, {{2, 1}}], [%r2];\nWAIT:\n\
         mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\nld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [s];\n\
         st.global.v4.u32 [%a2], {{%r4, %r5, %r6, %r7}};"
    );
    let input: Vec<u32> = (0..16).collect();
    let front = format!("{SHARED}\n.shared .align 128 .b8 m[128];");
    let done = Run::with(&front, &body)
        .words(&input)
        .zeros(128)
        .zeros(16)
        .run();
    assert_eq!(done.words(2), [10, 11, 12, 13]);
}

#[test]
fn foreign_maps_and_other_ranks_are_refused() {
    let text = |map: &[u8], dims: &str, c: &str| match Run::with(SHARED, &load(dims, c, 64))
        .block(1)
        .words(&[0; 48])
        .extra(map)
        .fails()
        .0
    {
        FaultKind::Invalid(text) => text,
        other => format!("{other:?}"),
    };
    assert!(text(&[7; 128], "2d", "0, 0").contains("not of this device"));
    let map = encode(&map()).expect("valid");
    assert_eq!(
        text(&map, "1d", "0"),
        "tensor map of 2 dimensions, 1 in the instruction"
    );
}
