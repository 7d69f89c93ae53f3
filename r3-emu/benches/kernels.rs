//! Thread instructions a second, on one core and over all. The kernels are `kernels.cu`, compiled by nvcc for sm_80.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use r3_emu::{LaunchConfig, Memory, Placement, Program, RunOptions};
use std::hint::black_box;

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f10_0000_0000;
const C: u64 = 0x7f20_0000_0000;
const BYTES: u64 = 16 << 20;

struct Kernel {
    name: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<u8>,
}

fn params(pointers: &[u64], numbers: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = pointers.iter().flat_map(|p| p.to_le_bytes()).collect();
    bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    bytes
}

fn kernels() -> Vec<Kernel> {
    let line = |n| [n, 1, 1];
    vec![
        Kernel {
            name: "saxpy",
            grid: line(64),
            block: line(256),
            params: params(&[A, B], &[0, 200]),
        },
        Kernel {
            name: "matmul",
            grid: [8, 8, 1],
            block: [16, 16, 1],
            params: params(&[A, B, C], &[128]),
        },
        Kernel {
            name: "reduce",
            grid: line(128),
            block: line(256),
            params: params(&[A, C], &[1 << 17]),
        },
        Kernel {
            name: "collatz",
            grid: line(64),
            block: line(256),
            params: params(&[C], &[0]),
        },
        Kernel {
            name: "nbody",
            grid: line(8),
            block: line(128),
            params: params(&[A, C], &[1024]),
        },
    ]
}

fn bench(c: &mut Criterion) {
    let text = include_str!("kernels.ptx");
    let tree = r3_ptx::parse(text).expect("the kernels parse");
    let module = r3_ptx::check(&tree).expect("the kernels check");
    let memory = Memory::new();
    for (i, base) in [A, B, C].into_iter().enumerate() {
        memory.map(base, BYTES).expect("room for a buffer");
        let values: Vec<u8> = (0..BYTES as u32 / 4)
            .flat_map(|n| (((n * 7 + i as u32) % 1000) as f32 / 1000.0).to_le_bytes())
            .collect();
        memory.write(base, &values).expect("a mapped buffer");
    }
    let mut place = |_: &Placement<'_>| Err("no variables".to_owned());
    let program = Program::load(&[&module], &memory, &mut place).expect("the kernels load");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut group = c.benchmark_group("kernels");
    group.sample_size(10);
    for kernel in kernels() {
        let id = program.kernel(kernel.name).expect("a kernel of the file");
        for threads in [1, cores] {
            let run = || {
                let config = LaunchConfig {
                    grid: kernel.grid,
                    block: kernel.block,
                    cluster: [1, 1, 1],
                    dynamic_shared: 0,
                    cooperative: false,
                    params: &kernel.params,
                    blocks: None,
                };
                let options = RunOptions {
                    threads,
                    racecheck: false,
                    instruction_limit: None,
                    print: &|_| (),
                    cancel: None,
                };
                program
                    .launch(id, &config, &memory, &options)
                    .unwrap_or_else(|fault| panic!("{fault}"))
            };
            let report = run();
            group.throughput(Throughput::Elements(report.thread_instructions));
            group.bench_function(BenchmarkId::new(kernel.name, threads), |b| {
                b.iter(|| black_box(run()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
