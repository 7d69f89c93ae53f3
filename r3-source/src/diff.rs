//! Two texts, line by line.

use similar::{ChangeTag, TextDiff};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 3;

/// A line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is in both.
    Same,
    /// It is in the second only.
    Added,
    /// It is in the first only.
    Removed,
}

/// How many lines differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Count {
    /// Lines that are in the second only.
    pub added: usize,
    /// Lines that are in the first only.
    pub removed: usize,
}

/// The difference as `diff -u` writes it, which `patch` takes. Empty when the texts are equal.
#[must_use]
pub fn unified(before: &str, after: &str, names: (&str, &str)) -> String {
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(names.0, names.1)
        .to_string()
}

/// How many lines differ.
#[must_use]
pub fn count(before: &str, after: &str) -> Count {
    let mut count = Count::default();
    for change in TextDiff::from_lines(before, after).iter_all_changes() {
        match change.tag() {
            ChangeTag::Insert => count.added += 1,
            ChangeTag::Delete => count.removed += 1,
            ChangeTag::Equal => {}
        }
    }
    count
}

/// Every line of both texts in order, without its end.
#[must_use]
pub fn lines(before: &str, after: &str) -> Vec<(Change, String)> {
    TextDiff::from_lines(before, after)
        .iter_all_changes()
        .map(|change| {
            let what = match change.tag() {
                ChangeTag::Equal => Change::Same,
                ChangeTag::Insert => Change::Added,
                ChangeTag::Delete => Change::Removed,
            };
            let line = change.value().trim_end_matches(['\n', '\r']);
            (what, line.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_written_as_patch_takes_it() {
        let text = unified("a\nb\nc\n", "a\nB\nc\nd", ("variant 1", "variant 2"));
        insta::assert_snapshot!(text, @r"
        --- variant 1
        +++ variant 2
        @@ -1,3 +1,4 @@
         a
        -b
        +B
         c
        +d
        \ No newline at end of file
        ");
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(unified("a\n", "a\n", ("x", "y")), "");
        assert_eq!(count("a\n", "a\n"), Count::default());
    }

    #[test]
    fn both_texts_come_back_from_the_lines_of_their_difference() {
        let (before, after) = ("a\nb\nc\n", "b\nx\nc\nd\n");
        let lines = lines(before, after);
        let take = |not: Change| -> String {
            lines
                .iter()
                .filter(|(change, _)| *change != not)
                .map(|(_, line)| format!("{line}\n"))
                .collect()
        };
        assert_eq!(take(Change::Added), before);
        assert_eq!(take(Change::Removed), after);
        assert_eq!(
            count(before, after),
            Count {
                added: 2,
                removed: 1
            }
        );
    }
}
