//! Calls, parameters and variables compute what they computed: run on the CPU device before and after lifting.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Launch, longs, same_bytes, words};

fn filled(count: u32) -> Vec<u8> {
    words(&(0..count).map(|i| i * 7 + 3).collect::<Vec<_>>())
}

/// Arguments as compilers write them: each part of the call once, read once.
#[test]
fn scalars_go_in_and_come_out() {
    let ptx = "
.func (.param .b32 r) mix(.param .b32 a, .param .b64 b, .param .f32 c)
{
    .reg .b32 %r<5>; .reg .b64 %d<3>; .reg .f32 %f<3>;
    ld.param.u32 %r1, [a];
    ld.param.u64 %d1, [b];
    ld.param.f32 %f1, [c];
    cvt.u32.u64 %r2, %d1;
    cvt.rzi.s32.f32 %r3, %f1;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    st.param.b32 [r], %r4;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<5>; .reg .b64 %d<4>; .reg .f32 %f<3>; .reg .pred %p;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    ld.global.u32 %r2, [%d1];
    cvt.u64.u32 %d3, %r2;
    cvt.rn.f32.u32 %f1, %r1;
    setp.gt.u32 %p, %r1, 3;
    mov.u32 %r3, 5;
    @%p bra skip;
    {
    .param .b32 x; .param .b64 y; .param .f32 z; .param .b32 back;
    st.param.b32 [x], %r1;
    st.param.b64 [y], %d3;
    st.param.f32 [z], %f1;
    call.uni (back), mix, (x, y, z);
    ld.param.b32 %r3, [back];
    }
skip:
    st.global.u32 [%d1], %r3;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 8, filled(8)));
}

/// A structure of words, from functions that only the module sees: one is called by name, the other by its address too.
#[test]
fn a_result_is_stored_as_it_is_aligned() {
    let function = |name: &str| {
        let stores =
            (0..24).map(|n| format!("add.u32 %r2, %r1, {n};\nst.param.b32 [r+{}], %r2;\n", n * 4));
        format!(
            ".func (.param .align 4 .b8 r[96]) {name}(.param .b32 a)
            {{ .reg .b32 %r<3>; ld.param.u32 %r1, [a]; {} ret; }}\n",
            stores.collect::<String>()
        )
    };
    // Something before the results, so that they do not begin at 16 bytes by chance.
    let call = |callee: &str, offset: u32| {
        let loads = (0..24).map(|n| {
            let to = offset + n * 4;
            format!(
                "ld.param.b32 %r3, [back+{}];\nst.global.u32 [%d1+{to}], %r3;\n",
                n * 4
            )
        });
        format!(
            "{{ .param .b32 x; .param .align 4 .b8 back[96]; st.param.b32 [x], %r1;
            call (back), {callee}; {} }}\n",
            loads.collect::<String>()
        )
    };
    let ptx = format!(
        "{}{}.visible .entry k(.param .u64 p)
        {{
        .reg .b32 %r<5>; .reg .b64 %d<4>;
        .local .align 4 .b8 before[4];
        shape: .callprototype (.param .align 4 .b8 _[96]) _ (.param .b32 _);
        ld.param.u64 %d1, [p];
        mov.u32 %r1, %tid.x;
        st.local.u32 [before], %r1;
        mul.wide.u32 %d2, %r1, 288;
        add.s64 %d1, %d1, %d2;
        {}{}
        mov.b64 %d3, by_address;
        {}
        ret;
        }}",
        function("by_name"),
        function("by_address"),
        call("by_name, (x)", 0),
        call("by_address, (x)", 96),
        call("%d3, (x), shape", 192)
    );
    same_bytes(&ptx, &Launch::new("k", 4, vec![0; 288 * 4]));
}

