//! What LLVM gets to see of addresses: kernels of nvcc, lifted.

#![allow(clippy::unwrap_used)]

mod common;

use common::{functions, ir};

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
        assert!(!text.contains("ptrtoint"), "{text}");
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
