//! The variant that a model starts from, and how it did.

use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::outcome::Outcome;
use r3_replay::remix::pairs::Ratio;

use super::target::Target;
use crate::evolve::variant::VariantNumber;

/// The variant to start from.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// Its number.
    pub number: VariantNumber,
    /// Its file and regions.
    pub target: Target,
    /// How it did; `None` when it was not right.
    pub measured: Option<Measured>,
    /// What was tried on it before and came to nothing, in a line each, latest last.
    pub tried: Vec<String>,
}

/// What is known of a variant that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Time against the captured binary, with what a model can use of the rest: a line each.
    pub lines: Vec<String>,
    /// What limits it, in words; empty when nothing says so.
    pub limits: Vec<String>,
}

impl Measured {
    /// Of the outcome of its best configuration, which is told in words. `source` is the unchanged source against the captured binary.
    pub fn of(
        outcome: &Outcome,
        kernel: &KernelDescription,
        source: Option<Ratio>,
        configuration: Option<&str>,
    ) -> Self {
        let _ = (outcome, kernel, source, configuration);
        Self {
            lines: Vec::new(),
            limits: Vec::new(),
        }
    }
}
