//! What LLVM cannot print, put back into its text.

#![allow(clippy::unwrap_used)]

#[path = "abi/round.rs"]
#[allow(dead_code)]
mod round;

use r3_codegen::emit::Options;
use round::{BEST, PLAIN};

/// Variables of all kinds, functions that name each other, and a second kernel.
const MODULE: &str = r#"
.version 9.0
.target sm_90a, debug
.address_size 64
.pragma "nounroll";
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.func (.param .b32 r) called(.param .b32 a);
.visible .func (.param .b32 r) other(.param .b32 a);
.weak .func unused_here();
.visible .global .align 16 .b8 sink[64];
.visible .const .align 4 .f32 table[2] = {0f3F800000, -1.5};
.global .align 8 .u64 functions[2] = {called, generic(sink)+4};
.global .align 1 .u8 bytes[2] = {0xFF(sink), 0xFF00(sink)};
.visible .global .attribute(.managed) .align 8 .b8 managed[16];
.weak .global .align 4 .u32 weak = 3;
.common .global .align 4 .b32 common;
.global .texref texture;
.visible .global .samplerref sampler;
.visible .global .align 4 .b32 only_of_second = 5;
.shared .align 4 .b8 shared[64];
.func (.param .b32 r) called(.param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [a];
    add.u32 %r2, %r1, 1;
    st.param.b32 [r], %r2;
    ret;
}
.alias other, called;
.weak .func unused_here() .noreturn
{
    trap;
}
.visible .entry first(.param .u64 .ptr .global .align 16 p, .param .align 4 .b8 s[8])
.maxntid 128, 1, 1
.minnctapersm 3
{
    .shared .align 8 .b8 own[16];
    .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<3>;
    .pragma "enable_smem_spilling";
    ld.param.u64 %d1, [p];
    ld.param.u32 %r1, [s+4];
    mov.u64 %d2, functions;
    ld.global.u64 %d3, [functions];
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call.uni (y), called, (x); ld.param.b32 %r2, [y]; }
    ld.const.f32 %f1, [table];
    st.global.u64 [%d1], %d3;
    st.global.f32 [%d1+8], %f1;
    st.global.u32 [%d1+12], %r2;
    ld.shared.u32 %r3, [own];
    st.shared.u32 [shared], 1;
    ret;
}
.weak .entry second(.param .align 64 .b8 tensor[128])
.explicitcluster
.reqnctapercluster 2, 1, 1
.reqntid 32
{
    .reg .b32 %r<3>; .reg .b64 %d<3>;
    mov.b64 %d1, tensor;
    cvta.param.u64 %d2, %d1;
    ld.u32 %r1, [%d2+4];
    st.global.u32 [only_of_second], %r1;
    ret;
}
"#;

fn emitted(text: &str, way: round::Way, kernel: Option<&str>) -> String {
    let made = round::round(text, way, kernel, &Options::default()).unwrap();
    round::sound(&made).unwrap_or_else(|e| panic!("{e}\n{made}"));
    made
}

#[test]
fn a_whole_module_comes_back() {
    insta::assert_snapshot!(emitted(MODULE, PLAIN, None));
}

#[test]
fn one_kernel_comes_with_what_it_needs() {
    insta::assert_snapshot!(emitted(MODULE, BEST, Some("first")));
}

#[test]
fn an_assembler_takes_what_comes_back() {
    let Some(ptxas) = round::needed_ptxas() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let text = MODULE.replace(".global .texref texture;", "");
    let text = text.replace(".visible .global .samplerref sampler;", "");
    for way in [PLAIN, BEST] {
        for kernel in [None, Some("first"), Some("second")] {
            let made = emitted(&text, way, kernel);
            let kernels = round::kernels(&ptxas, &made, folder.path(), "made");
            let kernels = kernels.unwrap_or_else(|e| panic!("{way:?} {kernel:?}: {e}\n{made}"));
            assert_eq!(kernels.len(), if kernel.is_some() { 1 } else { 2 });
        }
    }
}

