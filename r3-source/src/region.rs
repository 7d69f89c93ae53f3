//! What of a file may be changed.
//!
//! Text between the comments `// r3: evolve begin` and `// r3: evolve end` (any number of such pairs), else the definition of
//! one kernel, with its template header and the comment lines that touch it. Everything else is kept byte for byte.

use std::ops::Range;

use crate::syntax::Unit;

/// The parts of a file that may be changed, in order; never empty, never overlapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions {
    spans: Vec<Range<usize>>,
    marked: bool,
}

/// Why a file has no region, or a text cannot take its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// No function with this name.
    #[error("there is no kernel `{kernel}` in this file: {has}")]
    NoKernel {
        /// The name.
        kernel: String,
        /// What is there, for people.
        has: String,
    },
    /// A mark without its counterpart.
    #[error("line {line}: `// r3: evolve {mark}` without its counterpart")]
    Unpaired {
        /// Line, from 1.
        line: usize,
        /// `begin` or `end`.
        mark: &'static str,
    },
    /// A new text for another number of regions.
    #[error("{given} texts were given for {regions} regions")]
    Count {
        /// Texts.
        given: usize,
        /// Regions.
        regions: usize,
    },
}

impl Regions {
    /// Those of a file: marked ones, else the definition of `kernel` (a name without what qualifies it; the one with
    /// `parameters` parameters where several have it).
    pub fn of(unit: &Unit, kernel: &str, parameters: Option<usize>) -> Result<Self, RegionError> {
        let _ = (unit, kernel, parameters);
        Err(RegionError::Count {
            given: 0,
            regions: 0,
        })
    }

    /// Where they are, in bytes.
    #[must_use]
    pub fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// Whether comments mark them.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Their text, one after the other, with a line that separates them when they are several ([`SEPARATOR`]).
    #[must_use]
    pub fn text(&self, file: &str) -> String {
        let _ = file;
        String::new()
    }

    /// The file with other text in the regions; as [`Self::text`] has it. The rest is the same, byte for byte.
    pub fn splice(&self, file: &str, new: &str) -> Result<String, RegionError> {
        let _ = (file, new);
        Ok(String::new())
    }

    /// Whether a range of the file is inside one region.
    #[must_use]
    pub fn contains(&self, range: &Range<usize>) -> bool {
        let holds = |span: &Range<usize>| span.start <= range.start && range.end <= span.end;
        self.spans.iter().any(holds)
    }
}

/// The line between the texts of several regions.
pub const SEPARATOR: &str = "// r3: next region";
