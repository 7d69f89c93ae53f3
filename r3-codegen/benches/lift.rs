//! PTX to LLVM IR, without passes: `cargo bench -p r3-codegen --bench lift`. One element is one line of PTX that is not
//! empty; parsing, checking and lifting are measured apart. `R3_PTX=file.ptx` adds a file of one's own.

mod bed;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use inkwell::context::Context;
use r3_codegen::lift::{Options, lift};
use r3_codegen::passes;
use r3_ptx::{tree, typed};

/// The parsed text.
fn parsed(text: &str) -> tree::Module {
    r3_ptx::parse(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)))
}

/// The checked module.
fn checked(tree: &tree::Module, text: &str) -> typed::Module {
    r3_ptx::check(tree).unwrap_or_else(|errors| panic!("{}", errors.render(text)))
}

fn lifting(criterion: &mut Criterion) {
    passes::initialise().expect("LLVM");
    let options = Options {
        keep_nounroll: true,
        keep_calls: true,
        ..Options::default()
    };
    for (name, text) in bed::files() {
        let tree = parsed(&text);
        let module = checked(&tree, &text);
        {
            let context = Context::create();
            let lifted = lift(&context, &module, &options).expect("lifted");
            let assembly: u64 = lifted.assembly.values().sum();
            println!(
                "{name}: {} lines; {} instructions as IR, {assembly} as inline assembly, {} functions as text",
                bed::lines(&text),
                lifted.natively,
                lifted.verbatim.len()
            );
        }
        let mut group = criterion.benchmark_group(&name);
        group.throughput(Throughput::Elements(bed::lines(&text)));
        group.bench_function("parse", |bencher| {
            bencher.iter(|| black_box(parsed(&text)));
        });
        group.bench_function("check", |bencher| {
            bencher.iter(|| black_box(checked(&tree, &text)));
        });
        group.bench_function("lift", |bencher| {
            bencher.iter(|| {
                let context = Context::create();
                black_box(lift(&context, &module, &options).expect("lifted"));
            });
        });
        group.bench_function("parse, check and lift", |bencher| {
            bencher.iter(|| {
                let tree = parsed(&text);
                let module = checked(&tree, &text);
                let context = Context::create();
                black_box(lift(&context, &module, &options).expect("lifted"));
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().without_plots();
    targets = lifting
}
criterion_main!(benches);
