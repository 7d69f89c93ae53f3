//! Random kernels and one kernel for each form of each instruction.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Launch, longs, same_bytes};
use r3_ptx::generate;

#[test]
fn random_kernels_leave_the_same_bytes() {
    for seed in 0..24 {
        let kernel = generate::kernel(seed, &generate::Options::default());
        let output = kernel.thread_bytes * kernel.threads + kernel.accumulators * 4;
        let launch = Launch {
            buffers: vec![longs(&kernel.input), vec![0; output as usize]],
            ..Launch::new("kernel", kernel.threads, Vec::new())
        };
        same_bytes(&kernel.text, &launch);
    }
}
