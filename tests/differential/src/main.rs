//! `r3-ptx-differential`: records what kernels give on one device, and compares another device with that.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use r3_codegen::recipe::Preset;
use r3_codegen::worker::{Limits, Pool, WorkerCommand};
use r3_differential::case::Case;
use r3_differential::lifted::{self, Variant, children};
use r3_differential::record::{self, Entry, RecordError};
use r3_differential::{cases, collect, compare, random, report};
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
    /// Compiles the code of the cases anew, and compares what it gives with what it gave before, on one device.
    Lifted {
        #[command(flatten)]
        selection: Selection,
        /// Where they run.
        #[arg(long, value_enum, default_value_t = On::Cpu)]
        device: On,
        #[command(flatten)]
        variants: Variants,
        /// Processes side by side.
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
        processes: u64,
        /// One JSON line a pipeline instead of a table.
        #[arg(long)]
        json: bool,
        /// Print the code of each case that was selected, before and after, and run nothing.
        #[arg(long)]
        show: bool,
    },
    /// Part of `lifted`: a share of the cases.
    #[command(hide = true)]
    LiftedChild {
        #[command(flatten)]
        selection: Selection,
        #[arg(long, value_enum)]
        device: On,
        #[command(flatten)]
        variants: Variants,
        share: usize,
        of: usize,
        first: usize,
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
    /// So many small random programs besides.
    #[arg(long, default_value_t = 0, value_name = "N")]
    small: u64,
}

#[derive(clap::Args, Clone)]
struct Variants {
    /// A pipeline: O0 to O3, Os, Oz, or `random N` [default: O0 and O3].
    #[arg(long = "pipeline", value_name = "NAME", value_parser = variant)]
    pipelines: Vec<Variant>,
    /// Besides, so many random pipelines.
    #[arg(long, default_value_t = 0, value_name = "N")]
    random_pipelines: u64,
    /// Random pipelines for so many of the cases only.
    #[arg(long, value_name = "N")]
    random_cases: Option<usize>,
    /// What another device gave, to compare with what cases give as they are.
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
}

fn variant(name: &str) -> Result<Variant, String> {
    Variant::named(name).ok_or_else(|| "O0 to O3, Os, Oz, or `random N`".to_owned())
}

impl Variants {
    /// Those of a case, by its number among `all`.
    fn of(&self, number: usize, all: usize) -> Vec<Variant> {
        let mut variants = match self.pipelines.as_slice() {
            [] => vec![Variant::preset(Preset::O0), Variant::preset(Preset::O3)],
            given => given.to_vec(),
        };
        let some = self.random_cases.unwrap_or(all).clamp(1, all.max(1));
        // Evenly among the cases: each file has some.
        if number * some / all.max(1) != (number + 1) * some / all.max(1) {
            variants.extend((1..=self.random_pipelines).map(Variant::random));
        }
        variants
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for variant in &self.pipelines {
            arguments.extend(["--pipeline".into(), variant.name.clone()]);
        }
        arguments.extend([
            "--random-pipelines".into(),
            self.random_pipelines.to_string(),
        ]);
        if let Some(cases) = self.random_cases {
            arguments.extend(["--random-cases".into(), cases.to_string()]);
        }
        if let Some(path) = &self.recorded {
            arguments.extend(["--recorded".into(), path.display().to_string()]);
        }
        arguments
    }
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

    fn option(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Cpu => "cpu",
        }
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

/// First argument of this program when it is started to compile.
const WORKER: &str = "compile-worker";

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == WORKER)
    {
        r3_codegen::worker::serve();
    }
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
                    arguments.extend(selection.arguments());
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
        Command::Lifted {
            selection,
            device,
            variants,
            processes,
            json,
            show,
        } => lifted(
            &selection,
            device,
            &variants,
            processes as usize,
            json,
            show,
        ),
        Command::LiftedChild {
            selection,
            device,
            variants,
            share,
            of,
            first,
        } => {
            let cases = selection.cases();
            let numbers: HashMap<&str, usize> = (0..)
                .zip(&cases)
                .map(|(number, case)| (case.name.as_str(), number))
                .collect();
            let recorded = match &variants.recorded {
                Some(path) => record::read(path)?.1,
                None => Vec::new(),
            };
            let recorded: HashMap<&str, &Entry> = recorded
                .iter()
                .map(|entry| (entry.name.as_str(), entry))
                .collect();
            let mut on = device.open()?;
            let pool = pool()?;
            children::child(&children::share(&cases, share, of), first, |case| {
                let number = numbers.get(case.name.as_str()).copied().unwrap_or(0);
                let variants = variants.of(number, cases.len());
                let entry = recorded.get(case.name.as_str()).copied();
                // What is changed is not what was recorded.
                let changed = match device {
                    On::Cuda if case.family() == "random" => lifted::without_open_nans(case),
                    _ => None,
                };
                let entry = entry.filter(|_| changed.is_none());
                let case = changed.as_ref().unwrap_or(case);
                lifted::try_case(on.as_mut(), case, &variants, entry, &|recipe| {
                    pool.compile(recipe)
                })
            })?;
            Ok(ExitCode::SUCCESS)
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

fn pool() -> std::io::Result<Pool> {
    let limits = Limits {
        workers: 1,
        time: Duration::from_secs(30),
        ..Limits::default()
    };
    Ok(Pool::new(WorkerCommand::this_program(WORKER)?, limits))
}

/// All cases in their variants.
fn lifted(
    selection: &Selection,
    device: On,
    variants: &Variants,
    processes: usize,
    json: bool,
    show: bool,
) -> Result<ExitCode, Failure> {
    let cases = selection.cases();
    if show {
        let pool = pool()?;
        for (number, case) in cases.iter().enumerate() {
            println!("// {}\n{}", case.name, case.ptx);
            for variant in variants.of(number, cases.len()) {
                match pool.compile(&lifted::recipe(case, &variant)) {
                    Ok(product) => println!("// {}, {}\n{}", case.name, variant.name, product.ptx),
                    Err(failure) => println!("// {}, {}: {failure}", case.name, variant.name),
                }
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut arguments = vec![
        "lifted-child".to_owned(),
        "--device".to_owned(),
        device.option().to_owned(),
    ];
    arguments.extend(selection.arguments());
    arguments.extend(variants.arguments());
    let tried = children::parent(&arguments, &cases, processes)?;
    let good = report::lifted(device.option(), &tried, json)?;
    Ok(if good && !tried.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Selection {
    fn arguments(&self) -> Vec<String> {
        let only = self.only.iter();
        let mut arguments: Vec<String> = only
            .flat_map(|only| ["--only".into(), only.clone()])
            .collect();
        arguments.extend(["--random".into(), self.random.to_string()]);
        arguments.extend(["--small".into(), self.small.to_string()]);
        arguments
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = cases::all(&self.only, self.random);
        let mut small = random::small(1..=self.small);
        small.retain(|case| {
            self.only.is_empty() || self.only.iter().any(|only| case.name.contains(only))
        });
        cases.extend(small);
        cases
    }
}
