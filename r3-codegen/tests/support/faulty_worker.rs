//! A worker that does what it is told in place of compiling: the text of a recipe's code is what is to go wrong.

#![allow(clippy::unwrap_used, reason = "a test that is wrong stops")]

use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use r3_codegen::recipe::{Code, Failure, FailureKind, Product, Recipe, Stage};
use r3_codegen::worker;

fn main() {
    worker::serve_with(misbehave)
}

fn misbehave(recipe: &Recipe, enter: &dyn Fn(Stage)) -> Result<Product, Failure> {
    let Code::Ptx(text) = &recipe.code else {
        return Err(refused("only text".into()));
    };
    enter(Stage::Parse);
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    enter(Stage::Passes);
    let said = match word {
        "echo" => rest.to_owned(),
        "pid" => std::process::id().to_string(),
        "refuse" => return Err(refused(rest.into())),
        "panic" => panic!("{rest}"),
        "exit" => std::process::exit(rest.parse().unwrap_or(1)),
        "abort" => std::process::abort(),
        "segfault" => segfault(),
        "overflow" => deeper(1).to_string(),
        "say-and-abort" => {
            eprintln!("{rest}");
            std::process::abort()
        }
        "hang" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        // A compiler that starts a program and waits for it. Its process number goes to a file.
        "hang-in-program" => {
            let mut program = Command::new("sleep").arg("1000").spawn().unwrap();
            std::fs::write(rest, program.id().to_string()).unwrap();
            program.wait().unwrap();
            String::new()
        }
        "hang-in" => {
            enter(if rest == "assemble" {
                Stage::Assemble
            } else {
                Stage::Emit
            });
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        "slow-stages" => {
            for stage in [Stage::Lift, Stage::Passes, Stage::Emit, Stage::Assemble] {
                enter(stage);
                std::thread::sleep(Duration::from_millis(rest.parse().unwrap_or(0)));
            }
            String::new()
        }
        "allocate" => {
            let mut held: Vec<Vec<u8>> = Vec::new();
            for _ in 0..rest.parse().unwrap_or(0) {
                held.push(vec![1; 1 << 20]);
            }
            held.len().to_string()
        }
        // What a library may do: write to what was standard output.
        "print" => {
            let line = format!("{rest}\n");
            // SAFETY: the bytes are valid for their length.
            unsafe { libc::write(1, line.as_ptr().cast(), line.len()) };
            return Err(refused("see the log".into()));
        }
        "babble" => {
            let line = [b'x'; 4096];
            for _ in 0..rest.parse().unwrap_or(0) {
                _ = std::io::stderr().write_all(&line);
            }
            eprintln!("\nthe end");
            return Err(refused("see the log".into()));
        }
        "read" => {
            let mut all = String::new();
            _ = std::io::stdin().read_to_string(&mut all);
            all
        }
        "environment" => std::env::vars_os()
            .map(|(name, value)| format!("{}={}\n", name.display(), value.display()))
            .collect(),
        "folder" => std::env::current_dir().unwrap().display().to_string(),
        "descriptors" => {
            // Each is looked up while the folder is open, whose own descriptor is gone afterwards.
            let names: Vec<_> = std::fs::read_dir("/proc/thread-self/fd")
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names
                .iter()
                .filter(|name| {
                    std::fs::read_link(std::path::Path::new("/proc/thread-self/fd").join(name))
                        .is_ok()
                })
                .count()
                .to_string()
        }
        "litter" => {
            std::fs::write(std::env::temp_dir().join("litter"), "x").unwrap();
            std::env::temp_dir().display().to_string()
        }
        other => return Err(refused(format!("what is {other}?"))),
    };
    Ok(Product {
        llvm: None,
        ptx: said,
        cubin: None,
        guards: Vec::new(),
        changes: Vec::new(),
        notes: Vec::new(),
        timings: Vec::new(),
    })
}

fn refused(message: String) -> Failure {
    Failure {
        stage: Stage::Passes,
        kind: FailureKind::Refused,
        message,
        log: String::new(),
    }
}

fn segfault() -> ! {
    // SAFETY: there is none. Nothing is mapped at such addresses, so that the system ends this process.
    unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) };
    std::process::exit(0)
}

#[allow(unconditional_recursion, reason = "that is what it is for")]
fn deeper(depth: u64) -> u64 {
    let held = std::hint::black_box([depth; 64]);
    deeper(held[7] + 1) + held[3]
}
