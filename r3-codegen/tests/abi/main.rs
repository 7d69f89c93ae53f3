//! Parameters, shared memory, launch bounds and calls: what the host and other code rely on is the same after lifting.

#![allow(clippy::unwrap_used)]

mod archives;
mod generate;
mod round;

use r3_codegen::emit::Options;
use r3_codegen::recipe::Bounds;
use r3_ptx::generate::{examples, module};
use r3_ptx::isa::{Form, Forms};
use round::{BEST, PLAIN};

/// Interfaces of all shapes, with and without optimisation.
#[test]
fn generated_interfaces_are_the_same_for_host_and_assembler() {
    const MODULES: u64 = 60;
    const KERNELS: usize = 12;
    let Some(ptxas) = round::needed_ptxas() else {
        return;
    };
    let (mut equal, mut wrong) = (0, Vec::new());
    for seed in 0..MODULES {
        let module = generate::module(seed, KERNELS);
        let way = if seed % 2 == 0 { PLAIN } else { BEST };
        match round::compare(&ptxas, &module, &format!("seed{seed}"), way) {
            Ok(kernels) => equal += kernels,
            Err(error) => wrong.push(format!("{way:?} {error}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{equal} kernels are equal, but:\n{}",
        wrong.join("\n")
    );
    assert_eq!(equal, MODULES as usize * KERNELS);
}

/// What programs really carry.
#[test]
fn kernels_of_the_samples_keep_their_interfaces() {
    let Some(ptxas) = round::needed_ptxas() else {
        return;
    };
    let (mut equal, mut wrong) = (0, Vec::new());
    for (name, text) in archives::ptx() {
        for way in [PLAIN, BEST] {
            match round::compare(&ptxas, &text, &name, way) {
                Ok(kernels) => equal += kernels,
                Err(error) => wrong.push(format!("{way:?} {error}")),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{equal} kernels are equal, but:\n{}",
        wrong.join("\n")
    );
    assert!(equal >= 40, "{equal} kernels");
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

/// A kernel for each form of the table, with textures, surfaces, shared and constant memory, and a function.
#[test]
fn examples_of_the_table_keep_their_interfaces() {
    let Some(ptxas) = round::needed_ptxas() else {
        return;
    };
    let (mut equal, mut refused, mut wrong) = (0, 0, Vec::new());
    for (i, form) in Forms::table().all().iter().enumerate() {
        let examples = examples(form);
        let Some(plainest) = examples.first() else {
            continue;
        };
        let (text, _) = module("9.0", target(form), &[&plainest.text]);
        let name = format!("form{i}");
        let way = if i % 2 == 0 { PLAIN } else { BEST };
        let mut compared = round::compare(&ptxas, &text, &name, way);
        if compared
            .as_ref()
            .is_err_and(|e| e.contains("lifted: ptxas"))
        {
            // Nothing writes the registers of an example: optimised, one may become a number that an instruction does not
            // take.
            compared = round::compare(&ptxas, &text, &name, PLAIN);
        }
        match compared {
            Ok(kernels) => equal += kernels,
            // An example that this assembler does not take by itself.
            Err(error) if error.starts_with("original:") => refused += 1,
            Err(error) => wrong.push(format!("{way:?} {}: {error}", plainest.text)),
        }
    }
    assert!(
        wrong.is_empty(),
        "{equal} kernels are equal, {refused} refused, but:\n{}",
        wrong.join("\n")
    );
    assert!(equal > 2 * refused, "{equal} equal, {refused} refused");
}

/// Launch bounds that a recipe asks for.
#[test]
fn bounds_in_place_of_the_originals() {
    const TEXT: &str = "\
.version 8.5
.target sm_90
.address_size 64
.visible .entry bounded(.param .u64 p)
.maxntid 256, 1, 1
.minnctapersm 2
.maxnreg 64
{
ret;
}
.visible .entry required(.param .u64 p)
.reqntid 32, 2, 1
{
ret;
}
.visible .entry free(.param .u64 p)
{
ret;
}
";
    let made = |bounds: Bounds| {
        let options = Options {
            bounds,
            ..Options::default()
        };
        let text = round::round(TEXT, PLAIN, None, &options).unwrap();
        let lines = text.lines().filter(|line| {
            [".maxn", ".minn", ".reqn"]
                .iter()
                .any(|d| line.starts_with(d))
                || line.contains(".entry")
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(made(Bounds::default()), @r"
    .visible .entry bounded(
    .maxntid 256, 1, 1
    .minnctapersm 2
    .maxnreg 64
    .visible .entry required(
    .reqntid 32, 2, 1
    .visible .entry free(
    ");
    insta::assert_snapshot!(made(Bounds {
        maxnreg: Some(128),
        maxntid: Some(512),
        minnctapersm: Some(0),
        ..Bounds::default()
    }), @r"
    .visible .entry bounded(
    .maxntid 512
    .maxnreg 128
    .visible .entry required(
    .reqntid 32, 2, 1
    .maxnreg 128
    .visible .entry free(
    .maxntid 512
    .maxnreg 128
    ");
    insta::assert_snapshot!(made(Bounds {
        maxnreg: Some(0),
        maxntid: None,
        minnctapersm: Some(1),
        ..Bounds::default()
    }), @r"
    .visible .entry bounded(
    .maxntid 256, 1, 1
    .minnctapersm 1
    .visible .entry required(
    .reqntid 32, 2, 1
    .minnctapersm 1
    .visible .entry free(
    .minnctapersm 1
    ");
}

/// Folders of PTX given by hand: `R3_PTX_CORPUS=folder:folder`, files up to `R3_PTX_MOST` bytes.
#[test]
#[ignore = "for corpora outside of the repository"]
fn a_given_corpus_keeps_its_interfaces() {
    let folders = std::env::var_os("R3_PTX_CORPUS").expect("R3_PTX_CORPUS");
    let ptxas = round::ptxas().expect("an assembler");
    let mut files = Vec::new();
    let mut open: Vec<_> = std::env::split_paths(&folders).collect();
    while let Some(at) = open.pop() {
        if at.is_dir() {
            let entries = std::fs::read_dir(at).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if at.extension().is_some_and(|e| e == "ptx") {
            files.push(at);
        }
    }
    files.sort();
    let most = std::env::var("R3_PTX_MOST").ok();
    let most = most.map_or(u64::MAX, |most| most.parse().unwrap());
    let (mut equal, mut refused, mut wrong) = (0, 0, 0);
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        if bytes.len() as u64 > most {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\0');
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        for way in [PLAIN, BEST] {
            match round::compare(&ptxas, text, &name, way) {
                Ok(kernels) => equal += kernels,
                Err(error) if error.starts_with("original:") => {
                    refused += 1;
                    break;
                }
                Err(error) => {
                    eprintln!("{way:?} {error}");
                    wrong += 1;
                }
            }
        }
    }
    eprintln!("{equal} kernels are equal, {refused} modules refused, {wrong} wrong");
    assert_eq!(wrong, 0);
}
