//! `r3-evolve resume`.

use std::path::PathBuf;

use super::Failure;
use super::evolve::{Going, Limits, ModelArgs, space};
use super::going_on::GoingOn;
use super::judging::{Judging, absolute, refuse_changes};
use super::output::Output;
use crate::evolve::{self, EvolveError};
use crate::program::Program;
use crate::store::{Store, StoreError, key};
use crate::tune::Settings;
use crate::tune::clock::SystemClock;

/// Goes on with a search over source that was stopped or killed, or that has larger limits now.
///
/// Everything that was measured and answered is taken as it is; what was under way is asked again.
#[derive(clap::Args)]
pub struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// The archive, when it lies elsewhere now.
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,

    #[command(flatten)]
    limits: Limits,

    #[command(flatten)]
    models: ModelArgs,

    #[command(flatten)]
    judging: Judging,

    /// Go on although archive, device, driver or tools have changed.
    #[arg(long)]
    force: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// No progress.
    #[arg(long)]
    quiet: bool,
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let folder = &args.run;
    let mut store = Store::open(folder).map_err(Failure::new)?;
    if store.text(key::SPACE).map_err(Failure::new)?.is_none() {
        return Err(Failure::new(StoreError::Empty(folder.clone())));
    }
    let Some(settings) = store
        .get::<evolve::Settings>(key::EVOLVE)
        .map_err(Failure::new)?
    else {
        return Err(Failure::new(format!(
            "{}: this is a run of `tune`: `r3-evolve tune --resume --run {}` goes on with it",
            folder.display(),
            folder.display()
        )));
    };
    let before: Settings = store.need(key::SETTINGS).map_err(Failure::new)?;
    refuse_changes(&args.judging.fixed(&before))?;
    let mut base = before.clone();
    let mut settings = settings;
    if let Some(archive) = &args.archive {
        base.archive = absolute(archive);
    }
    if args.judging.workers.is_some() {
        base.workers = args.judging.workers.map(|workers| workers as usize);
    }
    if args.limits.any() {
        base.budget = args.limits.budget();
        settings.limits = args.limits.limits();
    }
    let models = args.models.again(&settings)?;
    let given: Program = store.need(key::GIVEN).map_err(Failure::new)?;
    let mut again = GoingOn {
        store: &store,
        settings: &base,
        judging: &args.judging,
        force: args.force,
        changed: None,
        moved: "--archive FILE says where it lies now",
        left: format!("{}: {}", folder.display(), EvolveError::Left),
    }
    .prepare(|ground| Ok(space(&base, ground, &given)?.digest()))?;
    let clock = SystemClock::default();
    let write = |store: &Store| -> Result<(), StoreError> {
        evolve::reopen(store, &base, &settings)?;
        store.put(key::SETTINGS, &base)?;
        store.put(key::EVOLVE, &settings)?;
        again.note(store, &clock)
    };
    write(&store).map_err(Failure::new)?;
    Going {
        store: &mut store,
        base: &base,
        settings: &settings,
        ground: &again.ground,
        given,
        models: models.as_ref(),
        server: &mut again.server,
        clock: &clock,
        signals: again.signals,
        json: args.json,
        quiet: args.quiet,
    }
    .go(out)
}
