//! `verify`: every launch again, every byte compared.

use std::collections::BTreeSet;
use std::path::PathBuf;

use r3_archive::Archive;
use r3_archive::model::LaunchRecord;
use serde::Serialize;

use super::device::{self, BlockArgs, DeviceArgs};
use super::output::{Output, bytes, count, dims, shorten};
use super::resume;
use super::select::{self, Select};
use super::{DIFFERENT, FAILED, Failure, NOT_HERE, OK};
use crate::compare::{BufferRule, ElementType, Tolerance, Tolerances, buffer_names};
use crate::verify::{LaunchReport, Outcome, VerifyOptions, verify_launch};

/// Replay launches and compare every recorded byte with what the application's launch left.
///
/// Exit code: 0 when everything is the same or within its tolerance; 1 when something is not, or a race was found;
/// 2 when something could not be run; 3 when nothing is wrong, but the CPU device cannot run something, or a sample
/// of blocks cannot be judged.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    blocks: BlockArgs,

    #[command(flatten)]
    tolerances: ToleranceArgs,

    /// CPU device: allow for nothing where no tolerance is given. Without it, kernels whose results PTX leaves open
    /// (approximate functions, fused multiply-add, the order of atomics) may be off in their last bits.
    #[arg(long)]
    strict: bool,

    /// Exit with 0 although the CPU device cannot run some launches, as long as others were verified.
    #[arg(long)]
    skip_unsupported: bool,

    /// Replay each launch this many times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Stop at the first launch that does not verify.
    #[arg(long)]
    fail_fast: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Options about tolerances.
#[derive(clap::Args, Clone, Debug)]
pub struct ToleranceArgs {
    /// Tolerances by kernel and buffer, in a TOML file as `noise` writes it.
    #[arg(long, value_name = "FILE")]
    tolerance_file: Option<PathBuf>,

    #[command(flatten)]
    types: TypeArgs,

    /// Tolerance for buffers given by --type, and for floating-point buffers whose type the
    /// kernel's PTX tells: `abs=1e-6,rel=1e-5,ulp=4`, each part optional.
    #[arg(long, value_name = "LIST")]
    tolerance: Option<String>,
}

impl ToleranceArgs {
    /// The tolerances, from the file and then the options.
    pub fn read(&self) -> Result<Tolerances, Failure> {
        let mut tolerances = match &self.tolerance_file {
            Some(path) => Tolerances::read(path).map_err(Failure::new)?,
            None => Tolerances::exact(),
        };
        let tolerance = match &self.tolerance {
            Some(text) => Tolerance::parse(text)
                .map_err(|message| Failure::Message(format!("--tolerance: {message}")))?,
            None => Tolerance::EXACT,
        };
        tolerances.set_inferred(tolerance);
        self.types.add(&mut tolerances, tolerance)?;
        Ok(tolerances)
    }

    /// Refuses types for buffers that no selected launch has.
    pub fn check(&self, archive: &Archive, launches: &[&LaunchRecord]) -> Result<(), Failure> {
        self.types.check(archive, launches)
    }
}

/// Options about element types.
#[derive(clap::Args, Clone, Debug)]
pub struct TypeArgs {
    /// Type of a buffer's elements, e.g. `arg0=f32`; `all=f32` for all buffers.
    #[arg(long = "type", value_name = "BUFFER=TYPE")]
    types: Vec<String>,
}

impl TypeArgs {
    /// Adds a rule for each type that was given.
    pub fn add(&self, tolerances: &mut Tolerances, tolerance: Tolerance) -> Result<(), Failure> {
        for text in &self.types {
            let (buffer, element) = text.rsplit_once('=').ok_or_else(|| {
                Failure::Message(format!(
                    "--type {text}: expected BUFFER=TYPE, e.g. arg0=f32"
                ))
            })?;
            let element: ElementType = element
                .parse()
                .map_err(|message| Failure::Message(format!("--type {text}: {message}")))?;
            let rule = BufferRule {
                kernel: None,
                buffer: (buffer != "all").then(|| buffer.to_owned()),
                element,
                absolute: tolerance.absolute,
                relative: tolerance.relative,
                ulp: tolerance.ulp,
            };
            tolerances.add(rule).map_err(Failure::new)?;
        }
        Ok(())
    }

