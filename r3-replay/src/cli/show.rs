//! `show`: one launch in full.

use std::path::PathBuf;

use r3_archive::model::LaunchId;

use super::output::{Output, bytes, dims};
use super::{Failure, OK, select};
use crate::inspect::show::{Launch, show};
use crate::state;

/// Show one launch in full: arguments, memory, settings.
#[derive(clap::Args)]
pub struct Args {
    /// The archive.
    file: PathBuf,

    /// The launch, by its number, as `ls` shows it.
    #[arg(value_parser = parse_number)]
    launch: u64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn parse_number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "expected the number of one launch, as `r3-replay ls` shows it".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let launch = archive
        .load_launch(LaunchId(args.launch))
        .map_err(Failure::new)?;
    let report = show(&archive, &launch);
    if args.json {
        out.json(&report)?;
        return Ok(OK);
    }
    head(&report, out)?;
    if !report.arguments.is_empty() {
        out.line("")?;
        arguments(&report, out)?;
    }
    if !report.regions.is_empty() {
        out.line("")?;
        out.table(
            &[
                "memory", "address", "size", "kind", "chunks", "stored", "changed",
            ],
            &[2, 4, 5, 6],
            report.regions.iter().map(|region| {
                vec![
                    region.name.clone(),
                    format!("{:#x}", region.address),
                    bytes(region.len),
                    region.kind.to_owned(),
                    region.chunks.to_string(),
                    region.stored_chunks.to_string(),
                    region.changed_chunks.to_string(),
                ]
            }),
        )?;
    }
    for caveat in &report.caveats {
        out.line(format!("caveat: {}", caveat.sentence()))?;
    }
    for note in &report.notes {
        out.line(format!("note: {note}"))?;
    }
    Ok(OK)
}

fn head(report: &Launch, out: &mut Output) -> Result<(), Failure> {
    out.line(format!("launch {}: {}", report.id, report.name))?;
    if report.mangled != report.name {
        out.line(format!("  name        {}", report.mangled))?;
    }
    out.line(format!("  code        {}", report.code))?;
    for attached in &report.attached {
        out.line(format!("  attached    {attached}"))?;
        if !attached.command.is_empty() {
            out.line(format!("              {}", attached.command.join(" ")))?;
        }
    }
    out.line(format!(
        "  launched    by {} on device {}; the program's launch number {}, number {} of this shape, by thread {}",
        report.entry_point, report.device, report.sequence, report.occurrence, report.thread
    ))?;
    out.line(format!(
        "  shape       grid {}, block {}, {} bytes of dynamic shared memory{}",
        dims(report.grid),
        dims(report.block),
        report.dynamic_shared,
        if report.cooperative {
            ", cooperative"
        } else {
            ""
        }
    ))?;
    for (id, value) in &report.attributes {
        out.line(format!(
            "  attribute   {} = {}",
            state::attribute_name(*id),
            state::attribute_value(*id, value)
        ))?;
    }
    for (attribute, value) in &report.function_settings {
        out.line(format!(
            "  function    {} = {value}",
            state::setting_name(*attribute)
        ))?;
    }
    if let Some(config) = report.cache_config {
        out.line(format!("  cache       preference {config}"))?;
    }
    for (limit, value) in &report.limits {
        out.line(format!(
            "  limit       {} = {value}",
            state::limit_name(*limit)
        ))?;
    }
    Ok(())
}

fn arguments(report: &Launch, out: &mut Output) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for argument in &report.arguments {
        let points = |pointers: &[_]| {
            pointers
                .iter()
                .map(
                    |p: &crate::inspect::show::Pointer| match p.offset - argument.offset {
                        0 => format!("-> {}", p.target),
                        inside => format!("+{inside:#x} -> {}", p.target),
                    },
                )
                .collect::<Vec<_>>()
                .join(", ")
        };
        rows.push(vec![
            argument.name.clone(),
            argument.offset.to_string(),
            argument.size.to_string(),
            argument.bytes.clone(),
            if argument.pointers.is_empty() {
                argument.values.join(" or ")
            } else {
                points(&argument.pointers)
            },
        ]);
    }
    out.table(
        &["argument", "offset", "size", "bytes", "value"],
        &[1, 2],
        rows,
    )
}