/// Structures in, structures out, with more alignment than their parts need, by parts and by vectors.
#[test]
fn aggregates_keep_their_bytes() {
    let ptx = "
.func (.param .align 16 .b8 r[20]) turn(.param .align 16 .b8 s[20], .param .align 2 .b8 t[6])
{
    .reg .b32 %r<9>; .reg .b16 %h<4>;
    ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [s];
    ld.param.b32 %r5, [s+16];
    ld.param.u16 %h1, [t+4];
    ld.param.u8 %h2, [t+1];
    add.u16 %h3, %h1, %h2;
    cvt.u32.u16 %r6, %h3;
    add.u32 %r6, %r6, %r5;
    st.param.v4.b32 [r], {%r4, %r3, %r2, %r1};
    st.param.b32 [r+16], %r6;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<19>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];
    ld.global.u32 %r5, [%d1+16];
    {
    .param .align 16 .b8 in[20]; .param .align 2 .b8 more[6]; .param .align 16 .b8 out[20];
    st.param.v4.b32 [in], {%r1, %r2, %r3, %r4};
    st.param.b32 [in+16], %r5;
    st.param.b16 [more], 258;
    st.param.b16 [more+2], 3;
    st.param.b16 [more+4], 4;
    call.uni (out), turn, (in, more);
    ld.param.v2.b32 {%r6, %r7}, [out+8];
    ld.param.v2.b32 {%r8, %r9}, [out];
    ld.param.b32 %r10, [out+16];
    }
    st.global.v4.u32 [%d1+32], {%r6, %r7, %r8, %r9};
    st.global.u32 [%d1+48], %r10;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 1, filled(16)));
}

/// A table of functions in memory, a prototype, a list of targets.
#[test]
fn functions_are_called_by_their_addresses() {
    let ptx = "
.func (.param .b32 r) twice(.param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [a];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [r], %r2;
    ret;
}
.func (.param .b32 r) square(.param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [a];
    mul.lo.u32 %r2, %r1, %r1;
    st.param.b32 [r], %r2;
    ret;
}
.global .align 8 .u64 table[2] = {twice, square};
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 8;
    add.s64 %d1, %d1, %d2;
    and.b32 %r2, %r1, 1;
    mul.wide.u32 %d3, %r2, 8;
    mov.u64 %d4, table;
    add.s64 %d4, %d4, %d3;
    ld.global.u64 %d5, [%d4];
    ld.global.u32 %r3, [%d1];
    {
    .param .b32 x; .param .b32 back;
    st.param.b32 [x], %r3;
    proto: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (back), %d5, (x), proto;
    ld.param.b32 %r4, [back];
    }
    setp.eq.u32 %p, %r2, 0;
    mov.u64 %d6, square;
    mov.u64 %d7, twice;
    selp.b64 %d8, %d6, %d7, %p;
    {
    .param .b32 x; .param .b32 back;
    st.param.b32 [x], %r4;
    targets: .calltargets twice, square;
    call (back), %d8, (x), targets;
    ld.param.b32 %r5, [back];
    }
    st.global.u32 [%d1], %r4;
    st.global.u32 [%d1+4], %r5;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 8, filled(16)));
}

#[test]
fn a_function_calls_itself() {
    let ptx = "
.visible .func (.param .b64 r) factorial(.param .b64 n)
{
    .reg .b64 %d<6>; .reg .pred %p;
    ld.param.u64 %d1, [n];
    mov.u64 %d4, 1;
    setp.lt.u64 %p, %d1, 2;
    @%p bra done;
    sub.u64 %d2, %d1, 1;
    {
    .param .b64 x; .param .b64 back;
    st.param.b64 [x], %d2;
    call.uni (back), factorial, (x);
    ld.param.b64 %d3, [back];
    }
    mul.lo.u64 %d4, %d3, %d1;
done:
    st.param.b64 [r], %d4;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<5>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %d2, %r1;
    mul.wide.u32 %d3, %r1, 8;
    add.s64 %d1, %d1, %d3;
    {
    .param .b64 x; .param .b64 back;
    st.param.b64 [x], %d2;
    call.uni (back), factorial, (x);
    ld.param.b64 %d4, [back];
    }
    st.global.u64 [%d1], %d4;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 16, longs(&[0; 16])));
}

/// Parameters in registers, and more than one result: PTX before version 2.
#[test]
fn registers_are_parameters_of_old_functions() {
    let ptx = "
.func (.reg .u32 sum, .reg .u32 product) both(.reg .u32 a, .reg .u32 b)
{
    add.u32 sum, a, b;
    mul.lo.u32 product, a, b;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 8;
    add.s64 %d1, %d1, %d2;
    ld.global.v2.u32 {%r2, %r3}, [%d1];
    call.uni (%r4, %r5), both, (%r2, %r3);
    call.uni (%r6, _), both, (%r4, 9);
    add.u32 %r5, %r5, %r6;
    st.global.v2.u32 [%d1], {%r4, %r5};
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 4, filled(8)));
}

