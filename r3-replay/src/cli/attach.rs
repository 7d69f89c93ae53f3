//! `attach`: code for captured kernels in a form that the application did not have.

mod code;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use r3_archive::Archive;
use r3_archive::model::{AttachedKernel, KernelId, KernelRecord, LaunchRecord};
use serde::{Deserialize, Serialize};

use self::code::{CodeArgs, Reader};
use super::device::{self, PlaceArgs};
use super::output::{Output, bytes, count};
use super::resume;
use super::select::{self, Select};
use super::verify::{self, ToleranceArgs};
use super::{DIFFERENT, FAILED, Failure, NOT_HERE, OK};
use crate::attach::check::{Progress, Verdict, check};
use crate::attach::given::Given;
use crate::attach::matching::{Match, Matches, matching};
use crate::attach::store::{self, Place};
use crate::device::Platform;
use crate::names::{printable, readable};
use crate::replay::Replayer;
use crate::verify::{LaunchReport, VerifyOptions};

/// Add code to captured kernels in a form that the application did not have: PTX, LLVM IR or source for kernels of which
/// only machine code was captured.
///
/// Kernels are found by their mangled names, their parameters are compared with the captured ones, and the selected
/// launches are replayed with the code: what does not leave the recorded memory, within the tolerance, is not attached.
///
/// Exit code: 0; 1 when code was refused; 2 when something could not be run; 3 when the CPU device cannot run something.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    code: CodeArgs,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    place: PlaceArgs,

    #[command(flatten)]
    tolerances: ToleranceArgs,

    /// Allow nothing where results may differ on this device and no tolerance is given: bit for bit.
    #[arg(long)]
    strict: bool,

    /// Attach without replaying. The archive will say so wherever the code is used.
    #[arg(long)]
    no_verify: bool,

    /// Write the archive with the code to a new file, which must not exist [default: replace the archive].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON form.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    archive: String,
    output: Option<String>,
    device: String,
    notes: &'a [String],
    code: &'a [CodeReport],
}

/// What became of one file.
#[derive(Serialize)]
struct CodeReport {
    file: String,
    compiler: Option<String>,
    notes: Vec<String>,
    kernels: Vec<KernelReport>,
}

/// What became of one kernel.
#[derive(Serialize)]
struct KernelReport {
    kernel: KernelId,
    name: String,
    mangled: String,
    /// Why the code is not for this kernel, although the name is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    unfit: Option<String>,
    /// `None` when that was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<Verdict>,
    attached: bool,
    launches: Vec<LaunchReport>,
}

/// What a process knows that started over.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// Lines that were written.
    lines: usize,
    /// Reports so far.
    reports: Vec<LaunchReport>,
}