/// Dynamic shared memory begins where the largest alignment of what a kernel names lets it.
#[test]
fn dynamic_shared_memory_keeps_its_alignment() {
    let text = "
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 4 .b8 small[];
.extern .shared .align 64 .b8 large[];
.visible .entry one(.param .u64 p)
{
    .reg .b32 %r<3>;
    ld.shared.u32 %r1, [small];
    st.shared.u32 [small+4], %r1;
    ret;
}
.visible .entry two(.param .u64 p)
{
    .reg .b32 %r<3>;
    ld.shared.u32 %r1, [small];
    st.shared.u32 [large+8], %r1;
    ret;
}
";
    let made = emitted(text, PLAIN, None);
    let uses: Vec<&str> = made
        .lines()
        .map(str::trim)
        .filter(|line| line.contains(".shared."))
        .collect();
    insta::assert_snapshot!(uses.join("\n"), @r"
    ld.shared.b32 %r1, [small];
    st.shared.b32 [small+4], %r1;
    ld.shared.b32 %r1, [large];
    st.shared.b32 [large+8], %r1;
    ");
}

/// Same input, same bytes.
#[test]
fn the_text_is_the_same_each_time() {
    for way in [PLAIN, BEST] {
        let first = emitted(MODULE, way, None);
        for _ in 0..3 {
            assert_eq!(first, emitted(MODULE, way, None));
        }
    }
}

/// A function that IR cannot express goes through as text, together with those that call it.
#[test]
fn what_cannot_be_lifted_stays_text() {
    let text = "
.version 9.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.func (.param .b32 r) helper(.param .b8 narrow, .param .b32 a)
{
    .reg .b32 %r<3>;
    ld.param.u32 %r1, [a];
    add.u32 %r2, %r1, 1;
    st.param.b32 [r], %r2;
    ret;
}
.func (.param .b32 r) many(.param .b32 count, .param .align 8 .b8 rest[])
{
    .reg .b32 %r<4>;
    .param .b8 narrow; .param .b32 x; .param .b32 y;
    ld.param.u32 %r1, [count];
    ld.param.u32 %r2, [rest+8];
    st.param.b8 [narrow], %r1;
    st.param.b32 [x], %r2;
    call (y), helper, (narrow, x);
    ld.param.b32 %r3, [y];
    st.param.b32 [r], %r3;
    ret;
}
.visible .entry k(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<2>;
    .param .b32 n; .param .align 8 .b8 list[16]; .param .b32 back;
    ld.param.u64 %d1, [p];
    st.param.b32 [n], 2;
    st.param.b32 [list+8], 40;
    call (back), many, (n, list);
    ld.param.b32 %r1, [back];
    st.global.u32 [%d1], %r1;
    ret;
}
.visible .entry lifted(.param .u64 p)
{
    .reg .b32 %r<4>; .reg .b64 %d<2>;
    .param .b8 narrow; .param .b32 x; .param .b32 y;
    ld.param.u64 %d1, [p];
    st.param.b8 [narrow], 1;
    st.param.b32 [x], 5;
    call (y), helper, (narrow, x);
    ld.param.b32 %r3, [y];
    st.global.u32 [%d1], %r3;
    ret;
}
";
    for way in [PLAIN, BEST] {
        let made = emitted(text, way, None);
        let tree = r3_ptx::parse(&made).unwrap();
        let checked = r3_ptx::check(&tree).unwrap();
        let with_body = checked.functions.iter().filter(|f| f.body.is_some());
        let mut names: Vec<&str> = with_body.map(|f| &*f.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["helper", "k", "lifted", "many"]);
        assert!(made.contains("ld.param.u32 %r2, [rest+8];"), "{made}");
        assert!(made.contains(".param .b8 "), "{made}");
    }
}

/// Targets on which LLVM copies a parameter before it takes an address of it.
#[test]
fn addresses_of_parameters_on_old_targets() {
    let text = "
.version 6.0
.target sm_60
.address_size 64
.visible .entry k(.param .u64 p, .param .align 4 .b8 s[32])
{
    .reg .b32 %r<3>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %d2, %r1, 4;
    mov.b64 %d3, s;
    add.s64 %d4, %d3, %d2;
    ld.param.u32 %r2, [%d4];
    st.global.u32 [%d1], %r2;
    ret;
}
";
    for way in [PLAIN, BEST] {
        let made = emitted(text, way, None);
        assert!(!made.contains(".local"), "{made}");
        assert!(!made.contains("cvta"), "{made}");
    }
}
