//! What a user can set for a run.

use std::path::PathBuf;

use r3_replay::evaluate::Plan;
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::rules::Allowed;
use serde::{Deserialize, Serialize};

use super::launches::HeldOut;
use crate::strategy::Kind;

/// What a run is, and how far it goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The archive.
    pub archive: PathBuf,
    /// The kernel, as the user named it.
    pub kernel: String,
    /// Which strategy.
    pub strategy: Kind,
    /// Its seed.
    pub seed: u64,
    /// How far.
    pub budget: Budget,
    /// Where.
    pub device: DeviceSetting,
    /// Compile processes; as many as there are cores when it is left out.
    pub workers: Option<usize>,
    /// Which launches are held out.
    pub held_out: HeldOut,
    /// Tolerances: file and its text.
    pub tolerances: Option<(PathBuf, String)>,
    /// How inexact arithmetic may be.
    pub approximate: Approximation,
    /// State of the caches. `None`: warm while searching, both for what is claimed.
    pub regime: Option<Regime>,
    /// What device code may do although rules say otherwise.
    #[serde(default)]
    pub allowed: Allowed,
    /// Finer settings.
    pub fine: Fine,
}

/// Where candidates run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceSetting {
    /// A GPU, by its ordinal.
    Cuda(i32),
    /// The CPU device.
    Cpu,
}

/// When a search ends. The first limit that is reached ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Seconds of searching, pauses left out.
    pub seconds: Option<f64>,
    /// Evaluations.
    pub evaluations: Option<u64>,
    /// Evaluations without a better candidate.
    pub stagnation: Option<u64>,
}

/// How inexact arithmetic may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// Not at all.
    #[default]
    None,
    /// Approximate division, square root and reciprocal.
    Division,
    /// Subnormal numbers are flushed too.
    Flush,
    /// All that `-use_fast_math` does.
    Functions,
}

/// Settings that few need, by `--set name=value`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fine {
    /// Points that a strategy is asked for at a time.
    pub batch: usize,
    /// Batches that may be under way.
    pub depth: usize,
    /// Evaluations after which the best candidate is measured again; 0 for never.
    pub again_every: u64,
    /// Launches that decide, at most.
    pub launches: usize,
    /// Held-out launches that check every candidate, at most.
    pub gate: usize,
    /// Runs after which a slow candidate is dropped.
    pub screen: u32,
    /// How slow that is, against the best.
    pub drop_ratio: f64,
    /// Pairs of a race, at least.
    pub least_pairs: u32,
    /// Pairs of a race, at most.
    pub most_pairs: u32,
    /// Candidates that are measured at length in the end.
    pub top: usize,
    /// Pairs for each of them.
    pub final_pairs: u32,
    /// Pairs that are run before those.
    pub final_warmup: u32,
    /// Runs with perturbed inputs.
    pub perturbed: u32,
    /// Seconds of device time for the end, about: fewer candidates and pairs where kernels are long.
    pub final_seconds: f64,
    /// Least gain that is claimed, as a part: 0.03. `None`: 0.03 and, for kernels of less than 10 µs, 0.1; on a device that
    /// counts any gain.
    pub threshold: Option<f64>,
    /// Whether each knob of the best is set back alone, to see what it was good for.
    pub ablation: bool,
    /// How often a candidate is tried again that the machine failed to judge.
    pub retries: u32,
    /// Seconds that a run waits for an evaluator that is gone.
    pub outage: f64,
}

impl Default for Fine {
    fn default() -> Self {
        let plan = Plan::default();
        let last = Plan::final_claim();
        Self {
            batch: 4,
            depth: 4,
            again_every: 32,
            launches: 8,
            gate: 2,
            screen: plan.screen,
            drop_ratio: plan.drop_ratio,
            least_pairs: plan.least_pairs,
            most_pairs: plan.most_pairs,
            top: 10,
            final_pairs: last.least_pairs,
            final_warmup: last.warmup_pairs,
            perturbed: last.perturbed,
            final_seconds: 60.0,
            threshold: None,
            ablation: true,
            retries: 3,
            outage: 600.0,
        }
    }
}

/// Sets a value from text.
type Set = fn(&mut Fine, &str) -> Option<()>;

/// All names, and what they take.
const NAMES: &[(&str, &str, Set)] = &[
    ("batch", "a number from 1 to 256", |s, v| {
        between(1, 256, v).map(|v| s.batch = v)
    }),
    ("depth", "a number from 1 to 256", |s, v| {
        between(1, 256, v).map(|v| s.depth = v)
    }),
    ("again_every", "a number", |s, v| {
        v.parse().ok().map(|v| s.again_every = v)
    }),
    ("launches", "a number from 1 to 64", |s, v| {
        between(1, 64, v).map(|v| s.launches = v)
    }),
    ("gate", "a number from 0 to 64", |s, v| {
        between(0, 64, v).map(|v| s.gate = v)
    }),
    ("screen", "a number from 0 to 10000", |s, v| {
        between(0, 10000, v).map(|v| s.screen = v)
    }),
    ("drop_ratio", "a number above 1", |s, v| {
        within(1.0, f64::MAX, v).map(|v| s.drop_ratio = v)
    }),
    ("least_pairs", "a number from 1 to 10000", |s, v| {
        between(1, 10000, v).map(|v| s.least_pairs = v)
    }),
    ("most_pairs", "a number from 1 to 10000", |s, v| {
        between(1, 10000, v).map(|v| s.most_pairs = v)
    }),
    ("top", "a number from 1 to 100", |s, v| {
        between(1, 100, v).map(|v| s.top = v)
    }),
    ("final_pairs", "a number from 1 to 10000", |s, v| {
        between(1, 10000, v).map(|v| s.final_pairs = v)
    }),
    ("final_warmup", "a number from 0 to 10000", |s, v| {
        between(0, 10000, v).map(|v| s.final_warmup = v)
    }),
    ("perturbed", "a number from 0 to 100", |s, v| {
        between(0, 100, v).map(|v| s.perturbed = v)
    }),
    ("final_seconds", "seconds", |s, v| {
        within(0.0, 1e6, v).map(|v| s.final_seconds = v)
    }),
    ("threshold", "a part, e.g. 0.03", |s, v| {
        within(0.0, 1.0, v).map(|v| s.threshold = Some(v))
    }),
    ("ablation", "yes or no", |s, v| {
        yes_or_no(v).map(|v| s.ablation = v)
    }),
    ("retries", "a number from 0 to 100", |s, v| {
        between(0, 100, v).map(|v| s.retries = v)
    }),
    ("outage", "seconds", |s, v| {
        within(0.0, 1e6, v).map(|v| s.outage = v)
    }),
];