/// Code with the kernels that it has.
struct Matched {
    given: Given,
    matches: Matches,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let tolerances = args.tolerances.read()?;
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    let output = args.output.as_deref().map(select::fresh).transpose()?;
    let place = Place::of(&archive, output.as_deref()).map_err(Failure::new)?;
    let wanted = kernels(&archive, &launches);
    if wanted.is_empty() {
        return Err(Failure::Message(format!(
            "{} has no launches",
            args.file.display()
        )));
    }
    let (matched, notes) = matched(args, &archive, &wanted)?;
    let options = VerifyOptions {
        strict: args.strict,
        ..VerifyOptions::exactly(&tolerances)
    };
    let saved = resume::reports::<Saved>().pop();
    let known = saved.map_or_else(Vec::new, |saved| {
        out.skip(saved.lines);
        saved.reports
    });
    let out = RefCell::new(out);
    let mut start_over = |reports: &[LaunchReport]| {
        let mut out = out.borrow_mut();
        // What cannot be written now cannot be written later either.
        let _ = out.flush();
        resume::go_on(&[Saved {
            lines: out.lines(),
            reports: reports.to_vec(),
        }]);
    };
    let mut attaching = Attaching {
        archive: &archive,
        launches: &launches,
        options,
        json: args.json,
        out: &out,
        progress: Progress::new(known, &mut start_over),
        accepted: Vec::new(),
        reports: Vec::new(),
    };
    for note in &notes {
        attaching.say(format!("note: {note}"))?;
    }
    let mut name = String::new();
    if args.no_verify {
        attaching.all(matched, None)?;
    } else {
        let code = args.place.with_recorded_code();
        let mut device = device::open(&code, None, &archive, &launches)?;
        name = device.info().to_string();
        let platform = device.info().platform;
        let mut replayer = device::replayer(&archive, &mut *device, &code, None, &launches)?;
        attaching.all(matched, Some((&mut replayer, platform)))?;
        // A context with a stuck or broken kernel may refuse; the process ends anyway.
        let _ = replayer.clear();
    }
    let Attaching {
        accepted, reports, ..
    } = attaching;
    let new: Vec<_> = accepted
        .iter()
        .flat_map(|(given, kernels)| store::attachments(&archive, given, kernels, &name))
        .collect();
    let mut out = out.borrow_mut();
    let path = output.as_deref().unwrap_or(&args.file);
    let written = match new.is_empty() {
        true => None,
        false => Some(store::store(&archive, &new, &place).map_err(Failure::new)?),
    };
    if args.json {
        out.json(&Report {
            version: 1,
            archive: args.file.display().to_string(),
            output: written.map(|_| path.display().to_string()),
            device: name,
            notes: &notes,
            code: &reports,
        })?;
    } else {
        out.line("")?;
        out.line(match written {
            None => format!("nothing is attached; {} is as it was", args.file.display()),
            Some(written) => format!(
                "{}: code attached to {}, {}",
                path.display(),
                count(
                    accepted
                        .iter()
                        .map(|(_, kernels)| kernels.len() as u64)
                        .sum(),
                    "kernel",
                    "kernels"
                ),
                bytes(written.bytes)
            ),
        })?;
    }
    Ok(exit_code(&reports))
}

/// The kernels of some launches.
fn kernels<'a>(archive: &'a Archive, launches: &[&LaunchRecord]) -> Vec<&'a KernelRecord> {
    let launched = |kernel: &&KernelRecord| launches.iter().any(|l| l.kernel == kernel.id);
    archive.kernels().iter().filter(launched).collect()
}

/// The code that was given, with the kernels that it has; and what is to be told.
fn matched(
    args: &Args,
    archive: &Archive,
    wanted: &[&KernelRecord],
) -> Result<(Vec<Matched>, Vec<String>), Failure> {
    let (given, notes) = Reader::new(&args.code, archive, wanted)?.read()?;
    let mut all = Vec::new();
    for given in given {
        let of_module =
            |kernel: &&&KernelRecord| given.module.is_none() || kernel.module == given.module;
        let wanted: Vec<&KernelRecord> = wanted.iter().filter(of_module).copied().collect();
        let code = r3_image::Image::parse(given.ptx.as_bytes());
        match matching(archive, &wanted, &code) {
            Ok(matches) => all.push(Matched { given, matches }),
            Err(none) => return Err(Failure::Message(format!("{}: {none}", given.file))),
        }
    }
    Ok((all, notes))
}

/// Code on its way into the archive.
struct Attaching<'a> {
    archive: &'a Archive,
    launches: &'a [&'a LaunchRecord],
    options: VerifyOptions<'a>,
    json: bool,
    out: &'a RefCell<&'a mut Output>,
    progress: Progress<'a>,
    accepted: Vec<(Given, Vec<AttachedKernel>)>,
    reports: Vec<CodeReport>,
}

