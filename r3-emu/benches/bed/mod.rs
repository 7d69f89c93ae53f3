//! The kernels that are measured, with their memory: `kernels.cu`, compiled by nvcc for sm_80.

use r3_emu::{LaunchConfig, Memory, Placement, Program, Report, RunOptions};

const A: u64 = 0x7f00_0000_0000;
const B: u64 = 0x7f10_0000_0000;
const C: u64 = 0x7f20_0000_0000;
const BYTES: u64 = 16 << 20;

/// A kernel and how it is launched.
pub struct Kernel {
    /// Its name in `kernels.cu`.
    pub name: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    params: Vec<u8>,
}

fn params(pointers: &[u64], numbers: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = pointers.iter().flat_map(|p| p.to_le_bytes()).collect();
    bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    bytes
}

/// All of them: blocks enough for 16 host threads and more.
pub fn kernels() -> Vec<Kernel> {
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
            grid: [16, 16, 1],
            block: [16, 16, 1],
            params: params(&[A, B, C], &[256]),
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
            grid: line(64),
            block: line(128),
            params: params(&[A, C], &[1024]),
        },
    ]
}

/// The kernels, loaded, and the memory that they work on.
pub struct Bed {
    memory: Memory,
    program: Program,
}

impl Bed {
    /// Loads them and fills three buffers.
    pub fn new() -> Self {
        let text = include_str!("../kernels.ptx");
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
        Self { memory, program }
    }

    /// Launches one of them once.
    pub fn run(&self, kernel: &Kernel, threads: usize) -> Report {
        let id = self
            .program
            .kernel(kernel.name)
            .expect("a kernel of the file");
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
        self.program
            .launch(id, &config, &self.memory, &options)
            .unwrap_or_else(|fault| panic!("{fault}"))
    }
}
