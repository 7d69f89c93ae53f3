//! `r3-evolve show`.

use std::path::{Path, PathBuf};

use r3_archive::Archive;

use super::output::Output;
use super::{Failure, unfinished};
use crate::evolve::variant::VariantNumber;
use crate::evolve::view::{RunView, VariantView, is_evolve};
use crate::report::{self, data::Stage};
use crate::result::{self, text};
use crate::space::Space;
use crate::store::{CandidateNumber, Evaluation, Phase, Reason, Store, key};
use crate::tune::{Summary, reached};

/// Shows a run, one of its variants or candidates, or a result file.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of a run, or a result (best.r3t).
    run: PathBuf,

    /// In a search over source a variant by its number, or `best`; else a candidate by its number in the run, or the start of
    /// its hash.
    candidate: Option<String>,

    /// In a search over source, the number is that of a candidate: one configuration of a variant.
    #[arg(long, requires = "candidate")]
    configuration: bool,

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
    let over_source = is_evolve(&store).map_err(Failure::new)?;
    match &args.candidate {
        Some(name) if over_source && !args.configuration && !is_hash(name) => {
            variant(args, &store, name, out)
        }
        Some(name) => candidate(args, &store, name, out),
        None => whole(args, &store, over_source, out),
    }
}

/// Whether it is the start of a candidate's hash, and no variant's number.
fn is_hash(name: &str) -> bool {
    name.len() >= 6 && name != BEST_VARIANT && name.chars().all(|c| c.is_ascii_hexdigit())
}

fn variant(args: &Args, store: &Store, name: &str, out: &mut Output) -> Result<(), Failure> {
    let view = RunView::of(store).map_err(Failure::new)?;
    let one = find_variant(&view, name).map_err(Failure::new)?;
    let is_best = find_variant(&view, BEST_VARIANT).is_ok_and(|best| best.number == one.number);
    if args.json {
        let way = is_best.then(|| report::gather::way(&view, one.number));
        return out.json(&Shown { one, way });
    }
    out.text(&result::variant::variant(&view, one))?;
    if is_best {
        out.text(&report::steps(&view, one.number))?;
    }
    Ok(())
}

/// A variant, and of the best one the steps that led to it.
#[derive(serde::Serialize)]
struct Shown<'v> {
    #[serde(flatten)]
    one: &'v VariantView,
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<Vec<Stage>>,
}

/// What `best` stands for where a variant is named.
const BEST_VARIANT: &str = "best";

/// A variant by its number, `given` for the source as it was given, or `best`.
pub(super) fn find_variant<'v>(view: &'v RunView, name: &str) -> Result<&'v VariantView, String> {
    let number = match name {
        "given" => Some(VariantNumber(1)),
        BEST_VARIANT => {
            let summary = view.summary.as_ref();
            let found = summary.and_then(|summary| summary.best.as_ref()?.variant);
            let best = found.or(view.best);
            return best
                .and_then(|best| view.variant(best))
                .ok_or_else(|| "the run has no best variant yet".to_owned());
        }
        name => name.parse().ok().map(VariantNumber),
    };
    number
        .and_then(|number| view.variant(number))
        .ok_or_else(|| {
            let last = view.variants.last().map_or(0, |one| one.number.0);
            format!(
                "there is no variant `{name}`: a number up to {last}, `given` or `best` is expected"
            )
        })
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

fn whole(args: &Args, store: &Store, over_source: bool, out: &mut Output) -> Result<(), Failure> {
    let (phase, summary): (Phase, Option<Summary>) = reached(store).map_err(Failure::new)?;
    if args.json {
        return out.json(&crate::result::export::json(store).map_err(Failure::new)?);
    }
    match (&summary, phase) {
        (Some(summary), Phase::Done) => out.text(&text::summary(summary))?,
        _ => out.line(unfinished(store)?)?,
    }
    if over_source {
        let view = RunView::of(store).map_err(Failure::new)?;
        out.line("best by the search")?;
        return out.text(&result::variant::best(&view, 10));
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
