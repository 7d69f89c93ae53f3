//! CUDA C++ to PTX or bitcode, by whatever compiler is present; LTO-IR, bitcode and IR text as they are.
//!
//! In flows a [`Source`]: a text, the options of the application's own build, and which compiler; out flows what that
//! compiler makes of its device code, with how it was run. On the way:
//!
//! 1. [`database`], [`command`], [`options`]: an application's own compile command, of which what matters for device code
//!    is kept, whichever compiler it was for.
//! 2. [`inputs`]: whether the command is for the file that is meant; [`files`]: reads files that users name.
//! 3. [`find`]: compilers and CUDA toolkits, on this machine.
//! 4. [`spell`]: the options in the spelling of the compiler that runs.
//! 5. [`nvcc`], [`nvrtc`], [`clang`]: the compilers. nvcc and NVRTC give PTX. clang gives bitcode that no pass has seen, and
//!    compiles plain kernels without a toolkit, with declarations of this crate.
//!
//! # Invariants
//!
//! - **One target.** Whatever list of architectures the build had, one is compiled for.
//! - **Nothing of the user's is written to.** Outputs and variants of a file go into a private folder; includes beside the
//!   file are found where they are.
//! - **A compiler's words come back**: the first error as the message, the end of its log with it.

pub mod database;

pub mod options;

pub mod command;

pub mod inputs;

pub mod files;

pub mod find;

pub mod spell;

pub mod nvcc;

pub mod nvrtc;

pub mod clang;

mod unit;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::recipe::{Code, Compiler, Failure, FailureKind, Source, Stage};

/// What a compiler made of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiled {
    /// PTX or bitcode.
    pub code: Code,
    /// Names of the kernels in it.
    pub kernels: Vec<String>,
    /// The compiler with its version: `nvcc 13.0.88`.
    pub compiler: String,
    /// What was run, or the options that a library was given.
    pub command: Vec<String>,
    /// Where.
    pub directory: PathBuf,
    /// What the user should know: options without a counterpart, a toolkit that is not there.
    pub notes: Vec<String>,
}

/// Compiles device code for a target such as `sm_90a`.
pub fn to_ptx_or_bitcode(source: &Source, target: &str) -> Result<Code, Failure> {
    Ok(compile(source, target)?.code)
}

/// The same, with how it was done.
pub fn compile(source: &Source, target: &str) -> Result<Compiled, Failure> {
    let one = |compiler| match compiler {
        Compiler::Nvcc => nvcc::compile(source, target),
        Compiler::Nvrtc => nvrtc::compile(source, target),
        Compiler::Clang => clang::compile(source, target),
        Compiler::Any => any(source, target),
    };
    let mut compiled = one(source.compiler)?;
    if compiled.kernels.is_empty() {
        compiled.kernels = kernels(&compiled.code);
    }
    Ok(compiled)
}

/// Names of the kernels that a compiler made.
fn kernels(code: &Code) -> Vec<String> {
    match code {
        Code::Ptx(text) => text.lines().filter_map(entry).collect(),
        Code::Bitcode(bytes) => crate::compile::kernels_of_bitcode(bytes),
        _ => Vec::new(),
    }
}

/// The kernel that a line of PTX begins.
fn entry(line: &str) -> Option<String> {
    let (before, after) = line.split_once(".entry")?;
    if before.contains("//") || !after.starts_with(char::is_whitespace) {
        return None;
    }
    let end = |c: char| c == '(' || c == '{' || c.is_whitespace();
    let name = after.trim_start().split(end).next()?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

/// The compiler of the source's own command, else nvcc, NVRTC, clang: the first that is there and takes the source.
fn any(source: &Source, target: &str) -> Result<Compiled, Failure> {
    // Each reads its own spelling, and all read this one.
    let options = options::Options::read(&source.options, options::Dialect::Nvcc);
    let options = spell::neutral(&options);
    let named = source.program.as_deref().and_then(find::kind);
    let others = [Compiler::Nvcc, Compiler::Nvrtc, Compiler::Clang];
    let order = named
        .into_iter()
        .chain(others.into_iter().filter(|other| Some(*other) != named));
    let mut failures: Vec<(Compiler, Failure)> = Vec::new();
    for compiler in order {
        let source = Source {
            compiler,
            options: options.clone(),
            program: source.program.clone().filter(|_| named == Some(compiler)),
            ..source.clone()
        };
        match compile(&source, target) {
            Ok(mut compiled) => {
                let said = failures
                    .into_iter()
                    .filter(|(_, failure)| failure.kind != FailureKind::MissingTool)
                    .map(|(compiler, failure)| {
                        format!("{compiler:?} did not take it: {}", failure.message)
                    });
                compiled.notes.extend(said);
                return Ok(compiled);
            }
            // It would fail all of them alike.
            Err(failure) if failure.kind == FailureKind::Machine => return Err(failure),
            // The application's own compiler knows best what is wrong with it.
            Err(failure) if Some(compiler) == named && failure.kind != FailureKind::MissingTool => {
                return Err(failure);
            }
            Err(failure) => failures.push((compiler, failure)),
        }
    }
    Err(together(failures))
}

/// Of compilers that all failed: what the first that is there said, and that the others are missing.
fn together(failures: Vec<(Compiler, Failure)>) -> Failure {
    let said =
        |(compiler, failure): &(Compiler, Failure)| format!("{compiler:?}: {}", failure.message);
    let missing = |failure: &Failure| failure.kind == FailureKind::MissingTool;
    match failures.iter().find(|(_, failure)| !missing(failure)) {
        Some((_, first)) => {
            let all: Vec<String> = failures
                .iter()
                .filter(|(_, failure)| !missing(failure))
                .map(said)
                .collect();
            Failure {
                message: all.join("\n"),
                ..first.clone()
            }
        }
        None => Failure {
            stage: Stage::Source,
            kind: FailureKind::MissingTool,
            message: format!(
                "no compiler of CUDA C++ is here. Install a CUDA toolkit, or its Python package nvidia-cuda-nvcc, or, for \
                 plain kernels, clang 17 or newer from the system's packages; R3_NVCC, R3_NVRTC and R3_CLANG name one. \
                 Looked for:\n{}",
                failures.iter().map(said).collect::<Vec<_>>().join("\n")
            ),
            log: String::new(),
        },
    }
}

/// Source was refused, or something around it.
fn refused(message: impl Into<String>) -> Failure {
    Failure {
        stage: Stage::Source,
        kind: FailureKind::Refused,
        message: message.into(),
        log: String::new(),
    }
}

fn missing(message: impl Into<String>) -> Failure {
    Failure {
        kind: FailureKind::MissingTool,
        ..refused(message)
    }
}

/// A command as words.
fn words(command: &std::process::Command) -> Vec<String> {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Notes about options that were left out although nothing is known of them.
fn unknown(options: &options::Options) -> Vec<String> {
    match options.unknown.as_slice() {
        [] => Vec::new(),
        unknown => vec![format!("left out: {}", unknown.join(" "))],
    }
}
