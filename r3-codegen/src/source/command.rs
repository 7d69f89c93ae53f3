//! The application's own compile command: which compiler, which options, where.

use std::path::{Path, PathBuf};

use super::database::Entry;
use super::files;
use super::options::{Dialect, Options};
use super::spell;
use crate::recipe::{Compiler, Source};

/// What a command was understood as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The compiler, as it was written.
    pub program: String,
    /// Which one that is; [`Compiler::Any`] for one of host code.
    pub compiler: Compiler,
    /// Its options.
    pub options: Options,
    /// Where it is run.
    pub directory: PathBuf,
}

/// Why a command was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Quotes do not match.
    #[error("the command has a quote that is not closed: {command}")]
    Quotes {
        /// The command.
        command: String,
    },
    /// It is more than one command.
    #[error(
        "the command has `{operator}`: give the compiler's own command alone; `cd FOLDER && nvcc …` says where it runs"
    )]
    Shell {
        /// What makes it more than one.
        operator: String,
    },
    /// An entry of a database without a command.
    #[error("the entry has neither `command` nor `arguments`")]
    Nothing,
    /// No word of it is a compiler.
    #[error(
        "no word of the command is a compiler that is known (nvcc, clang++, g++, mpicxx, nvcc_wrapper and others): {command}"
    )]
    NoCompiler {
        /// Its beginning.
        command: String,
    },
    /// A file with options cannot be read.
    #[error("the file of options {file} cannot be read: {reason}")]
    OptionFile {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// It is the command of another file.
    #[error("it compiles {named}, and not {file}: {advice}")]
    OtherFile {
        /// The file that is meant.
        file: String,
        /// What it compiles.
        named: String,
        /// What to do.
        advice: String,
    },
    /// Files with options name each other without end.
    #[error("the file of options {file} is nested too deeply")]
    TooDeep {
        /// The file.
        file: String,
    },
}

/// How compilers are called, by how the last part of their path begins or ends, and whose options they take.
const COMPILERS: &[(&str, Compiler, Dialect)] = &[
    ("nvcc_wrapper", Compiler::Any, Dialect::Nvcc),
    ("nvcc", Compiler::Nvcc, Dialect::Nvcc),
    ("clang", Compiler::Clang, Dialect::Clang),
    ("hipcc", Compiler::Any, Dialect::Clang),
    ("nvc++", Compiler::Any, Dialect::Clang),
    ("icpx", Compiler::Any, Dialect::Clang),
    ("mpicxx", Compiler::Any, Dialect::Clang),
    ("mpic++", Compiler::Any, Dialect::Clang),
    ("mpiCC", Compiler::Any, Dialect::Clang),
    ("mpicc", Compiler::Any, Dialect::Clang),
    ("g++", Compiler::Any, Dialect::Clang),
    ("gcc", Compiler::Any, Dialect::Clang),
    ("c++", Compiler::Any, Dialect::Clang),
    ("CC", Compiler::Any, Dialect::Clang),
];

/// Programs that run the command which follows them.
const LAUNCHERS: &[&str] = &[
    "ccache",
    "sccache",
    "distcc",
    "icecc",
    "buildcache",
    "fastcache",
    "env",
    "time",
    "nice",
    "cmake",
    "scache",
    // CMake's, in front of `--` and the compiler.
    "__run_co_compile",
];

/// Words between commands.
const OPERATORS: &[&str] = &["&&", "||", ";", "|", "&", ">", ">>", "<"];

/// Deepest nesting of files with options.
const DEPTH: usize = 16;

/// Reads a command as a shell would split it.
pub fn parse(command: &str, directory: &Path) -> Result<Invocation, CommandError> {
    let words = shlex::split(command).ok_or_else(|| CommandError::Quotes {
        command: command.to_owned(),
    })?;
    // `cd build && nvcc …`, as people copy it from logs.
    let mut words = words.as_slice();
    let mut directory = directory.to_owned();
    while let [cd, folder, and, rest @ ..] = words
        && cd == "cd"
        && and == "&&"
    {
        directory.push(folder);
        words = rest;
    }
    parse_words(words, &directory)
}

/// Reads an entry of a database.
pub fn parse_entry(entry: &Entry) -> Result<Invocation, CommandError> {
    match &entry.arguments {
        None if entry.command.trim().is_empty() => Err(CommandError::Nothing),
        Some(words) if words.is_empty() => Err(CommandError::Nothing),
        Some(words) => parse_words(words, &entry.directory),
        None => parse(&entry.command, &entry.directory),
    }
}

