//! `r3-evolve tune`.

use std::path::{Path, PathBuf};

use r3_codegen::source::files;

use super::going_on::GoingOn;
use super::judging::{
    self, Judging, Unborn, absolute, clear, environment, launches, refuse_changes,
};
use super::output::Output;
use super::signals::{Preparing, Signals};
use super::terminal::Terminal;
use super::{Failure, archives};
use crate::space::{Allowed, Size, Space, SpaceOptions};
use crate::store::{Store, key};
use crate::strategy::Kind;
use crate::tune::client::Server;
use crate::tune::clock::{Clock, SystemClock};
use crate::tune::settings::{Approximation, Budget, seconds};
use crate::tune::{
    ArchiveFile, Environment, Ground, Settings, Tune, TuneError, ground, original_time, reopen,
};

/// Time of a search when nothing is said.
const DEFAULT_SECONDS: f64 = 180.0;

/// Searches passes, launch shape, registers and compiler options for a faster form of a kernel, and verifies it.
///
/// Writes a folder with everything that was tried and, when a gain is found, best.r3t. Ctrl-C ends the search and brings
/// the best so far to its result; a second one leaves at once. A run that was left or killed goes on with --resume.
#[derive(clap::Args)]
pub struct Args {
    /// The archive. With --resume it may be left out.
    #[arg(required_unless_present_any = ["resume", "set"])]
    archive: Option<PathBuf>,

    /// The kernel: its mangled or readable name, or a part of it that no other kernel has.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    /// Folder of the run [default: named after archive and kernel].
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,

    /// How the next candidate is chosen [default: bayesian].
    #[arg(long, value_name = "bayesian|random|grid")]
    strategy: Option<Kind>,

    /// What can be varied, as --print-space writes it.
    #[arg(long, value_name = "FILE")]
    space: Option<PathBuf>,

    /// Try what is left out by default: a parameter, or a value of one, e.g. `load_cache=cg`. May be repeated.
    #[arg(long, value_name = "PARAMETER[=VALUE]", conflicts_with = "space")]
    with: Vec<String>,

    /// Do not try a parameter. May be repeated.
    #[arg(long, value_name = "PARAMETER", conflicts_with = "space")]
    without: Vec<String>,

    /// Print what can be varied for this kernel, as TOML to be edited, and end.
    #[arg(long, group = "looks", conflicts_with = "resume")]
    print_space: bool,

    /// Print what would be tried first and on which launches, and end.
    #[arg(long, group = "looks", conflicts_with = "resume")]
    dry_run: bool,

    /// Measure the original and its noise, and end.
    #[arg(long, group = "looks", conflicts_with = "resume")]
    baseline_only: bool,

    /// Time for searching, e.g. 90s, 3m, 1h [default: 3m without another limit].
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    time: Option<f64>,

    /// Evaluations at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    evaluations: Option<u64>,

    /// End after so many evaluations without a better one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    stagnation: Option<u64>,

    /// Seed of the search [default: 1].
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    seed: Option<u64>,

    #[command(flatten)]
    judging: Judging,

    /// Go on with a run that was stopped or killed.
    #[arg(long)]
    resume: bool,

    /// Go on although archive, device, driver, tools or space have changed.
    #[arg(long, requires = "resume")]
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
    if let Some(help) = args.judging.helps() {
        return out.text(&help);
    }
    contradictions(args)?;
    if args.resume {
        return resume(args, out);
    }
    let settings = settings(args)?;
    let folder = match &args.run {
        Some(folder) => folder.clone(),
        None => PathBuf::from(archives::folder(&settings.archive, &settings.kernel)),
    };
    let keeps = !(args.print_space || args.dry_run || args.baseline_only);
    // Said before anything takes time.
    if keeps && Store::has_begun(&folder).map_err(Failure::new)? {
        return Err(Failure::new(crate::store::StoreError::Exists(folder)));
    }
    let signals = Signals::listen().map_err(Failure::new)?;
    let preparing = Preparing::watch(&signals, {
        let folder = folder.clone();
        move || {
            if keeps {
                clear(&folder);
            }
            "left before the search began; nothing is kept".to_owned()
        }
    })
    .map_err(Failure::new)?;
    let result = begin(args, &settings, &folder, keeps, signals, preparing, out);
    if result.is_err() && keeps {
        clear(&folder);
    }
    result
}

/// Options that say the opposite of each other.
fn contradictions(args: &Args) -> Result<(), Failure> {
    args.judging.contradictions()?;
    let name = |with: &String| with.split('=').next().unwrap_or_default().to_owned();
    let both = args
        .with
        .iter()
        .map(name)
        .find(|name| args.without.contains(name));
    match both {
        Some(name) => Err(Failure::new(format!(
            "--with {name} and --without {name}: leave one out"
        ))),
        None => Ok(()),
    }
}

