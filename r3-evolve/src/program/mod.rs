//! The source that is searched over: its text, how it is compiled, which captured kernel it stands for.
//!
//! In flows a file with the command of its build, or what the application compiled at run time, and the kernel's description;
//! out flows a [`Program`], which makes a [`Candidate`] of any [`Variant`]. On the way everything is refused that can be known to
//! be wrong before a compiler runs: another kernel, other parameters, a command that cannot be understood.
//!
//! 1. `given`: what a user says, as a file, its options and a [`How`].
//! 2. `stands`: which function of the file the captured kernel is, and whether their parameters agree.
//! 3. `ways`: the compilers that come into question, in order; [`Program::choose`] takes the first with which the unchanged
//!    source is right.
//!
//! # Invariants
//!
//! - A variant is the whole file: what is outside of its regions is the given text, byte for byte.
//! - Lines of what is compiled are lines of the variant: a compiler's message can be shown as it is.

use std::path::PathBuf;

use r3_codegen::recipe::Compiler;
use r3_replay::evaluate::candidate::{Candidate, CandidateCode, SourceCode};
use r3_replay::evaluate::describe::KernelDescription;
use r3_replay::evaluate::{Outcome, Verdict};
use r3_source::region::Regions;
use serde::{Deserialize, Serialize};

use crate::evolve::variant::Variant;

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

/// A source, how it is compiled, and the kernel that it stands for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Text of the file as it was given.
    pub text: String,
    /// The file, for messages; relative to the compiler's folder.
    pub name: String,
    /// Headers that were given with it, by name.
    pub headers: Vec<(String, String)>,
    /// The captured kernel's (mangled) name.
    pub kernel: String,
    /// The function's name in the text, without what qualifies it.
    pub function: String,
    /// How many parameters it has; tells overloaded functions apart.
    pub parameters: usize,
    /// The instance of a template that is meant, as C++ spells it.
    pub instances: Vec<String>,
    /// How it is compiled.
    pub how: How,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Neither a file nor source in the archive.
    #[error("{kernel} has no source in the archive, since the application did not compile it at run time: name its file with --source")]
    NoSource {
        /// The kernel.
        kernel: String,
    },
}

impl Program {
    /// Reads what was given, and finds the kernel in it.
    pub fn new(given: &Given, kernel: &KernelDescription) -> Result<Self, ProgramError> {
        let _ = given;
        Err(ProgramError::NoSource {
            kernel: kernel.readable.clone(),
        })
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
        let _ = text;
        Err(ProgramError::NoSource {
            kernel: self.kernel.clone(),
        })
    }

    /// A variant as a candidate: its code and launch; the build is the default one, for an inner search to change.
    #[must_use]
    pub fn candidate(&self, variant: &Variant) -> Candidate {
        Candidate {
            code: CandidateCode::Source(SourceCode {
                text: variant.text.clone(),
                name: self.name.clone(),
                kernel: None,
                compiler: self.how.compiler,
                program: self.how.program.clone(),
                options: self.how.options.clone(),
                directory: self.how.directory.clone(),
                headers: self.headers.clone(),
                instances: self.instances.clone(),
            }),
            launch: variant.launch,
            ..Candidate::default()
        }
    }

    /// The ways to compile it that come into question, in the order in which they are tried.
    #[must_use]
    pub fn ways(&self) -> Vec<How> {
        vec![self.how.clone()]
    }

    /// The same with another way.
    #[must_use]
    pub fn compiled(&self, how: How) -> Self {
        Self {
            how,
            ..self.clone()
        }
    }

    /// Tries the ways one after the other with the unchanged source, until it is right on every launch. `evaluate` is asked for
    /// the outcome of a candidate (way number, candidate), and may keep it.
    pub fn choose<E: From<ProgramError>>(
        &self,
        evaluate: &mut dyn FnMut(usize, &Candidate) -> Result<Outcome, E>,
    ) -> Result<(Self, Outcome), E> {
        for (number, how) in self.ways().into_iter().enumerate() {
            let program = self.compiled(how);
            let outcome = evaluate(number, &program.candidate(&program.original()))?;
            if outcome.verdict == Verdict::Right {
                return Ok((program, outcome));
            }
        }
        Err(ProgramError::NoSource {
            kernel: self.kernel.clone(),
        }
        .into())
    }
}
