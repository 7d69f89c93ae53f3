//! Thread instructions a second of the kernels in `benches/kernels.cu`, on as many host threads as asked for.
//!
//! `cargo run --release -p r3-emu --example kernels -- [--threads N] [--seconds S] [KERNEL…]`: each kernel runs for S
//! seconds (1 if not said), and one line of JSON says what the fastest of these runs did.

#[path = "../benches/bed/mod.rs"]
mod bed;

use bed::{Bed, kernels};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: kernels [--threads N] [--seconds S] [KERNEL…]";

struct Options {
    threads: usize,
    seconds: f64,
    names: Vec<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        seconds: 1.0,
        names: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<f64, String> {
            let value = arguments.next().unwrap_or_default();
            match value.parse() {
                Ok(number) if number > 0.0 => Ok(number),
                _ => Err(format!("{argument} {value:?}: not a number above 0")),
            }
        };
        match argument.as_str() {
            "--threads" => options.threads = (number()? as usize).max(1),
            "--seconds" => options.seconds = number()?,
            option if option.starts_with('-') => return Err(format!("{option}: no such option")),
            name => options.names.push(name.to_owned()),
        }
    }
    let known = kernels();
    match options
        .names
        .iter()
        .find(|name| known.iter().all(|kernel| kernel.name != name.as_str()))
    {
        Some(name) => Err(format!("{name}: no such kernel")),
        None => Ok(options),
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let bed = Bed::new();
    for kernel in kernels() {
        if !options.names.is_empty() && options.names.iter().all(|name| name != kernel.name) {
            continue;
        }
        let began = Instant::now();
        let mut fastest = Duration::MAX;
        let mut runs = 0;
        let mut instructions = 0;
        // The first run decodes.
        bed.run(&kernel, options.threads);
        while runs < 3 || began.elapsed().as_secs_f64() < options.seconds {
            let start = Instant::now();
            instructions = bed.run(&kernel, options.threads).thread_instructions;
            fastest = fastest.min(start.elapsed());
            runs += 1;
        }
        println!(
            r#"{{"kernel": "{}", "threads": {}, "runs": {runs}, "thread_instructions": {instructions}, "seconds": {:.6}, "thread_instructions_per_second": {:.0}}}"#,
            kernel.name,
            options.threads,
            fastest.as_secs_f64(),
            instructions as f64 / fastest.as_secs_f64(),
        );
    }
    ExitCode::SUCCESS
}
