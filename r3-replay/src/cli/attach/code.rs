//! Which code is to be attached: options, files, compilers.

use std::path::PathBuf;
use std::time::Duration;

use r3_archive::Archive;
use r3_archive::model::KernelRecord;
use r3_codegen::recipe::{self, Source};
use r3_codegen::source::{command, database, files, options};
use r3_codegen::worker::{Limits, Pool, WorkerCommand};

use super::super::Failure;
use super::super::output::complain;
use crate::attach::given::Given;
use crate::attach::matching::matching;
use crate::attach::recorded::recorded;
use crate::attach::triton::cached;
use crate::remix::WORKER;

/// Code that options about --source are not for. What an option requires clap does not ask for where that conflicts with
/// something that is given.
const NOT_SOURCE: [&str; 4] = ["ptx", "bitcode", "from_capture", "triton_cache"];

/// Options about the code.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("code").required(true).multiple(false))]
pub struct CodeArgs {
    /// PTX: a text, or a fatbin with PTX in it. May be repeated.
    #[arg(long, value_name = "FILE", group = "code")]
    ptx: Vec<PathBuf>,

    /// LLVM bitcode (`.bc`) or text (`.ll`, Triton's `.llir`) for `nvptx64`. May be repeated.
    #[arg(long, value_name = "FILE", group = "code")]
    bitcode: Vec<PathBuf>,

    /// CUDA C++, compiled for devices only, by nvcc, NVRTC or clang, whichever is here.
    #[arg(long, value_name = "FILE", group = "code")]
    source: Option<PathBuf>,

    /// The source that the application compiled at run time, with the same options: it is in the archive.
    #[arg(long, group = "code")]
    from_capture: bool,

    /// Triton's cache (usually ~/.triton/cache), where the PTX of each captured cubin lies beside it.
    #[arg(long, value_name = "FOLDER", group = "code")]
    triton_cache: Option<PathBuf>,

    /// With --source: the application's own compile command, of which what matters for device code is kept.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "source",
        conflicts_with = "compile_commands",
        conflicts_with_all = NOT_SOURCE
    )]
    command: Option<String>,

    /// With --command: the folder in which it is run [default: this one].
    #[arg(long, value_name = "FOLDER", requires = "command", conflicts_with_all = NOT_SOURCE)]
    command_directory: Option<PathBuf>,

    /// With --source: the `compile_commands.json` of the application's build, or the folder with it.
    #[arg(long, value_name = "FILE", requires = "source", conflicts_with_all = NOT_SOURCE)]
    compile_commands: Option<PathBuf>,

    /// With --source: which compiler [default: that of the command, else the first that is here: nvcc, NVRTC, clang].
    #[arg(long, value_enum, requires = "source", conflicts_with_all = NOT_SOURCE)]
    compiler: Option<CompilerName>,

    /// Architecture to compile for, e.g. `sm_90a` [default: that of the captured GPU, as the command spells it].
    #[arg(long, value_name = "SM", conflicts_with_all = ["ptx", "triton_cache"])]
    target: Option<String>,
}

/// A compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CompilerName {
    Nvcc,
    Nvrtc,
    Clang,
}

impl CompilerName {
    fn compiler(self) -> recipe::Compiler {
        match self {
            Self::Nvcc => recipe::Compiler::Nvcc,
            Self::Nvrtc => recipe::Compiler::Nvrtc,
            Self::Clang => recipe::Compiler::Clang,
        }
    }
}

/// How long one file may take. Large files with many templates take minutes in the compilers of their own.
const TIME: Duration = Duration::from_secs(1800);

/// Turns the options into code.
pub struct Reader<'r> {
    args: &'r CodeArgs,
    archive: &'r Archive,
    wanted: &'r [&'r KernelRecord],
    sm: u32,
    pool: Pool,
}

