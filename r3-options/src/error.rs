//! What can be wrong with an option, and the message for it.

use thiserror::Error;

use crate::table::{LAUNCHER_OPTIONS, OPTIONS};

/// One thing that is wrong with the options.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// A name that starts with `R3_` and is no option.
    #[error("{name} is not an option of R3{}", suggestion(nearest))]
    Unknown {
        /// The name as given.
        name: String,
        /// The most similar name, when one is similar.
        nearest: Option<&'static str>,
    },
    /// A name of a later version.
    #[error("{name} is not supported by this version of R3; it {purpose}")]
    Reserved {
        /// The name as given.
        name: String,
        /// What it is meant for.
        purpose: &'static str,
    },
    /// A value that cannot be read.
    #[error("{name}={value} cannot be read: expected {expected}")]
    Malformed {
        /// The name as given: of a variable or of a command-line option.
        name: String,
        /// The value, shortened, with unprintable characters escaped.
        value: String,
        /// What the value should look like.
        expected: String,
    },
}

impl OptionError {
    pub(crate) fn unknown(name: &str) -> Self {
        Self::Unknown {
            name: printable(name),
            nearest: nearest(name),
        }
    }

    pub(crate) fn malformed(name: &str, value: &str, expected: String) -> Self {
        let name = name.to_owned();
        Self::Malformed {
            name,
            value: printable(value),
            expected: printable_text(&expected),
        }
    }
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean {name}?"),
        None => "; `r3-replay capture --help` lists the options".into(),
    }
}

/// At most this many characters of a value are shown.
const SHOWN: usize = 80;

fn printable(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    // escape_debug also escapes quotes and backslashes, which a reader of a
    // regular expression wants to see as they are.
    shown
        .replace("\\\\", "\\")
        .replace("\\\"", "\"")
        .replace("\\'", "'")
}

/// A message of a regular-expression error can quote the pattern: one line, no control characters.
fn printable_text(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(4 * SHOWN)
        .collect()
}

/// The known name with the smallest edit distance, if that is small.
fn nearest(name: &str) -> Option<&'static str> {
    let known = OPTIONS.iter().chain(LAUNCHER_OPTIONS).map(|spec| spec.env);
    let name = name.get(..64).unwrap_or(name).to_ascii_uppercase();
    known
        .map(|candidate| (distance(&name, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (candidate.len() - "R3_".len()).div_ceil(2).min(3)
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = *cell;
            left = replaced.min(left + 1).min(diagonal + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("R3_LAUNCH", "R3_LAUNCHES"), 2);
    }

    #[test]
    fn a_misspelt_name_is_recognised() {
        assert_eq!(nearest("R3_KERNELS"), Some("R3_KERNEL"));
        assert_eq!(nearest("R3_LAUNCH"), Some("R3_LAUNCHES"));
        assert_eq!(nearest("R3_out"), Some("R3_OUT"));
        assert_eq!(nearest("R3_SNAPSHOTS"), Some("R3_SNAPSHOT"));
        assert_eq!(nearest("R3_SOMETHING_ELSE"), None);
        assert_eq!(nearest(&format!("R3_{}", "x".repeat(100_000))), None);
    }
}
