//! Variants of a source, for people.

use std::collections::BTreeSet;
use std::fmt::Write;

use r3_replay::evaluate::Verdict;
use r3_replay::evaluate::candidate::{GridRule, LaunchChange, SharedRule};

use super::text::{dims, ratio};
use crate::elites::Cell;
use crate::evolve::variant::{IslandNumber, Lineage, Operator, VariantNumber};
use crate::evolve::view::{EvaluationView, Integrity, RunView, VariantView};
use crate::report::words;
use crate::store::{Phase, Reason};
use crate::tune::summary::{Ancestor, gain};

/// A variant: where it comes from, how it came out and why, what was measured of it, and its text.
#[must_use]
pub fn variant(view: &RunView, one: &VariantView) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_variant(&mut out, view, one);
    out
}

fn write_variant(out: &mut String, view: &RunView, one: &VariantView) -> std::fmt::Result {
    writeln!(out, "variant    {}: {}", one.number.0, came_out(one))?;
    if let Some(why) = why(one) {
        writeln!(out, "why        {}", indented(&why))?;
    }
    writeln!(out, "from       {}", origin(&one.lineage))?;
    if view.best == Some(one.number) {
        writeln!(out, "best       of the run so far")?;
    }
    if let Some(candidate) = one.candidate {
        writeln!(
            out,
            "best with  {} (candidate {candidate})",
            said(&one.knobs)
        )?;
    }
    for line in launch(&one.launch) {
        writeln!(out, "launch     {line}")?;
    }
    match one.integrity {
        Integrity::NotRight => {}
        Integrity::Checked => writeln!(out, "checked    {}", one.integrity.words())?,
        Integrity::Refused => writeln!(out, "refused    {}", one.integrity.words())?,
        Integrity::Screened | Integrity::CheckedOtherwise => {
            writeln!(out, "not checked: {}", one.integrity.words())?;
        }
    }
    if let Some(checked) = &one.checked_with {
        writeln!(
            out,
            "checked with  {}: {} of the original's time (candidate {})",
            said(&checked.knobs),
            ratio(&checked.ratio),
            checked.candidate
        )?;
    }
    if let Some(equal) = &one.equal {
        writeln!(out, "equal      {}", equal.words())?;
    }
    if let Some((cell, elite)) = &one.cell {
        let role = if *elite { "its elite" } else { "not its elite" };
        writeln!(
            out,
            "cell       {} of island {}, {role}",
            place(view, one.lineage.island, cell),
            one.lineage.island.0
        )?;
    }
    if let Some(code) = one
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.code.as_ref())
        && let Some(behaviour) = &code.behaviour
    {
        for (what, much) in words::behaviour(behaviour) {
            writeln!(out, "code       {what}: {much}")?;
        }
    }
    let ancestors = ancestors(view, one.number);
    if ancestors.len() > 1 {
        writeln!(out, "lineage")?;
        write_lineage(out, &ancestors)?;
    }
    writeln!(out, "evaluations")?;
    for evaluation in &one.evaluations {
        write_evaluation(out, evaluation)?;
    }
    writeln!(out, "source")?;
    out.push_str(&one.text);
    if !one.text.ends_with('\n') {
        out.push('\n');
    }
    Ok(())
}

/// A configuration.
fn said(knobs: &[String]) -> String {
    if knobs.is_empty() {
        "as its text says".to_owned()
    } else {
        knobs.join(" ")
    }
}

/// A cell, by the names of its axes and the numbers of its bins, from 0.
fn place(view: &RunView, island: IslandNumber, cell: &Cell) -> String {
    let island = usize::try_from(island.0)
        .ok()
        .and_then(|at| view.islands.get(at));
    let axes = island.map_or(&[][..], |island| island.grid.axes.as_slice());
    let bins: Vec<String> = axes
        .iter()
        .zip(&cell.0)
        .map(|(axis, bin)| match bin {
            Some(bin) => format!("{} {bin}", axis.name),
            None => format!("{} not known", axis.name),
        })
        .collect();
    bins.join(", ")
}

/// How it came out, in a line.
fn came_out(one: &VariantView) -> String {
    match (one.verdict, &one.ratio) {
        (None, _) => "under way, or never evaluated".to_owned(),
        (Some(Verdict::Right), Some(found)) => format!(
            "right, {} of the original's time: {}",
            ratio(found),
            gain(found.median)
        ),
        (Some(verdict), _) => verdict.word().to_owned(),
    }
}

/// Why it is not right.
fn why(one: &VariantView) -> Option<String> {
    let verdict = one.verdict?;
    if verdict.is_right() {
        return None;
    }
    one.outcome
        .as_ref()
        .filter(|outcome| outcome.verdict == verdict)
        .and_then(words::wrong)
        .or_else(|| one.reason.clone())
        .or_else(|| Some(words::meaning(verdict).to_owned()))
}

