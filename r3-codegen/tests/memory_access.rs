//! Loads and stores: the same bytes, lifted or not, and the same accesses in what LLVM prints.

#![allow(clippy::unwrap_used)]

mod common;
mod memory_support;

use common::{Launch, relifted};
use memory_support::{noise, same};
use r3_codegen::recipe::{Pipeline, Preset};
use std::fmt::Write;

/// Each type, with the class of a register that takes it, and of a wider one.
const TYPES: &[(&str, &str, &str)] = &[
    ("b8", "b16", "b32"),
    ("u8", "u16", "u64"),
    ("s8", "s16", "s64"),
    ("b16", "b16", "b64"),
    ("u16", "u16", "u32"),
    ("s16", "s16", "s32"),
    ("b32", "b32", "b64"),
    ("u32", "u32", "u64"),
    ("s32", "s32", "s64"),
    ("f32", "f32", "b64"),
    ("b64", "b64", "b64"),
    ("u64", "u64", "u64"),
    ("s64", "s64", "s64"),
    ("f64", "f64", "b64"),
];

fn bytes(ty: &str) -> usize {
    ty.trim_start_matches(|c: char| c.is_ascii_alphabetic())
        .parse::<usize>()
        .unwrap()
        / 8
}

/// A kernel `k(in, out)`: what the body does with `%in` and `%out`, addresses of 64 bytes of each thread.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %in, %out, %at; .reg .b32 %t;\n\
         ld.param.u64 %in, [in]; ld.param.u64 %out, [out];\n\
         cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;\n\
         mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 64;\n\
         add.s64 %in, %in, %at; add.s64 %out, %out, %at;\n{body}ret;\n}}\n"
    )
}

fn launch() -> Launch<'static> {
    let threads = 40;
    Launch {
        buffers: vec![noise(64 * 40, 7), vec![0; 64 * 40]],
        ..Launch::new("k", threads, Vec::new())
    }
}

/// A load of each type and vector in a space, from where `put` has put it, and a store of what it gave.
fn each_form(load: &str, store: &str, vectors: &[usize], put: impl Fn(usize) -> String) {
    for (ty, narrow, wide) in TYPES {
        for register in [narrow, wide] {
            for &n in vectors {
                let size = bytes(ty) * n;
                if size > 16 {
                    continue;
                }
                let vector = if n == 1 {
                    String::new()
                } else {
                    format!(".v{n}")
                };
                let list = |prefix: &str| {
                    let all: Vec<_> = (0..n).map(|i| format!("%{prefix}{i}")).collect();
                    if n == 1 {
                        all.concat()
                    } else {
                        format!("{{{}}}", all.join(", "))
                    }
                };
                let mut body = format!(".reg .{register} %v<{n}>;\n{}", put(size));
                writeln!(body, "{load}{vector}.{ty} {}, [%from+{size}];", list("v")).unwrap();
                writeln!(body, "{store}{vector}.{ty} [%to+{size}], {};", list("v")).unwrap();
                // The whole registers too: how sub-word loads extend.
                for i in 0..n.min(4) {
                    let at = 32 + i * bytes(register);
                    writeln!(body, "st.global.{register} [%out+{at}], %v{i};").unwrap();
                }
                same(&kernel(&body), &launch());
            }
        }
    }
}

const GLOBAL: &str = ".reg .b64 %from, %to; mov.b64 %from, %in; mov.b64 %to, %out;\n";

#[test]
fn global_loads_and_stores_of_each_type_and_vector() {
    each_form("ld.global", "st.global", &[1, 2, 4], |_| GLOBAL.into());
}

#[test]
fn volatile_loads_and_stores_of_each_type_and_vector() {
    each_form(
        "ld.volatile.global",
        "st.volatile.global",
        &[1, 2, 4],
        |_| GLOBAL.into(),
    );
}

#[test]
fn generic_loads_and_stores_of_each_type() {
    each_form("ld", "st", &[1, 4], |_| GLOBAL.into());
}

#[test]
fn loads_of_what_nothing_writes_of_each_type() {
    each_form("ld.global.nc", "st.global", &[1, 2, 4], |_| GLOBAL.into());
}

