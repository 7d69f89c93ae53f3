//! `noise`: the original's own run-to-run spread.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use super::device::{self, DeviceArgs};
use super::output::{Output, bytes, complain, count};
use super::select::{self, Select};
use super::verify::TypeArgs;
use super::{FAILED, Failure, OK};
use crate::compare::{Tolerance, Tolerances};
use crate::noise::{LaunchNoise, measure, tolerance_file};

/// Run launches several times, show how far the results differ from run to run, and suggest
/// tolerances for `verify --tolerance-file`.
///
/// Runs are compared with each other, not with the recording. Exit code: 0, or 2 when something
/// could not be run.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    types: TypeArgs,

    /// How often each launch is run.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    runs: u32,

    /// Write the suggested tolerances to this file; it is overwritten.
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    archive: String,
    device: String,
    launches: &'a [LaunchNoise],
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let mut known = Tolerances::exact();
    args.types.add(&mut known, Tolerance::EXACT)?;
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    args.types.check(&archive, &launches)?;
    let mut device = device::open(&args.device, None, &archive, &launches)?;
    let name = device.info().to_string();
    let mut replayer = device::replayer(&archive, &mut *device, &args.device, None, &launches)?;
    let reports: Vec<LaunchNoise> = launches
        .iter()
        .map(|launch| measure(&archive, &mut replayer, launch.id, args.runs, &known))
        .collect();
    let _ = replayer.clear();
    let file = tolerance_file(&reports);
    if let Some(path) = &args.out {
        let text = toml::to_string(&file).map_err(Failure::new)?;
        let text = format!(
            "# Suggested by r3-replay noise: {} runs on {name}.\n{text}",
            args.runs
        );
        std::fs::write(path, text).map_err(|error| {
            Failure::Message(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    if args.json {
        out.json(&Report {
            version: 1,
            archive: args.file.display().to_string(),
            device: name,
            launches: &reports,
        })?;
    } else {
        for report in &reports {
            print(out, report)?;
        }
        let all = reports.iter().flat_map(|report| &report.notes);
        let different: BTreeSet<&String> = all.collect();
        for note in different {
            out.line(format!("note: {note}"))?;
        }
        let noisy = reports
            .iter()
            .filter(|report| !report.buffers.is_empty())
            .count();
        out.line(format!(
            "{noisy} of {} {} from run to run ({} runs on {name})",
            count(reports.len() as u64, "launch", "launches"),
            if noisy == 1 { "varies" } else { "vary" },
            args.runs
        ))?;
    }
    for report in reports.iter().filter(|report| report.error.is_some()) {
        let error = report.error.as_deref().unwrap_or_default();
        complain(&format!(
            "launch {} ({}): {error}",
            report.launch, report.kernel
        ));
    }
    Ok(if reports.iter().any(|report| report.error.is_some()) {
        FAILED
    } else {
        OK
    })
}

fn print(out: &mut Output, report: &LaunchNoise) -> Result<(), Failure> {
    for buffer in &report.always_different {
        out.line(format!(
            "launch {} ({}), {buffer}: the same in all runs, but not as recorded",
            report.launch, report.kernel
        ))?;
    }
    for buffer in &report.buffers {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.3e}"));
        out.line(format!(
            "launch {} ({}), {} ({}): {}{}, {}; absolute {}, relative {}, ulp {}",
            report.launch,
            report.kernel,
            buffer.buffer,
            bytes(buffer.len),
            buffer.element,
            if buffer.guessed { " (guessed)" } else { "" },
            count(buffer.elements, "element differs", "elements differ"),
            number(buffer.absolute),
            number(buffer.relative),
            buffer.ulp.map_or("-".to_owned(), |ulp| ulp.to_string())
        ))?;
    }
    Ok(())
}
