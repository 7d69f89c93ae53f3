//! `doctor`: in what two recordings differ.

use std::path::PathBuf;

use r3_archive::Archive;
use r3_archive::model::LaunchId;
use serde::Serialize;

use super::output::{Output, bytes, count, shorten};
use super::{DIFFERENT, Failure, OK, select};
use crate::doctor::memory::Compared;
use crate::doctor::{self, Report, Side, pairs};
use crate::inspect::REPORT_VERSION;
use crate::names::readable;

/// Compare two recordings of a launch, and say what differs and what to do about it.
///
/// Two captures of the same run, compared launch by launch, show what is not the same twice: where results that cannot be
/// replayed come from. Memory is found again by how the kernel gets at it; words that point to the same place are the same.
/// Without --launch all launches that both captures have are compared, and the first one that was given the same and left
/// something else is told in full. Nothing runs, and no GPU is needed.
///
/// Exit code: 0 when nothing differs, 1 when something does, 2 when it cannot be said.
#[derive(clap::Args)]
pub struct Args {
    /// The first archive.
    first: PathBuf,

    /// The second one; left out, --launch and --other are two launches of the first.
    second: Option<PathBuf>,

    /// A launch of the first archive, as `ls` shows it.
    #[arg(long, value_name = "NUMBER")]
    launch: Option<u64>,

