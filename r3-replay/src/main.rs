//! `r3-replay`: looks into archives, captures, replays, verifies and times.

use std::process::ExitCode;

fn main() -> ExitCode {
    r3_replay::cli::main()
}