/// Where it comes from, in a line.
fn origin(lineage: &Lineage) -> String {
    if lineage.operator == Operator::Original {
        return "the source as given".to_owned();
    }
    let parents: Vec<String> = lineage
        .parents
        .iter()
        .map(|parent| parent.0.to_string())
        .collect();
    format!(
        "{}: {} ({}, of {} {}, island {})",
        lineage.by,
        lineage.what,
        words::operator(lineage.operator),
        if parents.len() == 1 {
            "variant"
        } else {
            "variants"
        },
        parents.join(" and "),
        lineage.island.0
    )
}

/// How a variant wants to be launched, where it is not as recorded.
fn launch(change: &LaunchChange) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(block) = change.block {
        lines.push(format!("blocks of {}", dims(block)));
    }
    for (axis, rule) in ["x", "y", "z"].iter().zip(&change.grid) {
        match rule {
            GridRule::Cover => {}
            GridRule::Same => lines.push(format!("as many blocks in {axis} as recorded")),
            GridRule::Blocks(count) => lines.push(format!("{count} blocks in {axis}")),
            GridRule::Scale(by, of) => {
                lines.push(format!("{by}/{of} of the recorded blocks in {axis}"));
            }
        }
    }
    match change.shared {
        SharedRule::Same => {}
        SharedRule::PerThread => lines.push("shared memory in proportion to threads".to_owned()),
        SharedRule::Bytes(bytes) => lines.push(format!("{bytes} bytes of dynamic shared memory")),
    }
    lines
}

/// The variants that one came of, and itself, from the source as given on.
#[must_use]
pub fn ancestors(view: &RunView, of: VariantNumber) -> Vec<Ancestor> {
    let mut all = BTreeSet::from([of]);
    let mut open = vec![of];
    while let Some(number) = open.pop() {
        let known = view.variant(number);
        for parent in known.map_or(&[][..], |one| one.lineage.parents.as_slice()) {
            if all.insert(*parent) {
                open.push(*parent);
            }
        }
    }
    all.into_iter()
        .filter_map(|number| view.variant(number))
        .map(|one| Ancestor {
            variant: one.number,
            lineage: one.lineage.clone(),
            ratio: one.ratio.map(|found| found.median),
        })
        .collect()
}

/// Each step on the way to a variant, with the time that was reached.
pub(super) fn write_lineage(out: &mut String, steps: &[Ancestor]) -> std::fmt::Result {
    for step in steps {
        let reached = step
            .ratio
            .map_or_else(|| "  -   ".to_owned(), |found| format!("{found:.4}"));
        writeln!(
            out,
            "  {:>4}  {reached}  {}",
            step.variant.0,
            origin(&step.lineage)
        )?;
    }
    Ok(())
}

fn write_evaluation(out: &mut String, one: &EvaluationView) -> std::fmt::Result {
    let what = match (one.phase, one.reason) {
        (_, Reason::Check) => "check",
        (Phase::Search, Reason::Again) => "again",
        (Phase::Search, _) => "search",
        (Phase::Final, Reason::HeldOut) => "held out",
        (Phase::Final, Reason::Given) => "baseline",
        (Phase::Final, _) => "final",
        (Phase::Ablation, _) => "ablation",
        (Phase::Done, _) => "done",
    };
    let verdict = one.verdict.map_or("under way", Verdict::word);
    let measured = match (&one.ratio, one.pairs) {
        (Some(found), Some(pairs)) => format!(
            " {}, {}",
            ratio(found),
            words::count(u64::from(pairs), "pair")
        ),
        (Some(found), None) => format!(" {}", ratio(found)),
        (None, _) => String::new(),
    };
    writeln!(
        out,
        "  {:>4}  {what:8}  {verdict}{measured}  {}",
        one.number,
        said(&one.knobs)
    )?;
    if let Some(why) = &one.why {
        writeln!(out, "        {}", indented(why))?;
    }
    Ok(())
}

/// Lines of a text below each other.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n           ")
}

/// The best variants of a run, in a table. Those that were only screened are marked.
#[must_use]
pub fn best(view: &RunView, most: usize) -> String {
    let mut right: Vec<(&VariantView, f64)> = view
        .variants
        .iter()
        .filter(|one| one.verdict == Some(Verdict::Right))
        .filter_map(|one| Some((one, one.ratio?.median)))
        .collect();
    right.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.number.cmp(&b.0.number)));
    let mut out = String::new();
    for (one, found) in right.into_iter().take(most) {
        let mut knobs = if one.knobs.is_empty() {
            String::new()
        } else {
            format!("; {}", one.knobs.join(" "))
        };
        if !one.checked {
            knobs.push_str("; not checked");
        }
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "  {found:.4}  variant {:<5} {}{knobs}",
            one.number.0,
            origin(&one.lineage)
        );
    }
    out
}