/// Reads a command that is split into words.
pub fn parse_words(words: &[String], directory: &Path) -> Result<Invocation, CommandError> {
    if let Some(operator) = words.iter().find_map(|word| operator(word)) {
        return Err(CommandError::Shell {
            operator: operator.to_owned(),
        });
    }
    let (at, compiler, dialect) = compiler(words).ok_or_else(|| CommandError::NoCompiler {
        command: words.join(" ").chars().take(200).collect(),
    })?;
    let (program, arguments) = match words.get(at..) {
        Some([program, arguments @ ..]) => (program.clone(), arguments),
        _ => (String::new(), &[][..]),
    };
    let mut options = Options::read(arguments, dialect);
    read_option_files(&mut options, dialect, directory, 0)?;
    Ok(Invocation {
        program,
        compiler,
        options,
        directory: directory.to_owned(),
    })
}

/// What of a word a shell would not give to the compiler. Values of options may have anything, since they were quoted.
fn operator(word: &str) -> Option<&str> {
    if OPERATORS.contains(&word) {
        return Some(word);
    }
    let is_value = word.starts_with('-') || word.contains('=');
    ["$(", "`", ";"]
        .into_iter()
        .find(|sign| !is_value && (word.starts_with(sign) || word.ends_with(sign)))
}

/// The word that is the compiler: the first, or the first after launchers.
fn compiler(words: &[String]) -> Option<(usize, Compiler, Dialect)> {
    let mut launched = false;
    for (at, word) in words.iter().enumerate() {
        let name = word.rsplit('/').next().unwrap_or(word);
        if let Some((compiler, dialect)) = known(name) {
            return Some((at, compiler, dialect));
        }
        // After a launcher come its options, variables, and perhaps `-E env --`.
        let launcher = LAUNCHERS.iter().any(|known| name.starts_with(known));
        let number = word.parse::<u32>().is_ok();
        let of_launcher = launched && (word.starts_with('-') || word.contains('=') || number);
        let variable = !launched && word.contains('=') && !word.starts_with(['-', '/']);
        if !(launcher || of_launcher || variable) {
            return None;
        }
        launched |= launcher;
    }
    None
}

fn known(name: &str) -> Option<(Compiler, Dialect)> {
    // `x86_64-linux-gnu-g++-13`, `clang++-22`, `nvcc.real`.
    let fits = |known: &str| {
        let rest = name.strip_prefix(known).or_else(|| {
            let at = name.rfind(known)?;
            let before = name.get(..at)?;
            before
                .ends_with('-')
                .then(|| name.get(at + known.len()..))?
        });
        rest.is_some_and(|rest| {
            let rest = rest.trim_start_matches("++");
            rest.is_empty() || rest.starts_with(['-', '.']) || rest == "_wrapper"
        })
    };
    COMPILERS
        .iter()
        .find(|(known, _, _)| fits(known))
        .map(|(_, compiler, dialect)| (*compiler, *dialect))
}

/// Adds what is in files with options, which may name more such files.
fn read_option_files(
    options: &mut Options,
    dialect: Dialect,
    directory: &Path,
    depth: usize,
) -> Result<(), CommandError> {
    for file in std::mem::take(&mut options.option_files) {
        if depth == DEPTH {
            return Err(CommandError::TooDeep { file });
        }
        let path = directory.join(&file);
        let text =
            files::text(&path, files::SETTINGS).map_err(|error| CommandError::OptionFile {
                file: file.clone(),
                reason: error.to_string(),
            })?;
        let words = shlex::split(&text).ok_or_else(|| CommandError::OptionFile {
            file: file.clone(),
            reason: "it has a quote that is not closed".to_owned(),
        })?;
        options.add(&words, dialect);
        read_option_files(options, dialect, directory, depth + 1)?;
    }
    Ok(())
}

impl Invocation {
    /// The same options for a source, in the spelling that [`Source::options`] has. A compiler that is not there is
    /// looked for when the source is compiled.
    pub fn source(&self, name: PathBuf, text: String) -> Source {
        let program = match self.compiler {
            Compiler::Any => None,
            _ => super::find::in_path(&self.program, &self.directory),
        };
        Source {
            text,
            name,
            headers: Vec::new(),
            name_expressions: Vec::new(),
            compiler: Compiler::Any,
            program,
            options: spell::neutral(&self.options),
            directory: Some(self.directory.clone()),
        }
    }
}
