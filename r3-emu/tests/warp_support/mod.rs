//! Runs a kernel out of PTX text on buffers.
#![allow(dead_code)]

use r3_emu::{Fault, LaunchConfig, Memory, Placement, Program, Report, RunOptions};

/// One argument of a kernel.
pub enum Arg {
    /// A pointer to bytes, which are read back.
    Buffer(Vec<u8>),
    /// A scalar of up to 8 bytes, in the size of the parameter.
    Scalar(u64),
}

impl Arg {
    /// A buffer of words.
    pub fn words(words: &[u32]) -> Self {
        Self::Buffer(words.iter().flat_map(|w| w.to_le_bytes()).collect())
    }

    /// A buffer of singles.
    pub fn singles(values: &[f32]) -> Self {
        Self::words(&values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
    }

    /// A buffer of 16-bit values.
    pub fn halves(values: &[u16]) -> Self {
        Self::Buffer(values.iter().flat_map(|w| w.to_le_bytes()).collect())
    }

    /// A buffer of 64-bit values.
    pub fn longs(values: &[u64]) -> Self {
        Self::Buffer(values.iter().flat_map(|w| w.to_le_bytes()).collect())
    }

    /// A buffer of zeros.
    pub fn zeros(bytes: usize) -> Self {
        Self::Buffer(vec![0; bytes])
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Scalar(_) => &[],
        }
    }

    pub fn to_words(&self) -> Vec<u32> {
        let words = self.bytes().chunks_exact(4);
        words
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect()
    }

    pub fn to_singles(&self) -> Vec<f32> {
        self.to_words().into_iter().map(f32::from_bits).collect()
    }

    pub fn to_halves(&self) -> Vec<u16> {
        let halves = self.bytes().chunks_exact(2);
        halves.map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
    }

    pub fn to_longs(&self) -> Vec<u64> {
        let words = self.to_words();
        let pairs = words.chunks_exact(2);
        pairs
            .map(|w| u64::from(w[0]) | u64::from(w[1]) << 32)
            .collect()
    }
}

/// Shape of a launch.
#[derive(Clone, Copy)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub shared: u32,
}

impl Shape {
    /// Blocks of so many threads in a row.
    pub fn new(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: [1, 1, 1],
            shared: 0,
        }
    }

    /// The same in clusters.
    pub fn clusters(self, blocks: u32) -> Self {
        Self {
            cluster: [blocks, 1, 1],
            ..self
        }
    }
}

/// Runs a kernel; buffers have what it left in them.
pub fn try_run(
    ptx: &str,
    name: &str,
    shape: Shape,
    args: &mut [Arg],
) -> Result<Report, Box<Fault>> {
    let tree = match r3_ptx::parse(ptx) {
        Ok(tree) => tree,
        Err(errors) => panic!("{}", errors.render(ptx)),
    };
    let module = match r3_ptx::check(&tree) {
        Ok(module) => module,
        Err(errors) => panic!("{}", errors.render(ptx)),
    };
    let memory = Memory::new();
    let mut next = 0x7000_0000_0000u64;
    let mut place = |p: &Placement<'_>| {
        let address = next.next_multiple_of(p.align.max(256));
        next = address + p.size.max(1);
        memory
            .map(address, p.size.max(1))
            .map_err(|e| e.to_string())?;
        Ok(address)
    };
    let program = Program::load(&[&module], &memory, &mut place).expect("links");
    let kernel = program.kernel(name).expect("is there");
    let info = program.info(kernel);
    let mut params = vec![0; info.param_bytes as usize];
    assert_eq!(info.params.len(), args.len(), "arguments of {name}");
    for (i, (arg, &(offset, size, _))) in args.iter().zip(&info.params).enumerate() {
        let value = match arg {
            Arg::Scalar(value) => *value,
            Arg::Buffer(bytes) => {
                let address = 0x1000_0000 * (i as u64 + 1);
                memory.map(address, bytes.len() as u64).expect("maps");
                memory.write(address, bytes).expect("writes");
                address
            }
        };
        let (offset, size) = (offset as usize, size as usize);
        params[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    let config = LaunchConfig {
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster,
        dynamic_shared: shape.shared,
        cooperative: false,
        params: &params,
        blocks: None,
    };
    let options = RunOptions {
        threads: 1,
        racecheck: false,
        instruction_limit: Some(50_000_000),
        print: &|_| {},
        cancel: None,
    };
    let report = program.launch(kernel, &config, &memory, &options);
    for (i, arg) in args.iter_mut().enumerate() {
        if let Arg::Buffer(bytes) = arg {
            memory
                .read(0x1000_0000 * (i as u64 + 1), bytes)
                .expect("reads");
        }
    }
    report.map_err(Box::new)
}

/// Runs a kernel that must not fail.
pub fn run(ptx: &str, name: &str, shape: Shape, args: &mut [Arg]) {
    if let Err(fault) = try_run(ptx, name, shape, args) {
        panic!("{fault}");
    }
}

/// A module with one kernel `k` of `buffers` pointers, each of which is moved on by the thread's place: `%p0` … point to
/// 8 bytes a thread. `%lane` is the thread.
pub fn kernel(buffers: usize, body: &str) -> String {
    let params: Vec<_> = (0..buffers).map(|i| format!(".param .u64 p{i}")).collect();
    let pointers: String = (0..buffers)
        .map(|i| {
            format!(
                "ld.param.u64 %p{i}, [p{i}];\ncvta.to.global.u64 %p{i}, %p{i};\nmad.wide.u32 %p{i}, %lane, 8, %p{i};\n"
            )
        })
        .collect();
    format!(
        ".version 8.6\n.target sm_100a\n.address_size 64\n.visible .entry k({})\n{{\n.reg .b32 %r<32>;\n.reg .f32 %f<8>;\n\
         .reg .b64 %rd<16>;\n.reg .pred %q<8>;\n.reg .b32 %lane;\n.reg .b64 %p<8>;\nmov.u32 %lane, %tid.x;\n{pointers}{body}\n\
         ret;\n}}\n",
        params.join(", ")
    )
}

/// Runs such a kernel in one warp; the last buffer is the output.
pub fn lanes(body: &str, inputs: &[[u64; 32]]) -> [u64; 32] {
    let ptx = kernel(inputs.len() + 1, body);
    let mut args: Vec<_> = inputs.iter().map(|i| Arg::longs(i)).collect();
    args.push(Arg::zeros(256));
    run(&ptx, "k", Shape::new(1, 32), &mut args);
    let out = args.pop().expect("one").to_longs();
    std::array::from_fn(|lane| out[lane])
}
