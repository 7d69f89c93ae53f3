//! What may be claimed.
//!
//! The best of many is partly the luckiest of many. So the best candidates are measured once more, each in a fresh process with
//! many pairs, on all launches, with perturbed inputs and, unless it is set otherwise, with cold and with warm caches. A gain is
//! claimed when
//!
//! - every recorded launch, held out or not, and every perturbed one is right;
//! - the interval excludes 1.0, corrected for as many candidates as there are (Holm), in every regime;
//! - the gain is greater than the noise: 1 %, the original against itself, and what the original seems to gain when it is
//!   measured in the same way (the control);
//! - it is greater than what is worth claiming: 3 %, or 10 % for kernels of less than 10 µs;
//! - no held-out launch became slower beyond the noise.
//!
//! A device that counts has no noise: there, any gain of 0.1 % is one.

use std::time::Duration;

use r3_archive::model::LaunchId;
use r3_replay::evaluate::engine::Prepared;
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::{Candidate, Outcome, Plan, Verdict};
use r3_replay::remix::pairs::Ratio;
use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::jobs::Jobs;
use super::progress::{Progress, Watch};
use super::standing::Standing;
use super::statistics::{CONFIDENCE, holm};
use super::{Choice, Settings, TuneError};
use crate::store::{
    CandidateNumber, Evaluation, EvaluationNumber, NewEvaluation, Phase, Reason, State, Store,
};

mod claim;

use claim::{held_out, of_all_regimes, refusal};

/// Least noise that is assumed on a device that measures.
const FLOOR: f64 = 0.01;
/// Gain that is worth claiming.
const THRESHOLD: f64 = 0.03;
/// The same for kernels of less than [`SHORT`].
const THRESHOLD_SHORT: f64 = 0.10;
/// The same on a device that counts: what counts as a difference there at all.
const THRESHOLD_COUNTED: f64 = 0.001;
/// In nanoseconds.
const SHORT: f64 = 10_000.0;
/// Candidates that are measured at length when somebody stopped the search and waits.
const IN_A_HURRY: usize = 3;

/// A finalist and what is said of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// Its candidate's number.
    pub number: CandidateNumber,
    /// The evaluation.
    pub evaluation: EvaluationNumber,
    /// Its verdict.
    pub verdict: Verdict,
    /// Its time as a part of the original's, in the regime in which it gains least; corrected interval. `None` when it was not
    /// timed.
    pub ratio: Option<Ratio>,
    /// Probability of such times, were it as fast as the original, corrected.
    pub probability: f64,
    /// Held-out launches.
    pub held_out: Vec<HeldOutResult>,
    /// Why nothing is claimed for it. `None`: its gain may be claimed.
    pub refused: Option<String>,
}

/// A held-out launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutResult {
    /// The launch.
    pub launch: LaunchId,
    /// Whether the candidate is right there. `Guarded`: the original would run.
    pub verdict: Verdict,
    /// Its time there as a part of the original's, in the worse regime; `None` when it was not timed.
    pub ratio: Option<f64>,
}

/// What came of the finals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finals {
    /// All finalists, as the search had ranked them.
    pub finalists: Vec<Finalist>,
    /// The best whose gain may be claimed: its place among them.
    pub winner: Option<usize>,
    /// The original, measured like them: its time as a part of its own.
    pub control: Option<Ratio>,
    /// The source as it was given, measured like them. `None` where there is none, and where it was not right.
    #[serde(default)]
    pub given: Option<Ratio>,
    /// No gain below this is one.
    pub floor: f64,
    /// No gain below this is claimed.
    pub threshold: f64,
}

/// Measures the best candidates and judges them.
pub(super) struct Final<'a> {
    pub store: &'a mut Store,
    pub settings: &'a Settings,
    pub choice: &'a Choice,
    pub prepared: &'a [Prepared],
    pub clock: &'a dyn Clock,
    pub counts: bool,
    pub round: i64,
    pub hurry: bool,
    /// The original, as a candidate.
    pub original: Candidate,
    /// The source as it was given, as a candidate.
    pub given: Option<Candidate>,
}

