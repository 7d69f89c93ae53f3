//! `r3-evolve evolve`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use r3_codegen::recipe::Compiler;
use r3_codegen::source::files;
use r3_models::account::Totals;
use r3_models::ledger::{self, Ledger};
use r3_models::pool;
use r3_replay::evaluate::rules::{self, Rule};

use super::judging::{Judging, Unborn, absolute, clear, environment, launches};
use super::output::Output;
use super::signals::{Preparing, Signals};
use super::terminal::Terminal;
use super::{Failure, archives};
use crate::elites::Axis;
use crate::evolve::{self, Evolve, EvolveError, Models};
use crate::islands::{Schedule, Topology};
use crate::program::{Given, Program};
use crate::space::{Allowed, Space, SpaceOptions};
use crate::store::{Store, StoreError, key};
use crate::strategy::Kind;
use crate::tune::client::Server;
use crate::tune::clock::{Clock, SystemClock};
use crate::tune::settings::{Approximation, Budget, seconds};
use crate::tune::{ArchiveFile, Environment, Ground, Settings, TuneError, ground};

/// Time of a search when nothing is said.
const DEFAULT_SECONDS: f64 = 600.0;

/// Searches the source of a kernel for a faster one, with its passes, launch shape and registers, and verifies it.
///
/// New source is written by built-in rewrites and, where an endpoint is named, by language models. Writes a folder with
/// everything that was tried and, when a gain is found, best.r3t. Ctrl-C ends the search and brings the best so far to its
/// result; a second one leaves at once. A run that was left or killed goes on with `r3-evolve resume`.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    #[arg(required_unless_present = "set")]
    archive: Option<PathBuf>,

    /// The kernel: its mangled or readable name, or a part of it that no other kernel has.
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,

    #[command(flatten)]
    source: Source,

    /// Folder of the run [default: named after archive and kernel].
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,

    #[command(flatten)]
    limits: Limits,

    #[command(flatten)]
    models: ModelArgs,

    /// Islands [default: 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), allow_negative_numbers = true)]
    islands: Option<u32>,

    /// Slots of an island that may be open at a time [default: what keeps compilers busy].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), allow_negative_numbers = true)]
    depth: Option<u32>,

    /// An axis of the grids: a descriptor with a number of bins or with edges, e.g. tokens:10 or registers:32,64,128.
    /// May be repeated [default: tokens:10 and distance:10].
    #[arg(long, value_name = "DESCRIPTOR[:BINS]")]
    axis: Vec<Axis>,

    /// When elites go to other islands: after so many slots, after a time (30m), or never [default: 64].
    #[arg(long, value_name = "N|TIME|never")]
    migration: Option<Schedule>,

    /// To whom [default: ring].
    #[arg(long, value_name = "ring|random")]
    topology: Option<Topology>,

    /// Do not use a built-in rewrite. May be repeated.
    #[arg(long, value_name = "REWRITE")]
    without: Vec<String>,

    /// What device code may do that it may not otherwise, e.g. assembly. May be repeated.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<Rule>,

    /// Settings of the search as TOML; options of the command line come on top.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

    /// Seed of the search [default: 1].
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    seed: Option<u64>,

    #[command(flatten)]
    judging: Judging,

    /// Print which launches decide, how the source is compiled and which rewrites apply, and end.
    #[arg(long)]
    dry_run: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,

    /// No progress.
    #[arg(long)]
    quiet: bool,
}

/// The source.
#[derive(clap::Args)]
struct Source {
    /// The file with the kernel [default: what the application compiled at run time].
    #[arg(id = "source", long = "source", value_name = "FILE")]
    file: Option<PathBuf>,

    /// The command that compiles it, as the build has it.
    #[arg(long, value_name = "COMMAND", conflicts_with = "compile_commands")]
    compile: Option<String>,

    /// compile_commands.json of the build, or the folder with it.
    #[arg(long, value_name = "FILE")]
    compile_commands: Option<PathBuf>,

