//! `remix`: kernels compiled anew, run in place of the recorded code, verified, timed.

mod emit;
mod options;
mod print;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchId, LaunchRecord, ParamLayout};
use r3_codegen::recipe::{self, Emit, FailureKind, Product, Recipe, Stage};
use r3_codegen::worker::{Pool, WorkerCommand};
use r3_image::Image;

use self::emit::EmitKind;
use self::options::{AssemblerArg, CompileArgs};
use super::device::{self, PlaceArgs};
use super::output::{Output, complain};
use super::resume;
use super::select::{self, Select};
use super::verify::ToleranceArgs;
use super::{DIFFERENT, FAILED, Failure, NOT_HERE, OK};
use crate::attach::matching::{Unfit, fits};
use crate::names::{printable, printable_lines, readable};
use crate::remix::compiler::{Compile, Compiled, compile_all};
use crate::remix::facts::{self, Kernel};
use crate::remix::pairs::Runs;
use crate::remix::report::{CandidateReport, KernelReport, Side, TrialReport};
use crate::remix::trial::{self, Judgement, Run, Used, Verdict};
use crate::remix::{WORKER, origin};
use crate::replay::Replayer;

/// Compile captured kernels anew with LLVM, run them in place of the recorded code, verify every byte, and time both.
///
/// The code is the kernel's PTX of the archive, attached code (`r3-replay attach`), source that was compiled at run
/// time, or a file. Without --emit, launches are verified; with --bench, those that are right are timed in turn with
/// the original (on the CPU device: what both do is counted).
///
/// Exit code: 0 when every launch is right; 1 when one is not; 2 when something could not be compiled or run; 3 when
/// nothing is wrong, but the CPU device cannot run something.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    /// Launches by number, as `ls` shows them: `3`, `1,4-6`.
    launches: Vec<String>,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    compile: CompileArgs,

    #[command(flatten, next_help_heading = "Device")]
    place: PlaceArgs,

    #[command(flatten, next_help_heading = "Verifying and timing")]
    tolerances: ToleranceArgs,

    /// Verify launches: the default without --emit.
    #[arg(long)]
    verify: bool,

    /// CPU device: allow for nothing where no tolerance is given.
    #[arg(long)]
    strict: bool,

    /// Replay each launch this many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Also time launches that are right, in pairs with the original.
    #[arg(long)]
    bench: bool,

    /// Pairs of runs that are counted.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Pairs of runs before them that are not counted.
    #[arg(long, value_name = "N", default_value_t = 3)]
    warmup: u32,

    /// Write the code of one kernel.
    #[arg(long, value_name = "FORM", value_enum)]
    emit: Option<EmitKind>,

    /// Where to: a file, or - for standard output.
    #[arg(long, value_name = "FILE", requires = "emit")]
    output: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn runs_launches(&self) -> bool {
        self.emit.is_none() || self.verify || self.bench
    }

    fn emit_to_output(&self) -> bool {
        let to_output = |path: &PathBuf| path.as_os_str() == "-";
        self.emit.is_some() && self.output.as_ref().is_none_or(to_output)
    }

    /// Positions and `--launch` select together.
    fn selected(&self) -> Select {
        let mut select = self.select.clone();
        let lists: Vec<String> = self
            .launches
            .iter()
            .chain(&select.launch)
            .cloned()
            .collect();
        if !lists.is_empty() {
            select.launch = Some(lists.join(","));
        }
        select
    }

    fn emit_of_recipes(&self) -> Emit {
        let wanted = self.emit.is_some_and(EmitKind::needs_cubin);
        Emit {
            llvm: self.emit == Some(EmitKind::Llvm),
            cubin: wanted || self.runs_launches() && self.compile.assembler != AssemblerArg::Driver,
        }
    }
}

/// A kernel that is being remixed.
struct Subject<'a> {
    id: KernelId,
    launches: Vec<&'a LaunchRecord>,
    layout: Vec<ParamLayout>,
    recorded: Option<Used>,
    candidates: Vec<Candidate>,
    report: KernelReport,
}

