//! Rules for device code: what breaks them is found however it is written, and nothing is refused that compilers write for
//! honest programs.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_codegen::recipe::Code as AnyCode;
use r3_replay::attach::forms;
use r3_replay::evaluate::candidate::{CandidateCode, SourceCode};
use r3_replay::evaluate::rules::source::{blocks, shape, templates};
use r3_replay::evaluate::rules::{self, Allowed, Finding, Original, ParameterWords, RULES, Rule};
use r3_replay::selftest::corpus::{Kind, TARGETS, cases};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// PTX of the repository, all of it.
fn texts() -> Vec<PathBuf> {
    let folders = [
        "r3-codegen/tests/fixtures",
        "r3-emu/benches",
        "r3-emu/tests/fixtures",
        "r3-image/tests/fixtures",
        "r3-intercept/src",
        "r3-ptx/tests/fixtures",
        "r3-replay/src",
        "r3-softcuda",
        "scripts/demo",
        "tests/differential/kernels",
        "tests/programs",
    ];
    let mut left: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            found.push(path);
        }
    }
    found.sort();
    assert!(found.len() > 80);
    found
}

fn archives() -> Vec<PathBuf> {
    let folder = root().join("capture-samples/archives");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "r3"));
    paths.sort();
    assert!(paths.len() >= 10);
    paths
}

/// Kernels with a body, of PTX that can be read.
fn kernels(ptx: &str) -> Vec<String> {
    let Ok(tree) = r3_ptx::parse(ptx) else {
        return Vec::new();
    };
    let Ok(module) = r3_ptx::check(&tree) else {
        return Vec::new();
    };
    let functions = module.functions.iter();
    functions
        .filter(|function| function.entry && function.body.is_some())
        .map(|function| function.name.to_string())
        .collect()
}

/// What PTX breaks that stands for an original which does nothing of that.
fn broken(ptx: &str, kernel: &str) -> Vec<Finding> {
    let code = rules::code::read(ptx, kernel).unwrap();
    code.facts(&[], &ParameterWords::default())
}

fn rules_of(findings: &[Finding]) -> Vec<Rule> {
    let rules: BTreeSet<Rule> = findings.iter().map(|finding| finding.rule).collect();
    rules.into_iter().collect()
}

