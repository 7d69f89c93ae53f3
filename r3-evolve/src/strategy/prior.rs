//! What is known of the knobs before anything was tried: data, in `data/prior.toml`, with the figures that it stands on.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::space::{Space, Value};

/// What is known beforehand.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// What is tried first, in order.
    #[serde(default, rename = "stage")]
    pub stages: Vec<Stage>,
    /// How much more often a value of a parameter is drawn than one that nothing is known of.
    #[serde(default, rename = "weight")]
    pub weights: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Something that is tried before there is a model. One of `sweep`, `try` and `combine`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The other values of this parameter.
    #[serde(default)]
    pub sweep: Option<String>,
    /// Of these, the first so many.
    #[serde(default)]
    pub most: Option<usize>,
    /// These changes.
    #[serde(default, rename = "try")]
    pub changes: Vec<BTreeMap<String, Value>>,
    /// So many combinations of what was good by itself.
    #[serde(default)]
    pub combine: usize,
}

/// Why a prior cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("prior: {0}")]
pub struct PriorError(pub String);

/// The built-in one.
const BUILT_IN: &str = include_str!("../../data/prior.toml");

impl Prior {
    /// What is known of the parameters of a space: of knobs of kernels, what was measured; of anything else, nothing.
    #[must_use]
    pub fn of(space: &Space) -> Self {
        if space.kernel.is_none() {
            return Self::default();
        }
        // The text is part of the program, and read in its tests.
        Self::read(BUILT_IN).unwrap_or_default()
    }

    /// Reads one.
    pub fn read(text: &str) -> Result<Self, PriorError> {
        toml::from_str(text).map_err(|error| PriorError(error.to_string()))
    }

    /// The weight of a value.
    #[must_use]
    pub fn weight(&self, parameter: &str, value: &str) -> f64 {
        let weights = self.weights.get(parameter);
        let weight = weights.and_then(|weights| weights.get(value));
        weight.copied().unwrap_or(1.0).max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_prior_is_read_and_each_stage_is_of_one_kind() {
        let prior = Prior::read(BUILT_IN).unwrap();
        assert!(prior.stages.len() > 8);
        for stage in &prior.stages {
            let kinds = [
                stage.sweep.is_some(),
                !stage.changes.is_empty(),
                stage.combine > 0,
            ];
            assert_eq!(kinds.iter().filter(|kind| **kind).count(), 1, "{stage:?}");
        }
        assert!(prior.weight("load_cache", "cs") < prior.weight("load_cache", "never heard of"));
    }

    #[test]
    fn a_prior_with_an_unknown_field_is_refused() {
        let error = Prior::read("[[stage]]\nswep = \"block\"").unwrap_err();
        assert!(error.0.contains("swep"), "{error}");
    }
}
