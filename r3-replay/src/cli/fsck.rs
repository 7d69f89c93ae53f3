//! `fsck`: every block, every checksum, every reference.

use std::path::PathBuf;

use serde::Serialize;

use super::output::Output;
use super::{DIFFERENT, Failure, OK};

/// Check an archive: every block, every checksum, every reference.
///
/// Exit code: 0 when nothing is lost or wrong, 1 when something is, 2 when the file cannot be read.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    #[serde(flatten)]
    report: &'a r3_archive::ops::Report,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let report = r3_archive::ops::fsck(&args.file).map_err(Failure::new)?;
    if args.json {
        out.json(&Report {
            version: 1,
            report: &report,
        })?;
    } else {
        out.line(&report)?;
    }
    Ok(if report.is_sound() { OK } else { DIFFERENT })
}
