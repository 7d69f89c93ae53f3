//! Whether a library can be preloaded into a program, before it is started.

use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::elf::Elf;

/// Why a capture of a program would record nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Statically linked programs have no loader that could preload.
    #[error("{} is statically linked: nothing can be preloaded into it", .0.display())]
    Static(PathBuf),
    /// The loader ignores `LD_PRELOAD` for programs that gain rights.
    #[error("{} runs with other rights than yours ({right}): the system ignores LD_PRELOAD for it", path.display())]
    GainsRights {
        /// The program.
        path: PathBuf,
        /// How.
        right: &'static str,
    },
    /// A program for another processor.
    #[error("{} is for another processor or word size ({found}) than the capture library ({library})", path.display())]
    OtherArchitecture {
        /// The program.
        path: PathBuf,
        /// Its architecture.
        found: String,
        /// The library's.
        library: String,
    },
    /// A loader that cannot load a library made for glibc.
    #[error("{} is started by {loader}, which cannot load the capture library: that needs glibc", path.display())]
    OtherLoader {
        /// The program.
        path: PathBuf,
        /// Its loader.
        loader: String,
    },
    /// A text file that does not name its interpreter.
    #[error("{} is a script without a line `#!interpreter`: start its interpreter instead", .0.display())]
    NoInterpreter(PathBuf),
    /// An interpreter that is not there.
    #[error("{} names the interpreter {interpreter}, which is not there", path.display())]
    InterpreterMissing {
        /// The script.
        path: PathBuf,
        /// What it names.
        interpreter: String,
    },
    /// Neither a program nor a script.
    #[error("{} is no program that this system could start", .0.display())]
    NoProgram(PathBuf),
}

/// Why an archive cannot go where it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputWarning {
    /// The folder is not there; it is not made.
    #[error("nothing will be recorded: the folder {} for the archive does not exist", .0.display())]
    NoFolder(PathBuf),
    /// The folder cannot be written to.
    #[error("nothing will be recorded: the folder {} for the archive is not writable", .0.display())]
    NotWritable(PathBuf),
    /// Archives are never overwritten.
    #[error("{} exists already: the archive gets a numbered name beside it", .0.display())]
    Exists(PathBuf),
}

/// What stands in the way of an archive at `path`.
pub fn output(path: &Path) -> Option<OutputWarning> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Some(OutputWarning::NoFolder(folder.to_owned()));
    }
    if !accessible(folder, libc::W_OK | libc::X_OK) {
        return Some(OutputWarning::NotWritable(folder.to_owned()));
    }
    path.symlink_metadata()
        .is_ok()
        .then(|| OutputWarning::Exists(path.to_owned()))
}

/// A program that cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: no such program", .0.display())]
pub struct NotFound(pub PathBuf);

/// Finds a program as a shell does.
pub fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, NotFound> {
    let missing = || NotFound(PathBuf::from(program));
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(missing())
        };
    }
    std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin")))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file() && executable(candidate))
        .ok_or_else(missing)
}

fn executable(path: &Path) -> bool {
    accessible(path, libc::X_OK)
}

fn accessible(path: &Path, how: libc::c_int) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the string is terminated.
    unsafe { libc::access(path.as_ptr(), how) == 0 }
}

/// What stands in the way of preloading `library` into `program`; `None` when nothing is known to.
pub fn obstacle(program: &Path, library: &Path) -> Option<Obstacle> {
    let mut path = program.to_owned();
    // As many interpreters of interpreters as the kernel follows.
    for _ in 0..5 {
        // What cannot be read may still be started.
        match Elf::read(&path).ok()? {
            Some(elf) => return in_elf(&path, &elf, library).or_else(|| rights(&path)),
            None => match interpreter(&path)? {
                Ok(next) => path = next,
                Err(obstacle) => return Some(obstacle),
            },
        }
    }
    None
}

fn in_elf(path: &Path, elf: &Elf, library: &Path) -> Option<Obstacle> {
    let path = path.to_owned();
    if let Ok(Some(own)) = Elf::read(library)
        && (own.bits, own.machine) != (elf.bits, elf.machine)
    {
        let (found, library) = (architecture(elf), architecture(&own));
        return Some(Obstacle::OtherArchitecture {
            path,
            found,
            library,
        });
    }
    match &elf.loader {
        None => Some(Obstacle::Static(path)),
        Some(loader) if loader.contains("ld-musl") => {
            let loader = loader.clone();
            Some(Obstacle::OtherLoader { path, loader })
        }
        Some(_) => None,
    }
}

fn architecture(elf: &Elf) -> String {
    let name = match elf.machine {
        3 => "x86",
        40 => "arm",
        62 => "x86-64",
        183 => "aarch64",
        other => return format!("{} bits, machine {other}", elf.bits),
    };
    format!("{} bits, {name}", elf.bits)
}

