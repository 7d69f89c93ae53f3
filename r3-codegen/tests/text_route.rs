//! The route on which PTX stays text: what is written into it, that results stay where they must, and that assemblers
//! take it.
//!
//! The kernels of `fixtures/text` are nvcc's, of the kinds on which each knob pays: a bilateral filter (divisions, a
//! structure by value), pooling with sizes known at run time (integer divisions, loops), a stencil in double precision, scores
//! of attention, an update in place, tables of pointers.

#![allow(clippy::unwrap_used)]

mod common;

#[path = "abi/archives.rs"]
mod archives;

use common::{Launch, longs, run};
use object::{Object, ObjectSection};
use proptest::prelude::*;
use r3_codegen::assemble;
use r3_codegen::compile::compile;
use r3_codegen::recipe::{
    Approximate, Assembler, AssemblerKind, Bounds, CacheOperators, Change, Code, Compiler,
    Contraction, Emit, FailureKind, Guard, Knob, LoadOperator, Pipeline, Preset, Product, Recipe,
    Route, Source, Specialisation, Stage, StoreOperator, Unroll,
};
use r3_ptx::generate;

const KNOBS: &str = include_str!("fixtures/text/knobs.ptx");

fn recipe(ptx: &str) -> Recipe {
    Recipe {
        route: Route::Text,
        ..Recipe::new(Code::Ptx(common::with_header(ptx)))
    }
}

fn of_kernel(kernel: &str) -> Recipe {
    Recipe {
        kernel: Some(kernel.to_owned()),
        ..recipe(KNOBS)
    }
}

fn made(recipe: &Recipe) -> Product {
    compile(recipe).unwrap_or_else(|failure| panic!("{failure}\n{}", failure.log))
}

fn places(product: &Product, knob: Knob) -> Option<u32> {
    let found = product.changes.iter().find(|change| change.knob == knob);
    found.unwrap_or_else(|| panic!("{knob:?}")).places
}

fn has_ptxas() -> bool {
    assemble::find::PTXAS.find().is_some()
}

/// Machine code of each section, by ptxas.
fn assembled(ptx: &str, options: &[&str]) -> Vec<(String, Vec<u8>)> {
    let target = ptx
        .split_once(".target")
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .unwrap()
        .trim_end_matches(',');
    let assembler = Assembler {
        kind: AssemblerKind::Ptxas,
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..Assembler::default()
    };
    let cubin = assemble::assemble(ptx, target, &assembler);
    let cubin = cubin.unwrap_or_else(|failure| panic!("{failure}\n{}\n{ptx}", failure.log));
    let file = object::File::parse(&*cubin.bytes).unwrap();
    file.sections()
        .filter(|section| section.name().unwrap().starts_with(".text"))
        .map(|section| {
            let name = section.name().unwrap().to_owned();
            (name, section.data().unwrap().to_vec())
        })
        .collect()
}

fn floats(count: usize, scale: f32) -> Vec<u8> {
    (0..count)
        .flat_map(|at| ((at * 37 % 101) as f32 * scale + 0.25).to_le_bytes())
        .collect()
}

fn doubles(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|at| ((at * 37 % 101) as f64 * 0.37).to_le_bytes())
        .collect()
}

