//! Workers with LLVM in them: what LLVM does to its process is one recipe's failure.

#![allow(clippy::unwrap_used, reason = "a test that is wrong stops")]

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use r3_codegen::passes::random_pipeline;
use r3_codegen::recipe::{Code, Failure, FailureKind, Pipeline, Preset, Recipe, Stage};
use r3_codegen::worker::{Limits, Pool, WorkerCommand};

/// A loop over shared memory: something for passes to do.
const LOOP: &str = r"
.version 7.8
.target sm_80
.address_size 64
.visible .entry sum(.param .u64 p, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, 0;
    mov.f32 %f1, 0f00000000;
$again:
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    add.f32 %f1, %f1, %f2;
    add.s32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra $again;
    st.global.f32 [%rd2], %f1;
    ret;
}
";

fn recipe(code: Code, pipeline: Pipeline) -> Recipe {
    Recipe {
        pipeline,
        ..Recipe::new(code)
    }
}

/// LLVM IR as text.
fn llvm(body: &str, pipeline: &str) -> Recipe {
    let text = format!("target triple = \"nvptx64-nvidia-cuda\"\n{body}");
    let pipeline = match pipeline {
        "" => Pipeline::Nothing,
        text => Pipeline::Text(text.into()),
    };
    Recipe {
        target: Some("sm_80".into()),
        ..recipe(Code::Llvm(text), pipeline)
    }
}

fn good() -> Recipe {
    recipe(Code::Ptx(LOOP.into()), Pipeline::Preset(Preset::O3))
}

/// Inlining doubles it forty times.
fn doubling() -> Recipe {
    let mut text = String::new();
    for level in 0..40 {
        let next = level + 1;
        write!(
            text,
            "define void @f{level}(ptr %p) alwaysinline {{\n call void @f{next}(ptr %p)\n call void @f{next}(ptr %p)\n ret void\n}}\n"
        )
        .unwrap();
    }
    text += "define void @f40(ptr %p) alwaysinline {\n %v = load volatile i32, ptr %p\n store volatile i32 %v, ptr %p\n ret void\n}\n\
             define ptx_kernel void @k(ptr %p) {\n call void @f0(ptr %p)\n ret void\n}\n";
    llvm(&text, "always-inline")
}

fn pool_with(change: impl FnOnce(&mut Limits)) -> Pool {
    let mut limits = Limits {
        workers: 2,
        time: Duration::from_secs(120),
        memory: 1 << 30,
        ..Limits::default()
    };
    change(&mut limits);
    let command = WorkerCommand {
        program: env!("CARGO_BIN_EXE_r3-compile-worker").into(),
        arguments: Vec::new(),
    };
    Pool::new(command, limits)
}

fn pool() -> Pool {
    pool_with(|_| {})
}

/// Compiles what fails, and then what does not.
fn fails(pool: &Pool, recipe: &Recipe) -> Failure {
    let failure = pool.compile(recipe).unwrap_err();
    let product = pool.compile(&good()).unwrap();
    assert!(product.ptx.contains(".entry sum("));
    failure
}

#[test]
fn a_kernel_is_compiled() {
    let product = pool().compile(&good()).unwrap();
    assert!(product.ptx.contains(".entry sum("), "{}", product.ptx);
    let stages: Vec<_> = product.timings.iter().map(|(stage, _)| *stage).collect();
    assert!(
        stages.contains(&Stage::Lift) && stages.contains(&Stage::Emit),
        "{stages:?}"
    );
}

#[test]
fn what_the_back_end_cannot_select_is_its_own_words() {
    // The address of a block: LLVM has no such thing for GPUs and ends the process.
    let code = "define ptx_kernel void @k(ptr %p) {\n store ptr blockaddress(@k, %b), ptr %p\n br label %b\nb:\n ret void\n}\n";
    let failure = fails(&pool(), &llvm(code, ""));
    assert_eq!(failure.kind, FailureKind::Crash, "{failure:?}");
    assert_eq!(failure.stage, Stage::Emit, "{failure:?}");
    assert!(failure.message.contains("Cannot select"), "{failure:?}");
}