struct Candidate {
    name: String,
    compiled: Compiled,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    if args.emit_to_output() && (args.verify || args.bench || args.json) {
        return Err(Failure::Message(
            "--emit writes to standard output, where the report goes: give --output FILE"
                .to_owned(),
        ));
    }
    if let Some(output) = &args.output {
        let inputs = [Some(&args.file), args.compile.code.as_ref()];
        if inputs
            .into_iter()
            .flatten()
            .any(|input| same(output, input))
        {
            return Err(Failure::Message(format!(
                "--output {} would be written over what is read",
                output.display()
            )));
        }
    }
    let tolerances = args.tolerances.read()?;
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.selected())?;
    args.tolerances.check(&archive, &launches)?;
    if launches.is_empty() {
        return Err(Failure::Message(format!(
            "{} has no launches",
            args.file.display()
        )));
    }
    let command = WorkerCommand::this_program(WORKER).map_err(Failure::new)?;
    let pool = Pool::new(command, args.compile.limits());
    let threads = pool.limits().workers;
    if !args.runs_launches() {
        let sm = device::recorded_architecture(&archive, &launches);
        let subjects = subjects(args, &archive, &launches, sm, &pool, threads)?;
        emit_one(args, &subjects, out)?;
        if args.json {
            let reports: Vec<KernelReport> = subjects.into_iter().map(|s| s.report).collect();
            out.json(&print::Report::new(&args.file, "", &reports))?;
        }
        return Ok(OK);
    }
    let recorded_code = args.place.with_recorded_code();
    let mut device = device::open(&recorded_code, None, &archive, &launches)?;
    let name = device.info().to_string();
    let sm = device.info().architecture();
    let mut replayer = device::replayer(&archive, &mut *device, &recorded_code, None, &launches)?;
    let mut subjects = subjects(args, &archive, &launches, sm, &pool, threads)?;
    drop(pool);
    if args.emit.is_some() {
        emit_one(args, &subjects, out)?;
    }
    let mut session = Session {
        args,
        archive: &archive,
        judgement: Judgement {
            tolerances: &tolerances,
            strict: args.strict,
            repeat: args.repeat,
        },
        sm,
        done: resume::reports(),
    };
    for subject in &mut subjects {
        session.subject(&mut replayer, subject, out)?;
    }
    // A context with a stuck or broken kernel may refuse; the process ends anyway.
    let _ = replayer.clear();
    let reports: Vec<KernelReport> = subjects.into_iter().map(|subject| subject.report).collect();
    if args.json {
        out.json(&print::Report::new(&args.file, &name, &reports))?;
    } else {
        print::all(out, &reports, &name)?;
    }
    Ok(exit_code(&reports))
}

/// Whether two paths lead to one file.
fn same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| {
        let of = std::fs::metadata(path).ok()?;
        Some((of.dev(), of.ino()))
    };
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

fn exit_code(reports: &[KernelReport]) -> u8 {
    let candidates = || reports.iter().flat_map(|report| &report.candidates);
    let ended = |verdict| {
        candidates()
            .flat_map(|candidate| &candidate.launches)
            .any(|trial| trial.verdict == verdict)
    };
    let nothing = reports.iter().any(|report| report.error.is_some());
    if nothing
        || ended(Verdict::NotRun)
        || candidates().any(|candidate| candidate.failure.is_some())
    {
        FAILED
    } else if ended(Verdict::Mismatch) {
        DIFFERENT
    } else if ended(Verdict::CannotRun) {
        NOT_HERE
    } else {
        OK
    }
}

/// The kernels of the launches, compiled.
fn subjects<'a>(
    args: &Args,
    archive: &'a Archive,
    launches: &[&'a LaunchRecord],
    sm: u32,
    compiler: &dyn Compile,
    threads: usize,
) -> Result<Vec<Subject<'a>>, Failure> {
    let mut groups: Vec<(KernelId, Vec<&LaunchRecord>)> = Vec::new();
    for launch in launches {
        match groups.iter_mut().find(|(id, _)| *id == launch.kernel) {
            Some((_, group)) => group.push(launch),
            None => groups.push((launch.kernel, vec![launch])),
        }
    }
    let mut subjects = Vec::new();
    let mut named: Vec<(usize, String, Recipe)> = Vec::new();
    for (id, group) in groups {
        let (subject, recipes) = subject(args, archive, (id, group), sm)?;
        let at = subjects.len();
        named.extend(recipes.into_iter().map(|(name, recipe)| (at, name, recipe)));
        subjects.push(subject);
    }
    // All kernels at once: each has a worker as soon as one is free.
    let recipes: Vec<Recipe> = named.iter().map(|(_, _, recipe)| recipe.clone()).collect();
    let compiled = compile_all(compiler, &recipes, threads);
    for ((at, name, recipe), mut compiled) in named.into_iter().zip(compiled) {
        if let Some(subject) = subjects.get_mut(at) {
            if args.compile.code.is_some() {
                compiled.result = compiled
                    .result
                    .and_then(|product| of_this_kernel(archive, subject.id, product));
            }
            let mut report = CandidateReport::new(&name, &subject.report.name, &recipe, &compiled);
            report.recorded = subject.recorded;
            subject.report.candidates.push(report);
            subject.candidates.push(Candidate { name, compiled });
        }
    }
    Ok(subjects)
}

