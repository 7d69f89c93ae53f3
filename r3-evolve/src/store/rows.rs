//! What is in the tables, as values.

use r3_replay::evaluate::{Candidate, Outcome, Plan};
use serde::{Deserialize, Serialize};

use super::slots::OfSlot;
use crate::evolve::variant::VariantNumber;
use crate::space::Point;

/// Number of a candidate, from 1 in the order in which they came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CandidateNumber(pub i64);

/// Number of an evaluation, from 1 in the order in which they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EvaluationNumber(pub i64);

/// What an evaluation is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The search.
    Search,
    /// The best ones, at length.
    Final,
    /// The best one with a knob set back.
    Ablation,
    /// Nothing is left to be done.
    Done,
}

/// Why a candidate is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The strategy proposed it.
    Proposed,
    /// It is the best so far, and measured again.
    Again,
    /// It may be what the search found.
    Finalist,
    /// It is the original, measured like a finalist: what it seems to gain is noise.
    Control,
    /// It is the source as given, measured like a finalist: the second baseline.
    Given,
    /// It may be the best, and is tried on every launch and on perturbed inputs.
    Check,
    /// It is a finalist's code, timed on launches that did not decide.
    HeldOut,
    /// It is the best without one of its knobs.
    Ablation,
}

/// How far an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was asked for, and there is no outcome.
    Asked,
    /// There is an outcome.
    Done,
    /// It was given up when the search ended. It is asked again when the search goes on.
    Cancelled,
}

macro_rules! words {
    ($type:ident { $($variant:ident => $word:literal),+ $(,)? }) => {
        impl $type {
            /// As in the database.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            pub(super) fn from_word(word: &str) -> Option<Self> {
                Some(match word {
                    $($word => Self::$variant,)+
                    _ => return None,
                })
            }
        }
    };
}

words!(Phase { Search => "search", Final => "final", Ablation => "ablation", Done => "done" });
words!(Reason {
    Proposed => "proposed",
    Again => "again",
    Finalist => "finalist",
    Control => "control",
    Given => "given",
    Check => "check",
    HeldOut => "held_out",
    Ablation => "ablation",
});
words!(State { Asked => "asked", Done => "done", Cancelled => "cancelled" });

/// An evaluation that is to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvaluation {
    /// What is tried.
    pub candidate: Candidate,
    /// Which point of the space it is.
    pub point: Option<Point>,
    /// How thoroughly.
    pub plan: Plan,
    /// Why.
    pub reason: Reason,
    /// Another candidate that it comes from, and how: `without block`.
    pub parent: Option<(CandidateNumber, String)>,
}

/// An evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// Its number.
    pub number: EvaluationNumber,
    /// Its candidate's.
    pub candidate_number: CandidateNumber,
    /// What is tried.
    pub candidate: Candidate,
    /// Which point of the space it is.
    pub point: Option<Point>,
    /// What it is part of.
    pub phase: Phase,
    /// How often the search had come to an end before.
    pub round: i64,
    /// Those of one batch were asked of the strategy at once.
    pub batch: i64,
    /// Why.
    pub reason: Reason,
    /// How thoroughly.
    pub plan: Plan,
    /// The evaluation whose outcome it shares, as its candidate is the same.
    pub same_as: Option<EvaluationNumber>,
    /// How far it is.
    pub state: State,
    /// What came of it. Samples are apart, unless they were asked for.
    pub outcome: Option<Outcome>,
    /// Its place in the order in which the strategy was told.
    pub told: Option<i64>,
    /// When it was asked for, in seconds since the Unix epoch.
    pub asked_at: f64,
    /// When the outcome came.
    pub done_at: Option<f64>,
    /// The variant of the source that it is, in a search over source.
    pub variant: Option<VariantNumber>,
    /// The slot that asked for it, and the how manieth of that slot's evaluations it is.
    pub of: Option<OfSlot>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Happened {
    /// When, in seconds since the Unix epoch.
    pub at: f64,
    /// What kind.
    pub kind: String,
    /// What, for people.
    pub text: String,
}
