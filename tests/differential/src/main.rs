//! `r3-ptx-differential`: records what kernels give on one device, and compares another device with that.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use r3_differential::case::Case;
use r3_differential::record::{self, Entry, RecordError};
use r3_differential::{cases, collect, compare, report};
use r3_replay::device::cpu::{CpuDevice, CpuOptions};
use r3_replay::device::cuda::CudaDevice;
use r3_replay::device::{Device, DeviceError};

/// Runs small PTX kernels on a GPU and on the CPU device, and compares.
#[derive(Parser)]
#[command(name = "r3-ptx-differential", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Names the cases.
    List {
        #[command(flatten)]
        selection: Selection,
        /// Write the PTX of each case to this directory, in files that have the numbers of the list.
        #[arg(long, value_name = "DIRECTORY")]
        ptx: Option<PathBuf>,
    },
    /// Runs the cases and keeps what they give.
    Record {
        #[command(flatten)]
        selection: Selection,
        /// Where they run.
        #[arg(long, value_enum, default_value_t = On::Cuda)]
        device: On,
        /// The file.
        #[arg(long)]
        out: PathBuf,
        /// Keep all bytes, not only the hash, of exact results.
        #[arg(long)]
        whole: bool,
    },
    /// Runs the cases and compares with a recorded file.
    Compare {
        /// The file.
        recorded: PathBuf,
        #[command(flatten)]
        selection: Selection,
        /// Where they run.
        #[arg(long, value_enum, default_value_t = On::Cpu)]
        device: On,
        /// One JSON line a family instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Makes a record with hashes of one with all bytes.
    #[command(hide = true)]
    Shorten {
        recorded: PathBuf,
        #[command(flatten)]
        selection: Selection,
        #[arg(long)]
        out: PathBuf,
    },
    /// Part of `record`: cases from one on, until one fails.
    #[command(hide = true)]
    Child {
        #[command(flatten)]
        selection: Selection,
        #[arg(long, value_enum)]
        device: On,
        #[arg(long)]
        whole: bool,
        first: usize,
    },
}

#[derive(clap::Args, Clone)]
struct Selection {
    /// Only cases whose name contains this. May be given again.
    #[arg(long = "only", value_name = "TEXT")]
    only: Vec<String>,
    /// So many random programs besides.
    #[arg(long, default_value_t = 300, value_name = "N")]
    random: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Cuda,
    Cpu,
}

impl On {
    fn open(self) -> Result<Box<dyn Device>, DeviceError> {
        Ok(match self {
            Self::Cuda => Box::new(CudaDevice::open(0)?),
            Self::Cpu => Box::new(CpuDevice::new(
                CpuOptions {
                    // Catches a kernel that never ends: the longest case needs some millions.
                    instruction_limit: Some(1 << 30),
                    ..CpuOptions::default()
                },
                Box::new(|_| ()),
            )),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cuda => "CUDA device",
            Self::Cpu => "CPU device",
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Device(#[from] DeviceError),
    #[error("{0}")]
    Record(#[from] RecordError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("r3-ptx-differential: {failure}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List { selection, ptx } => {
            for (number, case) in selection.cases().iter().enumerate() {
                println!("{}", case.name);
                if let Some(directory) = &ptx {
                    std::fs::write(directory.join(format!("{number}.ptx")), &case.ptx)?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Record {
            selection,
            device,
            out,
            whole,
        } => {
            let cases = selection.cases();
            let (head, entries) = match device {
                On::Cuda => {
                    let mut arguments: Vec<String> =
                        ["child", "--device", "cuda"].map(Into::into).into();
                    arguments.extend(
                        selection
                            .only
                            .iter()
                            .flat_map(|only| ["--only".into(), only.clone()]),
                    );
                    arguments.extend(["--random".into(), selection.random.to_string()]);
                    arguments.extend(whole.then(|| "--whole".into()));
                    collect::parent(&arguments, &cases)?
                }
                On::Cpu => {
                    let mut device = device.open()?;
                    let head = collect::head(device.as_ref());
                    let entries = cases
                        .iter()
                        .map(|case| collect::entry(device.as_mut(), case, whole));
                    (head, entries.collect())
                }
            };
            record::write(&out, &head, &entries)?;
            let failed: Vec<&Entry> = entries
                .iter()
                .filter(|entry| entry.error.is_some())
                .collect();
            for entry in &failed {
                println!(
                    "{}: {}",
                    entry.name,
                    entry.error.as_deref().unwrap_or_default()
                );
            }
            println!(
                "{}: {} cases, {} failed",
                head.device,
                entries.len(),
                failed.len()
            );
            Ok(if failed.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        Command::Compare {
            recorded,
            selection,
            device,
            json,
        } => {
            let (head, entries) = record::read(&recorded)?;
            let mut on = device.open()?;
            let cases = selection.cases();
            let verdicts = compare::all(on.as_mut(), &cases, &entries);
            let failed = verdicts
                .iter()
                .any(|(_, verdict)| verdict.failure.is_some());
            report::print(&head, device.name(), &verdicts, json)?;
            Ok(if failed || verdicts.is_empty() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            })
        }
        Command::Shorten {
            recorded,
            selection,
            out,
        } => {
            let (head, entries) = record::read(&recorded)?;
            record::write(&out, &head, &record::shorten(&entries, &selection.cases()))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Child {
            selection,
            device,
            whole,
            first,
        } => {
            let mut on = device.open()?;
            collect::child(on.as_mut(), &selection.cases(), first, whole)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl Selection {
    fn cases(&self) -> Vec<Case> {
        cases::all(&self.only, self.random)
    }
}
