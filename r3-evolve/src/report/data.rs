//! Everything that a report says, as plain data.

use serde::{Deserialize, Serialize};

use crate::elites::GridView;
use crate::islands::Occupancy;

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The kernel's name, readable.
    pub kernel: String,
    /// The file of the source as given.
    pub file: String,
    /// The device.
    pub device: String,
    /// Whether the device counts instead of measuring.
    pub counts: bool,
    /// How far the run is: `at its end, by its number of evaluations`.
    pub state: String,
    /// What is claimed, and what is not.
    pub claim: Claim,
    /// The captured binary's time, in words; nothing before it is known.
    pub captured: Option<String>,
    /// The source as given, against the captured binary.
    pub source: Option<Times>,
    /// The variant that the run ends with, or that is best so far.
    pub best: Option<i64>,
    /// The best so far over the search.
    pub curve: Curve,
    /// The steps on the way to the best, and which of them mattered.
    pub way: Vec<Stage>,
    /// What is under way, or was when the run was left: what, and how many.
    pub open: Vec<(String, u64)>,
    /// Islands.
    pub islands: Vec<Island>,
    /// Variants, by number.
    pub variants: Vec<Variant>,
    /// What operators and rewrites brought.
    pub operators: Vec<Operator>,
    /// What models brought and took.
    pub models: Vec<Model>,
    /// Requests that were sent and of which the run has no answer, with what they can have taken at most. It is in no other figure.
    pub unanswered: Vec<Unanswered>,
    /// Part of the bytes of a prompt that the one before on the same island had, too, over all prompts; `None` without prompts.
    pub shared_prefix: Option<f64>,
    /// Variants by verdict.
    pub verdicts: Vec<(String, u64)>,
    /// How proposals ended that no variant was evaluated for.
    pub dropped: Vec<(String, u64)>,
    /// The finals.
    pub finals: Vec<Finalist>,
    /// Held-out launches of the best.
    pub held_out: Vec<HeldOut>,
    /// Where the time went: what, and which part of the time.
    pub load: Vec<(String, f64)>,
    /// What results depend on.
    pub environment: Vec<(String, String)>,
    /// How the search was set.
    pub settings: Vec<(String, String)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// What is claimed, and what is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Whether a gain is claimed.
    pub claimed: bool,
    /// In a line.
    pub headline: String,
    /// What is claimed, and what it stands on.
    pub said: Vec<String>,
    /// What is not claimed.
    pub not_said: Vec<String>,
}

/// A time as a part of the captured binary's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The best so far over the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Each time that something better was found.
    pub steps: Vec<Step>,
    /// Evaluations of the whole search.
    pub evaluations: u64,
    /// Variants that were evaluated, the source as given left out.
    pub variants: u64,
    /// Seconds of the whole search.
    pub seconds: f64,
    /// When it did not go on.
    #[serde(default)]
    pub pauses: Vec<Pause>,
}

/// A time in which the search did not go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// After so many evaluations.
    pub evaluations: u64,
    /// For so many seconds; `None` when nobody knows.
    pub seconds: Option<f64>,
    /// Why.
    pub why: String,
}

/// A step on the way to a variant: what it changed, and what was seen of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// The variant that it made.
    pub variant: i64,
    /// Of which one: its first parent.
    pub from: i64,
    /// Which others were its parents.
    pub with: Vec<i64>,
    /// How it came about.
    pub operator: String,
    /// The model or the rewrite.
    pub by: String,
    /// What was done, in a line.
    pub what: String,
    /// Each with the configuration that was best for it.
    pub best: Seen,
    /// Both as their texts are, without passes, bounds or another launch.
    pub plain: Seen,
}

/// Two times, and whether they differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Before the step.
    pub before: Option<Times>,
    /// After it.
    pub after: Option<Times>,
    /// `gained`, `no difference seen`, `worse` or `not measured`.
    pub seen: String,
}

/// Something better was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// After so many evaluations.
    pub evaluations: u64,
    /// After so many seconds.
    pub seconds: f64,
    /// The variant.
    pub variant: i64,
    /// Its time.
    pub times: Times,
}

/// An island.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Island {
    /// What is on it.
    pub occupancy: Occupancy,
    /// Its grid.
    pub grid: GridView,
    /// Part of its proposals that each operator would get now.
    pub mix: Vec<(String, f64)>,
}

