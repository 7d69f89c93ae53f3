//! Matrix instructions. Values are small integers, so that sums are exact in whatever order they are made; then each
//! with values of many magnitudes, which show how sums are made.

mod fragments;
mod kind;
mod mma;
mod wgmma;
mod wmma;

use crate::case::{Buffer, Case, Element, Result};
use kind::Kind;

const HEAD: &str = ".version 8.6\n.target sm_90\n.address_size 64\n";
/// For what is newer, or only of this one architecture.
const HEAD_A: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";
const LANES: usize = 32;

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = mma::all();
    cases.extend(fragments::all());
    cases.extend(wmma::all());
    cases.extend(wgmma::all());
    cases
}

/// Registers of a fragment as `{%a0, %a1}`.
fn list(name: char, count: usize) -> String {
    let registers: Vec<String> = (0..count).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", registers.join(", "))
}

fn result(len: usize, element: usize) -> Buffer {
    Buffer {
        bytes: vec![0xa5; len],
        result: Some(Result {
            element: Element::Bits(element as u8),
            approximate: None,
            sources: Vec::new(),
            mixed: None,
        }),
    }
}

/// A buffer of so many registers of a kind.
fn words(kind: Kind, count: usize, wild: bool, random: &mut crate::values::Random) -> Buffer {
    let bytes = (0..count).flat_map(|_| {
        let value = if wild {
            kind.wild(random)
        } else {
            kind.value(random)
        };
        value.to_le_bytes().into_iter().take(kind.bytes())
    });
    Buffer {
        bytes: bytes.collect(),
        result: None,
    }
}

/// A kernel of one warp with `%lane`, `%base` and `%at`.
fn warp_case(name: &str, declarations: &str, body: &str, buffers: Vec<Buffer>) -> Case {
    block_case(HEAD, LANES, name, declarations, body, buffers)
}

/// The same of any number of threads, whose number is in `%lane`.
fn block_case(
    head: &str,
    threads: usize,
    name: &str,
    declarations: &str,
    body: &str,
    buffers: Vec<Buffer>,
) -> Case {
    let parameters: Vec<String> = (0..buffers.len())
        .map(|i| format!(".param .u64 p{i}"))
        .collect();
    Case {
        name: format!("matrix/{name}"),
        ptx: format!(
            "{head}.visible .entry k({})\n{{\n{declarations}  .reg .b32 %lane;\n  .reg .b64 %base, %at;\n  mov.u32 %lane, %tid.x;\n{body}  ret;\n}}\n",
            parameters.join(", ")
        ),
        kernel: "k".into(),
        grid: [1; 3],
        block: [threads as u32, 1, 1],
        dynamic_shared: 0,
        cooperative: false,
        as_written: false,
        buffers,
    }
}
