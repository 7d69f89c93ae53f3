//! Checks PTX files: prints what is wrong with each.
//!
//! `cargo run --release -p r3-ptx --example check -- a.ptx b.ptx …`

use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let (mut bad, mut bytes, mut parsing, mut checking) = (0, 0, Duration::ZERO, Duration::ZERO);
    let mut files = 0u32;
    for path in std::env::args().skip(1) {
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("{path}: cannot be read as text");
            bad += 1;
            continue;
        };
        files += 1;
        bytes += text.len();
        let start = Instant::now();
        let tree = r3_ptx::parse(&text);
        parsing += start.elapsed();
        let start = Instant::now();
        let checked = tree.and_then(|tree| r3_ptx::check(&tree));
        checking += start.elapsed();
        if let Err(errors) = checked {
            bad += 1;
            println!("== {path}\n{}", errors.render(&text));
        }
    }
    let rate = |time: Duration| bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9);
    println!(
        "{files} files, {bad} with errors, {bytes} bytes; parsed at {:.0} MB/s, checked at {:.0} MB/s",
        rate(parsing),
        rate(checking)
    );
    ExitCode::from(u8::from(bad > 0))
}
