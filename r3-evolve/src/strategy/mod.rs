//! Which point of a space is tried next.
//!
//! A [`Strategy`] is asked for points and told what came of them. It is a function of its seed and of what it was asked and
//! told, in order: who asks and tells the same again gets the same points, so that a search that was interrupted goes on as
//! if it had not been. No point is proposed twice.

mod bayes;
mod grid;
mod prior;
mod random;

use std::str::FromStr;

use r3_replay::evaluate::Verdict;
use serde::{Deserialize, Serialize};

use crate::space::{Point, Space};

pub use bayes::Bayesian;
pub use grid::Grid;
pub use prior::{Prior, PriorError};
pub use random::RandomSearch;

/// Proposes points.
pub trait Strategy: Send {
    /// The next points to be tried, at most `n`, none of which was proposed before. Fewer, or none, when the space has no
    /// more.
    fn ask(&mut self, n: usize) -> Vec<Point>;

    /// What came of a point, which need not have been asked for. A failure of the machine is no news of the point, and is
    /// not told.
    fn tell(&mut self, point: &Point, told: Told);
}

/// What came of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// It is right, and takes so much of the original's time.
    Ratio {
        /// Median.
        median: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end of it.
        high: f64,
    },
    /// It cannot stand for the original.
    Invalid(Verdict),
}

impl Told {
    /// A ratio that is known exactly.
    #[must_use]
    pub fn exactly(ratio: f64) -> Self {
        Self::Ratio {
            median: ratio,
            low: ratio,
            high: ratio,
        }
    }

    /// The median; `None` for what is not right.
    #[must_use]
    pub fn ratio(self) -> Option<f64> {
        match self {
            Self::Ratio { median, .. } => Some(median),
            Self::Invalid(_) => None,
        }
    }
}

/// The strategies that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What is known of the knobs first, then a model of what came out.
    #[default]
    Bayesian,
    /// Points at random.
    Random,
    /// All points, one after the other.
    Grid,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bayesian, Self::Random, Self::Grid];

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Bayesian => "bayesian",
            Self::Random => "random",
            Self::Grid => "grid",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.word() == text)
            .ok_or_else(|| format!("`{text}` is no strategy: bayesian, random or grid"))
    }
}

/// A strategy for a space.
#[must_use]
pub fn build(kind: Kind, space: &Space, seed: u64) -> Box<dyn Strategy> {
    match kind {
        Kind::Bayesian => Box::new(Bayesian::new(space.clone(), Prior::of(space), seed)),
        Kind::Random => Box::new(RandomSearch::new(space.clone(), seed)),
        Kind::Grid => Box::new(Grid::new(space.clone())),
    }
}
