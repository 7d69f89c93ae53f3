//! Which model is asked: by whether devices stand idle, and by what paid.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings::{Part, Settings};

/// For how long the device that has waited longest has had nothing to do; `None` when all are busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle(pub Option<Duration>);

/// A model was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its name in the settings.
    pub model: String,
    /// For which part.
    pub part: Part,
    /// Whether a device had been idle beyond the threshold. What a clock decided once is stored, and taken from there on going on.
    pub idle: bool,
}

/// Chooses models. A function of the settings, the seed, and of what it is told in which order.
#[derive(Clone, Debug)]
pub struct Chooser {
    _seed: u64,
}

impl Chooser {
    /// For the models of some settings.
    pub fn new(_settings: &Settings, seed: u64) -> Self {
        Self { _seed: seed }
    }

    /// Whether devices have been idle beyond the threshold: the one thing here that a clock decides.
    pub fn is_idle(&self, _idle: Idle) -> bool {
        todo!()
    }

    /// A model for slot `slot` of island `island`. `usable` says which models' services are up, so that another one takes over in an
    /// outage; `None` where there is no model at all.
    pub fn choose(
        &self,
        _idle: bool,
        _slot: u64,
        _usable: &dyn Fn(&str) -> bool,
    ) -> Option<Choice> {
        todo!()
    }

    /// What an answer of a model was worth, from 0 (unusable) to 1 (it is among the best now), and what it cost in US dollars.
    pub fn tell(&mut self, _model: &str, _paid: f64, _cost: f64) {
        todo!()
    }
}
