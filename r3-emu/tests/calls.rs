//! Calls: parameters, results, recursion, pointers to functions, and the functions of the device.

mod common;

use common::{Device, per_thread, run_threads};
use r3_emu::FaultKind;

fn run_with(functions: &str, body: &str, threads: u32) -> Vec<u32> {
    let text = format!("{functions}\n{}", per_thread(body));
    let device = Device::new(&text, &vec![0; 4 * threads as usize]);
    device
        .launch("k", 1, threads)
        .unwrap_or_else(|f| panic!("{f}"));
    device.words(threads as usize)
}

const TWICE: &str = "
    .func (.param .b32 result) twice(.param .b32 x) {
        .reg .b32 %r<3>;
        ld.param.b32 %r1, [x];
        add.u32 %r2, %r1, %r1;
        st.param.b32 [result], %r2;
        ret;
    }";

#[test]
fn a_call_passes_parameters_and_brings_results_back() {
    let body = "
        {
            .param .b32 a; .param .b32 b;
            st.param.b32 [a], %t;
            call.uni (b), twice, (a);
            ld.param.b32 %r0, [b];
        }";
    let want: Vec<u32> = (0..40).map(|t| 2 * t).collect();
    assert_eq!(run_with(TWICE, body, 40), want);
}

#[test]
fn only_the_lanes_that_call_get_a_result() {
    let body = "
        mov.u32 %r0, 9;
        setp.gt.u32 %p1, %t, 20;
        @!%p1 bra E;
        {
            .param .b32 a; .param .b32 b;
            st.param.b32 [a], %t;
            call (b), twice, (a);
            ld.param.b32 %r0, [b];
        }
        E: activemask.b32 %r1; setp.ne.u32 %p2, %r1, -1; @%p2 trap;";
    let want: Vec<u32> = (0..32).map(|t| if t > 20 { 2 * t } else { 9 }).collect();
    assert_eq!(run_with(TWICE, body, 32), want);
}

#[test]
fn parameters_in_registers_are_passed_too() {
    let function = "
        .func (.reg .u32 r) add3(.reg .u32 a, .reg .u32 b, .reg .u64 c) {
            .reg .u32 x;
            cvt.u32.u64 x, c;
            add.u32 r, a, b;
            add.u32 r, r, x;
            ret;
        }";
    let body = "mov.u64 %d1, 1000; call (%r0), add3, (%t, 5, %d1);";
    let want: Vec<u32> = (0..32).map(|t| t + 1005).collect();
    assert_eq!(run_with(function, body, 32), want);
}

#[test]
fn each_lane_recurses_as_deep_as_it_must() {
    let function = "
        .func (.param .b32 result) fib(.param .b32 n) {
            .reg .b32 %r<9>; .reg .pred %p;
            .param .b32 a; .param .b32 b;
            ld.param.b32 %r1, [n];
            setp.lt.u32 %p, %r1, 2;
            @%p bra SMALL;
            sub.u32 %r2, %r1, 1;
            st.param.b32 [a], %r2;
            call (b), fib, (a);
            ld.param.b32 %r3, [b];
            sub.u32 %r2, %r1, 2;
            st.param.b32 [a], %r2;
            call (b), fib, (a);
            ld.param.b32 %r4, [b];
            add.u32 %r5, %r3, %r4;
            st.param.b32 [result], %r5;
            ret;
        SMALL:
            st.param.b32 [result], %r1;
            ret;
        }";
    let body = "
        rem.u32 %r1, %t, 10;
        {
            .param .b32 a; .param .b32 b;
            st.param.b32 [a], %r1;
            call (b), fib, (a);
            ld.param.b32 %r0, [b];
        }";
    let fib = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34];
    let want: Vec<u32> = (0..32).map(|t| fib[t % 10]).collect();
    assert_eq!(run_with(function, body, 32), want);
}

