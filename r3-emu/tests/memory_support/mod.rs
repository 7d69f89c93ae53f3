//! Runs PTX text on buffers at known addresses.
#![allow(dead_code)]

use r3_emu::{Fault, FaultKind, LaunchConfig, Memory, Placement, Program, Report, RunOptions};

/// Address of buffer `i`; there is a hole behind each.
pub fn address(i: usize) -> u64 {
    0x7f00_0000_0000 + 0x100_0000 * i as u64
}

/// A launch to be.
pub struct Run {
    ptx: String,
    pub memory: Memory,
    buffers: Vec<usize>,
    pub grid: u32,
    pub block: u32,
    pub cluster: u32,
    pub dynamic_shared: u32,
    pub racecheck: bool,
    pub threads: usize,
    extra: Vec<u8>,
}

impl Run {
    /// A kernel with the given body. `%a0`, `%a1` … are the addresses of the buffers, `%t` is `%tid.x`; `%r<32>`, `%rd<32>`,
    /// `%f<16>`, `%d<8>`, `%h<16>`, `%q<8>` (128 bits) and `%p<8>` are free.
    pub fn new(body: &str) -> Self {
        Self::with("", body)
    }

    /// The same with something in front of the kernel.
    pub fn with(front: &str, body: &str) -> Self {
        Self::of(format!("{front}@@{body}"))
    }

    fn of(ptx: String) -> Self {
        Self {
            ptx,
            memory: Memory::new(),
            buffers: Vec::new(),
            grid: 1,
            block: 32,
            cluster: 1,
            dynamic_shared: 0,
            racecheck: false,
            threads: 1,
            extra: Vec::new(),
        }
    }

    pub fn block(mut self, threads: u32) -> Self {
        self.block = threads;
        self
    }

    pub fn grid(mut self, blocks: u32) -> Self {
        self.grid = blocks;
        self
    }

    pub fn cluster(mut self, blocks: u32) -> Self {
        self.cluster = blocks;
        self
    }

    pub fn racecheck(mut self) -> Self {
        self.racecheck = true;
        self
    }

    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Adds 128 bytes behind the pointers, aligned to 64: parameter `map`.
    pub fn extra(mut self, bytes: &[u8]) -> Self {
        self.extra = bytes.to_vec();
        self
    }

    /// Adds a buffer.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let at = address(self.buffers.len());
        self.memory.map(at, bytes.len() as u64).expect("maps");
        self.memory.write(at, bytes).expect("writes");
        self.buffers.push(bytes.len());
        self
    }

    /// Adds a buffer of words.
    pub fn words(self, words: &[u32]) -> Self {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.bytes(&bytes)
    }

    /// Adds a buffer of zeros.
    pub fn zeros(self, bytes: usize) -> Self {
        self.bytes(&vec![0; bytes])
    }

    fn text(&self) -> String {
        let (front, body) = self.ptx.split_once("@@").expect("one");
        let mut params: Vec<_> = (0..self.buffers.len())
            .map(|i| format!(".param .u64 p{i}"))
            .collect();
        if !self.extra.is_empty() {
            params.push(format!(".param .align 64 .b8 map[{}]", self.extra.len()));
        }
        let loads: String = (0..self.buffers.len())
            .map(|i| format!("ld.param.u64 %a{i}, [p{i}];\n"))
            .collect();
        format!(
            ".version 8.6\n.target sm_100a\n.address_size 64\n{front}\n.visible .entry k({})\n{{\n.reg .b32 %r<32>;\n\
             .reg .f32 %f<16>;\n.reg .f64 %d<8>;\n.reg .b64 %rd<32>;\n.reg .b64 %a<8>;\n.reg .b16 %h<16>;\n\
             .reg .b128 %q<8>;\n.reg .pred %p<8>;\n.reg .b32 %t;\nmov.u32 %t, %tid.x;\n{loads}{body}\nret;\n}}\n",
            params.join(", ")
        )
    }

    /// Runs it.
    #[allow(clippy::result_large_err)]
    pub fn try_run(&self) -> Result<Report, Fault> {
        let ptx = self.text();
        let tree = match r3_ptx::parse(&ptx) {
            Ok(tree) => tree,
            Err(errors) => panic!("{}", errors.render(&ptx)),
        };
        let module = match r3_ptx::check(&tree) {
            Ok(module) => module,
            Err(errors) => panic!("{}", errors.render(&ptx)),
        };
        let mut next = 0x7e00_0000_0000u64;
        let mut place = |p: &Placement<'_>| {
            let address = next.next_multiple_of(p.align.max(256));
            next = address + p.size.max(1);
            let mapped = self.memory.map(address, p.size.max(1));
            mapped.map_err(|e| e.to_string())?;
            Ok(address)
        };
        let program = Program::load(&[&module], &self.memory, &mut place).expect("links");
        let kernel = program.kernel("k").expect("is there");
        let mut params: Vec<u8> = (0..self.buffers.len())
            .flat_map(|i| address(i).to_le_bytes())
            .collect();
        if !self.extra.is_empty() {
            params.resize(params.len().next_multiple_of(64), 0);
            params.extend_from_slice(&self.extra);
        }
        let config = LaunchConfig {
            grid: [self.grid, 1, 1],
            block: [self.block, 1, 1],
            cluster: [self.cluster, 1, 1],
            dynamic_shared: self.dynamic_shared,
            cooperative: false,
            params: &params,
            blocks: None,
        };
        let options = RunOptions {
            threads: self.threads,
            racecheck: self.racecheck,
            instruction_limit: Some(20_000_000),
            print: &|_| {},
            cancel: None,
        };
        program.launch(kernel, &config, &self.memory, &options)
    }

    /// Runs it; it must not fail.
    pub fn run(self) -> Done {
        match self.try_run() {
            Ok(report) => Done { run: self, report },
            Err(fault) => panic!("{fault}\n{}", self.text()),
        }
    }

    /// Runs it; it must fail.
    pub fn fault(self) -> Fault {
        self.try_run().expect_err("a fault")
    }

    /// What it failed with, and in which thread.
    pub fn fails(self) -> (FaultKind, u32) {
        let fault = self.fault();
        (fault.kind, fault.thread.expect("a thread")[0])
    }
}

/// A finished launch.
pub struct Done {
    run: Run,
    pub report: Report,
}

impl Done {
    /// Bytes of a buffer.
    pub fn bytes(&self, i: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.run.buffers[i]];
        self.run.memory.read(address(i), &mut bytes).expect("reads");
        bytes
    }

    pub fn words(&self, i: usize) -> Vec<u32> {
        let bytes = self.bytes(i);
        let words = bytes.chunks_exact(4);
        words
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }

    pub fn longs(&self, i: usize) -> Vec<u64> {
        let words = self.words(i);
        let pairs = words.chunks_exact(2);
        pairs
            .map(|w| u64::from(w[0]) | u64::from(w[1]) << 32)
            .collect()
    }

    pub fn singles(&self, i: usize) -> Vec<f32> {
        self.words(i).into_iter().map(f32::from_bits).collect()
    }
}
