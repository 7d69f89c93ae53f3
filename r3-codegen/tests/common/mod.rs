//! Lifts PTX, prints it again, and runs both on the CPU device.

#![allow(dead_code, clippy::unwrap_used, clippy::result_large_err)]

use inkwell::context::Context;
use r3_codegen::lift::{Lifted, Options, lift};
use r3_codegen::recipe::{Pipeline, Preset};
use r3_codegen::{emit, passes};
use r3_emu::{Fault, LaunchConfig, Memory, Program, RunOptions};
use r3_ptx::typed;

/// Where the buffers of a launch begin.
pub const BUFFERS: u64 = 0x7f00_0000_0000;
/// Where module variables go.
const VARIABLES: u64 = 0x1000_0000;

/// Checked PTX. A header is put in front when there is none.
pub fn checked(ptx: &str) -> (String, typed::Module) {
    let text = with_header(ptx);
    let tree = r3_ptx::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    let module = r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(&text)));
    (text, module)
}

/// PTX with a header.
pub fn with_header(ptx: &str) -> String {
    match ptx.contains(".version") {
        true => ptx.to_owned(),
        false => format!(".version 8.5\n.target sm_90a\n.address_size 64\n{ptx}"),
    }
}

/// LLVM IR of PTX; LLVM has verified it.
pub fn ir(ptx: &str) -> String {
    let (_, module) = checked(ptx);
    let context = Context::create();
    let lifted = lifted(&context, &module);
    assert_eq!(lifted.verbatim, [], "functions that could not be lifted");
    lifted.module.print_to_string().to_string()
}

/// Lifts, and lets LLVM verify.
pub fn lifted<'ctx>(context: &'ctx Context, module: &typed::Module) -> Lifted<'ctx> {
    let options = Options {
        keep_nounroll: true,
        keep_calls: true,
        ..Options::default()
    };
    lifted_as(context, module, &options)
}

/// Lifts as options say, and lets LLVM verify.
pub fn lifted_as<'ctx>(
    context: &'ctx Context,
    module: &typed::Module,
    options: &Options,
) -> Lifted<'ctx> {
    let lifted = lift(context, module, options).unwrap_or_else(|e| panic!("{e}"));
    if let Err(message) = lifted.module.verify() {
        let text = lifted.module.print_to_string();
        panic!(
            "LLVM's verifier: {}\n{}",
            message.to_string(),
            text.to_string()
        );
    }
    lifted
}

/// The text of functions of IR, without the rest of the module.
pub fn functions(ir: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in ir.lines() {
        inside |= line.starts_with("define");
        if inside {
            text.push_str(line);
            text.push('\n');
        }
        inside &= line != "}";
    }
    text
}

/// PTX lifted, sent through a pipeline, and printed by LLVM.
pub fn relifted(ptx: &str, pipeline: &Pipeline, level: u8) -> String {
    let (text, module) = checked(ptx);
    let context = Context::create();
    let lifted = lifted(&context, &module);
    assert_eq!(lifted.verbatim, [], "functions that could not be lifted");
    print(&lifted, &text, &module, pipeline, level)
}

