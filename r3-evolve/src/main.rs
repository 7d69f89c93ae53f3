//! `r3-evolve`: searches for faster forms of captured kernels.

use std::process::ExitCode;

fn main() -> ExitCode {
    r3_evolve::cli::main()
}
