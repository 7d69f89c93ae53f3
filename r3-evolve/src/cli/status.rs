//! `r3-evolve status`.

use std::path::PathBuf;

use super::Failure;
use super::output::Output;
use crate::evolve::view::{self, RunView};
use crate::store::Store;

/// Says how a search over source is doing, also while it runs.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let store = Store::look(&args.run).map_err(Failure::new)?;
    if !view::is_evolve(&store).map_err(Failure::new)? {
        return Err(Failure::new(format!(
            "{}: this is a run of `tune`, which `r3-evolve show {}` shows",
            args.run.display(),
            args.run.display()
        )));
    }
    let view = RunView::of(&store).map_err(Failure::new)?;
    if args.json {
        return out.json(&view);
    }
    out.text(&crate::report::status(&view))?;
    for line in super::times::lines(&store)? {
        out.line(line)?;
    }
    Ok(())
}