#[test]
fn recursion_without_end_is_a_full_stack() {
    let function = "
        .func f(.param .b32 n) {
            .param .b32 a; .reg .b32 %r<3>;
            ld.param.b32 %r1, [n];
            st.param.b32 [a], %r1;
            call f, (a);
            ret;
        }";
    let body = "{ .param .b32 a; st.param.b32 [a], %t; call f, (a); } mov.u32 %r0, 1;";
    let device = Device::new(&format!("{function}{}", per_thread(body)), &[0; 128]);
    let fault = device.launch("k", 1, 32).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StackOverflow);
    assert_eq!(fault.function.as_deref(), Some("f"));
}

#[test]
fn lanes_call_different_functions_through_pointers() {
    let functions = format!(
        "{TWICE}
        .func (.param .b32 result) plus7(.param .b32 x) {{
            .reg .b32 %r<3>;
            ld.param.b32 %r1, [x];
            add.u32 %r2, %r1, 7;
            st.param.b32 [result], %r2;
            ret;
        }}
        .global .align 8 .u64 table[2] = {{ twice, plus7 }};"
    );
    let body = "
        and.b32 %r1, %t, 1;
        mul.wide.u32 %d1, %r1, 8;
        mov.u64 %d2, table;
        add.u64 %d3, %d1, %d2;
        ld.global.u64 %d4, [%d3];
        {
            .param .b32 a; .param .b32 b;
            st.param.b32 [a], %t;
            P: .callprototype (.param .b32 _) _ (.param .b32 _);
            call (b), %d4, (a), P;
            ld.param.b32 %r0, [b];
        }";
    let want: Vec<u32> = (0..32)
        .map(|t| if t % 2 == 0 { 2 * t } else { t + 7 })
        .collect();
    assert_eq!(run_with(&functions, body, 32), want);
}

#[test]
fn structures_are_passed_by_value_byte_by_byte() {
    let function = "
        .func (.param .align 8 .b8 result[16]) swap(.param .align 8 .b8 x[16]) {
            .reg .b64 %d<3>; .reg .b16 %h;
            ld.param.b64 %d1, [x];
            ld.param.b64 %d2, [x+8];
            st.param.b64 [result], %d2;
            st.param.b64 [result+8], %d1;
            mov.b16 %h, 0xab;
            st.param.b8 [result+1], %h;
            ret;
        }";
    let body = "
        cvt.u64.u32 %d1, %t;
        mov.u64 %d2, 0x1122334455667788;
        {
            .param .align 8 .b8 a[16]; .param .align 8 .b8 b[16];
            st.param.b64 [a], %d1;
            st.param.b64 [a+8], %d2;
            call (b), swap, (a);
            ld.param.b32 %r1, [b];
            ld.param.b32 %r2, [b+8];
        }
        add.u32 %r0, %r1, %r2;";
    let want: Vec<u32> = (0..32).map(|t| 0x5566_ab88 + t).collect();
    assert_eq!(run_with(function, body, 32), want);
}

#[test]
fn printf_prints_lane_by_lane() {
    let ptx = r#"
        .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
        .global .align 1 .b8 fmt[26] = {37,100,32,37,115,32,37,46,50,102,32,37,108,108,120,10,0};
        .global .align 1 .b8 hi[3] = {104,105,0};
        .visible .entry k(.param .u64 p) {
            .local .align 8 .b8 args[32];
            .reg .b64 %d<9>; .reg .b32 %r<5>; .reg .f64 %f;
            mov.u64 %d1, args;
            cvta.local.u64 %d2, %d1;
            mov.u32 %r1, %tid.x;
            st.local.u32 [%d1], %r1;
            mov.u64 %d3, hi;
            cvta.global.u64 %d3, %d3;
            st.local.u64 [%d1+8], %d3;
            mov.f64 %f, 0d3FF8000000000000;
            st.local.f64 [%d1+16], %f;
            mov.u64 %d4, 0xabcdef0123;
            st.local.u64 [%d1+24], %d4;
            mov.u64 %d5, fmt;
            cvta.global.u64 %d5, %d5;
            {
                .param .b64 f; .param .b64 a; .param .b32 r;
                st.param.b64 [f], %d5;
                st.param.b64 [a], %d2;
                call.uni (r), vprintf, (f, a);
                ld.param.b32 %r2, [r];
            }
            ret;
        }"#;
    let device = Device::new(ptx, &[0; 8]);
    device.launch("k", 1, 3).unwrap();
    let lines: String = (0..3)
        .map(|t| format!("{t} hi 1.50 abcdef0123\n"))
        .collect();
    assert_eq!(device.printed(), lines);
}

