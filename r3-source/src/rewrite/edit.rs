//! Changes to a text.

use std::ops::Range;

/// A part of a text, and what comes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The part, in bytes; empty where something is only put in.
    pub at: Range<usize>,
    /// What comes there.
    pub with: String,
}

impl Edit {
    /// Something in place of a part.
    pub fn replace(at: Range<usize>, with: impl Into<String>) -> Self {
        Self {
            at,
            with: with.into(),
        }
    }

    /// Something put in.
    pub fn insert(at: usize, with: impl Into<String>) -> Self {
        Self::replace(at..at, with)
    }
}

/// The text with all changes made. Nothing when they overlap, or are not at the borders of characters. What is put in at the
/// same place comes in the order of the list.
#[must_use]
pub fn apply(text: &str, mut edits: Vec<Edit>) -> Option<String> {
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let mut out = String::with_capacity(text.len() + 256);
    let mut from = 0;
    for edit in edits {
        // `get` refuses a part that begins before the last one ended.
        out.push_str(text.get(from..edit.at.start)?);
        out.push_str(&edit.with);
        if edit.at.end < edit.at.start {
            return None;
        }
        from = edit.at.end;
    }
    out.push_str(text.get(from..)?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{Edit, apply};

    #[test]
    fn changes_are_made_together_and_overlapping_ones_are_refused() {
        let edits = vec![
            Edit::replace(4..5, "y"),
            Edit::insert(0, "a"),
            Edit::insert(0, "b"),
        ];
        assert_eq!(apply("x = x;", edits).unwrap(), "abx = y;");
        assert_eq!(
            apply(
                "abcdef",
                vec![Edit::replace(0..3, ""), Edit::replace(2..4, "")]
            ),
            None
        );
        assert_eq!(apply("é", vec![Edit::insert(1, "x")]), None);
    }
}
