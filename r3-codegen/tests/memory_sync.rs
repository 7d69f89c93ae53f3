//! Atomics, fences, barriers, and what warps do together.

#![allow(clippy::unwrap_used)]

mod common;
mod memory_support;

use common::{Launch, relifted};
use memory_support::{lines, noise, same};
use r3_codegen::recipe::{Pipeline, Preset};
use std::fmt::Write;

/// A kernel `k(in, out)`; `%in` and `%out` are the buffers, `%t` the thread, `%at` its word.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %in, %out, %at; .reg .b32 %t;\n\
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n\
         cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;\n\
         mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4;\n{body}ret;\n}}\n"
    )
}

fn launch(threads: u32) -> Launch<'static> {
    Launch {
        buffers: vec![noise(4096, 3), noise(4096, 4)],
        ..Launch::new("k", threads, Vec::new())
    }
}

/// Instructions of what is printed at -O3 that begin with one of these words.
fn printed(body: &str, words: &[&str]) -> Vec<String> {
    let text = relifted(&kernel(body), &Pipeline::Preset(Preset::O3), 3);
    let lines = lines(&text, words).into_iter();
    lines.map(|line| line.replace(['\t', ' '], " ")).collect()
}

/// Atomics of which the result does not depend on who is first, or of one thread alone.
const ATOMICS: &[(&str, &str)] = &[
    ("add.u32", "b32"),
    ("add.s32", "s32"),
    ("add.u64", "b64"),
    ("min.s32", "b32"),
    ("max.u32", "b32"),
    ("min.u64", "b64"),
    ("max.s64", "b64"),
    ("and.b32", "b32"),
    ("or.b64", "b64"),
    ("xor.b32", "b32"),
    ("exch.b64", "b64"),
    ("inc.u32", "b32"),
    ("dec.u32", "b32"),
    ("add.f32", "f32"),
    ("add.f64", "f64"),
    ("add.noftz.f16x2", "b32"),
];

#[test]
fn atomics_of_each_operation_type_and_space() {
    for (operation, register) in ATOMICS {
        for (space, address) in [("global", "%out"), ("", "%out"), ("shared", "%s")] {
            for modifiers in ["", ".relaxed.gpu", ".acq_rel.cta"] {
                let space = if space.is_empty() {
                    "".into()
                } else {
                    format!(".{space}")
                };
                let atom = format!("atom{modifiers}{space}.{operation}");
                let operations = format!(
                    "{atom} %old, [{address}+16], %v; st.global.{register} [%out+1040], %old;
                    {atom} _, [{address}+16], %v;"
                );
                same(&kernel(&one_thread(register, &operations)), &launch(4));
            }
            if !operation.starts_with("exch") {
                let space = if space.is_empty() {
                    "".into()
                } else {
                    format!(".{space}")
                };
                let operations = format!("red.release.sys{space}.{operation} [{address}+16], %v;");
                same(&kernel(&one_thread(register, &operations)), &launch(4));
            }
        }
    }
}

/// The first thread does something with `%v` at `%out+16` or `%s+16`.
fn one_thread(register: &str, operations: &str) -> String {
    format!(
        ".shared .align 16 .b8 s[64]; .reg .b32 %s; .reg .{register} %v, %old; .reg .pred %others;
        mov.u32 %s, s; setp.ne.u32 %others, %t, 0; @%others bra end;
        ld.global.{register} %v, [%in+8]; st.shared.{register} [%s+16], %v;
        ld.global.{register} %v, [%in+64];
        {operations}
        ld.shared.{register} %v, [%s+16]; st.global.{register} [%out+128], %v;
        end: "
    )
}

#[test]
fn many_threads_add_to_one_word() {
    let body = "
        .shared .align 8 .b8 s[16]; .reg .b32 %s, %v, %first; .reg .b64 %w; .reg .pred %p;
        mov.u32 %s, s; setp.eq.u32 %p, %t, 0; mov.u32 %first, 0; @%p st.shared.u32 [%s], %first; bar.sync 0;
        add.s64 %in, %in, %at; ld.global.u32 %v, [%in];
        red.shared.add.u32 [%s], %v; atom.global.max.u32 %first, [%out+512], %v; cvt.u64.u32 %w, %v;
        red.global.add.u64 [%out+520], %w; bar.sync 0;
        ld.shared.u32 %v, [%s]; add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    ";
    same(&kernel(body), &launch(96));
}

