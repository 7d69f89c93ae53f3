//! Which stage it is, and how long each took.

use std::time::{Duration, Instant};

use super::failure::Cause;
use crate::recipe::{Failure, Stage};

/// Tells stages and measures them.
pub(super) struct Clock<'a> {
    enter: &'a dyn Fn(Stage),
    times: Vec<(Stage, Duration)>,
}

impl<'a> Clock<'a> {
    /// Nothing has begun.
    pub fn new(enter: &'a dyn Fn(Stage)) -> Self {
        Self {
            enter,
            times: Vec::new(),
        }
    }

    /// Does the work of a stage, or a part of it.
    pub fn stage<T, E: Cause>(
        &mut self,
        stage: Stage,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Failure> {
        (self.enter)(stage);
        let start = Instant::now();
        let outcome = work();
        let time = start.elapsed();
        match self.times.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sum)) => *sum += time,
            None => self.times.push((stage, time)),
        }
        outcome.map_err(|cause| cause.failure(stage))
    }

    /// How long each stage took, in the order in which they began.
    pub fn times(self) -> Vec<(Stage, Duration)> {
        self.times
    }
}
