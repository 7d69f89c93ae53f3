//! SEARCH/REPLACE edits put into the regions of a file.

use std::ops::Range;

use super::blocks::Replace;
use super::tokens::placed;
use super::unusable::Unusable;
use crate::prompt::text::one_line;

/// Where something was found: in which region, which bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    region: usize,
    span: Range<usize>,
}

/// A way of looking for a text in another one: where it is found.
type Way = fn(&str, &str) -> Vec<Range<usize>>;

/// How exactly a text is looked for, most exact first. The first way in which it is found decides, and it must be found once.
const WAYS: &[Way] = &[
    |text, search| lines(text, search, |line| line),
    |text, search| lines(text, search, str::trim_end),
    |text, search| lines(text, search, str::trim),
    without_blanks,
];

/// Puts edits into the texts of regions. Each is looked for in the texts as they were; one that is not there then, in what the others
/// made of them. `outside` is the rest of the file.
pub fn apply(
    edits: &[Replace],
    texts: &[String],
    outside: &[&str],
) -> Result<Vec<String>, Unusable> {
    let mut found: Vec<(usize, Place)> = Vec::new();
    let mut later: Vec<usize> = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        if edit.search.trim().is_empty() {
            return Err(Unusable::EmptySearch { number: index + 1 });
        }
        match look(&edit.search, texts) {
            Look::Once(place) => found.push((index, place)),
            Look::Several(at) => return Err(ambiguous(index, edit, at)),
            Look::Nowhere => later.push(index),
        }
    }
    found.sort_by_key(|(_, place)| (place.region, place.span.start));
    for pair in found.windows(2) {
        if let [(one, first), (other, second)] = pair
            && first.region == second.region
            && second.span.start < first.span.end
        {
            return Err(Unusable::Overlap {
                first: one.min(other) + 1,
                second: one.max(other) + 1,
            });
        }
    }
    let mut new = texts.to_vec();
    for (index, place) in found.iter().rev() {
        if let (Some(text), Some(edit)) = (new.get_mut(place.region), edits.get(*index)) {
            put(text, &place.span, edit);
        }
    }
    for index in later {
        let Some(edit) = edits.get(index) else {
            continue;
        };
        match look(&edit.search, &new) {
            Look::Once(place) => {
                if let Some(text) = new.get_mut(place.region) {
                    put(text, &place.span, edit);
                }
            }
            Look::Several(at) => return Err(ambiguous(index, edit, at)),
            Look::Nowhere => return Err(missing(index, edit, texts, outside)),
        }
    }
    Ok(new)
}

enum Look {
    Nowhere,
    Once(Place),
    /// Lines of the regions, from 1.
    Several(Vec<usize>),
}

fn look(search: &str, texts: &[String]) -> Look {
    for way in WAYS {
        let mut places: Vec<Place> = texts
            .iter()
            .enumerate()
            .flat_map(|(region, text)| {
                way(text, search)
                    .into_iter()
                    .map(move |span| Place { region, span })
            })
            .collect();
        if places.len() > 1 {
            let line = |place: &Place| {
                let text = texts.get(place.region).map_or("", String::as_str);
                text.get(..place.span.start)
                    .unwrap_or_default()
                    .matches('\n')
                    .count()
                    + 1
            };
            let mut lines: Vec<usize> = places.iter().map(line).collect();
            lines.sort_unstable();
            return Look::Several(lines);
        }
        if let Some(place) = places.pop() {
            return Look::Once(place);
        }
    }
    Look::Nowhere
}

/// Replaces what was found; lines that nothing replaces go whole.
fn put(text: &mut String, span: &Range<usize>, edit: &Replace) {
    let before = text.get(..span.start).unwrap_or_default();
    let begins = before.is_empty() || before.ends_with('\n');
    let ends = text
        .get(span.end..)
        .is_none_or(|rest| rest.is_empty() || rest.starts_with('\n'));
    let replace = edit.replace.strip_suffix('\n').unwrap_or(&edit.replace);
    let replace = if begins {
        indented(
            replace,
            &edit.search,
            text.get(span.clone()).unwrap_or_default(),
        )
    } else {
        replace.to_owned()
    };
    let mut span = span.clone();
    if replace.is_empty() && begins && ends && span.end < text.len() {
        span.end += 1;
    }
    if text.get(span.clone()).is_some() {
        text.replace_range(span, &replace);
    }
}