/// Runs a pipeline and prints PTX, with what only the original's text has.
pub fn print(
    lifted: &Lifted<'_>,
    original: &str,
    module: &typed::Module,
    pipeline: &Pipeline,
    level: u8,
) -> String {
    let cpu = module.target.first().map_or("sm_90a", String::as_str);
    let version = passes::ptx_version_for(cpu, module.version).unwrap();
    let machine = passes::machine(cpu, version, level).unwrap();
    passes::prepare(&lifted.module, &machine);
    passes::run(&lifted.module, pipeline, &machine).unwrap();
    passes::fence_contraction(&lifted.module).unwrap();
    let tree = r3_ptx::parse(original).unwrap_or_else(|e| panic!("{}", e.render(original)));
    emit::emit(lifted, &machine, &tree, module, &emit::Options::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of each.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Contents of buffers; their addresses are the first parameters.
    pub buffers: Vec<Vec<u8>>,
    /// Bytes of the parameters after them.
    pub params: Vec<u8>,
}

impl<'a> Launch<'a> {
    /// One block of threads, one buffer.
    pub fn new(kernel: &'a str, threads: u32, buffer: Vec<u8>) -> Self {
        Self {
            kernel,
            grid: [1, 1, 1],
            block: [threads, 1, 1],
            dynamic_shared: 0,
            buffers: vec![buffer],
            params: Vec::new(),
        }
    }
}

/// Runs a launch on the CPU device: the buffers afterwards.
pub fn run(ptx: &str, launch: &Launch<'_>) -> Result<Vec<Vec<u8>>, Fault> {
    let (_, module) = checked(ptx);
    let memory = Memory::new();
    let mut params = Vec::new();
    for (i, bytes) in launch.buffers.iter().enumerate() {
        let at = BUFFERS + ((i as u64) << 32);
        memory.map(at, bytes.len() as u64).unwrap();
        memory.write(at, bytes).unwrap();
        params.extend_from_slice(&at.to_le_bytes());
    }
    params.extend_from_slice(&launch.params);
    let mut next = VARIABLES;
    let program = {
        let place_memory = memory.clone();
        let mut place = |p: &r3_emu::Placement<'_>| {
            let at = next.next_multiple_of(p.align.max(16));
            next = at + p.size;
            if p.size > 0 {
                place_memory.map(at, p.size).map_err(|e| e.to_string())?;
            }
            Ok(at)
        };
        Program::load(&[&module], &memory, &mut place).unwrap()
    };
    let kernel = program.kernel(launch.kernel).expect("kernel");
    let options = RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: Some(50_000_000),
        print: &|_| {},
        cancel: None,
    };
    let config = LaunchConfig {
        grid: launch.grid,
        block: launch.block,
        cluster: [1, 1, 1],
        dynamic_shared: launch.dynamic_shared,
        cooperative: false,
        params: &params,
        blocks: None,
    };
    program.launch(kernel, &config, &memory, &options)?;
    let mut after = Vec::new();
    for (i, bytes) in launch.buffers.iter().enumerate() {
        let mut read = vec![0; bytes.len()];
        memory
            .read(BUFFERS + ((i as u64) << 32), &mut read)
            .unwrap();
        after.push(read);
    }
    Ok(after)
}

/// The pipelines that tests try: none, and LLVM's own with and without optimising code generation.
pub const PIPELINES: &[(Pipeline, u8)] = &[
    (Pipeline::Nothing, 0),
    (Pipeline::Preset(Preset::O0), 2),
    (Pipeline::Preset(Preset::O3), 3),
];

/// Checks that a kernel leaves the same bytes, lifted or not; shows the lifted text when it does not.
pub fn same_bytes(ptx: &str, launch: &Launch<'_>) {
    let expected = run(ptx, launch).unwrap_or_else(|e| panic!("the original: {e}"));
    for (pipeline, level) in PIPELINES {
        let printed = relifted(ptx, pipeline, *level);
        let found = run(&printed, launch)
            .unwrap_or_else(|e| panic!("{pipeline:?} at {level}: {e}\n{printed}"));
        for (n, (expected, found)) in expected.iter().zip(&found).enumerate() {
            let at = expected.iter().zip(found).position(|(a, b)| a != b);
            if let Some(at) = at {
                let from = at & !7;
                let end = (from + 16).min(expected.len());
                panic!(
                    "{pipeline:?} at {level}: buffer {n} differs at byte {at}: {:02x?}, not {:02x?}\n{}\n{printed}",
                    &found[from..end],
                    &expected[from..end],
                    with_header(ptx)
                );
            }
        }
    }
}

/// Words of 32 bits as bytes.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Words of 64 bits as bytes.
pub fn longs(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