#[test]
fn atomic_loads_and_stores_of_each_type() {
    each_form(
        "ld.acquire.gpu.global",
        "st.release.sys.global",
        &[1],
        |_| GLOBAL.into(),
    );
    each_form("ld.relaxed.cta", "st.relaxed.cluster", &[1, 2], |_| {
        GLOBAL.into()
    });
}

#[test]
fn hints_of_caches_and_loads_that_llvm_does_not_know() {
    for (load, store) in [
        ("ld.global.cg", "st.global.wt"),
        ("ld.global.cs", "st.global.cs"),
        (
            "ld.global.L1::evict_last.L2::128B",
            "st.global.L1::evict_first",
        ),
        ("ldu.global", "st.weak.global"),
    ] {
        each_form(load, store, &[1, 4], |_| GLOBAL.into());
    }
}

#[test]
fn shared_memory_by_addresses_of_32_bits() {
    let put = |size: usize| {
        format!(
            ".shared .align 16 .b8 s[4096]; .reg .b32 %from, %to; .reg .b8 %c;\n\
             mov.u32 %from, s; mul.lo.u32 %to, %t, 64; add.u32 %from, %from, %to; add.u32 %to, %from, 16;\n{}",
            copy("st.shared.u8", "%from", size)
        )
    };
    each_form("ld.shared", "st.shared", &[1, 2, 4], put);
    each_form("ld.volatile.shared", "st.volatile.shared", &[1, 2], put);
}

/// Copies what will be read from the input, byte by byte.
fn copy(store: &str, to: &str, size: usize) -> String {
    (size..2 * size)
        .map(|i| format!("ld.global.u8 %c, [%in+{i}]; {store} [{to}+{i}], %c;\n"))
        .collect()
}

#[test]
fn local_memory_of_each_type_and_vector() {
    let put = |size: usize| {
        format!(
            ".local .align 16 .b8 l[64]; .reg .b64 %from, %to; .reg .b8 %c;\n\
             mov.u64 %from, l; add.u64 %to, %from, 16;\n{}",
            copy("st.local.u8", "%from", size)
        )
    };
    each_form("ld.local", "st.local", &[1, 4], put);
    each_form("ld.volatile.local", "st.volatile.local", &[1], put);
}

#[test]
fn values_of_128_bits() {
    let body = ".reg .b128 %q; .reg .b64 %a, %b;\n\
        ld.global.b128 %q, [%in+16]; st.global.b128 [%out], %q;\n\
        mov.b128 {%a, %b}, %q; mov.b128 %q, {%b, %a}; st.global.b128 [%out+16], %q;\n";
    same(&kernel(body), &launch());
}

#[test]
fn packed_and_unpacked_parts() {
    let body = "
        .reg .b64 %a, %b; .reg .b32 %r<4>; .reg .b16 %h<4>; .reg .f32 %f<2>; .reg .f64 %d; .reg .b8 %c<4>;
        ld.global.b64 %a, [%in];
        mov.b64 {%r0, %r1}, %a; mov.b64 %b, {%r1, %r0}; st.global.b64 [%out], %b;
        mov.b64 {%h0, %h1, %h2, %h3}, %a; mov.b64 %b, {%h3, %h0, %h2, %h1}; st.global.b64 [%out+8], %b;
        mov.b64 {_, %r2}, %a; st.global.b32 [%out+16], %r2;
        mov.b32 {%h0, %h1}, %r2; mov.b32 %r3, {%h1, %h0}; st.global.b32 [%out+20], %r3;
        mov.b64 {%f0, %f1}, %a; mov.b64 %d, {%f1, %f0}; st.global.f64 [%out+24], %d;
        mov.b32 {%c0, %c1, %c2, %c3}, %r2; mov.b32 %r3, {%c3, %c1, %c2, %c0}; st.global.b32 [%out+32], %r3;
        mov.b64 %b, {%r2, 77}; st.global.b64 [%out+40], %b;
    ";
    same(&kernel(body), &launch());
}