/// New lines, as far indented as what was found is further indented than what was looked for.
fn indented(replace: &str, search: &str, found: &str) -> String {
    let indent = |text: &str| {
        let line = text
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default();
        line.get(..line.len() - line.trim_start().len())
            .unwrap_or_default()
            .to_owned()
    };
    let (had, has) = (indent(search), indent(found));
    let Some(more) = has.strip_prefix(&had).filter(|more| !more.is_empty()) else {
        return replace.to_owned();
    };
    let lines: Vec<String> = replace
        .split('\n')
        .map(|line| {
            if line.trim().is_empty() {
                line.to_owned()
            } else {
                format!("{more}{line}")
            }
        })
        .collect();
    lines.join("\n")
}

/// Where lines of a text are those that are looked for, after `view` of each; blank lines around the search are left out.
fn lines(text: &str, search: &str, view: fn(&str) -> &str) -> Vec<Range<usize>> {
    let wanted: Vec<&str> = search.trim_matches('\n').lines().map(view).collect();
    let first = wanted.iter().position(|line| !line.trim().is_empty());
    let last = wanted.iter().rposition(|line| !line.trim().is_empty());
    let (Some(first), Some(last)) = (first, last) else {
        return Vec::new();
    };
    let wanted = wanted.get(first..=last).unwrap_or_default();
    let mut at = 0;
    let have: Vec<(Range<usize>, &str)> = text
        .split('\n')
        .map(|line| {
            let span = at..at + line.len();
            at = span.end + 1;
            (span, view(line))
        })
        .collect();
    have.windows(wanted.len())
        .filter(|window| {
            window
                .iter()
                .zip(wanted)
                .all(|((_, have), wanted)| have == wanted)
        })
        .filter_map(|window| Some(window.first()?.0.start..window.last()?.0.end))
        .collect()
}

/// Where the tokens of a text are those that are looked for. Comments do not count, nor does where lines end.
fn without_blanks(text: &str, search: &str) -> Vec<Range<usize>> {
    let wanted = placed(search);
    if wanted.is_empty() {
        return Vec::new();
    }
    placed(text)
        .windows(wanted.len())
        .filter(|window| {
            window
                .iter()
                .zip(&wanted)
                .all(|((_, have), (_, wanted))| have == wanted)
        })
        .filter_map(|window| Some(window.first()?.0.start..window.last()?.0.end))
        .collect()
}

fn first_line(search: &str) -> String {
    let line = search.lines().find(|line| !line.trim().is_empty());
    one_line(line.unwrap_or_default(), 80)
}

fn ambiguous(index: usize, edit: &Replace, at: Vec<usize>) -> Unusable {
    Unusable::SearchAmbiguous {
        number: index + 1,
        line: first_line(&edit.search),
        at,
    }
}

fn missing(index: usize, edit: &Replace, texts: &[String], outside: &[&str]) -> Unusable {
    let line = first_line(&edit.search);
    let outside: Vec<String> = outside.iter().map(|text| (*text).to_owned()).collect();
    if !matches!(look(&edit.search, &outside), Look::Nowhere) {
        return Unusable::SearchOutside {
            number: index + 1,
            line,
        };
    }
    Unusable::SearchMissing {
        number: index + 1,
        line,
        nearest: nearest(&edit.search, texts),
    }
}

/// Lines that are shown of a place that is much like the one that was looked for.
const MOST_NEAREST: usize = 12;

/// The lines of the regions that have most in common with those that are looked for.
fn nearest(search: &str, texts: &[String]) -> Option<String> {
    let wanted: Vec<&str> = search
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(MOST_NEAREST)
        .collect();
    let mut best: (usize, Option<String>) = (0, None);
    for text in texts {
        let have: Vec<&str> = text.lines().collect();
        for from in 0..have.len() {
            let window = have.get(from..(from + wanted.len()).min(have.len()))?;
            // Whole lines count most; words in common tell which line is meant when none is the same.
            let common: usize = window
                .iter()
                .zip(&wanted)
                .map(|(have, wanted)| alike(have.trim(), wanted))
                .sum();
            if common > best.0 {
                best = (common, Some(window.join("\n")));
            }
        }
    }
    best.1.filter(|_| best.0 >= 2)
}

