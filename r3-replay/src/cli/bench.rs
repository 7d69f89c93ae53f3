//! `bench`: how long launches take.

use std::path::PathBuf;

use serde::Serialize;

use super::device::{self, DeviceArgs};
use super::output::{Output, complain, dims, shorten};
use super::select::{self, Select};
use super::verify::describe;
use super::{FAILED, Failure, OK};
use crate::bench::{BenchOptions, LaunchBench, bench};
use crate::nvml::{GpuState, Nvml};

/// Time launches on the GPU, by events around each one.
///
/// Before each run, the buffers that the recorded launch changed are put back from a copy on the
/// device. Exit code: 0, or 2 when something could not be run.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    select: Select,

    #[command(flatten)]
    device: DeviceArgs,

    /// Runs that are counted.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,

    /// Runs before them that are not counted.
    #[arg(long, value_name = "N", default_value_t = 3)]
    warmup: u32,

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
    let mut device = device::open(&args.device)?;
    let name = describe(&*device);
    let uuid = device.info().uuid.clone();
    let mut replayer = device::replayer(&archive, &mut *device, &args.device, &launches)?;
    let nvml = Nvml::open(&uuid);
    let options = BenchOptions {
        warmup: args.warmup,
        runs: args.runs,
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
        )?;
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
    Ok(if reports.iter().any(|report| report.error.is_some()) {
        FAILED
    } else {
        OK
    })
}

fn row(report: &LaunchBench) -> Vec<String> {
    let mut row = vec![
        report.launch.to_string(),
        shorten(&report.kernel, 60),
        dims(report.grid),
        dims(report.block),
    ];
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
