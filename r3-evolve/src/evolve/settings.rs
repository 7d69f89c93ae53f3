//! What a user can set for a search over source, beside what [`tune`](crate::tune::Settings) has.
//!
//! All of it can be in a TOML file, of which the command line changes what it names.

use std::path::PathBuf;

use r3_replay::evaluate::rules::Rule;
use serde::{Deserialize, Serialize};

use crate::inner::Halving;
use crate::islands;

/// How a search over source is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Islands, their grids, and how elites travel.
    pub islands: islands::Settings,
    /// Slots of an island that may be open at a time.
    pub depth: u32,
    /// When the search ends, beside what [`Budget`](crate::tune::settings::Budget) has.
    pub limits: Limits,
    /// How evaluations are handed out.
    pub halving: Halving,
    /// What models are asked for.
    pub models: Models,
    /// Built-in rewrites.
    pub rewrites: Rewrites,
    /// What device code may do that it may not otherwise.
    pub allow: Vec<Rule>,
}

/// When a search over source ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Variants that were evaluated.
    pub variants: Option<u64>,
    /// US dollars that models may cost.
    pub cost: Option<f64>,
}

/// How models are used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Models {
    /// Of the slots that are open, so large a part may wait for models, when there are any: what models and devices get of a run.
    /// The mix of operators says how much of that is used.
    pub share: f64,
    /// How often a model is told what was wrong with its answer.
    pub repairs: u32,
    /// Elites that a model is shown beside the parent.
    pub examples: usize,
    /// Bytes of a prompt, at most.
    pub prompt_bytes: usize,
    /// Seconds that a run waits for models that do not answer.
    pub outage: f64,
    /// File with endpoints and models; the environment names them where there is none.
    pub file: Option<PathBuf>,
}

/// How built-in rewrites are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rewrites {
    /// Rewrites that are left out, by name.
    pub without: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            islands: islands::Settings::default(),
            depth: 4,
            limits: Limits::default(),
            halving: Halving::default(),
            models: Models::default(),
            rewrites: Rewrites::default(),
            allow: Vec::new(),
        }
    }
}

impl Default for Models {
    fn default() -> Self {
        Self {
            share: 0.8,
            repairs: 2,
            examples: 3,
            prompt_bytes: crate::prompt::PROMPT_BYTES,
            outage: 600.0,
            file: None,
        }
    }
}

/// A setting makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Not TOML, or a name that is not known.
    #[error("{0}")]
    Toml(String),
    /// A value is out of bounds.
    #[error("`{name}` takes {takes}")]
    Value {
        /// Which.
        name: &'static str,
        /// What would be right.
        takes: &'static str,
    },
}

impl Settings {
    /// As many slots open as so many compile workers need to be busy, and no more: what is under way was not learned from.
    #[must_use]
    pub fn for_workers(workers: usize) -> Self {
        let mut settings = Self::default();
        settings.depth = Self::depth_for(workers, settings.islands.count);
        settings
    }

    /// The same for a number of islands.
    #[must_use]
    pub fn depth_for(workers: usize, islands: u32) -> u32 {
        let open = u32::try_from(workers).unwrap_or(u32::MAX).clamp(4, 128);
        open.div_ceil(islands.max(1))
    }

    /// Reads a file; what it does not name is as in `self`.
    pub fn with_toml(&self, text: &str) -> Result<Self, SettingsError> {
        let wrong = |error: &dyn std::fmt::Display| SettingsError::Toml(error.to_string());
        let given: toml::Table = text.parse().map_err(|error| wrong(&error))?;
        // Names that are not known are found with their place in the file.
        let _: Self = toml::from_str(text).map_err(|error| wrong(&error))?;
        let mut all = toml::Table::try_from(self).map_err(|error| wrong(&error))?;
        merge(&mut all, given);
        let settings: Self = all.try_into().map_err(|error| wrong(&error))?;
        settings.check()?;
        Ok(settings)
    }

