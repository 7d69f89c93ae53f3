//! Strategies compared on spaces whose points are known, without a device.
//!
//! In flow [`Subject`]s: a space, and what comes of every point of it, recorded or worked out; out flows a [`Report`]: how soon
//! each [`Kind`] of strategy finds what is best there, over many seeds. The modules in that order:
//!
//! - `record`: spaces that were recorded point by point, as JSON lines.
//! - `synthetic`: spaces worked out from tables of effects, as TOML: what is known of real kernels, without one.
//! - `functions`: test functions of optimisation, for comparing with other optimisers.
//! - `subject`: one of those, as a strategy meets it.
//! - `compare`: runs and their score.
//! - [`population`]: many variants of a source, and how many evaluations each of them deserves.

pub mod compare;
pub mod functions;
pub mod population;
pub mod record;
mod subject;
pub mod synthetic;

use std::path::{Path, PathBuf};

pub use compare::{Report, Trial, compare, trial};
pub use subject::Subject;

use crate::strategy::Kind;
use r3_codegen::source::files;

/// Why spaces cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of a file is not understood.
    #[error("{path}, line {line}: {message}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A file says nothing that can be searched.
    #[error("{path}: {message}")]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What is missing.
        message: String,
    },
}

/// Runs strategies on files: recorded spaces (`.jsonl`), or synthetic ones (`.toml`).
pub fn run(
    files: &[PathBuf],
    kinds: &[Kind],
    seeds: u32,
    evaluations: usize,
) -> Result<Report, SimulateError> {
    let mut subjects = Vec::new();
    for path in files {
        subjects.push(read(path)?);
    }
    Ok(compare(&subjects, kinds, seeds, evaluations))
}

/// Reads a space of either kind.
pub fn read(path: &Path) -> Result<Subject, SimulateError> {
    let text = files::text(path, files::LIST).map_err(|source| SimulateError::File {
        path: path.to_owned(),
        source,
    })?;
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        synthetic::read(path, &text)
    } else {
        record::read(path, &text)
    }
}
