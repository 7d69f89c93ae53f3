//! The report, for people and as JSON.

use std::path::Path;

use r3_codegen::recipe::{Failure as CompileFailure, FailureKind};
use serde::Serialize;

use super::super::Failure;
use super::super::output::{Output, shorten};
use crate::bench::COST_UNIT;
use crate::names::{printable, printable_lines};
use crate::remix::report::{CandidateReport, KernelReport, TrialReport};
use crate::remix::trial::Verdict;

/// The JSON form.
#[derive(Serialize)]
pub struct Report<'a> {
    version: u32,
    archive: String,
    device: &'a str,
    kernels: &'a [KernelReport],
}

impl<'a> Report<'a> {
    /// Of an archive's kernels on a device.
    pub fn new(archive: &Path, device: &'a str, kernels: &'a [KernelReport]) -> Self {
        Self {
            version: 1,
            archive: archive.display().to_string(),
            device,
            kernels,
        }
    }
}

/// Kernels with how they were compiled, then all launches in one table.
pub fn all(out: &mut Output, reports: &[KernelReport], device: &str) -> Result<(), Failure> {
    for report in reports {
        kernel(out, report)?;
    }
    let trials = || {
        reports
            .iter()
            .flat_map(|report| &report.candidates)
            .flat_map(|candidate| {
                candidate
                    .launches
                    .iter()
                    .map(move |trial| (candidate, trial))
            })
    };
    if trials().next().is_none() {
        return Ok(());
    }
    out.line("")?;
    if trials().any(|(_, trial)| trial.pairs.is_some()) {
        times(out, trials())?;
    } else {
        counts(out, trials())?;
    }
    details(out, trials())?;
    out.line("")?;
    out.line(sentence(trials().map(|(_, trial)| trial.verdict), device))
}

fn kernel(out: &mut Output, report: &KernelReport) -> Result<(), Failure> {
    out.line(printable(&report.kernel))?;
    if let Some(error) = &report.error {
        return out.line(format!("  {}", printable_lines(error)));
    }
    out.line(format!("  from {}", printable(&report.from)))?;
    for candidate in &report.candidates {
        let stages: Vec<String> = candidate
            .stages
            .iter()
            .map(|(stage, time)| format!("{stage} {time:.1}"))
            .collect();
        let made = match &candidate.failure {
            Some(failed) => failure(failed),
            None => format!(
                "{:.1} ms ({})",
                candidate.wall_milliseconds,
                stages.join(", ")
            ),
        };
        out.line(format!("  {}: {made}", candidate.candidate))?;
        if candidate.candidate.starts_with("random") {
            out.line(format!("    --passes '{}'", candidate.passes))?;
        }
        if let Some(assembler) = &candidate.assembler {
            out.line(format!("    assembled by {assembler}"))?;
        }
        for note in &candidate.notes {
            out.line(format!("    note: {}", printable(note)))?;
        }
        for guard in &candidate.guards {
            out.line(format!("    holds only where {}", guard.text))?;
        }
    }
    Ok(())
}

/// Why a recipe gave nothing, for people.
pub fn failure(failure: &CompileFailure) -> String {
    let kind = match failure.kind {
        FailureKind::Refused => "refused",
        FailureKind::MissingTool => "a tool is missing",
        FailureKind::Crash => "the compiler crashed",
        FailureKind::Timeout => "out of time",
        FailureKind::Memory => "out of memory",
        FailureKind::Machine => "the machine failed",
    };
    let stage = format!("{:?}", failure.stage).to_lowercase();
    let message = printable_lines(&failure.message);
    let mut text = format!("FAILED, {stage}: {kind}: {message}");
    for line in failure.log.lines() {
        text.push_str(&format!("\n    | {}", printable(line)));
    }
    text
}

type Trial<'r> = (&'r CandidateReport, &'r TrialReport);

/// What both codes use: `32 -> 30`.
fn before_after(before: Option<u32>, after: Option<u32>) -> String {
    match (before, after) {
        (Some(before), Some(after)) => format!("{before} -> {after}"),
        (None, Some(after)) => after.to_string(),
        _ => "-".to_owned(),
    }
}

fn head((candidate, trial): Trial<'_>) -> Vec<String> {
    let used = |side: &Option<crate::remix::report::Side>| side.as_ref().and_then(|side| side.used);
    let (before, after) = (used(&trial.original), used(&trial.remixed));
    let before = before.or(candidate.recorded);
    let cubin = candidate.resources.as_ref();
    let registers = after
        .map(|used| used.registers)
        .or(cubin.map(|c| c.registers));
    let shared = after.map(|used| used.shared).or(cubin.map(|c| c.shared));
    let spills = cubin.and_then(|resources| resources.spills);
    vec![
        trial.launch.to_string(),
        shorten(&candidate.candidate, 24),
        before_after(before.map(|used| used.registers), registers),
        before_after(before.map(|used| used.shared), shared),
        spills.map_or("-".to_owned(), |(stores, loads)| {
            format!("{stores}+{loads}")
        }),
    ]
}

