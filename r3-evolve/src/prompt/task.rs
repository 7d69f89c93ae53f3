//! What a model is asked to do, by operator.

use std::fmt::Write as _;

use r3_models::chat::{Message, Role};
use r3_replay::evaluate::describe::{Census, KernelDescription};

use super::examples::{Example, regions};
use super::parent::{Parent, shown as parent_shown};
use super::text::{bounded, one_line};
use super::{bytes, reply};
use crate::evolve::variant::VariantNumber;

/// What a model is asked to do with the parent.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Make it faster.
    Improve {
        /// A direction to look into (one of [`directions`]).
        direction: Option<String>,
    },
    /// Do the same in a way that lies in another cell.
    Explore {
        /// The cell, in words of the grid: `128 registers or more, no shared memory`.
        cell: String,
    },
    /// Join it with another elite.
    Crossover {
        /// The other one.
        other: Example,
    },
    /// The same speed with less text.
    Simplify,
    /// It is wrong: put it right.
    Repair {
        /// What is wrong (see [`failure::tell`](super::failure::tell)).
        wrong: String,
    },
}

impl Task {
    /// The example that it speaks of.
    pub(super) fn refers_to(&self) -> Option<VariantNumber> {
        match self {
            Self::Crossover { other } => Some(other.number),
            _ => None,
        }
    }
}

/// Bytes of a report of what is wrong, at most.
const MOST_WRONG: usize = 6 * 1024;

/// Parent and task, as the end of the conversation's last message. `shown` says which variants stand among the examples; `short`, that
/// there is little room.
pub(super) fn question(
    parent: &Parent,
    task: &Task,
    short: bool,
    shown: impl Fn(VariantNumber) -> bool,
) -> String {
    let mut text = parent_shown(parent, short);
    text.push_str("# The task\n\n");
    match task {
        Task::Improve { direction } => {
            text.push_str("Write a variant of the parent that takes less time.");
            if let Some(direction) = direction {
                let _ = write!(text, " Look into this direction: {}.", one_line(direction, 300));
            }
            text.push('\n');
        }
        Task::Explore { cell } => {
            let _ = writeln!(
                text,
                "Write a variant that does the same in another way than the parent and the variants above, also when that is a little \
                 slower at first. It shall be like this: {}.",
                one_line(cell, 400)
            );
        }
        Task::Crossover { other } if shown(other.number) => {
            let _ = writeln!(
                text,
                "Write a variant that has what makes the parent fast and what makes variant {} above fast, where the two go together.",
                other.number.0
            );
        }
        Task::Crossover { other } => {
            let _ = writeln!(
                text,
                "Write a variant that has what makes the parent fast and what makes this one fast, where the two go together. Variant {}: \
                 {}. {}\n",
                other.number.0,
                one_line(&other.result, 300),
                one_line(&other.what, 300)
            );
            let texts: Vec<&str> = other.regions.iter().map(String::as_str).collect();
            text.push_str(&regions(&texts));
        }
        Task::Simplify => text.push_str(
            "Write a variant that does the same with less: leave out what does not make it faster, join what is done twice. It may \
             not become slower.\n",
        ),
        Task::Repair { wrong } => {
            let _ = writeln!(
                text,
                "The parent is wrong. Put it right with as little change as it takes, and keep what makes it fast.\n\n{}",
                bounded(wrong, MOST_WRONG)
            );
        }
    }
    text
}

