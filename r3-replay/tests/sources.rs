//! Sources as candidates, on the CPU device: the samples' own files, compiled by us, must be the captured kernels.
//!
//! clang compiles them with R3's own declarations, as on a machine without a toolkit.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use r3_codegen::recipe::Compiler;
use r3_codegen::worker::WorkerCommand;
use r3_replay::evaluate::candidate::{Candidate, CandidateCode, SourceCode};
use r3_replay::evaluate::evaluator::{
    DeviceChoice, Evaluator, EvaluatorOptions, JobId, JobState, Priority, Request, Workers,
};
use r3_replay::evaluate::worker::DEVICE_WORKER;
use r3_replay::evaluate::{Outcome, Plan, Verdict};

fn samples() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture-samples");
    folder.canonicalize().unwrap()
}

fn evaluator() -> Evaluator {
    let worker = |argument: &str| WorkerCommand {
        program: env!("CARGO_BIN_EXE_r3-replay").into(),
        arguments: vec![argument.into()],
    };
    let mut options = EvaluatorOptions {
        devices: vec![DeviceChoice::Cpu(90)],
        workers: Some(Workers {
            device: worker(DEVICE_WORKER),
            compile: worker(r3_replay::remix::WORKER),
        }),
        ..EvaluatorOptions::default()
    };
    options.compile.workers = 2;
    options.compile.time = Duration::from_secs(300);
    options.compile.stage_time = None;
    Evaluator::new(options).unwrap()
}

/// The file of a sample's program.
fn of_sample(program: &str) -> SourceCode {
    let folder = samples().join("programs");
    let name = format!("{program}.cu");
    SourceCode {
        text: std::fs::read_to_string(folder.join(&name)).unwrap(),
        name,
        compiler: Compiler::Clang,
        options: vec!["--cuda-path=none".to_owned()],
        directory: Some(folder.display().to_string()),
        ..SourceCode::default()
    }
}

fn submit(evaluator: &Evaluator, sample: &str, kernel: &str, source: SourceCode) -> JobId {
    let archive = samples().join("archives").join(format!("{sample}.r3"));
    let request = Request {
        archive: evaluator.open(&archive).unwrap(),
        kernel: kernel.to_owned(),
        candidate: Candidate {
            code: CandidateCode::Source(source),
            ..Candidate::default()
        },
        plan: Plan::default(),
        priority: Priority(0),
    };
    evaluator.submit(request).unwrap()
}

fn outcomes(evaluator: &Evaluator, jobs: &[JobId]) -> BTreeMap<JobId, Outcome> {
    let mut found = BTreeMap::new();
    let mut events = evaluator.events(0);
    let until = Instant::now() + Duration::from_secs(600);
    while found.len() < jobs.len() {
        let left = until.saturating_duration_since(Instant::now());
        let event = events.next_within(left).expect("an outcome is missing");
        if let JobState::Done(outcome) = event.state
            && jobs.contains(&event.job)
        {
            found.insert(event.job, *outcome);
        }
    }
    found
}

#[test]
fn unchanged_sources_of_the_samples_are_right_on_all_launches() {
    let evaluator = evaluator();
    // Other samples use headers of a toolkit (cooperative groups), or more of the runtime than is declared here; that
    // of `wilson_sass` has no code that this device runs.
    let kernels = [
        ("wilson", "wilson", "dslash"),
        ("nbody", "nbody", "step"),
        ("nbody_ptx", "nbody", "step"),
        ("saxpy", "saxpy", "saxpy"),
        ("reduction", "reduction", "block_sums"),
        ("reduction", "reduction", "scatter"),
        ("matmul", "matmul", "matmul"),
        ("pointer_chase", "pointer_chase", "chase"),
        ("global_pointers", "global_pointers", "gather"),
        ("large_params", "large_params", "evaluate"),
        ("managed", "managed", "advance"),
        ("threads", "threads", "churn"),
    ];
    let jobs: Vec<JobId> = kernels
        .iter()
        .map(|(sample, program, kernel)| submit(&evaluator, sample, kernel, of_sample(program)))
        .collect();
    let outcomes = outcomes(&evaluator, &jobs);
    for (job, kernel) in jobs.iter().zip(kernels) {
        let outcome = &outcomes[job];
        assert_eq!(outcome.verdict, Verdict::Right, "{kernel:?}: {outcome:#?}");
        let by = |note: &String| note.starts_with("compiled by clang");
        assert!(outcome.notes.iter().any(by), "{kernel:?}: {outcome:#?}");
    }
}

