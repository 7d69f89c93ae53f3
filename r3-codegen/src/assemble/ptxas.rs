//! `ptxas`, as a program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::find::PTXAS;
use super::scratch::Scratch;
use super::{Linked, Refusal, tool};
use crate::recipe::{Failure, FailureKind, Stage};

/// How much of what it says about kernels is read: a few hundred bytes for each.
const REPORT: usize = 64 << 20;

/// All that there are, best first: at least one.
pub(super) fn present() -> Result<Vec<PathBuf>, Failure> {
    let found = PTXAS.candidates();
    if found.iter().any(|path| path.is_file()) {
        return Ok(found);
    }
    Err(Failure {
        stage: Stage::Assemble,
        kind: FailureKind::MissingTool,
        message: format!("ptxas was not found: looked for {}", PTXAS.places()),
        log: String::new(),
    })
}

/// PTX to a cubin, by the first `ptxas` that knows the architecture and the version of the PTX. Each of `options` is one
/// option with its value joined to it.
pub(super) fn assemble(ptx: &str, arch: &str, options: &[String]) -> Result<Linked, Refusal> {
    let mut first = None;
    for program in present().map_err(Refusal::Other)? {
        match assemble_by(&program, ptx, arch, options) {
            Err(refusal) if refusal.is_of_age() => _ = first.get_or_insert(refusal),
            outcome => return outcome,
        }
    }
    Err(first.unwrap_or_else(|| cannot(std::io::ErrorKind::NotFound.into())))
}

fn assemble_by(
    program: &Path,
    ptx: &str,
    arch: &str,
    options: &[String],
) -> Result<Linked, Refusal> {
    let scratch = Scratch::new().map_err(cannot)?;
    std::fs::write(scratch.file("kernel.ptx"), ptx).map_err(cannot)?;
    let mut command = Command::new(program);
    // Relative names: messages are the same wherever the folder is.
    command
        .current_dir(scratch.path())
        .arg(format!("-arch={arch}"))
        .arg("-v")
        .args(options)
        .args(["kernel.ptx", "-o", "kernel.cubin"]);
    let said =
        tool::run_keeping(&mut command, Stage::Assemble, REPORT, None).map_err(Refusal::of)?;
    let bytes = std::fs::read(scratch.file("kernel.cubin")).map_err(cannot)?;
    // Older ones report on standard output.
    let log = said.log + &String::from_utf8_lossy(&said.output);
    Ok(Linked {
        bytes,
        log,
        assembler: format!("ptxas {}", version(program)),
    })
}

/// Its version, e.g. `13.0.88`, or its path when it does not tell.
fn version(program: &Path) -> String {
    static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known
        .entry(program.to_owned())
        .or_insert_with(|| {
            let said = tool::run(Command::new(program).arg("--version"), Stage::Assemble);
            let text = said
                .map(|said| String::from_utf8_lossy(&said.output).into_owned())
                .unwrap_or_default();
            text.split_whitespace()
                .find_map(|word| word.strip_prefix('V'))
                .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
                .map_or_else(|| program.display().to_string(), str::to_owned)
        })
        .clone()
}

fn cannot(error: std::io::Error) -> Refusal {
    Refusal::Other(Failure {
        stage: Stage::Assemble,
        kind: FailureKind::Crash,
        message: format!("files for ptxas: {error}"),
        log: String::new(),
    })
}
