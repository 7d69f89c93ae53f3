//! `trim` and `merge`: archives out of archives.

use std::path::PathBuf;

use r3_archive::ops::{self, Written};

use super::output::{Output, bytes, count};
use super::select::{self, Predicate, Select};
use super::{Failure, OK};

/// Write some launches of an archive, with all that they need, into a new one.
#[derive(clap::Args)]
pub struct TrimArgs {
    /// The archive.
    file: PathBuf,

    #[command(flatten)]
    select: Select,

    /// The new archive; it must not exist.
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
}

/// Write several archives into one. Kernels, launches and so on get new numbers.
#[derive(clap::Args)]
pub struct MergeArgs {
    /// The archives.
    #[arg(required = true)]
    files: Vec<PathBuf>,

    /// The new archive; it must not exist.
    #[arg(long, short, value_name = "FILE")]
    out: PathBuf,
}

/// Runs `trim`.
pub fn trim(args: &TrimArgs, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let predicate = Predicate::new(&archive, &args.select)?;
    let path = select::fresh(&args.out)?;
    let written =
        ops::trim(&archive, |launch| predicate.selects(launch), &path).map_err(Failure::new)?;
    report(out, &path, &written)
}

/// Runs `merge`.
pub fn merge(args: &MergeArgs, out: &mut Output) -> Result<u8, Failure> {
    let archives = args
        .files
        .iter()
        .map(|file| select::open(file))
        .collect::<Result<Vec<_>, _>>()?;
    let path = select::fresh(&args.out)?;
    let written = ops::merge(&archives, &path).map_err(Failure::new)?;
    report(out, &path, &written)
}

fn report(out: &mut Output, path: &std::path::Path, written: &Written) -> Result<u8, Failure> {
    out.line(format!(
        "{}: {} of {}, {}",
        path.display(),
        count(written.launches, "launch", "launches"),
        count(written.kernels, "kernel", "kernels"),
        bytes(written.bytes)
    ))?;
    Ok(OK)
}