#[test]
fn stores_are_not_moved_across_loads_that_may_alias() {
    // Both pointers are the same buffer, at distances that only the input tells.
    let body = "
        .reg .b64 %p, %q, %d; .reg .b32 %v, %w, %i; .reg .pred %again;
        ld.global.u8 %i, [%in]; and.b32 %i, %i, 28; cvt.u64.u32 %d, %i;
        mov.u64 %p, %out; add.s64 %q, %out, %d;
        mov.u32 %i, 0;
    loop:
        ld.global.u32 %v, [%p];
        add.u32 %v, %v, 3; st.global.u32 [%q], %v;
        ld.global.u32 %w, [%p]; mad.lo.u32 %w, %w, 5, %i; st.global.u32 [%p+4], %w;
        add.s64 %p, %p, 4; sub.s64 %q, %q, -4;
        add.u32 %i, %i, 1; setp.lt.u32 %again, %i, 7; @%again bra loop;
    ";
    same(&kernel(body), &launch());
}

#[test]
fn addresses_wrap_around_as_in_ptx() {
    // The address of 32 bits passes zero on its way, that of 64 bits is made of halves that carry.
    let body = "
        .shared .align 16 .b8 s[4096]; .reg .b32 %p, %q, %v; .reg .b64 %a, %b;
        mov.u32 %p, s; mul.lo.u32 %q, %t, 64; add.u32 %p, %p, %q;
        ld.global.u32 %v, [%in]; st.shared.u32 [%p+8], %v;
        add.u32 %q, %p, 0xfffff000; add.u32 %q, %q, 0x1008; ld.shared.u32 %v, [%q]; st.global.u32 [%out], %v;
        mad.lo.u32 %q, %t, 0xffffffc0, %p; mad.lo.u32 %q, %t, 64, %q; ld.shared.u32 %v, [%q+8];
        st.global.u32 [%out+4], %v;
        sub.u32 %q, %p, 0x80000000; add.u32 %q, %q, 0x80000008; ld.shared.u32 %v, [%q];
        st.global.u32 [%out+8], %v;
        add.u64 %a, %in, 0xfffffffffffffff8; add.u64 %b, %a, 16; ld.global.u32 %v, [%b]; st.global.u32 [%out+12], %v;
        mad.wide.s32 %b, %t, -4, %in; mad.wide.u32 %b, %t, 4, %b; ld.global.u32 %v, [%b]; st.global.u32 [%out+16], %v;
    ";
    same(&kernel(body), &launch());
}

#[test]
fn pointers_chosen_at_run_time() {
    let body = "
        .reg .b64 %p, %q, %null; .reg .b32 %v, %n; .reg .pred %c, %d;
        ld.global.u32 %n, [%in]; and.b32 %n, %n, 1; setp.eq.u32 %c, %n, 0;
        add.s64 %q, %in, 24; selp.b64 %p, %in, %q, %c;
        ld.global.u32 %v, [%p+4]; st.global.u32 [%out], %v;
        mov.u64 %null, 0; @%c mov.u64 %null, %q;
        setp.ne.u64 %d, %null, 0; @%d ld.global.u32 %v, [%null]; st.global.u32 [%out+4], %v;
        @%c add.s64 %p, %p, 8; ld.global.u32 %v, [%p]; st.global.u32 [%out+8], %v;
    ";
    same(&kernel(body), &launch());
}

#[test]
fn addresses_of_one_variable_made_from_another() {
    // What loop optimisers write: the way from `a` to `b` as an index.
    let body = "
        .shared .align 16 .b8 a[4096]; .shared .align 16 .b8 b[4096];
        .reg .b32 %a, %b, %way, %p, %q, %v, %w;
        mov.u32 %a, a; mov.u32 %b, b; sub.u32 %way, %b, %a;
        mul.lo.u32 %p, %t, 4; add.u32 %p, %p, %a; add.u32 %q, %p, %way;
        ld.global.u32 %v, [%in]; ld.global.u32 %w, [%in+4];
        mad.lo.u32 %b, %t, 4, %b;
        st.shared.u32 [%p], %v; st.shared.u32 [%b], %w; st.shared.u32 [%q], %v;
        ld.shared.u32 %w, [%b]; st.global.u32 [%out], %w;
    ";
    same(&kernel(body), &launch());
}