/// A variant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variant {
    /// Its number.
    pub number: i64,
    /// The island that made it.
    pub island: u32,
    /// How it came about.
    pub operator: String,
    /// The model or the rewrite.
    pub by: String,
    /// What was done, in a line.
    pub what: String,
    /// From which variants.
    pub parents: Vec<i64>,
    /// How it came out, in a word or two.
    pub verdict: String,
    /// Why it is not right.
    pub reason: Option<String>,
    /// Whether it was tried on every launch and with perturbed inputs.
    pub checked: bool,
    /// Whether it is the elite of a cell.
    pub elite: bool,
    /// Its time with its best configuration.
    pub times: Option<Times>,
    /// Tokens of its text.
    pub tokens: u64,
    /// How far it is from the source as given.
    pub distance: f64,
    /// The whole file; empty where it is left out, as the difference says it.
    pub text: String,
    /// The difference to its first parent, as `diff -u` writes it; empty without a parent.
    pub diff: String,
    /// Its best configuration: what differs from the text as it is, `block=128x1x1`.
    pub configuration: Vec<String>,
    /// What its code is like.
    pub code: Vec<(String, String)>,
    /// What limits it, in words; nothing where nothing says so.
    pub limits: Vec<String>,
    /// Its best configuration, launch by launch.
    pub launches: Vec<Launch>,
    /// Every configuration that was tried, in order.
    pub tried: Vec<Tried>,
}

/// A configuration that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tried {
    /// Number of the evaluation.
    pub number: i64,
    /// Why: `proposed`, `check`, `finalist`.
    pub why: String,
    /// What differs from the text as it is.
    pub configuration: Vec<String>,
    /// How it came out; nothing while it is under way.
    pub verdict: Option<String>,
    /// Why it is not right.
    pub reason: Option<String>,
    /// Its time.
    pub times: Option<Times>,
    /// Pairs of runs that it stands on.
    pub pairs: u32,
}

/// A launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Launch {
    /// Its number.
    pub launch: String,
    /// Why it was run: `tuned`, `held out`, `perturbed inputs`.
    pub role: String,
    /// How it came out.
    pub verdict: String,
    /// The captured binary's time and its own, in words.
    pub took: Option<(String, String)>,
    /// Its time as a part of the captured binary's.
    pub times: Option<Times>,
}

/// What an operator or a rewrite brought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Operator {
    /// Its name.
    pub name: String,
    /// The operator that it is one of; empty for operators.
    pub of: String,
    /// Proposals.
    pub proposals: u64,
    /// Of these, so many were right.
    pub right: u64,
    /// So many came into a cell.
    pub entered: u64,
    /// So often one of them took the place of the best, when it was checked.
    pub best: u64,
    /// So many were known already.
    pub duplicates: u64,
    /// Time that the run's best lost by it, as a logarithm.
    pub gain: f64,
    /// Evaluations that it took.
    pub evaluations: u64,
    /// US dollars that it took.
    pub cost: f64,
}

/// What a model brought and took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Questions that it answered.
    pub answers: u64,
    /// Questions that it did not answer.
    pub failures: u64,
    /// Proposals whose answers were of no use.
    pub unusable: u64,
    /// Variants that were right.
    pub right: u64,
    /// How often a variant of its took the place of the best, when it was checked.
    pub best: u64,
    /// Time that the run's best lost by it, as a logarithm.
    pub gain: f64,
    /// Tokens of prompts.
    pub prompt: u64,
    /// Of these, from the service's cache.
    pub cached: u64,
    /// Tokens of answers.
    pub completion: u64,
    /// Whether some of the tokens are estimates.
    pub estimated: bool,
    /// US dollars.
    pub cost: f64,
    /// Seconds under way.
    pub seconds: f64,
}

/// Requests to a model that were sent and of which the run has no answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unanswered {
    /// The model.
    pub model: String,
    /// How many.
    pub requests: u64,
    /// Tokens of their prompts, at most.
    pub prompt: u64,
    /// Tokens of answers, at most.
    pub completion: u64,
    /// US dollars, at most.
    pub cost: f64,
}

/// A finalist.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finalist {
    /// The variant; `None` for a candidate of none.
    pub variant: Option<i64>,
    /// The candidate's number.
    pub candidate: i64,
    /// How it came out.
    pub verdict: String,
    /// Its time, with an interval that holds for all finalists together.
    pub times: Option<Times>,
    /// Why nothing is claimed for it; `None`: it may be claimed.
    pub refused: Option<String>,
}

/// A held-out launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// The launch.
    pub launch: String,
    /// How it came out.
    pub verdict: String,
    /// Its time as a part of the captured binary's; `None` when it was not timed.
    pub ratio: Option<f64>,
}
