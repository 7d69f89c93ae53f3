//! A kernel on the CPU device: as it is, and lifted, optimised and printed again.

use inkwell::context::Context;
use inkwell::targets::FileType;
use r3_codegen::lift::{self, Options};
use r3_codegen::passes;
use r3_codegen::recipe::{Pipeline, Preset};
use r3_emu::{LaunchConfig, Memory, Program, RunOptions};

/// Threads of a launch: one block.
pub const THREADS: usize = 1024;

/// What lifting made of a text.
pub struct Lifted {
    /// PTX again.
    pub ptx: String,
    /// IR before code generation.
    pub llvm: String,
    /// Instructions that became inline assembly.
    pub assembly: Vec<String>,
}

/// Lifts PTX, runs a preset, prints PTX. An error is text with the kernel.
pub fn lift(ptx: &str, preset: Preset, level: u8) -> Result<Lifted, String> {
    let tree = r3_ptx::parse(ptx).map_err(|e| e.render(ptx))?;
    let module = r3_ptx::check(&tree).map_err(|e| e.render(ptx))?;
    let context = Context::create();
    let lifted = lift::lift(&context, &module, &Options::default())
        .map_err(|error| format!("{error}\n{ptx}"))?;
    if !lifted.verbatim.is_empty() {
        return Err(format!("{:?}\n{ptx}", lifted.verbatim));
    }
    let machine = passes::machine("sm_90", (8, 6), level).expect("machine");
    passes::prepare(&lifted.module, &machine);
    if let Err(error) = lifted.module.verify() {
        let error = error.to_string();
        return Err(format!("{error}\n{}", lifted.module.print_to_string()));
    }
    passes::run(&lifted.module, &Pipeline::Preset(preset), &machine).expect("passes");
    passes::fence_contraction(&lifted.module).expect("fence");
    let llvm = lifted.module.print_to_string().to_string();
    let text = machine
        .write_to_memory_buffer(&lifted.module, FileType::Assembly)
        .expect("PTX");
    let text = text.as_slice();
    let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
    Ok(Lifted {
        ptx: String::from_utf8_lossy(&text[..end]).into_owned(),
        llvm,
        assembly: lifted.assembly.keys().cloned().collect(),
    })
}

/// Runs kernel `k` of a text on one block, with the addresses of `input` and of `output` bytes; returns those.
pub fn run(ptx: &str, input: &[u8], output: usize, threads: usize) -> Result<Vec<u8>, String> {
    const INPUT: u64 = 0x7f00_0000_0000;
    const OUTPUT: u64 = 0x7e00_0000_0000;
    let tree = r3_ptx::parse(ptx).map_err(|e| format!("{}\n{ptx}", e.render(ptx)))?;
    let module = r3_ptx::check(&tree).map_err(|e| format!("{}\n{ptx}", e.render(ptx)))?;
    let memory = Memory::new();
    memory.map(INPUT, input.len().max(1) as u64).expect("map");
    memory.write(INPUT, input).expect("write");
    memory.map(OUTPUT, output.max(1) as u64).expect("map");
    let mut place = |_: &r3_emu::Placement<'_>| Err("no variables".to_owned());
    let program = Program::load(&[&module], &memory, &mut place).expect("load");
    let params: Vec<u8> = [INPUT, OUTPUT]
        .iter()
        .flat_map(|a| a.to_le_bytes())
        .collect();
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [threads as u32, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        params: &params,
        blocks: None,
    };
    let options = RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: Some(1_000_000_000),
        print: &|_| (),
        cancel: None,
    };
    let kernel = program.kernel("k").expect("kernel");
    program
        .launch(kernel, &config, &memory, &options)
        .map_err(|fault| format!("{fault}\n{ptx}"))?;
    let mut bytes = vec![0; output];
    memory.read(OUTPUT, &mut bytes).expect("read");
    Ok(bytes)
}
