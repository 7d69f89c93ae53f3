//! `r3-evolve diff`.

use std::path::PathBuf;

use super::Failure;
use super::output::Output;
use super::show::find_variant;
use crate::evolve::view::{Integrity, RunView, VariantView, is_evolve};
use crate::store::Store;

/// What differs between two variants of a run, as a unified diff.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of a run of `r3-evolve evolve`.
    run: PathBuf,

    /// A variant: its number, `given` for the source as it was given, or `best`.
    a: String,

    /// Another one [default: from the first parent of A to A].
    b: Option<String>,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let store = Store::look(&args.run).map_err(Failure::new)?;
    if !is_evolve(&store).map_err(Failure::new)? {
        return Err(Failure::new(format!(
            "{}: a search for knobs has no variants: `r3-evolve show` shows its candidates",
            args.run.display()
        )));
    }
    let view = RunView::of(&store).map_err(Failure::new)?;
    let find = |name: &str| find_variant(&view, name).map_err(Failure::new);
    let (from, to) = match &args.b {
        Some(b) => (find(&args.a)?, find(b)?),
        None => {
            let to = find(&args.a)?;
            let parent = to.lineage.parents.first().copied();
            let from = parent.and_then(|parent| view.variant(parent));
            (from.unwrap_or(to), to)
        }
    };
    let name = |one: &VariantView| {
        let state = match one.integrity {
            Integrity::Checked => "",
            Integrity::Refused => ", refused",
            Integrity::NotRight => ", not right",
            Integrity::Screened | Integrity::CheckedOtherwise => ", not checked",
        };
        format!("{} variant {}{state}", view.program.name, one.number.0)
    };
    let names = (name(from), name(to));
    out.text(&r3_source::diff::unified(
        &from.text,
        &to.text,
        (&names.0, &names.1),
    ))
}
