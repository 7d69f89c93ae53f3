//! Whether a text is new, before anything is spent on it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::evolve::variant::{Variant, VariantNumber};

/// What a variant is equal to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// The same text.
    Text(VariantNumber),
    /// The same but for blanks and comments.
    Tokens(VariantNumber),
    /// The same machine code, launched in the same way.
    Code(VariantNumber),
}

impl Seen {
    /// The variant that came first.
    #[must_use]
    pub fn number(self) -> VariantNumber {
        match self {
            Self::Text(number) | Self::Tokens(number) | Self::Code(number) => number,
        }
    }

    /// In words: `the same but for blanks and comments as variant 12`.
    #[must_use]
    pub fn words(self) -> String {
        let what = match self {
            Self::Text(_) => "the same text as",
            Self::Tokens(_) => "the same but for blanks and comments as",
            Self::Code(_) => "compiles to the same machine code as",
        };
        format!("{what} variant {}", self.number().0)
    }
}

/// Every text that came up in a run, right or wrong, on whatever island.
///
/// How a variant is launched counts as part of its text, and of its code.
#[derive(Clone, Debug, Default)]
pub struct Novelty {
    texts: HashMap<u128, VariantNumber>,
    tokens: HashMap<u128, VariantNumber>,
    code: HashMap<u128, VariantNumber>,
}

impl Novelty {
    /// Nothing was seen.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a text is equal to, if anything. `fingerprint`: that of its tokens.
    #[must_use]
    pub fn seen(&self, variant: &Variant, fingerprint: u128) -> Option<Seen> {
        let text = self.texts.get(&of_text(variant)).copied().map(Seen::Text);
        text.or_else(|| {
            let number = self.tokens.get(&of_tokens(variant, fingerprint))?;
            Some(Seen::Tokens(*number))
        })
    }

    /// Remembers a text under its number. The first number stays.
    pub fn add(&mut self, number: VariantNumber, variant: &Variant, fingerprint: u128) {
        self.texts.entry(of_text(variant)).or_insert(number);
        self.tokens
            .entry(of_tokens(variant, fingerprint))
            .or_insert(number);
    }

    /// What machine code is equal to, if anything, and remembers it. `image`: the hash that an outcome has for the variant built
    /// without any options of an inner search. An empty one is not known, and equal to none.
    pub fn code(&mut self, number: VariantNumber, variant: &Variant, image: &str) -> Option<Seen> {
        if image.is_empty() {
            return None;
        }
        let first = *self
            .code
            .entry(with_launch(variant, xxh3_128(image.as_bytes())))
            .or_insert(number);
        (first != number).then_some(Seen::Code(first))
    }

    /// Forgets a variant of which nothing was learned, since the machine failed and not the variant: it may be proposed again.
    pub fn forget(&mut self, number: VariantNumber) {
        for map in [&mut self.texts, &mut self.tokens, &mut self.code] {
            map.retain(|_, other| *other != number);
        }
    }
}

fn of_text(variant: &Variant) -> u128 {
    with_launch(variant, xxh3_128(variant.text.as_bytes()))
}

fn of_tokens(variant: &Variant, fingerprint: u128) -> u128 {
    with_launch(variant, fingerprint)
}

fn with_launch(variant: &Variant, hash: u128) -> u128 {
    let mut bytes = hash.to_le_bytes().to_vec();
    // A change of launch holds nothing that cannot be written.
    bytes.extend(serde_json::to_vec(&variant.launch).unwrap_or_default());
    xxh3_128(&bytes)
}

#[cfg(test)]
mod tests {
    use r3_replay::evaluate::candidate::LaunchChange;

    use super::*;

    fn variant(text: &str, threads: Option<u32>) -> Variant {
        Variant {
            text: text.to_owned(),
            launch: LaunchChange {
                block: threads.map(|threads| [threads, 1, 1]),
                ..LaunchChange::default()
            },
        }
    }

    #[test]
    fn a_duplicate_is_seen_before_it_is_evaluated_and_the_first_is_named() {
        let mut novelty = Novelty::new();
        let first = variant("a + b", None);
        assert_eq!(novelty.seen(&first, 7), None);
        novelty.add(VariantNumber(1), &first, 7);
        assert_eq!(novelty.seen(&first, 7), Some(Seen::Text(VariantNumber(1))));
        let spaced = variant("a+b", None);
        assert_eq!(
            novelty.seen(&spaced, 7),
            Some(Seen::Tokens(VariantNumber(1)))
        );
        novelty.add(VariantNumber(2), &spaced, 7);
        assert_eq!(
            novelty.seen(&variant("a +b", None), 7).unwrap().number(),
            VariantNumber(1)
        );
        assert_eq!(novelty.seen(&variant("a - b", None), 8), None);
    }

    #[test]
    fn the_same_text_launched_otherwise_is_new() {
        let mut novelty = Novelty::new();
        novelty.add(VariantNumber(1), &variant("a", None), 7);
        assert_eq!(novelty.seen(&variant("a", Some(64)), 7), None);
        assert_eq!(
            novelty.code(VariantNumber(1), &variant("a", None), "cafe"),
            None
        );
        assert_eq!(
            novelty.code(VariantNumber(2), &variant("b", Some(64)), "cafe"),
            None
        );
    }

    #[test]
    fn equal_machine_code_of_two_texts_is_seen_and_unknown_code_is_not_equal() {
        let mut novelty = Novelty::new();
        let (one, two) = (variant("x*2", None), variant("x+x", None));
        assert_eq!(novelty.code(VariantNumber(1), &one, "cafe"), None);
        assert_eq!(novelty.code(VariantNumber(1), &one, "cafe"), None);
        let seen = novelty.code(VariantNumber(2), &two, "cafe").unwrap();
        assert_eq!(seen, Seen::Code(VariantNumber(1)));
        assert_eq!(
            seen.words(),
            "compiles to the same machine code as variant 1"
        );
        assert_eq!(novelty.code(VariantNumber(3), &one, ""), None);
        assert_eq!(novelty.code(VariantNumber(4), &two, ""), None);
    }

    #[test]
    fn what_the_machine_could_not_judge_may_be_proposed_again() {
        let mut novelty = Novelty::new();
        let one = variant("a", None);
        novelty.add(VariantNumber(1), &one, 7);
        assert_eq!(novelty.code(VariantNumber(1), &one, "cafe"), None);
        novelty.forget(VariantNumber(1));
        assert_eq!(novelty.seen(&one, 7), None);
        assert_eq!(novelty.code(VariantNumber(2), &one, "cafe"), None);
    }
}
