//! What passes between a pool and a child, in [frames](super::frame).
//!
//! To the child: one [`Setup`], then [`Task`]s. From the child: the stages that it enters, then an [`Answer`].

use serde::{Deserialize, Serialize};

use crate::recipe::{Failure, Product, Recipe, Source, Stage};
use crate::source::Compiled;

/// The first frame to a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Bytes of memory that it may use beyond what it has when it starts.
    pub(super) memory: u64,
}

/// What a child is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// Compile a recipe.
    Recipe(Box<Recipe>),
    /// Compile a source for a target, and hand back what its compiler makes.
    Source(Box<Source>, String),
}

/// What a child made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Made {
    /// Of a recipe.
    Product(Product),
    /// Of a source.
    Compiled(Compiled),
}

/// What a child says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    /// It enters this stage. [`Stage::Worker`] means that it has the whole task.
    Enter(Stage),
    /// It is done with the task.
    Answer(Box<Answer>),
}

/// What became of a task.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The result.
    pub(super) result: Result<Made, Failure>,
    /// Bytes of memory that the child occupies now.
    pub(super) resident: u64,
    /// The child is in an unknown state and should not be used again.
    pub(super) retire: bool,
}