    /// Refuses types for buffers that no selected launch has.
    pub fn check(&self, archive: &Archive, launches: &[&LaunchRecord]) -> Result<(), Failure> {
        let mut wanted: BTreeSet<&str> = self
            .types
            .iter()
            .filter_map(|text| text.rsplit_once('='))
            .map(|(buffer, _)| buffer)
            .filter(|buffer| *buffer != "all")
            .collect();
        let mut have = BTreeSet::new();
        for head in launches {
            if wanted.is_empty() {
                return Ok(());
            }
            // What cannot be read is told when it is to be run.
            let Ok(launch) = archive.load_launch(head.id) else {
                return Ok(());
            };
            let Some(kernel) = archive.kernel(launch.kernel) else {
                continue;
            };
            for name in buffer_names(kernel, &launch) {
                for name in name.all() {
                    wanted.remove(name);
                }
                if have.len() < BUFFERS_SHOWN {
                    have.insert(name.shown().to_owned());
                }
            }
        }
        match wanted.first() {
            None => Ok(()),
            Some(buffer) => Err(Failure::Message(format!(
                "--type {buffer}: no selected launch has a buffer of this name; there are {}",
                match have.len() {
                    0 => "none".to_owned(),
                    BUFFERS_SHOWN =>
                        have.into_iter().collect::<Vec<_>>().join(", ") + " and others",
                    _ => have.into_iter().collect::<Vec<_>>().join(", "),
                }
            ))),
        }
    }
}

/// Most names of buffers in a message.
const BUFFERS_SHOWN: usize = 20;

/// The JSON form.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    archive: String,
    device: String,
    verified: usize,
    sampled: usize,
    undecided: usize,
    mismatched: usize,
    not_run: usize,
    cannot_run: usize,
    races: usize,
    launches: &'a [LaunchReport],
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let tolerances = args.tolerances.read()?;
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    args.tolerances.check(&archive, &launches)?;
    if launches.is_empty() {
        return Err(Failure::Message(format!(
            "{} has no launches",
            args.file.display()
        )));
    }
    let blocks = args.blocks.blocks;
    let mut device = device::open(&args.device, blocks, &archive, &launches)?;
    let name = device.info().to_string();
    let mut reports: Vec<LaunchReport> = resume::reports();
    let done = reports.len();
    let rest = launches.get(done..).unwrap_or_default();
    let mut replayer = device::replayer(&archive, &mut *device, &args.device, blocks, rest)?;
    let options = VerifyOptions {
        tolerances: &tolerances,
        strict: args.strict,
        repeat: args.repeat,
        allowed: None,
        digest: false,
    };
    let width = name_width(&archive);
    if !args.json && done == 0 {
        out.line(header(width))?;
    }
    for launch in rest {
        if replayer.lost().is_some() {
            // The context is gone for this process; another one can go on.
            out.flush()?;
            resume::go_on(&reports);
        }
        let report = verify_launch(&archive, &mut replayer, launch.id, options);
        if !args.json {
            print(out, &report, width)?;
            out.flush()?;
        }
        let failed = matches!(report.outcome, Outcome::Mismatch | Outcome::NotRun);
        reports.push(report);
        if failed && args.fail_fast {
            break;
        }
    }
    let sums = Sums::of(&reports);
    if args.json {
        out.json(&Report {
            version: 1,
            archive: args.file.display().to_string(),
            device: name,
            verified: sums.identical + sums.within,
            sampled: sums.sampled,
            undecided: sums.undecided,
            mismatched: sums.mismatched,
            not_run: sums.not_run,
            cannot_run: sums.cannot_run,
            races: sums.races,
            launches: &reports,
        })?;
    } else {
        out.line("")?;
        out.line(sums.sentence(launches.len(), &name))?;
    }
    // A context with a stuck or broken kernel may refuse; the process ends anyway.
    let _ = replayer.clear();
    Ok(sums.exit_code(args.skip_unsupported))
}