#[test]
fn a_lock_of_compare_and_swap() {
    // Each thread of a warp takes the lock, adds, and gives it back.
    let body = "
        .shared .align 8 .b8 s[16]; .reg .b32 %s, %v, %old, %zero; .reg .b64 %wide, %now; .reg .pred %p, %got, %done;
        mov.u32 %s, s; mov.u32 %zero, 0; setp.eq.u32 %p, %t, 0; @%p st.shared.v2.u32 [%s], {%zero, %zero}; bar.sync 0;
        setp.eq.u32 %done, %t, 0xffffffff;
    again:
        atom.shared.acquire.cta.cas.b32 %old, [%s], 0, 1;
        setp.eq.u32 %got, %old, 0;
        @!%got bra next;
        ld.shared.u32 %v, [%s+4]; add.u32 %v, %v, 3; st.shared.u32 [%s+4], %v;
        atom.shared.release.cta.exch.b32 %old, [%s], 0;
        setp.ne.u32 %done, %t, 0xffffffff;
    next:
        @!%done bra again;
        bar.sync 0;
        ld.shared.u32 %v, [%s+4]; add.s64 %out, %out, %at; st.global.u32 [%out], %v;
        ld.global.u64 %wide, [%in]; setp.ne.u32 %p, %t, 0; @%p bra end;
        atom.global.cas.b64 %now, [%in], %wide, 77; st.global.u64 [%out+1024], %now;
        ld.global.u64 %wide, [%in]; st.global.u64 [%out+1032], %wide;
    end:
    ";
    same(&kernel(body), &launch(32));
}

