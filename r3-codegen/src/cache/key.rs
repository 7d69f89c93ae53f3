//! What makes two questions the same: the recipe, and everything that answers it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::includes::{self, Known};
use crate::assemble::find::{CUOBJDUMP, NVDISASM, NVJITLINK, PTXAS, Tool};
use crate::recipe::{AssemblerKind, Code, Compiler, Recipe, Source};
use crate::source::find::{CLANG, NVCC, NVRTC};
use crate::{libdevice, passes};

/// Increases when what is stored, or how a question is put, changes.
const VERSION: u32 = 2;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// All of it, as a cache stores it beside the answer.
    pub bytes: Vec<u8>,
    /// By which it is found.
    pub hash: u128,
}

/// What is stored as the question.
#[derive(Serialize)]
struct Question<'a> {
    version: u32,
    tools: Identity,
    recipe: &'a Recipe,
}

/// The same of a source that is to be compiled by its own compiler alone.
#[derive(Serialize)]
struct SourceQuestion<'a> {
    /// No recipe begins so.
    kind: &'static str,
    version: u32,
    tools: Identity,
    /// What it reads beside its text.
    reads: Vec<File>,
    source: &'a Source,
    target: &'a str,
}

/// What answers a question.
#[derive(Serialize)]
struct Identity {
    /// The program that workers are.
    program: u128,
    llvm: (u32, u32, u32),
    /// Files that take part, absent ones too.
    files: Vec<File>,
}

/// A file, told from others without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct File {
    path: PathBuf,
    /// Bytes, seconds and nanoseconds of its last change, number on its device. `None`: it is not there.
    state: Option<(u64, i64, i64, u64)>,
}

impl File {
    pub(super) fn of(path: &Path) -> File {
        // What a symbolic link leads to counts.
        let state = std::fs::metadata(path).ok().map(|found| {
            let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
            (found.len(), seconds, nanoseconds, found.ino())
        });
        File {
            path: path.to_owned(),
            state,
        }
    }

