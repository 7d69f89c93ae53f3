//! What a user gives: a file and its command, or nothing but the archive.

use std::path::{Path, PathBuf};

use r3_codegen::recipe::Compiler;
use r3_codegen::source::command::{self, Invocation};
use r3_codegen::source::database;
use r3_codegen::source::options::{Dialect, Options};
use r3_codegen::source::{files, find, spell};
use r3_replay::evaluate::describe::{CapturedSource, KernelDescription};
use r3_source::syntax::base_name;

use super::{How, Program, ProgramError, shown, stands};

/// What a user gives for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The file; `None` takes the source in the archive.
    pub file: Option<PathBuf>,
    /// The command that compiles it, as a shell would have it.
    pub command: Option<String>,
    /// Folder of the command; this process's when it is left out.
    pub command_directory: Option<PathBuf>,
    /// `compile_commands.json`, or a folder with it.
    pub database: Option<PathBuf>,
    /// Options, added to those of the command: `-D`, `-I`, `-std` and so on.
    pub options: Vec<String>,
    /// The compiler, when it is not to be chosen.
    pub compiler: Compiler,
    /// The kernel's name in the file, when it cannot be told from the captured one.
    pub function: Option<String>,
}

/// The program as it is given, without regions.
pub(super) fn program(given: &Given, kernel: &KernelDescription) -> Result<Program, ProgramError> {
    let mut program = match (&given.file, &kernel.source) {
        (Some(file), _) => of_file(file, given)?,
        (None, Some(source)) => of_archive(source, given)?,
        (None, None) => {
            return Err(ProgramError::NoSource {
                kernel: kernel.readable.clone(),
            });
        }
    };
    let added = Options::read(&given.options, dialect(given.compiler));
    if !added.unknown.is_empty() {
        return Err(ProgramError::Options {
            unknown: added.unknown.join(" "),
        });
    }
    program.how.options.extend(spell::neutral(&added));
    program.how.compiler = given.compiler;
    program.kernel.clone_from(&kernel.name);
    let own = base_name(&kernel.name);
    program.function = given.function.clone().unwrap_or_else(|| own.to_owned());
    program.renamed = base_name(&program.function) != own;
    // Of several, the others would only be compiled along.
    if let Some(instance) = stands::instance(&kernel.readable)
        && (given.file.is_some() || program.instances.contains(&instance))
    {
        program.instances = vec![instance];
    }
    Ok(program)
}

fn empty(text: String, name: String) -> Program {
    Program {
        text,
        name,
        headers: Vec::new(),
        device_headers: Vec::new(),
        kernel: String::new(),
        function: String::new(),
        renamed: false,
        parameters: 0,
        instances: Vec::new(),
        how: How::default(),
        own: Compiler::Any,
        notes: Vec::new(),
    }
}

fn of_file(file: &Path, given: &Given) -> Result<Program, ProgramError> {
    let wrong = |reason: String| ProgramError::Read {
        file: shown(file),
        reason,
    };
    let full = std::path::absolute(file).map_err(|error| wrong(error.to_string()))?;
    let text = files::text(&full, files::SOURCE).map_err(|error| wrong(error.to_string()))?;
    let (invocation, mut notes) = invocation(&full, given)?;
    let folder = full.parent().map(Path::to_owned).unwrap_or_default();
    let (how, own, directory) = match invocation {
        Some(invocation) => {
            let options = &invocation.options;
            note_unknown(&mut notes, options);
            let program = match invocation.compiler {
                Compiler::Any => None,
                _ => find::in_path(&invocation.program, &invocation.directory),
            };
            let directory = std::path::absolute(&invocation.directory)
                .map_err(|error| wrong(format!("the folder of its command: {error}")))?;
            let how = How {
                program: program.map(|path| shown(&path)),
                options: spell::neutral(options),
                ..How::default()
            };
            (how, invocation.compiler, directory)
        }
        None => (How::default(), Compiler::Any, folder),
    };
    let name = full.strip_prefix(&directory).unwrap_or(&full);
    Ok(Program {
        how: How {
            directory: Some(shown(&directory)),
            ..how
        },
        own,
        notes,
        ..empty(text, shown(name))
    })
}

