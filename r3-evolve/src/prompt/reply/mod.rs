//! What is made of an answer.

mod blocks;
mod lex;

use r3_models::chat::Finish;

use super::target::Target;

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The whole file with its new regions.
    pub text: String,
    /// What was done, in a line, in the model's words.
    pub what: String,
    /// How the answer was read, where that was not plain: `a main function was left out`.
    pub notes: Vec<String>,
}

/// Why an answer is of no use. The message is made for a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is nothing.
    #[error("The answer is empty.")]
    Empty,
}

/// Reads an answer to a question about `target`.
pub fn take(reply: &str, finish: Finish, target: &Target) -> Result<Edit, Unusable> {
    let _ = (reply, finish, target);
    Err(Unusable::Empty)
}
