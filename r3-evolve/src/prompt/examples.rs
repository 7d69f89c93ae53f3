//! Examples in a prompt, in places that do not change.
//!
//! An island has a shelf. What was shown once keeps its place and its bytes, also when it is no longer among the examples that are
//! wanted; what is new is put behind it. When the shelf is full, everything that is not wanted goes at once: prompts lose their
//! common beginning once in a while, and not a little each time.

use std::fmt::Write as _;

use super::target::Target;
use super::text;
use crate::evolve::variant::VariantNumber;

/// Examples that stand on a shelf at most.
const MOST_EXAMPLES: usize = 8;

/// A variant that is shown to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The variant.
    pub number: VariantNumber,
    /// Texts of its regions.
    pub regions: Vec<String>,
    /// What was done, in a line (`Lineage::what`).
    pub what: String,
    /// How it came out, in a few words: `0.81 (0.80–0.82) of the captured binary's time, 40 registers`.
    pub result: String,
}

/// The examples of an island. Its state is a function of the calls of [`Shelf::place`] so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Shelf {
    shown: Vec<Shown>,
    budget: usize,
}

/// An example as it is shown: its bytes stay.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    number: VariantNumber,
    text: String,
}

impl Default for Shelf {
    fn default() -> Self {
        Self::new(super::PROMPT_BYTES / 3)
    }
}

impl Shelf {
    /// An empty shelf with room for so many bytes.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            shown: Vec::new(),
            budget,
        }
    }

    /// Puts the wanted examples on it, best first, where they do not stand there already. `original` is the source as given: of an
    /// example that is too long only the difference to it is shown, and nothing when that is too long as well.
    pub fn place(&mut self, wanted: &[Example], original: &Target) {
        let new: Vec<Shown> = wanted
            .iter()
            .filter(|example| !self.shows(example.number))
            .filter_map(|example| render(example, original, self.budget / 2))
            .collect();
        let fits = |shown: &[Shown], more: &[Shown]| {
            shown.len() + more.len() <= MOST_EXAMPLES && bytes(shown) + bytes(more) <= self.budget
        };
        if !fits(&self.shown, &new) {
            self.shown
                .retain(|shown| wanted.iter().any(|wanted| wanted.number == shown.number));
        }
        for shown in new {
            if fits(&self.shown, std::slice::from_ref(&shown)) {
                self.shown.push(shown);
            }
        }
    }

    /// Whether the variant stands on it.
    #[must_use]
    pub fn shows(&self, number: VariantNumber) -> bool {
        self.shown.iter().any(|shown| shown.number == number)
    }

    /// The examples as text, with those that fit into `room` bytes, and which these are.
    pub(super) fn text(&self, room: usize) -> (String, Vec<VariantNumber>) {
        let mut text = String::new();
        let mut numbers = Vec::new();
        for shown in &self.shown {
            if text.len() + HEADING.len() + shown.text.len() > room {
                break;
            }
            if text.is_empty() {
                text.push_str(HEADING);
            }
            text.push_str(&shown.text);
            numbers.push(shown.number);
        }
        (text, numbers)
    }
}

const HEADING: &str = "# Variants that are right, for orientation\n\n";

fn bytes(shown: &[Shown]) -> usize {
    shown.iter().map(|shown| shown.text.len()).sum()
}

/// An example as text; in full when it fits into `most` bytes, else its difference to the original, else not at all.
fn render(example: &Example, original: &Target, most: usize) -> Option<Shown> {
    let mut text = format!("## Variant {}\n\n", example.number.0);
    let _ = writeln!(text, "Result: {}", text::one_line(&example.result, 300));
    if !example.what.is_empty() {
        let _ = writeln!(
            text,
            "What was done: {}",
            text::one_line(&example.what, 300)
        );
    }
    text.push('\n');
    let full: usize = example.regions.iter().map(String::len).sum();
    if text.len() + full + 64 <= most {
        text.push_str(&regions(
            &example
                .regions
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        ));
    } else {
        let difference = r3_source::diff::unified(
            &original.texts().join("\n"),
            &example.regions.join("\n"),
            ("source as given", "this variant"),
        );
        if text.len() + difference.len() + 64 > most {
            return None;
        }
        text.push_str("As a difference to the source as given:\n\n");
        text.push_str(&text::fenced(&difference, "diff"));
    }
    text.push('\n');
    Some(Shown {
        number: example.number,
        text,
    })
}

/// Regions of a variant in fences; each has a line with its number when there are several.
pub(super) fn regions(texts: &[&str]) -> String {
    let mut shown = String::new();
    for (index, region) in texts.iter().enumerate() {
        if texts.len() > 1 {
            let _ = writeln!(shown, "Region {} of {}:\n", index + 1, texts.len());
        }
        shown.push_str(&text::fenced(region, "cuda"));
    }
    shown
}