/// The file's command, where one is given.
fn invocation(
    file: &Path,
    given: &Given,
) -> Result<(Option<Invocation>, Vec<String>), ProgramError> {
    let failed = |error| ProgramError::Command {
        file: shown(file),
        error,
    };
    match (&given.command, &given.database) {
        (Some(_), Some(database)) => Err(ProgramError::Twice {
            file: shown(file),
            database: shown(database),
        }),
        (Some(text), None) => {
            let here = || std::env::current_dir().unwrap_or_default();
            let folder = given.command_directory.clone().unwrap_or_else(here);
            let found = command::parse(text, &folder).map_err(failed)?;
            let notes = found.check(file).map_err(failed)?.into_iter().collect();
            Ok((Some(found), notes))
        }
        (None, Some(database)) => {
            let entries = database::commands(database, file)?;
            let found: Vec<Invocation> = entries
                .iter()
                .map(command::parse_entry)
                .collect::<Result<_, _>>()
                .map_err(failed)?;
            Ok(of_database(found, database, file))
        }
        (None, None) => Ok((None, Vec::new())),
    }
}

/// The command that is taken of those that a database has for a file: the first that compiles it.
fn of_database(
    found: Vec<Invocation>,
    database: &Path,
    file: &Path,
) -> (Option<Invocation>, Vec<String>) {
    let count = found.len();
    let at = found.iter().position(|one| one.compiles(file)).unwrap_or(0);
    let Some(taken) = found.get(at) else {
        return (None, Vec::new());
    };
    let mut notes = Vec::new();
    let how = |one: &Invocation| (spell::neutral(&one.options), one.directory.clone());
    // One file of several targets of a build, with the same options.
    if found.iter().any(|one| how(one) != how(taken)) {
        notes.push(format!(
            "{} has {count} commands for {}: number {} is taken, with {}",
            shown(database),
            shown(file),
            at + 1,
            how(taken).0.join(" ")
        ));
    }
    if !taken.compiles(file) {
        let named: Vec<&str> = taken.sources().map(String::as_str).collect();
        notes.push(format!(
            "the command that {} has for {} compiles {}",
            shown(database),
            shown(file),
            if named.is_empty() {
                "no file".to_owned()
            } else {
                named.join(", ")
            }
        ));
    }
    (Some(taken.clone()), notes)
}

/// What the application compiled at run time, as it did it.
fn of_archive(source: &CapturedSource, given: &Given) -> Result<Program, ProgramError> {
    let what = match (&given.command, &given.database) {
        (Some(_), _) => Some("a command"),
        (_, Some(_)) => Some("a database of commands"),
        _ => None,
    };
    if let Some(what) = what {
        return Err(ProgramError::WithoutFile { what });
    }
    let options = Options::read(&source.options, Dialect::Nvrtc);
    let mut notes = vec![format!(
        "the source is that in the archive: {}",
        source.compiler
    )];
    note_unknown(&mut notes, &options);
    Ok(Program {
        headers: source.headers.clone(),
        instances: source.instances.clone(),
        how: How {
            options: spell::neutral(&options),
            ..How::default()
        },
        own: Compiler::Nvrtc,
        notes,
        ..empty(source.text.clone(), source.name.clone())
    })
}

fn dialect(compiler: Compiler) -> Dialect {
    match compiler {
        Compiler::Clang => Dialect::Clang,
        Compiler::Nvrtc => Dialect::Nvrtc,
        Compiler::Any | Compiler::Nvcc => Dialect::Nvcc,
    }
}

fn note_unknown(notes: &mut Vec<String>, options: &Options) {
    if !options.unknown.is_empty() {
        notes.push(format!(
            "options that nothing is known of are left out: {}",
            options.unknown.join(" ")
        ));
    }
}
