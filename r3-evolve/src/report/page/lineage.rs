//! Where the elites come from, as a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{link, variant};
use crate::report::data::{Report, Variant};
use crate::report::escape::html;

/// What is to be written next.
enum Next {
    /// A variant and what comes of it; whether it is the only one that comes of the line above.
    Variant(i64, bool),
    /// The end of a list, or of an item.
    End(&'static str),
}

/// The tree of elites, of the best, and of all that they come of. A variant stands below its first parent.
pub(super) fn tree(out: &mut String, of: &Report) -> std::fmt::Result {
    let shown = shown(of);
    let mut children: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
    for number in &shown {
        let parent = variant(of, *number)
            .and_then(|one| one.parents.first().copied())
            // A parent is older than what comes of it: so the tree has an end.
            .filter(|parent| parent < number && shown.contains(parent));
        children.entry(parent).or_default().push(*number);
    }
    let on_the_way = ancestors(of, of.best);
    let left_out = of.variants.len().saturating_sub(shown.len());
    let omitted = match left_out {
        0 => String::new(),
        1 => " 1 variant that led to none of them is left out.".to_owned(),
        count => format!(" {count} variants that led to none of them are left out."),
    };
    writeln!(
        out,
        "<p>Elites and what they come of; the way to the best is marked. What has an arrow comes of the line above it.{omitted}</p>"
    )?;
    writeln!(out, "<ul class=\"tree\">")?;
    let roots = children.get(&None).cloned().unwrap_or_default();
    let mut open: Vec<Next> = vec![Next::End("</ul>")];
    open.extend(
        roots
            .into_iter()
            .rev()
            .map(|root| Next::Variant(root, false)),
    );
    while let Some(next) = open.pop() {
        let (number, only) = match next {
            Next::End(text) => {
                writeln!(out, "{text}")?;
                continue;
            }
            Next::Variant(number, only) => (number, only),
        };
        let Some(one) = variant(of, number) else {
            continue;
        };
        node(out, of, one, on_the_way.contains(&number), only)?;
        let below = children.get(&Some(number)).map_or(&[][..], Vec::as_slice);
        match below {
            [] => writeln!(out, "</li>")?,
            // An only child stands below, not further in: long ways stay readable, and no tree is too deep for a browser.
            [only] => {
                writeln!(out, "</li>")?;
                open.push(Next::Variant(*only, true));
            }
            several => {
                writeln!(out, "<ul>")?;
                open.push(Next::End("</ul></li>"));
                open.extend(
                    several
                        .iter()
                        .rev()
                        .map(|child| Next::Variant(*child, false)),
                );
            }
        }
    }
    Ok(())
}

fn node(
    out: &mut String,
    of: &Report,
    one: &Variant,
    on_the_way: bool,
    only: bool,
) -> std::fmt::Result {
    let best = of.best == Some(one.number);
    let mut class = String::new();
    for (is, name) in [(on_the_way, "way"), (one.elite, "elite"), (best, "best")] {
        if is {
            class.push_str(name);
            class.push(' ');
        }
    }
    let by = if one.by.is_empty() {
        one.operator.clone()
    } else {
        format!("{}: {}", one.operator, one.by)
    };
    let others: Vec<String> = one
        .parents
        .iter()
        .skip(1)
        .map(|parent| link(*parent))
        .collect();
    let with = if others.is_empty() {
        String::new()
    } else {
        format!(" with {}", others.join(", "))
    };
    let time = one.times.map_or_else(
        || html(&one.verdict),
        |times| format!("{:.3}", times.median),
    );
    write!(
        out,
        "<li class=\"{}\">{}{} <span class=\"time\">{time}</span>{} <span class=\"by\">{}{with}</span>{}",
        class.trim_end(),
        if only {
            "<span class=\"arrow\" role=\"img\" aria-label=\"from the line above:\">↓</span>"
        } else {
            ""
        },
        link(one.number),
        if best {
            " <span class=\"mark\">★ the best</span>"
        } else {
            ""
        },
        html(&by),
        if one.what.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"what\">– {}</span>", html(&one.what))
        }
    )
}

/// A variant and all that it comes of.
fn ancestors(of: &Report, from: impl IntoIterator<Item = i64>) -> BTreeSet<i64> {
    let mut open: Vec<i64> = from.into_iter().collect();
    let mut all = BTreeSet::new();
    while let Some(number) = open.pop() {
        if let Some(one) = variant(of, number)
            && all.insert(number)
        {
            open.extend(&one.parents);
        }
    }
    all
}

fn shown(of: &Report) -> BTreeSet<i64> {
    let elites = of.variants.iter().filter(|one| one.elite);
    ancestors(of, elites.map(|one| one.number).chain(of.best).chain([1]))
}
