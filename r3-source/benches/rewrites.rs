//! Files with many functions: `cargo bench -p r3-source`. Ten times as many should take ten times as long.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use r3_source::region::Regions;
use r3_source::rewrite::{self, Facts, Known, Scene};
use r3_source::syntax::Unit;

/// Helpers that call each other ten deep, and a kernel that calls them all.
fn generated(functions: usize) -> String {
    let mut text = String::new();
    let mut calls = String::new();
    for number in 0..functions {
        let inner = match number % 10 {
            0 => "x * 2.0f".to_owned(),
            _ => format!("helper_{}(x)", number - 1),
        };
        _ = write!(
            text,
            "__device__ float helper_{number}(float x) {{\n    float sum = 0.0f;\n    for (int j = 0; j < 8; ++j) {{\n        \
             sum += x / 4.0f + sqrtf(x * j);\n    }}\n    return sum + {inner};\n}}\n"
        );
        _ = writeln!(calls, "        x += helper_{number}(x);");
    }
    _ = write!(
        text,
        "__global__ void k(const float *a, float *b, int n) {{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    \
         if (i < n) {{\n        float x = a[i];\n{calls}        b[i] = x;\n    }}\n}}\n"
    );
    text
}

fn facts() -> Facts {
    let pointer = |allocation| Known::Pointer {
        alignment: 256,
        bytes: 1 << 20,
        allocation,
    };
    Facts {
        block: Some([256, 1, 1]),
        grid: Some([64, 1, 1]),
        parameters: vec![pointer(1), pointer(2), Known::Integer(4096)],
        tolerant: true,
        sm: 90,
    }
}

fn many_functions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("functions");
    group.sample_size(10);
    for functions in [200, 2000] {
        let text = generated(functions);
        let Ok(unit) = Unit::parse(&text) else {
            continue;
        };
        let (Ok(kernel), Ok(regions)) = (unit.kernel("k"), Regions::of(&unit, "k", None)) else {
            continue;
        };
        let facts = facts();
        let scene = Scene {
            unit: &unit,
            kernel: &kernel,
            spans: regions.spans(),
            facts: &facts,
        };
        group.bench_function(BenchmarkId::new("parse", functions), |bencher| {
            bencher.iter(|| Unit::parse(black_box(&text)));
        });
        group.bench_function(BenchmarkId::new("region", functions), |bencher| {
            bencher.iter(|| Regions::of(black_box(&unit), "k", None));
        });
        group.bench_function(BenchmarkId::new("sites", functions), |bencher| {
            bencher.iter(|| rewrite::all_sites(black_box(&scene)));
        });
    }
    group.finish();
}

criterion_group!(benches, many_functions);
criterion_main!(benches);
