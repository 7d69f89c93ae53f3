//! Candidates per second of a pool of workers: `cargo bench -p r3-codegen --bench pool`.
//!
//! One, two, four … workers up to the number of CPUs, `default<O3>` over small kernels, as far as PTX and as far as a cubin
//! by each assembler that is there. `R3_PTX=file.ptx` takes a file of one's own, `R3_SECONDS` another time for each line.
//! Without cargo: `r3-compile-worker bench`.

use std::time::Duration;

use r3_codegen::assemble::assemble;
use r3_codegen::recipe::{
    Assembler, AssemblerKind, Code, Emit, FailureKind, Pipeline, Preset, Recipe,
};
use r3_codegen::worker::{Limits, Pool, WorkerCommand, throughput};

/// `y[i] += a * x[i]`.
const SAXPY: &str = r"
.version 7.8
.target sm_80
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra $done;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r1, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f4;
$done:
    ret;
}
";

fn main() {
    let text = match std::env::var_os("R3_PTX") {
        Some(file) => std::fs::read_to_string(file).expect("the file of R3_PTX"),
        None => SAXPY.to_owned(),
    };
    let seconds = std::env::var("R3_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(5));

    let mut ways = vec![("PTX", None)];
    for (name, kind) in [
        ("cubin by ptxas", AssemblerKind::Ptxas),
        ("cubin by nvJitLink", AssemblerKind::NvJitLink),
    ] {
        let assembler = Assembler {
            kind,
            ..Assembler::default()
        };
        match assemble(SAXPY, "sm_80", &assembler) {
            Err(failure) if failure.kind == FailureKind::MissingTool => {
                println!("{name}: left out, {}", failure.message);
            }
            _ => ways.push((name, Some(assembler))),
        }
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2))
        .take_while(|&n| n < cpus)
        .collect();
    counts.push(cpus);

    println!("default<O3>, candidates per second");
    for (name, assembler) in ways {
        for &workers in &counts {
            let command = WorkerCommand {
                program: env!("CARGO_BIN_EXE_r3-compile-worker").into(),
                arguments: Vec::new(),
            };
            let limits = Limits {
                workers,
                ..Limits::default()
            };
            let pool = Pool::new(command, limits);
            let recipe = recipe(&text, assembler.clone());
            let found = throughput(&pool, time, |_| recipe.clone());
            let failed = match found.failed.values().sum::<u64>() {
                0 => String::new(),
                failed => format!("   {failed} failed: {:?}", found.failed),
            };
            println!(
                "{name:20} {workers:3} workers {:9.1}/s{failed}",
                found.per_second()
            );
        }
    }
}

fn recipe(text: &str, assembler: Option<Assembler>) -> Recipe {
    Recipe {
        pipeline: Pipeline::Preset(Preset::O3),
        emit: Emit {
            cubin: assembler.is_some(),
            ..Emit::default()
        },
        assembler: assembler.unwrap_or_default(),
        ..Recipe::new(Code::Ptx(text.to_owned()))
    }
}