/// How much two lines have in common.
fn alike(one: &str, other: &str) -> usize {
    if one == other {
        return 100;
    }
    let (one, other) = (placed(one), placed(other));
    let common = one
        .iter()
        .filter(|(_, token)| token.len() > 1 && other.iter().any(|(_, other)| other == token))
        .count();
    // Half of the words at least, else it is another line.
    if 2 * common >= other.iter().filter(|(_, token)| token.len() > 1).count() {
        common
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(search: &str, replace: &str) -> Replace {
        Replace {
            search: search.to_owned(),
            replace: replace.to_owned(),
        }
    }

    fn texts() -> Vec<String> {
        vec!["void k() {\n    int ii = 0;\n    ii += 1;\n    for (int i = 0; i < 4; ++i) {\n        a[i] = 0;\n    }\n}\n".to_owned()]
    }

    fn applied(edits: &[Replace]) -> Result<String, Unusable> {
        apply(edits, &texts(), &["int outside;\n"]).map(|texts| texts.concat())
    }

    #[test]
    fn lines_are_replaced_also_when_blanks_and_line_ends_differ() {
        for search in [
            "    for (int i = 0; i < 4; ++i) {\n        a[i] = 0;\n    }\n",
            "\n    for (int i = 0; i < 4; ++i) {   \n        a[i] = 0;\n    }\n\n",
            "for (int i = 0; i < 4; ++i) {\na[i] = 0;\n}\n",
            "for(int i=0; i<4; ++i) { a[i]=0; }\n",
            "for (int i = 0; i < 4; ++i)\n{ // clear\n  a[i] = 0;\n}\n",
        ] {
            let text = applied(&[edit(search, "    clear(a);\n")]).unwrap();
            assert!(text.contains("    clear(a);\n}\n"), "{search:?}: {text}");
            assert!(!text.contains("for"), "{search:?}: {text}");
        }
    }

    #[test]
    fn a_part_of_another_name_is_not_what_is_looked_for() {
        let error = applied(&[edit("i += 1;\n", "i += 2;\n")]).unwrap_err();
        assert!(matches!(error, Unusable::SearchMissing { .. }), "{error}");
        let text = applied(&[edit("i < 4", "i < 8")]).unwrap();
        assert!(text.contains("for (int i = 0; i < 8; ++i) {"), "{text}");
    }

    #[test]
    fn edits_do_not_see_each_other_unless_they_must() {
        let text = applied(&[
            edit("    int ii = 0;\n", "    ii += 1;\n"),
            edit("    ii += 1;\n", "    int jj;\n"),
            edit("int jj;", "long jj;"),
        ])
        .unwrap();
        assert!(
            text.starts_with("void k() {\n    ii += 1;\n    long jj;\n"),
            "{text}"
        );
    }

    #[test]
    fn lines_are_taken_out_whole() {
        let text = applied(&[edit("    ii += 1;\n", "")]).unwrap();
        assert!(
            text.starts_with("void k() {\n    int ii = 0;\n    for"),
            "{text}"
        );
    }

    #[test]
    fn what_is_there_twice_missing_or_elsewhere_is_told() {
        let twice = vec!["x = 1;\ny = 2;\nx = 1;\n".to_owned()];
        let error = apply(&[edit("x = 1;", "x = 3;")], &twice, &[]).unwrap_err();
        assert_eq!(
            error,
            Unusable::SearchAmbiguous {
                number: 1,
                line: "x = 1;".to_owned(),
                at: vec![1, 3]
            }
        );
        let error = applied(&[edit("int outside;", "long outside;")]).unwrap_err();
        assert!(matches!(error, Unusable::SearchOutside { .. }), "{error}");
        let error =
            applied(&[edit("for (int i = 0; i < 5; ++i) {\n    a[i] = 0;\n", "")]).unwrap_err();
        let Unusable::SearchMissing { nearest, .. } = error else {
            panic!("{error}")
        };
        assert!(nearest.unwrap().contains("i < 4"));
        let error = applied(&[edit("ii = 0;", "x"), edit("int ii = 0;", "y")]).unwrap_err();
        assert_eq!(
            error,
            Unusable::Overlap {
                first: 1,
                second: 2
            }
        );
        let error = applied(&[edit(" \n", "y")]).unwrap_err();
        assert_eq!(error, Unusable::EmptySearch { number: 1 });
    }
}
