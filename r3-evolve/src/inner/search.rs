//! What is evaluated for a variant.

use r3_replay::evaluate::{Candidate, Outcome};
use r3_replay::remix::pairs::Ratio;

use crate::space::{CandidateError, Point, Space};
use crate::strategy::{Bayesian, Prior, Strategy, Told};
use crate::tune::told_of;

/// The best configuration of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Where it is in the variant's space.
    pub point: Point,
    /// What it is.
    pub candidate: Candidate,
    /// Its time as a part of the original's.
    pub ratio: Ratio,
    /// No ratio nearer to 1 than this is a difference.
    pub noise: f64,
    /// Whether its race was given up: it is known to be slow, and not how slow.
    pub dropped: bool,
    /// Hash of its code; empty when that is not said.
    pub image: String,
}

/// Evaluations that are asked for at once, after the screen: the strategy is told of all of them before it proposes others.
pub const BATCH: usize = 4;

/// A variant's search.
#[derive(Debug)]
pub struct Inner {
    space: Space,
    base: Candidate,
    strategy: Bayesian,
    screen: Vec<Point>,
    best: Option<Found>,
}

impl Inner {
    /// A search for a variant, which is `base` as its text and its directive say, in its [space](Space::of_source). `start` are
    /// points of its parents, the best first: what of them means something in its space is tried.
    #[must_use]
    pub fn new(mut space: Space, base: Candidate, start: &[Point], seed: u64) -> Self {
        let screen = space.begin_with(start);
        let prior = Prior::of(&space);
        Self {
            strategy: Bayesian::new(space.clone(), prior, seed),
            space,
            base,
            screen,
            best: None,
        }
    }

    /// The first evaluations: as the text says; as the best of the parents; and, where the text wishes another launch, as the
    /// application launches.
    pub fn screen(&self) -> Result<Vec<(Point, Candidate)>, CandidateError> {
        self.candidates(self.screen.clone())
    }

    /// The next evaluations, at most `n`, none of which was told before. Fewer when the space has no more. More than [`BATCH`] at
    /// once are chosen without knowing of each other.
    pub fn ask(&mut self, n: usize) -> Result<Vec<(Point, Candidate)>, CandidateError> {
        let points = self.strategy.ask(n);
        self.candidates(points)
    }

    fn candidates(&self, points: Vec<Point>) -> Result<Vec<(Point, Candidate)>, CandidateError> {
        points
            .into_iter()
            .map(|point| {
                let candidate = self.space.candidate_of(&self.base, &point)?;
                Ok((point, candidate))
            })
            .collect()
    }

    /// What came of a point, as a strategy is told it.
    pub(crate) fn told(&mut self, point: &Point, told: Told) {
        if self.space.has(point) {
            self.strategy.tell(point, told);
        }
    }

    /// What came of a point, whoever asked for it. To be told in an order that does not depend on time.
    pub fn tell(&mut self, point: &Point, outcome: &Outcome) {
        let Some(told) = told_of(outcome) else { return };
        if !self.space.has(point) {
            return;
        }
        self.told(point, told);
        let (Told::Ratio { median, .. }, Some(score)) = (told, outcome.score) else {
            return;
        };
        let worth = |dropped: bool, median: f64| (u8::from(dropped), median);
        let better = self.best.as_ref().is_none_or(|best| {
            worth(score.dropped, median) < worth(best.dropped, best.ratio.median)
        });
        let Some(candidate) = Some(point)
            .filter(|_| better)
            .and_then(|point| self.space.candidate_of(&self.base, point).ok())
        else {
            return;
        };
        self.best = Some(Found {
            point: point.clone(),
            candidate,
            ratio: score.ratio,
            noise: score.noise,
            dropped: score.dropped,
            image: outcome
                .code
                .as_ref()
                .map_or_else(String::new, |code| code.image.clone()),
        });
    }

    /// The best configuration so far; `None` when nothing was right.
    #[must_use]
    pub fn best(&self) -> Option<&Found> {
        self.best.as_ref()
    }

    /// The variant's space.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }
}

#[cfg(test)]
mod tests {
    use r3_replay::evaluate::candidate::{CandidateCode, GridRule, LaunchChange};
    use r3_replay::evaluate::{Plan, Verdict};

    use super::*;
    use crate::space::SpaceOptions;
    use crate::tune::kernel_for_tests;
    use crate::tune::tests::bed::outcome;

