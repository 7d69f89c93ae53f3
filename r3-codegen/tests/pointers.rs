//! What LLVM gets to see of addresses: kernels of nvcc, lifted.

#![allow(clippy::unwrap_used)]

mod common;
mod memory_support;

use common::{Launch, functions, ir};
use memory_support::same;

const NVCC: &str = include_str!("fixtures/pointers/nvcc.ptx");
const TRITON: &str = include_str!("fixtures/pointers/triton.ptx");

/// One function of IR.
fn function(text: &str, name: &str) -> String {
    let mut found = String::new();
    let mut inside = false;
    for line in functions(text).lines() {
        inside |= line.starts_with("define") && line.contains(&format!("@{name}("));
        if inside {
            found.push_str(line);
            found.push('\n');
        }
        inside &= line != "}";
    }
    found
}

#[test]
fn kernels_of_nvcc_are_rooted_on_their_parameters() {
    let text = ir(NVCC);
    for kernel in ["saxpy", "stencil", "matmul"] {
        insta::assert_snapshot!(kernel, function(&text, kernel));
    }
    let rooted = [
        "saxpy",
        "saxpy_stride",
        "stencil",
        "reduce",
        "matmul",
        "sop",
        "ddot",
        "chase",
        "list",
        "glob",
        "sel",
    ];
    for kernel in rooted {
        let text = function(&text, kernel);
        assert!(!text.is_empty(), "{kernel}");
        assert!(!text.contains("inttoptr"), "{text}");
        // This one compares with the null pointer.
        assert!(kernel == "list" || !text.contains("ptrtoint"), "{text}");
        assert!(!text.contains("asm"), "{text}");
    }
    // This one aligns an address.
    assert!(function(&text, "align").contains("inttoptr"));
}

#[test]
fn a_kernel_of_triton_has_parameters_in_global_memory() {
    let text = ir(TRITON);
    insta::assert_snapshot!(functions(&text).lines().next().unwrap());
    assert!(!text.contains("inttoptr"), "{text}");
}

/// Numbers between 0 and 1.
fn floats(len: u32, seed: u32) -> Vec<u8> {
    let numbers = (0..len).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 101.0);
    numbers.flat_map(f32::to_le_bytes).collect()
}

fn doubles(len: u32, seed: u32) -> Vec<u8> {
    let numbers = (0..len).map(|i| f64::from((i * 37 + seed * 11) % 101) / 101.0);
    numbers.flat_map(f64::to_le_bytes).collect()
}

#[test]
fn kernels_of_nvcc_leave_the_same_bytes() {
    let stencil = Launch {
        grid: [2, 3, 1],
        block: [16, 8, 1],
        buffers: vec![floats(30 * 20, 1), floats(30 * 20, 2)],
        params: common::words(&[30, 20]),
        ..Launch::new("stencil", 0, Vec::new())
    };
    let reduce = Launch {
        grid: [3, 1, 1],
        block: [256, 1, 1],
        buffers: vec![floats(3000, 3), floats(3, 4)],
        params: common::words(&[3000]),
        ..Launch::new("reduce", 0, Vec::new())
    };
    let matmul = Launch {
        grid: [2, 2, 1],
        block: [16, 16, 1],
        buffers: vec![floats(1024, 5), floats(1024, 6), floats(1024, 7)],
        params: common::words(&[32]),
        ..Launch::new("matmul", 0, Vec::new())
    };
    // The dynamic shared memory is what the caller asks for.
    let ddot = Launch {
        block: [64, 1, 1],
        dynamic_shared: 512,
        buffers: vec![doubles(64, 8), doubles(64, 9), doubles(1, 10)],
        params: common::words(&[61]),
        ..Launch::new("ddot", 0, Vec::new())
    };
    for launch in [stencil, reduce, matmul, ddot] {
        same(NVCC, &launch);
    }
}