/// How launches came out, in numbers.
struct Sums {
    identical: usize,
    within: usize,
    sampled: usize,
    undecided: usize,
    mismatched: usize,
    not_run: usize,
    cannot_run: usize,
    races: usize,
    vacuous: usize,
}

impl Sums {
    fn of(reports: &[LaunchReport]) -> Self {
        let ended = |outcome| reports.iter().filter(|r| r.outcome == outcome).count();
        let vacuous = |report: &&LaunchReport| {
            report.caveats.contains(&crate::trust::Caveat::Vacuous)
                && matches!(report.outcome, Outcome::Identical | Outcome::Sampled)
        };
        Self {
            identical: ended(Outcome::Identical),
            within: ended(Outcome::Within),
            sampled: ended(Outcome::Sampled),
            undecided: ended(Outcome::Undecided),
            mismatched: ended(Outcome::Mismatch),
            not_run: ended(Outcome::NotRun),
            cannot_run: ended(Outcome::CannotRun),
            races: reports.iter().filter(|r| !r.races.is_empty()).count(),
            vacuous: reports.iter().filter(vacuous).count(),
        }
    }

    fn sentence(&self, launches: usize, device: &str) -> String {
        let of = count(launches as u64, "launch", "launches");
        let verified = self.identical + self.within;
        let only_samples = self.sampled + self.undecided > 0;
        let mut parts = vec![if only_samples {
            format!(
                "{} of {of} agree in the blocks that ran on {device}: a sample, which verifies no launch",
                self.sampled
            )
        } else {
            format!("{verified} of {of} verified on {device}")
        }];
        let mut add = |number: usize, text: String| {
            if number > 0 {
                parts.push(text);
            }
        };
        if only_samples {
            // A grid may have no other blocks than those that were asked for.
            add(verified, format!("{verified} verified, with all blocks"));
        }
        add(
            self.within,
            format!("{} of them within tolerance", self.within),
        );
        add(
            self.vacuous,
            format!(
                "{} of them vacuous: they changed nothing that was saved",
                self.vacuous
            ),
        );
        add(
            self.undecided,
            format!("{} cannot be judged by a sample", self.undecided),
        );
        add(self.mismatched, format!("{} mismatched", self.mismatched));
        add(self.races, format!("{} with races", self.races));
        add(self.not_run, format!("{} not run", self.not_run));
        add(
            self.cannot_run,
            format!("{} cannot run on this device", self.cannot_run),
        );
        parts.join("; ")
    }

    fn exit_code(&self, skip_unsupported: bool) -> u8 {
        let looked_at = self.identical + self.within + self.sampled > 0;
        if self.not_run > 0 {
            FAILED
        } else if self.mismatched + self.races > 0 {
            DIFFERENT
        } else if self.undecided > 0 || self.cannot_run > 0 && !(skip_unsupported && looked_at) {
            NOT_HERE
        } else {
            OK
        }
    }
}

fn name_width(archive: &Archive) -> usize {
    let longest = archive
        .kernels()
        .iter()
        .map(|kernel| crate::names::readable(&kernel.name).chars().count())
        .max()
        .unwrap_or(0);
    longest.clamp(6, 48)
}

fn header(width: usize) -> String {
    format!(
        "{:>6}  {:width$}  {:>12}  {:>10}  {:>10}  {:>10}  {:18}  result",
        "launch", "kernel", "grid", "block", "compared", "changed", "code"
    )
}

