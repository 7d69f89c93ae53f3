//! Reading, printing and checking: `cargo bench -p r3-ptx`. `R3_PTX=file.ptx` adds a file of one's own.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// What a compiler writes for unrolled arithmetic: about `bytes` of it.
fn generated(bytes: usize) -> String {
    let mut text = String::from(".version 8.7\n.target sm_90\n.address_size 64\n\n");
    let mut kernel = 0;
    while text.len() < bytes {
        _ = write!(
            text,
            "\t// .globl\tkernel_{kernel}\n.visible .entry kernel_{kernel}(\n\t.param .u64 .ptr .align 1 kernel_{kernel}_param_0,\n\t\
             .param .u32 kernel_{kernel}_param_1\n)\n.maxntid 256\n{{\n\t.reg .pred \t%p<200>;\n\t.reg .b32 \t%r<3000>;\n\t\
             .reg .f32 \t%f<3000>;\n\t.reg .b64 \t%rd<2000>;\n\n\tld.param.u64 \t%rd1, [kernel_{kernel}_param_0];\n\t\
             mov.u32 \t%r1, %tid.x;\n"
        );
        for i in 2..1500 {
            _ = write!(
                text,
                "$L__BB{kernel}_{i}:\n\tmul.wide.s32 \t%rd{}, %r{}, 4;\n\tadd.s64 \t%rd{}, %rd1, %rd{};\n\t\
                 ld.global.nc.f32 \t%f{}, [%rd{}+{}];\n\tfma.rn.f32 \t%f{}, %f{}, 0f3F800000, %f{};\n\t\
                 setp.lt.s32 \t%p{}, %r{}, {};\n\t@%p{} bra \t$L__BB{kernel}_{i};\n\
                 \tmov.b64 \t%rd{}, {{%r{}, %r{}}};\n\tst.global.v2.f32 \t[%rd{}], {{%f{}, %f{}}};\n\n",
                i,
                i,
                i,
                i,
                i,
                i,
                i * 4,
                i + 1,
                i,
                i,
                i % 200,
                i,
                i * 3,
                i % 200,
                i,
                i,
                i + 1,
                i,
                i,
                i
            );
        }
        text.push_str("\tret;\n\n}\n");
        kernel += 1;
    }
    text
}

fn parse(criterion: &mut Criterion) {
    let mut files = vec![
        ("generated 25 MB".to_string(), generated(25_000_000)),
        (
            "compiler output".to_string(),
            include_str!("../tests/fixtures/mma.ptx").to_string(),
        ),
    ];
    if let Ok(path) = std::env::var("R3_PTX")
        && let Ok(text) = std::fs::read_to_string(&path)
    {
        files.push((path, text));
    }
    for (name, text) in &files {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.sample_size(10);
        group.bench_function("parse", |bencher| {
            bencher.iter(|| black_box(r3_ptx::parse(black_box(text))));
        });
        if let Ok(module) = r3_ptx::parse(text) {
            group.bench_function("print", |bencher| {
                bencher.iter(|| black_box(module.to_string()));
            });
            if r3_ptx::check(&module).is_ok() {
                group.bench_function("check", |bencher| {
                    bencher.iter(|| black_box(r3_ptx::check(black_box(&module))));
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, parse);
criterion_main!(benches);
