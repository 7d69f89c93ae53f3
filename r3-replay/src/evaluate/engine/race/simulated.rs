//! A device made of numbers: noise that is known, so that what a race says of it can be told right from wrong.

use std::convert::Infallible;
use std::time::Duration;

use super::super::keys::Keys;
use super::{Clocks, Raced, Rules, Side, Track, race, rounds};
use crate::evaluate::engine::noise;
use crate::evaluate::outcome::Sample;

/// What disturbs times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disturbance {
    /// Standard deviation of the logarithm of a time.
    pub jitter: f64,
    /// How often a run is far slower.
    pub outliers: f64,
    /// Both codes become slower by this much over 1000 runs.
    pub drift: f64,
    /// The device goes into a slow mode, and out of it, with this probability at each run.
    pub switching: f64,
    /// How much slower that mode is.
    pub slow: f64,
    /// The mode holds for the original alone: what went wrong on a shared GPU.
    pub unfair: bool,
}

/// Launches with true times, and noise.
pub struct Simulated {
    /// The original's true times.
    pub original: Vec<f64>,
    /// The candidate's.
    pub candidate: Vec<f64>,
    pub disturbance: Disturbance,
    pub chance: Keys,
    pub runs: u32,
    /// Launch, code, and whether the run was verified.
    pub log: Vec<(usize, Side, bool)>,
    pub elsewhere: u32,
    pub clocks: Vec<u32>,
    pub paused: Vec<Duration>,
    slow: bool,
}

impl Simulated {
    pub fn new(original: &[f64], ratio: f64, disturbance: Disturbance, seed: u64) -> Self {
        Self {
            original: original.to_vec(),
            candidate: original.iter().map(|time| time * ratio).collect(),
            disturbance,
            chance: Keys::new(Some(seed)),
            runs: 0,
            log: Vec::new(),
            elsewhere: 0,
            clocks: Vec::new(),
            paused: Vec::new(),
            slow: false,
        }
    }

    /// A number of the standard normal distribution.
    fn normal(&mut self) -> f64 {
        let (one, other) = (1.0 - self.chance.fraction(), self.chance.fraction());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// A race with these rules.
    pub fn race(&mut self, rules: &Rules, seed: u64) -> Raced {
        let mut keys = Keys::new(Some(seed));
        let Ok(raced) = race(self, &mut keys, &mut Clocks::default(), rules);
        raced.expect("there are pairs")
    }

    /// The floor of the original against itself, as an engine finds it.
    pub fn floor(&mut self, pairs: u32) -> f64 {
        let candidate = std::mem::replace(&mut self.candidate, self.original.clone());
        let mut keys = Keys::new(Some(self.chance.key()));
        let mut loads: Vec<Vec<Sample>> = Vec::new();
        for _ in 0..noise::LOADS {
            let rules = rules(1, pairs / noise::LOADS);
            let mut clocks = Clocks::default();
            let Ok(samples) = rounds(self, &mut keys, &mut clocks, &rules);
            loads.push(samples.concat());
        }
        self.candidate = candidate;
        noise::floor(&loads).expect("there are pairs")
    }
}

impl Track for Simulated {
    type Stop = Infallible;

    fn time(
        &mut self,
        launch: usize,
        side: Side,
        _cold: bool,
        check: bool,
    ) -> Result<f64, Infallible> {
        self.runs += 1;
        self.log.push((launch, side, check));
        let d = self.disturbance;
        let mut time = match side {
            Side::Original => self.original[launch],
            Side::Candidate => self.candidate[launch],
        };
        time *= (d.jitter * self.normal()).exp();
        if self.chance.fraction() < d.outliers {
            time *= 1.2 + self.chance.fraction();
        }
        time *= 1.0 + d.drift * f64::from(self.runs) / 1000.0;
        if self.chance.fraction() < d.switching {
            self.slow = !self.slow;
        }
        if self.slow && (side == Side::Original || !d.unfair) {
            time *= d.slow;
        }
        Ok(time)
    }

    fn elsewhere(&mut self, _launch: usize) -> Result<(), Infallible> {
        self.elsewhere += 1;
        Ok(())
    }

    fn clock(&mut self) -> Option<u32> {
        self.clocks.pop()
    }

    fn pause(&mut self, time: Duration) {
        self.paused.push(time);
    }
}

/// Rules of a search for so many launches, with so many rounds at least; 32 at most.
pub fn rules(launches: usize, least: u32) -> Rules {
    Rules {
        weights: vec![1.0; launches],
        cold: false,
        counts: false,
        screen: 3,
        drop_ratio: 2.0,
        least,
        most: least.max(32),
        warmup: 1,
        incumbent: None,
    }
}
