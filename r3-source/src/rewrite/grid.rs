//! Kernels in which each thread does one element, as loops.
//!
//! A kernel of the form "my element is number `i`; if there is one, do it" is the same as a loop over elements with a stride of all
//! threads, and then right for any grid.

use super::edit::Edit;
use super::loops::indent;
use super::meaning::Meaning;
use super::scene::Scene;
use super::strided::Strided;
use super::{Operator, Proposal};

/// "If my element is there, do it" becomes a loop over elements with a stride of all threads; and asks for fewer blocks.
///
/// The counter is `blockIdx.x * blockDim.x + threadIdx.x` and keeps its value; its bound does too, and the captured launch has a
/// thread for each element. With a counter for each of two or three axes they are nested loops. The work is the rest of the kernel,
/// ties no threads together, returns nowhere, asks for no number of a block, and leaves nothing in a variable for the next element.
/// What stands in front of it leaves the same in each block, returns in all or none, and writes nothing but variables.
/// The counter does not leave its type when it passes the end, as the capture says.
pub struct GridStride;

impl Operator for GridStride {
    fn name(&self) -> &'static str {
        "grid-stride"
    }

    fn about(&self) -> &'static str {
        "one element for each thread becomes a loop with a stride of all threads, with fewer blocks and the loop written out"
    }

    fn exact(&self) -> bool {
        true
    }

    fn proposals(&self, scene: &Scene<'_>) -> Vec<Proposal> {
        let meaning = Meaning::new(scene);
        let statements = meaning.kernel_statements();
        (0..statements.len())
            .flat_map(|at| (1..=3).map(move |axes| (at, axes)))
            .filter_map(|(at, axes)| meaning.guards(&statements, at, axes))
            .filter(|found| {
                let words = ["blockIdx", "gridDim"];
                !found.iter().any(|one| meaning.depends_on(one, &words))
            })
            .flat_map(|found| ways(&meaning, &found))
            .collect()
    }
}

/// Choices: part of the blocks, and how often the loop is written out.
const WAYS: &[(&str, u32, u32)] = &[
    ("same", 1, 1),
    ("1/2", 2, 1),
    ("1/4", 4, 1),
    ("1/8", 8, 1),
    ("1/2 unrolled", 2, 2),
    ("1/4 unrolled", 4, 4),
];

/// Loops over the elements of each axis, the slowest outside; fewer blocks along that one, whose loop is written out.
fn ways<'a>(meaning: &Meaning<'a>, found: &[Strided<'a>]) -> Vec<Proposal> {
    let mut axes: Vec<&Strided<'a>> = found.iter().collect();
    axes.sort_by_key(|axis| std::cmp::Reverse(axis.dimension));
    let Some((&outer, test)) = axes.first().zip(found.first().and_then(|one| one.test)) else {
        return Vec::new();
    };
    let text = meaning.scene.unit.text();
    let blanks = indent(text, outer.start);
    let heads: Vec<String> = axes
        .iter()
        .map(|axis| {
            let name = meaning.of(axis.variable);
            format!(
                "for ({} {name} = {}; {name} < {}; {name} += {})",
                axis.words,
                meaning.of(axis.index),
                meaning.term(axis.bound),
                axis.stride()
            )
        })
        .collect();
    let head = heads.join(&format!("\n{blanks}"));
    let names: Vec<&str> = axes.iter().map(|axis| meaning.of(axis.variable)).collect();
    let names = names.join(", ");
    let block = match outer.body.as_slice() {
        [only] if only.kind() == "compound_statement" => Some(*only),
        _ => None,
    };
    WAYS.iter()
        .filter_map(|(choice, parts, unroll)| {
            let pragma = match unroll {
                1 => String::new(),
                count => format!("#pragma unroll {count}\n{blanks}"),
            };
            let edits = match block {
                Some(block) if meaning.of(test).ends_with(meaning.of(block)) => {
                    vec![Edit::replace(outer.start..block.start_byte(), format!("{pragma}{head} "))]
                }
                _ => {
                    let first = outer.body.first().map_or(outer.end, |first| first.start_byte());
                    vec![
                        Edit::replace(outer.start..first, format!("{pragma}{head} {{\n{blanks}")),
                        Edit::insert(outer.end, format!("\n{blanks}}}")),
                    ]
                }
            };
            let directive = match parts {
                1 => None,
                parts => Some(meaning.scene.part_of_grid(outer.dimension, *parts)?),
            };
            Some(Proposal {
                at: outer.start..test.end_byte(),
                choice: (*choice).to_owned(),
                what: match (parts, unroll) {
                    (1, _) => format!("a loop over elements {names} with a stride of all threads"),
                    (_, 1) => format!("a loop over elements {names} with a stride of all threads, 1/{parts} of the blocks"),
                    _ => format!("a loop over elements {names}, written out {unroll} times, 1/{parts} of the blocks"),
                },
                edits,
                directive,
            })
        })
        .collect()
}