fn between<T: std::str::FromStr + PartialOrd>(least: T, most: T, text: &str) -> Option<T> {
    text.parse()
        .ok()
        .filter(|value| (least..=most).contains(value))
}

fn within(least: f64, most: f64, text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|value: &f64| (least..=most).contains(value))
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

impl Fine {
    /// As many batches under way as so many compile workers need to be busy, and no more: what is under way has not been
    /// learned from.
    #[must_use]
    pub fn for_workers(workers: usize) -> Self {
        let mut fine = Self::default();
        fine.depth = 1 + (workers * 3 / 2).div_ceil(fine.batch).clamp(1, 15);
        fine
    }

    /// All names, what they take and what they are without `--set`.
    #[must_use]
    pub fn help() -> String {
        let values = serde_json::to_value(Self::default()).unwrap_or_default();
        let mut text = String::new();
        for (name, takes, _) in NAMES {
            let default = match (*name, values.get(*name)) {
                // It depends on --workers.
                ("depth", _) => "what keeps compilers busy".to_owned(),
                (_, Some(serde_json::Value::Bool(yes))) => if *yes { "yes" } else { "no" }.into(),
                (_, Some(serde_json::Value::Number(number))) => {
                    let number = number.to_string();
                    number
                        .strip_suffix(".0")
                        .map_or(number.clone(), str::to_owned)
                }
                _ => "by the kernel".to_owned(),
            };
            text.push_str(&format!("{name:<14} {takes} [default: {default}]\n"));
        }
        text
    }

    /// Takes `name=value`. What is not known is an error, not ignored.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not of the form name=value"))?;
        let (name, value) = (name.trim(), value.trim());
        let Some((_, takes, set)) = NAMES.iter().find(|(known, ..)| *known == name) else {
            let all: Vec<_> = NAMES.iter().map(|(name, ..)| *name).collect();
            return Err(format!(
                "there is no setting `{name}`; there are {}",
                all.join(", ")
            ));
        };
        set(self, value).ok_or_else(|| format!("`{name}` takes {takes}, not `{value}`"))
    }
}

/// Time as people write it: `90`, `90s`, `3m`, `1.5h`.
pub fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no time: `90s`, `3m` and `1.5h` are");
    let (number, unit) = match text.trim().strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.trim().chars().last()),
        None => (text.trim(), Some('s')),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let seconds = number
        * match unit {
            Some('m') => 60.0,
            Some('h') => 3600.0,
            _ => 1.0,
        };
    (seconds.is_finite() && seconds > 0.0)
        .then_some(seconds)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_known_is_an_error_that_lists_the_names() {
        let mut fine = Fine::default();
        fine.set("batch=16").unwrap();
        fine.set("threshold = 0.05").unwrap();
        assert_eq!((fine.batch, fine.threshold), (16, Some(0.05)));
        let error = fine.set("bacth=3").unwrap_err();
        assert!(
            error.contains("`bacth`") && error.contains("batch, depth"),
            "{error}"
        );
        let error = fine.set("batch=0").unwrap_err();
        assert_eq!(error, "`batch` takes a number from 1 to 256, not `0`");
        assert!(fine.set("batch").is_err());
        // What would be asked for at once has to have a place.
        assert!(fine.set("batch=99999999999").is_err() && fine.set("depth=-1").is_err());
    }

    #[test]
    fn every_fine_setting_can_be_set() {
        let known = serde_json::to_value(Fine::default()).unwrap();
        let mut known: Vec<_> = known.as_object().unwrap().keys().cloned().collect();
        let mut named: Vec<_> = NAMES.iter().map(|(name, ..)| (*name).to_owned()).collect();
        known.sort();
        named.sort();
        assert_eq!(known, named);
    }

    #[test]
    fn help_tells_every_setting_with_its_default() {
        let help = Fine::help();
        for (name, ..) in NAMES {
            assert!(help.lines().any(|line| line.starts_with(name)), "{name}");
        }
        assert!(
            help.contains("a number from 1 to 256 [default: 4]"),
            "{help}"
        );
        assert!(help.contains("yes or no [default: yes]"), "{help}");
        assert!(
            help.contains("a part, e.g. 0.03 [default: by the kernel]"),
            "{help}"
        );
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("90"), Ok(90.0));
        assert_eq!(seconds("3m"), Ok(180.0));
        assert_eq!(seconds("1.5h"), Ok(5400.0));
        assert!(seconds("-1s").is_err() && seconds("s").is_err() && seconds("1d").is_err());
    }
}
