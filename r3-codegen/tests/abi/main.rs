//! Parameters, shared memory, launch bounds and calls: what the host and other code rely on is the same after lifting.

#![allow(clippy::unwrap_used)]

mod generate;
mod round;

use round::{BEST, PLAIN};

/// Folders of PTX given by hand: `R3_PTX_CORPUS=folder:folder`.
#[test]
fn a_given_corpus_keeps_its_interfaces() {
    let Some(folders) = std::env::var_os("R3_PTX_CORPUS") else {
        return;
    };
    let ptxas = round::ptxas().expect("an assembler");
    let mut files = Vec::new();
    let mut open: Vec<_> = std::env::split_paths(&folders).collect();
    while let Some(at) = open.pop() {
        if at.is_dir() {
            open.extend(
                std::fs::read_dir(at)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if at.extension().is_some_and(|e| e == "ptx") {
            files.push(at);
        }
    }
    files.sort();
    let most = std::env::var("R3_PTX_MOST")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(u64::MAX);
    let (mut equal, mut refused, mut wrong) = (0, 0, Vec::new());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        if bytes.len() as u64 > most {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes)
            .trim_end_matches('\0')
            .to_owned();
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        for way in [PLAIN, BEST] {
            match round::compare(&ptxas, &text, &name, way) {
                Ok(kernels) => equal += kernels,
                Err(error) if error.starts_with("original:") => {
                    if std::env::var_os("R3_ABI_REFUSED").is_some() {
                        eprintln!("{name}: {error}");
                    }
                    refused += 1;
                    break;
                }
                Err(error) => {
                    eprintln!("{way:?} {error}");
                    wrong.push(error)
                }
            }
        }
    }
    eprintln!(
        "{equal} kernels equal, {refused} modules refused, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty());
}

/// Interfaces of all shapes, with and without optimisation.
#[test]
fn generated_interfaces_are_the_same_for_host_and_assembler() {
    const MODULES: u64 = 60;
    const KERNELS: usize = 12;
    let Some(ptxas) = round::needed_ptxas() else {
        return;
    };
    let only = std::env::var("R3_ABI_SEED")
        .ok()
        .and_then(|n| n.parse().ok());
    let (mut equal, mut wrong) = (0, Vec::new());
    for seed in (0..MODULES).filter(|seed| only.is_none_or(|only: u64| only == *seed)) {
        let module = generate::module(seed, KERNELS);
        let way = if seed % 2 == 0 { PLAIN } else { BEST };
        match round::compare(&ptxas, &module.text, &format!("seed{seed}"), way) {
            Ok(kernels) => equal += kernels,
            Err(error) => wrong.push(format!("{way:?} {error}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{equal} kernels are equal, but:\n{}",
        wrong.join("\n")
    );
    assert!(
        only.is_some() || equal >= MODULES as usize * KERNELS,
        "{equal} kernels"
    );
}
