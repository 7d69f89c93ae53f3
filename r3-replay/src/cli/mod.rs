//! The program: arguments in, library called, tables or JSON out.

mod attach;
mod bench;
mod capture;
mod convert;
mod device;
mod device_check;
mod doctor;
mod evaluate;
mod evaluator;
mod extract;
mod fsck;
mod info;
mod ls;
mod noise;
mod output;
mod private_file;
mod remix;
mod resume;
mod run;
mod select;
mod selftest;
mod serve;
mod show;
mod status;
mod trim;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use output::Output;

/// Captures CUDA launches, replays them without the application, and checks every byte.
#[derive(Parser)]
#[command(name = "r3-replay", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Info(info::Args),
    Ls(ls::Args),
    Show(show::Args),
    Verify(verify::Args),
    Run(run::Args),
    Bench(bench::Args),
    Noise(noise::Args),
    Extract(extract::Args),
    Attach(attach::Args),
    Trim(trim::TrimArgs),
    Merge(trim::MergeArgs),
    Remix(remix::Args),
    Evaluate(evaluate::Args),
    Doctor(doctor::Args),
    Fsck(fsck::Args),
    Convert(convert::Args),
    #[command(hide = true)]
    DeviceCheck(device_check::Args),
    Serve(serve::Args),
    Status(status::Args),
    Capture(capture::Args),
    Selftest(selftest::Args),
}

/// Everything as it should be.
const OK: u8 = 0;
/// Something was found different, or damaged.
const DIFFERENT: u8 = 1;
/// Something could not be done.
const FAILED: u8 = 2;

/// Nothing was found wrong, but not all of it could be looked at: this kind of device cannot.
const NOT_HERE: u8 = 3;

/// Why a command failed. Its text is for the user; what is worth distinguishing was told apart
/// before.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The reader of our output went away. Nobody is left to tell.
    #[error("the reader of the output went away")]
    BrokenPipe,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// Anything else.
    #[error("{0}")]
    Message(String),
}

impl Failure {
    fn new(error: impl std::fmt::Display) -> Self {
        Self::Message(error.to_string())
    }
}

/// Parses the command line and does what it says.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no failure.
            let code = if error.use_stderr() { FAILED } else { OK };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut out = Output::new();
    let result = match &cli.command {
        Command::Info(args) => info::run(args, &mut out),
        Command::Ls(args) => ls::run(args, &mut out),
        Command::Show(args) => show::run(args, &mut out),
        Command::Verify(args) => verify::run(args, &mut out),
        Command::Run(args) => run::run(args, &mut out),
        Command::Bench(args) => bench::run(args, &mut out),
        Command::Noise(args) => noise::run(args, &mut out),
        Command::Extract(args) => extract::run(args, &mut out),
        Command::Attach(args) => attach::run(args, &mut out),
        Command::Trim(args) => trim::trim(args, &mut out),
        Command::Merge(args) => trim::merge(args, &mut out),
        Command::Remix(args) => remix::run(args, &mut out),
        Command::Evaluate(args) => evaluate::run(args, &mut out),
        Command::Doctor(args) => doctor::run(args, &mut out),
        Command::Fsck(args) => fsck::run(args, &mut out),
        Command::Convert(args) => convert::run(args, &mut out),
        Command::DeviceCheck(args) => device_check::run(args, &mut out),
        Command::Serve(args) => serve::run(args, &mut out),
        Command::Status(args) => status::run(args, &mut out),
        Command::Selftest(args) => selftest::run(args, &mut out),
        Command::Capture(args) => capture::run(args),
    };
    match result.and_then(|code| out.flush().map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        Err(Failure::BrokenPipe) => ExitCode::from(OK),
        Err(failure) => {
            output::complain(&failure.to_string());
            ExitCode::from(FAILED)
        }
    }
}
