//! `r3-evolve show`.

use std::path::{Path, PathBuf};

use r3_archive::Archive;

use super::Failure;
use super::output::Output;
use crate::result::text;
use crate::space::Space;
use crate::store::{CandidateNumber, Evaluation, Phase, Reason, Store, key};
use crate::tune::{Summary, reached};

/// Shows a run, one of its candidates, or a result file.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of a run, or a result (best.r3t).
    run: PathBuf,

    /// A candidate: its number in the run, or the start of its hash.
    candidate: Option<String>,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    if args.run.is_file() {
        return result(args, out);
    }
    let store = Store::look(&args.run).map_err(Failure::new)?;
    match &args.candidate {
        Some(name) => candidate(args, &store, name, out),
        None => whole(args, &store, out),
    }
}

fn result(args: &Args, out: &mut Output) -> Result<(), Failure> {
    if args.candidate.is_some() {
        return Err(Failure::new(
            "a result has no candidates: name the folder of the run",
        ));
    }
    let archive = Archive::open(&args.run).map_err(Failure::new)?;
    if archive.tuned().is_empty() {
        return Err(Failure::new(format!(
            "{}: there is no tuned kernel in this archive",
            args.run.display()
        )));
    }
    if args.json {
        return out.json(&archive.tuned());
    }
    for record in archive.tuned() {
        out.text(&text::tuned(&archive, record))?;
    }
    Ok(())
}

fn whole(args: &Args, store: &Store, out: &mut Output) -> Result<(), Failure> {
    let (phase, summary): (Phase, Option<Summary>) = reached(store).map_err(Failure::new)?;
    if args.json {
        return out.json(&crate::result::export::json(store).map_err(Failure::new)?);
    }
    match (&summary, phase) {
        (Some(summary), Phase::Done) => out.text(&text::summary(summary))?,
        _ => out.line(format!(
            "the run is not at its end (phase {}): `r3-evolve tune --resume --run {}` goes on",
            phase.word(),
            args.run.display()
        ))?,
    }
    let rows = store.evaluations(None).map_err(Failure::new)?;
    out.line("best by the search")?;
    let space = space(store)?;
    let mut best: Vec<(&Evaluation, f64)> = rows
        .iter()
        .filter(|row| row.phase == Phase::Search && row.reason == Reason::Proposed)
        .filter(|row| row.same_as.is_none())
        .filter_map(|row| {
            let outcome = row.outcome.as_ref()?;
            let score = outcome.score.filter(|_| outcome.verdict.is_right())?;
            Some((row, score.ratio.median))
        })
        .collect();
    best.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (row, ratio) in best.iter().take(10) {
        out.line(format!(
            "  {ratio:.4}  candidate {:<5} {}",
            row.candidate_number.0,
            knobs(&space, row)
        ))?;
    }
    Ok(())
}

fn candidate(args: &Args, store: &Store, name: &str, out: &mut Output) -> Result<(), Failure> {
    let mut rows = store.evaluations(None).map_err(Failure::new)?;
    let wanted = find(&rows, name, &args.run)?;
    rows.retain(|row| row.candidate_number == wanted);
    for row in &mut rows {
        // One that shared an outcome has it from the other.
        if let (None, Some(other)) = (&row.outcome, row.same_as) {
            let others = store.rows(&[other]).map_err(Failure::new)?;
            row.outcome = others.into_iter().next().and_then(|other| other.outcome);
        }
    }
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let space = space(store)?;
    if args.json {
        let outcomes: Vec<_> = rows.iter().map(|row| &row.outcome).collect();
        return out.json(&serde_json::json!({
            "number": wanted,
            "candidate": first.candidate,
            "point": first.point,
            "outcomes": outcomes,
        }));
    }
    let knobs = first
        .point
        .as_ref()
        .map_or_else(Vec::new, |point| space.knobs(point));
    out.text(&text::candidate(&first.candidate, &knobs, &rows))
}

fn find(rows: &[Evaluation], name: &str, run: &Path) -> Result<CandidateNumber, Failure> {
    let mut found: Vec<CandidateNumber> = rows
        .iter()
        .filter(|row| {
            let by_number = name.parse() == Ok(row.candidate_number.0);
            by_number || (name.len() >= 6 && row.candidate.id().to_string().starts_with(name))
        })
        .map(|row| row.candidate_number)
        .collect();
    found.sort();
    found.dedup();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Failure::new(format!(
            "{}: there is no candidate `{name}`: a number, or at least 6 digits of its hash, is expected",
            run.display()
        ))),
        _ => Err(Failure::new(format!(
            "{}: `{name}` is the start of several candidates' hashes",
            run.display()
        ))),
    }
}

fn space(store: &Store) -> Result<Space, Failure> {
    let text = store.text(key::SPACE).map_err(Failure::new)?;
    Space::from_toml(&text.unwrap_or_default()).map_err(Failure::new)
}

fn knobs(space: &Space, row: &Evaluation) -> String {
    let knobs: Vec<String> = row
        .point
        .as_ref()
        .map_or_else(Vec::new, |point| space.knobs(point))
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if knobs.is_empty() {
        "the original".to_owned()
    } else {
        knobs.join(" ")
    }
}
