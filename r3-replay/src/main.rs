//! `r3-replay`: looks into archives, captures, replays, verifies, times, and compiles kernels anew.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A worker of a compilation or of a device: this program, started by itself. Nothing comes before it.
    if let Some(first) = std::env::args_os().nth(1) {
        if first == r3_replay::remix::WORKER {
            r3_codegen::worker::serve();
        }
        if first == r3_replay::evaluate::worker::DEVICE_WORKER {
            r3_replay::evaluate::worker::serve();
        }
    }
    r3_replay::cli::main()
}
