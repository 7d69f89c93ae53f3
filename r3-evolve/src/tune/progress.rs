//! What somebody who watches a run is shown, and how they stop it.

use r3_replay::remix::pairs::Ratio;

use crate::store::Phase;

/// How a run is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is under way.
    pub phase: Phase,
    /// Evaluations that are over.
    pub done: u64,
    /// How many there will be, where that is known.
    pub of: Option<u64>,
    /// Evaluations under way.
    pub under_way: u64,
    /// Those that are over by verdict, without the right ones.
    pub failed: Vec<(&'static str, u64)>,
    /// The best so far.
    pub best: Option<Best>,
    /// Evaluations per second of this process.
    pub rate: f64,
    /// Seconds that are left, where that is known.
    pub left: Option<f64>,
    /// Part of the time in which compilers were busy.
    pub compilers: f64,
    /// Part of the time in which devices were busy.
    pub devices: f64,
}

/// The best candidate so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Its time as a part of the original's.
    pub ratio: Ratio,
    /// What differs from the original.
    pub knobs: Vec<(String, String)>,
    /// Which evaluation found it.
    pub found_at: u64,
}

/// Watches a run.
pub trait Watch {
    /// How it is doing. Called often.
    fn progress(&mut self, progress: &Progress);

    /// Something that a person should know.
    fn say(&mut self, line: &str);

    /// Whether no new candidate is to be proposed.
    fn stop(&self) -> bool;

    /// Whether to leave at once.
    fn leave(&self) -> bool;
}
