//! The table of forms, tried.
//!
//! `cargo run -p r3-ptx --example forms` prints an instruction for each modifier of each form.
//! `… --example forms -- --ptxas /path/ptxas --version 9.0` gives them to an assembler, a kernel a form, and
//! tells which it refuses, with its message.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use r3_ptx::generate::{Example, examples, module};
use r3_ptx::isa::{Form, Forms};

struct Options {
    ptxas: Option<PathBuf>,
    version: String,
    /// Target for forms of each kind of requirement: plain, Blackwell data centre, consumer.
    only: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        ptxas: None,
        version: "9.0".into(),
        only: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--ptxas" => options.ptxas = Some(value()?.into()),
            "--version" => options.version = value()?,
            "--only" => options.only = Some(value()?),
            _ => return Err(format!("unknown option {argument}")),
        }
    }
    Ok(options)
}

/// The target on which a form is tried.
fn target(form: &Form) -> &'static str {
    match form.sm.map(|sm| sm.number) {
        Some(101..=119) => "sm_103a",
        Some(120..) => "sm_120a",
        Some(100) => "sm_100a",
        _ => "sm_90a",
    }
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let forms = Forms::table().all().iter();
    let chosen = |form: &&Form| {
        let only = options.only.as_deref();
        only.is_none_or(|only| form.text.starts_with(only))
    };
    let mut counts = BTreeMap::new();
    for form in forms.filter(chosen) {
        let list = examples(form);
        let Some(ptxas) = &options.ptxas else {
            println!("{}", form.text);
            for example in &list {
                println!("    {}", example.text);
            }
            continue;
        };
        let later = form.ptx.is_some_and(|(a, b)| {
            let version = options.version.split_once('.');
            let version = version.and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
            version.is_some_and(|version: (u8, u8)| (a, b) > version)
        });
        if later {
            *counts.entry("forms of later versions").or_insert(0) += 1;
            continue;
        }
        let refused = assemble(ptxas, &options.version, target(form), &list);
        let kind = match (refused.len(), list.len()) {
            (0, _) => "forms accepted whole",
            (n, m) if n == m => "forms refused whole",
            _ => "forms refused in part",
        };
        *counts.entry(kind).or_insert(0) += 1;
        *counts.entry("instructions accepted").or_insert(0) += list.len() - refused.len();
        *counts.entry("instructions refused").or_insert(0) += refused.len();
        if !refused.is_empty() {
            println!("{kind}: {} ({})", form.text, target(form));
        }
        for (example, message) in refused {
            println!("    {}    ## {}: {message}", example.text, example.tries);
        }
    }
    for (kind, count) in counts {
        println!("{count:6} {kind}");
    }
    ExitCode::SUCCESS
}

/// Gives instructions to the assembler until it takes what is left. Returns those refused.
fn assemble<'a>(
    ptxas: &Path,
    version: &str,
    target: &str,
    list: &'a [Example],
) -> Vec<(&'a Example, String)> {
    let mut left: Vec<&Example> = list.iter().collect();
    let mut refused = Vec::new();
    let file = std::env::temp_dir().join(format!("r3-forms-{}.ptx", std::process::id()));
    while !left.is_empty() {
        let texts: Vec<&str> = left.iter().map(|example| example.text.as_str()).collect();
        let (text, first) = module(version, target, &texts);
        if std::fs::write(&file, text).is_err() {
            eprintln!("{}: cannot be written", file.display());
            break;
        }
        let run = Command::new(ptxas)
            .args(["-O0", "-arch", target, "-o", "/dev/null"])
            .arg(&file)
            .output();
        let Ok(run) = run else {
            eprintln!("{}: cannot be run", ptxas.display());
            break;
        };
        if run.status.success() {
            break;
        }
        let messages = String::from_utf8_lossy(&run.stderr).into_owned();
        let mut found: BTreeMap<usize, String> = BTreeMap::new();
        for message in messages.lines() {
            let Some((line, what)) = message
                .split_once(", line ")
                .and_then(|(_, rest)| rest.split_once(';'))
            else {
                continue;
            };
            if !what.contains("error") && !what.contains("fatal") {
                continue;
            }
            if let Some(at) = line
                .parse()
                .ok()
                .and_then(|line: usize| line.checked_sub(first as usize))
            {
                found.entry(at).or_insert_with(|| what.trim().to_owned());
            }
        }
        if found.keys().all(|&at| at >= left.len()) {
            // The message names no line of ours: they may be refused together only.
            let all = std::mem::take(&mut left);
            if let [only] = all.as_slice() {
                let errors = messages.lines().find(|line| line.contains("error"));
                refused.push((*only, errors.unwrap_or("killed").to_owned()));
                continue;
            }
            for example in all {
                refused.extend(assemble(
                    ptxas,
                    version,
                    target,
                    std::slice::from_ref(example),
                ));
            }
            continue;
        }
        let mut i = 0;
        left.retain(|example| {
            i += 1;
            let message = found.remove(&(i - 1));
            refused.extend(message.map(|message| (*example, message)));
            !refused
                .last()
                .is_some_and(|(refused, _)| std::ptr::eq(*refused, *example))
        });
    }
    _ = std::fs::remove_file(&file);
    refused
}
