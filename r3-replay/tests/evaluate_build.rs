//! Candidates as recipes: what is refused before anything is compiled, and what a recipe takes over.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use r3_archive::Archive;
use r3_archive::model::{LaunchAttribute, LaunchRecord};
use r3_codegen::recipe::{Bounds, Pipeline, Recipe};
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::evaluate::Verdict;
use r3_replay::evaluate::build::limits::{Known, check};
use r3_replay::evaluate::build::{Built, BuiltCode, Refusal, Subject};
use r3_replay::evaluate::candidate::{Candidate, CandidateCode};
use r3_replay::evaluate::describe::{DeviceDescription, describe};
use r3_replay::evaluate::engine::shape::shape;
use r3_replay::evaluate::plan::{Plan, Weighted};

fn archive(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives");
    PathBuf::from(folder).join(format!("{name}.r3"))
}

/// The first kernel of a sample, and a plan with all of its launches.
fn subject(name: &str) -> (Subject, Plan) {
    let archive = Arc::new(Archive::open(archive(name)).unwrap());
    let kernel = archive.launch_heads()[0].kernel;
    let mut device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
    let description = describe(&archive, kernel, &mut device).unwrap();
    let subject = Subject::new(archive, kernel, Arc::new(description)).unwrap();
    let launches = subject.launches().map(|launch| Weighted {
        launch: launch.id,
        weight: 1.0,
    });
    let plan = Plan {
        launches: launches.collect(),
        ..Plan::default()
    };
    (subject, plan)
}

fn candidate(text: &str) -> Candidate {
    serde_json::from_str(text).unwrap()
}

fn build(name: &str, text: &str) -> Result<Built, Refusal> {
    let (subject, plan) = subject(name);
    subject.build(&candidate(text), &plan)
}

