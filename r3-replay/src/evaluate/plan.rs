//! How thoroughly a candidate is judged and timed, and on which launches.

use r3_archive::model::LaunchId;
use serde::{Deserialize, Serialize};

use super::rules::Allowed;

/// What a candidate goes through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// Launches that decide the score.
    pub launches: Vec<Weighted>,
    /// Launches on which a candidate must be right too, and which do not count for its score.
    pub held_out: Vec<LaunchId>,
    /// Whether held-out launches are timed as well: they do not count for the score, and show whether they lose.
    pub time_held_out: bool,
    /// How many runs of the launches with perturbed floating-point inputs, the original being the oracle.
    pub perturbed: u32,
    /// Whether right candidates are timed.
    pub time: bool,
    /// Runs after which a candidate is dropped when it is `drop_ratio` times as slow as the best.
    pub screen: u32,
    /// See `screen`.
    pub drop_ratio: f64,
    /// Pairs of original and candidate, at least. In a search (with a `screen`), all launches together.
    pub least_pairs: u32,
    /// Pairs at most: a race doubles their number as long as a candidate may still be the best.
    pub most_pairs: u32,
    /// Pairs that are run first and not counted.
    pub warmup_pairs: u32,
    /// The best ratio so far (candidate's time ÷ original's): upper end of its interval. `None` when there is none yet.
    pub incumbent: Option<f64>,
    /// State of the caches before a timed run.
    pub regime: Regime,
    /// Whether the code is compiled twice and must come out equal.
    pub compile_twice: bool,
    /// Whether it runs in a process in which no candidate ran but right ones that asked for the same.
    pub fresh_process: bool,
    /// Whether it is measured although an equal candidate was.
    pub again: bool,
    /// What code may do beyond what the [rules](super::rules) allow.
    pub allowed: Allowed,
}

/// A launch and how much it counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weighted {
    /// The launch.
    pub launch: LaunchId,
    /// How often the application does it, in any unit.
    pub weight: f64,
}

/// State of the caches before a timed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Regime {
    /// As restoring leaves them, after a run that was not timed.
    #[default]
    Warm,
    /// Flushed after restoring.
    Cold,
    /// Both, each with its own pairs; the score is that of the slower ratio.
    Both,
}

impl Default for Plan {
    /// For a search: screened after 3 runs, raced up to 32 pairs.
    fn default() -> Self {
        Self {
            launches: Vec::new(),
            held_out: Vec::new(),
            time_held_out: false,
            perturbed: 0,
            time: true,
            screen: 3,
            drop_ratio: 2.0,
            least_pairs: 4,
            most_pairs: 32,
            warmup_pairs: 1,
            incumbent: None,
            regime: Regime::default(),
            compile_twice: false,
            fresh_process: false,
            again: false,
            allowed: Allowed::default(),
        }
    }
}

impl Plan {
    /// Right or not, without times.
    pub fn judge_only() -> Self {
        Self {
            time: false,
            ..Self::default()
        }
    }

    /// For what is to be claimed: a fresh process, 100 pairs in both regimes, perturbed inputs, compiled twice.
    pub fn final_claim() -> Self {
        Self {
            time_held_out: true,
            perturbed: 4,
            screen: 0,
            least_pairs: 100,
            most_pairs: 100,
            warmup_pairs: 50,
            regime: Regime::Both,
            compile_twice: true,
            fresh_process: true,
            ..Self::default()
        }
    }
}
