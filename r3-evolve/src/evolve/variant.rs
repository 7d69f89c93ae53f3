//! What the outer search varies.

use r3_replay::evaluate::candidate::LaunchChange;
use serde::{Deserialize, Serialize};

/// Number of a variant, from 1 in the order in which they came up. 1 is the unchanged source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VariantNumber(pub i64);

/// Number of an island, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IslandNumber(pub u32);

/// A source text, and how it wants to be launched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Text of the whole file.
    pub text: String,
    /// How its launch differs from the recorded one; what the inner search begins with.
    pub launch: LaunchChange,
}

/// How a variant came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// It is the source as given.
    Original,
    /// A model was asked for a faster form of one elite.
    Improve,
    /// A model was asked for something else than what there is: a cell that is empty or far away.
    Explore,
    /// A model was asked to join what two elites do.
    Crossover,
    /// A model was asked for the same with less.
    Simplify,
    /// A model was told what was wrong with its answer.
    Repair,
    /// A built-in rewrite of the tree.
    Rewrite,
}

/// Where a variant comes from, in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lineage {
    /// How.
    pub operator: Operator,
    /// From which variants.
    pub parents: Vec<VariantNumber>,
    /// On which island.
    pub island: IslandNumber,
    /// The model that wrote it, or the rewrite (`rsqrt`).
    pub by: String,
    /// What was done, in a line for people.
    pub what: String,
}