fn recipe(built: &Built) -> &Recipe {
    match &built.code {
        BuiltCode::Recipe(recipe, _) => recipe,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_left_out_is_as_in_the_original() {
    let built = build("saxpy", r#"{"code": {"captured": {}}}"#).unwrap();
    let recipe = recipe(&built);
    assert_eq!(recipe.pipeline, Pipeline::Nothing);
    assert_eq!(recipe.bounds, Bounds::default());
    assert!(recipe.specialisation.params.is_empty());
    assert!(!recipe.emit.cubin, "the CPU device runs PTX");
    let [first, ..] = built.shapes.as_slice() else {
        panic!("{built:?}");
    };
    assert_eq!((first.1.grid, first.1.block), ([79, 1, 1], [128, 1, 1]));
}

#[test]
fn scalars_become_constants_only_where_all_tuned_launches_agree() {
    // Its launches differ in parameter 1 alone.
    let all = build(
        "saxpy",
        r#"{"code": {"captured": {}}, "build": {"specialise": ["scalars"]}}"#,
    )
    .unwrap();
    let params = |built: &Built| -> Vec<u32> {
        let params = recipe(built).specialisation.params.iter();
        params.map(|(index, _, _)| *index).collect()
    };
    assert_eq!(params(&all), [0]);
    let named = build(
        "saxpy",
        r#"{"code": {"captured": {}}, "build": {"specialise": ["param:0", "param:1"]}}"#,
    )
    .unwrap();
    assert_eq!(params(&named), [0]);
    assert_eq!(
        named.notes,
        ["no constant, since launches differ in it: parameter 1"]
    );
    let (subject, mut plan) = subject("saxpy");
    plan.launches.truncate(1);
    let text = r#"{"code": {"captured": {}}, "build": {"specialise": ["scalars"]}}"#;
    assert_eq!(
        params(&subject.build(&candidate(text), &plan).unwrap()),
        [0, 1]
    );
}

#[test]
fn constants_of_grid_and_block_are_those_of_the_changed_launch() {
    let built = build(
        "saxpy",
        r#"{"code": {"captured": {}}, "build": {"specialise": ["grid", "block"]}, "launch": {"block": [64, 1, 1]}}"#,
    )
    .unwrap();
    let facts = &recipe(&built).specialisation;
    assert_eq!(facts.block, Some([64, 1, 1]));
    assert_eq!(facts.grid, Some([158, 1, 1]));
}

#[test]
fn bounds_of_the_code_give_way_to_a_larger_block() {
    let (subject, plan) = subject("saxpy");
    let name = &subject.kernel().name;
    let text = |directive: &str| {
        format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry {name}(.param .u32 a, .param .u32 b, \
             .param .u64 c, .param .u64 d)\n{directive}\n{{\nret;\n}}\n"
        )
    };
    let built = |directive: &str, block: u32| {
        let mut candidate = Candidate {
            code: CandidateCode::Ptx(text(directive)),
            ..Candidate::default()
        };
        candidate.launch.block = Some([block, 1, 1]);
        subject.build(&candidate, &plan).unwrap()
    };
    let bounds = |directive, block| recipe(&built(directive, block)).bounds;
    assert_eq!(bounds(".maxntid 128, 1, 1", 128), Bounds::default());
    assert_eq!(bounds(".maxntid 128, 1, 1", 64), Bounds::default());
    assert_eq!(bounds(".maxntid 128, 1, 1", 256).maxntid, Some(256));
    assert_eq!(bounds(".reqntid 128, 1, 1", 128), Bounds::default());
    assert_eq!(bounds(".reqntid 128, 1, 1", 64).reqntid, Some([64, 1, 1]));
    assert_eq!(built(".maxntid 128, 1, 1", 256).notes.len(), 1);
}

#[test]
fn what_cannot_be_or_would_have_no_effect_is_refused_with_the_reason() {
    for (text, verdict, told) in [
        (
            r#"{"build": {"passes": "default<O3>"}}"#,
            Verdict::Refused,
            "the recorded code is not compiled",
        ),
        (
            r#"{"code": {"captured": {}}, "build": {"passes": "default<O3>"}}"#,
            Verdict::Refused,
            "a pipeline of passes is for the route through LLVM",
        ),
        (
            r#"{"code": {"captured": {}}, "build": {"specialise": ["colour"]}}"#,
            Verdict::Refused,
            "`colour` is no fact",
        ),
        (
            r#"{"code": {"captured": {}}, "build": {"specialise": ["param:9"]}}"#,
            Verdict::Refused,
            "has 4 parameters",
        ),
        (
            r#"{"code": {"captured": {"from": "lto"}}}"#,
            Verdict::NoCode,
            "in this form",
        ),
        (
            r#"{"launch": {"block": [1024, 2, 1]}}"#,
            Verdict::Refused,
            "2048 threads",
        ),
        (
            r#"{"launch": {"block": [0, 1, 1]}}"#,
            Verdict::Refused,
            "0 threads",
        ),
        (
            r#"{"launch": {"grid": ["same", {"blocks": 70000}, "same"]}}"#,
            Verdict::Refused,
            "70000 blocks in y",
        ),
        (
            r#"{"code": {"cubin": "AAAA"}}"#,
            Verdict::CannotRun,
            "runs no machine code",
        ),
    ] {
        let refusal = build("saxpy", text).map(|_| ()).unwrap_err();
        assert_eq!(refusal.verdict, verdict, "{text}: {}", refusal.reason);
        assert!(refusal.reason.contains(told), "{text}: {}", refusal.reason);
    }
    // PTX of a kernel with this name and other parameters.
    let (subject, plan) = subject("saxpy");
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry {}(.param .u32 a)\n{{\nret;\n}}\n",
        subject.kernel().name
    );
    let other = Candidate {
        code: CandidateCode::Ptx(text),
        ..Candidate::default()
    };
    let refusal = subject.build(&other, &plan).map(|_| ()).unwrap_err();
    assert_eq!(refusal.verdict, Verdict::NoCode);
    assert!(
        refusal.reason.contains("another kernel"),
        "{}",
        refusal.reason
    );
}

/// Limits of an H200, from its `cudaDeviceProp`.
fn h200() -> DeviceDescription {
    DeviceDescription {
        sm: 90,
        multiprocessors: 132,
        max_threads_per_block: 1024,
        max_threads_per_multiprocessor: 2048,
        registers_per_multiprocessor: 65536,
        max_shared_per_block: 232_448,
        ..DeviceDescription::default()
    }
}

fn launch(name: &str) -> LaunchRecord {
    let archive = Archive::open(archive(name)).unwrap();
    archive.launch_heads()[0].clone()
}

fn checked(launch: &LaunchRecord, change: &str, known: Known) -> Result<(), String> {
    let change = serde_json::from_str(change).unwrap();
    check(launch, &shape(launch, &change).unwrap(), &known, &h200())
}

#[test]
fn registers_limit_the_block_as_they_do_on_a_gpu() {
    let saxpy = launch("saxpy");
    let with = |registers| Known {
        registers: Some(registers),
        ..Known::default()
    };
    // A block of 1,024 threads with 95 registers was refused by an H200 (error 701); 64 are what there is.
    let block = r#"{"block": [1024, 1, 1]}"#;
    assert!(checked(&saxpy, block, with(64)).is_ok());
    let refused = checked(&saxpy, block, with(95)).unwrap_err();
    assert!(refused.contains("95 registers"), "{refused}");
    assert!(checked(&saxpy, r#"{"block": [640, 1, 1]}"#, with(95)).is_ok());
    assert!(checked(&saxpy, r#"{"block": [256, 1, 1]}"#, with(255)).is_ok());
}

#[test]
fn static_and_dynamic_shared_memory_count_together() {
    let saxpy = launch("saxpy");
    let known = Known {
        static_shared: Some(1024),
        ..Known::default()
    };
    assert!(checked(&saxpy, r#"{"shared": {"bytes": 231424}}"#, known).is_ok());
    let refused = checked(&saxpy, r#"{"shared": {"bytes": 231425}}"#, known).unwrap_err();
    assert!(refused.contains("232449 bytes"), "{refused}");
}

#[test]
fn clusters_divide_the_grid_and_cooperative_blocks_fit_at_once() {
    let mut clustered = launch("cluster");
    let cluster = [2u32, 1, 1].map(u32::to_le_bytes).concat();
    clustered.attributes = vec![LaunchAttribute {
        id: 4,
        value: [cluster, vec![0; 52]].concat(),
    }];
    let known = Known::default();
    assert!(checked(&clustered, "{}", known).is_ok());
    let odd = checked(
        &clustered,
        r#"{"grid": [{"blocks": 7}, "same", "same"]}"#,
        known,
    );
    assert!(odd.unwrap_err().contains("clusters of 2"));
    let cooperative = launch("cooperative");
    assert!(cooperative.cooperative);
    let many = checked(
        &cooperative,
        r#"{"grid": [{"blocks": 2113}, "same", "same"]}"#,
        known,
    );
    // 2,048 threads are 16 blocks of 128: 132 × 16 = 2,112.
    assert!(many.unwrap_err().contains("2112 at most"));
    let most = r#"{"grid": [{"blocks": 2112}, "same", "same"]}"#;
    assert!(checked(&cooperative, most, known).is_ok());
}

#[test]
fn a_block_that_the_code_does_not_take_is_refused() {
    let saxpy = launch("saxpy");
    let bounded = Known {
        max_threads: Some(128),
        ..Known::default()
    };
    assert!(checked(&saxpy, "{}", bounded).is_ok());
    assert!(checked(&saxpy, r#"{"block": [256, 1, 1]}"#, bounded).is_err());
    let exact = Known {
        required_block: Some([128, 1, 1]),
        ..Known::default()
    };
    assert!(checked(&saxpy, "{}", exact).is_ok());
    assert!(checked(&saxpy, r#"{"block": [64, 1, 1]}"#, exact).is_err());
}