impl<'r> Reader<'r> {
    /// Does nothing yet.
    pub fn new(
        args: &'r CodeArgs,
        archive: &'r Archive,
        wanted: &'r [&'r KernelRecord],
    ) -> Result<Self, Failure> {
        let worker = WorkerCommand::this_program(WORKER).map_err(Failure::new)?;
        let limits = Limits {
            workers: 1,
            time: TIME,
            memory: 16 << 30,
            ..Limits::default()
        };
        Ok(Self {
            args,
            archive,
            wanted,
            sm: architecture(archive),
            pool: Pool::new(worker, limits),
        })
    }

    /// All code, and what is to be told about it.
    pub fn read(&self) -> Result<(Vec<Given>, Vec<String>), Failure> {
        let args = self.args;
        let mut all = Vec::new();
        let mut notes = Vec::new();
        for file in &args.ptx {
            all.push(Given::ptx(file, self.sm).map_err(Failure::new)?);
        }
        for file in &args.bitcode {
            let target = self.target(None);
            all.push(Given::llvm(file, &target, &self.pool).map_err(Failure::new)?);
        }
        if args.source.is_some() {
            all.push(self.source()?);
        }
        if args.from_capture {
            all.extend(self.recorded()?);
        }
        if let Some(cache) = &args.triton_cache {
            let found = cached(self.archive, self.wanted, cache, self.sm);
            let (found, more) = found.map_err(Failure::new)?;
            if found.is_empty() {
                let why = match more.is_empty() {
                    true => {
                        "none of the selected kernels came as a cubin, as Triton's do".to_owned()
                    }
                    false => more.join("\n  "),
                };
                return Err(Failure::Message(format!(
                    "{}: nothing in it is a captured kernel\n  {why}",
                    cache.display()
                )));
            }
            all.extend(found);
            notes.extend(more);
        }
        Ok((all, notes))
    }

    fn target(&self, options: Option<&options::Options>) -> String {
        match (&self.args.target, options) {
            (Some(target), _) => target.clone(),
            (None, Some(options)) => options.target(self.sm),
            (None, None) => format!("sm_{}", self.sm),
        }
    }

    /// A file of source, by the first of its commands that gives a kernel which is wanted.
    fn source(&self) -> Result<Given, Failure> {
        // What is wrong with a command that gives no kernel does not matter when another one gives it.
        let mut last = Err(Failure::Message(
            "--source: there is nothing to compile".to_owned(),
        ));
        for (source, target) in self.sources()? {
            let given = match Given::source(&source, &target, &self.pool) {
                Ok(given) => given,
                Err(error) => {
                    if last.is_err() {
                        last = Err(Failure::new(error));
                    }
                    continue;
                }
            };
            let code = r3_image::Image::parse(given.ptx.as_bytes());
            let found = matching(self.archive, self.wanted, &code);
            if found.is_ok_and(|matches| !matches.fitting.is_empty()) {
                return Ok(given);
            }
            // That it has none of the kernels is told when it is matched again.
            last = Ok(given);
        }
        last
    }

    fn sources(&self) -> Result<Vec<(Source, String)>, Failure> {
        let args = self.args;
        let Some(file) = &args.source else {
            return Ok(Vec::new());
        };
        let text = files::read(file, files::SOURCE)
            .map_err(|error| Failure::Message(format!("--source {}: {error}", file.display())))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        let here = std::env::current_dir().unwrap_or_default();
        let invocations = match (&args.command, &args.compile_commands) {
            (Some(text), _) => {
                let folder = args.command_directory.as_ref();
                let folder = folder.map_or_else(|| here.clone(), |folder| here.join(folder));
                let wrong = |error| Failure::Message(format!("--command: {error}"));
                let found = command::parse(text, &folder).map_err(wrong)?;
                if let Some(note) = found.check(file).map_err(wrong)? {
                    complain(&note);
                }
                vec![found]
            }
            (None, Some(database)) => {
                let entries = database::commands(database, file).map_err(Failure::new)?;
                entries
                    .iter()
                    .map(command::parse_entry)
                    .collect::<Result<_, _>>()
                    .map_err(|error| {
                        let (database, file) = (database.display(), file.display());
                        Failure::Message(format!("{database}, {file}: {error}"))
                    })?
            }
            (None, None) => Vec::new(),
        };
        let mut sources: Vec<(Source, String)> = invocations
            .into_iter()
            .map(|invocation| {
                let target = self.target(Some(&invocation.options));
                (invocation.source(name.clone(), text.clone()), target)
            })
            .collect();
        if sources.is_empty() {
            let source = Source {
                text,
                name,
                headers: Vec::new(),
                name_expressions: Vec::new(),
                compiler: recipe::Compiler::Any,
                program: None,
                options: Vec::new(),
                directory: Some(here),
            };
            sources.push((source, self.target(None)));
        }
        if let Some(name) = args.compiler {
            for (source, _) in &mut sources {
                let compiler = name.compiler();
                let program = source.program.as_deref();
                if program.and_then(r3_codegen::source::find::kind) != Some(compiler) {
                    source.program = None;
                }
                source.compiler = compiler;
            }
        }
        // One file of several targets of a build, with the same options.
        sources.dedup();
        Ok(sources)
    }

    fn recorded(&self) -> Result<Vec<Given>, Failure> {
        let recorded = recorded(self.archive, self.wanted, self.sm).map_err(Failure::new)?;
        if recorded.is_empty() {
            return Err(Failure::Message(format!(
                "{}: no selected kernel without PTX has its source in the archive: only what the application compiled at \
                 run time by NVRTC has",
                self.archive.path().display()
            )));
        }
        let mut all = Vec::new();
        for recorded in recorded {
            let own = options::Options::read(&recorded.source.options, options::Dialect::Nvrtc);
            let target = self.target(Some(&own));
            let mut given = Given::source(&recorded.source, &target, &self.pool);
            if let Ok(given) = &mut given {
                let module = self.archive.module(recorded.module);
                given.module = Some(recorded.module);
                given.source = module.and_then(|module| module.source);
            }
            all.push(given.map_err(Failure::new)?);
        }
        Ok(all)
    }
}

/// Architecture of the GPU on which launches were recorded.
fn architecture(archive: &Archive) -> u32 {
    let (major, minor) = archive
        .devices()
        .first()
        .map(|device| device.compute_capability)
        .filter(|(major, _)| *major > 0)
        .unwrap_or(crate::device::cpu::DEFAULT_CAPABILITY);
    u32::try_from(major * 10 + minor).unwrap_or(90)
}
