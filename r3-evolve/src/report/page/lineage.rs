//! Where the elites come from, as a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{link, variant};
use crate::report::data::{Report, Variant};
use crate::report::escape::html;

/// What is to be written next.
enum Next {
    /// A variant and what comes of it.
    Variant(i64, Place),
    /// The end of a list, or of an item.
    End(&'static str),
}

/// Where a variant stands in the tree.
#[derive(Clone, Copy)]
enum Place {
    /// Further in than its parent.
    Within,
    /// Right below its parent.
    Below,
    /// Below its parent, with others that come of it between them.
    BelowOthers(i64),
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
    let weights = weights(&shown, &children);
    let left_out = of.variants.len().saturating_sub(shown.len());
    let omitted = match left_out {
        0 => String::new(),
        1 => " 1 variant that led to none of them is left out.".to_owned(),
        count => format!(" {count} variants that led to none of them are left out."),
    };
    writeln!(
        out,
        "<p>Elites and what they come of; the way to the best is marked. What has an arrow comes of the line above it, or of the one that it names.{omitted}</p>"
    )?;
    writeln!(out, "<ul class=\"tree\">")?;
    let roots = children.get(&None).cloned().unwrap_or_default();
    let mut open: Vec<Next> = vec![Next::End("</ul>")];
    open.extend(
        roots
            .into_iter()
            .rev()
            .map(|root| Next::Variant(root, Place::Within)),
    );
    while let Some(next) = open.pop() {
        let (number, place) = match next {
            Next::End(text) => {
                writeln!(out, "{text}")?;
                continue;
            }
            Next::Variant(number, place) => (number, place),
        };
        let Some(one) = variant(of, number) else {
            continue;
        };
        node(out, of, one, on_the_way.contains(&number), place)?;
        // The one that leads on stands below, not further in: a tree of sixty generations is as narrow as one of six.
        let mut others = children.get(&Some(number)).cloned().unwrap_or_default();
        let leads = |child: &i64| {
            (
                on_the_way.contains(child),
                weights.get(child).copied(),
                -child,
            )
        };
        let Some(main) = others.iter().copied().max_by_key(leads) else {
            writeln!(out, "</li>")?;
            continue;
        };
        others.retain(|child| *child != main);
        if others.is_empty() {
            writeln!(out, "</li>")?;
            open.push(Next::Variant(main, Place::Below));
        } else {
            writeln!(out, "<ul>")?;
            open.push(Next::Variant(main, Place::BelowOthers(number)));
            open.push(Next::End("</ul></li>"));
            let within = others.into_iter().rev();
            open.extend(within.map(|child| Next::Variant(child, Place::Within)));
        }
    }
    Ok(())
}

/// How many variants come of each, itself counted.
fn weights(
    shown: &BTreeSet<i64>,
    children: &BTreeMap<Option<i64>, Vec<i64>>,
) -> BTreeMap<i64, usize> {
    let mut weights: BTreeMap<i64, usize> = BTreeMap::new();
    // What comes of a variant has a larger number.
    for number in shown.iter().rev() {
        let below = children.get(&Some(*number)).map_or(&[][..], Vec::as_slice);
        let of_children: usize = below.iter().filter_map(|child| weights.get(child)).sum();
        weights.insert(*number, 1 + of_children);
    }
    weights
}

fn node(
    out: &mut String,
    of: &Report,
    one: &Variant,
    on_the_way: bool,
    place: Place,
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
        match place {
            Place::Within => String::new(),
            Place::Below =>
                "<span class=\"arrow\" role=\"img\" aria-label=\"from the line above:\">↓</span>"
                    .to_owned(),
            Place::BelowOthers(parent) => format!(
                "<span class=\"arrow from\"><span role=\"img\" aria-label=\"from\">↓</span> of {parent}:</span> "
            ),
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