    /// An option for the compiler, e.g. --option=-DN=4. May be repeated.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    option: Vec<String>,

    /// The compiler [default: the first of NVRTC, nvcc and clang with which the source is right].
    #[arg(long, value_enum)]
    compiler: Option<CompilerChoice>,

    /// The kernel's name in the file, when it cannot be told from the captured one.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
}

/// When a search ends.
#[derive(clap::Args)]
pub(super) struct Limits {
    /// Time for searching, e.g. 90s, 3m, 1h [default: 10m without another limit].
    #[arg(long, value_name = "TIME", value_parser = seconds, allow_hyphen_values = true)]
    time: Option<f64>,

    /// Evaluations at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    evaluations: Option<u64>,

    /// Variants at most: those that were evaluated, the source as given left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    variants: Option<u64>,

    /// End after so many evaluations without a better variant.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    stagnation: Option<u64>,

    /// US dollars that models may cost, by the prices in their settings.
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    cost: Option<f64>,
}

/// Models.
#[derive(clap::Args)]
pub(super) struct ModelArgs {
    /// Endpoints and models as TOML [default: R3_MODEL_URL and R3_MODEL, or OPENAI_BASE_URL, of the environment].
    #[arg(
        id = "models",
        long = "models",
        value_name = "FILE",
        conflicts_with = "no_models"
    )]
    file: Option<PathBuf>,

    /// The model at the endpoint that the environment names.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["models", "no_models"])]
    model: Option<String>,

    /// Ask no models, whatever the environment names.
    #[arg(long)]
    no_models: bool,
}

/// Compilers of CUDA C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompilerChoice {
    /// NVIDIA's run-time compiler.
    Nvrtc,
    /// nvcc.
    Nvcc,
    /// clang.
    Clang,
}

fn rule(text: &str) -> Result<Rule, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).map_err(|_| {
        let all: Vec<String> = rules::RULES
            .iter()
            .filter_map(|words| serde_json::to_value(words.rule).ok())
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect();
        format!("`{text}` is no rule: {}", all.join(", "))
    })
}

/// Does what the arguments say.
pub fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    if let Some(help) = args.judging.helps() {
        return out.text(&help);
    }
    args.judging.contradictions()?;
    let mut base = base(args)?;
    let mut settings = settings(args)?;
    let models = args.models.settings(&settings)?;
    if models.is_none() {
        // Rewrites need no repair, and numbers of variants have no gaps for it then.
        settings.models.repairs = 0;
    }
    let folder = match &args.run {
        Some(folder) => folder.clone(),
        None => PathBuf::from(archives::folder(&base.archive, &base.kernel)),
    };
    let keeps = !args.dry_run;
    // Said before anything takes time.
    if keeps && Store::has_begun(&folder).map_err(Failure::new)? {
        return Err(Failure::new(format!(
            "{}: there is a run already. `r3-evolve resume {}` goes on with it; `--run DIR` begins another one",
            folder.display(),
            folder.display()
        )));
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
    let begun = Begun {
        args,
        settings: &settings,
        models: models.as_ref(),
        folder: &folder,
    };
    let result = begun.begin(&mut base, signals, preparing, out);
    if let Err(failure) = &result
        && keeps
    {
        if !matches!(failure, Failure::Left(_)) {
            forget(&folder);
        }
        clear(&folder);
    }
    result
}

/// A run whose source was refused is none: it can be begun again with another one.
fn forget(folder: &Path) {
    let told = |store: &Store| {
        store
            .slots()
            .map(|slots| slots.iter().any(|row| row.told.is_some()))
    };
    if !matches!(Store::look(folder).as_ref().map(told), Ok(Ok(false))) {
        return;
    }
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.join(format!("{}{end}", crate::store::FILE)));
    }
}

