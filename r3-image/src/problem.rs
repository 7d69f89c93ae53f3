//! What could not be understood in an image.
//!
//! A problem never hides the rest of the image: it names the place, and reading goes on
//! behind it.

use std::fmt;

/// Something in an image that could not be understood or contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, e.g. `entry 2`, `section .nv.info.saxpy` or `line 14`.
    pub place: String,
    /// What.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

/// The kinds of [`Problem`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The bytes are no known kind of image.
    #[error("neither a fatbin, an ELF file nor PTX text")]
    UnknownImage,
    /// A structure ends before its declared length.
    #[error("{what} is cut off: {needed} bytes declared, {present} present")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Declared length in bytes.
        needed: u64,
        /// Bytes that are there.
        present: u64,
    },
    /// A field holds a value that cannot be right.
    #[error("{what} is {value:#x}, which cannot be right")]
    BadValue {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Something that has to be there is not.
    #[error("no {what}")]
    Missing {
        /// What.
        what: &'static str,
    },
    /// A code form, attribute or version that is not known here. It is kept as it is.
    #[error("unknown {what} {value:#x}")]
    Unknown {
        /// What is unknown.
        what: &'static str,
        /// Its number.
        value: u64,
    },
    /// Bytes between structures that are neither padding nor a container.
    #[error("{len} bytes that belong to no container")]
    StrayBytes {
        /// How many.
        len: u64,
    },
    /// The payload of an entry could not be decompressed.
    #[error("payload: {0}")]
    Payload(#[from] crate::compression::PayloadError),
    /// The ELF file is damaged.
    #[error("ELF: {0}")]
    Elf(String),
    /// PTX text that does not follow the grammar of declarations.
    #[error("PTX: {0}")]
    Ptx(String),
    /// A limit that protects against hostile images was reached; the rest was not read.
    #[error("limit reached: {0}")]
    Limit(&'static str),
}

/// At most this many problems are kept for one part of an image.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// A bounded list of problems.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a problem. `place` is only formatted while there is room. What is unknown is reported
    /// where it is first met.
    pub(crate) fn add(&mut self, place: impl fmt::Display, kind: ProblemKind) {
        if matches!(kind, ProblemKind::Unknown { .. }) && self.0.iter().any(|p| p.kind == kind) {
            return;
        }
        if self.0.len() < MAX_PROBLEMS {
            let mut place = place.to_string();
            if place.len() > 200 {
                let cut = (0..=200)
                    .rev()
                    .find(|&i| place.is_char_boundary(i))
                    .unwrap_or(0);
                place.truncate(cut);
                place.push('…');
            }
            self.0.push(Problem { place, kind });
        } else if self.0.len() == MAX_PROBLEMS {
            let kind = ProblemKind::Limit("too many problems, the others are not listed");
            self.0.push(Problem {
                place: "image".into(),
                kind,
            });
        }
    }

    /// No more problems are kept.
    pub(crate) fn full(&self) -> bool {
        self.0.len() > MAX_PROBLEMS
    }

    pub(crate) fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}
