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
