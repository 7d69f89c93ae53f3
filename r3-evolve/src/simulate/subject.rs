//! A space whose points are known.

use std::collections::BTreeMap;

use r3_codegen::passes::Random;
use r3_replay::evaluate::Verdict;
use xxhash_rust::xxh3::xxh3_64;

use super::synthetic::Effects;
use crate::space::domain::normal;
use crate::space::{Point, Space};
use crate::strategy::Told;

/// A space, and what comes of its points.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Whether nothing of it was measured.
    pub synthetic: bool,
    /// Where it is from, for people.
    pub about: String,
    /// The space.
    pub space: Space,
    /// What is known of its points.
    pub(super) source: Source,
    /// Standard deviation of a measured ratio's logarithm.
    pub(super) noise: f64,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Points(BTreeMap<Point, Told>),
    Effects(Effects),
    /// A formula, and its least value.
    Function(fn(&Point) -> f64, f64),
}

/// Points that are drawn to learn how values are distributed, where not all are known.
const SAMPLE: usize = 2000;

impl Subject {
    /// What a point is worth; `None` when that is not known.
    #[must_use]
    pub fn truth(&self, point: &Point) -> Option<Told> {
        match &self.source {
            Source::Points(points) => points.get(point).copied(),
            Source::Effects(effects) => Some(effects.of(point)),
            Source::Function(function, _) => Some(Told::exactly(function(point))),
        }
    }

    /// What a strategy is told of it: with noise, where there is some.
    #[must_use]
    pub fn told(&self, point: &Point, seed: u64) -> Told {
        let told = self
            .truth(point)
            .unwrap_or(Told::Invalid(Verdict::Unjudged));
        self.with_noise(told, point, seed)
    }

    /// What is measured of a point of which this is true.
    pub(super) fn with_noise(&self, told: Told, point: &Point, seed: u64) -> Told {
        let Told::Ratio { median, .. } = told else {
            return told;
        };
        if self.noise <= 0.0 {
            return told;
        }
        let text = format!("{seed} {point}");
        let mut random = Random::new(xxh3_64(text.as_bytes()));
        let median = median * (self.noise * normal(&mut random)).exp();
        let width = (2.0 * self.noise).exp();
        Told::Ratio {
            median,
            low: median / width,
            high: median * width,
        }
    }

    /// The least ratio that there is, as far as it is known.
    #[must_use]
    pub fn optimum(&self) -> f64 {
        let points = self.distribution();
        let least = points.iter().copied().fold(f64::INFINITY, f64::min);
        match &self.source {
            Source::Effects(effects) => effects.best(&self.space).min(least),
            Source::Function(_, optimum) => *optimum,
            _ => least,
        }
    }

    /// What points are worth, in no order: all of them, or as many as tell. What is not right is worth infinitely little.
    #[must_use]
    pub fn distribution(&self) -> Vec<f64> {
        let worth = |told: Told| told.ratio().unwrap_or(f64::INFINITY);
        match &self.source {
            Source::Points(points) => points.values().copied().map(worth).collect(),
            _ => {
                let mut random = Random::new(0);
                (0..SAMPLE)
                    .filter_map(|_| self.space.draw(&mut random))
                    .filter_map(|point| self.truth(&point))
                    .map(worth)
                    .collect()
            }
        }
    }

    /// Whether every point of the space's grid is known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Source::Points(points) = &self.source else {
            return true;
        };
        let mut at = None;
        while let Some(point) = self.space.after(at.as_ref()) {
            if !points.contains_key(&point) {
                return false;
            }
            at = Some(point);
        }
        true
    }
}