impl Attaching<'_> {
    fn say(&mut self, line: impl std::fmt::Display) -> Result<(), Failure> {
        match self.json {
            true => Ok(()),
            false => self.out.borrow_mut().line(line),
        }
    }

    /// Replays all code, where a device is given.
    fn all(
        &mut self,
        matched: Vec<Matched>,
        mut device: Option<(&mut Replayer<'_>, Platform)>,
    ) -> Result<(), Failure> {
        for Matched { given, matches } in matched {
            let mut report = CodeReport {
                file: given.file.clone(),
                compiler: given.build.as_ref().map(|build| build.compiler.clone()),
                notes: given.notes.clone(),
                kernels: Vec::new(),
            };
            self.say(match &report.compiler {
                Some(compiler) => format!("{}, compiled by {compiler}", printable(&given.file)),
                None => printable(&given.file),
            })?;
            for note in &given.notes {
                self.say(format!("  note: {}", printable(note)))?;
            }
            for (kernel, unfit) in &matches.unfitting {
                let mut refused = self.kernel(*kernel);
                self.say(format!("  {}: another kernel: {unfit}", refused.name))?;
                refused.unfit = Some(unfit.to_string());
                report.kernels.push(refused);
            }
            let mut accepted = Vec::new();
            for matched in &matches.fitting {
                let device = device.as_mut().map(|(replayer, at)| (&mut **replayer, *at));
                let (kernel, entry) = self.one(&given, matched, device)?;
                accepted.extend(entry);
                report.kernels.push(kernel);
                self.out.borrow_mut().flush()?;
            }
            if !accepted.is_empty() {
                self.accepted.push((given, accepted));
            }
            self.reports.push(report);
        }
        Ok(())
    }

    fn one(
        &mut self,
        given: &Given,
        matched: &Match,
        device: Option<(&mut Replayer<'_>, Platform)>,
    ) -> Result<(KernelReport, Option<AttachedKernel>), Failure> {
        let mut report = self.kernel(matched.kernel);
        let mut line = format!("  {}: parameters as captured", report.name);
        if matched.name != report.mangled {
            line.push_str(&format!("; called {} here", printable(&matched.name)));
        }
        self.say(line)?;
        let Some((replayer, platform)) = device else {
            self.say("    attached without being verified")?;
            report.attached = true;
            let entry = AttachedKernel {
                kernel: matched.kernel,
                name: matched.name.clone(),
                verified: Vec::new(),
                within: Vec::new(),
            };
            return Ok((report, Some(entry)));
        };
        let code = (given.file.as_str(), given.ptx.as_str());
        let checked = check(
            self.archive,
            replayer,
            matched,
            code,
            self.launches,
            self.options,
            &mut self.progress,
        )
        .map_err(Failure::new)?;
        if !self.json {
            for launch in &checked.launches {
                verify::print(&mut self.out.borrow_mut(), launch, 12)?;
            }
        }
        self.say(match checked.verdict {
            Verdict::Accepted => "    attached".to_owned(),
            Verdict::Different => "    refused: it does not leave the recorded memory".to_owned(),
            Verdict::Failed => "    refused: it could not be run".to_owned(),
            Verdict::CannotRun if platform == Platform::Cpu => {
                "    refused: the CPU device cannot run it; --device cuda on a machine with a GPU can, and --no-verify \
                 attaches it unseen"
                    .to_owned()
            }
            Verdict::CannotRun => "    refused: this device cannot run it".to_owned(),
            Verdict::NoLaunch => "    refused: no launch of it is selected".to_owned(),
        })?;
        report.verdict = Some(checked.verdict);
        report.attached = checked.verdict == Verdict::Accepted;
        let entry = report.attached.then(|| checked.entry(matched));
        report.launches = checked.launches;
        Ok((report, entry))
    }

    fn kernel(&self, id: KernelId) -> KernelReport {
        let mangled = self.archive.kernel(id).map(|kernel| kernel.name.clone());
        let mangled = mangled.unwrap_or_default();
        KernelReport {
            kernel: id,
            name: readable(&mangled),
            mangled,
            unfit: None,
            verdict: None,
            attached: false,
            launches: Vec::new(),
        }
    }
}

/// By what became of each kernel: code that was refused does not matter where other code was accepted.
fn exit_code(reports: &[CodeReport]) -> u8 {
    let mut kernels: BTreeMap<KernelId, Vec<&KernelReport>> = BTreeMap::new();
    for kernel in reports.iter().flat_map(|report| &report.kernels) {
        kernels.entry(kernel.kernel).or_default().push(kernel);
    }
    kernels.retain(|_, reports| !reports.iter().any(|report| report.attached));
    let left = || kernels.values().flatten();
    let any = |verdict| left().any(|kernel| kernel.verdict == Some(verdict));
    if any(Verdict::Failed) {
        FAILED
    } else if any(Verdict::Different) || left().any(|kernel| kernel.unfit.is_some()) {
        DIFFERENT
    } else if any(Verdict::CannotRun) {
        NOT_HERE
    } else {
        OK
    }
}