/// See [`super::repair`].
pub(super) fn repair(
    conversation: &[Message],
    answer: &str,
    wrong: &str,
    budget: usize,
) -> Vec<Message> {
    let answer = Message {
        role: Role::Assistant,
        content: reply::without_reasoning(answer).to_owned(),
    };
    let wrong = Message {
        role: Role::User,
        content: format!(
            "{}\n\nPut this right, and answer in one of the forms above. If your code was compiled, it is what definitions and edits now go into; if the \
             answer could not be used, it has changed nothing.",
            bounded(wrong, MOST_WRONG.min(budget / 4))
        ),
    };
    // The first question always stays, since services keep what they computed for it; earlier answers go when there is no room.
    let mut longer = conversation.to_vec();
    let first = conversation
        .iter()
        .position(|message| message.role == Role::Assistant)
        .unwrap_or(conversation.len());
    if bytes(&longer) + answer.content.len() + wrong.content.len() > budget {
        longer.truncate(first);
    }
    let room = budget
        .saturating_sub(bytes(&longer) + wrong.content.len())
        .max(budget / 8);
    longer.push(Message {
        content: match answer.content.trim() {
            // Services refuse messages without a text.
            "" => "(no answer)".to_owned(),
            _ => bounded(&answer.content, room).into_owned(),
        },
        ..answer
    });
    longer.push(wrong);
    longer
}

/// A direction, whether it needs a tolerance, and for which kernels it is.
type Direction = (&'static str, bool, fn(&Census) -> bool);

/// In which directions kernels become faster.
const DIRECTIONS: &[Direction] = &[
    (
        "wider loads and stores (float4, int4), with fewer threads or with a loop, where alignment allows it",
        false,
        |census| census.global_loads + census.global_stores > 0,
    ),
    (
        "several elements for each thread, so that independent operations overlap and what they share is computed once",
        false,
        |_| true,
    ),
    (
        "data that threads of a block share read once into shared memory, or kept in registers from one step to the next",
        false,
        |census| census.global_loads > 1,
    ),
    (
        "which memory the threads of a warp access together: contiguous addresses, no conflicts of shared-memory banks",
        false,
        |census| census.global_loads + census.global_stores > 0,
    ),
    (
        "loads issued earlier, so that arithmetic hides their latency",
        false,
        |census| census.global_loads > 0,
    ),
    (
        "integer arithmetic: divisions and remainders by strength reduction, indices computed once, 32 bits instead of 64",
        false,
        |census| census.integer_divisions > 0,
    ),
    (
        "indices and addresses: common parts computed once, pointers that are advanced",
        false,
        |_| true,
    ),
    (
        "loops: unrolling with a known count, order of nested loops, work that does not depend on the loop taken out of it",
        false,
        |census| census.loops > 0,
    ),
    (
        "barriers: fewer of them, or exchanges within a warp (__shfl_sync, __reduce_sync) instead",
        false,
        |census| census.barriers > 0,
    ),
    (
        "atomics: results of a warp or block joined before they go to memory",
        false,
        |census| census.atomics > 0,
    ),
    (
        "branches: predicated or selected values instead of divergent ways; the border cases apart from the bulk",
        false,
        |census| census.guarded_accesses > 0 || census.loops > 0,
    ),
    (
        "fewer registers, so that more warps are there at once; or more work in registers, so that fewer are needed",
        false,
        |_| true,
    ),
    (
        "read-only data: __restrict__ with const, __ldg, constant memory",
        false,
        |census| census.global_loads > 0,
    ),
    (
        "divisions and roots: multiplication by a reciprocal, rsqrtf, one root instead of two",
        true,
        |census| census.exact_divisions > 0,
    ),
    (
        "fast intrinsics (__expf, __sinf, __fdividef) where the tolerance allows them",
        true,
        |census| census.exact_divisions > 0 || census.calls > 0,
    ),
    (
        "sums in another order: several partial sums, trees",
        true,
        |census| census.float_operations > 0,
    ),
];

/// Directions in which a kernel like this may become faster, in a stable order: one is picked by chance for a task.
pub fn directions(kernel: &KernelDescription, tolerant: bool) -> Vec<&'static str> {
    DIRECTIONS
        .iter()
        .filter(|(_, needs_tolerance, _)| tolerant || !needs_tolerance)
        .filter(|(_, _, fits)| kernel.census.as_ref().is_none_or(fits))
        .map(|(text, ..)| *text)
        .collect()
}