#[test]
fn spaces_and_generic_addresses() {
    let body = "
        .shared .align 16 .b8 s[4096]; .local .align 8 .b8 l[16];
        .reg .b64 %s, %g, %l, %gl; .reg .b32 %s4, %v; .reg .pred %is;
        mov.u32 %s4, s; mad.lo.u32 %s4, %t, 16, %s4; cvt.u64.u32 %s, %s4; cvta.shared.u64 %g, %s;
        ld.global.u32 %v, [%in]; st.u32 [%g], %v; ld.shared.u32 %v, [%s4]; st.global.u32 [%out], %v;
        cvta.to.shared.u64 %s, %g; cvt.u32.u64 %s4, %s; ld.shared.u32 %v, [%s4]; st.global.u32 [%out+4], %v;
        isspacep.shared %is, %g; selp.b32 %v, 1, 2, %is; st.global.u32 [%out+8], %v;
        isspacep.global %is, %g; selp.b32 %v, 1, 2, %is; st.global.u32 [%out+12], %v;
        isspacep.global %is, %in; selp.b32 %v, 1, 2, %is; st.global.u32 [%out+16], %v;
        mov.u64 %l, l; cvta.local.u64 %gl, %l; st.u32 [%gl+4], %v; ld.local.u32 %v, [%l+4]; st.global.u32 [%out+20], %v;
        isspacep.local %is, %gl; selp.b32 %v, 1, 2, %is; st.global.u32 [%out+24], %v;
        prefetch.global.L1 [%in]; prefetch.L2 [%in]; prefetchu.L1 [%in];
    ";
    same(&kernel(body), &launch());
}

#[test]
fn constants_and_variables_of_the_module() {
    let text = format!(
        ".const .align 4 .b32 table[4] = {{11, 22, 33, 44}}; .global .align 4 .b32 counter[2] = {{5, 6}};\n{}",
        kernel(
            "
        .reg .b64 %c, %i, %g; .reg .b32 %v, %w;
        mov.u64 %c, table; and.b32 %w, %t, 3; mul.wide.u32 %i, %w, 4; add.s64 %c, %c, %i;
        ld.const.u32 %v, [%c]; st.global.u32 [%out], %v; ld.const.u32 %v, [table+8]; st.global.u32 [%out+4], %v;
        cvta.const.u64 %c, %c; ld.u32 %v, [%c]; st.global.u32 [%out+8], %v;
        mov.u64 %g, counter; ld.global.u32 %v, [%g+4]; st.global.u32 [%out+12], %v;
        ld.global.u32 %v, [counter]; st.global.u32 [%out+16], %v;
        cvta.global.u64 %g, counter; ld.u32 %v, [%g]; st.global.u32 [%out+20], %v;
    "
        )
    );
    same(&text, &launch());
}

#[test]
fn dynamic_shared_arrays_are_the_same_memory() {
    let body = "
        .reg .b32 %a, %b, %v, %w;
        mov.u32 %a, first; mov.u32 %b, second; mad.lo.u32 %a, %t, 4, %a; mad.lo.u32 %b, %t, 4, %b;
        ld.global.u32 %v, [%in]; st.shared.u32 [%a], %v; st.shared.u32 [%b], %t; ld.shared.u32 %w, [%a];
        st.global.u32 [%out], %w; st.shared.u32 [first], %v; ld.shared.u32 %w, [second]; st.global.u32 [%out+4], %w;
    ";
    let text = format!(
        ".extern .shared .align 16 .b8 first[];\n.extern .shared .align 4 .b32 second[];\n{}",
        kernel(body)
    );
    let launch = Launch {
        block: [1, 1, 1],
        dynamic_shared: 256,
        ..launch()
    };
    same(&text, &launch);
}

