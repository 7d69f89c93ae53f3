//! PTX to PTX: `cargo bench -p r3-codegen --bench compile`. Whole compilations without passes and with `default<O3>`, after a table
//! of how long each stage takes (medians of 21 runs). Each file is compiled whole, with all its kernels.
//! `R3_PTX=file.ptx` adds a file of one's own; with `R3_CUBIN=1` cubins are made as well, if there is an assembler.

mod bed;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use r3_codegen::compile::compile;
use r3_codegen::recipe::{Code, Emit, Pipeline, Preset, Recipe, Stage};

/// Runs for the table.
const RUNS: usize = 21;

fn recipe(text: &str, pipeline: Pipeline) -> Recipe {
    Recipe {
        pipeline,
        emit: Emit {
            cubin: std::env::var_os("R3_CUBIN").is_some(),
            ..Emit::default()
        },
        ..Recipe::new(Code::Ptx(text.to_owned()))
    }
}

/// Median time of each stage.
fn stages(recipe: &Recipe) -> BTreeMap<Stage, Duration> {
    let mut all: BTreeMap<Stage, Vec<Duration>> = BTreeMap::new();
    for _ in 0..RUNS {
        let product = compile(recipe).expect("compiled");
        for (stage, time) in product.timings {
            all.entry(stage).or_default().push(time);
        }
    }
    all.into_iter()
        .map(|(stage, mut times)| {
            times.sort_unstable();
            (
                stage,
                times.get(times.len() / 2).copied().unwrap_or_default(),
            )
        })
        .collect()
}

fn compiling(criterion: &mut Criterion) {
    for (name, text) in bed::files() {
        let mut group = criterion.benchmark_group(&name);
        for (what, pipeline) in [
            ("no passes", Pipeline::Nothing),
            ("default<O3>", Pipeline::Preset(Preset::O3)),
        ] {
            let recipe = recipe(&text, pipeline);
            println!("{name}, {} lines, {what}:", bed::lines(&text));
            for (stage, time) in stages(&recipe) {
                let stage = format!("{stage:?}");
                println!("  {stage:<10} {:>9.3} ms", time.as_secs_f64() * 1e3);
            }
            group.bench_function(what, |bencher| {
                bencher.iter(|| black_box(compile(&recipe).expect("compiled")));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots().sample_size(20);
    targets = compiling
}
criterion_main!(benches);
