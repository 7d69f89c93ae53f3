//! What is known of the knobs before anything was tried.

use crate::space::Space;

/// What is known beforehand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prior {}

/// Why a prior cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("prior: {0}")]
pub struct PriorError(pub String);

impl Prior {
    /// What is known of the parameters of a space.
    #[must_use]
    pub fn of(_space: &Space) -> Self {
        Self::default()
    }
}