/// A run that begins.
struct Begun<'a> {
    args: &'a Args,
    settings: &'a evolve::Settings,
    models: Option<&'a r3_models::settings::Settings>,
    folder: &'a Path,
}

impl Begun<'_> {
    fn begin(
        &self,
        base: &mut Settings,
        signals: Signals,
        preparing: Preparing,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let archive = ArchiveFile::read(&base.archive).map_err(Failure::new)?;
        let clock = SystemClock::default();
        let unborn = if self.args.dry_run {
            None
        } else {
            Some(Unborn::new(self.folder)?)
        };
        let log = unborn.as_ref().map(|_| self.folder.join("serve.log"));
        let mut server = self.args.judging.connect(base, log)?;
        let ground = ground(&mut server, base).map_err(Failure::new)?;
        let given =
            Program::new(&self.args.source.given(), &ground.kernel).map_err(Failure::new)?;
        // What the source itself has of assembly may stay in its variants.
        base.allowed = rules::Allowed {
            rules: self.settings.allow.clone(),
            assembly: rules::source::templates(&given.text),
        };
        let space = space(base, &ground, &given)?;
        let Some(unborn) = unborn else {
            return dry_run(base, &ground, &given, out);
        };
        let environment = environment(&mut server, &archive, &ground, space.digest())?;
        preparing.over();
        let mut store = unborn.create()?;
        let write = |store: &Store| -> Result<(), StoreError> {
            store.put(key::SETTINGS, &*base)?;
            store.put(key::EVOLVE, self.settings)?;
            store.put(key::ENVIRONMENT, &environment)?;
            store.put(key::KERNEL, &ground.kernel)?;
            store.put(key::PREPARED, &ground.prepared)?;
            store.put(key::LAUNCHES, &ground.choice)?;
            store.put(key::GIVEN, &given)?;
            store.put(key::PROGRAM, &given)?;
            store.event(clock.unix(), "begin", "the run begins")?;
            // Last: a run without a space has not begun.
            store.put_text(key::SPACE, &space.to_toml())
        };
        write(&store).map_err(Failure::new)?;
        Going {
            store: &mut store,
            base,
            settings: self.settings,
            ground: &ground,
            given,
            models: self.models,
            server: &mut server,
            clock: &clock,
            signals,
            json: self.args.json,
            quiet: self.args.quiet,
        }
        .go(out)
    }
}

/// A run that goes on to its end.
pub(super) struct Going<'a> {
    pub store: &'a mut Store,
    pub base: &'a Settings,
    pub settings: &'a evolve::Settings,
    pub ground: &'a Ground,
    pub given: Program,
    pub models: Option<&'a r3_models::settings::Settings>,
    pub server: &'a mut Server,
    pub clock: &'a dyn Clock,
    pub signals: Signals,
    pub json: bool,
    pub quiet: bool,
}

impl Going<'_> {
    pub fn go(self, out: &mut Output) -> Result<(), Failure> {
        let mut terminal = Terminal::new(self.signals, self.quiet);
        let folder = self.store.folder().to_owned();
        let began: Environment = self.store.need(key::ENVIRONMENT).map_err(Failure::new)?;
        let mut pool = match self.models {
            Some(settings) => {
                let kept = kept(self.store).map_err(Failure::new)?;
                let ledger =
                    Ledger::open(&folder.join(ledger::FILE), &kept).map_err(Failure::new)?;
                Some(pool::Models::with_ledger(settings, ledger).map_err(Failure::new)?)
            }
            None => None,
        };
        let models = pool.as_mut().zip(self.models);
        let found = Evolve {
            store: self.store,
            base: self.base,
            settings: self.settings,
            ground: self.ground,
            given: self.given,
            models: models.map(|(ask, settings)| Models { ask, settings }),
            clock: self.clock,
        }
        .run(self.server, &mut terminal);
        terminal.clear();
        let summary = found.map_err(|error| match error {
            EvolveError::Left | EvolveError::Tune(TuneError::Left) => {
                Failure::Left(format!("{}: {}", folder.display(), EvolveError::Left))
            }
            EvolveError::Tune(TuneError::Machine { .. }) => {
                super::judging::machine(error, self.base, &began)
            }
            error => Failure::new(error),
        })?;
        super::judging::tell(&summary, &folder, self.json, out)
    }
}

