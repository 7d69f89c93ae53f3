//! `info`: totals, and one line per kernel.

use std::path::PathBuf;

use super::output::{Output, bytes, count, dims, driver, shorten};
use super::{Failure, OK, select};
use crate::inspect::info::{Info, Kernel, info};

/// Show what an archive holds: the program, and one line per kernel.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let info = info(&archive);
    if args.json {
        out.json(&info)?;
        return Ok(OK);
    }
    if info.kernels.is_empty() && info.processes == 0 && !info.tuned.is_empty() {
        // A result has no capture in it.
        out.line(format!("{}: {}", info.file, bytes(info.file_bytes)))?;
        return tuned(&info, out).map(|()| OK);
    }
    totals(&info, out)?;
    tuned(&info, out)?;
    out.line("")?;
    out.table(
        &[
            "kernel",
            "seen",
            "recorded",
            "shapes",
            "grid / block",
            "memory",
            "code",
            "flags",
        ],
        &[1, 2, 3, 5],
        info.kernels.iter().map(row),
    )?;
    for kernel in info
        .kernels
        .iter()
        .filter(|kernel| !kernel.skipped.is_empty())
    {
        for skipped in &kernel.skipped {
            out.line(format!(
                "not recorded: {} of {}: {}",
                count(skipped.launches, "launch", "launches"),
                kernel.name,
                skipped.reason
            ))?;
        }
    }
    if info.launches.into_graphs > 0 || info.launches.graph_launches > 0 {
        out.line(format!(
            "not captured: {} inside CUDA graphs, which were launched {}",
            count(info.launches.into_graphs, "launch", "launches"),
            count(info.launches.graph_launches, "time", "times")
        ))?;
    }
    for message in &info.messages {
        out.line(format!("capture: {message}"))?;
    }
    Ok(OK)
}

/// A line for each tuned kernel, with what it stands on.
fn tuned(info: &Info, out: &mut Output) -> Result<(), Failure> {
    for one in &info.tuned {
        let (major, minor) = one.compute_capability;
        let [median, low, high] = one.ratio;
        let interval = if low == high {
            String::new()
        } else {
            format!(" ({low:.3} to {high:.3})")
        };
        let code = if one.forms.is_empty() {
            "the application's own code".to_owned()
        } else {
            format!("{}, {}", one.forms.join(", "), bytes(one.code_bytes))
        };
        let mut more = String::new();
        if let Some(block) = one.block {
            more.push_str(&format!(", block {}", dims(block)));
        }
        if one.guards > 0 {
            more.push_str(&format!(
                ", {}",
                count(one.guards as u64, "guard", "guards")
            ));
        }
        if one.approximate {
            more.push_str(", approximate");
        }
        out.line(format!("  tuned      {}", shorten(&one.name, 80)))?;
        out.line(format!(
            "             {code}{more}, by R3 {}",
            one.r3_version
        ))?;
        out.line(format!(
            "             {median:.4}{interval} of the original's time on {} ({major}.{minor}); verified on {}, {} held out",
            one.device,
            count(one.verified, "launch", "launches"),
            one.held_out
        ))?;
    }
    if !info.tuned.is_empty() {
        out.line(format!(
            "             `r3-evolve show {}` has the rest",
            info.file
        ))?;
    }
    Ok(())
}

fn totals(info: &Info, out: &mut Output) -> Result<(), Failure> {
    out.line(format!("{}: {}", info.file, bytes(info.file_bytes)))?;
    if let Some(salvaged) = &info.salvaged {
        out.line(format!(
            "  salvaged   {}",
            salvaged.lines().next().unwrap_or_default()
        ))?;
    }
    if info.processes == 0 {
        out.line("  program    not known: the record of its process is lost")?;
    } else {
        let rank = info
            .rank
            .map(|rank| format!(", rank {rank}"))
            .unwrap_or_default();
        out.line(format!("  program    {}", info.command.join(" ")))?;
        out.line(format!(
            "  captured   on {}, process {}{rank}, by R3 {}, {}",
            info.host,
            info.pid,
            info.r3_version,
            driver(info.driver_version)
        ))?;
    }
    if info.processes > 1 {
        out.line(format!(
            "  merged     from {} processes, of which this is the first; the notes of each launch name its own",
            info.processes
        ))?;
    }
    for device in &info.devices {
        let (major, minor) = device.compute_capability;
        out.line(format!(
            "  GPU {}      {}, sm_{major}{minor}, {}",
            device.ordinal,
            device.name,
            bytes(device.total_memory)
        ))?;
    }
    out.line(format!(
        "  launches   {} recorded of {} seen, {} of memory",
        info.launches.recorded,
        info.launches.seen,
        bytes(info.launches.memory_bytes)
    ))
}

fn row(kernel: &Kernel) -> Vec<String> {
    let most = kernel.shapes.first().map_or_else(String::new, |shape| {
        format!("{} / {}", dims(shape.grid), dims(shape.block))
    });
    let mut flags: Vec<&str> = kernel.flags.clone();
    if kernel.source {
        flags.push("source");
    }
    let mut code = kernel.code.clone();
    if let Some(attached) = kernel.attached.first() {
        code.push_str(&format!("; attached {}", attached.forms.join(", ")));
    }
    vec![
        shorten(&kernel.name, 60),
        kernel.seen.to_string(),
        kernel.recorded.to_string(),
        kernel.shapes.len().to_string(),
        most,
        bytes(kernel.memory_bytes),
        code,
        flags.join(" "),
    ]
}
