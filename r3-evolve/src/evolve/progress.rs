//! What somebody who watches a search over source is shown.

use r3_models::chat::Spent;
use r3_replay::remix::pairs::Ratio;
use serde::{Deserialize, Serialize};

use super::population::Counts;
use super::variant::VariantNumber;
use crate::store::Phase;
use crate::tune::progress::Watch;

/// Where the time goes: parts of it, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Compilers were busy.
    pub compilers: f64,
    /// Devices were busy.
    pub devices: f64,
    /// Requests were with models, of those that may be at a time; `None` without models.
    pub models: Option<f64>,
    /// The loop itself worked instead of waiting: choosing, rewriting, storing, sending.
    pub search: f64,
}

/// How a search over source is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct Dashboard {
    /// What is under way.
    pub phase: Phase,
    /// What there was.
    pub counts: Counts,
    /// Slots that are open.
    pub open: u64,
    /// Of these, so many wait for a model.
    pub asking: u64,
    /// Evaluations under way.
    pub under_way: u64,
    /// Variants that there may be.
    pub of_variants: Option<u64>,
    /// Evaluations that there may be.
    pub of_evaluations: Option<u64>,
    /// Islands: cells with an elite, and cells that there are.
    pub islands: Vec<(usize, usize)>,
    /// The source as given against the captured binary.
    pub source: Option<Ratio>,
    /// The best so far.
    pub best: Option<BestSoFar>,
    /// New variants per minute of this process.
    pub variants_per_minute: f64,
    /// Evaluations per minute of this process.
    pub evaluations_per_minute: f64,
    /// Seconds that are left, where that is known.
    pub left: Option<f64>,
    /// Where the time goes.
    pub load: Load,
    /// What models took; `None` without models.
    pub spent: Option<Spent>,
    /// Why it waits.
    pub paused: Option<String>,
}

/// The best variant so far.
#[derive(Clone, Debug, PartialEq)]
pub struct BestSoFar {
    /// Its number.
    pub variant: VariantNumber,
    /// Its time as a part of the captured binary's.
    pub ratio: Ratio,
    /// What was done last, in a line.
    pub what: String,
    /// How many changes it is away from the source as given.
    pub steps: usize,
}

/// Watches a search over source.
pub trait Observe: Watch {
    /// How it is doing. Called often.
    fn dashboard(&mut self, dashboard: &Dashboard);
}
