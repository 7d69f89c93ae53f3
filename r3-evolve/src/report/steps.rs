//! The steps on the way to a variant, and which of them mattered, as text.

use std::fmt::Write;

use r3_source::diff;

use super::data::{Seen, Stage};
use super::{gather, words};
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::RunView;

/// What the steps on the way to a variant changed, and what was seen of each. Empty for the source as given.
#[must_use]
pub fn steps(run: &RunView, to: VariantNumber) -> String {
    let way = gather::way(run, to);
    let mut out = String::new();
    if way.is_empty() {
        return out;
    }
    // Writing to a string does not fail.
    let _ = write(&mut out, run, &way);
    out
}

fn write(out: &mut String, run: &RunView, way: &[Stage]) -> std::fmt::Result {
    writeln!(
        out,
        "steps      what came with each where it was made: parts of the original's time before and after. None was measured alone"
    )?;
    for stage in way {
        let others: String = stage
            .with
            .iter()
            .map(|other| format!(" and {other}"))
            .collect();
        writeln!(
            out,
            "  {:>4} of {}{others}, {}: {}: {}",
            stage.variant, stage.from, stage.operator, stage.by, stage.what
        )?;
        writeln!(out, "       each at its best    {}", seen(&stage.best))?;
        writeln!(out, "       as texts are        {}", seen(&stage.plain))?;
        let texts = (
            run.variant(VariantNumber(stage.from)),
            run.variant(VariantNumber(stage.variant)),
        );
        if let (Some(before), Some(after)) = texts {
            let names = (
                format!("variant {}", stage.from),
                format!("variant {}", stage.variant),
            );
            let changed = diff::unified(&before.text, &after.text, (&names.0, &names.1));
            // Its head says what the line above says.
            for line in changed.lines().skip(2) {
                writeln!(out, "       {line}")?;
            }
        }
    }
    Ok(())
}

fn seen(of: &Seen) -> String {
    let times = |of: &Option<_>| of.as_ref().map_or_else(|| "-".to_owned(), words::times);
    format!("{} -> {}: {}", times(&of.before), times(&of.after), of.seen)
}
