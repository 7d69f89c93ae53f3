//! Rewritten samples are compiled and run on the CPU device with what a GPU's launches had, by the program that `R3_REPLAY` names.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use r3_source::directive::{Directive, GridWish};
use r3_source::rewrite::{self, Scene};
use r3_source::syntax::Unit;
use serde_json::{Value, json};

use crate::samples::{self, root};

/// So many sites of each operator for each kernel.
const MOST: usize = 3;

fn launch(directive: Option<&Directive>) -> Value {
    let Some(directive) = directive else {
        return json!({});
    };
    let grid: Vec<Value> = directive
        .grid
        .iter()
        .map(|wish| match wish {
            GridWish::Cover => json!("cover"),
            GridWish::Same => json!("same"),
            GridWish::Blocks(blocks) => json!({ "blocks": blocks }),
            GridWish::Scale(times, by) => json!({ "scale": [times, by] }),
        })
        .collect();
    json!({ "block": directive.block, "grid": grid })
}

fn verdicts(program: &Path, archive: &Path, kernel: &str, lines: &str) -> BTreeMap<String, Value> {
    let mut child = Command::new(program)
        .arg("evaluate")
        .arg(archive)
        .args([
            "--device",
            "cpu",
            "--plan",
            "judge",
            "--json",
            "--candidates",
            "-",
            "--kernel",
            kernel,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = lines.to_owned();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|value| Some((value.get("label")?.as_str()?.to_owned(), value)))
        .collect()
}

#[test]
#[ignore = "long, and needs a program: R3_REPLAY names it"]
fn exact_rewrites_give_the_same_bytes_on_the_cpu_device() {
    let program = std::env::var_os("R3_REPLAY").expect("R3_REPLAY names the program");
    let only = std::env::var("R3_REWRITE").unwrap_or_default();
    let folder = root().join("capture-samples");
    let header = std::fs::read_to_string(folder.join("programs/sample.h")).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for sample in samples::archived() {
        let unit = Unit::parse(&sample.text).unwrap();
        let kernel = unit.kernel(sample.kernel).unwrap();
        let spans = samples::spans(&unit, &kernel);
        let scene = Scene {
            unit: &unit,
            kernel: &kernel,
            spans: &spans,
            facts: &sample.facts,
        };
        let candidate = |label: &str, text: &str, directive: Option<&Directive>| {
            let source =
                json!({ "text": text, "options": ["-O3"], "headers": [["sample.h", header]] });
            let candidate = json!({ "code": { "source": source }, "launch": launch(directive) });
            json!({ "label": label, "candidate": candidate }).to_string() + "\n"
        };
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut lines = candidate("original", &sample.text, None);
        for (number, site) in rewrite::all_sites(&scene).iter().enumerate() {
            let count = seen.entry(site.operator.clone()).or_insert(0);
            *count += 1;
            if !site.operator.contains(&only) || *count > MOST {
                continue;
            }
            let done = rewrite::apply(&scene, site).unwrap();
            let exact = rewrite::operator(&site.operator).unwrap().exact();
            let label = format!(
                "{} {} {} {}",
                if exact { "exact" } else { "inexact" },
                site.operator,
                site.choice,
                number
            );
            lines += &candidate(&label, &done.text, done.directive.as_ref());
        }
        let archive = folder
            .join("archives")
            .join(format!("{}.r3", sample.program()));
        let found = verdicts(Path::new(&program), &archive, sample.kernel, &lines);
        eprintln!(
            "{} {}: {} candidates",
            sample.program(),
            sample.kernel,
            found.len()
        );
        let verdict = |label: &str| {
            let value = found.get(label)?;
            value.pointer("/outcome/verdict")?.as_str()
        };
        // Another compiler than the recorded one may fuse other products with sums: then bytes tell nothing.
        if verdict("original") != Some("right") {
            eprintln!("  skipped: the original is {:?}", verdict("original"));
            continue;
        }
        compared += 1;
        for (label, value) in &found {
            if label.starts_with("exact") && verdict(label) != Some("right") {
                wrong.push(format!("{} {label}: {value}", sample.program()));
            }
        }
    }
    assert!(compared >= 5, "{compared}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
