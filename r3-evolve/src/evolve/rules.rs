//! What device code may not do, as models are told it.

use r3_replay::evaluate::rules::{RULES, Rule};

/// What is not allowed, and what to do instead, for each rule.
pub(super) fn told(inline_assembly: bool) -> Vec<(String, String)> {
    RULES
        .iter()
        .filter(|words| !(inline_assembly && words.rule == Rule::Assembly))
        .map(|words| (words.why.to_owned(), words.instead.to_owned()))
        .collect()
}
