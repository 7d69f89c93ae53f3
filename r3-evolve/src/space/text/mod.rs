//! The space as TOML that people edit, and back.
//!
//! What is printed says of each parameter, as a comment, why it is in or out. Comments are not read back, and are not part of
//! what a space is: its [digest](Space::digest) is that of what can be tried.

mod parse;
mod print;

use xxhash_rust::xxh3::xxh3_128;

use super::{Never, Parameter, Space};

/// Why a space cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SpaceError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Space {
    /// Identity of a space: equal for spaces in which the same can be tried in the same order, whatever their comments say.
    #[must_use]
    pub fn digest(&self) -> u128 {
        // Nothing in it can fail to become JSON.
        xxh3_128(&serde_json::to_vec(&self.bare()).unwrap_or_default())
    }

    /// Without what is for people only.
    fn bare(&self) -> Self {
        Self {
            parameters: self
                .parameters
                .iter()
                .map(|parameter| Parameter {
                    why: String::new(),
                    dropped: Vec::new(),
                    ..parameter.clone()
                })
                .collect(),
            never: self
                .never
                .iter()
                .map(|never| Never {
                    why: String::new(),
                    ..never.clone()
                })
                .collect(),
            ..self.clone()
        }
    }
}
