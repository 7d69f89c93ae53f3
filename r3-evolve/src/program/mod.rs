//! The source that is searched over: its text, how it is compiled, which captured kernel it stands for.
//!
//! In flows a file with the command of its build, or what the application compiled at run time, and the kernel's description;
//! out flows a [`Program`], which makes a [`Candidate`] of any [`Variant`]. On the way everything is refused that can be known to
//! be wrong before a compiler runs: no such kernel, other parameters, a command that cannot be understood.
//!
//! 1. `given`: a file with its command, or the archive's source, becomes a text and a [`How`].
//! 2. `stands`: whether the kernel's parameters are those of the captured one, as far as its text tells, and what its instance of
//!    a template is called.
//! 3. `headers`: the device's part of headers, for compilers that take nothing else.
//! 4. [`Program::ways`]: the compilers that come into question, in order. Whoever searches takes the first with which the
//!    unchanged source is right on every launch.
//!
//! # Invariants
//!
//! - The text of a program has comments around what may be changed; a variant is the whole text, and what is outside of its
//!   regions is the given text, byte for byte.
//! - Lines of what is compiled are lines of the variant: a compiler's message can be shown as it is.
//! - Nothing here depends on which compilers are on the machine.

mod given;
mod headers;
mod stands;

use std::path::Path;

use r3_codegen::recipe::Compiler;
use r3_codegen::source::command::CommandError;
use r3_codegen::source::database::DatabaseError;
use r3_replay::evaluate::candidate::{Candidate, CandidateCode, SourceCode};
use r3_replay::evaluate::describe::KernelDescription;
use r3_source::device_part::{self, device_part};
use r3_source::region::{self, RegionError, Regions};
use r3_source::syntax::{SyntaxError, Unit};
use serde::{Deserialize, Serialize};

use crate::evolve::variant::Variant;

pub use given::Given;

/// How a source is compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct How {
    /// Which compiler; [`Compiler::Any`] until one was chosen.
    pub compiler: Compiler,
    /// The compiler itself; `None` looks for it.
    pub program: Option<String>,
    /// Its options, without architecture and files.
    pub options: Vec<String>,
    /// Folder in which it runs, absolute.
    pub directory: Option<String>,
    /// Whether it is given the device's part of the file alone.
    pub device_part: bool,
}

