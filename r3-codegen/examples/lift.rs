//! Lifts PTX files, lets LLVM verify and print them, reads the result, and gives it to an assembler if one is named.
//!
//! `cargo run --release -p r3-codegen --example lift -- [--ptxas PATH] [--passes O3|…] [--level 0…3] [--out FOLDER] [--time]
//! [--forms] [--repeat N] [--keep-guards] FILES…`
//!
//! `--repeat` only lifts, so many times, and tells the least processor time. `--forms` takes a kernel for each form of the table of instructions instead of files, `--lowest` for the first target and
//! version that have it. The end of the output counts what went wrong, by kind.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use inkwell::context::Context;
use r3_codegen::lift::{Options, lift};
use r3_codegen::recipe::Pipeline;
use r3_codegen::{emit, passes};
use r3_ptx::generate;
use r3_ptx::isa::{Form, Forms};

struct Arguments {
    ptxas: Option<PathBuf>,
    pipeline: Pipeline,
    level: u8,
    out: Option<PathBuf>,
    time: bool,
    forms: bool,
    lowest: bool,
    keep_guards: bool,
    only: Option<String>,
    repeat: Option<usize>,
    files: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        ptxas: None,
        pipeline: Pipeline::Nothing,
        level: 3,
        out: None,
        time: false,
        forms: false,
        lowest: false,
        keep_guards: false,
        only: None,
        repeat: None,
        files: Vec::new(),
    };
    let mut list = std::env::args().skip(1);
    while let Some(argument) = list.next() {
        let mut value = || list.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--ptxas" => parsed.ptxas = Some(value()?.into()),
            "--passes" => parsed.pipeline = Pipeline::Text(value()?),
            "--level" => parsed.level = value()?.parse().map_err(|e| format!("--level: {e}"))?,
            "--out" => parsed.out = Some(value()?.into()),
            "--time" => parsed.time = true,
            "--forms" => parsed.forms = true,
            "--keep-guards" => parsed.keep_guards = true,
            "--lowest" => parsed.lowest = true,
            "--repeat" => {
                parsed.repeat = Some(value()?.parse().map_err(|e| format!("--repeat: {e}"))?);
            }
            "--only" => parsed.only = Some(value()?),
            _ if argument.starts_with("--") => return Err(format!("unknown option {argument}")),
            _ => parsed.files.push(argument.into()),
        }
    }
    Ok(parsed)
}

#[derive(Default)]
struct Totals {
    lines: usize,
    lifting: Duration,
    natively: u64,
    assembly: BTreeMap<String, u64>,
    failures: BTreeMap<String, (u64, String)>,
    files: usize,
    fine: usize,
}

impl Totals {
    fn fail(&mut self, kind: String, example: &str) {
        let entry = self.failures.entry(kind).or_default();
        entry.0 += 1;
        if entry.1.is_empty() {
            entry.1 = example.to_owned();
        }
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut totals = Totals::default();
    if arguments.forms {
        for form in Forms::table().all() {
            let only = arguments.only.as_deref();
            if only.is_none_or(|only| form.text.starts_with(only)) {
                let examples = generate::examples(form);
                let texts: Vec<_> = examples.iter().map(|e| e.text.as_str()).collect();
                // All together; one by one where that does not work.
                let together = kernel(form, &texts, arguments.lowest);
                if process(&form.text, &together, &arguments, &mut totals, true).is_ok() {
                    totals.files += 1;
                    totals.fine += 1;
                    continue;
                }
                for text in texts {
                    let name = format!("{}: {text}", form.text);
                    one(
                        &name,
                        &kernel(form, &[text], arguments.lowest),
                        &arguments,
                        &mut totals,
                    );
                }
            }
        }
    }
    for path in &arguments.files {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => one(&name, &text, &arguments, &mut totals),
            Err(error) => totals.fail(format!("reading: {error}"), &name),
        }
    }
    let Totals {
        lines,
        lifting,
        natively,
        ..
    } = totals;
    println!("{} of {} fine", totals.fine, totals.files);
    let speed = lines as f64 / lifting.as_secs_f64().max(1e-9);
    println!("{lines} lines in {lifting:?}: {speed:.0} lines/s");
    let mut assembly: Vec<_> = totals.assembly.iter().collect();
    assembly.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let inline: u64 = assembly.iter().map(|(_, count)| **count).sum();
    println!("{natively} natively, {inline} as assembly");
    for (mnemonic, count) in assembly.iter().take(40) {
        println!("    {count} {mnemonic}");
    }
    for (kind, (count, example)) in &totals.failures {
        println!("{count} × {kind}\n    first: {example}");
    }
    match totals.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// A kernel with instructions of a form.
fn kernel(form: &Form, instructions: &[&str], lowest: bool) -> String {
    if lowest {
        let target = form.sm.map_or("sm_50".to_owned(), |sm| sm.to_string());
        let least = passes::least_ptx_version(&target).unwrap_or((7, 0));
        let ptx = form.ptx.map_or((6, 0), |(a, b)| (a.into(), b.into()));
        let (major, minor) = least.max(ptx);
        return generate::module(&format!("{major}.{minor}"), &target, instructions).0;
    }
    let target = match form.sm.map(|sm| sm.number) {
        Some(101..=119) => "sm_103a",
        Some(120..) => "sm_120a",
        Some(100) => "sm_100a",
        _ => "sm_90a",
    };
    let (major, minor) = form.ptx.unwrap_or((9, 0)).max((9, 0));
    generate::module(&format!("{major}.{minor}"), target, instructions).0
}

/// What this thread has used of a processor.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn one(name: &str, text: &str, arguments: &Arguments, totals: &mut Totals) {
    totals.files += 1;
    match process(name, text, arguments, totals, false) {
        Ok(()) => totals.fine += 1,
        Err((kind, what)) => totals.fail(kind, &format!("{name}: {what}")),
    }
}