fn ints(values: &[i32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// A launch, and its parameters after the pointers: position, bytes.
type Case = (Launch<'static>, Vec<(u32, Vec<u8>)>);

/// A launch of a kernel of `KNOBS`, with the sizes of its parameters after the pointers: (position, bytes).
fn launches() -> Vec<Case> {
    let launch = |kernel, grid, block, buffers| Launch {
        kernel,
        grid,
        block,
        dynamic_shared: 0,
        buffers,
        params: Vec::new(),
    };
    let mut all = Vec::new();
    let mut window = ints(&[2]);
    window.extend(2f32.to_le_bytes());
    window.extend(0.3f32.to_le_bytes());
    all.push((
        launch(
            "bilateral",
            [3, 3, 1],
            [8, 8, 1],
            vec![floats(20 * 19, 0.01), vec![0; 20 * 19 * 4]],
        ),
        vec![(2, ints(&[20])), (3, ints(&[19])), (4, window)],
    ));
    all.push((
        launch(
            "max_pool",
            [2, 1, 1],
            [64, 1, 1],
            vec![floats(2 * 17 * 15, 0.5), vec![0; 2 * 8 * 7 * 4]],
        ),
        [2, 17, 15, 3, 2]
            .iter()
            .zip(2..)
            .map(|(value, at)| (at, ints(&[*value])))
            .collect(),
    ));
    all.push((
        launch(
            "heat",
            [9, 1, 1],
            [32, 1, 1],
            vec![doubles(16 * 16), vec![0; 16 * 16 * 8]],
        ),
        vec![
            (2, ints(&[16])),
            (3, 0.1f64.to_le_bytes().to_vec()),
            (4, ints(&[7])),
        ],
    ));
    all.push((
        launch(
            "scores",
            [4, 1, 1],
            [32, 1, 1],
            vec![floats(4 * 40, 0.1), floats(9 * 40, 0.2), vec![0; 4 * 9 * 4]],
        ),
        vec![(3, ints(&[9])), (4, ints(&[40]))],
    ));
    all.push((
        launch(
            "in_place",
            [2, 1, 1],
            [32, 1, 1],
            vec![floats(50, 0.1), floats(50, 0.3)],
        ),
        vec![(2, ints(&[50]))],
    ));
    for (launch, scalars) in &mut all {
        // As a parameter buffer is laid out: each at a multiple of its size, structures of `int` and `float` at 4.
        for (_, bytes) in scalars {
            let align = if bytes.len() == 8 { 8 } else { 4 };
            let end = launch.params.len().next_multiple_of(align);
            launch.params.resize(end, 0);
            launch.params.extend_from_slice(bytes);
        }
    }
    all
}

fn constants(scalars: &[(u32, Vec<u8>)]) -> Vec<(u32, u32, Vec<u8>)> {
    scalars
        .iter()
        .map(|(index, bytes)| (*index, 0, bytes.clone()))
        .collect()
}

#[test]
fn what_nothing_is_asked_of_stays_byte_for_byte() {
    let texts = archives::ptx();
    assert!(texts.len() > 15);
    for (name, text) in texts {
        let product = made(&recipe(&text));
        assert!(product.ptx == text, "{name}");
        assert!(product.changes.is_empty() && product.guards.is_empty());
    }
}

#[test]
fn text_that_was_only_printed_again_assembles_to_the_same_code() {
    if !has_ptxas() {
        return;
    }
    for (name, text) in archives::ptx() {
        // A target that this assembler does not know any more.
        if text.contains("sm_52") {
            continue;
        }
        let mut whole = recipe(&text);
        // Another version of PTX is a change of text that is none of code.
        whole.ptx_version = Some((8, 8));
        let product = made(&whole);
        assert!(product.ptx != text, "{name}");
        assert!(
            assembled(&product.ptx, &[]) == assembled(&text, &[]),
            "{name}"
        );
    }
}

#[test]
fn one_kernel_of_many_has_the_code_that_it_had_among_them() {
    let product = made(&of_kernel("heat"));
    assert!(product.ptx.contains(".entry heat("));
    assert_eq!(product.ptx.matches(".entry").count(), 1);
    if has_ptxas() {
        let all = assembled(KNOBS, &[]);
        let of_heat = all.iter().find(|(name, _)| name == ".text.heat").unwrap();
        assert_eq!(assembled(&product.ptx, &[]), std::slice::from_ref(of_heat));
    }
    let failure = compile(&of_kernel("cold")).unwrap_err();
    assert_eq!(
        (failure.stage, failure.kind),
        (Stage::Specialise, FailureKind::Refused)
    );
    assert!(
        failure.message.contains("cold") && failure.message.contains("bilateral"),
        "{failure}"
    );
}

/// What a kernel needs stays, and what only others need goes: functions, variables, other names.
#[test]
fn one_kernel_comes_with_what_it_needs() {
    let text = "
        .file 1 \"a.cu\"
        .visible .global .align 4 .b32 shared_by_both = 3;
        .visible .global .align 8 .u64 pointer = shared_by_both;
        .global .align 4 .b32 only_of_b;
        .func (.param .b32 r) helper () { .reg .b32 %r; ld.global.b32 %r, [shared_by_both]; st.param.b32 [r], %r; ret; }
        .func unused () { ret; }
        .visible .entry a (.param .u64 p) {
            .reg .b32 %r; .reg .b64 %p, %q;
            .loc 1 7 3
            { .param .b32 v; call.uni (v), helper, (); ld.param.b32 %r, [v]; }
            ld.global.u64 %q, [pointer];
            ld.param.u64 %p, [p];
            st.global.b32 [%p], %r;
            ret;
        }
        .visible .entry b () { .reg .b32 %r; ld.global.b32 %r, [only_of_b]; call.uni unused, (); ret; }
        .section .debug_abbrev { .b8 1, 2 }";
    let mut one = recipe(text);
    one.kernel = Some("a".to_owned());
    let ptx = made(&one).ptx;
    for kept in ["helper", "shared_by_both", "pointer", ".file 1"] {
        assert!(ptx.contains(kept), "{kept}\n{ptx}");
    }
    for gone in ["only_of_b", "unused", ".section", ".loc", ".entry b"] {
        assert!(!ptx.contains(gone), "{gone}\n{ptx}");
    }
    let launch = Launch::new("a", 1, vec![0; 4]);
    assert_eq!(run(&ptx, &launch), run(text, &launch));
}

#[test]
fn constants_of_a_launch_leave_the_bytes_of_the_original_in_it() {
    for (launch, scalars) in launches() {
        let kernel = launch.kernel;
        let expected = run(KNOBS, &launch).unwrap();
        assert!(expected != launch.buffers, "{kernel}");
        let mut constant = of_kernel(kernel);
        constant.specialisation = Specialisation {
            params: constants(&scalars),
            grid: Some(launch.grid),
            block: Some(launch.block),
            ..Specialisation::default()
        };
        let product = made(&constant);
        assert_eq!(run(&product.ptx, &launch).unwrap(), expected, "{kernel}");
        // All scalars are gone from the code, and each is a condition.
        let loads = product.ptx.matches("ld.param").count();
        assert_eq!(loads, launch.buffers.len(), "{kernel}\n{}", product.ptx);
        let mut guards: Vec<Guard> = scalars
            .iter()
            .map(|(index, bytes)| Guard::Param {
                index: *index,
                offset: 0,
                bytes: bytes.clone(),
            })
            .collect();
        assert_eq!(product.guards.get(..guards.len()), Some(&guards[..]));
        guards.push(Guard::Block(launch.block));
        assert!(product.guards.starts_with(&guards), "{:?}", product.guards);
        assert!(!product.ptx.contains("%ntid") && !product.ptx.contains("%nctaid"));
        if has_ptxas() {
            assembled(&product.ptx, &[]);
        }
    }
}

/// What knobs are for: the assembler needs no division by what is known, and none that is exact where that is not asked for.
#[test]
fn constants_and_approximations_reach_machine_code() {
    if !has_ptxas() {
        return;
    }
    let bytes = |recipe: &Recipe| {
        let sections = assembled(&made(recipe).ptx, &[]);
        sections.iter().map(|(_, code)| code.len()).sum::<usize>()
    };
    let mut heat = of_kernel("heat");
    let plain = bytes(&heat);
    heat.specialisation.params = vec![(2, 0, ints(&[16])), (4, 0, ints(&[7]))];
    assert!(bytes(&heat) * 10 < plain * 9, "{} of {plain}", bytes(&heat));
    let mut bilateral = of_kernel("bilateral");
    let plain = bytes(&bilateral);
    bilateral.approximate.division = true;
    let fast = bytes(&bilateral);
    assert!(fast * 3 < plain * 2, "{fast} of {plain}");
}

/// One after the other, so that each is a part of the parameters.
#[test]
fn each_constant_alone_leaves_the_bytes_of_the_original() {
    for (launch, scalars) in launches() {
        let expected = run(KNOBS, &launch).unwrap();
        for (index, bytes) in &scalars {
            for from in (0..bytes.len()).step_by(3) {
                let end = (from + 3).min(bytes.len());
                let mut constant = of_kernel(launch.kernel);
                let part = bytes.get(from..end).unwrap().to_vec();
                constant.specialisation.params = vec![(*index, from as u32, part)];
                let product = made(&constant);
                assert_eq!(run(&product.ptx, &launch).unwrap(), expected);
                assert_eq!(product.guards.len(), 1);
                if has_ptxas() {
                    assembled(&product.ptx, &[]);
                }
            }
        }
    }
}

/// Loads of every width into registers of every width that the ISA allows, from parameters by name and by address.
#[test]
fn loads_are_replaced_as_the_isa_extends_them() {
    let text = "
        .visible .entry k (.param .u64 out, .param .align 8 .b8 s[32], .param .u64 n) {
            .reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .b16 %h<9>; .reg .f32 %f<5>; .reg .f64 %d<3>; .reg .pred %p;
            ld.param.u64 %rd1, [out];
            ld.param.s8 %h1, [s+1];
            ld.param.u8 %h2, [s+1];
            ld.param.s8 %r1, [s+1];
            ld.param.s16 %rd2, [s+2];
            ld.param.b16 %r2, [s+2];
            ld.param.v2.f32 {%f1, %f2}, [s+8];
            ld.param.f64 %d1, [s+16];
            ld.param.v4.u16 {%h3, %h4, _, %h5}, [s+24];
            setp.eq.s32 %p, %r1, -2;
            mov.b32 %r5, 77;
            @%p ld.param.u32 %r5, [s+4];
            @!%p ld.param.u32 %r5, [s+8];
            mov.b64 %rd4, s;
            add.s64 %rd5, %rd4, 8;
            ld.param.u32 %r6, [%rd5+-4];
            cvta.param.u64 %rd6, %rd5;
            ld.u64 %rd7, [%rd6+8];
            ld.param.u64 %rd8, [n];
            add.s64 %rd9, %rd4, %rd8;
            ld.param.u32 %r7, [%rd9];
            st.global.u16 [%rd1], %h1;
            st.global.u16 [%rd1+2], %h2;
            st.global.u32 [%rd1+4], %r1;
            st.global.u64 [%rd1+8], %rd2;
            st.global.u32 [%rd1+16], %r2;
            st.global.f32 [%rd1+20], %f1;
            st.global.f32 [%rd1+24], %f2;
            st.global.u32 [%rd1+28], %r5;
            st.global.f64 [%rd1+32], %d1;
            st.global.v2.u16 [%rd1+40], {%h3, %h4};
            st.global.u16 [%rd1+44], %h5;
            st.global.u32 [%rd1+48], %r6;
            st.global.u32 [%rd1+52], %r7;
            st.global.u64 [%rd1+56], %rd7;
            ret;
        }";
    let bytes: Vec<u8> = (0..32u8)
        .map(|at| 0xff - at.wrapping_mul(7) % 200)
        .collect();
    let mut params = bytes.clone();
    params[1] = 0xfe;
    let bytes = params.clone();
    params.extend(4u64.to_le_bytes());
    let launch = Launch {
        params,
        ..Launch::new("k", 1, vec![0; 64])
    };
    let expected = run(text, &launch).unwrap();
    // Everything, then ranges of every length from every place: what is known in part is put over what was loaded.
    let mut ranges = vec![(0, 32)];
    for length in [1, 2, 3, 5, 8] {
        ranges.extend((0..=32 - length).map(|from| (from, length)));
    }
    for (from, length) in ranges {
        let mut constant = recipe(text);
        let part = bytes.get(from..from + length).unwrap().to_vec();
        constant.specialisation.params = vec![(1, from as u32, part)];
        let product = made(&constant);
        assert_eq!(
            run(&product.ptx, &launch).unwrap(),
            expected,
            "{from} {length}\n{}",
            product.ptx
        );
        if (from, length) == (0, 32) {
            // The pointer, the index, and the load at an index.
            assert_eq!(product.ptx.matches("ld.param").count(), 3);
            if has_ptxas() {
                assembled(&product.ptx, &[]);
            }
        }
    }
}

#[test]
fn facts_that_do_not_fit_are_refused_and_those_without_use_are_told() {
    let with = |facts| Recipe {
        specialisation: facts,
        ..of_kernel("in_place")
    };
    let params = |index, offset, bytes: &[u8]| Specialisation {
        params: vec![(index, offset, bytes.to_vec())],
        ..Specialisation::default()
    };
    for (facts, said) in [
        (params(3, 0, &[1]), "it has 3 parameters"),
        (params(2, 2, &[1, 2, 3]), "it has 4 bytes"),
        (
            Specialisation {
                grid: Some([1, 0, 1]),
                ..Specialisation::default()
            },
            "no threads",
        ),
        (
            Specialisation {
                align: vec![(0, 3)],
                ..Specialisation::default()
            },
            "no alignment",
        ),
    ] {
        let failure = compile(&with(facts)).unwrap_err();
        assert_eq!(failure.stage, Stage::Specialise);
        assert!(failure.message.contains(said), "{failure}");
    }
    // Of several kernels, facts are about none.
    let mut several = recipe(KNOBS);
    several.specialisation.block = Some([1, 1, 1]);
    let failure = compile(&several).unwrap_err();
    assert!(failure.message.contains("keep"), "{failure}");

    let product = made(&with(Specialisation {
        noalias: vec![0],
        align: vec![(0, 16)],
        ..Specialisation::default()
    }));
    assert_eq!(
        product.without_effect().collect::<Vec<_>>(),
        [Knob::NoAlias, Knob::Align]
    );
    assert!(product.guards.is_empty());
    assert_eq!(product.notes.len(), 2);
}

#[test]
fn what_only_llvm_does_is_refused() {
    let cases: Vec<(&str, Recipe)> = vec![
        (
            "passes",
            Recipe {
                pipeline: Pipeline::Preset(Preset::O3),
                ..recipe(KNOBS)
            },
        ),
        (
            "unroll count",
            Recipe {
                unroll: Unroll::Count(4),
                ..recipe(KNOBS)
            },
        ),
        (
            "inlining",
            Recipe {
                inline_functions: true,
                ..recipe(KNOBS)
            },
        ),
        (
            "fusing",
            Recipe {
                contraction: Contraction::Llvm,
                ..recipe(KNOBS)
            },
        ),
        (
            "LLVM IR",
            Recipe {
                emit: Emit {
                    llvm: true,
                    cubin: false,
                },
                ..recipe(KNOBS)
            },
        ),
    ];
    for (word, recipe) in cases {
        let failure = compile(&recipe).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(
            failure.message.contains(word) && failure.message.contains("lifting"),
            "{failure}"
        );
    }
}

#[test]
fn marks_against_unrolling_are_dropped_and_counted() {
    let marked = KNOBS.matches(".pragma \"nounroll\"").count();
    assert!(marked > 0);
    let free = made(&Recipe {
        unroll: Unroll::Free,
        ..recipe(KNOBS)
    });
    assert!(!free.ptx.contains("nounroll"));
    assert_eq!(places(&free, Knob::Unroll), Some(marked as u32));
    // LLVM is told the same, and of one kernel its own.
    for (kernel, expected) in [("scores", true), ("in_place", false)] {
        let lifted = made(&Recipe {
            route: Route::Lift,
            unroll: Unroll::Free,
            ..of_kernel(kernel)
        });
        assert_eq!(
            places(&lifted, Knob::Unroll) > Some(0),
            expected,
            "{kernel}"
        );
    }
}

#[test]
fn bounds_take_the_place_of_those_that_were_there() {
    let text =
        |directives: &str| format!(".visible .entry k (.param .u64 p) {directives} {{ ret; }}");
    let bounds = |maxnreg, maxntid, minnctapersm, reqntid| Bounds {
        maxnreg,
        maxntid,
        minnctapersm,
        reqntid,
    };
    // Directives before, bounds, directives after, which of them changed.
    let cases = [
        ("", bounds(Some(48), None, None, None), ".maxnreg 48", 1),
        (".maxnreg 32", bounds(Some(0), None, None, None), "", 1),
        ("", bounds(Some(0), None, None, None), "", 0),
        (
            ".maxntid 256, 1, 1",
            bounds(None, Some(256), None, None),
            ".maxntid 256, 1, 1",
            0,
        ),
        (
            ".maxntid 256",
            bounds(None, Some(128), Some(2), None),
            ".maxntid 128 .minnctapersm 2",
            2,
        ),
        // Nobody heeds it alone.
        ("", bounds(None, None, Some(2), None), ".minnctapersm 2", 0),
        (
            ".reqntid 64, 2, 1",
            bounds(None, Some(128), None, None),
            ".reqntid 64, 2, 1",
            0,
        ),
        (
            ".reqntid 64",
            bounds(None, None, Some(4), None),
            ".reqntid 64 .minnctapersm 4",
            1,
        ),
        (
            ".reqntid 64",
            bounds(None, None, None, Some([32, 4, 1])),
            ".reqntid 32, 4, 1",
            1,
        ),
        (
            ".reqntid 64",
            bounds(None, Some(128), None, Some([0, 0, 0])),
            ".maxntid 128",
            2,
        ),
        (
            ".maxntid 512",
            bounds(None, Some(128), None, Some([64, 1, 1])),
            ".reqntid 64, 1, 1",
            2,
        ),
    ];
    for (before, bounds, after, changed) in cases {
        let product = made(&Recipe {
            bounds,
            ..recipe(&text(before))
        });
        let tree = r3_ptx::parse(&product.ptx).unwrap();
        let expected = r3_ptx::parse(&common::with_header(&text(after))).unwrap();
        let directives = |tree: &r3_ptx::tree::Module| {
            tree.items.iter().find_map(|item| match item {
                r3_ptx::tree::Item::Function(function) => Some(function.directives.clone()),
                _ => None,
            })
        };
        assert_eq!(
            directives(&tree),
            directives(&expected),
            "{before:?} {bounds:?}"
        );
        let places: u32 = product.changes.iter().filter_map(|c| c.places).sum();
        assert_eq!(places, changed, "{before:?} {bounds:?}");
        if has_ptxas() {
            assembled(&product.ptx, &[]);
        }
    }
}

/// The register cap in the text is the one of the command line.
#[test]
fn a_cap_of_registers_gives_the_code_of_maxrregcount() {
    if !has_ptxas() {
        return;
    }
    for registers in [24, 48, 128] {
        let mut capped = of_kernel("scores");
        let plain = made(&capped).ptx;
        capped.bounds.maxnreg = Some(registers);
        let option = format!("-maxrregcount={registers}");
        assert_eq!(
            assembled(&made(&capped).ptx, &[]),
            assembled(&plain, &[&option])
        );
    }
}

#[test]
fn approximations_are_near_and_what_they_change_is_counted() {
    let approximate = Approximate {
        division: true,
        flush: true,
        functions: false,
    };
    for (launch, _) in launches() {
        let expected = run(KNOBS, &launch).unwrap();
        for route in [Route::Text, Route::Lift] {
            let product = made(&Recipe {
                approximate,
                route,
                ..of_kernel(launch.kernel)
            });
            let found = run(&product.ptx, &launch).unwrap();
            for (expected, found) in expected.iter().zip(&found) {
                near(expected, found, launch.kernel == "heat");
            }
            let divisions = places(&product, Knob::Division);
            let flushed = places(&product, Knob::Flush);
            let exact = |text: &str| {
                ["div.rn.f32", "sqrt.rn.f32", "rcp.rn.f32"]
                    .map(|m| text.matches(m).count())
                    .iter()
                    .sum::<usize>()
            };
            assert_eq!(exact(&product.ptx), 0);
            match launch.kernel {
                "bilateral" => assert_eq!(divisions, Some(23)),
                "heat" | "max_pool" | "in_place" => assert_eq!(divisions, Some(0)),
                _ => assert!(divisions > Some(0)),
            }
            match launch.kernel {
                "heat" => {
                    assert_eq!(flushed, Some(0));
                    let idle: Vec<Knob> = product.without_effect().collect();
                    assert_eq!(idle, [Knob::Division, Knob::Flush]);
                }
                _ => assert!(flushed > Some(0)),
            }
            if has_ptxas() {
                assembled(&product.ptx, &[]);
            }
        }
    }
}

/// Within four units in the last place of single precision; to the bit in double precision.
fn near(expected: &[u8], found: &[u8], exact: bool) {
    if exact {
        assert!(expected == found);
        return;
    }
    for (expected, found) in expected.chunks(4).zip(found.chunks(4)) {
        let value = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
        let (expected, found) = (value(expected), value(found));
        let error = (expected - found).abs();
        assert!(
            error <= expected.abs() * 2e-6,
            "{found} in place of {expected}"
        );
    }
}

#[test]
fn read_only_loads_are_those_that_nothing_in_the_kernel_may_write() {
    let product = |kernel| {
        made(&Recipe {
            read_only_loads: true,
            ..of_kernel(kernel)
        })
    };
    let plain = |ptx: &str| {
        ptx.matches("ld.global.f32").count()
            + ptx.matches("ld.global.f64").count()
            + ptx.matches("ld.global.u64").count()
            + ptx.matches("ld.global.u32").count()
    };
    // What is written is another parameter's.
    for (kernel, guards) in [
        ("bilateral", vec![0]),
        ("max_pool", vec![0]),
        ("heat", vec![0]),
        ("scores", vec![0, 1]),
    ] {
        let product = product(kernel);
        assert_eq!(plain(&product.ptx), 0, "{}", product.ptx);
        assert!(places(&product, Knob::ReadOnlyLoads) > Some(0));
        let expected: Vec<Guard> = guards
            .into_iter()
            .map(|index| Guard::NoAlias { index })
            .collect();
        assert_eq!(product.guards, expected, "{kernel}");
        if has_ptxas() {
            assembled(&product.ptx, &[]);
        }
    }
    let in_place = product("in_place");
    assert_eq!(plain(&in_place.ptx), 1);
    assert_eq!(in_place.guards, [Guard::NoAlias { index: 1 }]);
    assert!(
        in_place
            .notes
            .iter()
            .any(|note| note.contains("same parameter"))
    );
    // The tables themselves and the indices are parameters' memory; what the tables point to may be anything.
    let lookup = product("lookup");
    assert_eq!(plain(&lookup.ptx), 1, "{}", lookup.ptx);
    // Writing to anywhere, it may write everything.
    let scatter = product("scatter");
    assert_eq!(places(&scatter, Knob::ReadOnlyLoads), Some(0));
    assert!(scatter.guards.is_empty());
    assert!(
        scatter
            .notes
            .iter()
            .any(|note| note.contains("does not tell"))
    );
    for (launch, _) in launches() {
        let product = product(launch.kernel);
        assert_eq!(run(&product.ptx, &launch), run(KNOBS, &launch));
    }
}

/// What writes in another way than by `st`, in a function, through a copy of the address, or by an address that two
/// parameters may have made.
#[test]
fn every_way_to_write_counts() {
    let kernel = |body: &str| {
        format!(
            ".extern .func other (.param .b64 p);
            .func writer (.param .b64 p) {{ .reg .b64 %p; ld.param.u64 %p, [p]; st.b32 [%p], 1; ret; }}
            .visible .entry k (.param .u64 a, .param .u64 b, .param .u64 c) {{
                .reg .b64 %rd<20>; .reg .b32 %r<9>; .reg .pred %p; .shared .align 8 .b64 s[4];
                ld.param.u64 %rd1, [a];
                ld.param.u64 %rd2, [b];
                ld.param.u64 %rd3, [c];
                cvta.to.global.u64 %rd4, %rd1;
                ld.global.u32 %r1, [%rd4];
                {body}
                ret;
            }}"
        )
    };
    let cases = [
        ("nothing", "", 1),
        ("another parameter", "st.global.u32 [%rd2], %r1;", 1),
        ("shared memory", "st.shared.u32 [s], %r1;", 1),
        (
            "an index of 64 bits",
            "ld.global.u64 %rd7, [%rd2]; shl.b64 %rd10, %rd7, 2; add.s64 %rd8, %rd3, %rd10; st.global.u32 [%rd8], %r1;",
            2,
        ),
        ("the same", "st.global.u32 [%rd4+8], %r1;", 0),
        (
            "the same, generic",
            "add.s64 %rd9, %rd1, 64; st.u32 [%rd9], %r1;",
            0,
        ),
        ("a reduction", "red.global.add.u32 [%rd4+4], 1;", 0),
        ("an atomic", "atom.global.add.u32 %r2, [%rd4+4], 1;", 0),
        (
            "an asynchronous copy",
            "cp.async.bulk.global.shared::cta.bulk_group [%rd4+16], [s], 16;",
            0,
        ),
        (
            "either of two",
            "setp.eq.u32 %p, %r1, 0; selp.b64 %rd5, %rd1, %rd2, %p; st.global.u32 [%rd5], 1;",
            0,
        ),
        (
            "an address from memory",
            "ld.global.u64 %rd6, [%rd2]; st.global.u32 [%rd6], 1;",
            0,
        ),
        (
            "an address of halves",
            "ld.global.v2.u32 {%r3, %r4}, [%rd2]; mov.b64 %rd6, {%r3, %r4}; st.global.u32 [%rd6], 1;",
            0,
        ),
        ("a number", "st.global.u32 [4096], 1;", 0),
        (
            "a function",
            "{ .param .b64 q; st.param.b64 [q], %rd2; call.uni writer, (q); }",
            0,
        ),
        (
            "somebody else's function",
            "{ .param .b64 q; st.param.b64 [q], %rd2; call.uni other, (q); }",
            0,
        ),
        (
            "a call by address",
            "{ .param .b64 q; st.param.b64 [q], %rd2; mov.u64 %rd9, writer; P: .callprototype _ (.param .b64 _); call %rd9, (q), P; }",
            0,
        ),
    ];
    for (what, body, expected) in cases {
        let product = made(&Recipe {
            kernel: Some("k".to_owned()),
            read_only_loads: true,
            ..recipe(&kernel(body))
        });
        assert_eq!(
            product.ptx.matches("ld.global.nc").count(),
            expected,
            "{what}\n{}",
            product.ptx
        );
    }
}

/// Two pointers in a structure: no guard could say that they differ. And a kernel that writes nothing needs none.
#[test]
fn what_guards_cannot_say_is_left_alone() {
    let text = "
        .visible .entry k (.param .align 8 .b8 s[24], .param .u64 q) {
            .reg .b64 %rd<9>; .reg .b32 %r<9>;
            ld.param.u64 %rd1, [s];
            ld.param.u64 %rd2, [s+8];
            ld.param.u64 %rd3, [q];
            ld.global.u32 %r1, [%rd2];
            ld.global.u32 %r2, [%rd3];
            add.u32 %r1, %r1, %r2;
            st.global.u32 [%rd1], %r1;
            ret;
        }";
    let read_only = |text: &str| {
        made(&Recipe {
            read_only_loads: true,
            ..recipe(text)
        })
    };
    let product = read_only(text);
    assert_eq!(product.ptx.matches("ld.global.nc").count(), 1);
    assert_eq!(product.guards, [Guard::NoAlias { index: 1 }]);
    let product = read_only(&text.replace("st.global.u32 [%rd1], %r1;", ""));
    assert_eq!(product.ptx.matches("ld.global.nc").count(), 2);
    assert_eq!(product.guards, []);
}

#[test]
fn cache_operators_are_hints_that_change_no_result() {
    let operators = CacheOperators {
        loads: Some(LoadOperator::Streaming),
        stores: Some(StoreOperator::Global),
    };
    for (launch, _) in launches() {
        for route in [Route::Text, Route::Lift] {
            let product = made(&Recipe {
                route,
                cache_operators: operators,
                ..of_kernel(launch.kernel)
            });
            assert!(product.ptx.contains("ld.global.cs.") && product.ptx.contains("st.global.cg."));
            assert!(!product.ptx.contains("ld.global.f") && !product.ptx.contains("st.global.f"));
            assert!(places(&product, Knob::LoadOperator) > Some(0));
            assert!(places(&product, Knob::StoreOperator) > Some(0));
            assert_eq!(run(&product.ptx, &launch), run(KNOBS, &launch));
            if has_ptxas() {
                assembled(&product.ptx, &[]);
            }
        }
    }
    // Older text gets the version that knows priorities.
    let text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k (.param .u64 p) { .reg .b64 %p; .reg .b32 %r; \
                ld.param.u64 %p, [p]; ld.global.b32 %r, [%p]; st.global.b32 [%p+4], %r; ret; }";
    let product = made(&Recipe {
        cache_operators: CacheOperators {
            loads: Some(LoadOperator::NoAllocate),
            stores: None,
        },
        ..recipe(text)
    });
    assert!(
        product.ptx.contains(".version 7.4")
            && product.ptx.contains("ld.global.L1::no_allocate.b32"),
        "{}",
        product.ptx
    );
    // Nothing of another target is written.
    let product = made(&Recipe {
        cache_operators: CacheOperators {
            loads: Some(LoadOperator::NoAllocate),
            stores: None,
        },
        ..recipe(&text.replace("sm_80", "sm_60"))
    });
    assert_eq!(places(&product, Knob::LoadOperator), Some(0));
}

/// IR of another compiler is approximated in the PTX that LLVM makes of it.
#[test]
fn ir_is_approximated_after_llvm() {
    let ir = "
        target triple = \"nvptx64-nvidia-cuda\"
        define ptx_kernel void @k(ptr addrspace(1) %p) {
          %v = load float, ptr addrspace(1) %p
          %q = fdiv float 1.0, %v
          %s = fadd float %q, %v
          store float %s, ptr addrspace(1) %p
          ret void
        }";
    for route in [Route::Text, Route::Lift] {
        let product = made(&Recipe {
            route,
            target: Some("sm_90".to_owned()),
            approximate: Approximate {
                division: true,
                flush: true,
                functions: false,
            },
            cache_operators: CacheOperators {
                loads: Some(LoadOperator::Streaming),
                stores: None,
            },
            ..Recipe::new(Code::Llvm(ir.to_owned()))
        });
        assert!(
            product.ptx.contains("rcp.approx.ftz.f32"),
            "{}",
            product.ptx
        );
        assert!(product.ptx.contains("ld.global.cs."), "{}", product.ptx);
        assert_eq!(places(&product, Knob::Division), Some(1));
    }
}

/// What a compiler was told shows in its PTX; what it was not told stays exact.
#[test]
fn a_source_s_compiler_approximates() {
    let text = "extern \"C\" __global__ void k(float *p) { float x = p[0], y = p[1]; \
                p[0] = x / y + sqrtf(y) + 1.0f / x; p[1] = __expf(x) + sinf(y) + powf(x, y); }";
    let made_by = |compiler, approximate, route| {
        let source = Source {
            text: text.to_owned(),
            name: "k.cu".into(),
            headers: Vec::new(),
            name_expressions: Vec::new(),
            compiler,
            program: None,
            options: Vec::new(),
            directory: None,
        };
        compile(&Recipe {
            route,
            kernel: Some("k".to_owned()),
            target: Some("sm_90".to_owned()),
            approximate,
            // clang's bitcode has seen no pass, and goes through LLVM by either route.
            pipeline: match compiler {
                Compiler::Clang => Pipeline::Preset(Preset::O3),
                _ => Pipeline::Nothing,
            },
            ..Recipe::new(Code::Source(source))
        })
    };
    let steps = |division, flush, functions| Approximate {
        division,
        flush,
        functions,
    };
    let mut compilers = 0;
    for compiler in [Compiler::Nvcc, Compiler::Nvrtc, Compiler::Clang] {
        for route in [Route::Text, Route::Lift] {
            let plain = match made_by(compiler, steps(false, false, false), route) {
                Ok(product) => product,
                Err(failure) if matches!(failure.kind, FailureKind::MissingTool) => continue,
                // clang alone, without libdevice for the functions.
                Err(failure) => {
                    assert_eq!((compiler, failure.stage), (Compiler::Clang, Stage::Link));
                    continue;
                }
            };
            compilers += 1;
            let exact = plain.ptx.contains("div.rn.f32") && plain.ptx.contains("sqrt.rn.f32");
            assert!(exact, "{compiler:?} {route:?}\n{}", plain.ptx);
            assert!(!plain.ptx.contains("sin.approx"));
            let fast = made_by(compiler, steps(true, false, false), route).unwrap();
            for exact in [
                "div.rn.f32",
                "div.full",
                "sqrt.rn.f32",
                "rcp.rn.f32",
                "sin.approx",
            ] {
                assert!(
                    !fast.ptx.contains(exact),
                    "{compiler:?} {exact}\n{}",
                    fast.ptx
                );
            }
            assert_eq!(places(&fast, Knob::Division), None);
            let flushed = made_by(compiler, steps(false, true, false), route).unwrap();
            assert!(flushed.ptx.contains("div.rn.ftz.f32"), "{}", flushed.ptx);
            assert!(!flushed.ptx.contains("add.f32") && !flushed.ptx.contains("add.rn.f32"));
            let functions = made_by(compiler, steps(false, false, true), route).unwrap();
            assert!(
                functions.ptx.contains("sin.approx.f32"),
                "{compiler:?} {}",
                functions.ptx
            );
            assert!(functions.ptx.contains("div.rn.f32") && functions.ptx.contains("sqrt.rn.f32"));
            assert_eq!(places(&functions, Knob::Functions), None);
        }
    }
    if compilers == 0 {
        eprintln!("skipped: neither nvcc nor NVRTC is here, nor libdevice for clang");
    }
    // Where there is no source, there are no functions.
    let mut of_text = of_kernel("heat");
    of_text.approximate.functions = true;
    let product = made(&of_text);
    assert_eq!(
        product.without_effect().collect::<Vec<_>>(),
        [Knob::Functions]
    );
}

/// An assembler's error comes with the line of the text that only it saw.
#[test]
fn an_assembler_s_error_quotes_the_line() {
    if !has_ptxas() {
        return;
    }
    let failure = compile(&Recipe {
        emit: Emit {
            llvm: false,
            cubin: true,
        },
        assembler: Assembler {
            kind: AssemblerKind::Ptxas,
            ..Assembler::default()
        },
        ..recipe(
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k (.param .u64 p) {\n.reg .b64 %p; .reg .b32 %r;\n\
             ld.param.u64 %p, [p];\nld.global.L1::no_allocate.b32 %r, [%p];\nret;\n}",
        )
    })
    .unwrap_err();
    assert_eq!(
        (failure.stage, failure.kind),
        (Stage::Assemble, FailureKind::Refused)
    );
    let line = "ld.global.L1::no_allocate.b32 %r, [%p];";
    assert!(
        failure.message.contains("line 7") && failure.message.contains(line),
        "{failure}"
    );
    assert!(
        failure.log.contains(&format!("7 | {line}")),
        "{}",
        failure.log
    );
}

/// Everything at once, of every text of the sample archives that the assembler knows.
#[test]
fn all_knobs_together_assemble() {
    let mut count = 0;
    for (name, text) in archives::ptx() {
        if text.contains("sm_52") {
            continue;
        }
        let product = made(&Recipe {
            approximate: Approximate {
                division: true,
                flush: true,
                functions: false,
            },
            read_only_loads: true,
            cache_operators: CacheOperators {
                loads: Some(LoadOperator::EvictLast),
                stores: Some(StoreOperator::WriteThrough),
            },
            bounds: Bounds {
                maxnreg: Some(64),
                ..Bounds::default()
            },
            unroll: Unroll::Free,
            ..recipe(&text)
        });
        assert!(product.ptx != text, "{name}");
        assert!(
            product.changes.contains(&Change {
                knob: Knob::MaxRegisters,
                places: Some(text.matches(".entry").count() as u32)
            }),
            "{name} {:?}",
            product.changes
        );
        count += 1;
        if has_ptxas() {
            assembled(&product.ptx, &[]);
        }
    }
    assert!(count > 10);
}

/// More parameters and variables than origins are told apart.
#[test]
fn many_pointers_are_no_mistake() {
    let mut text = String::new();
    let mut loads = String::new();
    for at in 0..100 {
        text.push_str(&format!(".global .align 4 .b32 v{at};\n"));
        loads.push_str(&format!("ld.global.u32 %r1, [v{at}];\n"));
    }
    text.push_str(
        ".visible .entry k (.param .align 8 .b8 s[1600]) { .reg .b64 %rd<9>; .reg .b32 %r<9>;\n",
    );
    text.push_str(&loads);
    for at in 0..200 {
        text.push_str(&format!("ld.param.u64 %rd{}, [s+{}];\n", at % 8, at * 8));
    }
    text.push_str("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2; ret; }");
    let product = made(&Recipe {
        read_only_loads: true,
        ..recipe(&text)
    });
    // Whatever is told apart: nothing of the structure that is written through.
    assert!(!product.ptx.contains("nc.u32 %r2"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Damaged text gives an error or a product, whatever is asked for.
    #[test]
    fn damaged_text_is_no_panic(cuts in prop::collection::vec((0usize..22_000, 0usize..40, ".{0,3}"), 1..4)) {
        let mut text = KNOBS.to_owned();
        for (at, length, put) in cuts {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = (at + length).min(text.len());
            let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(at);
            text.replace_range(at..end, &put);
        }
        for kernel in ["bilateral", "scores"] {
            _ = compile(&Recipe {
                kernel: Some(kernel.to_owned()),
                approximate: Approximate { division: true, flush: true, functions: true },
                read_only_loads: true,
                cache_operators: CacheOperators {
                    loads: Some(LoadOperator::EvictFirst),
                    stores: Some(StoreOperator::WriteBack),
                },
                specialisation: Specialisation {
                    params: vec![(2, 1, vec![3, 0]), (4, 0, vec![1, 0, 0, 0])],
                    grid: Some([1, 2, 3]),
                    block: Some([1, 1, 1]),
                    ..Specialisation::default()
                },
                unroll: Unroll::Free,
                ..recipe(&text)
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Exact knobs leave the bytes of random kernels as they are: bounds, constants of the launch (addresses too), hints,
    /// read-only loads.
    #[test]
    fn random_kernels_leave_the_same_bytes(seed in 0u64..1 << 40, knobs in 0u8..64) {
        let kernel = generate::kernel(seed, &generate::Options::default());
        let output = kernel.thread_bytes * kernel.threads + kernel.accumulators * 4;
        let launch = Launch {
            buffers: vec![longs(&kernel.input), vec![0; output as usize]],
            ..Launch::new("kernel", kernel.threads, Vec::new())
        };
        let has = |bit: u8| knobs & (1 << bit) != 0;
        let address = |at: u64| (common::BUFFERS + (at << 32)).to_le_bytes().to_vec();
        let asked = Recipe {
            kernel: Some("kernel".to_owned()),
            specialisation: Specialisation {
                params: if has(0) { vec![(0, 0, address(0)), (1, 2, address(1)[2..7].to_vec())] } else { Vec::new() },
                grid: has(1).then_some(launch.grid),
                block: has(1).then_some(launch.block),
                ..Specialisation::default()
            },
            bounds: Bounds {
                maxntid: has(2).then_some(1024),
                minnctapersm: has(2).then_some(1),
                ..Bounds::default()
            },
            read_only_loads: has(3),
            cache_operators: CacheOperators {
                loads: has(4).then_some(LoadOperator::Global),
                stores: has(4).then_some(StoreOperator::Streaming),
            },
            unroll: if has(5) { Unroll::Free } else { Unroll::Keep },
            ..recipe(&kernel.text)
        };
        let product = made(&asked);
        prop_assert_eq!(run(&product.ptx, &launch), run(&kernel.text, &launch), "{}", product.ptx);
    }
}
