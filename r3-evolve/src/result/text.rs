//! Results, runs and candidates, for people.

use std::fmt::Write;

use r3_archive::Archive;
use r3_archive::model::{TunedForm, TunedGrid, TunedGuard, TunedKernelRecord, TunedShared};
use r3_replay::evaluate::{Candidate, Verdict};
use r3_replay::remix::pairs::Ratio;

use super::variant::write_lineage;
use crate::store::{Evaluation, Phase, Reason};
use crate::tune::Summary;
use crate::tune::summary::gain;

/// A ratio with its interval: `0.712 (0.705 to 0.718)`.
#[must_use]
pub fn ratio(of: &Ratio) -> String {
    if of.low == of.high {
        format!("{:.4}", of.median)
    } else {
        format!("{:.3} ({:.3} to {:.3})", of.median, of.low, of.high)
    }
}

/// How sure an interval is; nothing of what was counted.
fn confidence(of: &Ratio) -> String {
    if of.low == of.high {
        "counted".to_owned()
    } else {
        format!("{:.1} % confidence", 100.0 * of.confidence)
    }
}

/// A time in a unit of its own.
#[must_use]
pub fn time(value: f64, unit: &str) -> String {
    if unit != "nanoseconds" {
        return format!("cost {value:.0}");
    }
    match value {
        value if value >= 1e6 => format!("{:.3} ms", value / 1e6),
        value if value >= 1e3 => format!("{:.2} us", value / 1e3),
        value => format!("{value:.0} ns"),
    }
}

