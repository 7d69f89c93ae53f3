//! `run`: launches again, without comparing.

use std::path::{Path, PathBuf};

use super::device::{self, BlockArgs, DeviceArgs};
use super::output::{Output, bytes, complain, dims};
use super::private_file::PrivateFile;
use super::select::{self, Select};
use super::{FAILED, Failure, NOT_HERE, OK};
use crate::bench::COST_UNIT;
use crate::device::{BlockRange, Effort};
use crate::error::ReplayError;
use crate::replay::{Buffer, Replayer, Restored};

/// Replay launches without comparing; on request, write the memory they leave to files.
///
/// Exit code: 0; 2 when something could not be run; 3 when the CPU device cannot run something.
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

    /// Write each buffer that the recorded launch changed to a file in this folder:
    /// `launch<N>-<buffer>.bin`.
    #[arg(long, value_name = "FOLDER")]
    dump: Option<PathBuf>,

    /// With --dump: write all buffers.
    #[arg(long, requires = "dump")]
    all: bool,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let archive = select::open(&args.file)?;
    let launches = select::launches(&archive, &args.select)?;
    if let Some(folder) = &args.dump {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::Message(format!("cannot make {}: {error}", folder.display()))
        })?;
    }
    let blocks = args.blocks.blocks;
    let mut device = device::open(&args.device, blocks, &archive, &launches)?;
    let name = device.info().to_string();
    let mut replayer = device::replayer(&archive, &mut *device, &args.device, blocks, &launches)?;
    let mut code = OK;
    for head in &launches {
        let launch = archive.load_launch(head.id).map_err(Failure::new)?;
        match replayed(&mut replayer, &launch) {
            Ok((restored, effort)) => {
                let part = restored.blocks.map_or_else(String::new, |blocks| {
                    format!(", blocks {blocks} of {}", BlockRange::all(launch.grid).end)
                });
                out.line(format!(
                    "launch {} ({}) grid {} block {}{part}: {} on {name}, {}",
                    launch.id,
                    crate::names::readable(&restored.kernel.name),
                    dims(launch.grid),
                    dims(launch.block),
                    spell(&effort),
                    restored.form
                ))?;
                if let Effort::Work(work) = &effort {
                    for race in &work.races {
                        out.line(format!("  {race}"))?;
                    }
                }
                for note in &restored.notes {
                    out.line(format!("  note: {note}"))?;
                }
                if let Some(folder) = &args.dump {
                    dump(&mut replayer, &restored, folder, args.all, out)?;
                }
            }
            Err(error) => {
                complain(&error.to_string());
                if !error.cause.cannot_run_here() {
                    code = FAILED;
                } else if code == OK {
                    code = NOT_HERE;
                }
            }
        }
    }
    let _ = replayer.clear();
    Ok(code)
}

fn replayed<'l, 'a: 'l>(
    replayer: &mut Replayer<'a>,
    launch: &'l r3_archive::model::LaunchRecord,
) -> Result<(Restored<'l>, Effort), ReplayError> {
    let restored = replayer.restore(launch)?;
    let effort = replayer.launch_timed(&restored)?;
    Ok((restored, effort))
}

fn spell(effort: &Effort) -> String {
    match effort {
        Effort::Nanoseconds(time) => format!("{:.3} µs", time / 1e3),
        Effort::Work(work) => format!(
            "{} {COST_UNIT}, {:.3} ms of the host",
            work.cost,
            work.wall.as_secs_f64() * 1e3
        ),
    }
}

/// How much is read at a time.
const PART: u64 = 16 << 20;

fn dump(
    replayer: &mut Replayer<'_>,
    restored: &Restored<'_>,
    folder: &Path,
    all: bool,
    out: &mut Output,
) -> Result<(), Failure> {
    for buffer in &restored.buffers {
        if buffer.target.is_none() || (!all && buffer.region.changes.is_empty()) {
            continue;
        }
        let path = folder.join(file_name(restored.launch.id.0, buffer.name.shown()));
        write(replayer, restored, buffer, &path)?;
        out.line(format!(
            "  {}: {}, {} from {:#x}",
            path.display(),
            buffer.name.shown(),
            bytes(buffer.region.range.len()),
            buffer.region.range.start()
        ))?;
    }
    Ok(())
}

fn write(
    replayer: &mut Replayer<'_>,
    restored: &Restored<'_>,
    buffer: &Buffer<'_>,
    path: &Path,
) -> Result<(), Failure> {
    let mut file = PrivateFile::create(path)?;
    let len = buffer.region.range.len();
    let mut part = Vec::new();
    let mut offset = 0;
    while offset < len {
        part.resize(PART.min(len - offset) as usize, 0);
        replayer
            .read(restored, buffer, offset, &mut part)
            .map_err(Failure::new)?;
        file.write(&part)?;
        offset += part.len() as u64;
    }
    file.finish()
}

/// A file name without what is special in one.
pub fn file_name(launch: u64, buffer: &str) -> String {
    let safe: String = buffer
        .chars()
        .take(100)
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_+-.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!("launch{launch}-{safe}.bin")
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn names_from_strangers_stay_in_the_folder() {
        assert_eq!(file_name(3, "arg2+0x10"), "launch3-arg2+0x10.bin");
        assert_eq!(
            file_name(3, "global ../../etc/passwd"),
            "launch3-global_.._.._etc_passwd.bin"
        );
    }
}
