//! `r3-replay`: looks into archives, captures, replays, verifies, times, and compiles kernels anew.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A worker of a compilation: this program, started by itself. Nothing comes before it.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == r3_replay::remix::WORKER)
    {
        r3_codegen::worker::serve();
    }
    r3_replay::cli::main()
}
