//! What mattered: the winner with each of its knobs set back alone.

use r3_replay::evaluate::{Candidate, Plan, Verdict};
use r3_replay::remix::pairs::Ratio;
use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::finals::evaluate;
use super::jobs::Jobs;
use super::progress::Watch;
use super::{Choice, Settings, TuneError};
use crate::space::{Point, Space};
use crate::store::{CandidateNumber, Evaluation, NewEvaluation, Phase, Reason, Store};

/// Pairs of a comparison.
const PAIRS: u32 = 32;

/// A knob of the winner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mattered {
    /// The knob.
    pub knob: String,
    /// Its value in the winner.
    pub value: String,
    /// The verdict without it.
    pub verdict: Verdict,
    /// Time without it as a part of the original's; `None` when it is not right without it, or was not timed.
    pub without: Option<Ratio>,
    /// What was lost without it: its time without it as a part of that with it. 1 where it made no difference.
    pub loss: Option<f64>,
}

/// Sets each knob back.
pub(super) struct Ablation<'a> {
    pub store: &'a mut Store,
    pub space: &'a Space,
    /// What the space's original is.
    pub base: &'a Candidate,
    pub settings: &'a Settings,
    pub choice: &'a Choice,
    pub clock: &'a dyn Clock,
    pub round: i64,
}

impl Ablation<'_> {
    /// Measures all of them.
    pub fn run(
        self,
        winner: CandidateNumber,
        point: &Point,
        ratio: f64,
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Vec<Mattered>, TuneError> {
        let knobs = self.space.knobs(point);
        let mut rows: Vec<Evaluation> = self.store.evaluations(Some(Phase::Ablation))?;
        rows.retain(|row| row.round == self.round);
        let without: Vec<(String, String, Point)> = knobs
            .into_iter()
            .filter_map(|(knob, value)| {
                let without = self.space.with_original(point, &knob)?;
                Some((knob, value, without))
            })
            .collect();
        if rows.is_empty() && !without.is_empty() {
            let plan = Plan {
                least_pairs: PAIRS,
                most_pairs: PAIRS,
                screen: 0,
                again: true,
                ..super::search_plan(self.settings, self.choice, None)
            };
            let mut new = Vec::new();
            for (knob, _, point) in &without {
                new.push(NewEvaluation {
                    candidate: self.space.candidate_of(self.base, point)?,
                    point: Some(point.clone()),
                    plan: plan.clone(),
                    reason: Reason::Ablation,
                    parent: Some((winner, format!("without {knob}"))),
                });
            }
            let at = self.clock.unix();
            let numbers = self.store.ask(Phase::Ablation, self.round, 0, at, &new)?;
            rows = self.store.rows(&numbers)?;
        }
        evaluate(self.store, &mut rows, self.clock, jobs, watch)?;
        let mattered = without.into_iter().zip(&rows);
        Ok(mattered
            .filter_map(|((knob, value, _), row)| {
                let outcome = row.outcome.as_ref()?;
                let without = outcome
                    .score
                    .filter(|_| outcome.verdict.is_right())
                    .map(|score| score.ratio);
                Some(Mattered {
                    knob,
                    value,
                    verdict: outcome.verdict,
                    without,
                    loss: without.map(|without| without.median / ratio),
                })
            })
            .collect())
    }
}