const HEAD: [&str; 5] = ["launch", "code", "registers", "shared", "spilled"];

fn times<'r>(out: &mut Output, trials: impl Iterator<Item = Trial<'r>>) -> Result<(), Failure> {
    let rows = trials.map(|trial| {
        let mut row = head(trial);
        match &trial.1.pairs {
            Some(pairs) => {
                let ratio = pairs.ratio;
                row.push(format!("{:.3}", pairs.original.median / 1e3));
                row.push(format!("{:.3}", pairs.other.median / 1e3));
                row.push(format!("{:.4}", ratio.median));
                row.push(format!("{:.4}-{:.4}", ratio.low, ratio.high));
                row.push(pairs.samples.len().to_string());
            }
            None => row.extend(["-"; 5].map(str::to_owned)),
        }
        row.push(trial.1.verdict.word().to_owned());
        row
    });
    let columns = [
        &HEAD[..],
        &[
            "original µs",
            "remixed µs",
            "ratio",
            "95 % interval",
            "pairs",
            "result",
        ],
    ]
    .concat();
    out.table(&columns, &[0, 2, 3, 4, 5, 6, 7, 8, 9], rows)
}

fn counts<'r>(out: &mut Output, trials: impl Iterator<Item = Trial<'r>>) -> Result<(), Failure> {
    let mut counted = false;
    let rows: Vec<Vec<String>> = trials
        .map(|trial| {
            let cost = |side: &Option<crate::remix::report::Side>| side.as_ref()?.cost;
            let shown = |cost: Option<u64>| cost.map_or("-".to_owned(), |cost| cost.to_string());
            let mut row = head(trial);
            let (before, after) = (cost(&trial.1.original), cost(&trial.1.remixed));
            counted |= after.is_some();
            row.push(shown(before));
            row.push(shown(after));
            let ratio = trial.1.ratio();
            row.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}")));
            row.push(trial.1.verdict.word().to_owned());
            row
        })
        .collect();
    if !counted {
        // A GPU that was not asked for times.
        let rows = rows.into_iter().map(|row| {
            let (head, verdict) = (row.iter().take(HEAD.len()), row.last());
            head.chain(verdict).cloned().collect()
        });
        return out.table(&[&HEAD[..], &["result"]].concat(), &[0, 2, 3, 4], rows);
    }
    let columns = [&HEAD[..], &["original", "remixed", "ratio", "result"]].concat();
    out.table(&columns, &[0, 2, 3, 4, 5, 6, 7], rows)?;
    out.line(format!("\noriginal, remixed: {COST_UNIT}"))
}

/// What is to be said of launches that are not simply right.
fn details<'r>(out: &mut Output, trials: impl Iterator<Item = Trial<'r>>) -> Result<(), Failure> {
    for (candidate, trial) in trials {
        let name = format!("launch {} with {}", trial.launch, candidate.candidate);
        if let Some(reason) = &trial.reason {
            out.line(format!("{name}: {}", printable_lines(reason.trim_end())))?;
        }
        if trial.verdict != Verdict::Mismatch {
            continue;
        }
        if let Some(original) = &trial.original
            && original.report.outcome == crate::verify::Outcome::Mismatch
        {
            out.line(format!(
                "{name}: the original does not leave the recorded bytes here either; `r3-replay noise` measures by how much"
            ))?;
        }
        let buffers = trial.remixed.iter().flat_map(|side| &side.report.buffers);
        for buffer in buffers {
            let found = &buffer.found;
            out.line(format!(
                "{name}: {} ({}): {} elements out, {} within",
                buffer.buffer, buffer.element, found.out, found.within
            ))?;
            for place in &found.first {
                out.line(format!(
                    "  +{:#x} element {}: recorded {}, remixed {}",
                    place.offset, place.element, place.expected, place.actual
                ))?;
            }
        }
    }
    Ok(())
}

fn sentence(verdicts: impl Iterator<Item = Verdict>, device: &str) -> String {
    let verdicts: Vec<Verdict> = verdicts.collect();
    let right = verdicts.iter().filter(|verdict| verdict.is_right()).count();
    let mut text = format!("{right} of {} right on {device}", verdicts.len());
    for (verdict, what) in [
        (
            Verdict::AsOriginal,
            "of them not as recorded, but as the original leaves it here",
        ),
        (Verdict::Within, "of them within tolerance"),
        (Verdict::Mismatch, "mismatched"),
        (
            Verdict::Guard,
            "not run, since the code is for other launches",
        ),
        (Verdict::CannotRun, "cannot run on this device"),
        (Verdict::NotRun, "not run"),
    ] {
        let number = verdicts.iter().filter(|found| **found == verdict).count();
        if number > 0 {
            text.push_str(&format!("; {number} {what}"));
        }
    }
    text
}