#[test]
fn a_failed_assertion_is_a_fault_with_its_text() {
    let ptx = r#"
        .extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
        .global .align 1 .b8 msg[6] = {120,32,62,32,48,0};
        .global .align 1 .b8 file[5] = {97,46,99,117,0};
        .visible .entry k(.param .u64 p) {
            .reg .b64 %d<3>;
            mov.u64 %d1, msg; mov.u64 %d2, file;
            {
                .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
                st.param.b64 [m], %d1; st.param.b64 [f], %d2; st.param.b32 [l], 12;
                st.param.b64 [n], %d2; st.param.b64 [c], 1;
                call.uni __assertfail, (m, f, l, n, c);
            }
            ret;
        }"#;
    let device = Device::new(ptx, &[0; 8]);
    let fault = device.launch("k", 1, 1).unwrap_err();
    let FaultKind::Assert {
        message,
        file,
        line,
        ..
    } = &fault.kind
    else {
        panic!("{fault}");
    };
    assert_eq!(
        (message.as_str(), file.as_str(), *line),
        ("x > 0", "a.cu", 12)
    );
}

#[test]
fn malloc_gives_each_thread_memory_of_its_own() {
    let functions = "
        .extern .func (.param .b64 r) malloc(.param .b64 n);
        .extern .func free(.param .b64 p);";
    let body = "
        {
            .param .b64 n; .param .b64 r;
            st.param.b64 [n], 16;
            call (r), malloc, (n);
            ld.param.b64 %d1, [r];
        }
        st.u32 [%d1+12], %t;
        bar.sync 0;
        ld.u32 %r0, [%d1+12];
        { .param .b64 q; st.param.b64 [q], %d1; call free, (q); }";
    let want: Vec<u32> = (0..64).collect();
    assert_eq!(run_with(functions, body, 64), want);
}

#[test]
fn the_stack_grows_with_alloca_and_shrinks_again() {
    let body = "
        stacksave.u64 %d1;
        add.u32 %r1, %t, 8;
        cvt.u64.u32 %d2, %r1;
        alloca.u64 %d3, %d2, 16;
        st.local.u32 [%d3+4], %t;
        alloca.u64 %d4, %d2;
        st.local.u32 [%d4+4], 0;
        ld.local.u32 %r0, [%d3+4];
        stackrestore.u64 %d1;
        stacksave.u64 %d5;
        setp.ne.u64 %p1, %d1, %d5;
        @%p1 trap;";
    assert_eq!(run_threads(body, 32), (0..32).collect::<Vec<_>>());
}

#[test]
fn a_function_that_nobody_defines_is_a_fault_only_when_it_is_called() {
    let functions = ".extern .func nobody(.param .b32 x);";
    let body = |limit: u32| {
        format!(
            "mov.u32 %r0, 1; setp.lt.u32 %p1, %t, {limit}; @!%p1 bra E;
            {{ .param .b32 a; st.param.b32 [a], %t; call nobody, (a); }}
            E:"
        )
    };
    assert_eq!(run_with(functions, &body(0), 32), [1; 32]);
    let device = Device::new(&format!("{functions}{}", per_thread(&body(3))), &[0; 128]);
    let fault = device.launch("k", 1, 32).unwrap_err();
    let FaultKind::Unsupported(what) = &fault.kind else {
        panic!("{fault}");
    };
    assert!(what.contains("nobody"), "{what}");
}