#[test]
fn types_nested_beyond_the_stack_are_a_crash_of_the_parser() {
    let depth = 1_000_000;
    let (open, close) = ("[1 x ".repeat(depth), "]".repeat(depth));
    let code =
        format!("define ptx_kernel void @k() {{\n %a = alloca {open}i8{close}\n ret void\n}}\n");
    let failure = fails(&pool(), &llvm(&code, ""));
    assert_eq!(failure.kind, FailureKind::Crash, "{failure:?}");
    assert_eq!(failure.stage, Stage::Parse, "{failure:?}");
}

#[test]
fn a_pipeline_that_does_not_end_is_stopped() {
    let pool = pool_with(|limits| limits.time = Duration::from_secs(5));
    let failure = pool.compile(&doubling()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure:?}");
    assert_eq!(failure.stage, Stage::Passes, "{failure:?}");
}

#[test]
fn a_pipeline_that_takes_all_memory_is_a_failure_of_that_kind() {
    let pool = pool_with(|limits| limits.memory = 64 << 20);
    let failure = fails(&pool, &doubling());
    assert_eq!(failure.kind, FailureKind::Memory, "{failure:?}");
    assert_eq!(failure.stage, Stage::Passes, "{failure:?}");
}

#[test]
fn what_is_wrong_is_refused_and_the_worker_lives() {
    let pool = pool();
    let pass = recipe(
        Code::Ptx(LOOP.into()),
        Pipeline::Text("no-such-pass".into()),
    );
    let failure = pool.compile(&pass).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
    assert_eq!(failure.stage, Stage::Passes, "{failure:?}");
    let text = recipe(Code::Ptx("no PTX".into()), Pipeline::Nothing);
    let failure = pool.compile(&text).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Refused, "{failure:?}");
    assert_eq!(failure.stage, Stage::Parse, "{failure:?}");
    pool.compile(&good()).unwrap();
    assert_eq!(pool.started(), 1);
}

#[test]
fn each_set_of_llvm_options_works_in_its_own_process() {
    let pool = pool();
    let with = |count: u32| Recipe {
        llvm_options: vec![format!("-unroll-count={count}"), "-unroll-runtime".into()],
        ..good()
    };
    let before = pool.compile(&good()).unwrap().ptx;
    let little = pool.compile(&with(2)).unwrap().ptx;
    let much = pool.compile(&with(16)).unwrap().ptx;
    assert!(much.len() > little.len(), "{much}");
    // And leaves no trace in the others.
    assert_eq!(pool.compile(&good()).unwrap().ptx, before);
}

#[test]
fn workers_give_the_same_bytes_whatever_they_compiled_before() {
    let recipes: Vec<_> = (0..10)
        .map(|seed| {
            recipe(
                Code::Ptx(LOOP.into()),
                Pipeline::Text(random_pipeline(seed)),
            )
        })
        .collect();
    let alone: Vec<_> = recipes
        .iter()
        .map(|recipe| pool().compile(recipe).map(|product| product.ptx))
        .collect();
    let together = Arc::new(pool());
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let (pool, recipes, alone) = (together.clone(), recipes.clone(), alone.clone());
            std::thread::spawn(move || {
                for round in 0..20 {
                    // In another order in each thread.
                    let at = (round * (2 * thread + 1)) % recipes.len();
                    let now = pool.compile(&recipes[at]).map(|product| product.ptx);
                    assert_eq!(now, alone[at], "pipeline {at}");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_pools_throughput_is_measured_without_cargo() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sum.ptx");
    std::fs::write(&file, LOOP).unwrap();
    let bench = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_r3-compile-worker"));
        let output = command
            .arg("bench")
            .args(arguments)
            .arg(&file)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, line) = bench(&["--workers", "2", "--seconds", "1"]);
    assert_eq!(code, Some(0));
    assert!(line.starts_with("{\"workers\":2,"), "{line}");
    assert!(line.contains("\"failed\":{},\"started\":2,"), "{line}");
    assert_eq!(
        bench(&["--pipeline", "no-such-pass", "--seconds", "1"]).0,
        Some(2)
    );
    assert_eq!(bench(&["--workers", "0"]).0, Some(2));
}