    const TEXT: &str = "__global__ void k(float* a, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        for (int j = 0; j < 4; ++j) a[i + j * n] *= 2.0f;
    }";

    fn inner(launch: LaunchChange, start: &[Point]) -> Inner {
        let options = SpaceOptions::default();
        let space = Space::of_source(&kernel_for_tests(), TEXT, &launch, &options).unwrap();
        let base = Candidate {
            code: CandidateCode::Source(Default::default()),
            launch,
            ..Candidate::default()
        };
        Inner::new(space, base, start, 3)
    }

    fn came(candidate: &Candidate, verdict: Verdict, ratio: f64) -> Outcome {
        let ask = crate::tune::Ask {
            candidate: candidate.clone(),
            plan: Plan::default(),
            priority: r3_replay::evaluate::evaluator::Priority(0),
        };
        outcome(&ask, verdict, ratio, 0.001, false)
    }

    fn parent() -> Point {
        Point::from([("block", "128x1x1".into()), ("registers", "max 64".into())])
    }

    #[test]
    fn the_text_as_it_is_comes_first_and_then_what_was_best_for_the_parent() {
        let screen = inner(LaunchChange::default(), &[parent()])
            .screen()
            .unwrap();
        assert_eq!(screen.len(), 2);
        assert_eq!(screen[0].1.build, Default::default());
        assert_eq!(screen[1].1.launch.block, Some([128, 1, 1]));
        assert_eq!(screen[1].1.build.bounds.maxnreg, Some(64));
    }

    #[test]
    fn a_parent_without_a_better_point_costs_no_evaluation() {
        let nothing = Point::default();
        let screen = inner(LaunchChange::default(), &[nothing]).screen().unwrap();
        assert_eq!(screen.len(), 1);
    }

    #[test]
    fn a_text_that_wishes_another_launch_is_tried_with_the_recorded_one_too() {
        let launch = LaunchChange {
            grid: [GridRule::Scale(1, 4), GridRule::Cover, GridRule::Cover],
            ..LaunchChange::default()
        };
        let screen = inner(launch, &[parent()]).screen().unwrap();
        let launches: Vec<_> = screen.iter().map(|(_, one)| one.launch).collect();
        assert_eq!(launches[0], launch);
        // A quarter of the blocks of 256 threads is half of the blocks of 128.
        assert_eq!(launches[1].grid[0], GridRule::Scale(1, 2));
        assert_eq!(launches[2], LaunchChange::default());
    }

    #[test]
    fn the_search_goes_on_from_the_parent_s_point_when_it_is_the_better_one() {
        let mut inner = inner(LaunchChange::default(), &[parent()]);
        for ((point, candidate), ratio) in inner.screen().unwrap().into_iter().zip([1.0, 0.7]) {
            inner.tell(&point, &came(&candidate, Verdict::Right, ratio));
        }
        // The first of the plan's steps change something of it, one at a time.
        let asked = inner.ask(5).unwrap();
        let kept = asked
            .iter()
            .filter(|(point, _)| point.text("registers") == Some("max 64"));
        assert!(kept.count() >= 4, "{asked:?}");
    }

    #[test]
    fn a_search_that_is_built_again_asks_the_same_and_nothing_twice() {
        let told: Vec<(Point, Outcome)> = {
            let mut first = inner(LaunchChange::default(), &[parent()]);
            let mut all = first.screen().unwrap();
            all.extend(first.ask(4).unwrap());
            all.into_iter()
                .map(|(point, candidate)| (point, came(&candidate, Verdict::Right, 0.9)))
                .collect()
        };
        let again = || {
            let mut inner = inner(LaunchChange::default(), &[parent()]);
            for (point, outcome) in &told {
                inner.tell(point, outcome);
            }
            inner.ask(4).unwrap()
        };
        let asked = again();
        assert_eq!(asked, again());
        assert!(
            asked
                .iter()
                .all(|(point, _)| told.iter().all(|(other, _)| other != point))
        );
    }

    #[test]
    fn one_whose_race_was_given_up_is_best_only_as_long_as_there_is_no_other() {
        let mut inner = inner(LaunchChange::default(), &[parent()]);
        let screen = inner.screen().unwrap();
        let mut dropped = came(&screen[0].1, Verdict::Right, 0.5);
        dropped.score.as_mut().unwrap().dropped = true;
        inner.tell(&screen[0].0, &dropped);
        assert!(inner.best().unwrap().dropped);
        inner.tell(&screen[1].0, &came(&screen[1].1, Verdict::Right, 0.9));
        assert_eq!(inner.best().unwrap().ratio.median, 0.9);
    }

    #[test]
    fn what_is_wrong_or_not_judged_is_not_the_best() {
        let mut inner = inner(LaunchChange::default(), &[parent()]);
        let screen = inner.screen().unwrap();
        inner.tell(&screen[0].0, &came(&screen[0].1, Verdict::Wrong, 0.5));
        inner.tell(&screen[1].0, &came(&screen[1].1, Verdict::Unjudged, 0.5));
        assert_eq!(inner.best(), None);
    }
}
