//! Tokens of answers, with their places: brackets that are missing, names that are others, texts that differ in blanks.
//!
//! A parser makes something of any text; here it must be known what is missing. So brackets are counted, and texts are compared,
//! without a tree.

use std::ops::Range;

use r3_source::tokens::{LINE, tokens};

/// A token and where it is.
pub type Token<'t> = (Range<usize>, &'t str);

/// The tokens of a text, comments left out.
pub fn placed(text: &str) -> Vec<Token<'_>> {
    let begin = text.as_ptr().addr();
    tokens(text)
        .into_iter()
        .filter(|token| *token != LINE)
        .map(|token| {
            let at = token.as_ptr().addr().saturating_sub(begin);
            (at..at + token.len(), token)
        })
        .collect()
}

/// What is wrong with the brackets of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbalanced {
    /// So many brackets are not closed.
    Open {
        /// How many.
        count: usize,
        /// Line of the innermost one, from 1.
        line: usize,
    },
    /// A bracket closes nothing.
    Closes {
        /// Its line, from 1.
        line: usize,
    },
    /// The text ends within a comment.
    Comment,
}

/// Whether every bracket has its counterpart. Branches of `#if` count once: those behind `#else` and `#elif` are left out, since
/// each of them may open the same brace.
pub fn balance(text: &str) -> Result<(), Unbalanced> {
    let text = without_other_branches(text);
    let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
    let mut open: Vec<(&str, usize)> = Vec::new();
    let mut end = 0;
    for (span, token) in placed(&text) {
        end = span.end;
        let wants = match token {
            "(" | "[" | "{" => {
                open.push((token, span.start));
                continue;
            }
            ")" => "(",
            "]" => "[",
            "}" => "{",
            _ => continue,
        };
        if open.pop().is_none_or(|(opened, _)| opened != wants) {
            return Err(Unbalanced::Closes {
                line: line(span.start),
            });
        }
    }
    if in_comment(text.get(end..).unwrap_or_default()) {
        return Err(Unbalanced::Comment);
    }
    match open.last() {
        Some((_, at)) => Err(Unbalanced::Open {
            count: open.len(),
            line: line(*at),
        }),
        None => Ok(()),
    }
}

/// Whether text that has no tokens ends within a comment.
fn in_comment(mut rest: &str) -> bool {
    loop {
        let (line, block) = (rest.find("//"), rest.find("/*"));
        match (line, block) {
            (_, Some(block)) if line.is_none_or(|line| block < line) => {
                let inside = rest.get(block + 2..).unwrap_or_default();
                match inside.find("*/") {
                    Some(end) => rest = inside.get(end + 2..).unwrap_or_default(),
                    None => return true,
                }
            }
            (Some(line), _) => {
                let comment = rest.get(line..).unwrap_or_default();
                match comment.find('\n') {
                    Some(end) => rest = comment.get(end + 1..).unwrap_or_default(),
                    None => return false,
                }
            }
            _ => return false,
        }
    }
}

/// The text with blank lines in place of directives, and of what stands in branches behind the first one.
fn without_other_branches(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    // For each `#if`: whether a branch behind the first one has begun.
    let mut other: Vec<bool> = Vec::new();
    let mut continued = false;
    for line in text.split_inclusive('\n') {
        let word = line.trim_start();
        let directive = continued || word.starts_with('#');
        if !continued && directive {
            let name = word.trim_start_matches('#').trim_start();
            if name.starts_with("if") {
                other.push(false);
            } else if name.starts_with("el") {
                if let Some(last) = other.last_mut() {
                    *last = true;
                }
            } else if name.starts_with("endif") {
                other.pop();
            }
        }
        continued = directive && line.trim_end().ends_with('\\');
        if directive || other.contains(&true) {
            kept.push_str(if line.ends_with('\n') { "\n" } else { "" });
        } else {
            kept.push_str(line);
        }
    }
    kept
}

/// The text with one name in place of another, comments and strings left alone.
pub fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut copied = 0;
    for (span, token) in placed(text) {
        if token == from {
            new.push_str(text.get(copied..span.start).unwrap_or_default());
            new.push_str(to);
            copied = span.end;
        }
    }
    new.push_str(text.get(copied..).unwrap_or_default());
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn brackets_in_strings_and_comments_do_not_count() {
        let text = "float x=1e-5f; // a {\nasm(\"{ }}\"); char c = '{'; /* ( */";
        assert_eq!(balance(text), Ok(()));
    }

    #[test]
    fn what_is_missing_is_found_with_its_line() {
        assert_eq!(
            balance("void k() {\n  if (a) {\n    f(b"),
            Err(Unbalanced::Open { count: 3, line: 3 })
        );
        assert_eq!(balance("}\n"), Err(Unbalanced::Closes { line: 1 }));
        assert_eq!(balance("{\n(}\n"), Err(Unbalanced::Closes { line: 2 }));
        assert_eq!(balance("{} // a\n/* }"), Err(Unbalanced::Comment));
        assert_eq!(balance("{} // a /* b"), Ok(()));
    }

    #[test]
    fn a_brace_that_is_opened_in_two_branches_counts_once() {
        let text = "void k() {\n#if A\n  for (;;) {\n#else\n  if (b) {\n#endif\n  }\n}\n#define X { \\\n {\n";
        assert_eq!(balance(text), Ok(()));
    }

    #[test]
    fn a_name_is_changed_where_it_is_a_name() {
        assert_eq!(
            renamed("k2(k); // k\n\"k\" k", "k", "kernel"),
            "k2(kernel); // k\n\"k\" kernel"
        );
    }

    proptest! {
        #[test]
        fn any_text_has_tokens_in_order(text in "\\PC{0,60}|[R\"'()/*\\\\\n a0e+#{}if-]{0,80}") {
            let mut end = 0;
            for (span, token) in placed(&text) {
                prop_assert!(span.start >= end && span.end > span.start);
                prop_assert_eq!(text.get(span.clone()), Some(token));
                end = span.end;
            }
            let _ = balance(&text);
            prop_assert_eq!(renamed(&text, "a", "a"), text);
        }
    }
}
