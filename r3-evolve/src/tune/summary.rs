//! What a run found, for people and for programs.

use r3_replay::remix::pairs::Ratio;
use serde::{Deserialize, Serialize};

use super::ablation::Mattered;
use super::finals::{Finals, HeldOutResult};
use super::search::End;
use crate::evolve::variant::{Lineage, VariantNumber};

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The kernel's name, as the code has it.
    pub kernel: String,
    /// Its name, readable.
    pub readable: String,
    /// The device.
    pub device: String,
    /// `nanoseconds`, or `cost` on a device that counts: what `original_ns` and `best_ns` are in.
    pub unit: String,
    /// The strategy.
    pub strategy: String,
    /// Its seed.
    pub seed: u64,
    /// Evaluations of the search.
    pub evaluations: u64,
    /// Those among them that were not measured, as the same candidate had been.
    pub repeated: u64,
    /// Seconds of searching.
    pub seconds: f64,
    /// Why the search ended.
    pub end: End,
    /// Evaluations by verdict.
    pub verdicts: Vec<(String, u64)>,
    /// The best candidate: the winner, or what was best without being claimed. `None` when nothing was right.
    pub best: Option<BestFound>,
    /// Held-out launches of the best, where it was measured at length.
    pub held_out: Vec<HeldOutResult>,
    /// Whether a gain is claimed.
    pub claim: bool,
    /// Why not, or what it stands on.
    pub reason: String,
    /// The original's time: weighted over the launches that decide.
    pub original_ns: f64,
    /// The best one's time, over the same.
    pub best_ns: Option<f64>,
    /// How busy things were.
    pub utilisation: Utilisation,
    /// The finals.
    pub finals: Option<Finals>,
    /// What each knob of the winner was good for.
    pub mattered: Vec<Mattered>,
    /// The source of the best, in a search over source.
    #[serde(default)]
    pub source: Option<SourceFound>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// The best candidate of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestFound {
    /// Hash of the candidate.
    pub candidate: String,
    /// Its number in the run, for `r3-evolve show`.
    pub number: i64,
    /// The variant that it is of, in a search over source.
    #[serde(default)]
    pub variant: Option<VariantNumber>,
    /// Its time as a part of the original's.
    pub ratio: Ratio,
    /// No ratio nearer to 1 than this is a difference.
    pub noise: f64,
    /// What differs from the original: `block=128x1x1`.
    pub knobs: Vec<String>,
    /// Which evaluation found it.
    pub found_at: u64,
}

/// A source that a search found, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceFound {
    /// The variant.
    pub variant: VariantNumber,
    /// The file.
    pub name: String,
    /// How it is compiled.
    pub compiler: String,
    /// The compiler's options, without architecture and files.
    pub options: Vec<String>,
    /// The variants that it came of, from the source as given to itself.
    pub lineage: Vec<Ancestor>,
}

/// A step on the way from the source as given to a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ancestor {
    /// The variant.
    pub variant: VariantNumber,
    /// Where it comes from.
    pub lineage: Lineage,
    /// Its best time in the search as a part of the original's; `None` when it was not right.
    pub ratio: Option<f64>,
}

/// Parts of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Compilers were busy.
    pub compile: f64,
    /// Devices were busy.
    pub device: f64,
}

impl Summary {
    /// The gain of the best: `3.2 % faster`, or how much slower.
    #[must_use]
    pub fn gain(&self) -> Option<String> {
        let best = self.best.as_ref()?;
        Some(gain(best.ratio.median))
    }
}

/// A ratio as a gain, for people.
#[must_use]
pub fn gain(ratio: f64) -> String {
    // Below what the figure shows there is nothing to call a gain.
    if (ratio - 1.0).abs() < 0.0005 {
        "the same time".to_owned()
    } else if ratio <= 1.0 {
        format!("{:.1} % less time", 100.0 * (1.0 - ratio))
    } else {
        format!("{:.1} % more time", 100.0 * (ratio - 1.0))
    }
}