#[test]
fn guards_sinks_and_vectors_of_special_registers() {
    let body = "
        .reg .b32 %v<4>, %w; .reg .b64 %l; .reg .pred %p; .reg .v2 .b32 %pair;
        mov.v4.u32 {%v0, %v1, %v2, %v3}, %tid; add.u32 %w, %v0, %v1; st.global.u32 [%out], %w;
        mov.v4.u32 {%v0, _, _, %v3}, %ntid; st.global.u32 [%out+4], %v0;
        and.b32 %w, %t, 3; setp.eq.u32 %p, %w, 1; mov.u32 %v0, 5; mov.u32 %v1, 6;
        @%p ld.global.v2.u32 {%v0, %v1}, [%in]; @!%p ld.global.v4.u32 {_, %v2, _, %v3}, [%in+16];
        @%p st.global.v2.u32 [%out+8], {%v1, %v0}; @!%p st.global.v2.u32 [%out+8], {%v2, 17};
        @%p ld.global.u64 %l, [%in+32]; @%p mov.b64 {%v2, _}, %l; @%p st.global.u32 [%out+16], %v2;
        @!%p atom.global.add.u32 %v3, [%out+20], 3; st.global.u32 [%out+24], %v3;
        mov.v2.b32 %pair, {%v1, %v0}; st.global.v2.b32 [%out+32], %pair; st.global.u32 [%out+40], %pair.y;
        cvta.to.shared.u64 %l, %in; @%p cvta.global.u64 %l, %in; @%p ld.u32 %w, [%l+4]; st.global.u32 [%out+44], %w;
    ";
    same(&kernel(body), &launch());
}

/// What is printed for an access at -O3, without its operands.
fn printed(body: &str) -> Vec<String> {
    let text = relifted(&kernel(body), &Pipeline::Preset(Preset::O3), 3);
    let mut found = Vec::new();
    for line in memory_support::lines(
        &text,
        &["ld.", "st.", "ldu.", "atom", "red", "fence", "membar"],
    ) {
        let word = line.split_whitespace().next().unwrap_or_default();
        if !word.starts_with("ld.param") {
            found.push(word.trim_end_matches(';').to_owned());
        }
    }
    found
}

#[test]
fn llvm_prints_the_access_that_was_there() {
    let mut table = String::new();
    for (load, store) in [
        ("ld.global.v4.f32", "st.global.v4.f32"),
        ("ld.global.v2.u64", "st.global.v2.u64"),
        ("ld.global.v2.u16", "st.global.v2.u16"),
        ("ld.global.nc.v4.u32", "st.global.v4.u32"),
        ("ld.global.s8", "st.global.u8"),
        ("ld.volatile.global.u32", "st.volatile.global.u32"),
        ("ld.volatile.global.v2.f32", "st.volatile.global.v2.f32"),
        ("ld.relaxed.gpu.global.u32", "st.relaxed.gpu.global.u32"),
        ("ld.acquire.cta.global.u64", "st.release.sys.global.u64"),
        (
            "ld.relaxed.sys.global.v2.u32",
            "st.relaxed.sys.global.v2.u32",
        ),
        ("ld.acquire.cluster.u32", "st.release.cluster.u32"),
        (
            "ld.mmio.relaxed.sys.global.u32",
            "st.mmio.relaxed.sys.global.u32",
        ),
        ("ld.global.cg.u32", "st.global.cg.u32"),
        ("ld.global.ca.u32", "st.global.wb.u32"),
        (
            "ld.global.nc.L1::no_allocate.v4.u32",
            "st.global.L1::no_allocate.v4.u32",
        ),
        ("ldu.global.u32", "st.weak.global.u32"),
        ("ld.u32", "st.u32"),
    ] {
        let n = if load.contains(".v4") {
            4
        } else if load.contains(".v2") {
            2
        } else {
            1
        };
        let ty = load.rsplit('.').next().unwrap();
        let ty = if ty.ends_with('8') { "u32" } else { ty };
        let all: Vec<_> = (0..n).map(|i| format!("%v{i}")).collect();
        let list = if n == 1 {
            all.concat()
        } else {
            format!("{{{}}}", all.join(","))
        };
        let body = format!(".reg .{ty} %v<{n}>; {load} {list}, [%in]; {store} [%out], {list};");
        writeln!(table, "{load}, {store}: {}", printed(&body).join(", ")).unwrap();
    }
    insta::assert_snapshot!(table);
}