/// Some threads call, others keep what they had; a result is written on several ways and given back at one place.
#[test]
fn guarded_calls_and_results_of_several_ways() {
    let ptx = "
.func (.param .b32 r) pick(.param .b32 a)
{
    .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u32 %r1, [a];
    setp.gt.u32 %p, %r1, 20;
    @%p bra big;
    st.param.b32 [r], 1;
    bra done;
big:
    add.u32 %r2, %r1, 100;
    st.param.b32 [r], %r2;
done:
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d1, %d1, %d2;
    ld.global.u32 %r2, [%d1];
    mov.u32 %r3, 77;
    and.b32 %r4, %r1, 1;
    setp.eq.u32 %p, %r4, 1;
    {
    .param .b32 x; .param .b32 back;
    @%p st.param.b32 [x], %r2;
    @%p call (back), pick, (x);
    @%p ld.param.b32 %r3, [back];
    }
    st.global.u32 [%d1], %r3;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 8, filled(8)));
}

/// What a kernel does with parameters beyond loading them: parts, an index, a generic address.
#[test]
fn parameters_in_memory() {
    let ptx = "
.visible .entry k(.param .u64 p, .param .align 8 .b8 s[32], .param .u64 split, .param .align 4 .b8 whole[4])
{
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b16 %h<4>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 32;
    add.s64 %d1, %d1, %d2;
    mul.wide.u32 %d3, %r1, 4;
    mov.b64 %d4, s;
    add.s64 %d5, %d4, %d3;
    ld.param.u32 %r2, [%d5];
    cvta.param.u64 %d6, %d5;
    ld.u16 %h1, [%d6+2];
    ld.param.v2.u32 {%r3, %r4}, [s+16];
    ld.param.u32 %r5, [split+4];
    ld.param.u16 %h2, [split+2];
    ld.param.u32 %r6, [whole];
    st.global.u32 [%d1], %r2;
    st.global.u16 [%d1+4], %h1;
    st.global.u16 [%d1+6], %h2;
    st.global.v2.u32 [%d1+8], {%r3, %r4};
    st.global.v2.u32 [%d1+16], {%r5, %r6};
    ret;
}";
    let params = (0..44).map(|i| (i * 5 + 1) as u8).collect();
    let launch = Launch {
        params,
        ..Launch::new("k", 8, vec![0; 256])
    };
    same_bytes(ptx, &launch);
}

/// Views of dynamic shared memory under several names: one memory.
#[test]
fn dynamic_shared_memory_has_many_names() {
    let ptx = "
.extern .shared .align 4 .b8 words[];
.extern .shared .align 16 .b8 bytes[];
.visible .entry k(.param .u64 p)
{
    .shared .align 4 .b8 fixed[4];
    .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .b16 %h<3>;
    ld.param.u64 %d1, [p];
    st.shared.u32 [fixed], 9;
    st.shared.u32 [words], 1;
    st.shared.u8 [bytes], 7;
    ld.shared.u32 %r1, [words];
    mov.u32 %r2, words;
    mov.u32 %r3, bytes;
    sub.u32 %r4, %r2, %r3;
    st.global.v2.u32 [%d1], {%r1, %r4};
    ret;
}";
    let launch = Launch {
        dynamic_shared: 64,
        ..Launch::new("k", 1, filled(4))
    };
    same_bytes(ptx, &launch);
}

/// Shared memory of a function is one for all that call it, inlined or not.
#[test]
fn shared_memory_of_a_function_outlives_its_calls() {
    let ptx = "
.func (.param .b32 r) count(.param .b32 step)
{
    .shared .align 4 .b8 counter[4];
    .reg .b32 %r<4>; .reg .pred %p;
    ld.param.u32 %r1, [step];
    setp.eq.u32 %p, %r1, 0;
    @%p st.shared.u32 [counter], 0;
    ld.shared.u32 %r2, [counter];
    add.u32 %r2, %r2, %r1;
    st.shared.u32 [counter], %r2;
    st.param.b32 [r], %r2;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    { .param .b32 x; .param .b32 y; st.param.b32 [x], 0; call.uni (y), count, (x); }
    { .param .b32 x; .param .b32 y; st.param.b32 [x], 5; call.uni (y), count, (x); }
    { .param .b32 x; .param .b32 y; st.param.b32 [x], 7; call.uni (y), count, (x); ld.param.b32 %r1, [y]; }
    st.global.u32 [%d1], %r1;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 1, filled(1)));
}