fn saxpy(change: impl FnOnce(String) -> String) -> SourceCode {
    let source = of_sample("saxpy");
    SourceCode {
        text: change(source.text),
        ..source
    }
}

#[test]
fn the_kernel_is_found_by_what_is_left_of_its_name_and_must_take_the_captured_parameters() {
    let evaluator = evaluator();
    let heads = "__global__ void saxpy(int n, int which, const float *x, float *y) {";
    let with = |head: &'static str| saxpy(move |text| text.replace(heads, head));
    let cases = [
        // Another mangled name, each time.
        (
            with(
                "__global__ void saxpy(const int n, int which, const float *x, const float *y_) {\n    float *y = const_cast<float *>(y_);",
            ),
            Ok(()),
        ),
        (
            with("static __global__ void saxpy(int n, int which, const float *x, float *y) {"),
            Ok(()),
        ),
        (
            with(
                "extern \"C\" __global__ void saxpy(int n, int which, const float *x, float *y) {",
            ),
            Ok(()),
        ),
        (
            with(
                "__global__ void saxpy(int n, int which, const float *x, float *y, int more = 0) {",
            ),
            Err("4  4 bytes at 24         none  <"),
        ),
        (
            with("__global__ void saxpy(long n, int which, const float *x, float *y) {"),
            Err(
                "parameter 0 is at 0 with 8 bytes here, and at 0 with 4 bytes in the captured kernel",
            ),
        ),
        (
            saxpy(|text| {
                text.replace("saxpy(int", "axpy(int")
                    .replace("saxpy<<<", "axpy<<<")
            }),
            Err(
                "no kernel saxpy(int, int, float const*, float*): it has axpy(int, int, float const*, float*)",
            ),
        ),
        (
            SourceCode {
                kernel: Some("axpy".to_owned()),
                ..saxpy(|text| {
                    text.replace("saxpy(int", "axpy(int")
                        .replace("saxpy<<<", "axpy<<<")
                })
            },
            Ok(()),
        ),
        (
            saxpy(|text| text.replace("int main", "__global__ void broken() { x = 1; }\nint main")),
            Err("use of undeclared identifier 'x'"),
        ),
    ];
    let jobs: Vec<JobId> = cases
        .iter()
        .map(|(source, _)| submit(&evaluator, "saxpy", "saxpy", source.clone()))
        .collect();
    let outcomes = outcomes(&evaluator, &jobs);
    for (job, (source, expected)) in jobs.iter().zip(&cases) {
        let outcome = &outcomes[job];
        let said = outcome.reason.clone().unwrap_or_default();
        match expected {
            Ok(()) => assert_eq!(outcome.verdict, Verdict::Right, "{said}\n{}", source.text),
            Err(part) => {
                assert_eq!(outcome.verdict, Verdict::NoCode, "{said}");
                assert!(said.contains(part), "{said}");
            }
        }
    }
}

#[test]
fn instances_of_templates_are_made_where_no_host_code_uses_them() {
    let evaluator = evaluator();
    let whole = of_sample("matmul");
    let cut = whole.text.find("int main").unwrap();
    let alone = SourceCode {
        text: whole.text[..cut].to_owned(),
        ..whole
    };
    let named = SourceCode {
        instances: vec!["linear::matmul<float, 64, 128>".to_owned()],
        ..alone.clone()
    };
    let jobs = [
        submit(&evaluator, "matmul", "matmul", alone),
        submit(&evaluator, "matmul", "matmul", named),
    ];
    let outcomes = outcomes(&evaluator, &jobs);
    let [without, with] = jobs.map(|job| outcomes[&job].clone());
    assert_eq!(without.verdict, Verdict::NoCode, "{without:#?}");
    let said = without.reason.unwrap_or_default();
    assert!(
        said.contains("An instance of a template must be named"),
        "{said}"
    );
    assert_eq!(with.verdict, Verdict::Right, "{with:#?}");
}
