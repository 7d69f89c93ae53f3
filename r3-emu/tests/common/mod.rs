//! Runs PTX text from parsing to the end of a launch.

#![allow(dead_code, clippy::unwrap_used, clippy::result_large_err)]

use r3_emu::{Fault, LaunchConfig, Memory, Program, Report, RunOptions};
use std::sync::Mutex;

/// A device with one buffer at [`BUFFER`].
pub struct Device {
    pub memory: Memory,
    pub program: Program,
    pub printed: Mutex<Vec<u8>>,
    pub threads: usize,
    pub racecheck: bool,
    pub limit: Option<u64>,
}

/// Where the buffer of a test is.
pub const BUFFER: u64 = 0x7f00_0000_0000;
/// Where module variables go.
const VARIABLES: u64 = 0x1000_0000;

impl Device {
    /// Loads PTX; a header is put in front when there is none.
    pub fn new(ptx: &str, buffer: &[u8]) -> Self {
        let text = match ptx.contains(".version") {
            true => ptx.to_owned(),
            false => format!(".version 8.5\n.target sm_90\n.address_size 64\n{ptx}"),
        };
        let tree = r3_ptx::parse(&text).unwrap_or_else(|e| panic!("{}", e.render(&text)));
        let module = r3_ptx::check(&tree).unwrap_or_else(|e| panic!("{}", e.render(&text)));
        let memory = Memory::new();
        if !buffer.is_empty() {
            memory.map(BUFFER, buffer.len() as u64).unwrap();
            memory.write(BUFFER, buffer).unwrap();
        }
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
        Self {
            memory,
            program,
            printed: Mutex::new(Vec::new()),
            threads: 1,
            racecheck: false,
            limit: Some(50_000_000),
        }
    }

    /// Launches a kernel whose only parameter is the buffer's address.
    pub fn launch(&self, kernel: &str, grid: u32, block: u32) -> Result<Report, Fault> {
        self.launch_with(
            kernel,
            [grid, 1, 1],
            [block, 1, 1],
            0,
            &BUFFER.to_le_bytes(),
        )
    }

    pub fn launch_with(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        params: &[u8],
    ) -> Result<Report, Fault> {
        let config = LaunchConfig {
            grid,
            block,
            cluster: [1, 1, 1],
            dynamic_shared,
            cooperative: false,
            params,
            blocks: None,
        };
        self.run(kernel, &config)
    }

    pub fn run(&self, kernel: &str, config: &LaunchConfig<'_>) -> Result<Report, Fault> {
        let print = |bytes: &[u8]| self.printed.lock().unwrap().extend_from_slice(bytes);
        let options = RunOptions {
            threads: self.threads,
            racecheck: self.racecheck,
            instruction_limit: self.limit,
            print: &print,
            cancel: None,
        };
        let kernel = self.program.kernel(kernel).expect("kernel");
        self.program.launch(kernel, config, &self.memory, &options)
    }

    pub fn words(&self, count: usize) -> Vec<u32> {
        let mut bytes = vec![0; 4 * count];
        self.memory.read(BUFFER, &mut bytes).unwrap();
        bytes
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
            .collect()
    }

    pub fn longs(&self, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; 8 * count];
        self.memory.read(BUFFER, &mut bytes).unwrap();
        bytes
            .chunks_exact(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
            .collect()
    }

    pub fn printed(&self) -> String {
        String::from_utf8(self.printed.lock().unwrap().clone()).unwrap()
    }
}

/// A kernel `k` that stores `%r0` of each thread to its word of the buffer.
pub fn per_thread(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 p) {{
            .reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %d<40>; .reg .b32 %t, %u; .reg .b64 %base, %at; .reg .f32 %f<20>;
            ld.param.u64 %base, [p];
            mov.u32 %t, %tid.x;
            mov.u32 %r38, %ctaid.x; mov.u32 %r39, %ntid.x;
            mad.lo.u32 %u, %r38, %r39, %t;
            mad.wide.u32 %at, %u, 4, %base;
            {body}
            st.global.u32 [%at], %r0;
            ret;
        }}"
    )
}

/// What each of `threads` threads of one block stores.
pub fn run_threads(body: &str, threads: u32) -> Vec<u32> {
    let device = Device::new(&per_thread(body), &vec![0; 4 * threads as usize]);
    device
        .launch("k", 1, threads)
        .unwrap_or_else(|f| panic!("{f}"));
    device.words(threads as usize)
}
