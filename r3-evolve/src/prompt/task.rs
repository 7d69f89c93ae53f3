//! What a model is asked to do, by operator.

use r3_models::chat::{Message, Role};

use super::examples::Example;
use super::head::Head;
use super::parent::Parent;
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

/// Parent and task, as the end of the conversation's last message.
pub(super) fn question(
    head: &Head,
    parent: &Parent,
    task: &Task,
    shown: impl Fn(VariantNumber) -> bool,
) -> String {
    let _ = (head, parent, task, shown(VariantNumber(0)));
    String::new()
}

/// See [`super::repair`].
pub(super) fn repair(
    conversation: &[Message],
    answer: &str,
    wrong: &str,
    budget: usize,
) -> Vec<Message> {
    let _ = budget;
    let mut longer = conversation.to_vec();
    longer.push(Message {
        role: Role::Assistant,
        content: answer.to_owned(),
    });
    longer.push(Message {
        role: Role::User,
        content: wrong.to_owned(),
    });
    longer
}

/// Directions in which a kernel like this may become faster, in a stable order: one is picked by chance for a task.
pub fn directions(
    kernel: &r3_replay::evaluate::describe::KernelDescription,
    tolerant: bool,
) -> Vec<&'static str> {
    let _ = (kernel, tolerant);
    Vec::new()
}
