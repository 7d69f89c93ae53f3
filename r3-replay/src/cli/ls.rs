//! `ls`: one line per launch.

use std::path::PathBuf;

use super::output::{Output, bytes, dims, shorten};
use super::select::{self, Select};
use super::{Failure, OK};
use crate::inspect::launches::launches;

/// List the recorded launches.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    select: Select,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let report = launches(&archive, &select::launches(&archive, &args.select)?);
    if args.json {
        out.json(&report)?;
        return Ok(OK);
    }
    out.table(
        &[
            "launch",
            "kernel",
            "grid",
            "block",
            "shared",
            "occurrence",
            "regions",
            "memory",
            "changed",
            "notes",
        ],
        &[0, 2, 3, 4, 5, 6, 7, 8],
        report.launches.iter().map(|launch| {
            vec![
                launch.id.to_string(),
                shorten(&launch.name, 60),
                dims(launch.grid),
                dims(launch.block),
                launch.dynamic_shared.to_string(),
                launch.occurrence.to_string(),
                launch.regions.to_string(),
                bytes(launch.memory_bytes),
                bytes(launch.changed_bytes),
                if launch.notes.is_empty() {
                    String::new()
                } else {
                    launch.notes.len().to_string()
                },
            ]
        }),
    )?;
    Ok(OK)
}