fn begin(
    args: &Args,
    settings: &Settings,
    folder: &Path,
    keeps: bool,
    signals: Signals,
    preparing: Preparing,
    out: &mut Output,
) -> Result<(), Failure> {
    let archive = ArchiveFile::read(&settings.archive).map_err(Failure::new)?;
    let clock = SystemClock::default();
    let mut store = if keeps {
        // The folder is there for the server's log; the database comes with its content.
        Some(Unborn::new(folder)?)
    } else {
        None
    };
    let log = store.as_ref().map(|_| folder.join("serve.log"));
    let mut server = args.judging.connect(settings, log)?;
    let ground = ground(&mut server, settings).map_err(Failure::new)?;
    let space = space(args, settings, &ground)?;
    if args.print_space {
        return out.text(&space.to_toml());
    }
    if args.dry_run {
        return dry_run(settings, &ground, &space, out);
    }
    if args.baseline_only {
        return baseline(args, &ground, out);
    }
    let environment = environment(&mut server, &archive, &ground, space.digest())?;
    let Some(unborn) = store.take() else {
        return Ok(());
    };
    preparing.over();
    let mut store = unborn.create()?;
    let write = |store: &Store| -> Result<(), crate::store::StoreError> {
        store.put(key::SETTINGS, settings)?;
        store.put(key::ENVIRONMENT, &environment)?;
        store.put(key::KERNEL, &ground.kernel)?;
        store.put(key::PREPARED, &ground.prepared)?;
        store.put(key::LAUNCHES, &ground.choice)?;
        store.event(clock.unix(), "begin", "the run begins")?;
        // Last: a run without a space has not begun.
        store.put_text(key::SPACE, &space.to_toml())
    };
    write(&store).map_err(Failure::new)?;
    std::fs::write(folder.join("space.toml"), space.to_toml())
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    go(
        args,
        &mut store,
        settings,
        &space,
        &ground,
        &mut server,
        &clock,
        signals,
        out,
    )
}

fn resume(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let folder = match (&args.run, &args.archive, &args.kernel) {
        (Some(folder), ..) => folder.clone(),
        (None, Some(archive), Some(kernel)) => PathBuf::from(archives::folder(archive, kernel)),
        _ => return Err(Failure::new("which run? Say --run DIR")),
    };
    let mut store = Store::open(&folder).map_err(Failure::new)?;
    let old_space = store
        .text(key::SPACE)
        .map_err(Failure::new)?
        .ok_or_else(|| {
            Failure::new(format!(
                "{}: the run was killed before it began: begin again, without --resume",
                folder.display()
            ))
        })?;
    let before: Settings = store.need(key::SETTINGS).map_err(Failure::new)?;
    let settings = changed_settings(args, &before)?;
    let space = match &args.space {
        Some(path) => read_space(path)?,
        None => Space::from_toml(&old_space).map_err(Failure::new)?,
    };
    let mut again = GoingOn {
        store: &store,
        settings: &settings,
        judging: &args.judging,
        force: args.force,
        changed: None,
        moved: "name ARCHIVE, where it lies now",
        left: format!("{}: {}", folder.display(), TuneError::Left),
    }
    .prepare(|_| Ok(space.digest()))?;
    let clock = SystemClock::default();
    let write = |store: &Store| -> Result<(), TuneError> {
        reopen(store, &settings)?;
        store.put(key::SETTINGS, &settings)?;
        store.put_text(key::SPACE, &space.to_toml())?;
        again.note(store, &clock)?;
        Ok(())
    };
    write(&store).map_err(Failure::new)?;
    go(
        args,
        &mut store,
        &settings,
        &space,
        &again.ground,
        &mut again.server,
        &clock,
        again.signals,
        out,
    )
}

#[allow(
    clippy::too_many_arguments,
    reason = "called in two places with what each of them made"
)]
fn go(
    args: &Args,
    store: &mut Store,
    settings: &Settings,
    space: &Space,
    ground: &Ground,
    server: &mut Server,
    clock: &dyn Clock,
    signals: Signals,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut terminal = Terminal::new(signals, args.quiet);
    let folder = store.folder().to_owned();
    let tune = Tune {
        store,
        settings,
        space,
        ground,
        clock,
        forced: args.force,
    };
    let began = tune
        .store
        .need::<Environment>(key::ENVIRONMENT)
        .map_err(Failure::new)?;
    let found = tune.run(server, &mut terminal);
    terminal.clear();
    let summary = found.map_err(|error| match error {
        TuneError::Left => Failure::Left(format!("{}: {error}", folder.display())),
        TuneError::Machine { .. } => judging::machine(error, settings, &began),
        error => Failure::new(error),
    })?;
    judging::tell(&summary, &folder, args.json, out)
}

