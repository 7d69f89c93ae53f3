//! What is given for kernels: as PTX, and what that was made from.

use std::path::Path;

use r3_archive::chunk::ChunkId;
use r3_archive::model::{AttachedBuild, AttachedForm, ModuleId, SourceId};
use r3_codegen::recipe::{Code, Failure, Pipeline, Preset, Recipe, Source};
use r3_codegen::source::files;
use r3_image::{CodeForm, Image};

use crate::names::{printable, printable_lines};
use crate::remix::compiler::Compile;

/// Code that was given.
#[derive(Clone, Debug)]
pub struct Given {
    /// The file, or what else it came from, for people.
    pub file: String,
    /// Hash of the file.
    pub hash: [u8; 16],
    /// PTX.
    pub ptx: String,
    /// What the PTX was made from, the last step first.
    pub made_from: Vec<(AttachedForm, Vec<u8>)>,
    /// How it was compiled.
    pub build: Option<AttachedBuild>,
    /// The recorded source that was compiled.
    pub source: Option<SourceId>,
    /// Only kernels of this module are meant.
    pub module: Option<ModuleId>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Why a file could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    /// It cannot be read.
    #[error("{file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// There is no PTX in it.
    #[error(
        "{file}: there is no PTX in it{}",
        match .forms.as_str() { "" => String::new(), forms => format!(": it has {forms}") }
    )]
    NoPtx {
        /// The file.
        file: String,
        /// What is in it.
        forms: String,
    },
    /// It could not be compiled.
    #[error("{}: {}{}", printable(.file), lines(&.failure.message), log(&.failure.log, &.failure.message))]
    Compile {
        /// The file.
        file: String,
        /// What the compiler said.
        failure: Box<Failure>,
    },
    /// Its PTX cannot be unpacked.
    #[error("{file}: its PTX cannot be unpacked: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
}

impl Given {
    /// PTX as it is: a text, or an image with PTX in it, of which that for architecture `sm` is taken.
    pub fn ptx(file: &Path, sm: u32) -> Result<Self, GivenError> {
        let bytes = read(file)?;
        Self::ptx_of(file.display().to_string(), bytes, sm)
    }

    /// The same of bytes.
    pub fn ptx_of(file: String, bytes: Vec<u8>, sm: u32) -> Result<Self, GivenError> {
        let hash = ChunkId::of(&bytes).0;
        let image = Image::from_vec(bytes);
        let mut entries: Vec<_> = image
            .entries()
            .iter()
            .filter(|entry| entry.form == CodeForm::Ptx)
            .collect();
        entries.sort_by_key(|entry| (entry.sm <= sm, entry.sm, entry.arch_suffix));
        let Some(entry) = entries.last() else {
            let forms = image.code_forms();
            return Err(GivenError::NoPtx {
                file,
                forms: match forms.is_empty() {
                    true => String::new(),
                    false => crate::code::spell_forms(&forms),
                },
            });
        };
        let payload = entry.payload().map_err(|error| GivenError::Damaged {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            ptx: String::from_utf8_lossy(&payload).into_owned(),
            file,
            hash,
            made_from: Vec::new(),
            build: None,
            source: None,
            module: None,
            notes: Vec::new(),
        })
    }
}

impl Given {
    /// LLVM bitcode, or LLVM IR as text, of clang, Triton or others; compiled to PTX.
    pub fn llvm(file: &Path, target: &str, compiler: &dyn Compile) -> Result<Self, GivenError> {
        let bytes = read(file)?;
        Self::llvm_of(file.display().to_string(), bytes, target, compiler)
    }

    fn llvm_of(
        file: String,
        bytes: Vec<u8>,
        target: &str,
        compiler: &dyn Compile,
    ) -> Result<Self, GivenError> {
        let hash = ChunkId::of(&bytes).0;
        let (form, code) = match String::from_utf8(bytes) {
            Ok(text) => (AttachedForm::Llvm, Code::Llvm(text)),
            Err(error) => (AttachedForm::Bitcode, Code::Bitcode(error.into_bytes())),
        };
        let (ptx, notes) = to_ptx(&file, code.clone(), target, compiler)?;
        Ok(Self {
            file,
            hash,
            ptx,
            made_from: vec![(form, bytes_of(code))],
            build: None,
            source: None,
            module: None,
            notes,
        })
    }

    /// CUDA C++, compiled to PTX: by a compiler that gives PTX, or by one that gives LLVM IR, which is kept.
    pub fn source(
        source: &Source,
        target: &str,
        compiler: &dyn Compile,
    ) -> Result<Self, GivenError> {
        let file = source.name.display().to_string();
        let compiled = compiler.compile_source(source, target);
        let compiled = compiled.map_err(|failure| GivenError::Compile {
            file: file.clone(),
            failure: Box::new(failure),
        })?;
        let mut notes = compiled.notes;
        let mut made_from = Vec::new();
        let ptx = match compiled.code {
            Code::Ptx(text) => text,
            code => {
                let (ptx, more) = to_ptx(&file, code.clone(), target, compiler)?;
                notes.extend(more);
                made_from.push((AttachedForm::Bitcode, bytes_of(code)));
                ptx
            }
        };
        made_from.push((AttachedForm::Source, source.text.clone().into_bytes()));
        Ok(Self {
            hash: ChunkId::of(source.text.as_bytes()).0,
            file,
            ptx,
            made_from,
            build: Some(AttachedBuild {
                compiler: compiled.compiler,
                command: compiled.command,
                directory: compiled.directory.display().to_string(),
            }),
            source: None,
            module: None,
            notes,
        })
    }
}

/// LLVM IR to PTX as its own compiler would make it: `-O3`. Where the IR allows contraction, the PTX leaves it to the
/// assembler: what is fused is then as open as the source has it, and verification without a GPU knows that it is.
fn to_ptx(
    file: &str,
    code: Code,
    target: &str,
    compiler: &dyn Compile,
) -> Result<(String, Vec<String>), GivenError> {
    let recipe = Recipe {
        target: Some(target.to_owned()),
        pipeline: Pipeline::Preset(Preset::O3),
        inline_functions: true,
        ..Recipe::new(code)
    };
    match compiler.compile(&recipe) {
        Ok(product) => Ok((product.ptx, product.notes)),
        Err(failure) => Err(GivenError::Compile {
            file: file.to_owned(),
            failure: Box::new(failure),
        }),
    }
}

fn bytes_of(code: Code) -> Vec<u8> {
    match code {
        Code::Ptx(text) | Code::Llvm(text) => text.into_bytes(),
        Code::Bitcode(bytes) | Code::LtoIr(bytes) => bytes,
        Code::Source(source) => source.text.into_bytes(),
    }
}

/// A message of several lines, for people.
fn lines(message: &str) -> String {
    printable_lines(message).replace('\n', "\n  ")
}

/// Lines of a log that are told, from its end.
const LOG_LINES: usize = 30;

/// The end of a log below a message, when it says more.
fn log(log: &str, message: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let start = lines.len().saturating_sub(LOG_LINES);
    match lines.get(start..) {
        None | Some([]) => String::new(),
        Some([only]) if message.contains(only.trim()) => String::new(),
        Some(lines) => lines
            .iter()
            .map(|line| format!("\n  {}", printable(line)))
            .collect(),
    }
}

/// The bytes of a file.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, GivenError> {
    files::read(file, files::CODE).map_err(|error| GivenError::Read {
        file: file.display().to_string(),
        reason: error.to_string(),
    })
}