    /// The launch of the second archive that it is compared with. Left out: the one of the same kernel, shape and occurrence.
    #[arg(long, value_name = "NUMBER", requires = "launch")]
    other: Option<u64>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Whole {
    version: u32,
    /// Every pair that was compared.
    launches: Vec<Report>,
    /// Launches of the first archive alone, and of the second.
    only_first: Vec<LaunchId>,
    only_second: Vec<LaunchId>,
    /// Index of the pair where differences begin.
    begins: Option<usize>,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let first = select::open(&args.first)?;
    let second = args.second.as_deref().map(select::open).transpose()?;
    if second.is_none() && args.other.is_none() {
        return Err(Failure::Message(
            "one archive alone: name a second one, or two launches of it with --launch and --other"
                .to_owned(),
        ));
    }
    let second = second.as_ref().unwrap_or(&first);
    let mut found = pairs::launches(&first, second);
    if let Some(launch) = args.launch {
        let launch = LaunchId(launch);
        let other = match args.other {
            Some(other) => LaunchId(other),
            None => counterpart(&found, launch, &first, second)?,
        };
        found = pairs::Launches {
            pairs: vec![(launch, other)],
            ..pairs::Launches::default()
        };
    }
    if found.pairs.is_empty() {
        return Err(Failure::Message(format!(
            "{} and {} have no launch in common (the same kernel, shape and occurrence): name two with --launch and --other",
            first.path().display(),
            second.path().display()
        )));
    }
    let mut launches = Vec::new();
    for (a, b) in &found.pairs {
        let a = Side::new(&first, *a).map_err(Failure::new)?;
        let b = Side::new(second, *b).map_err(Failure::new)?;
        launches.push(doctor::examine(&a, &b).map_err(Failure::new)?);
    }
    let begins = begins(&launches);
    let same = launches.iter().all(Report::same)
        && found.only_first.is_empty()
        && found.only_second.is_empty();
    let whole = Whole {
        version: REPORT_VERSION,
        launches,
        only_first: found.only_first,
        only_second: found.only_second,
        begins,
    };
    match args.json {
        true => out.json(&whole)?,
        false => print(&whole, out)?,
    }
    Ok(if same { OK } else { DIFFERENT })
}

/// Where differences begin: with the first launch that made one of its own, else with the first that was given one.
fn begins(launches: &[Report]) -> Option<usize> {
    let own = |report: &Report| report.same_inputs() && report.differs_after();
    let first = launches.iter().position(own);
    first.or_else(|| launches.iter().position(|report| !report.same()))
}

fn counterpart(
    found: &pairs::Launches,
    launch: LaunchId,
    first: &Archive,
    second: &Archive,
) -> Result<LaunchId, Failure> {
    let pair = found.pairs.iter().find(|(known, _)| *known == launch);
    pair.map(|(_, other)| *other).ok_or_else(|| {
        let head = first.launch_heads().iter().find(|head| head.id == launch);
        let kernel = head.and_then(|head| first.kernel(head.kernel));
        Failure::Message(match kernel {
            Some(kernel) => format!(
                "{} has no launch like {launch} of {} ({}): name one with --other",
                second.path().display(),
                first.path().display(),
                readable(&kernel.name)
            ),
            None => format!(
                "{} has no launch {launch}: `r3-replay ls` lists them",
                first.path().display()
            ),
        })
    })
}

fn print(whole: &Whole, out: &mut Output) -> Result<(), Failure> {
    if whole.launches.len() > 1 {
        table(whole, out)?;
    }
    for (ids, which) in [(&whole.only_first, "first"), (&whole.only_second, "second")] {
        if !ids.is_empty() {
            let shown: Vec<String> = ids.iter().take(10).map(ToString::to_string).collect();
            let more = if ids.len() > 10 { ", …" } else { "" };
            out.line(format!(
                "{} in the {which} archive alone: {}{more}",
                count(ids.len() as u64, "launch is", "launches are"),
                shown.join(", ")
            ))?;
        }
    }
    let shown = match (whole.begins, whole.launches.as_slice()) {
        (Some(at), _) => whole.launches.get(at),
        (None, [one]) => Some(one),
        (None, _) => None,
    };
    match shown {
        Some(report) => detail(report, out),
        None => out.line(format!(
            "{}: nothing differs but addresses",
            count(whole.launches.len() as u64, "launch", "launches")
        )),
    }
}

fn table(whole: &Whole, out: &mut Output) -> Result<(), Failure> {
    let rows = whole.launches.iter().enumerate().map(|(index, report)| {
        let names = |moment| {
            let found = report.memory.iter().filter(|found| found.moment == moment);
            let names: Vec<&str> = found.map(|found| found.name.as_str()).collect();
            shorten(&names.join("; "), 40)
        };
        let settings: Vec<&str> = report
            .settings
            .iter()
            .filter(|setting| !setting.harmless)
            .map(|setting| setting.name.as_str())
            .collect();
        vec![
            report.a.launch.to_string(),
            report.b.launch.to_string(),
            shorten(&report.a.kernel, 40),
            shorten(&settings.join(", "), 30),
            names(doctor::memory::Moment::Before),
            names(doctor::memory::Moment::After),
            match whole.begins {
                Some(at) if at == index => "<- begins here".to_owned(),
                _ => String::new(),
            },
        ]
    });
    out.table(
        &[
            "first", "second", "kernel", "settings", "before", "after", "",
        ],
        &[0, 1],
        rows,
    )?;
    out.line("")
}

fn detail(report: &Report, out: &mut Output) -> Result<(), Failure> {
    let (a, b) = (&report.a, &report.b);
    out.line(format!(
        "launch {} of {} and launch {} of {}: {}",
        a.launch, a.archive, b.launch, b.archive, a.kernel
    ))?;
    if report.same() {
        out.line(format!(
            "  nothing differs but addresses ({} compared, before and after)",
            count(report.regions as u64, "region", "regions")
        ))?;
    }
    for setting in &report.settings {
        let note = if setting.harmless {
            " (changes no result)"
        } else {
            ""
        };
        out.line(format!(
            "  {:<8}{}: {} | {}{note}",
            "",
            setting.name,
            shorten(&setting.a, 60),
            shorten(&setting.b, 60)
        ))?;
    }
    for alone in &report.alone {
        let which = if alone.first { "first" } else { "second" };
        out.line(format!(
            "  {:<8}{}: {} in the {which} alone",
            "",
            alone.name,
            bytes(alone.len)
        ))?;
    }
    for found in &report.memory {
        memory(found, out)?;
    }
    if !report.advice.is_empty() {
        out.line("")?;
    }
    for advice in &report.advice {
        out.line(format!("  - {advice}"))?;
    }
    Ok(())
}

fn memory(found: &Compared, out: &mut Output) -> Result<(), Failure> {
    let [ours, theirs] = found.lens;
    let mut line = format!("  {:<8}{}: ", found.moment.word(), found.name);
    if ours != theirs {
        line.push_str(&format!("{} | {}; ", bytes(ours), bytes(theirs)));
    }
    match found.first {
        Some(first) => line.push_str(&format!(
            "{} of {} differ, from {first:#x} on: {}",
            bytes(found.bytes),
            bytes(ours.min(theirs)),
            found.look.words()
        )),
        None => line.push_str(&found.look.words()),
    }
    if found.inherited {
        line.push_str(" (as before the launch)");
    }
    if found.moved > 0 {
        line.push_str(&format!(
            "; {} of the same place",
            count(found.moved, "address", "addresses")
        ));
    }
    if found.left_out > 0 {
        line.push_str(&format!(
            "; {} more not looked into",
            bytes(found.left_out * 64 * 1024)
        ));
    }
    out.line(line)?;
    // What differed before was shown there.
    for sample in found.samples.iter().filter(|_| !found.inherited) {
        out.line(format!(
            "          {:#x}: {} | {}",
            sample.offset, sample.a, sample.b
        ))?;
    }
    Ok(())
}
