//! Which steps on the way to the best mattered.

use std::fmt::Write;

use super::{diff, link, tables, times, variant};
use crate::report::data::{Report, Seen, Stage};
use crate::report::escape::html;
use crate::report::words;
use crate::tune::summary::gain;

/// The steps as a table, and what each one changed.
pub(super) fn way(out: &mut String, of: &Report) -> std::fmt::Result {
    if of.way.is_empty() {
        let text = match of.best {
            None => "Nothing is right so far.",
            Some(_) => "The best is the source as given: no step led to it.",
        };
        return writeln!(out, "<p>{text}</p>");
    }
    writeln!(
        out,
        "<p>Each step on the way to the best: the time of the variant that it began from, and of the one that it made, by what the search \
         measured. A step has gained where the two intervals are apart, by more than what the same code differs by. Steps were not \
         measured alone: what one brings may need those before it, and its configuration was searched as well. \
         \u{201c}As texts are\u{201d} compares the two without passes, bounds or another launch.</p>"
    )?;
    let rows: Vec<Vec<String>> = of.way.iter().map(row).collect();
    tables::table(
        out,
        "Steps on the way to the best; times as parts of the captured binary's",
        &[
            "#variant",
            "#from",
            "what was done",
            "#before",
            "#after",
            "each at its best",
            "as texts are",
        ],
        &rows,
    )?;
    for stage in &of.way {
        let Some(one) = variant(of, stage.variant).filter(|one| !one.diff.is_empty()) else {
            continue;
        };
        writeln!(
            out,
            "<details><summary>Step to variant {}: {}</summary>",
            stage.variant,
            html(&what(stage))
        )?;
        diff(out, &one.diff)?;
        writeln!(out, "</details>")?;
    }
    Ok(())
}

fn what(of: &Stage) -> String {
    let parts = [of.operator.as_str(), of.by.as_str(), of.what.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(": ")
}

fn row(of: &Stage) -> Vec<String> {
    let with: Vec<String> = of.with.iter().map(|other| link(*other)).collect();
    let from = [vec![link(of.from)], with].concat().join(" and ");
    vec![
        link(of.variant),
        from,
        html(&what(of)),
        times(of.best.before.as_ref()),
        times(of.best.after.as_ref()),
        seen(&of.best),
        seen(&of.plain),
    ]
}

/// What was seen, in words; the mark is for those who look for colours.
fn seen(of: &Seen) -> String {
    let class = match of.seen.as_str() {
        words::GAINED => "verdict right",
        words::WORSE => "verdict",
        _ => "hint",
    };
    let much = match (&of.before, &of.after) {
        (Some(before), Some(after)) if of.seen != words::NO_DIFFERENCE => {
            format!(" {}", gain(after.median / before.median.max(1e-9)))
        }
        _ => String::new(),
    };
    format!("<span class=\"{class}\">{}</span>{much}", html(&of.seen))
}
