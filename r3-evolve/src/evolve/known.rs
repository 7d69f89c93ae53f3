//! What is known of a variant: its configurations, which of them is the best, and which were checked.
//!
//! A configuration that a search found was *screened*: it is right on the launches that decide. It is *checked* when it was right on
//! every launch, held out or not, and with perturbed inputs. A check is one of a configuration, and says nothing of another one:
//! passes, registers and shapes can break what a text has right.
//!
//! Where no configuration of a variant has passed a check, one that fails speaks against the text, and the variant is refused. Where one
//! has passed, a later one that fails is left out, and the next best stands in its place.

use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::{Candidate, Outcome, Verdict};

use super::variant::{IslandNumber, Variant};
use crate::elites::{Described, Seen};
use crate::space::Point;
use crate::store::{CandidateNumber, Evaluation, VariantRow};
use crate::tune::{Standing, told_of};

/// A variant and what is known of it.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it is.
    pub row: VariantRow,
    /// Where it was made.
    pub island: IslandNumber,
    /// Points of its parents that its search begins with.
    pub start: Vec<Point>,
    /// Every configuration that was tried, in the order in which the population was told, without samples.
    pub tried: Vec<(Option<Point>, Outcome)>,
    /// The best configuration that nothing speaks against. Its candidate is [without its text](Self::candidate).
    pub best: Option<Standing>,
    /// The best configuration that was checked, likewise.
    pub checked: Option<Standing>,
    /// What came of it.
    pub outcome: Option<Outcome>,
    /// How the variant came out.
    pub verdict: Verdict,
    /// Why it is not right.
    pub reason: Option<String>,
    /// The rung that it has reached.
    pub rung: u32,
    /// What it is equal to.
    pub equal: Option<Seen>,
    /// What descriptors read.
    pub described: Described,
    /// Its place in the order in which the population was told.
    pub told: i64,
    /// Whether a check speaks against its text.
    refused: bool,
    /// Configurations that are right and were timed, in the order in which they were tried.
    configurations: Vec<Configuration>,
}

/// A configuration that is right and was timed.
#[derive(Clone, Debug)]
struct Configuration {
    standing: Standing,
    /// Whether its race was given up.
    dropped: bool,
    /// Its place among those that were tried.
    at: usize,
    check: Check,
}

/// What a check says of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    None,
    Passed,
    Failed,
}

impl Known {
    /// Nothing came of it yet.
    pub(super) fn new(
        row: VariantRow,
        island: IslandNumber,
        start: Vec<Point>,
        equal: Option<Seen>,
        described: Described,
        told: i64,
    ) -> Self {
        Self {
            row,
            island,
            start,
            tried: Vec::new(),
            best: None,
            checked: None,
            outcome: None,
            verdict: Verdict::Unjudged,
            reason: None,
            rung: 0,
            equal,
            described,
            told,
            refused: false,
            configurations: Vec::new(),
        }
    }

    /// Whether those knew of it who began when so many slots had been told.
    pub(super) fn told_before(&self, after: i64) -> bool {
        self.told < after
    }

    /// Text and launch.
    #[must_use]
    pub fn variant(&self) -> Variant {
        Variant {
            text: self.row.text.clone(),
            launch: self.row.launch,
        }
    }

    /// A configuration as it is evaluated. Those that are kept have no text: of thousands of variants it would be there many times.
    #[must_use]
    pub fn candidate(&self, standing: &Standing) -> Candidate {
        let mut candidate = standing.candidate.clone();
        if let CandidateCode::Source(source) = &mut candidate.code {
            source.text.clone_from(&self.row.text);
        }
        candidate
    }