/// A source, how it is compiled, and the kernel that it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Text of the file as it was given, with comments around its regions.
    pub text: String,
    /// The file, for messages; relative to the compiler's folder.
    pub name: String,
    /// Headers that were given with it, by name.
    pub headers: Vec<(String, String)>,
    /// The device's part of headers that lie beside it, by name, where that is less than the header.
    #[serde(default)]
    pub device_headers: Vec<(String, String)>,
    /// The captured kernel's (mangled) name.
    pub kernel: String,
    /// The function's name in the text, without what qualifies it.
    pub function: String,
    /// Whether that name was said, and is not the captured one's.
    #[serde(default)]
    pub renamed: bool,
    /// How many parameters it has; tells overloaded functions apart.
    pub parameters: usize,
    /// The instance of a template that is meant, as C++ spells it.
    pub instances: Vec<String>,
    /// How it is compiled.
    pub how: How,
    /// The compiler of the command that was given.
    #[serde(default)]
    pub own: Compiler,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Neither a file nor source in the archive.
    #[error(
        "{kernel} has no source in the archive, since the application did not compile it at run time: name its file with --source"
    )]
    NoSource {
        /// The kernel.
        kernel: String,
    },
    /// The file cannot be read.
    #[error("{file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// Its command is not understood.
    #[error("the command for {file}: {error}")]
    Command {
        /// The file.
        file: String,
        /// Why.
        error: CommandError,
    },
    /// `compile_commands.json` does not help.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A command and a database were given.
    #[error("both a command and {database} say how {file} is compiled: leave one of them out")]
    Twice {
        /// The file.
        file: String,
        /// The database.
        database: String,
    },
    /// A command without a file.
    #[error(
        "{what} is for a file, and none is named: the source in the archive is compiled as the application did it"
    )]
    WithoutFile {
        /// What was given.
        what: &'static str,
    },
    /// Options of which nothing is known.
    #[error(
        "--option {unknown}: nothing is known of this. Options are those of nvcc, or of the --compiler that is named, each in an --option of \
         its own, e.g. --option=-DN=4"
    )]
    Options {
        /// They.
        unknown: String,
    },
    /// It is no CUDA C++.
    #[error("{file}: {error}")]
    Syntax {
        /// The file.
        file: String,
        /// Why.
        error: SyntaxError,
    },
    /// It has no region.
    #[error("{file}: {error}{}", other_name(error))]
    Region {
        /// The file.
        file: String,
        /// Why.
        error: RegionError,
    },
    /// A header of the file has the kernel.
    #[error("{file} includes {header}, which has the kernel {kernel}: name that with --source")]
    InHeader {
        /// The file.
        file: String,
        /// The kernel.
        kernel: String,
        /// Where it is.
        header: String,
    },
    /// A text that should be a variant has lost the comments around its regions.
    #[error("the text has no `// r3: evolve begin` any more")]
    Unmarked,
    /// It takes other parameters than the captured kernel.
    #[error("{file}: {function} takes other parameters than the captured {kernel}:\n{layouts}")]
    Parameters {
        /// The file.
        file: String,
        /// The function.
        function: String,
        /// The captured kernel, readable.
        kernel: String,
        /// Both, side by side.
        layouts: String,
    },
}

impl Program {
    /// Reads what was given, and finds the kernel in it.
    pub fn new(given: &Given, kernel: &KernelDescription) -> Result<Self, ProgramError> {
        let mut program = given::program(given, kernel)?;
        let file = program.name.clone();
        let syntax = |error| ProgramError::Syntax {
            file: file.clone(),
            error,
        };
        let region = |error| match headers::with_kernel(&program, &program.function) {
            Some(header) if matches!(error, RegionError::NoKernel { .. }) => {
                ProgramError::InHeader {
                    file: file.clone(),
                    kernel: program.function.clone(),
                    header: shown(&header),
                }
            }
            _ => ProgramError::Region {
                file: file.clone(),
                error,
            },
        };
        let unit = Unit::parse(&program.text).map_err(syntax)?;
        let count = Some(kernel.params.len()).filter(|count| *count > 0);
        let (text, regions) = region::marked(&unit, &program.function, count).map_err(region)?;
        let function = stands::function(&unit, &program.function, count);
        match &function {
            Some(function) => {
                program.parameters = function.parameters.len();
                stands::check(&file, function, kernel)?;
            }
            None => {
                program.parameters = kernel.params.len();
                program.notes.push(format!(
                    "{file}: the parser finds no kernel {} in it (a macro may make it); what is marked is changed, and compilers \
                     tell whether it is there",
                    program.function
                ));
            }
        }
        if text != program.text {
            program.notes.push(format!(
                "what may be changed of {file}: {}; the lines `// r3: evolve begin` and `// r3: evolve end` in it say it otherwise",
                stands::lines(&program.text, &regions, &text)
            ));
        }
        program.text = text;
        if program.headers.is_empty() {
            program.device_headers = headers::device_parts(&program);
        }
        Ok(program)
    }

    /// The source as it was given.
    #[must_use]
    pub fn original(&self) -> Variant {
        Variant {
            text: self.text.clone(),
            launch: Default::default(),
        }
    }

    /// What of a variant's text may be changed.
    pub fn regions(&self, text: &str) -> Result<Regions, ProgramError> {
        let regions = Regions::of_marks(text).map_err(|error| ProgramError::Region {
            file: self.name.clone(),
            error,
        })?;
        regions.ok_or(ProgramError::Unmarked)
    }