    /// Whether all values are within bounds.
    pub fn check(&self) -> Result<(), SettingsError> {
        let checks = [
            (
                (1..=islands::population::MOST).contains(&self.islands.count),
                "islands.count",
                "a number from 1 to 256",
            ),
            (
                (1..=256).contains(&self.depth),
                "depth",
                "a number from 1 to 256",
            ),
            (
                self.models.share.is_finite() && (0.0..=1.0).contains(&self.models.share),
                "models.share",
                "a part from 0 to 1",
            ),
            (
                self.models.repairs <= 8,
                "models.repairs",
                "a number from 0 to 8",
            ),
            (
                self.models.examples <= 16,
                "models.examples",
                "a number from 0 to 16",
            ),
            (
                (4096..=16 << 20).contains(&self.models.prompt_bytes),
                "models.prompt_bytes",
                "bytes from 4096 to 16777216",
            ),
            (
                (0.0..=1e6).contains(&self.models.outage),
                "models.outage",
                "seconds",
            ),
            (
                self.limits.cost.is_none_or(|cost| cost >= 0.0),
                "limits.cost",
                "US dollars",
            ),
            (
                self.limits.variants != Some(0),
                "limits.variants",
                "a number from 1 on",
            ),
            (
                self.halving.eta >= 2 && self.halving.budgets.is_sorted(),
                "halving",
                "an `eta` of 2 or more and `budgets` that rise",
            ),
        ];
        for axis in &self.islands.grid.axes {
            axis.check()
                .map_err(|error| SettingsError::Toml(error.to_string()))?;
        }
        match checks.iter().find(|(right, ..)| !right) {
            Some((_, name, takes)) => Err(SettingsError::Value { name, takes }),
            None => Ok(()),
        }
    }

    /// Slots that may be open at a time.
    #[must_use]
    pub fn window(&self) -> i64 {
        i64::from(self.islands.count) * i64::from(self.depth)
    }
}

/// Puts the values of `over` in place of those of `under`, table by table.
fn merge(under: &mut toml::Table, over: toml::Table) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => merge(under, over),
            (_, value) => {
                under.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let before = Settings {
            depth: 7,
            ..Settings::default()
        };
        let text = "[islands]\ncount = 9\n[models]\nrepairs = 1\n";
        let after = before.with_toml(text).unwrap();
        assert_eq!((after.islands.count, after.depth), (9, 7));
        assert_eq!(
            (after.models.repairs, after.models.examples),
            (1, before.models.examples)
        );
    }

    #[test]
    fn a_name_that_is_not_known_and_a_value_out_of_bounds_are_errors() {
        let error = Settings::default()
            .with_toml("[models]\nrepair = 1\n")
            .unwrap_err();
        assert!(error.to_string().contains("repair"), "{error}");
        let error = Settings::default()
            .with_toml("[islands]\ncount = 0\n")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`islands.count` takes a number from 1 to 256"
        );
    }

    #[test]
    fn the_file_that_the_documentation_shows_is_taken() {
        let text = include_str!("../../../docs/evolve.md");
        let from = text.find("```toml\ndepth").unwrap() + "```toml\n".len();
        let to = from + text[from..].find("```").unwrap();
        let settings = Settings::default().with_toml(&text[from..to]).unwrap();
        assert_eq!((settings.depth, settings.islands.count), (8, 4));
        assert_eq!(settings.islands.each.len(), 2);
        assert_eq!(settings.islands.grid.axes.len(), 2);
    }

    #[test]
    fn as_many_slots_are_open_as_workers_can_serve() {
        for workers in [1, 2, 8, 16, 200] {
            let window = Settings::for_workers(workers).window();
            let wanted = i64::try_from(workers.clamp(4, 128)).unwrap();
            assert!(
                window >= wanted && window < wanted + 4,
                "{workers}: {window}"
            );
        }
    }
}