/// What the store has of what models took.
fn kept(store: &Store) -> Result<Totals, StoreError> {
    let mut kept: Totals = store.get(key::EMBEDDED)?.unwrap_or_default();
    for request in store.requests()? {
        if let Some(answered) = request.answer {
            kept.add(&request.model, &answered.spent);
        }
    }
    Ok(kept)
}

impl Source {
    fn given(&self) -> Given {
        Given {
            file: self.file.clone(),
            command: self.compile.clone(),
            command_directory: None,
            database: self.compile_commands.clone(),
            options: self.option.clone(),
            compiler: match self.compiler {
                None => Compiler::Any,
                Some(CompilerChoice::Nvrtc) => Compiler::Nvrtc,
                Some(CompilerChoice::Nvcc) => Compiler::Nvcc,
                Some(CompilerChoice::Clang) => Compiler::Clang,
            },
            function: self.function.clone(),
        }
    }
}

impl Limits {
    /// Whether any was named.
    pub fn any(&self) -> bool {
        let named = [
            self.time.is_some(),
            self.evaluations.is_some(),
            self.variants.is_some(),
            self.stagnation.is_some(),
            self.cost.is_some(),
        ];
        named.contains(&true)
    }

    /// Limits of evaluations and time.
    pub fn budget(&self) -> Budget {
        Budget {
            seconds: self.time,
            evaluations: self.evaluations,
            stagnation: self.stagnation,
        }
    }

    /// The other ones.
    pub fn limits(&self) -> evolve::settings::Limits {
        evolve::settings::Limits {
            variants: self.variants,
            cost: self.cost,
        }
    }
}

impl ModelArgs {
    /// Whom a run may ask that goes on: what nothing is said of is as it was.
    pub fn again(
        &self,
        settings: &evolve::Settings,
    ) -> Result<Option<r3_models::settings::Settings>, Failure> {
        let before = Self {
            file: self.file.clone().or_else(|| settings.models.file.clone()),
            model: self.model.clone(),
            no_models: self.no_models,
        };
        before.settings(settings)
    }

    /// Whom a run may ask.
    pub fn settings(
        &self,
        settings: &evolve::Settings,
    ) -> Result<Option<r3_models::settings::Settings>, Failure> {
        use r3_models::settings::{Settings as Models, SettingsError};
        if self.no_models {
            return Ok(None);
        }
        let look_up = |name: &str| match (name, &self.model) {
            ("R3_MODEL", Some(model)) => Some(model.clone()),
            _ => std::env::var(name).ok(),
        };
        let found = match &self.file {
            Some(path) => {
                let text = files::text(path, files::SETTINGS).map_err(|source| {
                    Failure::new(SettingsError::Read {
                        path: path.clone(),
                        source,
                    })
                })?;
                Some(Models::from_text(&text, path, &look_up).map_err(Failure::new)?)
            }
            None => Models::from_environment(&look_up).map_err(Failure::new)?,
        };
        if let (None, Some(model)) = (&found, &self.model) {
            return Err(Failure::new(format!(
                "--model {model}: at which endpoint? Name it in R3_MODEL_URL or OPENAI_BASE_URL, or everything in a file with --models"
            )));
        }
        let Some(mut models) = found else {
            return Ok(None);
        };
        if let Some(cost) = settings.limits.cost {
            models.cap_cost(cost, "--cost").map_err(Failure::new)?;
        }
        Ok(Some(models))
    }
}

