//! The state of a run, in some lines.

use std::fmt::Write;

use super::data::{Operator, Report};
use super::words;
use crate::evolve::view::RunView;
use crate::tune::summary::gain;

/// The state of a run.
#[must_use]
pub fn status(run: &RunView) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, &Report::of(run));
    out
}

fn write(out: &mut String, of: &Report) -> std::fmt::Result {
    writeln!(out, "{}", of.kernel)?;
    writeln!(out, "  {}, source {}", of.device, of.file)?;
    writeln!(out, "  {}", of.state)?;
    let mut came: Vec<String> = of
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    came.extend(
        of.dropped
            .iter()
            .map(|(why, count)| format!("{count} not evaluated since the {why}")),
    );
    if !came.is_empty() {
        writeln!(out, "  {}", came.join(", "))?;
    }
    if !of.open.is_empty() {
        writeln!(out, "  not over: {}", words::open(&of.open))?;
    }
    if let Some(source) = &of.source {
        writeln!(out, "source as given  {}", words::times(source))?;
    }
    let best = of
        .best
        .and_then(|number| of.variants.iter().find(|one| one.number == number));
    if let Some(best) = best {
        let times = best.times.map_or_else(String::new, |times| {
            format!("{}, {}", words::times(&times), gain(times.median))
        });
        writeln!(
            out,
            "best             variant {}, in the search {times}",
            best.number
        )?;
        let how: Vec<&str> = [best.operator.as_str(), best.by.as_str(), best.what.as_str()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect();
        writeln!(out, "                 {}", how.join(": "))?;
        if !best.configuration.is_empty() {
            writeln!(out, "                 {}", best.configuration.join(" "))?;
        }
    }
    for island in &of.islands {
        let on = &island.occupancy;
        let best = on.best.map_or_else(String::new, |(number, ratio)| {
            format!(", best variant {} with {ratio:.3}", number.0)
        });
        writeln!(
            out,
            "island {:<9} {} of {} cells, {} proposals, {} born here, {} from elsewhere{best}",
            on.island.0, on.filled, on.size, on.opened, on.born, on.arrived
        )?;
    }
    for operator in &of.operators {
        writeln!(out, "{}", line(operator))?;
    }
    for model in &of.models {
        let cached = model.cached as f64 / model.prompt.max(1) as f64;
        writeln!(
            out,
            "model {:<10} {} answers, {} right, {} best; {} tokens in ({} cached), {} out, {}",
            model.name,
            model.answers,
            model.right,
            model.best,
            model.prompt,
            words::share(cached),
            model.completion,
            words::dollars(model.cost)
        )?;
    }
    for unanswered in &of.unanswered {
        writeln!(out, "note: {}", words::unanswered(unanswered))?;
    }
    let load: Vec<String> = of
        .load
        .iter()
        .map(|(what, part)| format!("{what} {}", words::share(*part)))
        .collect();
    if !load.is_empty() {
        writeln!(out, "busy             {}", load.join(", "))?;
    }
    for pause in &of.curve.pauses {
        let long = pause.seconds.map(words::duration);
        let long = long.map_or_else(String::new, |long| format!(", {long}"));
        writeln!(
            out,
            "paused           after {}{long}: {}",
            words::count(pause.evaluations, "evaluation"),
            pause.why
        )?;
    }
    for note in &of.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn line(of: &Operator) -> String {
    let name = if of.of.is_empty() {
        of.name.clone()
    } else {
        format!("  {}", of.name)
    };
    format!(
        "{name:<16} {} proposals, {} right, {} into a cell, {} best",
        of.proposals, of.right, of.entered, of.best
    )
}