/// Code from a file must take the parameters as the captured launches have them.
fn of_this_kernel(
    archive: &Archive,
    kernel: KernelId,
    product: Product,
) -> Result<Product, recipe::Failure> {
    let Some(record) = archive.kernel(kernel) else {
        return Ok(product);
    };
    let code = Image::parse(product.ptx.as_bytes());
    match code
        .kernel(&record.name)
        .map(|found| fits(archive, record, &found))
    {
        None | Some(Ok(()) | Err(Unfit::Unknown)) => Ok(product),
        Some(Err(unfit)) => Err(recipe::Failure {
            stage: Stage::Emit,
            kind: FailureKind::Refused,
            message: format!("the code is of another kernel with this name: {unfit}"),
            log: String::new(),
        }),
    }
}

/// A kernel of some launches with its recipes, by name.
fn subject<'a>(
    args: &Args,
    archive: &'a Archive,
    (id, launches): (KernelId, Vec<&'a LaunchRecord>),
    sm: u32,
) -> Result<(Subject<'a>, Vec<(String, Recipe)>), Failure> {
    let record = archive
        .kernel(id)
        .ok_or_else(|| Failure::Message(format!("the archive has no kernel {id}")))?;
    let origin = match &args.compile.code {
        Some(path) => origin::of_file(path, &record.name, sm),
        None => origin::of_archive(archive, record, sm, args.compile.from),
    };
    let mut subject = Subject {
        id,
        launches,
        layout: facts::layout(archive, record),
        recorded: recorded(archive, record, sm),
        candidates: Vec::new(),
        report: KernelReport {
            kernel: readable(&record.name),
            name: record.name.clone(),
            from: String::new(),
            error: None,
            candidates: Vec::new(),
        },
    };
    let origin = match origin {
        Ok(origin) => origin,
        Err(error) => {
            subject.report.error = Some(error.to_string());
            return Ok((subject, Vec::new()));
        }
    };
    subject.report.from.clone_from(&origin.from);
    let kernel = Kernel {
        archive,
        record,
        layout: &subject.layout,
    };
    let specialisation = match (&args.compile.specialize, subject.launches.first()) {
        (Some(wanted), Some(first)) => {
            let launch = archive.load_launch(first.id).map_err(Failure::new)?;
            kernel.facts(&launch, wanted).map_err(Failure::new)?
        }
        _ => Default::default(),
    };
    let emit = args.emit_of_recipes();
    let on = (sm, args.runs_launches());
    let recipes = args.compile.recipes(&origin, &specialisation, on, emit);
    Ok((subject, recipes))
}

/// What the machine code uses that the application ran.
fn recorded(archive: &Archive, record: &r3_archive::model::KernelRecord, sm: u32) -> Option<Used> {
    let module = archive.module(record.module?)?;
    let image = Image::from_vec(archive.read_blob(&module.image).ok()?);
    let info = image.kernel_for(&record.name, sm)?;
    Some(Used {
        registers: info.registers?,
        local: info.local_bytes.unwrap_or(0),
        shared: info.static_shared.unwrap_or(0),
    })
}

/// Writes the code of the only product that there is.
fn emit_one(args: &Args, subjects: &[Subject<'_>], out: &mut Output) -> Result<(), Failure> {
    let Some(kind) = args.emit else {
        return Ok(());
    };
    let subject = match subjects {
        [subject] => subject,
        _ => {
            let names: Vec<&str> = subjects.iter().map(|s| s.report.kernel.as_str()).collect();
            return Err(Failure::Message(format!(
                "--emit writes the code of one kernel, and {} are selected: {}. Name a launch, or give --kernel",
                names.len(),
                names.join(", ")
            )));
        }
    };
    if let Some(error) = &subject.report.error {
        return Err(Failure::Message(printable_lines(error)));
    }
    // What was asked for by name; random pipelines come after it.
    let Some(candidate) = subject.candidates.first() else {
        return Ok(());
    };
    let product: &Product = match &candidate.compiled.result {
        Ok(product) => product,
        Err(failure) => return Err(Failure::Message(print::failure(failure))),
    };
    for note in &product.notes {
        complain(&printable(note));
    }
    for guard in &product.guards {
        let guard = crate::remix::facts::spell(guard);
        complain(&format!("holds only where {guard}"));
    }
    let kernel = &subject.report.name;
    emit::write(kind, product, kernel, args.output.as_deref(), out)
}

/// What stays the same over all launches.
struct Session<'s> {
    args: &'s Args,
    archive: &'s Archive,
    judgement: Judgement<'s>,
    sm: u32,
    done: Vec<TrialReport>,
}