    /// Its length; `None`: it is not there.
    pub(super) fn bytes(&self) -> Option<u64> {
        self.state.map(|(bytes, _, _, _)| bytes)
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Where all tools are. They are looked for once, as workers' environment is that of one moment; whether they changed is
/// asked with each recipe.
#[derive(Debug)]
pub(super) struct Tools {
    program: u128,
    /// LLVM's library, where it is not in the program.
    llvm: Vec<PathBuf>,
    ptxas: Vec<PathBuf>,
    nvjitlink: Vec<PathBuf>,
    disassemblers: Vec<PathBuf>,
    nvcc: Vec<PathBuf>,
    nvrtc: Vec<PathBuf>,
    clang: Vec<PathBuf>,
    libdevice: Vec<PathBuf>,
}

impl Tools {
    /// Those of workers that are this program.
    pub fn of(worker: &Path) -> Tools {
        let all = |tool: Tool| tool.candidates();
        let nvcc: Vec<PathBuf> = all(NVCC);
        // The compiler proper, which nvcc starts.
        let proper = nvcc
            .iter()
            .filter_map(|path| Some(path.parent()?.parent()?.join("nvvm/bin/cicc")));
        Tools {
            program: program(worker),
            llvm: mapped("libLLVM"),
            ptxas: all(PTXAS),
            nvjitlink: all(NVJITLINK),
            disassemblers: [NVDISASM, CUOBJDUMP].into_iter().flat_map(all).collect(),
            nvcc: nvcc.iter().cloned().chain(proper).collect(),
            nvrtc: all(NVRTC),
            clang: all(CLANG),
            libdevice: libdevice::find().ok().into_iter().collect(),
        }
    }

    fn identity(&self, recipe: &Recipe) -> Identity {
        let mut paths: Vec<&PathBuf> = self.llvm.iter().collect();
        if recipe.emit.cubin {
            let kind = recipe.assembler.kind;
            if kind != AssemblerKind::NvJitLink {
                paths.extend(&self.ptxas);
            }
            if kind != AssemblerKind::Ptxas {
                paths.extend(&self.nvjitlink);
            }
            paths.extend(&self.disassemblers);
        }
        match &recipe.code {
            Code::Ptx(_) => {}
            Code::Bitcode(_) | Code::Llvm(_) => paths.extend(&self.libdevice),
            Code::LtoIr(_) => paths.extend(&self.nvjitlink),
            // Asked as a question of its own.
            Code::Source(_) => {}
        }
        self.identity_of(paths)
    }

    fn identity_of_source(&self, source: &Source) -> Identity {
        let mut paths: Vec<&PathBuf> = self.llvm.iter().collect();
        paths.extend(&source.program);
        let (nvcc, nvrtc, clang) = match source.compiler {
            Compiler::Any => (true, true, true),
            Compiler::Nvcc => (true, false, false),
            Compiler::Nvrtc => (false, true, false),
            Compiler::Clang => (false, false, true),
        };
        let lists = [
            (nvcc, &self.nvcc),
            (nvrtc, &self.nvrtc),
            (clang, &self.clang),
        ];
        for (takes_part, list) in lists {
            if takes_part {
                paths.extend(list);
            }
        }
        paths.extend(&self.libdevice);
        self.identity_of(paths)
    }

    fn identity_of(&self, paths: Vec<&PathBuf>) -> Identity {
        let mut files: Vec<File> = paths.into_iter().map(|path| File::of(path)).collect();
        files.dedup();
        Identity {
            program: self.program,
            llvm: passes::llvm_version(),
            files,
        }
    }
}

impl Key {
    /// The question of a recipe whose code is no source; `None` when answers to it cannot be kept.
    pub fn of(recipe: &Recipe, tools: &Tools) -> Option<Key> {
        if let Code::Source(_) = &recipe.code {
            return None;
        }
        let bytes = postcard::to_stdvec(&Question {
            version: VERSION,
            tools: tools.identity(recipe),
            recipe,
        });
        Self::new(bytes.ok()?)
    }

    /// The question of a source; `None` when answers to it cannot be kept, since nobody knows which files it reads.
    pub fn of_source(source: &Source, target: &str, tools: &Tools, known: &Known) -> Option<Key> {
        let bytes = postcard::to_stdvec(&SourceQuestion {
            kind: "source by its own compiler",
            version: VERSION,
            tools: tools.identity_of_source(source),
            reads: includes::files(source, known)?,
            source,
            target,
        });
        Self::new(bytes.ok()?)
    }

    fn new(bytes: Vec<u8>) -> Option<Key> {
        Some(Key {
            hash: xxh3_128(&bytes),
            bytes,
        })
    }
}

/// What tells a program from every other one: the number that its linker gave it by its content, else its content itself.
fn program(path: &Path) -> u128 {
    let number = || {
        let file = object::ReadCache::new(std::fs::File::open(path).ok()?);
        let parsed = object::File::parse(&file).ok()?;
        let number = object::Object::build_id(&parsed).ok()??;
        // Short ones are no hashes of contents.
        (number.len() >= 8).then(|| xxh3_128(number))
    };
    number().unwrap_or_else(|| content(path))
}

/// Hash of what a file has in it; 0 when it cannot be read, with which nothing is mistaken for another since the
/// program could not be started either.
fn content(path: &Path) -> u128 {
    let Ok(mut file) = std::fs::File::open(path) else {
        return 0;
    };
    let mut hash = Xxh3::new();
    let mut part = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut file, &mut part) {
            Ok(0) => return hash.digest128(),
            Ok(got) => hash.update(part.get(..got).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}

/// Files with such a name that are mapped into this process: workers link the same libraries.
fn mapped(name: &str) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| Some(PathBuf::from(line.get(line.find('/')?..)?)))
        .filter(|path| {
            let file = path.file_name().and_then(|file| file.to_str());
            file.is_some_and(|file| file.starts_with(name))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_from_others() {
        let own = std::env::current_exe().unwrap();
        let copy = tempfile::tempdir().unwrap();
        let (same, other) = (copy.path().join("same"), copy.path().join("other"));
        std::fs::copy(&own, &same).unwrap();
        std::fs::write(&other, "another").unwrap();
        assert_eq!(program(&own), program(&same));
        assert_ne!(program(&own), program(&other));
        assert_ne!(program(&other), 0);
        assert_eq!(program(&copy.path().join("none")), 0);
    }

    #[test]
    fn a_changed_tool_is_another_question() {
        let folder = tempfile::tempdir().unwrap();
        let ptxas = folder.path().join("ptxas");
        std::fs::write(&ptxas, "one").unwrap();
        let tools = Tools {
            program: 1,
            llvm: Vec::new(),
            ptxas: vec![ptxas.clone()],
            nvjitlink: Vec::new(),
            disassemblers: Vec::new(),
            nvcc: Vec::new(),
            nvrtc: Vec::new(),
            clang: Vec::new(),
            libdevice: Vec::new(),
        };
        let mut recipe = Recipe::new(Code::Ptx(String::new()));
        let without = Key::of(&recipe, &tools).unwrap();
        recipe.emit.cubin = true;
        let before = Key::of(&recipe, &tools).unwrap();
        assert_eq!(Key::of(&recipe, &tools).unwrap(), before);
        std::fs::write(&ptxas, "another").unwrap();
        assert_ne!(Key::of(&recipe, &tools).unwrap().hash, before.hash);
        // Who makes no cubin does not care.
        recipe.emit.cubin = false;
        assert_eq!(Key::of(&recipe, &tools).unwrap(), without);
        let other = Tools {
            program: 2,
            ..tools
        };
        assert_ne!(Key::of(&recipe, &other).unwrap().hash, without.hash);
    }
}
