//! `convert`: an archive's records as text.

use std::path::PathBuf;

use r3_archive::Archive;
use r3_archive::model::*;
use serde::Serialize;

use super::output::Output;
use super::select::{self, Select};
use super::{Failure, OK};

/// Write an archive's records as text. Memory and code are named by their chunks; `extract` gives
/// their bytes.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    /// The form.
    #[arg(long, value_enum, default_value_t)]
    to: Form,

    #[command(flatten)]
    select: Select,
}

/// What to convert to.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Form {
    /// One JSON object for each record, one a line.
    #[default]
    Json,
}

/// A line.
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line<'a> {
    Archive {
        version: u32,
        file: String,
        uuid: String,
        writer: String,
        salvaged: Option<String>,
    },
    Process(&'a ProcessRecord),
    Device(&'a DeviceRecord),
    Module(&'a ModuleRecord),
    Source(&'a SourceRecord),
    Kernel(&'a KernelRecord),
    Allocation(&'a AllocationRecord),
    Launch(&'a LaunchRecord),
    KernelStats(&'a KernelStatsRecord),
    ProcessStats(&'a ProcessStatsRecord),
    Attachment(&'a AttachmentRecord),
    TunedKernel(&'a TunedKernelRecord),
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    match args.to {
        Form::Json => json(&archive, &launches, out)?,
    }
    Ok(OK)
}

fn json(archive: &Archive, launches: &[&LaunchRecord], out: &mut Output) -> Result<(), Failure> {
    let mut line = |line: Line<'_>| out.json_line(&line);
    line(Line::Archive {
        version: 1,
        file: archive.path().display().to_string(),
        uuid: crate::inspect::spell_uuid(archive.uuid()),
        writer: archive.writer_version(),
        salvaged: archive.salvaged().map(ToString::to_string),
    })?;
    archive
        .processes()
        .iter()
        .try_for_each(|record| line(Line::Process(record)))?;
    archive
        .devices()
        .iter()
        .try_for_each(|record| line(Line::Device(record)))?;
    archive
        .sources()
        .iter()
        .try_for_each(|record| line(Line::Source(record)))?;
    archive
        .modules()
        .iter()
        .try_for_each(|record| line(Line::Module(record)))?;
    archive
        .kernels()
        .iter()
        .try_for_each(|record| line(Line::Kernel(record)))?;
    archive
        .allocations()
        .iter()
        .try_for_each(|record| line(Line::Allocation(record)))?;
    for head in launches {
        let launch = archive.load_launch(head.id).map_err(Failure::new)?;
        line(Line::Launch(&launch))?;
    }
    archive
        .kernel_stats()
        .iter()
        .try_for_each(|record| line(Line::KernelStats(record)))?;
    line(Line::ProcessStats(archive.process_stats()))?;
    archive
        .attachments()
        .iter()
        .try_for_each(|record| line(Line::Attachment(record)))?;
    archive
        .tuned()
        .iter()
        .try_for_each(|record| line(Line::TunedKernel(record)))
}