impl Final<'_> {
    /// Measures those that seem faster, best first.
    pub fn run(
        self,
        faster: &[&Standing],
        jobs: &mut Jobs<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Finals, TuneError> {
        let mut rows: Vec<Evaluation> = self.rows()?;
        if rows.is_empty() {
            let new = self.wanted(faster);
            if new.iter().any(|one| one.reason == Reason::Finalist) {
                let at = self.clock.unix();
                let numbers = self.store.ask(Phase::Final, self.round, 0, at, &new)?;
                rows = self.store.rows(&numbers)?;
            }
        }
        evaluate(self.store, &mut rows, self.clock, jobs, watch)?;
        for row in &mut rows {
            let number = row.number;
            if let Some(outcome) = &mut row.outcome {
                self.store.with_samples(number, outcome)?;
            }
        }
        Ok(self.judge(&rows))
    }

    fn rows(&self) -> Result<Vec<Evaluation>, TuneError> {
        let mut rows = self.store.evaluations(Some(Phase::Final))?;
        rows.retain(|row| row.round == self.round);
        Ok(rows)
    }

    /// The control and the finalists.
    fn wanted(&self, faster: &[&Standing]) -> Vec<NewEvaluation> {
        let fine = &self.settings.fine;
        let most = if self.hurry { IN_A_HURRY } else { fine.top };
        let (count, plan) = self.extent(faster.len().min(most));
        let baseline = |candidate: &Candidate, reason: Reason| NewEvaluation {
            candidate: candidate.clone(),
            point: None,
            plan: plan.clone(),
            reason,
            parent: None,
        };
        let given = self.given.iter();
        let baselines = std::iter::once(baseline(&self.original, Reason::Control))
            .chain(given.map(|given| baseline(given, Reason::Given)));
        let finalists = faster.iter().take(count).map(|standing| NewEvaluation {
            candidate: standing.candidate.clone(),
            point: standing.point.clone(),
            plan: plan.clone(),
            reason: Reason::Finalist,
            parent: None,
        });
        baselines.chain(finalists).collect()
    }

    /// How many candidates, and how thoroughly: where the kernel is long, fewer, then with fewer pairs.
    fn extent(&self, count: usize) -> (usize, Plan) {
        let fine = &self.settings.fine;
        let mut plan = Plan {
            launches: self.choice.tuned.clone(),
            held_out: self.choice.held_out.clone(),
            perturbed: fine.perturbed,
            least_pairs: fine.final_pairs,
            most_pairs: fine.final_pairs,
            warmup_pairs: fine.final_warmup,
            again: true,
            allowed: self.settings.allowed.clone(),
            ..Plan::final_claim()
        };
        if let Some(regime) = self.settings.regime {
            plan.regime = regime;
        }
        let mut count = count;
        if self.counts {
            return (count, plan);
        }
        let launches = |id: LaunchId| self.prepared.iter().find(|one| one.launch == id);
        let of_all = self.choice.tuned.iter().map(|one| one.launch);
        let pair: f64 = of_all
            .chain(self.choice.held_out.iter().copied())
            .filter_map(launches)
            .map(|one| 2.0 * one.original / 1e9)
            .sum();
        let regimes = if plan.regime == Regime::Both {
            2.0
        } else {
            1.0
        };
        let baselines = if self.given.is_some() { 2 } else { 1 };
        let seconds = |count: usize, plan: &Plan| {
            let pairs = plan.least_pairs + plan.warmup_pairs;
            (count + baselines) as f64 * f64::from(pairs) * regimes * pair
        };
        while count > IN_A_HURRY && seconds(count, &plan) > fine.final_seconds {
            count -= 1;
        }
        while plan.least_pairs > 20 && seconds(count, &plan) > fine.final_seconds {
            plan.least_pairs = (plan.least_pairs * 3 / 4).max(20);
            plan.warmup_pairs = plan.warmup_pairs.min(plan.least_pairs / 2);
        }
        plan.most_pairs = plan.least_pairs;
        (count, plan)
    }

    fn judge(&self, rows: &[Evaluation]) -> Finals {
        let of_baseline = |reason: Reason| {
            let mut rows = rows.iter().filter(|row| row.reason == reason);
            let row = rows.next()?;
            let outcome = row.outcome.as_ref().filter(|one| one.verdict.is_right())?;
            of_all_regimes(outcome, &row.plan, CONFIDENCE).map(|(ratio, _)| ratio)
        };
        let control_ratio = of_baseline(Reason::Control);
        let finalists: Vec<(&Evaluation, &Outcome)> = rows
            .iter()
            .filter(|row| row.reason == Reason::Finalist)
            .filter_map(|row| Some((row, row.outcome.as_ref()?)))
            .collect();
        let noise = finalists
            .iter()
            .filter_map(|(_, outcome)| Some(outcome.score?.noise))
            .fold(0.0, f64::max);
        let floor = if self.counts {
            0.0
        } else {
            let apparent = control_ratio.map_or(0.0, |ratio| (ratio.median - 1.0).abs());
            FLOOR.max(noise).max(apparent)
        };
        let threshold = self.settings.fine.threshold.unwrap_or_else(|| {
            if self.counts {
                THRESHOLD_COUNTED
            } else if self.original() < SHORT {
                THRESHOLD_SHORT
            } else {
                THRESHOLD
            }
        });
        let probabilities: Vec<f64> = finalists
            .iter()
            .map(|(row, outcome)| {
                of_all_regimes(outcome, &row.plan, CONFIDENCE)
                    .map_or(1.0, |(_, probability)| probability)
            })
            .collect();
        let corrected = holm(&probabilities);
        let confidence = 1.0 - (1.0 - CONFIDENCE) / finalists.len().max(1) as f64;
        let judged: Vec<Finalist> = finalists
            .iter()
            .zip(&corrected)
            .map(|((row, outcome), probability)| {
                let ratio = of_all_regimes(outcome, &row.plan, confidence).map(|(ratio, _)| ratio);
                let held_out = held_out(outcome);
                let mut finalist = Finalist {
                    number: row.candidate_number,
                    evaluation: row.number,
                    verdict: outcome.verdict,
                    ratio,
                    probability: *probability,
                    held_out,
                    refused: None,
                };
                finalist.refused = refusal(&finalist, outcome, floor, threshold)
                    .or_else(|| finalist.fails_elsewhere(floor));
                finalist
            })
            .collect();
        let mut finals = Finals {
            finalists: judged,
            winner: None,
            control: control_ratio,
            given: of_baseline(Reason::Given),
            floor,
            threshold,
        };
        finals.choose();
        finals
    }

    /// The original's time over the launches that decide, in nanoseconds.
    fn original(&self) -> f64 {
        super::original_time(self.choice, self.prepared)
    }
}

