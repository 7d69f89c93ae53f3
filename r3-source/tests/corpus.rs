//! What must hold for sources of any kind: every file of a folder is parsed, its kernels found, and every rewrite made.
//!
//! `R3_CORPUS` names the folder, `R3_CORPUS_KERNELS` the most kernels of a file (4), `R3_CORPUS_SITES` the most sites of an
//! operator for each of them (2), `R3_CORPUS_ONLY` a part of the paths that are taken. `cargo test --profile quick -p r3-source --test corpus -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use r3_source::device_part::{device_part, has_unmarked_functions};
use r3_source::directive;
use r3_source::region::{self, RegionError, Regions};
use r3_source::rewrite::{self, Facts, Known, RewriteError, Scene};
use r3_source::syntax::{Function, Unit};
use r3_source::tokens::tokens;

/// What came of the files so far.
#[derive(Default)]
struct Told {
    files: usize,
    not_utf8: usize,
    unparsable: Vec<String>,
    with_errors: usize,
    found: usize,
    plain: usize,
    in_macros: usize,
    missed: Vec<String>,
    several: usize,
    sites: BTreeMap<String, usize>,
    refused: BTreeMap<String, Vec<String>>,
    failures: Vec<String>,
    times: Vec<(Duration, String)>,
}

#[test]
#[ignore = "needs a folder with sources: R3_CORPUS names it"]
fn sources_of_others_are_taken() {
    let folder = std::env::var_os("R3_CORPUS").expect("R3_CORPUS names a folder with sources");
    let only = std::env::var("R3_CORPUS_ONLY").unwrap_or_default();
    let mut files = Vec::new();
    sources(Path::new(&folder), &mut files);
    files.retain(|file| file.to_string_lossy().contains(&only));
    files.sort();
    let mut seen = std::collections::HashSet::new();
    let mut told = Told::default();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        if !seen.insert(bytes.clone()) {
            continue;
        }
        let name = file.strip_prefix(&folder).unwrap().display().to_string();
        let text = String::from_utf8(bytes).unwrap_or_else(|error| {
            told.not_utf8 += 1;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        });
        let began = Instant::now();
        let look = AssertUnwindSafe(|| look(&name, &text, &mut told));
        if std::panic::catch_unwind(look).is_err() {
            told.failures.push(format!("{name}: panicked"));
        }
        told.files += 1;
        if began.elapsed() > Duration::from_secs(20) {
            println!("{:.0} s: {name}", began.elapsed().as_secs_f64());
        }
        told.times.push((began.elapsed(), name));
    }
    tell(&mut told);
    assert!(told.files > 0, "no sources in {}", folder.display());
    assert!(told.failures.is_empty(), "{} failures", told.failures.len());
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path
            .extension()
            .is_some_and(|end| end == "cu" || end == "cuh")
        {
            into.push(path);
        }
    }
}

fn most(variable: &str, otherwise: usize) -> usize {
    let said = std::env::var(variable).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(otherwise)
}

fn look(name: &str, text: &str, told: &mut Told) {
    let (plain, in_macros) = definitions(text);
    told.plain += plain;
    told.in_macros += in_macros;
    let unit = match Unit::parse(text) {
        Ok(unit) => unit,
        Err(error) => {
            told.unparsable.push(format!("{name}: {error}"));
            return;
        }
    };
    told.with_errors += usize::from(unit.errors() > 0);
    let kernels: Vec<Function> = unit.functions().into_iter().filter(|f| f.kernel).collect();
    told.found += kernels.len();
    if kernels.len() != plain {
        told.missed
            .push(format!("{name}: {} of {plain}", kernels.len()));
    }
    let part = device_part(&unit);
    if part.matches('\n').count() != text.matches('\n').count() {
        told.failures
            .push(format!("{name}: device_part moves lines"));
    }
    if part.matches("__global__").count() != text.matches("__global__").count() {
        let said = format!("{name}: device_part drops `__global__`");
        told.refused
            .entry("device part".to_owned())
            .or_default()
            .push(said);
    }
    let _ = has_unmarked_functions(&unit);
    let _ = Unit::parse(&part);
    for kernel in kernels.iter().take(most("R3_CORPUS_KERNELS", 4)) {
        let at = format!("{name}:{}", region::line_of(text, kernel.definition.start));
        let regions = match Regions::of(&unit, &kernel.name, Some(kernel.parameters.len())) {
            Ok(regions) => regions,
            Err(RegionError::Several { .. }) => {
                told.several += 1;
                continue;
            }
            Err(error) => {
                told.failures.push(format!("{at}: {error}"));
                continue;
            }
        };
        match region::marked(&unit, &kernel.name, Some(kernel.parameters.len())) {
            Ok((with, same)) => {
                if Regions::of_marks(&with).ok().flatten() != Some(same) {
                    told.failures.push(format!("{at}: marks are not read back"));
                }
                if Unit::parse(&with).is_ok_and(|with| with.errors() > unit.errors()) {
                    told.failures.push(format!("{at}: marks break the text"));
                }
            }
            Err(error) => told.failures.push(format!("{at}: {error}")),
        }
        rewrites(&at, &unit, kernel, &regions, told);
    }
}

