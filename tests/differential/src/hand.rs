//! Kernels written by hand, in `kernels/*.ptx`, for what one instruction alone does not show.
//!
//! Lines that begin with `//:` say how a kernel is launched and on what:
//!
//! ```text
//! //: grid 2            blocks (x, or x y z); 1 where it is not given
//! //: block 64          threads of a block
//! //: shared 1024       bytes of dynamic shared memory
//! //: cooperative       all blocks resident
//! //: in u32 128 random        a buffer: type, elements, values (random, edges, few, iota, zero)
//! //: out u32 128              a buffer of results
//! //: inout u32 8 zero         both
//! //: for OP SIZE = add.u32 32; add.u64 64      one case each, with @OP@ and @SIZE@ replaced
//! ```
//!
//! Buffers are the kernel's parameters, in order. From `SPACE` comes `@SHARED@` (1 or 0), from `N` `@LIST@` (`{%v0, …}`)
//! and `@OLD@` (`{%o0, …}`).

use crate::case::{Buffer, Case, Element, Result};
use crate::values::{self, Kind, Random};

macro_rules! kernels {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../kernels/", $name, ".ptx")))),*]
    };
}

const FILES: [(&str, &str); 39] = kernels![
    "async_copy",
    "atomic_integer",
    "atomic_single",
    "barrier_ids",
    "barrier_reduction",
    "barriers_many",
    "block_chain",
    "brx_idx",
    "bulk_cluster",
    "bulk_reduce",
    "calls",
    "cluster",
    "cluster_dims",
    "compare_and_swap",
    "constants",
    "dependent_launch",
    "divergent_if",
    "divergent_loop",
    "exchange_128",
    "fences",
    "grid_barrier",
    "guarded_set",
    "guarded_testp",
    "local_array",
    "lop3_all",
    "mbarrier",
    "narrow_loads",
    "reductions",
    "remote_store",
    "shared_transpose",
    "shuffle_divergent",
    "special_registers",
    "spin_lock",
    "vector_memory",
    "vector_red_16",
    "vector_red_32",
    "votes_divergent",
    "warp_loops",
    "wide_memory",
];

/// All cases of all files.
///
/// # Panics
/// When a file is wrong.
pub fn all() -> Vec<Case> {
    FILES
        .iter()
        .flat_map(|(name, text)| cases(name, text))
        .collect()
}

fn cases(name: &str, text: &str) -> Vec<Case> {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("//: for ")) else {
        return vec![case(name, text)];
    };
    let (variables, rows) = line.split_once('=').expect("for NAMES = ROWS");
    let variables: Vec<&str> = variables.split_whitespace().collect();
    rows.split(';')
        .map(|row| {
            let values: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(values.len(), variables.len(), "{name}: {row}");
            let mut text = text.to_owned();
            for (variable, value) in variables.iter().zip(&values) {
                text = text.replace(&format!("@{variable}@"), value);
                match *variable {
                    "SPACE" => {
                        text = text.replace("@SHARED@", if *value == "shared" { "1" } else { "0" })
                    }
                    "N" => {
                        let count: usize = value.parse().expect("a number");
                        for (place, prefix) in [("@LIST@", "%v"), ("@OLD@", "%o")] {
                            let list: Vec<String> =
                                (0..count).map(|i| format!("{prefix}{i}")).collect();
                            text = text.replace(place, &format!("{{{}}}", list.join(", ")));
                        }
                    }
                    _ => {}
                }
            }
            case(&format!("{name} {}", values.join(" ")), &text)
        })
        .collect()
}

fn case(name: &str, text: &str) -> Case {
    let mut case = Case {
        name: format!("kernels/{name}"),
        ptx: text.to_owned(),
        kernel: "k".into(),
        grid: [1; 3],
        block: [1; 3],
        dynamic_shared: 0,
        cooperative: false,
        as_written: false,
        buffers: Vec::new(),
    };
    for line in text.lines().filter_map(|line| line.strip_prefix("//: ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let dims = || {
            let mut dims = [1; 3];
            for (dim, word) in dims.iter_mut().zip(&words[1..]) {
                *dim = word.parse().expect("a number");
            }
            dims
        };
        match words[0] {
            "grid" => case.grid = dims(),
            "block" => case.block = dims(),
            "for" => {}
            "cooperative" => case.cooperative = true,
            "shared" => case.dynamic_shared = words[1].parse().expect("bytes"),
            role @ ("in" | "out" | "inout") => {
                let elements: usize = words[2].parse().expect("a number");
                let values = words.get(3).copied().unwrap_or("fill");
                let seed = format!("{name} {}", case.buffers.len());
                case.buffers.push(Buffer {
                    bytes: bytes(words[1], elements, values, &seed),
                    result: (role != "in").then(|| Result {
                        element: Element::Bits(values::bytes(words[1]) as u8),
                        approximate: None,
                        sources: Vec::new(),
                        mixed: None,
                    }),
                });
            }
            other => panic!("{name}: {other}"),
        }
    }
    case
}

/// Bytes of a buffer.
pub fn bytes(ty: &str, elements: usize, values: &str, seed: &str) -> Vec<u8> {
    let mut random = Random::of(seed);
    let column: Vec<u64> = match values {
        "random" => (0..elements).map(|_| random.bits()).collect(),
        "edges" => values::columns(&[(ty, Kind::Edges)], elements, &mut random).remove(0),
        "few" => (0..elements).map(|_| random.bits() % 3).collect(),
        "iota" => (0..elements as u64).collect(),
        "zero" => vec![0; elements],
        "fill" => vec![0xa5a5_a5a5_a5a5_a5a5; elements],
        other => panic!("values {other}"),
    };
    let len = values::bytes(ty);
    column
        .iter()
        .flat_map(|v| v.to_le_bytes().into_iter().take(len))
        .collect()
}
