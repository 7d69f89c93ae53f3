//! Who is best, by what the strategy was told.

use std::collections::BTreeMap;

use r3_replay::evaluate::{Candidate, Outcome, Verdict};
use r3_replay::remix::pairs::Ratio;

use super::statistics::combined;
use crate::evolve::variant::VariantNumber;
use crate::space::Point;
use crate::store::{CandidateNumber, Evaluation, EvaluationNumber};
use crate::strategy::Told;

/// A candidate that is right and was timed.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Its number.
    pub number: CandidateNumber,
    /// The evaluation that found it.
    pub found: EvaluationNumber,
    /// That evaluation's place in the search, from 1.
    pub found_at: u64,
    /// What it is.
    pub candidate: Candidate,
    /// Where it is in the space.
    pub point: Option<Point>,
    /// The variant that it is of, in a search over source.
    pub variant: Option<VariantNumber>,
    /// Every measurement.
    pub measured: Vec<Ratio>,
    /// All of them as one.
    pub ratio: Ratio,
    /// The noise of the first.
    pub noise: f64,
    /// Hash of its code; empty when that is not said.
    pub image: String,
}

/// All that came out so far.
#[derive(Clone, Debug, Default)]
pub struct Standings {
    right: BTreeMap<CandidateNumber, Standing>,
    /// Evaluations by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// Evaluations that count: proposals that the strategy was told of, or that the machine could not judge.
    pub told: u64,
    /// Those among them that were not measured, as their candidate had been.
    pub repeated: u64,
    /// Repeated ones without another in between.
    pub repeated_in_a_row: u64,
    /// Evaluations since the best one became noticeably better.
    pub since_better: u64,
    /// The best candidate when that was last so.
    mark: Option<f64>,
}

/// What a strategy is told of an outcome. Nothing of what says nothing of the candidate.
#[must_use]
pub fn told_of(outcome: &Outcome) -> Option<Told> {
    match (outcome.verdict, &outcome.score) {
        (Verdict::Unjudged | Verdict::Cancelled, _) => None,
        (Verdict::Right, Some(score)) => Some(Told::Ratio {
            median: score.ratio.median,
            low: score.ratio.low,
            high: score.ratio.high,
        }),
        // Right, and nobody could say how fast.
        (Verdict::Right, None) => Some(Told::Invalid(Verdict::CannotRun)),
        (verdict, _) => Some(Told::Invalid(verdict)),
    }
}

/// Configurations of one variant that may be claimed for.
const OF_A_VARIANT: usize = 3;

/// Least improvement that is one for [`Standings::since_better`].
const NOTICEABLE: f64 = 0.001;

impl Standings {
    /// Takes an outcome in. What the strategy is to be told, if anything.
    pub fn take(
        &mut self,
        evaluation: &Evaluation,
        outcome: &Outcome,
        again: bool,
    ) -> Option<Told> {
        if !again {
            self.told += 1;
            *self.verdicts.entry(outcome.verdict).or_default() += 1;
            self.since_better += 1;
            if evaluation.same_as.is_some() {
                self.repeated += 1;
                self.repeated_in_a_row += 1;
            } else {
                self.repeated_in_a_row = 0;
            }
        }
        let told = told_of(outcome)?;
        let Some(score) = outcome.score.filter(|_| outcome.verdict.is_right()) else {
            // One that was right before is not to be relied on.
            self.right.remove(&evaluation.candidate_number);
            return Some(told);
        };
        if score.dropped {
            return Some(told);
        }
        let ratio = match self.right.get_mut(&evaluation.candidate_number) {
            Some(standing) => {
                standing.measured.push(score.ratio);
                standing.ratio = combined(&standing.measured).unwrap_or(score.ratio);
                standing.ratio
            }
            None => {
                let standing = Standing {
                    number: evaluation.candidate_number,
                    found: evaluation.number,
                    found_at: self.told,
                    candidate: evaluation.candidate.clone(),
                    point: evaluation.point.clone(),
                    variant: evaluation.variant,
                    measured: vec![score.ratio],
                    ratio: score.ratio,
                    noise: score.noise,
                    image: outcome
                        .code
                        .as_ref()
                        .map_or_else(String::new, |code| code.image.clone()),
                };
                self.right.insert(evaluation.candidate_number, standing);
                score.ratio
            }
        };
        let best = self.best().map_or(ratio.median, |best| best.ratio.median);
        let step = 1.0 - score.noise.max(NOTICEABLE);
        if self.mark.is_none_or(|mark| best < mark * step) {
            self.mark = Some(best);
            self.since_better = 0;
        }
        Some(Told::Ratio {
            median: ratio.median,
            low: ratio.low,
            high: ratio.high,
        })
    }

    /// The best candidate: of equal ones the one that was found first.
    #[must_use]
    pub fn best(&self) -> Option<&Standing> {
        self.right.values().min_by(|a, b| better(a, b))
    }

    /// Right candidates that seem faster than the original, best first, each code in each shape once, and of a variant no more
    /// than a few: were it wrong, all of them would be.
    #[must_use]
    pub fn faster(&self) -> Vec<&Standing> {
        let mut all: Vec<&Standing> = self
            .right
            .values()
            .filter(|standing| standing.ratio.median < 1.0)
            .collect();
        all.sort_by(|a, b| better(a, b));
        let mut seen = Vec::new();
        let mut of_variant: BTreeMap<VariantNumber, usize> = BTreeMap::new();
        all.retain(|standing| {
            let what = (&standing.image, &standing.candidate.launch);
            let new = standing.image.is_empty() || !seen.contains(&what);
            if !new {
                return false;
            }
            seen.push(what);
            let Some(variant) = standing.variant else {
                return true;
            };
            let count = of_variant.entry(variant).or_default();
            *count += 1;
            *count <= OF_A_VARIANT
        });
        all
    }

    /// The candidates that are right.
    #[must_use]
    pub fn right(&self) -> usize {
        self.right.len()
    }
}

fn better(a: &Standing, b: &Standing) -> std::cmp::Ordering {
    a.ratio
        .median
        .total_cmp(&b.ratio.median)
        .then(a.found.cmp(&b.found))
}