/// Numbers, addresses of variables and bytes of addresses in initialisers; variables of functions.
#[test]
fn variables_keep_their_values() {
    let ptx = "
.const .align 4 .u32 numbers[4] = {1, 2, 0xFFFFFFFF, 4};
.global .align 4 .f32 floats[2] = {0f3F800000, 2.5};
.global .align 8 .u64 pointer = generic(floats)+4;
.visible .entry k(.param .u64 p)
{
    .global .align 4 .u32 own = 11;
    .const .align 4 .u32 fixed[2] = {21, 22};
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<3>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    mov.u64 %d3, numbers;
    add.s64 %d4, %d3, %d2;
    ld.const.u32 %r2, [%d4];
    ld.global.u64 %d5, [pointer];
    ld.f32 %f1, [%d5];
    cvt.rzi.u32.f32 %r3, %f1;
    ld.global.u32 %r4, [own];
    ld.const.u32 %r5, [fixed+4];
    mul.wide.u32 %d6, %r1, 16;
    add.s64 %d1, %d1, %d6;
    st.global.v4.u32 [%d1], {%r2, %r3, %r4, %r5};
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 4, filled(16)));
}

/// The stack: an array of the thread, by local and by generic address.
#[test]
fn arrays_on_the_stack() {
    let ptx = "
.visible .entry k(.param .u64 p)
{
    .local .align 8 .b8 depot[32];
    .reg .b32 %r<9>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mov.u64 %d2, depot;
    cvta.local.u64 %d3, %d2;
    and.b32 %r2, %r1, 3;
    mul.wide.u32 %d4, %r2, 4;
    add.s64 %d5, %d3, %d4;
    add.s64 %d6, %d2, %d4;
    st.u32 [%d5], %r1;
    st.local.u32 [%d6+16], 5;
    ld.local.u32 %r3, [%d6];
    ld.u32 %r4, [%d5+16];
    mul.wide.u32 %d7, %r1, 8;
    add.s64 %d1, %d1, %d7;
    st.global.v2.u32 [%d1], {%r3, %r4};
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 8, filled(16)));
}

/// Another name of a function.
#[test]
fn a_function_has_two_names() {
    let ptx = "
.visible .func (.param .b32 r) real(.param .b32 a);
.visible .func (.param .b32 r) other(.param .b32 a);
.visible .func (.param .b32 r) real(.param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [a];
    add.u32 %r2, %r1, 4;
    st.param.b32 [r], %r2;
    ret;
}
.alias other, real;
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    ld.global.u32 %r1, [%d1];
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), other, (x); ld.param.b32 %r2, [y]; }
    st.global.u32 [%d1], %r2;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 1, filled(1)));
}

/// Prototypes have bits where functions have numbers.
#[test]
fn a_prototype_says_bits_where_the_function_says_float() {
    let ptx = "
.func (.param .f32 r) half_of(.param .f32 a, .param .s64 b)
{
    .reg .f32 %f<4>; .reg .b64 %d<2>;
    ld.param.f32 %f1, [a];
    ld.param.s64 %d1, [b];
    cvt.rn.f32.s64 %f2, %d1;
    fma.rn.f32 %f3, %f1, 0f3F000000, %f2;
    st.param.f32 [r], %f3;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .f32 %f<3>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    cvt.rn.f32.u32 %f1, %r1;
    mov.u64 %d2, half_of;
    mul.wide.u32 %d3, %r1, 4;
    add.s64 %d1, %d1, %d3;
    {
    .param .b32 x; .param .b64 y; .param .b32 back;
    st.param.f32 [x], %f1;
    st.param.b64 [y], -3;
    proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
    call (back), %d2, (x, y), proto;
    ld.param.f32 %f2, [back];
    }
    st.global.f32 [%d1], %f2;
    ret;
}";
    same_bytes(ptx, &Launch::new("k", 8, filled(8)));
}

/// The same, declared where it is used.
#[test]
fn dynamic_shared_memory_of_functions() {
    let ptx = "
.func fill()
{
    .extern .shared .align 4 .b8 words[];
    st.shared.u32 [words], 8;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .extern .shared .align 4 .b8 bytes[];
    .reg .b32 %r<3>; .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    st.shared.u8 [bytes], 7;
    call.uni fill;
    ld.shared.u32 %r1, [bytes];
    st.global.u32 [%d1], %r1;
    ret;
}";
    let launch = Launch {
        dynamic_shared: 64,
        ..Launch::new("k", 1, filled(4))
    };
    same_bytes(ptx, &launch);
}