impl<'s> Session<'s> {
    fn subject(
        &mut self,
        replayer: &mut Replayer<'s>,
        subject: &mut Subject<'s>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        for head in subject.launches.clone() {
            let launch = self.archive.load_launch(head.id).map_err(Failure::new)?;
            let mut original: Option<Run> = None;
            for index in 0..subject.candidates.len() {
                let (Some(candidate), Some(report)) = (
                    subject.candidates.get(index),
                    subject.report.candidates.get_mut(index),
                ) else {
                    continue;
                };
                let Ok(product) = &candidate.compiled.result else {
                    continue;
                };
                let name = &subject.report.name;
                if let Some(known) = self.known(name, &candidate.name, launch.id) {
                    report.launches.push(known);
                    continue;
                }
                let kernel = self.archive.kernel(subject.id).map(|record| Kernel {
                    archive: self.archive,
                    record,
                    layout: &subject.layout,
                });
                let broken = match kernel {
                    Some(kernel) => broken(kernel, product, &launch)?,
                    None => None,
                };
                let trial = match broken {
                    Some(reason) => {
                        let guard = Verdict::Guard;
                        TrialReport::without_run(name, &candidate.name, launch.id, guard, reason)
                    }
                    None => {
                        let original = original.get_or_insert_with(|| {
                            trial::original(self.archive, replayer, &launch, self.judgement)
                        });
                        self.trial(replayer, &launch, name, candidate, product, original)
                    }
                };
                self.done.push(trial.clone());
                report.launches.push(trial);
                if replayer.lost().is_some() {
                    // The context is gone for this process; another one can go on.
                    out.flush()?;
                    resume::go_on(&self.done);
                }
            }
            let _ = replayer.substitute(subject.id, None);
        }
        Ok(())
    }

    fn known(&self, name: &str, candidate: &str, launch: LaunchId) -> Option<TrialReport> {
        let same = |trial: &&TrialReport| {
            trial.name == name && trial.candidate == candidate && trial.launch == launch
        };
        self.done.iter().find(same).cloned()
    }

    fn trial(
        &self,
        replayer: &mut Replayer<'s>,
        launch: &LaunchRecord,
        name: &str,
        candidate: &Candidate,
        product: &Product,
        original: &Run,
    ) -> TrialReport {
        let machine_code = replayer.device().runs_machine_code();
        let code = trial::substitute(&candidate.name, product, self.sm, machine_code);
        let run = trial::substituted(
            self.archive,
            replayer,
            launch,
            &code,
            self.judgement,
            original,
        );
        let verdict = trial::verdict(&original.report, &run.report);
        let mut report = TrialReport {
            name: name.to_owned(),
            candidate: candidate.name.clone(),
            launch: launch.id,
            verdict,
            reason: run.report.error.clone(),
            original: Some(Side::new(original)),
            remixed: Some(Side::new(&run)),
            pairs: None,
        };
        if !self.args.bench || !verdict.is_right() || !machine_code {
            return report;
        }
        let runs = Runs {
            warmup: self.args.warmup,
            counted: self.args.runs,
        };
        match trial::time(replayer, launch, &code, runs) {
            Ok(pairs) => report.pairs = pairs,
            Err(error) => {
                report.verdict = Verdict::NotRun;
                report.reason = Some(format!("while it was timed: {}", error.cause));
            }
        }
        report
    }
}

/// Why code is not for a launch.
fn broken(
    kernel: Kernel<'_>,
    product: &Product,
    launch: &LaunchRecord,
) -> Result<Option<String>, Failure> {
    for guard in &product.guards {
        if let Some(why) = kernel.broken(guard, launch).map_err(Failure::new)? {
            return Ok(Some(why));
        }
    }
    Ok(None)
}
