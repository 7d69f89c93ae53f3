//! Every kernel with PTX of the sample archives, compiled by many pipelines, on the CPU device: the same bytes as its
//! own code leaves there.
//!
//! One test an archive, so that they run at the same time. Workers are the program itself, as for its users.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchRecord};
use r3_codegen::passes::random_pipeline;
use r3_codegen::recipe::{Code, Pipeline, Preset, Recipe};
use r3_codegen::worker::{Limits, Pool, WorkerCommand};
use r3_replay::compare::Tolerances;
use r3_replay::device::BlockRange;
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::remix::origin::{self, Origin};
use r3_replay::remix::trial::{self, Judgement, Verdict};
use r3_replay::remix::{WORKER, compiler};
use r3_replay::replay::{ReplayOptions, Replayer};

/// Random pipelines besides LLVM's own.
const RANDOM: u64 = 20;

/// Blocks of a large grid that run: several of them, so that what blocks do to each other is seen.
const MOST_THREADS: u64 = 1 << 12;

fn folder() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives").into()
}

fn pool() -> Pool {
    let command = WorkerCommand {
        program: env!("CARGO_BIN_EXE_r3-replay").into(),
        arguments: vec![WORKER.into()],
    };
    let limits = Limits {
        workers: 1,
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    Pool::new(command, limits)
}

fn recipe(origin: &Origin, pipeline: Pipeline) -> Recipe {
    Recipe {
        kernel: Some(origin.kernel.clone()),
        pipeline,
        ..Recipe::new(origin.code.clone())
    }
}

fn pipelines() -> Vec<(String, Pipeline)> {
    let presets = [Preset::O0, Preset::O1, Preset::O2, Preset::O3, Preset::Os];
    let own = presets.map(|preset| (format!("{preset:?}"), Pipeline::Preset(preset)));
    let random = (1..=RANDOM).map(|seed| {
        let text = random_pipeline(seed);
        (format!("random {seed}: {text}"), Pipeline::Text(text))
    });
    own.into_iter().chain(random).collect()
}

/// As many blocks as are worth it; all of a grid whose blocks wait for each other.
fn blocks(launch: &LaunchRecord) -> Option<BlockRange> {
    let cluster = launch.attributes.iter().any(|attribute| attribute.id == 4);
    if launch.cooperative || cluster {
        return None;
    }
    let threads: u64 = launch.block.iter().map(|n| u64::from(*n)).product();
    let some = BlockRange {
        first: 0,
        end: (MOST_THREADS / threads.max(1)).max(3),
    };
    some.within(launch.grid)
        .filter(|some| *some != BlockRange::all(launch.grid))
}

/// Kernels that were compiled, and whether all came out as they should.
fn check(name: &str) -> usize {
    let archive = Archive::open(folder().join(format!("{name}.r3"))).unwrap();
    let mut seen: BTreeSet<KernelId> = BTreeSet::new();
    let (pool, pipelines) = (pool(), pipelines());
    let mut wrong = Vec::new();
    let mut kernels = 0;
    for head in archive.launch_heads() {
        let record = archive.kernel(head.kernel).unwrap();
        let Ok(origin) = origin::of_archive(&archive, record, 90, None) else {
            continue;
        };
        // Source needs a compiler that is not everywhere.
        if !matches!(origin.code, Code::Ptx(_)) || !seen.insert(record.id) {
            continue;
        }
        kernels += 1;
        let launch = archive.load_launch(head.id).unwrap();
        let options = CpuOptions {
            threads: 1,
            instruction_limit: Some(1 << 28),
            ..CpuOptions::default()
        };
        let mut device = CpuDevice::new(options, Box::new(|_| ()));
        let replay = ReplayOptions {
            blocks: blocks(&launch),
            ..ReplayOptions::default()
        };
        let mut replayer = Replayer::new(&archive, &mut device, replay);
        let exact = Tolerances::exact();
        let judgement = Judgement {
            tolerances: &exact,
            strict: false,
            repeat: 1,
        };
        let own = trial::original(&archive, &mut replayer, &launch, judgement);
        assert!(own.report.left.is_some(), "{name}: {:?}", own.report.error);
        for (pipeline, passes) in &pipelines {
            let told = |what: String| format!("{name}, {}, {pipeline}: {what}", record.name);
            let made = compiler::compile(&pool, &recipe(&origin, passes.clone()));
            let product = match made.result {
                Ok(product) => product,
                Err(failure) => {
                    wrong.push(told(failure.to_string()));
                    continue;
                }
            };
            let code = trial::substitute(pipeline, &product, 90, false);
            let run = trial::substituted(&archive, &mut replayer, &launch, &code, judgement, &own);
            let verdict = trial::verdict(&own.report, &run.report);
            let right = match verdict {
                // All of it as recorded, or all of it as the kernel's own code leaves it here.
                Verdict::Identical | Verdict::AsOriginal => true,
                // Whose sums depend on the order of threads.
                Verdict::Within => own
                    .inexact
                    .iter()
                    .any(|why| why.what.starts_with("atom") || why.what.starts_with("red")),
                _ => false,
            };
            if !right {
                wrong.push(told(format!(
                    "{verdict:?} {:?} {:?}",
                    run.report.error, run.report.buffers
                )));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {kernels} kernels\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    kernels
}

macro_rules! archives {
    ($($name:ident: $kernels:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                assert_eq!(check(stringify!($name)), $kernels, "kernels with PTX");
            }
        )*
        const ARCHIVES: &[&str] = &[$(stringify!($name)),*];
    };
}

archives!(
    async_alloc: 2,
    cluster: 1,
    cooperative: 1,
    driver_extra: 1,
    global_pointers: 1,
    graph: 1,
    host_mapped: 1,
    large_params: 1,
    managed: 1,
    matmul: 1,
    nbody: 1,
    nbody_ptx: 1,
    nvrtc: 1,
    pointer_chase: 1,
    printf_heap: 1,
    reduction: 2,
    saxpy: 1,
    saxpy_shared: 1,
    streams: 2,
    threads: 1,
    vmm: 1,
    wilson: 1,
    wilson_sass: 0,
);

#[test]
fn every_archive_has_its_test() {
    let there: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let archive = path.extension().is_some_and(|extension| extension == "r3");
            archive.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
        })
        .collect();
    let tested: BTreeSet<String> = ARCHIVES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(there, tested);
}
