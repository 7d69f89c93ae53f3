//! Every kernel with PTX of the sample archives, with what the text route writes into it, on the CPU device: the same bytes
//! as the kernel's own code leaves there.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchRecord};
use r3_codegen::compile::compile;
use r3_codegen::recipe::{
    Bounds, CacheOperators, Code, LoadOperator, Recipe, Route, Specialisation, StoreOperator,
    Unroll,
};
use r3_replay::compare::Tolerances;
use r3_replay::device::BlockRange;
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::remix::origin;
use r3_replay::remix::trial::{self, Judgement, Verdict};
use r3_replay::replay::{ReplayOptions, Replayer};

/// Blocks of a large grid that run: several of them, so that what blocks do to each other is seen.
const MOST_THREADS: u64 = 1 << 12;

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

/// All bytes of all parameters, pointers too: a replay has the recorded addresses.
fn everything(ptx: &str, kernel: &str, launch: &LaunchRecord) -> Specialisation {
    let module = r3_ptx::check(&r3_ptx::parse(ptx).unwrap()).unwrap();
    let function = module
        .functions
        .iter()
        .find(|function| *function.name == *kernel)
        .unwrap();
    let params = (0u32..)
        .zip(&function.params)
        .zip(&function.param_offsets)
        .filter_map(|((index, param), offset)| {
            let from = *offset as usize;
            let bytes = launch.params.get(from..from + param.size as usize)?;
            Some((index, 0, bytes.to_vec()))
        });
    Specialisation {
        params: params.collect(),
        grid: Some(launch.grid),
        block: Some(launch.block),
        ..Specialisation::default()
    }
}

/// What is tried, by name.
fn variants(ptx: &str, kernel: &str, launch: &LaunchRecord) -> Vec<(&'static str, Recipe)> {
    let plain = Recipe {
        route: Route::Text,
        kernel: Some(kernel.to_owned()),
        ..Recipe::new(Code::Ptx(ptx.to_owned()))
    };
    let bounds = Bounds {
        maxnreg: Some(64),
        minnctapersm: Some(1),
        reqntid: Some(launch.block),
        ..Bounds::default()
    };
    let operators = CacheOperators {
        loads: Some(LoadOperator::NoAllocate),
        stores: Some(StoreOperator::Streaming),
    };
    let facts = everything(ptx, kernel, launch);
    vec![
        ("nothing", plain.clone()),
        (
            "bounds",
            Recipe {
                bounds,
                unroll: Unroll::Free,
                ..plain.clone()
            },
        ),
        (
            "constants",
            Recipe {
                specialisation: facts.clone(),
                ..plain.clone()
            },
        ),
        (
            "memory",
            Recipe {
                read_only_loads: true,
                cache_operators: operators,
                ..plain.clone()
            },
        ),
        (
            "all",
            Recipe {
                bounds,
                specialisation: facts,
                read_only_loads: true,
                cache_operators: operators,
                ..plain
            },
        ),
    ]
}

/// Tries all variants of an archive's kernels. Returns how many kernels there were.
fn check(path: &PathBuf) -> usize {
    let archive = Archive::open(path).unwrap();
    let mut seen: BTreeSet<KernelId> = BTreeSet::new();
    for head in archive.launch_heads() {
        let record = archive.kernel(head.kernel).unwrap();
        let Ok(origin) = origin::of_archive(&archive, record, 90, None) else {
            continue;
        };
        let Code::Ptx(ptx) = &origin.code else {
            continue;
        };
        if !seen.insert(record.id) {
            continue;
        }
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
        for (name, recipe) in variants(ptx, &origin.kernel, &launch) {
            let told = format!("{}, {}, {name}", path.display(), record.name);
            let product = compile(&recipe).unwrap_or_else(|failure| panic!("{told}: {failure}"));
            let code = trial::substitute(name, &product, 90, false);
            let run = trial::substituted(&archive, &mut replayer, &launch, &code, judgement, &own);
            let verdict = trial::verdict(&own.report, &run.report);
            let right = match verdict {
                Verdict::Identical | Verdict::AsOriginal => true,
                // Whose sums depend on the order of threads.
                Verdict::Within => own
                    .inexact
                    .iter()
                    .any(|why| why.what.starts_with("atom") || why.what.starts_with("red")),
                _ => false,
            };
            assert!(right, "{told}: {verdict:?} {:?}", run.report.error);
        }
    }
    seen.len()
}

#[test]
fn text_with_bounds_constants_and_hints_leaves_the_recorded_bytes() {
    let folder: PathBuf =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../capture-samples/archives").into();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "r3"))
        .collect();
    files.sort();
    let kernels: usize = files.iter().map(check).sum();
    assert!(kernels > 20, "{kernels}");
}