fn settings(args: &Args) -> Result<Settings, Failure> {
    let archive = args
        .archive
        .clone()
        .ok_or_else(|| Failure::new("which archive?"))?;
    let Some(kernel) = args.kernel.clone() else {
        let names = archives::kernels(&archive)?;
        return Err(Failure::new(format!(
            "which kernel? Say --kernel NAME; {} has {}",
            archive.display(),
            names.join(", ")
        )));
    };
    let budget = Budget {
        seconds: args.time,
        evaluations: args.evaluations,
        stagnation: args.stagnation,
    };
    let budget = if budget == Budget::default() {
        Budget {
            seconds: Some(DEFAULT_SECONDS),
            ..budget
        }
    } else {
        budget
    };
    args.judging.settings(
        &archive,
        kernel,
        args.strategy.unwrap_or_default(),
        args.seed.unwrap_or(1),
        budget,
    )
}

/// The settings of a run that goes on: as they were, but for its limits.
fn changed_settings(args: &Args, before: &Settings) -> Result<Settings, Failure> {
    let mut settings = before.clone();
    let mut fixed: Vec<&str> = Vec::new();
    let mut same = |name, same: bool| {
        if !same {
            fixed.push(name);
        }
    };
    if let Some(archive) = &args.archive {
        // It may lie elsewhere now; that it is the same one is seen by its content.
        settings.archive = absolute(archive);
    }
    same(
        "--kernel",
        args.kernel
            .as_ref()
            .is_none_or(|kernel| *kernel == before.kernel),
    );
    same(
        "--strategy",
        args.strategy.is_none_or(|kind| kind == before.strategy),
    );
    same("--seed", args.seed.is_none_or(|seed| seed == before.seed));
    same("--with", args.with.is_empty());
    same("--without", args.without.is_empty());
    fixed.extend(args.judging.fixed(before));
    refuse_changes(&fixed)?;
    if args.judging.workers.is_some() {
        settings.workers = args.judging.workers.map(|workers| workers as usize);
    }
    let limits = [
        args.time.is_some(),
        args.evaluations.is_some(),
        args.stagnation.is_some(),
    ];
    if limits.contains(&true) {
        settings.budget = Budget {
            seconds: args.time,
            evaluations: args.evaluations,
            stagnation: args.stagnation,
        };
    }
    Ok(settings)
}

fn space(args: &Args, settings: &Settings, ground: &Ground) -> Result<Space, Failure> {
    if let Some(path) = &args.space {
        let space = read_space(path)?;
        let named = space.kernel.as_ref().map(|kernel| kernel.name.clone());
        if named.as_ref() != Some(&ground.kernel.name) {
            return Err(Failure::new(format!(
                "{}: this is the space of {}, and the kernel is {}",
                path.display(),
                named.as_deref().unwrap_or("no kernel"),
                ground.kernel.name
            )));
        }
        return Ok(space);
    }
    let options = SpaceOptions {
        approximate: match settings.approximate {
            Approximation::None => Allowed::Exact,
            Approximation::Division => Allowed::Division,
            Approximation::Flush => Allowed::Flush,
            Approximation::Functions => Allowed::FastMath,
        },
        with: args.with.clone(),
        without: args.without.clone(),
    };
    Space::of_kernel(&ground.kernel, &options).map_err(Failure::new)
}

fn read_space(path: &Path) -> Result<Space, Failure> {
    let text = files::text(path, files::SETTINGS)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    Space::from_toml(&text).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn dry_run(
    settings: &Settings,
    ground: &Ground,
    space: &Space,
    out: &mut Output,
) -> Result<(), Failure> {
    out.line(&ground.kernel.readable)?;
    out.line(format!("  on {}", ground.kernel.device.name))?;
    launches(ground, out)?;
    let size = match space.size() {
        Size::Exactly(points) => format!("{points} points"),
        Size::About(points) => format!("about {points:.2e} points"),
    };
    out.line(format!("space     {size}"))?;
    for parameter in space.parameters.iter().filter(|one| one.varied) {
        let values = parameter.domain.count();
        let values = if values < 1e6 {
            format!("{values:.0}")
        } else {
            format!("{values:.2e}")
        };
        out.line(format!("  {:<18} {values} values", parameter.name))?;
    }
    out.line("first")?;
    let mut strategy = crate::strategy::build(settings.strategy, space, settings.seed);
    for point in strategy.ask(settings.fine.batch * settings.fine.depth) {
        let knobs: Vec<String> = space
            .knobs(&point)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let knobs = if knobs.is_empty() {
            "the original".to_owned()
        } else {
            knobs.join(" ")
        };
        out.line(format!("  {knobs}"))?;
    }
    Ok(())
}

fn baseline(args: &Args, ground: &Ground, out: &mut Output) -> Result<(), Failure> {
    if args.json {
        return out.json(&serde_json::json!({
            "kernel": ground.kernel.name,
            "device": ground.kernel.device,
            "original_ns": original_time(&ground.choice, &ground.prepared),
            "launches": ground.choice,
            "prepared": ground.prepared,
        }));
    }
    out.line(&ground.kernel.readable)?;
    out.line(format!("  on {}", ground.kernel.device.name))?;
    launches(ground, out)
}
