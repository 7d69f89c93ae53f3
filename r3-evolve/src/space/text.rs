//! The space as TOML that people edit, and back.

/// Why a space cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SpaceError {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong, and what was expected.
    pub message: String,
}
