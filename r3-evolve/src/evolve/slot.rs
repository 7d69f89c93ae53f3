//! A slot: one piece of work of a search over source, from its beginning to what it taught.
//!
//! What a slot does is chosen when it is opened, from the population as it is then, and stored. What came of it is told to the
//! population at once when all of it is known.

use r3_models::choice::Choice;
use r3_replay::evaluate::Verdict;
use r3_replay::remix::pairs::Ratio;
use serde::{Deserialize, Serialize};

use super::variant::{IslandNumber, Operator, VariantNumber};
use crate::elites::Seen;
use crate::inner::Promotion;

/// What a slot does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opening {
    /// The source as given, by one compiler after the other until one is right.
    Original,
    /// A new variant.
    Propose(Proposal),
    /// A variant that is promising is searched further.
    Promote {
        /// Which, and how far.
        promotion: Promotion,
        /// Evaluations that are to be spent.
        evaluations: u32,
    },
    /// A variant that may be the best is tried on every launch and with perturbed inputs.
    Check {
        /// Which.
        variant: VariantNumber,
    },
}

/// A new variant that is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// How.
    pub operator: Operator,
    /// From which variants; the first one is edited.
    pub parents: Vec<VariantNumber>,
    /// What else a model is shown.
    pub examples: Vec<VariantNumber>,
    /// By whom.
    pub by: By,
    /// Of a rewrite: hash of what it changes and of the text around it, hexadecimal. Runs of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

/// Who makes a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A built-in rewrite, by its name.
    Rewrite(String),
    /// A model.
    Model(Choice),
}

impl By {
    /// The rewrite, or the model.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Rewrite(name) => name,
            Self::Model(choice) => &choice.model,
        }
    }
}

impl Opening {
    /// Evaluations that it may take, with `repairs` turns in which a model is told what was wrong.
    #[must_use]
    pub fn reserve(&self, repairs: u32) -> u64 {
        match self {
            Self::Original => 0,
            Self::Check { .. } => 1,
            Self::Promote { evaluations, .. } => u64::from(*evaluations),
            Self::Propose(proposal) => match proposal.by {
                By::Rewrite(_) => SCREEN,
                By::Model(_) => SCREEN * (1 + u64::from(repairs)),
            },
        }
    }

    /// In a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Propose(_) => "propose",
            Self::Promote { .. } => "promote",
            Self::Check { .. } => "check",
        }
    }
}

/// Evaluations of a new variant's screen, at most.
pub const SCREEN: u64 = 3;

/// How a slot ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// A variant was evaluated.
    Evaluated,
    /// The text was known: nothing was evaluated.
    Duplicate(Seen),
    /// The answer of a model was no text that can be compiled, in all its turns.
    Unusable(String),
    /// The model gave no answer. Nobody is to blame for that but the service.
    NoAnswer(String),
    /// The search ended meanwhile. What had been evaluated counts.
    CutOff,
}

/// What came of a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closing {
    /// How it ended.
    pub ended: Ended,
    /// The variant that it was about: after repairs the last one.
    pub variant: Option<VariantNumber>,
    /// Evaluations that have an outcome.
    pub evaluations: u64,
    /// How the variant came out; of several evaluations the best.
    pub verdict: Option<Verdict>,
    /// Why it is not right.
    pub reason: Option<String>,
    /// The variant's time as a part of the captured binary's, with its best configuration so far.
    pub ratio: Option<Ratio>,
    /// Whether it came into a cell of its island's grid.
    pub entered: bool,
    /// Whether it is now the best of the run.
    pub best: bool,
    /// Rounds of migration after it: a clock may decide when they are.
    pub migrations: u32,
}

impl Closing {
    pub(crate) fn new(ended: Ended) -> Self {
        Self {
            ended,
            variant: None,
            evaluations: 0,
            verdict: None,
            reason: None,
            ratio: None,
            entered: false,
            best: false,
            migrations: 0,
        }
    }
}

/// The island of a slot. The first slot is that of the source as given, which belongs to all.
#[must_use]
pub fn island_of(slot: i64, islands: u32) -> IslandNumber {
    crate::islands::island_of(slot.max(1).unsigned_abs() - 1, islands)
}

/// The number of the variant of a slot's turn. Numbers have gaps where a model needed no repair.
#[must_use]
pub fn number_of(slot: i64, turn: i64, repairs: u32) -> VariantNumber {
    if slot == 0 {
        return VariantNumber(1);
    }
    VariantNumber(2 + (slot - 1) * (1 + i64::from(repairs)) + turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_round_the_islands_and_none_is_left_out() {
        // All programs on island 0 (openevolve#391) is what this must not do.
        let islands: Vec<u32> = (1..=6).map(|slot| island_of(slot, 3).0).collect();
        assert_eq!(islands, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn no_two_turns_of_any_slots_share_a_number() {
        let mut numbers: Vec<i64> = (1..50)
            .flat_map(|slot| (0..=2).map(move |turn| number_of(slot, turn, 2).0))
            .collect();
        numbers.push(number_of(0, 0, 2).0);
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers.first()), (all, Some(&1)));
    }
}
