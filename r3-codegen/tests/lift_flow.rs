//! Control flow, SSA form, guards and carries: the IR as text, and what it computes.

#![allow(clippy::unwrap_used)]

mod common;

use inkwell::context::Context;
use r3_codegen::lift::Options;
use r3_codegen::recipe::{Pipeline, Preset};

use common::{Launch, functions, ir, relifted, run, same_bytes, words};

/// A kernel `k(.u64 p)`: `%at` is the address of the thread's word of the buffer, `%r0` its content and in the end its new
/// content.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 p)
{{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .b64 %base, %at; .reg .b32 %t;
ld.param.u64 %base, [p];
mov.u32 %t, %tid.x;
mad.wide.u32 %at, %t, 4, %base;
ld.global.u32 %r0, [%at];
{body}
st.global.u32 [%at], %r0;
ret;
}}"
    )
}

/// 32 threads, each with its own word.
fn launch() -> Launch<'static> {
    let content: Vec<u32> = (0..32)
        .map(|i: u32| i.wrapping_mul(0x9e37_79b9) ^ i)
        .collect();
    Launch::new("k", 32, words(&content))
}

fn same(body: &str) {
    same_bytes(&kernel(body), &launch());
}

#[test]
fn a_loop_has_phis_only_for_what_lives_in_it() {
    let text = ".func (.param .b32 out) f(.param .b32 n)
{
.reg .pred %p; .reg .b32 %r<5>;
ld.param.b32 %r0, [n];
mov.b32 %r1, 0;
mov.b32 %r2, 1;
mov.b32 %r4, 7;
LOOP:
mul.lo.s32 %r3, %r2, %r4;
add.s32 %r2, %r3, 5;
add.s32 %r1, %r1, 1;
setp.lt.s32 %p, %r1, %r0;
@%p bra LOOP;
st.param.b32 [out], %r2;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn loops_compute_the_same() {
    same("mov.u32 %r1, 0; mov.u32 %r2, %t;
        OUTER: mov.u32 %r3, 0;
        INNER: add.u32 %r2, %r2, %r3; xor.b32 %r0, %r0, %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 5; @%p1 bra INNER;
        add.u32 %r1, %r1, 1; setp.le.u32 %p2, %r1, %t; @%p2 bra OUTER;");
}

#[test]
fn a_loop_may_begin_at_the_first_instruction() {
    let text = ".visible .entry k(.param .u64 p)
{
.reg .pred %q; .reg .b32 %r<3>; .reg .b64 %d<3>;
AGAIN:
ld.param.u64 %d0, [p];
ld.global.u32 %r0, [%d0];
add.u32 %r0, %r0, 3;
st.global.u32 [%d0], %r0;
setp.lt.u32 %q, %r0, 100;
@%q bra AGAIN;
}";
    same_bytes(text, &Launch::new("k", 1, words(&[1])));
}

#[test]
fn a_value_of_one_branch_meets_the_old_one() {
    let text = ".func (.param .b32 out) f(.param .b32 a)
{
.reg .pred %p; .reg .b32 %r<4>;
ld.param.b32 %r0, [a];
mov.b32 %r1, 3;
setp.eq.s32 %p, %r0, 0;
@%p bra DONE;
mul.lo.s32 %r1, %r0, %r0;
DONE:
st.param.b32 [out], %r1;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn cheap_guarded_instructions_select_and_others_branch() {
    let text = ".func (.param .b32 out) f(.param .b32 a, .param .b64 m)
{
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d;
ld.param.b32 %r0, [a];
ld.param.b64 %d, [m];
mov.b32 %r1, 3;
setp.eq.s32 %p, %r0, 0;
@%p add.s32 %r1, %r0, 5;
@!%p ld.global.b32 %r1, [%d];
@!%p st.global.b32 [%d], %r0;
st.param.b32 [out], %r1;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn guards_compute_the_same() {
    // The guard is overwritten under itself; a pair of destinations under a guard; a load that must not happen.
    same(
        "setp.lt.u32 %p1, %t, 13; mov.u32 %r1, 5;
        @%p1 setp.gt.u32 %p1, %t, 4;
        @%p1 add.u32 %r1, %r1, %r0;
        @!%p1 sub.u32 %r1, %r1, %r0;
        mov.b32 %r5, %r1;
        setp.ne.u32 %p2, %r0, 0; setp.eq.u32 %p3, %t, %t;
        @%p1 setp.lt.and.s32 %p2|%p3, %r0, 77, %p3;
        selp.u32 %r2, 16, 32, %p2; selp.u32 %r3, 1, 2, %p3;
        mov.u64 %d1, 0; setp.gt.u32 %p4, %t, 40;
        @%p4 ld.global.u32 %r1, [%d1];
        @%p4 st.global.u32 [%d1], %r1;
        add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3; xor.b32 %r0, %r0, %r5;",
    );
}

#[test]
fn a_table_of_branches_becomes_a_switch() {
    let text = ".func (.param .b32 out) f(.param .b32 a)
{
.reg .b32 %r<3>;
T: .branchtargets A, B, A, C;
ld.param.b32 %r0, [a];
mov.b32 %r1, 0;
brx.idx %r0, T;
A: mov.b32 %r1, 1;
B: add.s32 %r1, %r1, 2;
C:
st.param.b32 [out], %r1;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn tables_of_branches_compute_the_same() {
    same(
        "T: .branchtargets A, B, A, C, E;
        and.b32 %r1, %t, 3; mov.u32 %r2, 9; setp.lt.u32 %p1, %t, 24;
        @%p1 brx.idx %r1, T;
        add.u32 %r2, %r2, 100;
        A: mul.lo.u32 %r2, %r2, 3;
        B: add.u32 %r2, %r2, %t;
        C: xor.b32 %r0, %r0, %r2;
        E:",
    );
}

#[test]
fn a_loop_with_two_entries_computes_the_same() {
    same("mov.u32 %r1, 0; mov.u32 %r2, 1; setp.lt.u32 %p1, %t, 16; @%p1 bra MIDDLE;
        TOP: add.u32 %r2, %r2, %r1;
        MIDDLE: mad.lo.u32 %r2, %r2, 5, %r1; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 6; @%p2 bra TOP;
        add.u32 %r0, %r0, %r2;");
}

#[test]
fn code_that_nothing_reaches_and_ends_without_ret_are_fine() {
    let text = ".visible .entry k(.param .u64 p)
{
.reg .pred %q; .reg .b32 %r<3>; .reg .b64 %d<3>;
ld.param.u64 %d0, [p];
ld.global.u32 %r0, [%d0];
setp.eq.u32 %q, %r0, 9;
@%q bra END;
bra STORE;
NEVER:
add.u32 %r0, %r0, 1;
bra NEVER;
STORE:
st.global.u32 [%d0], 77;
END:
}";
    same_bytes(text, &Launch::new("k", 1, words(&[1])));
    same_bytes(text, &Launch::new("k", 1, words(&[9])));
}

#[test]
fn exit_in_a_function_ends_the_thread() {
    let text = ".func f(.param .b32 a)
{
.reg .pred %p; .reg .b32 %r;
ld.param.b32 %r, [a];
setp.lt.u32 %p, %r, 7;
@%p exit;
ret;
}
.visible .entry k(.param .u64 p)
{
.reg .b32 %r<3>; .reg .b64 %d<3>;
ld.param.u64 %d0, [p];
mov.u32 %r0, %tid.x;
mad.wide.u32 %d0, %r0, 4, %d0;
{
.param .b32 a;
st.param.b32 [a], %r0;
call f, (a);
}
st.global.u32 [%d0], 77;
ret;
}";
    same_bytes(text, &launch());
}

#[test]
fn guarded_ret_and_exit_leave() {
    same(
        "setp.lt.u32 %p1, %t, 5; @%p1 ret; setp.gt.u32 %p2, %t, 20; @%p2 exit; add.u32 %r0, %r0, 1;",
    );
}

#[test]
fn a_loop_without_effects_stays() {
    let text = ".visible .entry k(.param .u64 p)
{
.reg .b64 %d;
AGAIN:
bra AGAIN;
}";
    for (pipeline, level) in common::PIPELINES {
        let printed = common::relifted(text, pipeline, *level);
        assert!(printed.contains("bra"), "the loop is gone:\n{printed}");
    }
}

#[test]
fn a_trap_reaches_the_device() {
    let text = kernel("setp.eq.u32 %p1, %t, 31; @%p1 trap;");
    for (pipeline, level) in common::PIPELINES {
        let printed = common::relifted(&text, pipeline, *level);
        assert!(run(&printed, &launch()).is_err(), "no fault:\n{printed}");
    }
}

#[test]
fn a_register_that_nothing_wrote_is_frozen_once() {
    let text = ".func (.param .b32 out) f(.param .b32 a)
{
.reg .pred %p, %q; .reg .b32 %r<4>;
ld.param.b32 %r0, [a];
setp.eq.s32 %p, %r0, 0;
@%p mov.b32 %r1, 5;
add.s32 %r2, %r1, %r3;
sub.s32 %r2, %r2, %r3;
st.param.b32 [out], %r2;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn carries_that_follow_each_other_are_one_piece_of_assembly() {
    let text = ".func (.param .b32 out) f(.param .b32 a, .param .b32 b)
{
.reg .b32 %r<6>;
ld.param.b32 %r0, [a];
ld.param.b32 %r1, [b];
add.cc.u32 %r2, %r0, %r1;
addc.cc.u32 %r3, %r2, 5;
madc.hi.u32 %r2, %r3, %r0, %r2;
xor.b32 %r4, %r2, %r3;
st.param.b32 [out], %r4;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn carries_with_something_between_are_values() {
    let text = ".func (.param .b32 out) f(.param .b32 a, .param .b32 b)
{
.reg .b32 %r<6>;
ld.param.b32 %r0, [a];
ld.param.b32 %r1, [b];
add.cc.u32 %r2, %r0, %r1;
mov.b32 %r4, 1;
addc.u32 %r3, %r2, %r4;
st.param.b32 [out], %r3;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn carries_compute_the_same() {
    // In a row; with a move between; into another block; under a guard; a borrow taken as a carry; 64 bits; products; a
    // carry that is made anew before the old one is taken.
    same("not.b32 %r1, %t;
        add.cc.u32 %r2, %r0, %r1; addc.cc.u32 %r3, %r1, -1; addc.cc.u32 %r4, 0, 0; addc.u32 %r5, %r4, %r0;
        xor.b32 %r6, %r2, %r3; xor.b32 %r6, %r6, %r5;
        add.cc.u32 %r2, %r0, 0x80000000; mov.u32 %r7, 3; addc.u32 %r7, %r7, %r2; xor.b32 %r6, %r6, %r7;
        sub.cc.u32 %r2, %r0, %r1; setp.lt.u32 %p1, %t, 9; @%p1 bra NEXT;
        NEXT: subc.cc.u32 %r3, %r2, %t; addc.u32 %r4, %r3, 0; xor.b32 %r6, %r6, %r4;
        add.cc.u32 %r2, %r0, %r0; @%p1 add.cc.u32 %r2, -1, 1; addc.u32 %r3, 0, 0; xor.b32 %r6, %r6, %r3;
        mad.lo.cc.u32 %r2, %r0, %r1, %r0; madc.hi.cc.s32 %r3, %r0, %r1, %r0; madc.hi.u32 %r4, %r0, %r3, %r2;
        xor.b32 %r6, %r6, %r3; xor.b32 %r6, %r6, %r4;
        cvt.s64.s32 %d1, %r0; add.cc.u64 %d2, %d1, %d1; addc.u64 %d3, %d1, 0; cvt.u32.u64 %r5, %d3; xor.b32 %r6, %r6, %r5;
        add.cc.u32 %r2, %r0, %r0; add.cc.u32 %r2, %r2, 1; addc.u32 %r3, %r2, 0; add.u32 %r0, %r6, %r3;");
}

#[test]
fn registers_of_8_and_128_bits_pass_through_assembly() {
    same(".reg .b8 %b<4>; .reg .b128 %q<3>;
        cvt.u8.u32 %b0, %r0; cvt.u32.u8 %r1, %b0;
        mov.b32 {%b0, %b1, %b2, %b3}, %r0; mov.b32 %r2, {%b3, %b1, %b0, %b2};
        cvt.u64.u32 %d1, %r0; mov.b128 %q0, {%d1, %d1}; mov.b128 {%d2, %d3}, %q0; cvt.u32.u64 %r3, %d3;
        add.u32 %r0, %r1, %r2; add.u32 %r0, %r0, %r3;");
}

#[test]
fn destinations_of_all_kinds_are_written() {
    // A pair, a sink in a pair, a sink in a vector, selected bytes, a predicate alone.
    same(
        "shfl.sync.up.b32 %r1|%p1, %r0, 1, 0, -1; selp.u32 %r2, 1, 2, %p1;
        shfl.sync.down.b32 _|%p2, %r0, 4, 31, -1; selp.u32 %r3, 4, 8, %p2;
        mov.b64 %d1, {%r0, %r1}; mov.b64 {_, %r4}, %d1;
        vadd.u32.u32.u32 %r5.b1, %r0.b2, %r1.h0, %r4;
        vsub.s32.u32.s32 %r6, %r0.b3, %r1, %r2;
        vote.sync.any.pred %p3, !%p1, -1; selp.u32 %r7, 16, 32, %p3;
        add.u32 %r0, %r1, %r2; xor.b32 %r0, %r0, %r3; add.u32 %r0, %r0, %r4; xor.b32 %r0, %r0, %r5;
        add.u32 %r0, %r0, %r6; xor.b32 %r0, %r0, %r7;",
    );
}

#[test]
fn textures_stay_names() {
    let text = ".global .texref image;
.global .surfref target;
.func (.param .b32 out) f(.param .b32 a)
{
.reg .b32 %r<6>;
ld.param.b32 %r0, [a];
tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [image, {%r0}];
sust.b.1d.b32.trap [target, {%r0}], %r1;
txq.width.b32 %r5, [image];
st.param.b32 [out], %r5;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn what_waits_for_products_takes_and_gives_their_registers() {
    let text = ".visible .entry k(.param .u64 p)
{
.reg .f32 %f<9>; .reg .b64 %d<4>; .reg .pred %p; .reg .b32 %r;
ld.param.u64 %d0, [p];
mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.f32 %f8, %f0;
mov.b64 %d1, 0;
setp.ne.b64 %p, %d1, 1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d1, %d1, %p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
add.f32 %f8, %f8, %f1;
st.global.f32 [%d0], %f0;
st.global.f32 [%d0+4], %f8;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn clocks_are_read_as_often_as_written() {
    let text = ".func (.param .b32 out) f(.param .b32 a)
{
.reg .b32 %r<6>; .reg .b64 %d<2>;
ld.param.b32 %r0, [a];
mov.u32 %r1, %clock;
mov.u32 %r2, %clock;
sub.u32 %r1, %r2, %r1;
mov.u32 %r3, %smid;
mov.u32 %r4, %nsmid;
mov.u32 %r5, %laneid;
add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4; add.u32 %r1, %r1, %r5;
st.param.b32 [out], %r1;
ret;
}";
    insta::assert_snapshot!(functions(&ir(text)));
}

#[test]
fn guarded_accesses_may_stay_one_instruction() {
    let text = kernel(
        "setp.lt.u32 %p1, %t, 13; mov.u32 %r1, 5;
        @%p1 ld.global.u32 %r1, [%at];
        add.u32 %r1, %r1, 3;
        @!%p1 st.global.u32 [%at], %r1;
        @%p1 red.global.add.u32 [%at], 7;
        ld.global.u32 %r0, [%at];",
    );
    let (text, module) = common::checked(&text);
    let context = Context::create();
    let options = Options {
        keep_guards: true,
        ..Options::default()
    };
    let lifted = common::lifted_as(&context, &module, &options);
    insta::assert_snapshot!(functions(&lifted.module.print_to_string().to_string()));
    let pipeline = Pipeline::Preset(Preset::O3);
    let printed = common::print(&lifted, &text, &module, &pipeline, 3);
    assert_eq!(
        run(&printed, &launch()).unwrap(),
        run(&text, &launch()).unwrap(),
        "{printed}"
    );
}

/// LLVM's `unify-loop-exits` takes the end of each block for a branch, and crashes on loops that a table leaves.
#[test]
fn loops_that_tables_leave_get_one_exit() {
    let ptx = "
.visible .entry k(.param .u64 out)
{
.reg .b32 %r<8>; .reg .b64 %d<4>; .reg .pred %p<4>;
ld.param.u64 %d0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %d2, %r0, 4;
add.s64 %d0, %d0, %d2;
mov.u32 %r5, 0;
table: .branchtargets first, second, first, again, second, first;
rem.u32 %r1, %r0, 6;
setp.gt.u32 %p0, %r0, 20;
@!%p0 brx.idx %r1, table;
add.u32 %r5, %r5, 1000;
again:
add.u32 %r5, %r5, 100;
setp.lt.u32 %p1, %r5, 300;
@%p1 bra first;
bra second;
first:
add.u32 %r5, %r5, 10;
setp.gt.u32 %p1, %r5, 400;
@%p1 bra last;
rem.u32 %r1, %r5, 6;
brx.idx %r1, table;
second:
add.u32 %r5, %r5, 1;
last:
st.global.u32 [%d0], %r5;
ret;
}";
    let launch = Launch::new("k", 32, vec![0; 128]);
    let expected = run(ptx, &launch).unwrap();
    for passes in [
        "function(unify-loop-exits)",
        "function(simplifycfg,fix-irreducible,unify-loop-exits)",
    ] {
        let printed = relifted(ptx, &Pipeline::Text(passes.into()), 3);
        assert_eq!(
            run(&printed, &launch).unwrap(),
            expected,
            "{passes}\n{printed}"
        );
    }
}
