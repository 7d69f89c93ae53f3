//! What models are asked, and what is made of their answers.
//!
//! ```text
//!  kernel, launches, rules, file ─► head ──────────────┐
//!  elites of the island ─► shelf (examples in place) ──┼─► conversation ─► model ─► reply::take ─► the file with a new region
//!  parent with its measurements ─► task by operator ───┘        ▲                        │
//!                                                               └── repair ◄─ failure ◄──┴─ compiler, comparison, rules
//! ```
//!
//! Services keep what they computed for the beginning of a prompt and charge less for it when the next prompt begins alike. So what
//! changes least comes first: the head ([`head`]) is the same bytes in a whole run; examples ([`examples`]) keep their places and
//! their bytes once they were shown on an island; the parent ([`parent`]) and the task ([`task`]) come last. A repair appends to the
//! conversation and changes nothing in it.
//!
//! # Invariants
//!
//! - The same head, examples, parent and task give the same bytes. Nothing here reads a clock, a random number or the environment.
//! - Text from outside (sources, logs of compilers, answers) stands in fences that it cannot close ([`text`]), and is bounded.
//! - An answer becomes a text that differs from the parent's file inside the regions only, or an error in words that a model can
//!   act on ([`reply`]). What is incomplete or could mean several things is never guessed.
//! - Nothing here judges whether a text is right: that is found out by compiling and running it.

pub mod examples;
pub mod failure;
pub mod head;
pub mod parent;
pub mod reply;
mod short;
pub mod target;
pub mod task;
pub mod text;

use r3_models::chat::{Message, Role};

pub use examples::{Example, Shelf};
pub use head::{About, Head, HeadError};
pub use parent::{Measured, Parent};
pub use target::{Target, TargetError};
pub use task::Task;

/// Bytes of a whole prompt at most, unless the settings say otherwise: some 20,000 tokens.
pub const PROMPT_BYTES: usize = 64 * 1024;

/// The conversation that asks for a variant. Examples that do not fit into `budget` bytes beside head, parent and task are left out,
/// from the last one.
#[must_use]
pub fn conversation(
    head: &Head,
    shelf: &Shelf,
    parent: &Parent,
    task: &Task,
    budget: usize,
) -> Vec<Message> {
    let room = |question: &str| budget.saturating_sub(head.text().len() + question.len());
    let short = head.is_short();
    let mut question = task::question(parent, task, short, |number| shelf.shows(number));
    let (mut content, shown) = shelf.text(room(&question));
    if task
        .refers_to()
        .is_some_and(|number| shelf.shows(number) && !shown.contains(&number))
    {
        // The question refers to an example that there is no room for: then it is part of the question.
        question = task::question(parent, task, short, |_| false);
        content = shelf.text(room(&question)).0;
    }
    content.push_str(&question);
    vec![
        Message {
            role: Role::System,
            content: head.text().to_owned(),
        },
        Message {
            role: Role::User,
            content,
        },
    ]
}

/// The conversation goes on: what was answered, and what is wrong with it. `wrong` is what [`reply::Unusable`] or [`failure::tell`] says.
#[must_use]
pub fn repair(conversation: &[Message], answer: &str, wrong: &str, budget: usize) -> Vec<Message> {
    task::repair(conversation, answer, wrong, budget)
}

/// Bytes that two conversations have in common at their beginning, as a service sees them: messages one after the other. What
/// separates messages is not counted.
#[must_use]
pub fn shared_prefix(one: &[Message], other: &[Message]) -> usize {
    let mut shared = 0;
    for (one, other) in one.iter().zip(other) {
        if one.role != other.role {
            break;
        }
        let same = one
            .content
            .bytes()
            .zip(other.content.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        shared += same;
        if same < one.content.len() || same < other.content.len() {
            break;
        }
    }
    shared
}

/// Bytes of a conversation.
#[must_use]
pub fn bytes(conversation: &[Message]) -> usize {
    conversation
        .iter()
        .map(|message| message.content.len())
        .sum()
}

#[cfg(test)]
mod tests;