#[test]
fn of_what_compilers_wrote_only_that_is_found_which_is_there() {
    let mut table = String::new();
    for path in texts() {
        let text = std::fs::read_to_string(&path).unwrap();
        let file = path.strip_prefix(root()).unwrap().display().to_string();
        for kernel in kernels(&text) {
            for finding in broken(&text, &kernel) {
                let Finding { rule, what, .. } = finding;
                writeln!(table, "{file} {kernel}: {rule:?}: {what}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn recorded_kernels_may_stand_for_themselves() {
    let mut count = 0;
    for path in archives() {
        let archive = Archive::open(&path).unwrap();
        for kernel in archive.kernels() {
            let original = Original::new(&archive, kernel, 90);
            for form in forms::forms(&archive, kernel.id, 90).unwrap() {
                let AnyCode::Ptx(text) = &form.code else {
                    continue;
                };
                let code = rules::code::read(text, &form.name);
                let given = CandidateCode::Ptx(text.clone());
                let found = rules::check(&given, &code, &original, &Allowed::default());
                assert_eq!(found, Ok(Vec::new()), "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 20);
}

/// Honest kernels hold for an original that breaks no rule, whose parameters are known.
#[test]
fn no_recorded_kernel_reaches_memory_by_numbers_but_through_the_driver_s_workspace() {
    for path in archives() {
        let archive = Archive::open(&path).unwrap();
        for kernel in archive.kernels() {
            let original = Original::new(&archive, kernel, 90);
            assert!(!original.does(Rule::Addresses), "{}", path.display());
        }
    }
}

#[test]
fn harmless_rewrites_of_the_corpus_break_no_rule() {
    for case in cases() {
        let (Kind::Harmless, CandidateCode::Ptx(text)) = (case.kind, &case.candidate.code) else {
            continue;
        };
        let original = Original::of_ptx(TARGETS, case.target);
        let code = rules::code::read(text, case.target);
        let found = rules::check(&case.candidate.code, &code, &original, &Allowed::default());
        assert_eq!(found, Ok(Vec::new()), "{}", case.name);
    }
}

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A kernel with two pointers, a size of 64 bits and a count.
fn kernel(variables: &str, body: &str) -> String {
    format!(
        "{HEAD}{variables}\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 size, .param .u32 n) {{\n\
         .reg .b64 %rd<20>;\n.reg .b32 %r<20>;\n.reg .f32 %f<8>;\n.reg .pred %p<4>;\n{body}\nret;\n}}\n"
    )
}

/// With both pointers recorded as such.
fn of(body: &str) -> Vec<Rule> {
    let known = ParameterWords {
        pointers: BTreeSet::from([0, 8]),
        ..ParameterWords::default()
    };
    let text = kernel("", body);
    let code = rules::code::read(&text, "k").unwrap();
    rules_of(&code.facts(&[], &known))
}

#[test]
fn addresses_made_of_numbers_are_found() {
    for body in [
        // A constant, alone and with an index.
        "mov.u64 %rd1, 139637976727552; ld.global.f32 %f1, [%rd1];",
        "mov.u64 %rd1, 139637976727552; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;\n\
         st.global.f32 [%rd3], 0f00000000;",
        "ld.global.u32 %r1, [139637976727552];",
        // Through a generic address, with an atomic, asynchronously.
        "mov.u64 %rd1, 139637976727552; ld.u32 %r1, [%rd1];",
        "mov.u64 %rd1, 139637976727552; red.global.add.u32 [%rd1], 1;",
        // An index that was loaded makes no address of a number.
        "ld.param.u64 %rd1, [a]; ld.global.u32 %r1, [%rd1]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd2, 139637976727552;\n\
         ld.global.f32 %f1, [%rd3];",
        // A pointer that is multiplied, taken from another one or cut is none.
        "ld.param.u64 %rd1, [a]; mul.lo.s64 %rd2, %rd1, 3; ld.global.f32 %f1, [%rd2];",
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; sub.s64 %rd3, %rd1, %rd2; add.s64 %rd4, %rd3, 139637976727552;\n\
         ld.global.f32 %f1, [%rd4];",
        "ld.param.u64 %rd1, [a]; and.b64 %rd2, %rd1, 255; add.s64 %rd3, %rd2, 139637976727552; ld.global.f32 %f1, [%rd3];",
        // A count of 32 bits is none either.
        "ld.param.u32 %r1, [n]; cvt.u64.u32 %rd1, %r1; ld.global.f32 %f1, [%rd1];",
        // By way of shared memory.
        ".shared .align 8 .b8 s[8]; mov.u64 %rd1, 139637976727552; st.shared.u64 [s], %rd1; ld.shared.u64 %rd2, [s];\n\
         ld.global.f32 %f1, [%rd2];",
        // By way of a generic address of local memory.
        ".local .align 8 .b8 l[8]; mov.u64 %rd1, l; cvta.local.u64 %rd2, %rd1; mov.u64 %rd3, 139637976727552;\n\
         st.u64 [%rd2], %rd3; ld.u64 %rd4, [%rd2]; ld.global.f32 %f1, [%rd4];",
        // Local memory outside of the kernel's own.
        "mov.u64 %rd1, 64; ld.local.u32 %r1, [%rd1];",
    ] {
        assert_eq!(of(body), [Rule::Addresses], "{body}");
    }
    // By way of a table, and of functions.
    let table = ".global .align 8 .u64 where[1] = {139637976727552};";
    let body = "mov.u64 %rd1, where; ld.global.u64 %rd2, [%rd1]; ld.global.f32 %f1, [%rd2];";
    assert_eq!(
        rules_of(&broken(&kernel(table, body), "k")),
        [Rule::Addresses]
    );
    let reads = ".func (.param .b32 r) reads(.param .b64 p) {\n.reg .b64 %rd<2>;\n.reg .f32 %f<2>;\n\
                 ld.param.u64 %rd1, [p]; ld.f32 %f1, [%rd1]; st.param.f32 [r], %f1; ret; }";
    let call = |made: &str| {
        format!(
            "{made}\n{{ .param .b64 x; st.param.b64 [x], %rd1; .param .b32 y; call.uni (y), reads, (x); ld.param.f32 %f1, [y]; }}"
        )
    };
    let forged = call("mov.u64 %rd1, 139637976727552;");
    assert_eq!(
        rules_of(&broken(&kernel(reads, &forged), "k")),
        [Rule::Addresses]
    );
    let given = call("ld.param.u64 %rd1, [a];");
    assert_eq!(rules_of(&broken(&kernel(reads, &given), "k")), []);
}

#[test]
fn addresses_that_lead_to_memory_are_not() {
    for body in [
        // Selected, shuffled, masked, converted, advanced, and put together from halves.
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; setp.eq.u64 %p1, %rd1, 0; selp.b64 %rd3, %rd1, %rd2, %p1;\n\
         ld.global.f32 %f1, [%rd3];",
        "ld.param.u64 %rd1, [a]; mov.b64 {%r1, %r2}, %rd1; shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;\n\
         shfl.sync.idx.b32 %r4, %r2, 0, 31, -1; mov.b64 %rd2, {%r3, %r4}; ld.global.f32 %f1, [%rd2];",
        "ld.param.u64 %rd1, [a]; add.s64 %rd2, %rd1, 15; and.b64 %rd3, %rd2, -16; ld.global.f32 %f1, [%rd3];",
        "ld.param.u64 %rd1, [a]; shr.u64 %rd2, %rd1, 4; shl.b64 %rd3, %rd2, 4; ld.global.f32 %f1, [%rd3];",
        "ld.param.u64 %rd1, [a]; cvt.u32.u64 %r1, %rd1; shr.u64 %rd2, %rd1, 32; cvt.u32.u64 %r2, %rd2; add.cc.u32 %r3, %r1, 4;\n\
         addc.u32 %r4, %r2, 0; cvt.u64.u32 %rd3, %r4; shl.b64 %rd4, %rd3, 32; cvt.u64.u32 %rd5, %r3; or.b64 %rd6, %rd4, %rd5;\n\
         ld.global.f32 %f1, [%rd6];",
        // From one buffer to the other by their distance, as loop optimisers write it.
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; sub.s64 %rd3, %rd2, %rd1; add.s64 %rd4, %rd1, %rd3;\n\
         ld.global.f32 %f1, [%rd4];",
        // A pointer that lies in memory: in the launch's, or in a local array where it was put.
        "ld.param.u64 %rd1, [a]; ld.global.u64 %rd2, [%rd1+8]; ld.global.f32 %f1, [%rd2];",
        "ld.param.u64 %rd1, [a]; ld.global.v2.u32 {%r1, %r2}, [%rd1]; mov.b64 %rd2, {%r1, %r2}; ld.f32 %f1, [%rd2];",
        ".local .align 8 .b8 l[16]; ld.param.u64 %rd1, [a]; st.local.u64 [l+8], %rd1; ld.local.u64 %rd2, [l+8];\n\
         ld.global.f32 %f1, [%rd2];",
        // A pointer may be kept as two halves in shared memory.
        ".shared .align 8 .b8 s[8]; ld.param.u64 %rd1, [a]; mov.b64 {%r1, %r2}, %rd1; st.shared.u32 [s], %r1;\n\
         st.shared.u32 [s+4], %r2; ld.shared.u64 %rd2, [s]; ld.global.f32 %f1, [%rd2];",
        // Parameters read through their own address.
        "mov.u64 %rd1, a; ld.param.u64 %rd2, [%rd1+8]; ld.global.f32 %f1, [%rd2];",
        // Shared memory by an address of 32 bits, and by a generic one.
        ".shared .align 4 .b8 s[64]; mov.u32 %r1, s; mov.u32 %r2, %tid.x; add.u32 %r3, %r1, %r2; ld.shared.u32 %r4, [%r3];",
        ".shared .align 4 .b8 s[64]; mov.u32 %r1, s; cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd2, %rd1; ld.u32 %r4, [%rd2];",
        // Indices of 64 bits, from arguments and from memory.
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [size]; shl.b64 %rd3, %rd2, 2; sub.s64 %rd4, %rd1, %rd3;\n\
         ld.global.f32 %f1, [%rd4];",
    ] {
        assert_eq!(of(body), [], "{body}");
    }
    let table = ".const .align 8 .u64 rows[2] = {first, first+8};\n.global .align 4 .u32 first[4] = {1, 2, 3, 4};";
    let table = format!(".global .align 4 .u32 first[4];\n{table}");
    let table = table.lines().skip(1).collect::<Vec<_>>().join("\n");
    let lines: Vec<&str> = table.lines().rev().collect();
    let body = "ld.const.u64 %rd1, [rows]; ld.global.u32 %r1, [%rd1];";
    assert_eq!(rules_of(&broken(&kernel(&lines.join("\n"), body), "k")), []);
}

/// A word of the parameters that was recorded and was a pointer in no launch is a number.
#[test]
fn a_recorded_number_among_the_parameters_is_no_pointer() {
    let text = kernel(
        "",
        "ld.param.u64 %rd1, [size]; add.s64 %rd2, %rd1, 139637976727552; ld.global.f32 %f1, [%rd2];",
    );
    let code = rules::code::read(&text, "k").unwrap();
    assert_eq!(code.facts(&[], &ParameterWords::default()), []);
    let known = ParameterWords {
        numbers: BTreeSet::from([16]),
        ..ParameterWords::default()
    };
    assert_eq!(rules_of(&code.facts(&[], &known)), [Rule::Addresses]);
}

#[test]
fn clocks_counters_placement_sleep_and_the_runtime_are_found() {
    let call = |name: &str| {
        format!(
            "{{ .param .b64 x; st.param.b64 [x], 8; .param .b64 y; call.uni (y), {name}, (x); ld.param.b64 %rd1, [y]; }}"
        )
    };
    let calls = |name: &str| {
        let declared = format!(".extern .func (.param .b64 r) {name} (.param .b64 p);");
        rules_of(&broken(&kernel(&declared, &call(name)), "k"))
    };
    assert_eq!(of("mov.u64 %rd1, %clock64;"), [Rule::Clocks]);
    assert_eq!(of("mov.u64 %rd1, %globaltimer;"), [Rule::Clocks]);
    assert_eq!(of("mov.u32 %r1, %pm0;"), [Rule::Counters]);
    assert_eq!(of("mov.u32 %r1, %smid;"), [Rule::Placement]);
    assert_eq!(of("mov.u64 %rd1, %gridid;"), [Rule::Placement]);
    assert_eq!(of("nanosleep.u32 100;"), [Rule::Sleep]);
    assert_eq!(calls("malloc"), [Rule::Heap]);
    assert_eq!(calls("cudaLaunchDeviceV2"), [Rule::Launches]);
    assert_eq!(of("mov.u32 %r1, %nsmid; mov.u32 %r2, %laneid; trap;"), []);
    // In a function that is called, and not in one that nobody reaches.
    let ticks = ".func ticks() {\n.reg .b64 %rd<2>;\nmov.u64 %rd1, %clock64; ret; }";
    let inside = broken(&kernel(ticks, "call.uni ticks, ();"), "k");
    assert_eq!(rules_of(&inside), [Rule::Clocks]);
    assert!(inside[0].place.starts_with("in ticks, line "));
    assert_eq!(broken(&kernel(ticks, ""), "k"), []);
}

#[test]
fn variables_that_can_keep_something_are_found_and_tables_are_not() {
    let of = |variables: &str, body: &str| rules_of(&broken(&kernel(variables, body), "k"));
    let kept = ".global .align 4 .u32 kept;";
    let load = |name: &str| format!("mov.u64 %rd1, {name}; ld.global.u32 %r1, [%rd1];");
    let store = "mov.u64 %rd1, kept; st.global.u32 [%rd1], 1;";
    assert_eq!(of(kept, store), [Rule::Variables]);
    // By way of memory, where it is lost sight of.
    let stored = "ld.param.u64 %rd2, [a]; mov.u64 %rd1, kept; st.global.u64 [%rd2], %rd1;";
    assert_eq!(of(kept, stored), [Rule::Variables]);
    // Nobody names it, or nobody writes it, as with constants that headers leave.
    assert_eq!(of(kept, ""), []);
    assert_eq!(of(kept, &load("kept")), []);
    let idle = |body: &str| {
        let text = kernel(kept, body);
        rules::code::read(&text, "k").unwrap().idle(&[])
    };
    assert_eq!(
        (idle(""), idle(&load("kept"))),
        (vec!["kept".to_owned()], vec!["kept".to_owned()])
    );
    assert_eq!((idle(store), idle(stored)), (vec![], vec![]));
    let table = ".global .align 4 .u32 table[2] = {1, 2};";
    assert_eq!(of(table, &load("table")), []);
    let stores = [
        "mov.u64 %rd1, table; st.global.u32 [%rd1+4], 1;",
        "st.global.u32 [table], 1;",
        "mov.u64 %rd1, table; cvta.global.u64 %rd2, %rd1; atom.add.u32 %r1, [%rd2], 1;",
    ];
    for store in stores {
        assert_eq!(of(table, store), [Rule::Variables], "{store}");
    }
    let constant = ".const .align 4 .u32 c[2] = {1, 2};";
    let store = "mov.u64 %rd1, c; cvta.const.u64 %rd2, %rd1; st.u32 [%rd2], 1;";
    assert_eq!(of(constant, store), [Rule::Variables]);
    // The original's own.
    let text = kernel(kept, store);
    let original = Original::of_ptx(&text, "k");
    let code = rules::code::read(&text, "k");
    let given = CandidateCode::Ptx(text);
    assert_eq!(
        rules::check(&given, &code, &original, &Allowed::default()),
        Ok(Vec::new())
    );
}

/// `saxpy` reads `coefficients`, which its application fills: their values may not stand in the code.
#[test]
fn code_that_does_without_what_the_application_fills_is_found() {
    let archive = Archive::open(root().join("capture-samples/archives/saxpy.r3")).unwrap();
    let kernel = archive.kernels().first().unwrap();
    let original = Original::new(&archive, kernel, 90);
    let inputs: Vec<&str> = original.inputs().iter().map(String::as_str).collect();
    assert_eq!(inputs, ["bias", "coefficients"]);
    let forms = forms::forms(&archive, kernel.id, 90).unwrap();
    let text = forms.iter().find_map(|form| match &form.code {
        AnyCode::Ptx(text) => Some(text.clone()),
        _ => None,
    });
    let remembered = text.unwrap().replace("coefficients", "remembered").replace(
        "remembered[16];",
        "remembered[16] = {0, 0, 0, 63, 0, 0, 0, 64, 0, 0, 128, 191};",
    );
    let given = CandidateCode::Ptx(remembered.clone());
    let code = rules::code::read(&remembered, &kernel.name);
    let found = rules::check(&given, &code, &original, &Allowed::default()).unwrap();
    assert_eq!(rules_of(&found), [Rule::Inputs]);
    assert!(found[0].to_string().contains("does without coefficients"));
}

#[test]
fn what_the_original_does_or_the_plan_allows_is_allowed_and_the_rest_is_not() {
    let clock = kernel("", "mov.u64 %rd1, %clock64;");
    let both = kernel("", "mov.u64 %rd1, %clock64; mov.u32 %r1, %smid;");
    let code = rules::code::read(&both, "k");
    let given = CandidateCode::Ptx(both.clone());
    let found = |original: &str, allowed: Allowed| {
        let original = Original::of_ptx(original, "k");
        rules_of(&rules::check(&given, &code, &original, &allowed).unwrap())
    };
    let nothing = Allowed::default();
    assert_eq!(found(&clock, nothing.clone()), [Rule::Placement]);
    assert_eq!(found(&both, nothing.clone()), []);
    let plain = kernel("", "");
    assert_eq!(found(&plain, nothing), [Rule::Clocks, Rule::Placement]);
    let allowed = Allowed {
        rules: vec![Rule::Clocks],
        ..Allowed::default()
    };
    assert_eq!(found(&plain, allowed), [Rule::Placement]);
    assert_eq!(found(&plain, Allowed::everything()), []);
}

#[test]
fn code_that_cannot_be_read_is_not_let_through() {
    let code = rules::code::read("no PTX at all", "k");
    let given = CandidateCode::Ptx(String::new());
    let original = Original::of_ptx(&kernel("", ""), "k");
    let error = rules::check(&given, &code, &original, &Allowed::default()).unwrap_err();
    assert!(error.to_string().contains("cannot be checked"), "{error}");
}

fn in_source(text: &str) -> Option<String> {
    let source = SourceCode {
        text: text.to_owned(),
        ..SourceCode::default()
    };
    first(&source, &[])
}

fn first(source: &SourceCode, allowed: &[String]) -> Option<String> {
    let original = Original::of_ptx(&kernel("", ""), "k");
    let found = rules::source::check(source, &original, allowed);
    found.first().map(ToString::to_string)
}

#[test]
fn inline_assembly_is_found_however_it_is_hidden() {
    for text in [
        "asm volatile(\"mov.u64 %0, %%clock64;\" : \"=l\"(t));",
        "__asm__ __volatile__ (\"\");",
        "extern __device__ void f() asm(\"malloc\");",
        "as\\\nm(\"\");",
        "as\\  \nm(\"\");",
        "a??/\nsm(\"\");",
        "\\u0061sm(\"\");",
        "#define DO asm\nDO(\"\");",
        "#define JOIN(a, b) a##b\nJOIN(as, m)(\"\");",
        "#define JOIN(a, b) a%:%:b\nJOIN(__as, m__)(\"\");",
        "#define ASM(x) as##x\nASM(m)(\"\");",
        "#define J(a, b) a##b\n#define K(a, b) J(a, b)\nK(K(a, s), m)(\"\");",
        "int a = 1'000; asm(\"\"); char c = '\"'; char d = '\"';",
        "const char *s = R\"x(\" )\" )x\"; asm(\"\");",
        // What one compiler joins or replaces, and another does not.
        "// ??/\nasm(\"\");",
        "const char *s = \"??/\"; asm(\"\"); s = \"\";",
        "// \\ \nasm(\"\");",
        "as\\ \x0b\nm(\"\");",
        "// x\rasm(\"\");",
        "// \\\r\n\rasm(\"\");",
        // In raw strings nothing is.
        "const char *s = R\"#( )%:\" R\"z( )#\"; asm(\"\"); // )z\"",
        "const char *s = R\"a( )\\\na\" R\"z( )a\"; asm(\"\"); // )z\"",
        "const char *s = R\"a( )\\u0061\" R\"z( )a\"; asm(\"\"); // )z\"",
        "const char *s = R\"(\\)\"; asm(\"\"); // )\"",
    ] {
        let said = in_source(text);
        assert!(
            said.is_some_and(|said| said.starts_with("rule `assembly`")),
            "{text}"
        );
    }
    let source = SourceCode {
        text: "DO(\"\");".to_owned(),
        options: vec!["-O3".to_owned(), "-DDO=asm".to_owned()],
        ..SourceCode::default()
    };
    assert!(
        first(&source, &[])
            .unwrap()
            .contains("line 1 of its options")
    );
    let source = SourceCode {
        text: "#include \"x.h\"".to_owned(),
        headers: vec![("x.h".to_owned(), "\n#define DO asm".to_owned())],
        ..SourceCode::default()
    };
    assert!(
        first(&source, &[])
            .unwrap()
            .contains("line 2 of its header x.h")
    );
}

#[test]
fn text_that_only_looks_like_assembly_is_not() {
    for text in [
        "// asm(\"\")\n/* asm */ int x; const char *s = \"asm\"; char c = 'a';",
        "int asm_count, my_asm, plasma; float asmx;",
        "const char *s = R\"(asm(\"\"))\";",
        "// What??\nint x; /* asm\\ \n asm */ const char *s = \"why?? \\\"asm\\\"\";\r\n// \\\r\nasm\r\n",
        "#define STEP(i) acc##i += x[i];\nfloat a, s, m, sm; STEP(0) STEP(1)",
        "#define JOIN(a, b) a##b\nfloat JOIN(x, 1) = 0, s = 1, m;",
        "#define LOG(f, ...) g(f, ##__VA_ARGS__)\nint as, m;",
        "#include <cuda_fp16.h>\n__global__ void k(__half *p) { *p = __hadd(*p, *p); }",
    ] {
        assert_eq!(in_source(text), None, "{text}");
    }
}

#[test]
fn assembly_of_the_original_is_known_again_by_its_shape() {
    let mine =
        "asm volatile(\"ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\"\n: \"=f\"(x) : \"l\"(p));";
    let ptx = "\t// begin inline asm\n\tld.global.nc.v4.f32 {%f1,%f12,%f3,%f4}, [%rd7];\n\t// end inline asm\n";
    assert_eq!(
        blocks(ptx).into_iter().collect::<Vec<_>>(),
        templates(mine).iter().map(|t| shape(t)).collect::<Vec<_>>()
    );
    assert_ne!(
        shape("mov.u64 %0, %%clock64;"),
        shape("mov.u64 %0, %%globaltimer;")
    );
    let source = SourceCode {
        text: mine.to_owned(),
        ..SourceCode::default()
    };
    assert_eq!(first(&source, &templates(mine)), None);
    assert!(first(&source, &templates("asm(\"trap;\");")).is_some());
    // As the captured PTX has it.
    let text = kernel(
        "",
        &format!(
            "ld.param.u64 %rd7, [a];\n.reg .f32 %g<5>;\n{}",
            ptx.replace("%f12", "%f2")
        ),
    );
    let original = Original::of_ptx(&text, "k");
    assert_eq!(rules::source::check(&source, &original, &[]), []);
}

#[test]
fn every_rule_has_a_name_and_words_of_its_own() {
    let names: BTreeSet<&str> = RULES.iter().map(|words| words.name).collect();
    let rules: BTreeSet<Rule> = RULES.iter().map(|words| words.rule).collect();
    assert_eq!((names.len(), rules.len()), (RULES.len(), RULES.len()));
    for words in RULES {
        assert_eq!(words.rule.words().name, words.name);
        // The name is the one in plans.
        let written = serde_json::to_string(&words.rule).unwrap();
        assert_eq!(written, format!("\"{}\"", words.name));
    }
}