fn rewrites(at: &str, unit: &Unit, kernel: &Function, regions: &Regions, told: &mut Told) {
    let most = most("R3_CORPUS_SITES", 2);
    let facts = facts(kernel);
    let scene = Scene {
        unit,
        kernel,
        spans: regions.spans(),
        facts: &facts,
    };
    let sites = rewrite::all_sites(&scene);
    if rewrite::all_sites(&scene) != sites {
        told.failures
            .push(format!("{at}: other sites the second time"));
    }
    let mut tried: BTreeMap<&str, usize> = BTreeMap::new();
    for site in &sites {
        *told.sites.entry(site.operator.clone()).or_default() += 1;
        let tried = tried.entry(&site.operator).or_default();
        *tried += 1;
        if *tried > most {
            continue;
        }
        let said = format!("{at}: {} [{}] {}", site.operator, site.choice, site.what);
        let done = match rewrite::apply(&scene, site) {
            Ok(done) => done,
            Err(RewriteError::Broken { operator }) => {
                told.refused.entry(operator).or_default().push(said);
                continue;
            }
            Err(error) => {
                told.failures.push(format!("{said}: {error}"));
                continue;
            }
        };
        if *tried == 1 && rewrite::apply(&scene, site).as_ref() != Ok(&done) {
            told.failures
                .push(format!("{said}: another text the second time"));
        }
        if done.text == unit.text() {
            told.failures.push(format!("{said}: nothing is changed"));
        }
        if !keeps_outside(unit.text(), &done.text, regions.spans()) {
            told.failures
                .push(format!("{said}: changes more than the region"));
        }
        if done.directive.is_some() && directive::read(&done.text) != Ok(done.directive) {
            told.failures
                .push(format!("{said}: the launch is not read back"));
        }
        match Unit::parse(&done.text) {
            Ok(after) => {
                if after.errors() > unit.errors() {
                    told.failures
                        .push(format!("{said}: does not parse any more"));
                }
                let kernels = |unit: &Unit| unit.functions().iter().filter(|f| f.kernel).count();
                if kernels(&after) != kernels(unit) {
                    told.failures
                        .push(format!("{said}: another number of kernels"));
                }
            }
            Err(error) => told.failures.push(format!("{said}: {error}")),
        }
    }
}

/// Each pointer leads to memory of its own, and numbers are not known.
fn facts(kernel: &Function) -> Facts {
    let parameters = kernel.parameters.iter().zip(1..);
    let known = parameters.map(|(parameter, number)| match parameter.ty.contains('*') {
        true => Known::Pointer {
            alignment: 256,
            bytes: 1 << 20,
            allocation: number,
        },
        false if parameter.ty.contains("int") => Known::Integer(4096),
        false => Known::Unknown,
    });
    Facts {
        block: Some([256, 1, 1]),
        grid: Some([64, 1, 1]),
        parameters: known.collect(),
        tolerant: true,
        sm: 90,
    }
}

fn keeps_outside(before: &str, after: &str, spans: &[Range<usize>]) -> bool {
    let mut at = 0;
    let mut from = 0;
    for (number, span) in spans.iter().enumerate() {
        let gap = &before[from..span.start];
        let found = match number {
            0 => after.starts_with(gap).then_some(0),
            _ => after[at..].find(gap),
        };
        match found {
            Some(place) => at += place + gap.len(),
            None => return false,
        }
        from = span.end;
    }
    after[at..].ends_with(&before[from..])
}

/// How many definitions begin with `__global__`, by the tokens alone: in the text, and in macros.
fn definitions(text: &str) -> (usize, usize) {
    let (mut plain, mut in_macros) = (0, 0);
    let tokens = tokens(text);
    let mut define = false;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "\n" => define = false,
            "#" => define = true,
            "__global__" => {
                let mut depth = 0;
                let body = tokens[at..].iter().find_map(|token| match *token {
                    "(" => {
                        depth += 1;
                        None
                    }
                    ")" => {
                        depth -= 1;
                        None
                    }
                    ";" | "}" if depth == 0 => Some(false),
                    "{" if depth == 0 => Some(true),
                    _ => None,
                });
                match (body, define) {
                    (_, true) => in_macros += 1,
                    (Some(true), false) => plain += 1,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    (plain, in_macros)
}

fn tell(told: &mut Told) {
    let row = |name: &str, value: usize| println!("| {name} | {value} |");
    println!("\n| | |\n|---|---|");
    row("files", told.files);
    row("not UTF-8", told.not_utf8);
    row("not parsed", told.unparsable.len());
    row(
        "with places that the parser can make nothing of",
        told.with_errors,
    );
    row("kernels by a count of the words", told.plain);
    row("`__global__` in macros", told.in_macros);
    row("kernels found", told.found);
    row("files with another number", told.missed.len());
    row("kernels that share name and parameters", told.several);
    for operator in rewrite::all() {
        let name = operator.name();
        let refused = told.refused.get(name).map_or(0, Vec::len);
        let sites = told.sites.get(name).copied().unwrap_or_default();
        println!("| sites of {name} | {sites} ({refused} refused) |");
    }
    row("failures", told.failures.len());
    println!("\nnot parsed:\n{}", told.unparsable.join("\n"));
    println!("\nother numbers of kernels:\n{}", told.missed.join("\n"));
    for (operator, refused) in &told.refused {
        println!("\nrefused, {operator}:\n{}", refused.join("\n"));
    }
    println!("\nfailures:\n{}", told.failures.join("\n"));
    told.times.sort();
    println!("\nslowest:");
    for (time, name) in told.times.iter().rev().take(12) {
        println!("{:8.3} s  {name}", time.as_secs_f64());
    }
}