/// Set-user-id, set-group-id and file capabilities make the loader ignore `LD_PRELOAD`, unless
/// nothing is gained by them.
fn rights(path: &Path) -> Option<Obstacle> {
    let gains = |right| {
        Some(Obstacle::GainsRights {
            path: path.to_owned(),
            right,
        })
    };
    let metadata = std::fs::metadata(path).ok()?;
    // SAFETY: queries that cannot fail.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    if metadata.mode() & libc::S_ISUID != 0 && metadata.uid() != user {
        return gains("set-user-id");
    }
    if metadata.mode() & libc::S_ISGID != 0 && metadata.gid() != group {
        return gains("set-group-id");
    }
    if user != 0 && has_capabilities(path) {
        return gains("file capabilities");
    }
    None
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: both strings are terminated; without a buffer only the length is asked for.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// The interpreter of a script; `None` for files that cannot be read.
fn interpreter(path: &Path) -> Option<Result<PathBuf, Obstacle>> {
    let mut start = Vec::new();
    std::fs::File::open(path)
        .ok()?
        .take(256)
        .read_to_end(&mut start)
        .ok()?;
    let Some(rest) = start.strip_prefix(b"#!") else {
        let text = !start.is_empty() && !start.contains(&0);
        let path = path.to_owned();
        return Some(Err(if text {
            Obstacle::NoInterpreter(path)
        } else {
            Obstacle::NoProgram(path)
        }));
    };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let name = line
        .split(|byte| byte.is_ascii_whitespace())
        .find(|word| !word.is_empty())
        .unwrap_or_default();
    let interpreter = PathBuf::from(OsStr::from_bytes(name));
    Some(if interpreter.is_file() {
        Ok(interpreter)
    } else {
        Err(Obstacle::InterpreterMissing {
            path: path.to_owned(),
            interpreter: interpreter.display().to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    /// The test program itself: dynamically linked, for this processor, as the library would be.
    fn library() -> PathBuf {
        std::env::current_exe().unwrap()
    }

    fn file(dir: &tempfile::TempDir, name: &str, content: &[u8]) -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn compile(dir: &tempfile::TempDir, name: &str, options: &[&str]) -> PathBuf {
        let source = dir.path().join("main.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let out = dir.path().join(name);
        let done = Command::new("cc")
            .args(options)
            .arg("-o")
            .arg(&out)
            .arg(&source)
            .status();
        assert!(done.unwrap().success());
        out
    }

    #[test]
    fn an_ordinary_program_has_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(obstacle(&compile(&dir, "dynamic", &[]), &library()), None);
        let shell = find(OsStr::new("sh"), std::env::var_os("PATH").as_deref()).unwrap();
        assert_eq!(obstacle(&shell, &library()), None);
    }

    #[test]
    fn a_statically_linked_program_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(&dir, "static", &["-static"]);
        assert_eq!(
            obstacle(&program, &library()),
            Some(Obstacle::Static(program))
        );
        let program = compile(&dir, "static-pie", &["-static-pie"]);
        assert_eq!(
            obstacle(&program, &library()),
            Some(Obstacle::Static(program))
        );
    }

    #[test]
    fn a_program_for_another_processor_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = std::fs::read(compile(&dir, "dynamic", &[])).unwrap();
        bytes[18..20].copy_from_slice(&8u16.to_le_bytes());
        let program = file(&dir, "mips", &bytes);
        let text = obstacle(&program, &library()).unwrap().to_string();
        assert!(text.contains("64 bits, machine 8"), "{text}");
    }

    #[test]
    fn a_loader_that_is_not_glibc_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let program = compile(
            &dir,
            "musl",
            &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"],
        );
        assert!(matches!(
            obstacle(&program, &library()),
            Some(Obstacle::OtherLoader { .. })
        ));
    }

    #[test]
    fn of_a_script_the_interpreter_counts() {
        let dir = tempfile::tempdir().unwrap();
        let library = library();
        assert_eq!(
            obstacle(&file(&dir, "good", b"#!/bin/sh\necho\n"), &library),
            None
        );
        let none = file(&dir, "none", b"echo hello\n");
        assert_eq!(
            obstacle(&none, &library),
            Some(Obstacle::NoInterpreter(none))
        );
        let missing = file(&dir, "missing", b"#! /no/such/thing -x\n");
        let text = obstacle(&missing, &library).unwrap().to_string();
        assert!(
            text.ends_with("names the interpreter /no/such/thing, which is not there"),
            "{text}"
        );
        let inner = compile(&dir, "static", &["-static"]);
        let line = format!("#!{}\n", inner.display());
        let outer = file(&dir, "outer", line.as_bytes());
        assert_eq!(obstacle(&outer, &library), Some(Obstacle::Static(inner)));
        let data = file(&dir, "data", &[0, 1, 2, 3]);
        assert_eq!(obstacle(&data, &library), Some(Obstacle::NoProgram(data)));
    }

    #[test]
    fn a_truncated_program_is_no_program() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = std::fs::read(compile(&dir, "dynamic", &[])).unwrap();
        for len in [4, 16, 40, 64, 100, 300] {
            let program = file(&dir, "cut", &bytes[..len]);
            // No panic; what is left of the headers decides.
            let _ = obstacle(&program, &library());
        }
    }

    #[test]
    fn programs_are_found_as_a_shell_does() {
        let dir = tempfile::tempdir().unwrap();
        let program = file(&dir, "app", b"#!/bin/sh\n");
        let path = dir.path().as_os_str();
        assert_eq!(find(OsStr::new("app"), Some(path)), Ok(program.clone()));
        assert_eq!(find(program.as_os_str(), None), Ok(program));
        let missing = find(OsStr::new("no-such-app"), Some(path)).unwrap_err();
        assert_eq!(missing.to_string(), "no-such-app: no such program");
    }
}