    /// Whether it can be a parent.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.verdict.is_right() && self.best.is_some()
    }

    /// Whether a check speaks against its text.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether its best configuration was checked.
    #[must_use]
    pub fn is_checked(&self) -> bool {
        let number = |one: &Option<Standing>| one.as_ref().map(|one| one.number);
        self.best.is_some() && number(&self.best) == number(&self.checked)
    }

    /// Whether a check speaks against a configuration, or against all of them.
    #[must_use]
    pub fn speaks_against(&self, candidate: CandidateNumber) -> bool {
        let failed =
            |one: &Configuration| one.standing.number == candidate && one.check == Check::Failed;
        self.refused || self.configurations.iter().any(failed)
    }

    /// What came of a configuration that is right.
    #[must_use]
    pub fn outcome_of(&self, candidate: CandidateNumber) -> Option<&Outcome> {
        let mut all = self.configurations.iter();
        let found = all.find(|one| one.standing.number == candidate)?;
        self.tried.get(found.at).map(|(_, outcome)| outcome)
    }

    /// The time of its best configuration, where a check of it is worth something: one whose race was given up is no best one.
    #[must_use]
    pub(super) fn unchecked(&self) -> Option<f64> {
        if !self.is_right() || self.is_checked() || self.equal.is_some() {
            return None;
        }
        let dropped = self.outcome.as_ref()?.score?.dropped;
        (!dropped).then_some(self.best.as_ref()?.ratio.median)
    }

    /// Takes in what came of a configuration. `place`: evaluations of the run so far.
    pub(super) fn take(&mut self, step: &Evaluation, outcome: Outcome, place: u64) {
        let first = self.tried.is_empty();
        let at = self.tried.len();
        if told_of(&outcome).is_some() || first {
            let score = outcome.score.filter(|_| outcome.verdict.is_right());
            if let Some(score) = score {
                let mut candidate = step.candidate.clone();
                if let CandidateCode::Source(source) = &mut candidate.code {
                    source.text = String::new();
                }
                let standing = Standing {
                    number: step.candidate_number,
                    found: step.number,
                    found_at: place,
                    candidate,
                    point: step.point.clone(),
                    measured: vec![score.ratio],
                    ratio: score.ratio,
                    noise: score.noise,
                    image: outcome
                        .code
                        .as_ref()
                        .map_or_else(String::new, |code| code.image.clone()),
                    variant: Some(self.row.number),
                };
                self.add(standing, score.dropped, at);
            } else {
                self.fails(&outcome, first);
            }
        }
        self.tried.push((step.point.clone(), outcome));
        self.settle();
    }

    fn fails(&mut self, outcome: &Outcome, first: bool) {
        let unknown = matches!(self.verdict, Verdict::Unjudged | Verdict::Cancelled);
        if self.refused || self.best.is_some() || !(first || unknown) {
            return;
        }
        self.verdict = match outcome.verdict {
            // Right, and nobody could say how fast.
            Verdict::Right => Verdict::CannotRun,
            verdict => verdict,
        };
        self.reason = outcome.reason.clone();
        self.outcome = Some(outcome.clone());
    }

    fn add(&mut self, standing: Standing, dropped: bool, at: usize) {
        let number = standing.number;
        let known = self
            .configurations
            .iter_mut()
            .find(|one| one.standing.number == number);
        match known {
            Some(known) => {
                let new = (u8::from(dropped), standing.ratio.median);
                let old = (u8::from(known.dropped), known.standing.ratio.median);
                if new < old {
                    (known.standing, known.dropped, known.at) = (standing, dropped, at);
                }
            }
            None => self.configurations.push(Configuration {
                standing,
                dropped,
                at,
                check: Check::None,
            }),
        }
    }

    /// Takes in what came of a configuration's check. Whether that changes anything.
    pub(super) fn check(&mut self, candidate: CandidateNumber, outcome: &Outcome) -> bool {
        let check = match outcome.verdict {
            Verdict::Right => Check::Passed,
            // Says nothing of the variant: it may be checked again.
            Verdict::Unjudged | Verdict::Cancelled => return false,
            _ => Check::Failed,
        };
        let any = |one: &Configuration| one.check == Check::Passed;
        if check == Check::Failed && !self.configurations.iter().any(any) {
            self.refused = true;
            self.verdict = outcome.verdict;
            self.reason = outcome.reason.clone();
        }
        let found = self
            .configurations
            .iter_mut()
            .find(|one| one.standing.number == candidate);
        if let Some(found) = found {
            found.check = check;
        }
        self.settle();
        true
    }

    /// Finds the best configurations.
    fn settle(&mut self) {
        if self.refused {
            self.checked = None;
            return;
        }
        // Of equal ones the first that was tried.
        let best = |wanted: fn(&&Configuration) -> bool| {
            let all = self.configurations.iter().filter(wanted);
            all.min_by(|a, b| {
                let time = |one: &Configuration| one.standing.ratio.median;
                let by_race = a.dropped.cmp(&b.dropped);
                by_race.then(time(a).total_cmp(&time(b)))
            })
        };
        let Some(first) = best(|one| one.check != Check::Failed) else {
            return;
        };
        let checked = best(|one| one.check == Check::Passed && !one.dropped);
        let checked = checked.map(|one| one.standing.clone());
        let outcome = self.tried.get(first.at).map(|(_, outcome)| outcome.clone());
        let found = first.standing.clone();
        self.verdict = Verdict::Right;
        self.reason = None;
        self.outcome = outcome;
        self.best = Some(found);
        self.checked = checked;
    }
}

#[cfg(test)]
mod tests {
    use r3_replay::evaluate::Plan;
    use r3_replay::evaluate::evaluator::Priority;

    use super::*;
    use crate::evolve::variant::{Lineage, Operator, VariantNumber};
    use crate::store::{EvaluationNumber, Phase, Reason, State};
    use crate::tune::Ask;
    use crate::tune::tests::bed::outcome;

