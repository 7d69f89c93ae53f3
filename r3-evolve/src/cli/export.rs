//! `r3-evolve export`.

use std::path::PathBuf;

use clap::ValueEnum;
use r3_replay::evaluate::Candidate;
use r3_replay::evaluate::describe::KernelDescription;

use super::output::Output;
use super::variant::Wanted;
use super::{Failure, show, unfinished};
use crate::evolve::variant::{Variant, VariantNumber};
use crate::evolve::view::{RunView, is_evolve};
use crate::evolve::workshop::Workshop;
use crate::result::export::{self, BestSource};
use crate::simulate::record::{self, Header};
use crate::space::{Point, Space};
use crate::store::{Phase, Reason, Store, key};
use crate::strategy::Told;
use crate::tune::{BEST, Environment, Ground, Summary, told_of};

/// Writes a run in a form for other tools.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// A variant of a search over source, by its number, `given` or `best`, for --format source or nvcc-flags [default: what the
    /// run found].
    variant: Option<String>,

    /// In which form.
    #[arg(long, value_enum)]
    format: Format,

    /// Where the variant was only screened, check it first: on every launch, and with perturbed inputs.
    #[arg(long, requires = "variant")]
    check: bool,

    /// File to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The result, to be applied.
    R3t,
    /// Every evaluation, in the format that auto-tuners share.
    T4,
    /// Everything, with every sample.
    Json,
    /// What of the result nvcc and the source can have.
    NvccFlags,
    /// The best source as a file, with a comment that says how to compile and to launch it. Of a search over source.
    Source,
    /// Points and what came of them, for `r3-evolve simulate`. Of a search over source: those of the best variant.
    Recorded,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let bytes = bytes(args)?;
    match &args.output {
        Some(path) => std::fs::write(path, bytes)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display()))),
        None => out.bytes(&bytes),
    }
}

fn bytes(args: &Args) -> Result<Vec<u8>, Failure> {
    if let Some(name) = &args.variant {
        let flags = match args.format {
            Format::Source => false,
            Format::NvccFlags => true,
            Format::R3t | Format::T4 | Format::Json | Format::Recorded => {
                return Err(Failure::new(
                    "a variant can be had as --format source or nvcc-flags; the other forms are those of a whole run",
                ));
            }
        };
        let wanted = Wanted {
            run: &args.run,
            name,
            check: args.check,
        };
        return match wanted.bytes(flags)? {
            Some(bytes) => Ok(bytes),
            None => {
                let store = Store::look(&args.run).map_err(Failure::new)?;
                if flags {
                    nvcc_flags(&store)
                } else {
                    source(&store)
                }
            }
        };
    }
    let store = Store::look(&args.run).map_err(Failure::new)?;
    let text = store.text(key::SPACE).map_err(Failure::new)?;
    let space = Space::from_toml(&text.unwrap_or_default()).map_err(Failure::new)?;
    match args.format {
        Format::R3t => {
            let path = args.run.join(BEST);
            std::fs::read(&path).map_err(|error| {
                if error.kind() != std::io::ErrorKind::NotFound {
                    return Failure::new(format!("{}: {error}", path.display()));
                }
                let ended = store.get::<Summary>(key::SUMMARY);
                match ended.map_err(Failure::new).map(|found| found.is_some()) {
                    Ok(true) => Failure::new(format!(
                        "the run has no {BEST}, since no gain is claimed: `r3-evolve show {}` says why",
                        args.run.display()
                    )),
                    Ok(false) => unfinished(&store).map_or_else(|failure| failure, Failure::new),
                    Err(failure) => failure,
                }
            })
        }
        Format::T4 => pretty(&export::t4(&store, &space).map_err(Failure::new)?),
        Format::Json => pretty(&export::json(&store).map_err(Failure::new)?),
        Format::NvccFlags => nvcc_flags(&store),
        Format::Source => source(&store),
        Format::Recorded => recorded(&store, &space),
    }
}