    /// A variant as a candidate: its code and launch; the build is the default one, for an inner search to change.
    #[must_use]
    pub fn candidate(&self, variant: &Variant) -> Candidate {
        let how = &self.how;
        let mut headers = self.headers.clone();
        if how.device_part {
            headers.extend(self.device_headers.iter().cloned());
        }
        Candidate {
            code: CandidateCode::Source(SourceCode {
                text: variant.text.clone(),
                name: self.name.clone(),
                kernel: self.renamed.then(|| self.function.clone()),
                compiler: how.compiler,
                program: how.program.clone(),
                options: how.options.clone(),
                directory: how.directory.clone(),
                headers,
                // Host code uses the instances that the application has.
                instances: match self.is_whole(how) {
                    true => Vec::new(),
                    false => self.instances.clone(),
                },
                device_part: how.device_part,
            }),
            launch: variant.launch,
            ..Candidate::default()
        }
    }

    /// Whether a compiler sees host code of the file.
    fn is_whole(&self, how: &How) -> bool {
        let has_host = only_device(&self.text) != self.text;
        has_host && !how.device_part && how.compiler != Compiler::Nvrtc
    }

    /// The ways to compile it that come into question, in the order in which they are tried: NVRTC, which is fastest, nvcc, clang, that
    /// of the given command first where it is clang; each with the whole file where it can take that, then with the device's part.
    #[must_use]
    pub fn ways(&self) -> Vec<How> {
        let compilers = match (self.how.compiler, self.own) {
            (Compiler::Any, Compiler::Clang) => {
                vec![Compiler::Clang, Compiler::Nvrtc, Compiler::Nvcc]
            }
            (Compiler::Any, _) => vec![Compiler::Nvrtc, Compiler::Nvcc, Compiler::Clang],
            (said, _) => vec![said],
        };
        let has_host = only_device(&self.text) != self.text || !self.device_headers.is_empty();
        let mut ways = Vec::new();
        for compiler in compilers {
            for device_part in [false, true] {
                // NVRTC takes no host code; without any the two are the same.
                let useful = match device_part {
                    false => !(has_host && compiler == Compiler::Nvrtc),
                    true => has_host,
                };
                if useful {
                    ways.push(self.way(compiler, device_part));
                }
            }
        }
        ways
    }

    fn way(&self, compiler: Compiler, device_part: bool) -> How {
        let mut how = How {
            compiler,
            device_part,
            ..self.how.clone()
        };
        if self.own != compiler {
            how.program = None;
        }
        // Functions that do not say where they run are the host's for it, which it has none of. With the option, constants become
        // variables on the device as well, so that it is not given without need.
        if compiler == Compiler::Nvrtc && self.own != compiler && self.has_unmarked_functions() {
            how.options.push("-default-device".to_owned());
        }
        how
    }

    fn has_unmarked_functions(&self) -> bool {
        let headers = self.device_headers.iter().map(|(_, text)| text.clone());
        std::iter::once(only_device(&self.text))
            .chain(headers)
            .any(|text| {
                let unit = Unit::parse(&text);
                unit.is_ok_and(|unit| device_part::has_unmarked_functions(&unit))
            })
    }

    /// The same with another way.
    #[must_use]
    pub fn compiled(&self, how: How) -> Self {
        Self {
            how,
            ..self.clone()
        }
    }
}

/// The device's part of a text; all of it where it cannot be parsed, for its compiler to say why.
fn only_device(text: &str) -> String {
    Unit::parse(text).map_or_else(|_| text.to_owned(), |unit| device_part(&unit))
}

/// What helps where a kernel is called otherwise in the source.
fn other_name(error: &RegionError) -> &'static str {
    match error {
        RegionError::NoKernel { has, .. } if !has.is_empty() => {
            "; where it has another name in the source, --function NAME says which"
        }
        _ => "",
    }
}

/// A file as messages name it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