/// Why bits may differ: `rsqrt.approx.ftz.f32 (line 120 and 3 more)`.
fn reasons(report: &LaunchReport) -> String {
    let spelled: Vec<String> = report
        .inexact
        .iter()
        .map(|reason| match reason.count {
            1 => format!("{} (line {})", reason.what, reason.line),
            n => format!("{} (line {} and {} more)", reason.what, reason.line, n - 1),
        })
        .collect();
    spelled.join("; ")
}

pub(super) fn print(out: &mut Output, report: &LaunchReport, width: usize) -> Result<(), Failure> {
    let mut result = match report.outcome {
        Outcome::Identical => "ok".to_owned(),
        Outcome::Within => "ok, within tolerance".to_owned(),
        Outcome::Mismatch => "MISMATCH".to_owned(),
        Outcome::Sampled => "agrees".to_owned(),
        Outcome::Undecided => "UNDECIDED".to_owned(),
        Outcome::CannotRun => "cannot run here".to_owned(),
        Outcome::NotRun => "NOT RUN".to_owned(),
    };
    if let Some(sample) = &report.sample {
        result.push_str(&format!(", blocks {} of {} only", sample.blocks, sample.of));
    }
    if report.runs > 1 {
        result.push_str(&format!(", {} times", report.runs));
    }
    let caveats: Vec<&str> = report.caveats.iter().map(|caveat| caveat.word()).collect();
    if !caveats.is_empty() {
        result.push_str(&format!(" ({})", caveats.join(", ")));
    }
    out.line(format!(
        "{:>6}  {:width$}  {:>12}  {:>10}  {:>10}  {:>10}  {:18}  {result}",
        report.launch.0,
        shorten(&report.kernel, width),
        dims(report.grid),
        dims(report.block),
        bytes(report.bytes),
        bytes(report.changed_bytes),
        report.code.as_deref().unwrap_or("-"),
    ))?;
    for line in report.error.iter().flat_map(|error| error.lines()) {
        out.line(format!("        {line}"))?;
    }
    if let Some(sample) = &report.sample {
        out.line(format!(
            "        judged: {} that these blocks changed; not judged: {} that the recorded launch changed and they did not",
            bytes(sample.written_bytes),
            bytes(sample.untouched_bytes)
        ))?;
    }
    for race in &report.races {
        out.line(format!("        {race}"))?;
    }
    if !report.buffers.is_empty() && !report.inexact.is_empty() {
        out.line(format!("        PTX leaves bits open: {}", reasons(report)))?;
    }
    for note in &report.notes {
        out.line(format!("        note: {note}"))?;
    }
    for buffer in &report.buffers {
        let found = &buffer.found;
        let mut line = format!(
            "        {} ({:#x}, {}, {}): {} out, {} within, {}",
            buffer.buffer,
            buffer.address,
            bytes(buffer.len),
            buffer.element,
            count(found.out, "element", "elements"),
            found.within,
            count(found.bytes, "byte differs", "bytes differ")
        );
        if buffer.examined < buffer.chunks {
            line.push_str(&format!(
                " (counted in the first {} of {} chunks that differ)",
                buffer.examined, buffer.chunks
            ));
        }
        if let Some(absolute) = found.largest_absolute {
            line.push_str(&format!("; largest error {absolute:e}"));
            if let Some(relative) = found.largest_relative {
                line.push_str(&format!(", relative {relative:e}"));
            }
            if let Some(ulp) = found.largest_ulp {
                line.push_str(&format!(", {ulp} ulp"));
            }
            if !report.inexact.is_empty() && buffer.allowed_relative > 0.0 {
                line.push_str(&format!(
                    "; allowed {:e} plus relative {:e}",
                    buffer.allowed_absolute, buffer.allowed_relative
                ));
            }
        }
        out.line(line)?;
        for mismatch in &found.first {
            out.line(format!(
                "          +{:#x} element {}: recorded {}, replayed {}",
                mismatch.offset, mismatch.element, mismatch.expected, mismatch.actual
            ))?;
        }
    }
    Ok(())
}