#[test]
fn llvm_prints_the_atomic_that_was_there() {
    let mut table = String::new();
    let forms = [
        "atom.global.add.u32",
        "atom.add.u32",
        "atom.shared.max.s32",
        "atom.global.inc.u32",
        "atom.relaxed.gpu.global.or.b32",
        "atom.cta.global.add.u32",
        "atom.sys.global.add.u32",
        "atom.acquire.gpu.global.add.u32",
        "atom.global.release.cluster.exch.b32",
        "red.global.add.u32",
        "red.relaxed.sys.global.min.u32",
        "atom.global.cas.b32",
        "atom.acq_rel.sys.global.cas.b32",
        "atom.acquire.cta.shared.cas.b32",
        "atom.global.add.f32",
        "atom.global.add.noftz.f16x2",
    ];
    for form in forms {
        let compared = if form.contains("cas") { "%v, " } else { "" };
        let to = if form.starts_with("red") { "" } else { "%v, " };
        let address = if form.contains("shared") {
            "[s]"
        } else {
            "[%out]"
        };
        let register = if form.ends_with("f32") { "f32" } else { "b32" };
        let body = format!(
            ".shared .align 4 .b8 s[64]; .reg .{register} %v; ld.global.{register} %v, [%in];
            {form} {to}{address}, {compared}%v; st.global.{register} [%in], %v;"
        );
        let found = printed(&body, &["atom", "red"]);
        let names: Vec<_> = found.iter().filter_map(|l| l.split(' ').next()).collect();
        writeln!(table, "{form}: {}", names.join(", ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn llvm_prints_the_barrier_or_fence_that_was_there() {
    let mut table = String::new();
    for text in [
        "bar.sync 0;",
        "bar.cta.sync 3, 64;",
        "bar.sync %t;",
        "bar.arrive 2, 64;",
        "bar.red.popc.u32 %v, 1, %p;",
        "bar.red.or.pred %p, 1, 64, !%p;",
        "barrier.sync 0;",
        "barrier.cta.sync.aligned 1, 64;",
        "barrier.arrive 2, 64;",
        "barrier.red.and.pred %p, 1, %p;",
        "bar.warp.sync 0xffffffff;",
        "barrier.cluster.arrive; barrier.cluster.wait;",
        "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;",
        "membar.cta; membar.gl; membar.sys;",
        "fence.sc.gpu; fence.acq_rel.cta; fence.sys; fence.acq_rel.cluster;",
        "fence.acquire.gpu; fence.release.cta;",
        "fence.proxy.async; fence.mbarrier_init.release.cluster;",
    ] {
        let body = format!(
            ".reg .b32 %v; .reg .pred %p; ld.global.u32 %v, [%in]; setp.lt.u32 %p, %v, 5; {text}
            selp.b32 %t, %v, 3, %p; st.global.u32 [%out], %t;"
        );
        let found = printed(&body, &["bar", "fence", "membar"]);
        writeln!(table, "{text} → {}", found.join(" ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_is_in_shared_memory_crosses_barriers() {
    let body = "
        .shared .align 16 .b8 s[1024]; .reg .b32 %s, %v, %w, %n, %to; .reg .pred %p;
        mov.u32 %s, s; mad.lo.u32 %to, %t, 4, %s; add.s64 %in, %in, %at; ld.global.u32 %v, [%in];
        st.shared.u32 [%to], %v; bar.sync 0;
        mov.u32 %n, 64;
    loop:
        setp.lt.u32 %p, %t, %n; mov.u32 %w, 0;
        @%p mad.lo.u32 %w, %n, 4, %to; @%p ld.shared.u32 %w, [%w]; @%p ld.shared.u32 %v, [%to];
        add.u32 %v, %v, %w; @%p st.shared.u32 [%to], %v; bar.sync 0;
        shr.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra loop;
        ld.shared.u32 %v, [%s]; add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    ";
    same(&kernel(body), &launch(128));
}

#[test]
fn named_barriers_of_producers_and_consumers() {
    let body = "
        .shared .align 16 .b8 s[512]; .reg .b32 %s, %v, %to; .reg .pred %first;
        mov.u32 %s, s; setp.lt.u32 %first, %t, 32; @!%first bra consumer;
        mad.lo.u32 %to, %t, 4, %s; add.s64 %in, %in, %at; ld.global.u32 %v, [%in]; st.shared.u32 [%to], %v;
        bar.arrive 1, 64; bra end;
    consumer:
        bar.sync 1, 64;
        sub.u32 %v, 63, %t; mad.lo.u32 %to, %v, 4, %s; ld.shared.u32 %v, [%to];
        add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    end:
    ";
    same(&kernel(body), &launch(64));
}

#[test]
fn reductions_at_barriers() {
    let body = "
        .reg .b32 %v, %n; .reg .pred %p, %all, %any;
        add.s64 %in, %in, %at; ld.global.u32 %v, [%in]; and.b32 %v, %v, 3; setp.eq.u32 %p, %v, 1;
        bar.red.popc.u32 %n, 0, %p; bar.red.and.pred %all, 1, %p; barrier.red.or.pred %any, 2, 64, !%p;
        selp.u32 %v, 100, 200, %all; add.u32 %n, %n, %v; selp.u32 %v, 1000, 2000, %any; add.u32 %n, %n, %v;
        add.s64 %out, %out, %at; st.global.u32 [%out], %n;
    ";
    same(&kernel(body), &launch(64));
}

#[test]
fn barriers_in_divergent_code_of_a_warp() {
    // Both sides of a branch wait at the same barrier, each at its own place (numba 2655, 9770).
    let body = "
        .shared .align 16 .b8 s[512]; .reg .b32 %s, %v, %to, %i; .reg .pred %odd, %more;
        mov.u32 %s, s; mad.lo.u32 %to, %t, 4, %s; add.s64 %in, %in, %at; ld.global.u32 %v, [%in];
        and.b32 %i, %t, 1; setp.eq.u32 %odd, %i, 1; mov.u32 %i, 0;
    loop:
        @%odd bra side;
        mul.lo.u32 %v, %v, 3; st.shared.u32 [%to], %v; barrier.sync 0; bra join;
    side:
        add.u32 %v, %v, 7; st.shared.u32 [%to], %v; barrier.sync 0;
    join:
        xor.b32 %to, %t, 5; mad.lo.u32 %to, %to, 4, %s; ld.shared.u32 %v, [%to]; barrier.sync 0;
        mad.lo.u32 %to, %t, 4, %s;
        add.u32 %i, %i, 1; setp.lt.u32 %more, %i, 4; @%more bra loop;
        add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    ";
    same(&kernel(body), &launch(64));
}

#[test]
fn a_named_barrier_is_not_copied_into_the_arms_of_a_branch() {
    // Jump threading did that to a barrier that was not convergent, and the block hung (facebookexperimental/triton 1040).
    let body = "
        .shared .align 16 .b8 s[512]; .reg .b32 %s, %v, %to; .reg .pred %p;
        mov.u32 %s, s; mad.lo.u32 %to, %t, 4, %s; add.s64 %in, %in, %at; ld.global.u32 %v, [%in];
        and.b32 %to, %v, 1; setp.eq.u32 %p, %to, 0; @%p bra even;
        mul.lo.u32 %v, %v, 5; bra both;
    even:
        add.u32 %v, %v, 1;
    both:
        mad.lo.u32 %to, %t, 4, %s; st.shared.u32 [%to], %v;
        bar.sync 1, 64;
        @%p bra even2;
        xor.b32 %to, %t, 33; bra end;
    even2:
        xor.b32 %to, %t, 3;
    end:
        mad.lo.u32 %to, %to, 4, %s; ld.shared.u32 %v, [%to]; add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    ";
    same(&kernel(body), &launch(64));
    let found = printed(body, &["bar"]);
    assert_eq!(found, ["bar.sync 1, 64;"]);
}

#[test]
fn warp_synchronous_code_with_volatile_shared_memory() {
    let body = "
        .shared .align 16 .b8 s[512]; .reg .b32 %s, %v, %w, %to; .reg .pred %p;
        mov.u32 %s, s; mad.lo.u32 %to, %t, 4, %s; add.s64 %in, %in, %at; ld.global.u32 %v, [%in];
        st.volatile.shared.u32 [%to], %v;
        setp.ge.u32 %p, %t, 16; @%p bra end;
        ld.volatile.shared.u32 %v, [%to]; ld.volatile.shared.u32 %w, [%to+64]; add.u32 %v, %v, %w; st.volatile.shared.u32 [%to], %v;
        ld.volatile.shared.u32 %v, [%to]; ld.volatile.shared.u32 %w, [%to+32]; add.u32 %v, %v, %w; st.volatile.shared.u32 [%to], %v;
        ld.volatile.shared.u32 %v, [%to]; ld.volatile.shared.u32 %w, [%to+16]; add.u32 %v, %v, %w; st.volatile.shared.u32 [%to], %v;
        ld.volatile.shared.u32 %v, [%to]; ld.volatile.shared.u32 %w, [%to+8]; add.u32 %v, %v, %w; st.volatile.shared.u32 [%to], %v;
        ld.volatile.shared.u32 %v, [%to]; add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    end:
    ";
    same(&kernel(body), &launch(32));
}

#[test]
fn one_warp_polls_for_what_another_writes() {
    for (load, store) in [
        ("ld.volatile.shared.u32", "st.volatile.shared.u32"),
        ("ld.acquire.cta.shared.u32", "st.release.cta.shared.u32"),
    ] {
        let body = format!(
            "
        .shared .align 16 .b8 s[512]; .reg .b32 %s, %v, %to; .reg .pred %p, %first;
        mov.u32 %s, s; setp.eq.u32 %p, %t, 0; mov.u32 %v, 0; @%p {store} [%s], %v; bar.sync 0;
        setp.ge.u32 %first, %t, 32; @%first bra writer;
    poll:
        {load} %v, [%s]; setp.eq.u32 %p, %v, 0; @%p bra poll;
        mad.lo.u32 %to, %t, 4, %s; ld.shared.u32 %v, [%to+64]; add.s64 %out, %out, %at; st.global.u32 [%out], %v; bra end;
    writer:
        sub.u32 %v, %t, 32; mad.lo.u32 %to, %v, 4, %s; add.s64 %in, %in, %at; ld.global.u32 %v, [%in]; st.shared.u32 [%to+64], %v;
        membar.cta; bar.warp.sync 0xffffffff; setp.ne.u32 %p, %t, 32; @%p bra end;
        mov.u32 %v, 1; {store} [%s], %v;
    end:
    "
        );
        same(&kernel(&body), &launch(64));
    }
}

/// What a warp does together: text, result.
const TOGETHER: &[&str] = &[
    "shfl.sync.down.b32 %v, %v, 3, 31, -1;",
    "shfl.sync.up.b32 %v|%p, %v, %r, 0, 0xffffffff; selp.b32 %v, %v, 9, %p;",
    "shfl.sync.bfly.b32 %v, %v, %r, 0x1c1f, -1;",
    "shfl.sync.idx.b32 %v|%p, %v, 37, 31, -1; selp.b32 %v, %v, 9, %p;",
    "shfl.sync.idx.b32 _|%p, %v, 3, 31, -1; selp.b32 %v, 7, 9, %p;",
    "vote.sync.ballot.b32 %v, %odd, -1;",
    "vote.ballot.sync.b32 %v, !%odd, 0xffffffff;",
    "vote.sync.any.pred %p, %odd, -1; selp.b32 %v, 7, 9, %p;",
    "vote.sync.all.pred %p, !%odd, -1; selp.b32 %v, 7, 9, %p;",
    "vote.sync.uni.pred %p, %odd, -1; selp.b32 %v, 7, 9, %p;",
    "match.any.sync.b32 %v, %r, -1;",
    "match.any.sync.b64 %v, %wide, -1;",
    "match.all.sync.b32 %v|%p, %r, -1; selp.b32 %v, %v, 9, %p;",
    "match.all.sync.b64 %v, %wide, -1;",
    "redux.sync.add.s32 %v, %v, -1;",
    "redux.sync.min.u32 %v, %v, -1;",
    "redux.sync.max.s32 %v, %v, -1;",
    "redux.sync.xor.b32 %v, %v, -1;",
    "activemask.b32 %v;",
    "elect.sync %v|%p, -1; selp.b32 %v, %v, 9, %p;",
    "@%odd activemask.b32 %v;",
    "@%odd shfl.sync.bfly.b32 %v, %v, 2, 31, 0xaaaaaaaa;",
];

#[test]
fn what_a_warp_does_together() {
    let mut table = String::new();
    for text in TOGETHER {
        let body = format!(
            ".reg .b32 %v, %r; .reg .pred %p, %odd; .reg .b64 %wide;
            add.s64 %in, %in, %at; ld.global.u32 %v, [%in]; and.b32 %r, %v, 3; cvt.u64.u32 %wide, %r;
            and.b32 %r, %t, 1; setp.eq.u32 %odd, %r, 1; and.b32 %r, %v, 3;
            {text}
            add.s64 %out, %out, %at; st.global.u32 [%out], %v;"
        );
        same(&kernel(&body), &launch(64));
        let words = ["shfl", "vote", "match", "redux", "activemask", "elect"];
        let found = printed(&body, &words);
        let names: Vec<_> = found.iter().filter_map(|l| l.split(' ').next()).collect();
        writeln!(table, "{text} → {}", names.join(" ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn shuffles_read_what_was_written_in_a_branch() {
    // gpgpu-sim 230, CUDAnative 4: a divergent write before the shuffle, several ways out after it.
    let body = "
        .reg .b32 %v, %w, %r; .reg .pred %odd, %out1;
        add.s64 %in, %in, %at; ld.global.u32 %v, [%in]; and.b32 %r, %t, 1; setp.eq.u32 %odd, %r, 1;
        @%odd bra odd;
        mul.lo.u32 %v, %v, 3; bra both;
    odd:
        add.u32 %v, %v, 7;
    both:
        bar.warp.sync -1;
        shfl.sync.bfly.b32 %w, %v, 1, 31, -1; add.u32 %v, %v, %w;
        shfl.sync.bfly.b32 %w, %v, 2, 31, -1; add.u32 %v, %v, %w;
        add.s64 %out, %out, %at;
        setp.lt.u32 %out1, %t, 8; @%out1 bra early;
        st.global.u32 [%out], %v; ret;
    early:
        st.global.u32 [%out], %w;
    ";
    same(&kernel(body), &launch(32));
}

#[test]
fn shuffled_values_that_some_lanes_never_wrote() {
    // llvm 98908: an undefined operand let threads enter a branch that is dead for them.
    let body = "
        .reg .b32 %v, %w, %r; .reg .pred %first, %p;
        setp.lt.u32 %first, %t, 8; @!%first bra skip;
        add.s64 %in, %in, %at; ld.global.u32 %v, [%in]; or.b32 %v, %v, 1;
    skip:
        shfl.sync.idx.b32 %w, %v, 3, 31, -1;
        setp.eq.u32 %p, %w, 0; @%p bra never;
        add.s64 %out, %out, %at; st.global.u32 [%out], %w; ret;
    never:
        st.global.u32 [%out], %t;
    ";
    same(&kernel(body), &launch(32));
}

#[test]
fn a_matrix_is_loaded_where_all_lanes_are() {
    // llvm 213868: jump threading led some lanes around an `ldmatrix`.
    let body = "
        .shared .align 16 .b8 s[2048]; .reg .b32 %s, %v, %to, %r<4>; .reg .pred %p;
        mov.u32 %s, s; mad.lo.u32 %to, %t, 16, %s; mul.wide.u32 %at, %t, 16; add.s64 %in, %in, %at;
        ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%in]; st.shared.v4.u32 [%to], {%r0, %r1, %r2, %r3};
        and.b32 %v, %r0, 1; setp.eq.u32 %p, %v, 0; @%p bra one; mov.u32 %v, 77; bra two;
    one:
        mov.u32 %v, 99;
    two:
        bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%to];
        @%p add.u32 %r0, %r0, %v;
        add.s64 %out, %out, %at; st.global.v4.u32 [%out], {%r0, %r1, %r2, %r3};
        ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%to];
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%to+0];
        st.global.v2.u32 [%out+1024], {%r0, %r1}; st.global.u32 [%out+1032], %r2;
    ";
    same(&kernel(body), &launch(32));
}

#[test]
fn asynchronous_copies_and_barriers_in_memory() {
    let body = "
        .shared .align 16 .b8 s[1024]; .shared .align 8 .b8 bar[8]; .reg .b32 %s, %b, %to, %v; .reg .b64 %state; .reg .pred %p, %done;
        mov.u32 %s, s; mov.u32 %b, bar; setp.ne.u32 %p, %t, 0;
        @!%p mbarrier.init.shared.b64 [%b], 32; bar.sync 0;
        mul.wide.u32 %at, %t, 16; add.s64 %in, %in, %at; mad.lo.u32 %to, %t, 16, %s;
        cp.async.cg.shared.global [%to], [%in], 16; cp.async.commit_group; cp.async.wait_group 0;
        mbarrier.arrive.shared.b64 %state, [%b];
    wait:
        mbarrier.test_wait.shared.b64 %done, [%b], %state; @!%done bra wait;
        xor.b32 %v, %t, 9; mad.lo.u32 %to, %v, 16, %s; ld.shared.u32 %v, [%to+4];
        mul.wide.u32 %at, %t, 4; add.s64 %out, %out, %at; st.global.u32 [%out], %v;
    ";
    same(&kernel(body), &launch(32));
}

#[test]
fn special_registers() {
    let body = "
        .reg .b32 %v, %w; .reg .b16 %h; .reg .b64 %l; .reg .b32 %c<2>; .reg .pred %p;
        mad.lo.u32 %v, %t, 28, 0; cvt.u64.u32 %l, %v; add.s64 %out, %out, %l;
        mov.u32 %v, %laneid; st.global.u32 [%out], %v; mov.u32 %v, %ntid.x; st.global.u32 [%out+4], %v;
        mov.u32 %v, %nctaid.y; mov.u32 %w, %ctaid.z; add.u32 %v, %v, %w; st.global.u32 [%out+8], %v;
        mov.u32 %v, %lanemask_lt; mov.u32 %w, %lanemask_ge; xor.b32 %v, %v, %w; st.global.u32 [%out+12], %v;
        mov.u16 %h, %laneid; cvt.u32.u16 %v, %h; st.global.u32 [%out+16], %v;
        mov.u32 %v, %dynamic_smem_size; st.global.u32 [%out+20], %v;
        mov.u32 %c0, %clock; mov.u32 %c1, %clock; setp.eq.u32 %p, %c0, %c1; selp.u32 %v, 1, 0, %p; st.global.u32 [%out+24], %v;
    ";
    same(&kernel(body), &launch(33));
}
