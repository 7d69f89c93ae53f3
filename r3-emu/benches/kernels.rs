//! Thread instructions a second, on one core and over all.

mod bed;

use bed::{Bed, kernels};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

fn bench(c: &mut Criterion) {
    let bed = Bed::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut group = c.benchmark_group("kernels");
    group.sample_size(10);
    for kernel in kernels() {
        for threads in [1, cores] {
            let report = bed.run(&kernel, threads);
            group.throughput(Throughput::Elements(report.thread_instructions));
            group.bench_function(BenchmarkId::new(kernel.name, threads), |b| {
                b.iter(|| black_box(bed.run(&kernel, threads)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
