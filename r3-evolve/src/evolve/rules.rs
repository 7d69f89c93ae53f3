//! What device code may not do, as models are told it.

use r3_replay::evaluate::rules::{RULES, Rule};

/// What is not allowed, and what to do instead, for each rule but those that the user allows.
pub(super) fn told(allowed: &[Rule]) -> Vec<(String, String)> {
    RULES
        .iter()
        .filter(|words| !allowed.contains(&words.rule))
        .map(|words| (words.says.to_owned(), words.instead.to_owned()))
        .collect()
}