fn pretty(value: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(Failure::new)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// The best candidate, and whether its gain is claimed.
fn best(store: &Store) -> Result<(Candidate, bool), Failure> {
    let summary: Option<Summary> = store.get(key::SUMMARY).map_err(Failure::new)?;
    let Some(summary) = summary else {
        return Err(Failure::new(unfinished(store)?));
    };
    let best = summary
        .best
        .ok_or_else(|| Failure::new("the run found nothing that is right"))?;
    let rows = store
        .evaluations(Some(Phase::Search))
        .map_err(Failure::new)?;
    rows.into_iter()
        .find(|row| row.candidate_number.0 == best.number)
        .map(|row| (row.candidate, summary.claim))
        .ok_or_else(|| Failure::new("the run's best candidate is missing: the store is damaged"))
}

/// What of the best nvcc and the source can have.
fn nvcc_flags(store: &Store) -> Result<Vec<u8>, Failure> {
    let (candidate, claimed) = best(store)?;
    let kernel: KernelDescription = store.need(key::KERNEL).map_err(Failure::new)?;
    let block = kernel
        .launches
        .first()
        .map_or([1; 3], |launch| launch.block);
    let mut text = export::nvcc_flags(&candidate, block).to_string();
    if !claimed {
        text.push_str("note: this is the nearest to a gain; none is claimed\n");
    }
    Ok(text.into_bytes())
}

/// The best source.
fn source(store: &Store) -> Result<Vec<u8>, Failure> {
    if !is_evolve(store).map_err(Failure::new)? {
        return Err(Failure::new(
            "a search for knobs has no source of its own: --format nvcc-flags says what the application's can have",
        ));
    }
    let (candidate, _) = best(store)?;
    let summary: Summary = store.need(key::SUMMARY).map_err(Failure::new)?;
    let kernel: KernelDescription = store.need(key::KERNEL).map_err(Failure::new)?;
    let found = summary
        .source
        .as_ref()
        .ok_or_else(|| Failure::new("the best of the run is the captured binary itself"))?;
    let row = store.variant(found.variant).map_err(Failure::new)?;
    let row = row.ok_or_else(|| {
        Failure::new(format!(
            "variant {} is missing: the store is damaged",
            found.variant.0
        ))
    })?;
    let text = export::source(&BestSource {
        summary: &summary,
        found,
        text: &row.text,
        candidate: &candidate,
        block: kernel
            .launches
            .first()
            .map_or([1; 3], |launch| launch.block),
        sm: kernel.device.sm,
    });
    Ok(text.into_bytes())
}

/// The variant whose points are written, and its space. `None` of a search for knobs.
fn of_best_variant(store: &Store) -> Result<Option<(VariantNumber, Space)>, Failure> {
    if !is_evolve(store).map_err(Failure::new)? {
        return Ok(None);
    }
    let view = RunView::of(store).map_err(Failure::new)?;
    let best = show::find_variant(&view, "best").map_err(Failure::new)?;
    let ground = Ground {
        kernel: view.kernel.clone(),
        prepared: store.need(key::PREPARED).map_err(Failure::new)?,
        choice: view.launches.clone(),
    };
    let shop = Workshop {
        settings: &view.settings,
        base: &view.base,
        ground: &ground,
    };
    let variant = Variant {
        text: best.text.clone(),
        launch: best.launch,
    };
    let space = shop.space(&variant).map_err(Failure::new)?;
    Ok(Some((best.number, space)))
}

/// Points of the search and what the strategy was told of them.
fn recorded(store: &Store, space: &Space) -> Result<Vec<u8>, Failure> {
    let environment: Environment = store.need(key::ENVIRONMENT).map_err(Failure::new)?;
    let of_variant = of_best_variant(store)?;
    let mut rows = store
        .evaluations(Some(Phase::Search))
        .map_err(Failure::new)?;
    if let Some((variant, space)) = &of_variant {
        rows.retain(|row| {
            let known = row.point.as_ref().is_some_and(|point| space.has(point));
            row.variant == Some(*variant) && known && row.reason != Reason::Check
        });
        // A slot's evaluations are told with it, and have no places of their own.
        for (place, row) in (0..).zip(&mut rows) {
            row.told = Some(place);
        }
    }
    let space = of_variant.as_ref().map_or(space, |(_, space)| space);
    let mut told: Vec<(i64, &Point, Told)> = rows
        .iter()
        .filter_map(|row| {
            let shared = || rows.iter().find(|other| Some(other.number) == row.same_as);
            let outcome = row
                .outcome
                .as_ref()
                .or_else(|| shared()?.outcome.as_ref())?;
            Some((row.told?, row.point.as_ref()?, told_of(outcome)?))
        })
        .collect();
    told.sort_by_key(|(place, ..)| *place);
    let header = Header::new(
        &environment.kernel,
        &format!(
            "recorded on {} by R3 {}, {} points",
            environment.device.name,
            environment.r3,
            told.len()
        ),
        space.clone(),
    );
    let mut bytes = Vec::new();
    let entries = told.into_iter().map(|(_, point, told)| (point, told));
    record::write(&mut bytes, &header, entries).map_err(Failure::new)?;
    Ok(bytes)
}
