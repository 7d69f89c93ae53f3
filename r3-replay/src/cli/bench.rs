//! `bench`: how long launches take on a GPU, or how much they do on the CPU device.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;

use super::device::{self, BlockArgs, DeviceArgs};
use super::output::{Output, complain, count, dims, shorten};
use super::select::{self, Select};
use super::{FAILED, Failure, NOT_HERE, OK};
use crate::bench::{BenchOptions, COST_UNIT, LaunchBench, WorkReport, bench};
use crate::device::Platform;
use crate::nvml::{GpuState, Nvml};

/// Time launches on the GPU, by events around each one; or count, on the CPU device, what they do.
///
/// Before each run, the buffers that the recorded launch changed are put back from a copy on the
/// device. Exit code: 0; 2 when something could not be run; 3 when the CPU device cannot run something.
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

    /// Runs that are counted [default: 30 on a GPU, 3 on the CPU device].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,

    /// Runs before them that are not counted [default: 3 on a GPU, none on the CPU device].
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,

    /// Do not put memory back between runs: each run starts from what the one before left.
    #[arg(long)]
    no_restore: bool,

    /// Print JSON, with every sample.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    archive: String,
    device: String,
    launches: &'a [LaunchBench],
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    let blocks = args.blocks.blocks;
    let mut device = device::open(&args.device, blocks, &archive, &launches)?;
    let info = device.info().clone();
    let name = info.to_string();
    let mut replayer = device::replayer(&archive, &mut *device, &args.device, blocks, &launches)?;
    let counts = info.platform == Platform::Cpu;
    let nvml = if counts { None } else { Nvml::open(&info.uuid) };
    let (runs, warmup) = if counts { (3, 0) } else { (30, 3) };
    let options = BenchOptions {
        warmup: args.warmup.unwrap_or(warmup),
        runs: args.runs.unwrap_or(runs),
        restore: !args.no_restore,
    };
    let reports: Vec<LaunchBench> = launches
        .iter()
        .map(|launch| bench(&archive, &mut replayer, nvml.as_ref(), launch.id, options))
        .collect();
    let _ = replayer.clear();
    if args.json {
        out.json(&Report {
            version: 1,
            archive: args.file.display().to_string(),
            device: name,
            launches: &reports,
        })?;
    } else {
        match counts {
            true => print_counts(out, &reports)?,
            false => print_times(out, &reports)?,
        }
        let all = reports.iter().flat_map(|report| &report.notes);
        let different: BTreeSet<&String> = all.collect();
        for note in different {
            out.line(format!("note: {note}"))?;
        }
        out.line(format!("\non {name}"))?;
    }
    for report in &reports {
        if let Some(error) = &report.error {
            complain(&format!(
                "launch {} ({}): {error}",
                report.launch, report.kernel
            ));
        }
    }
    let failed = |report: &LaunchBench| report.error.is_some() && !report.cannot_run;
    Ok(if reports.iter().any(failed) {
        FAILED
    } else if reports.iter().any(|report| report.cannot_run) {
        NOT_HERE
    } else {
        OK
    })
}

fn print_times(out: &mut Output, reports: &[LaunchBench]) -> Result<(), Failure> {
    out.table(
        &[
            "launch",
            "kernel",
            "grid",
            "block",
            "median µs",
            "95 % interval",
            "min µs",
            "n",
            "GPU after",
            "code",
        ],
        &[0, 2, 3, 4, 5, 6, 7],
        reports.iter().map(row),
    )
}

/// A table of counts, and what they are made of.
fn print_counts(out: &mut Output, reports: &[LaunchBench]) -> Result<(), Failure> {
    out.table(
        &[
            "launch",
            "kernel",
            "grid",
            "block",
            "cost",
            "warp instr.",
            "thread instr.",
            "sectors",
            "bank conflicts",
            "host ms",
            "M thread instr./s",
            "code",
        ],
        &[0, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        reports.iter().map(counts_row),
    )?;
    out.line(format!("\ncost: {COST_UNIT}; warp instructions by class:"))?;
    for report in reports {
        let Some(work) = &report.work else { continue };
        let classes: Vec<String> = work
            .by_class
            .iter()
            .map(|(class, count)| format!("{class} {count}"))
            .collect();
        out.line(format!("{:>6}  {}", report.launch.0, classes.join(", ")))?;
        for note in notes(work) {
            out.line(format!("        note: {note}"))?;
        }
    }
    Ok(())
}

fn notes(work: &WorkReport) -> Vec<String> {
    let mut notes = Vec::new();
    if work.blocks < work.of_blocks {
        notes.push(format!(
            "counted in {} of {} only",
            work.blocks,
            count(work.of_blocks, "block", "blocks")
        ));
    }
    if !work.steady {
        notes.push("counts differ from run to run, as where threads wait for each other; these are of the first run".to_owned());
    }
    notes
}

fn counts_row(report: &LaunchBench) -> Vec<String> {
    let mut row = head(report);
    match &report.work {
        Some(work) => {
            let wall = report.wall_nanoseconds.map(|times| times.median / 1e6);
            let speed = work.thread_instructions_per_second.map(|speed| speed / 1e6);
            let decimals = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            row.extend(
                [
                    work.cost,
                    work.warp_instructions,
                    work.thread_instructions,
                    work.global_sectors,
                    work.bank_conflicts,
                ]
                .map(|number| number.to_string()),
            );
            row.push(decimals(wall, 3));
            row.push(decimals(speed, 0));
        }
        None => row.extend(["-"; 7].map(str::to_owned)),
    }
    row.push(report.code.clone().unwrap_or_default());
    row
}

fn head(report: &LaunchBench) -> Vec<String> {
    vec![
        report.launch.to_string(),
        shorten(&report.kernel, 60),
        dims(report.grid),
        dims(report.block),
    ]
}

fn row(report: &LaunchBench) -> Vec<String> {
    let mut row = head(report);
    match &report.nanoseconds {
        Some(times) => {
            let micro = |nanoseconds: f64| format!("{:.3}", nanoseconds / 1e3);
            // Five runs or fewer do not reach 95 %.
            let sure = if times.confidence < 0.95 {
                format!(" ({:.0} %)", 100.0 * times.confidence)
            } else {
                String::new()
            };
            row.push(micro(times.median));
            row.push(format!("{}-{}{sure}", micro(times.low), micro(times.high)));
            row.push(micro(times.min));
            row.push(times.n.to_string());
        }
        None => row.extend(["-", "-", "-", "0"].map(str::to_owned)),
    }
    row.push(report.after.map_or_else(String::new, state));
    row.push(report.code.clone().unwrap_or_default());
    row
}

fn state(state: GpuState) -> String {
    let mut parts = Vec::new();
    parts.extend(state.sm_clock_mhz.map(|mhz| format!("{mhz} MHz")));
    parts.extend(state.temperature_c.map(|degrees| format!("{degrees} °C")));
    parts.join(", ")
}