    fn known() -> Known {
        let row = VariantRow {
            number: VariantNumber(2),
            slot: 1,
            turn: 0,
            text: "text".into(),
            fingerprint: String::new(),
            launch: Default::default(),
            lineage: Lineage {
                operator: Operator::Rewrite,
                parents: vec![VariantNumber(1)],
                island: IslandNumber(0),
                by: "unroll".into(),
                what: String::new(),
            },
            made_at: 0.0,
            embedding: None,
        };
        Known::new(
            row,
            IslandNumber(0),
            Vec::new(),
            None,
            Described::default(),
            1,
        )
    }

    fn came(verdict: Verdict, ratio: f64) -> Outcome {
        let ask = Ask {
            candidate: Candidate::default(),
            plan: Plan::default(),
            priority: Priority(0),
        };
        outcome(&ask, verdict, ratio, 0.0, true)
    }

    fn take(known: &mut Known, candidate: i64, verdict: Verdict, ratio: f64) {
        let step = Evaluation {
            number: EvaluationNumber(candidate),
            candidate_number: CandidateNumber(candidate),
            candidate: Candidate {
                code: CandidateCode::Source(Default::default()),
                ..Candidate::default()
            },
            point: None,
            phase: Phase::Search,
            round: 0,
            batch: 0,
            reason: Reason::Proposed,
            plan: Plan::default(),
            same_as: None,
            state: State::Done,
            outcome: None,
            told: None,
            asked_at: 0.0,
            done_at: None,
            variant: Some(VariantNumber(2)),
            of: None,
        };
        known.take(&step, came(verdict, ratio), 0);
    }

    fn numbers(known: &Known) -> (Option<i64>, Option<i64>) {
        let number = |one: &Option<Standing>| one.as_ref().map(|one| one.number.0);
        (number(&known.best), number(&known.checked))
    }

    #[test]
    fn a_check_is_one_of_a_configuration_and_a_better_one_has_to_pass_its_own() {
        let mut known = known();
        take(&mut known, 1, Verdict::Right, 0.9);
        assert!(known.check(CandidateNumber(1), &came(Verdict::Right, 1.0)));
        assert!(known.is_checked() && known.unchecked().is_none());
        take(&mut known, 2, Verdict::Right, 0.8);
        assert_eq!(numbers(&known), (Some(2), Some(1)));
        assert_eq!((known.is_checked(), known.unchecked()), (false, Some(0.8)));
        known.check(CandidateNumber(2), &came(Verdict::Right, 1.0));
        assert_eq!(numbers(&known), (Some(2), Some(2)));
    }

    #[test]
    fn a_configuration_that_fails_its_check_gives_way_where_another_one_has_passed() {
        let mut known = known();
        take(&mut known, 1, Verdict::Right, 0.9);
        known.check(CandidateNumber(1), &came(Verdict::Right, 1.0));
        take(&mut known, 2, Verdict::Right, 0.8);
        known.check(CandidateNumber(2), &came(Verdict::Wrong, 1.0));
        assert_eq!(numbers(&known), (Some(1), Some(1)));
        assert!(known.is_right() && known.speaks_against(CandidateNumber(2)));
        assert!(!known.speaks_against(CandidateNumber(1)));
        // It stays out, however often it is measured.
        take(&mut known, 2, Verdict::Right, 0.7);
        assert_eq!(numbers(&known), (Some(1), Some(1)));
    }

    #[test]
    fn a_variant_that_failed_its_first_check_stays_refused_whatever_is_told_of_it_later() {
        let mut known = known();
        take(&mut known, 1, Verdict::Right, 0.9);
        known.check(CandidateNumber(1), &came(Verdict::Wrong, 1.0));
        // A promotion that was under way finds something better.
        take(&mut known, 2, Verdict::Right, 0.5);
        assert!(!known.is_right() && known.is_refused());
        assert_eq!((known.verdict, numbers(&known).1), (Verdict::Wrong, None));
        assert_eq!(known.unchecked(), None);
    }

    #[test]
    fn what_the_machine_could_not_check_may_be_checked_again() {
        let mut known = known();
        take(&mut known, 1, Verdict::Right, 0.9);
        assert!(!known.check(CandidateNumber(1), &came(Verdict::Unjudged, 1.0)));
        assert_eq!(known.unchecked(), Some(0.9));
    }

    #[test]
    fn what_is_kept_of_a_configuration_has_no_text_and_what_is_evaluated_has() {
        let mut known = known();
        take(&mut known, 1, Verdict::Right, 0.9);
        let best = known.best.clone().unwrap();
        let text = |candidate: &Candidate| match &candidate.code {
            CandidateCode::Source(source) => source.text.clone(),
            _ => panic!("no source"),
        };
        assert_eq!(text(&best.candidate), "");
        assert_eq!(text(&known.candidate(&best)), "text");
    }
}