fn base(args: &Args) -> Result<Settings, Failure> {
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
    let budget = if args.limits.any() {
        args.limits.budget()
    } else {
        Budget {
            seconds: Some(DEFAULT_SECONDS),
            ..Budget::default()
        }
    };
    let seed = args.seed.unwrap_or(1);
    args.judging
        .settings(&archive, kernel, Kind::Bayesian, seed, budget)
}

fn settings(args: &Args) -> Result<evolve::Settings, Failure> {
    let mut settings = evolve::Settings::default();
    let mut depth = args.depth;
    if let Some(path) = &args.settings {
        let named =
            |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", path.display()));
        let text = files::text(path, files::SETTINGS).map_err(|error| named(&error))?;
        settings = settings.with_toml(&text).map_err(|error| named(&error))?;
        let table: toml::Table = text.parse().map_err(|error| named(&error))?;
        if table.contains_key("depth") {
            depth = depth.or(Some(settings.depth));
        }
    }
    if let Some(count) = args.islands {
        settings.islands.count = count;
    }
    settings.depth = depth.unwrap_or_else(|| {
        evolve::Settings::depth_for(args.judging.workers(), settings.islands.count)
    });
    if !args.axis.is_empty() {
        settings.islands.grid.axes = args.axis.clone();
    }
    if let Some(schedule) = args.migration {
        settings.islands.migration.schedule = schedule;
    }
    if let Some(topology) = args.topology {
        settings.islands.migration.topology = topology;
    }
    let limits = args.limits.limits();
    settings.limits.variants = limits.variants.or(settings.limits.variants);
    settings.limits.cost = limits.cost.or(settings.limits.cost);
    settings
        .rewrites
        .without
        .extend(args.without.iter().cloned());
    settings.allow.extend(&args.allow);
    settings.models.file = args.models.file.as_deref().map(absolute);
    settings.check().map_err(Failure::new)?;
    let (count, each) = (settings.islands.count, settings.islands.each.len());
    if each > count as usize {
        return Err(Failure::new(format!(
            "`islands.each` says something of {each} islands, and there are {count}: --islands {each}, or `islands.count` of the settings"
        )));
    }
    for name in &settings.rewrites.without {
        if r3_source::rewrite::operator(name).is_none() {
            let known: Vec<&str> = r3_source::rewrite::all()
                .iter()
                .map(|one| one.name())
                .collect();
            return Err(Failure::new(format!(
                "there is no rewrite `{name}`: {}",
                known.join(", ")
            )));
        }
    }
    Ok(settings)
}

/// The space of the source as given.
pub(super) fn space(base: &Settings, ground: &Ground, given: &Program) -> Result<Space, Failure> {
    let options = SpaceOptions {
        approximate: match base.approximate {
            Approximation::None => Allowed::Exact,
            Approximation::Division => Allowed::Division,
            Approximation::Flush => Allowed::Flush,
            Approximation::Functions => Allowed::FastMath,
        },
        ..SpaceOptions::default()
    };
    let original = given.original();
    Space::of_source(&ground.kernel, &original.text, &original.launch, &options)
        .map_err(Failure::new)
}

fn dry_run(
    base: &Settings,
    ground: &Ground,
    given: &Program,
    out: &mut Output,
) -> Result<(), Failure> {
    out.line(&ground.kernel.readable)?;
    out.line(format!("  on {}", ground.kernel.device.name))?;
    launches(ground, out)?;
    out.line(format!(
        "source    {}: {} with {} lines",
        given.name,
        given.function,
        given.text.lines().count()
    ))?;
    for way in given.ways() {
        let line = format!(
            "compiler  {} {}",
            crate::inner::story::compiler(way.compiler),
            way.options.join(" ")
        );
        out.line(line.trim_end())?;
    }
    for note in &given.notes {
        out.line(format!("note: {note}"))?;
    }
    for (name, what) in evolve::rewrites_of(given, &ground.kernel, base.tolerances.is_some()) {
        out.line(format!("rewrite   {name}: {what}"))?;
    }
    Ok(())
}