type Failed = (String, String);

fn process(
    name: &str,
    text: &str,
    arguments: &Arguments,
    totals: &mut Totals,
    together: bool,
) -> Result<(), Failed> {
    let tree = r3_ptx::parse(text).map_err(|e| ("input".to_owned(), e.render(text)))?;
    let module = r3_ptx::check(&tree).map_err(|e| ("input".to_owned(), e.render(text)))?;
    let context = Context::create();
    let options = Options {
        kernel: None,
        keep_nounroll: true,
        keep_calls: true,
        keep_guards: arguments.keep_guards,
    };
    if let Some(times) = arguments.repeat {
        let mut least = Duration::MAX;
        for _ in 0..times {
            let context = Context::create();
            let before = processor_time();
            let lifted = lift(&context, &module, &options);
            least = least.min(processor_time().saturating_sub(before));
            lifted.map_err(|e| ("lift".to_owned(), e.to_string()))?;
        }
        totals.lines += text.lines().count();
        totals.lifting += least;
        return Ok(());
    }
    let before = Instant::now();
    let lifted = lift(&context, &module, &options);
    let took = before.elapsed();
    let lifted = lifted.map_err(|e| ("lift".to_owned(), e.to_string()))?;
    let lines = text.lines().count();
    totals.lines += lines;
    totals.lifting += took;
    if arguments.time {
        println!("{lines} lines {took:?} {name}");
    }
    totals.natively += lifted.natively;
    for (mnemonic, count) in &lifted.assembly {
        *totals.assembly.entry(mnemonic.clone()).or_default() += count;
    }
    for (function, reason) in &lifted.verbatim {
        let kind = reason.split('`').nth(2).unwrap_or(reason);
        totals.fail(
            format!("verbatim{kind}"),
            &format!("{name}: {function}: {reason}"),
        );
    }
    if let Err(message) = lifted.module.verify() {
        if let Some(out) = &arguments.out {
            _ = lifted.module.print_to_file(out.join("bad.ll"));
        }
        return Err(("verifier".into(), message.to_string()));
    }
    let cpu = module.target.first().map_or("sm_90", String::as_str);
    let version = passes::ptx_version_for(cpu, module.version)
        .map_err(|e| ("version".to_owned(), e.to_string()))?;
    let machine = passes::machine(cpu, version, arguments.level)
        .map_err(|e| ("machine".to_owned(), e.to_string()))?;
    passes::prepare(&lifted.module, &machine);
    passes::run(&lifted.module, &arguments.pipeline, &machine)
        .map_err(|e| ("passes".to_owned(), e.to_string()))?;
    passes::fence_contraction(&lifted.module).map_err(|e| ("fence".to_owned(), e.to_string()))?;
    if let Some(out) = &arguments.out {
        _ = lifted.module.print_to_file(out.join("last.ll"));
    }
    let printed = emit::emit(&lifted, &machine, &tree, &module, &emit::Options::default())
        .map_err(|e| ("emit".to_owned(), e.to_string()))?;
    let stem = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let folder = arguments.out.clone().unwrap_or_else(std::env::temp_dir);
    let path = folder.join(match arguments.files.is_empty() {
        true => format!("lifted-{}.ptx", std::process::id()),
        false => format!("{stem}.ptx"),
    });
    if arguments.out.is_some() || arguments.ptxas.is_some() {
        std::fs::write(&path, &printed).map_err(|e| ("writing".to_owned(), e.to_string()))?;
    }
    let again = r3_ptx::parse(&printed).map_err(|e| ("output".to_owned(), e.render(&printed)))?;
    r3_ptx::check(&again).map_err(|e| ("output".to_owned(), e.render(&printed)))?;
    let Some(ptxas) = &arguments.ptxas else {
        return Ok(());
    };
    let assemble = |path: &std::path::Path| {
        let output = Command::new(ptxas)
            .arg(format!("-arch={cpu}"))
            .args(["-c", "-O1", "-o", "/dev/null"])
            .arg(path)
            .output()
            .map_err(|e| ("ptxas".to_owned(), e.to_string()))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let log = String::from_utf8_lossy(&output.stderr).into_owned();
                let line = log.lines().next().unwrap_or_default().to_owned();
                Err(("ptxas".to_owned(), line))
            }
        }
    };
    if let Err(error) = assemble(&path) {
        let original = folder.join(format!("original-{}.ptx", std::process::id()));
        std::fs::write(&original, text).map_err(|e| ("writing".to_owned(), e.to_string()))?;
        let refused = assemble(&original).is_err();
        _ = std::fs::remove_file(&original);
        return match refused {
            // Of several instructions it may be another that is refused in the original, too.
            true if together => Err(error),
            true => Ok(()),
            false => Err(error),
        };
    }
    if arguments.out.is_none() {
        _ = std::fs::remove_file(&path);
    }
    Ok(())
}
