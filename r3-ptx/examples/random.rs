//! Writes random kernels as files.
//!
//! `cargo run -p r3-ptx --example random -- DIRECTORY FIRST COUNT`

use std::path::Path;
use std::process::ExitCode;

use r3_ptx::generate::{Options, kernel};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, first, count] = arguments.as_slice() else {
        eprintln!("random DIRECTORY FIRST COUNT");
        return ExitCode::from(2);
    };
    let (Ok(first), Ok(count)) = (first.parse::<u64>(), count.parse::<u64>()) else {
        eprintln!("FIRST and COUNT are numbers");
        return ExitCode::from(2);
    };
    for seed in first..first.saturating_add(count) {
        let made = kernel(seed, &Options::default());
        let path = Path::new(directory).join(format!("random-{seed}.ptx"));
        if let Err(error) = std::fs::write(&path, made.text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