/// Evaluates rows that have no outcome yet.
pub(crate) fn evaluate(
    store: &mut Store,
    rows: &mut [Evaluation],
    clock: &dyn Clock,
    jobs: &mut Jobs<'_>,
    watch: &mut dyn Watch,
) -> Result<(), TuneError> {
    for row in rows.iter().filter(|row| row.outcome.is_none()) {
        if row.same_as.is_none() {
            jobs.add(row, 10);
        }
    }
    let began = clock.now();
    let mut unjudged: Vec<(EvaluationNumber, Outcome)> = Vec::new();
    while !jobs.is_empty() {
        if watch.leave() {
            return Err(TuneError::Left);
        }
        for (number, outcome) in jobs.step(Duration::from_millis(100), watch)? {
            if outcome.verdict == Verdict::Unjudged {
                unjudged.push((number, outcome));
                continue;
            }
            store.done(number, &outcome, clock.unix())?;
            if let Some(row) = rows.iter_mut().find(|row| row.number == number) {
                row.state = State::Done;
                row.outcome = Some(outcome);
            }
        }
        let done = rows.iter().filter(|row| row.outcome.is_some()).count();
        watch.progress(&Progress {
            phase: rows.first().map_or(Phase::Final, |row| row.phase),
            done: done as u64,
            of: Some(rows.len() as u64),
            under_way: jobs.len() as u64,
            failed: Vec::new(),
            best: None,
            rate: done as f64 / (clock.now() - began).max(1e-9),
            left: None,
            compilers: 0.0,
            devices: 0.0,
        });
    }
    if !unjudged.is_empty() && rows.first().is_some_and(|row| row.phase == Phase::Final) {
        let judged = |row: &Evaluation| row.outcome.is_some();
        let control = rows.iter().find(|row| row.reason == Reason::Control);
        // Where not even the original can be judged nothing was found out, and nothing is told of candidates: what has no
        // outcome is measured again by who goes on with the run.
        if control.is_some_and(|row| !judged(row)) || !rows.iter().any(judged) {
            let reason = unjudged
                .first()
                .and_then(|(_, outcome)| outcome.reason.clone());
            return Err(TuneError::Machine {
                count: unjudged.len() as u64,
                reason: reason.unwrap_or_else(|| "no reason was given".into()),
            });
        }
    }
    for (number, outcome) in unjudged {
        store.done(number, &outcome, clock.unix())?;
        if let Some(row) = rows.iter_mut().find(|row| row.number == number) {
            row.state = State::Done;
            row.outcome = Some(outcome);
        }
    }
    let shared: Vec<(usize, EvaluationNumber)> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.outcome.is_none())
        .filter_map(|(place, row)| Some((place, row.same_as?)))
        .collect();
    for (place, other) in shared {
        let outcome = store
            .rows(&[other])?
            .into_iter()
            .next()
            .and_then(|row| row.outcome);
        if let Some(row) = rows.get_mut(place) {
            row.outcome = outcome;
        }
    }
    Ok(())
}

impl Finals {
    /// The winner is the best of those that nothing is said against.
    pub(super) fn choose(&mut self) {
        let claimed = self
            .finalists
            .iter()
            .enumerate()
            .filter(|(_, finalist)| finalist.refused.is_none())
            .filter_map(|(place, finalist)| Some((place, finalist.ratio?.median)));
        self.winner = claimed
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(place, _)| place);
    }
}

impl Finalist {
    /// Why launches that did not decide speak against it.
    pub(super) fn fails_elsewhere(&self, floor: f64) -> Option<String> {
        let floor = floor.max(THRESHOLD_COUNTED);
        for held_out in &self.held_out {
            if !matches!(held_out.verdict, Verdict::Right | Verdict::Guarded) {
                return Some(format!(
                    "on held-out launch {} it is {}",
                    held_out.launch,
                    held_out.verdict.word()
                ));
            }
            if let Some(ratio) = held_out.ratio
                && ratio > 1.0 + floor
            {
                return Some(format!(
                    "on held-out launch {} it takes {ratio:.3} of the original's time",
                    held_out.launch
                ));
            }
        }
        None
    }
}
