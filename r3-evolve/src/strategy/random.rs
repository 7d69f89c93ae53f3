//! Points at random.

use std::collections::BTreeSet;

use r3_codegen::passes::Random;

use super::{Strategy, Told};
use crate::space::{Point, Space};

/// Random search: the original first, then points that are drawn evenly.
#[derive(Debug)]
pub struct RandomSearch {
    space: Space,
    random: Random,
    seen: BTreeSet<Point>,
}

/// Points in a row that were seen before, after which all that are left are looked for one by one.
const MISSES: usize = 200;

impl RandomSearch {
    /// With a seed.
    #[must_use]
    pub fn new(space: Space, seed: u64) -> Self {
        Self {
            space,
            random: Random::new(seed),
            seen: BTreeSet::new(),
        }
    }

    fn next(&mut self) -> Option<Point> {
        if self.seen.is_empty() {
            let original = self.space.original();
            if self.space.has(&original) {
                return Some(original);
            }
        }
        for _ in 0..MISSES {
            let point = self.space.draw(&mut self.random)?;
            if !self.seen.contains(&point) {
                return Some(point);
            }
        }
        self.space.unseen(&self.seen, &mut self.random)
    }
}

impl Strategy for RandomSearch {
    fn ask(&mut self, n: usize) -> Vec<Point> {
        let mut points = Vec::new();
        while points.len() < n {
            let Some(point) = self.next() else { break };
            self.seen.insert(point.clone());
            points.push(point);
        }
        points
    }

    fn tell(&mut self, point: &Point, _: Told) {
        self.seen.insert(point.clone());
    }
}