pub(super) fn dims([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

/// What a run found.
#[must_use]
pub fn summary(summary: &Summary) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write_summary(&mut out, summary);
    out
}

fn write_summary(out: &mut String, summary: &Summary) -> std::fmt::Result {
    writeln!(out, "{}", summary.readable)?;
    writeln!(
        out,
        "  on {}, {} search with seed {}: {} evaluations in {:.0} s, ended by {}",
        summary.device,
        summary.strategy,
        summary.seed,
        summary.evaluations,
        summary.seconds,
        end(summary)
    )?;
    let failed: Vec<String> = summary
        .verdicts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    if !failed.is_empty() {
        writeln!(
            out,
            "  {}; {} were the same candidate again",
            failed.join(", "),
            summary.repeated
        )?;
    }
    writeln!(
        out,
        "  compilers were busy {:.0} % of the time, devices {:.0} %",
        100.0 * summary.utilisation.compile,
        100.0 * summary.utilisation.device
    )?;
    writeln!(
        out,
        "original  {}",
        time(summary.original_ns, &summary.unit)
    )?;
    if let Some(best) = &summary.best {
        let word = if summary.claim {
            "winner  "
        } else {
            "nearest "
        };
        writeln!(
            out,
            "{word}  {} of the original's time: {}; {}, found by evaluation {}",
            ratio(&best.ratio),
            gain(best.ratio.median),
            confidence(&best.ratio),
            best.found_at
        )?;
        if best.knobs.is_empty() {
            writeln!(out, "  nothing differs from the original")?;
        }
        for knob in &best.knobs {
            let mattered = summary
                .mattered
                .iter()
                .find(|one| knob.split('=').next() == Some(one.knob.as_str()));
            let said = match mattered {
                Some(one) => match (one.verdict, one.loss) {
                    (Verdict::Right, Some(loss)) => {
                        format!("   without it: {}", gain(loss))
                    }
                    (verdict, _) => format!("   without it: {}", verdict.word()),
                },
                None => String::new(),
            };
            writeln!(out, "  {knob}{said}")?;
        }
    }
    if let Some(source) = &summary.source {
        writeln!(
            out,
            "source    variant {} of {}, compiled by {}",
            source.variant.0, source.name, source.compiler
        )?;
        if let Some(given) = summary.finals.as_ref().and_then(|finals| finals.given) {
            writeln!(
                out,
                "as given  {} of the original's time, measured alike",
                ratio(&given)
            )?;
            if let Some(best) = &summary.best {
                writeln!(
                    out,
                    "          against it, the best has {}",
                    gain(best.ratio.median / given.median)
                )?;
            }
        }
        write_lineage(out, &source.lineage)?;
    }
    for held_out in &summary.held_out {
        let took = held_out
            .ratio
            .map_or_else(String::new, |ratio| format!(", {ratio:.3} of the time"));
        writeln!(
            out,
            "held out  launch {}: {}{took}",
            held_out.launch,
            held_out.verdict.word()
        )?;
    }
    if let Some(finals) = &summary.finals
        && let Some(control) = &finals.control
        && control.low != control.high
    {
        writeln!(
            out,
            "control   the original against itself, measured alike: {}",
            ratio(control)
        )?;
    }
    let claim = if summary.claim {
        "claimed"
    } else {
        "nothing is claimed"
    };
    writeln!(out, "{claim}: {}", summary.reason)?;
    for note in &summary.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn end(summary: &Summary) -> &'static str {
    use crate::tune::End;
    match summary.end {
        End::Time => "its time",
        End::Evaluations => "its number of evaluations",
        End::Stagnation => "finding nothing better",
        End::Exhausted => "having tried everything",
        End::Stopped => "somebody",
        End::Variants => "its number of variants",
        End::Cost => "what models may cost",
    }
}

/// A tuned kernel, as its file says it.
#[must_use]
pub fn tuned(archive: &Archive, record: &TunedKernelRecord) -> String {
    let mut out = String::new();
    let _ = write_tuned(&mut out, archive, record);
    out
}

fn write_tuned(
    out: &mut String,
    archive: &Archive,
    record: &TunedKernelRecord,
) -> std::fmt::Result {
    writeln!(out, "kernel     {}", record.kernel)?;
    let [median, low, high] = record.ratio;
    let found = Ratio {
        median,
        low,
        high,
        confidence: record.confidence,
    };
    writeln!(
        out,
        "time       {} of the original's: {}, {}",
        ratio(&found),
        gain(median),
        confidence(&found)
    )?;
    let (major, minor) = record.compute_capability;
    writeln!(
        out,
        "measured   on {} ({major}.{minor}), driver {}, by R3 {}",
        record.device, record.driver_version, record.r3_version
    )?;
    if record.approximate {
        writeln!(
            out,
            "results    may differ within the tolerance that was given"
        )?;
    }
    let grid = record.launch.grid.map(|rule| match rule {
        TunedGrid::Cover if record.launch.block.is_none() => "as asked for".to_owned(),
        TunedGrid::Cover => "as many as cover the threads".to_owned(),
        TunedGrid::Same => "as asked for".to_owned(),
        TunedGrid::Blocks(count) => format!("{count}"),
        TunedGrid::Scale(by, of) => format!("times {by}/{of}"),
    });
    match record.launch.block {
        Some(block) => {
            writeln!(out, "block      {}", dims(block))?;
            let dimensions = block.iter().filter(|size| **size > 1).count().max(1);
            writeln!(
                out,
                "grid       {}",
                grid.get(..dimensions).unwrap_or_default().join(", ")
            )?;
        }
        None if record.launch.grid == [TunedGrid::Cover; 3] => {
            writeln!(out, "shape      as the application asks for")?;
        }
        None => writeln!(
            out,
            "grid       {}, {}, {}; blocks as the application asks for",
            grid[0], grid[1], grid[2]
        )?,
    }
    match record.launch.shared {
        TunedShared::Same => {}
        TunedShared::PerThread => writeln!(out, "shared     in proportion to threads")?,
        TunedShared::Bytes(bytes) => writeln!(out, "shared     {bytes} bytes")?,
    }
    if let Some(percent) = record.launch.carveout {
        writeln!(out, "carve-out  {percent} %")?;
    }
    if record.code.is_empty() {
        writeln!(out, "code       the application's own")?;
    }
    for code in &record.code {
        let form = match code.form {
            TunedForm::Cubin => "cubin",
            TunedForm::Ptx => "PTX",
            TunedForm::Llvm => "LLVM IR",
        };
        let whole = if archive.read_blob(&code.code).is_ok() {
            ""
        } else {
            ", damaged"
        };
        writeln!(
            out,
            "code       {form}{} of {}, {} bytes{whole}",
            if code.target.is_empty() {
                String::new()
            } else {
                format!(" for {}", code.target)
            },
            code.name,
            code.code.len
        )?;
    }
    if let Some(source) = &record.source {
        let options: String = source
            .options
            .iter()
            .map(|option| format!(" {option}"))
            .collect();
        let given = source
            .given_ratio
            .map_or_else(String::new, |[median, low, high]| {
                let given = Ratio {
                    median,
                    low,
                    high,
                    confidence: record.confidence,
                };
                format!(
                    "; as given it takes {} of the original's time",
                    ratio(&given)
                )
            });
        writeln!(
            out,
            "source     {}, compiled by {}{options}{given}",
            source.name, source.compiler
        )?;
    }
    for guard in &record.guards {
        let text = match guard {
            TunedGuard::Param {
                index,
                offset,
                bytes,
            } => format!(
                "parameter {index}, byte {offset}: {}",
                crate::tune::environment::hexadecimal(bytes)
            ),
            TunedGuard::Grid(grid) => format!("the grid is {}", dims(*grid)),
            TunedGuard::Block(block) => format!("the block is {}", dims(*block)),
            TunedGuard::NoAlias { index } => {
                format!("nothing else reaches the memory of parameter {index}")
            }
            TunedGuard::Align { index, bytes } => {
                format!("parameter {index} is a multiple of {bytes}")
            }
        };
        writeln!(out, "only when  {text}")?;
    }
    for shape in &record.shapes {
        writeln!(
            out,
            "verified   grid {}, block {}: {} {} that decided, {} held out{}",
            dims(shape.grid),
            dims(shape.block),
            shape.tuned,
            if shape.tuned == 1 {
                "launch"
            } else {
                "launches"
            },
            shape.held_out,
            if shape.ratio > 0.0 {
                format!("; {:.3} of the time", shape.ratio)
            } else {
                String::new()
            }
        )?;
    }
    if let Some(source) = &record.source {
        out.push_str(&source.diff);
    }
    Ok(())
}

/// A candidate with everything that was measured of it.
#[must_use]
pub fn candidate(
    candidate: &Candidate,
    knobs: &[(String, String)],
    evaluations: &[Evaluation],
) -> String {
    let mut out = String::new();
    let _ = write_candidate(&mut out, candidate, knobs, evaluations);
    out
}

fn write_candidate(
    out: &mut String,
    candidate: &Candidate,
    knobs: &[(String, String)],
    evaluations: &[Evaluation],
) -> std::fmt::Result {
    writeln!(out, "candidate  {}", candidate.id())?;
    if knobs.is_empty() {
        writeln!(out, "knobs      as the original")?;
    }
    for (name, value) in knobs {
        writeln!(out, "knobs      {name}={value}")?;
    }
    for row in evaluations {
        let what = match (row.phase, row.reason) {
            (Phase::Search, Reason::Again) => "measured again",
            (Phase::Search, Reason::Check) => "check",
            (Phase::Search, _) => "search",
            (Phase::Final, Reason::Control) => "control",
            (Phase::Final, Reason::Given) => "source as given",
            (Phase::Final, Reason::HeldOut) => "held-out launches",
            (Phase::Final, _) => "final",
            (Phase::Ablation, _) => "ablation",
            (Phase::Done, _) => "done",
        };
        let Some(outcome) = &row.outcome else {
            writeln!(out, "{:<10} {what}: {}", row.number.0, row.state.word())?;
            continue;
        };
        let score = outcome
            .score
            .map_or_else(String::new, |score| format!(", {}", ratio(&score.ratio)));
        writeln!(
            out,
            "{:<10} {what}: {}{score}",
            row.number.0,
            outcome.verdict.word()
        )?;
        if let Some(reason) = &outcome.reason {
            writeln!(out, "           {reason}")?;
        }
        if let Some(failure) = &outcome.failure {
            writeln!(out, "           {failure}")?;
        }
        if let Some(code) = &outcome.code {
            writeln!(out, "           code {}", code.image)?;
            if let Some(used) = &code.resources {
                writeln!(
                    out,
                    "           {} registers, {} B shared, {} B local",
                    used.registers, used.shared, used.local
                )?;
            }
        }
        for launch in &outcome.launches {
            let times: Vec<String> = launch
                .times
                .iter()
                .map(|timing| {
                    let unit = match timing.unit {
                        r3_replay::evaluate::outcome::Unit::Nanoseconds => "nanoseconds",
                        r3_replay::evaluate::outcome::Unit::Cost => "cost",
                    };
                    format!(
                        "{} against {}, {}",
                        time(timing.candidate, unit),
                        time(timing.original, unit),
                        ratio(&timing.ratio)
                    )
                })
                .collect();
            writeln!(
                out,
                "           launch {}: {}{}{}",
                launch.launch,
                launch.verdict.word(),
                if times.is_empty() { "" } else { ", " },
                times.join("; ")
            )?;
        }
    }
    Ok(())
}
