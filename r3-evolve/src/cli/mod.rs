//! The program: arguments in, library called, tables or JSON out.

mod archives;
mod dashboard;
mod diff;
mod evolve;
mod export;
mod going_on;
mod judging;
mod output;
mod report;
mod resume;
mod show;
mod signals;
mod simulate;
mod status;
mod terminal;
mod times;
mod tune;
mod variant;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::evolve::view::is_evolve;
use crate::store::{Phase, Store};
use crate::tune::{Summary, reached};
use output::Output;

/// Searches for faster forms of captured CUDA kernels.
#[derive(Parser)]
#[command(name = "r3-evolve", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tune(Box<tune::Args>),
    Evolve(Box<evolve::Args>),
    Resume(Box<resume::Args>),
    Status(status::Args),
    Report(report::Args),
    Show(show::Args),
    Diff(diff::Args),
    Export(export::Args),
    Simulate(simulate::Args),
}

/// Everything as it should be.
const OK: u8 = 0;
/// Something could not be done.
const FAILED: u8 = 2;
/// Somebody left with a second Ctrl-C.
const LEFT: u8 = 130;

/// Why a command failed. Its text is for the user.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The reader of our output went away. Nobody is left to tell.
    #[error("the reader of the output went away")]
    BrokenPipe,
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(std::io::Error),
    /// Somebody left.
    #[error("{0}")]
    Left(String),
    /// Anything else.
    #[error("{0}")]
    Message(String),
}

impl Failure {
    fn new(error: impl std::fmt::Display) -> Self {
        Self::Message(error.to_string())
    }
}

/// What is said of a run that has no end yet.
fn unfinished(store: &Store) -> Result<String, Failure> {
    let (phase, _): (Phase, Option<Summary>) = reached(store).map_err(Failure::new)?;
    let over_source = is_evolve(store).map_err(Failure::new)?;
    Ok(format!(
        "the run is not at its end (phase {}): `r3-evolve {} {}` goes on, unless somebody works on it already",
        phase.word(),
        if over_source {
            "resume"
        } else {
            "tune --resume --run"
        },
        store.folder().display()
    ))
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
        Command::Tune(args) => tune::run(args, &mut out),
        Command::Evolve(args) => evolve::run(args, &mut out),
        Command::Resume(args) => resume::run(args, &mut out),
        Command::Status(args) => status::run(args, &mut out),
        Command::Report(args) => report::run(args, &mut out),
        Command::Show(args) => show::run(args, &mut out),
        Command::Diff(args) => diff::run(args, &mut out),
        Command::Export(args) => export::run(args, &mut out),
        Command::Simulate(args) => simulate::run(args, &mut out),
    };
    match result.and_then(|()| out.flush()) {
        Ok(()) | Err(Failure::BrokenPipe) => ExitCode::from(OK),
        Err(failure) => {
            output::complain(&failure.to_string());
            ExitCode::from(match failure {
                Failure::Left(_) => LEFT,
                _ => FAILED,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Options of one command that are put together from several places must not get into each other's way.
    #[test]
    fn the_command_line_holds_together() {
        super::Cli::command().debug_assert();
    }
}
