//! A kernel specialised for a launch leaves the bytes that the original leaves in that launch, on the CPU device.
//!
//! The kernel is nvcc's: pointers, scalars, a structure by value that a function of its own reads through a local copy,
//! divisions by what may become a constant, loops that may be unrolled.

mod common;

use common::Launch;
use r3_codegen::compile::compile;
use r3_codegen::passes;
use r3_codegen::recipe::{Code, Guard, Pipeline, Preset, Recipe, Route, Specialisation, Unroll};

const KERNEL: &str = include_str!("fixtures/specialised.ptx");

/// The structure: `int`, `float`, `long long`, four `short`.
fn structure() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(5i32.to_le_bytes());
    bytes.extend(0.3f32.to_le_bytes());
    bytes.extend(90i64.to_le_bytes());
    for value in [1i16, -2, 3, 4] {
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

/// Three blocks of 32 × 2 × 2 threads.
fn launch() -> Launch<'static> {
    let floats = |count: u16, scale: f32| {
        (0..count)
            .flat_map(|at| (f32::from(at) * scale - 7.0).to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut params = Vec::new();
    params.extend(7i32.to_le_bytes());
    params.extend(1.25f32.to_le_bytes());
    params.extend(structure());
    Launch {
        kernel: "k",
        grid: [3, 1, 1],
        // Threads that differ in y only write the same value to the same place.
        block: [32, 2, 2],
        dynamic_shared: 0,
        buffers: vec![floats(128, 0.37), floats(96, 1.7)],
        params,
    }
}

/// Facts of the launch, alone and together.
fn facts() -> Vec<Specialisation> {
    let structure = structure();
    let part = |from: usize, to: usize| structure.get(from..to).expect("part").to_vec();
    let scalars = Specialisation {
        params: vec![
            (2, 0, 7i32.to_le_bytes().to_vec()),
            (3, 0, 1.25f32.to_le_bytes().to_vec()),
        ],
        ..Specialisation::default()
    };
    let parts = Specialisation {
        // Whole members, bytes of members, and members that are loaded together with others.
        params: vec![
            (2, 1, vec![0, 0]),
            (4, 0, part(0, 4)),
            (4, 9, part(9, 16)),
            (4, 18, part(18, 20)),
        ],
        ..Specialisation::default()
    };
    let sizes = Specialisation {
        grid: Some([3, 1, 1]),
        block: Some([32, 2, 2]),
        ..Specialisation::default()
    };
    let pointers = Specialisation {
        noalias: vec![0, 1],
        align: vec![(0, 16), (1, 64)],
        ..Specialisation::default()
    };
    let all = Specialisation {
        params: vec![
            (2, 0, 7i32.to_le_bytes().to_vec()),
            (3, 0, 1.25f32.to_le_bytes().to_vec()),
            (4, 0, structure.clone()),
        ],
        grid: sizes.grid,
        block: sizes.block,
        noalias: pointers.noalias.clone(),
        align: pointers.align.clone(),
    };
    vec![
        Specialisation::default(),
        scalars,
        parts,
        sizes,
        pointers,
        all,
    ]
}

fn recipe(specialisation: Specialisation, pipeline: Pipeline, inline_functions: bool) -> Recipe {
    Recipe {
        kernel: Some("k".to_owned()),
        pipeline,
        unroll: Unroll::Free,
        inline_functions,
        specialisation,
        ..Recipe::new(Code::Ptx(KERNEL.to_owned()))
    }
}

#[test]
fn text_with_constants_leaves_the_bytes_of_the_original() {
    let launch = launch();
    let expected = common::run(KERNEL, &launch).expect("the original runs");
    for facts in facts() {
        let recipe = Recipe {
            route: Route::Text,
            kernel: Some("k".to_owned()),
            specialisation: facts.clone(),
            ..Recipe::new(Code::Ptx(KERNEL.to_owned()))
        };
        let product = compile(&recipe).unwrap_or_else(|failure| panic!("{failure}"));
        let found = common::run(&product.ptx, &launch).expect("the text runs");
        assert_eq!(found, expected, "{facts:?}\n{}", product.ptx);
    }
}

#[test]
fn specialised_code_leaves_the_bytes_of_the_original() {
    let launch = launch();
    let expected = common::run(KERNEL, &launch).expect("the original runs");
    assert_ne!(expected, launch.buffers);
    let pipelines: Vec<Pipeline> = [
        Pipeline::Nothing,
        Pipeline::Preset(Preset::O1),
        Pipeline::Preset(Preset::O3),
    ]
    .into_iter()
    .chain((100..105).map(|seed| Pipeline::Text(passes::random_pipeline(seed))))
    .collect();
    for facts in facts() {
        for pipeline in &pipelines {
            for inline in [false, true] {
                let product = compile(&recipe(facts.clone(), pipeline.clone(), inline))
                    .unwrap_or_else(|failure| panic!("{facts:?} {pipeline:?}: {failure}"));
                let found = common::run(&product.ptx, &launch).unwrap_or_else(|fault| {
                    panic!("{facts:?} {pipeline:?}: {fault}\n{}", product.ptx)
                });
                assert!(
                    found == expected,
                    "{facts:?} {pipeline:?} {inline}: other bytes\n{}",
                    product.ptx
                );
            }
        }
    }
}

#[test]
fn everything_known_leaves_neither_divisions_nor_reads_of_parameters() {
    let facts = facts().pop().expect("all of them");
    let product = compile(&recipe(facts, Pipeline::Preset(Preset::O3), true)).expect("compiled");
    let text = &product.ptx;
    assert!(
        !text.contains("%ntid") && !text.contains("%nctaid"),
        "{text}"
    );
    assert!(
        !text.contains("rem.s32") && !text.contains("div.s64"),
        "{text}"
    );
    let reads = text.matches("ld.param").count();
    assert_eq!(reads, 2, "two pointers are left\n{text}");
    assert!(
        !product
            .guards
            .iter()
            .any(|guard| matches!(guard, Guard::Param { index: 0 | 1, .. }))
    );
    assert_eq!(product.guards.len(), 9, "{:?}", product.guards);
    assert!(product.notes.is_empty(), "{:?}", product.notes);
}
