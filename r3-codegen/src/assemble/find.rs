//! Where tools of CUDA are looked for.
//!
//! Nothing of them is part of this project. In this order: the path that an environment variable gives, programs in
//! `PATH` and libraries where the loader looks, `CUDA_HOME` and `CUDA_PATH`, `/usr/local/cuda*`, Python packages
//! (NVIDIA's, and Triton's copies), and what the set-up script of this project fetched (`R3_TOOLS`, or `.tools` in a
//! folder above this program).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A tool: where it may be.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name in messages.
    pub name: &'static str,
    /// The variable with its path.
    pub variable: &'static str,
    /// Names of its file.
    pub files: &'static [&'static str],
    /// It is a program, which may be in `PATH`; otherwise a library, which the loader may know.
    pub program: bool,
    /// Folders of a toolkit in which it may be.
    pub toolkit: &'static [&'static str],
    /// Folders of `site-packages` in which it may be.
    pub packages: &'static [&'static str],
    /// What it cannot do without, from such a folder: other packages bring it, which may not be there.
    pub needs: &'static [&'static str],
}

/// NVIDIA's linker as a library.
pub const NVJITLINK: Tool = Tool {
    name: "nvJitLink",
    variable: "R3_NVJITLINK",
    files: &[
        "libnvJitLink.so.13",
        "libnvJitLink.so.12",
        "libnvJitLink.so",
    ],
    program: false,
    toolkit: &[
        "lib64",
        "lib",
        "targets/x86_64-linux/lib",
        "targets/sbsa-linux/lib",
    ],
    packages: &["nvidia/cu13/lib", "nvidia/nvjitlink/lib"],
    needs: &[],
};

/// NVIDIA's assembler.
pub const PTXAS: Tool = Tool {
    name: "ptxas",
    variable: "R3_PTXAS",
    files: &["ptxas"],
    program: true,
    toolkit: &["bin"],
    packages: &[
        "nvidia/cu13/bin",
        "nvidia/cuda_nvcc/bin",
        "triton/backends/nvidia/bin",
    ],
    needs: &[],
};

/// NVIDIA's disassembler of cubins.
pub const NVDISASM: Tool = Tool {
    name: "nvdisasm",
    variable: "R3_NVDISASM",
    files: &["nvdisasm"],
    ..PTXAS
};

/// NVIDIA's reader of programs with device code.
pub const CUOBJDUMP: Tool = Tool {
    name: "cuobjdump",
    variable: "R3_CUOBJDUMP",
    files: &["cuobjdump"],
    ..PTXAS
};

impl Tool {
    /// Every file that may be it, best first, without the names that only the loader knows.
    pub fn candidates(&self) -> Vec<PathBuf> {
        if let Some(path) = set(self.variable) {
            // Who names one means this one.
            return vec![PathBuf::from(path)];
        }
        let mut found = Vec::new();
        for folder in self.folders() {
            for file in self.files {
                let path = folder.join(file);
                if path.is_file() && !found.contains(&path) {
                    found.push(path);
                }
            }
        }
        found
    }

    /// The first file that is there.
    pub fn find(&self) -> Option<PathBuf> {
        self.candidates().into_iter().find(|path| path.is_file())
    }

    /// For a message: where it was looked for.
    pub fn places(&self) -> String {
        if let Some(path) = set(self.variable) {
            return format!("{} = {}", self.variable, path.display());
        }
        let files = self.files.join(" or ");
        let (first, known) = if self.program {
            ("PATH", paths("PATH").len())
        } else {
            ("the loader's path", 0)
        };
        let mut places = vec![format!("{} (not set)", self.variable), first.to_owned()];
        let folders = self.folders().into_iter().skip(known);
        places.extend(folders.map(|folder| folder.display().to_string()));
        format!("{files} in: {}", places.join(", "))
    }

    fn folders(&self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        if self.program {
            folders.extend(paths("PATH"));
        }
        for toolkit in toolkits() {
            folders.extend(self.toolkit.iter().map(|inner| toolkit.join(inner)));
        }
        for packages in packages() {
            folders.extend(self.inside(&packages));
        }
        folders
    }

    /// Folders of Python packages in which it is whole.
    fn inside(&self, packages: &Path) -> impl Iterator<Item = PathBuf> {
        let folders = self.packages.iter().map(move |inner| packages.join(inner));
        folders.filter(|folder| self.needs.iter().all(|file| folder.join(file).exists()))
    }
}

/// Roots of CUDA toolkits that are installed as NVIDIA's installer does it, whether or not all of them exist.
pub fn toolkits() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
        .iter()
        .filter_map(|name| set(name).map(PathBuf::from))
        .collect();
    roots.push("/usr/local/cuda".into());
    // The newest first, by number and not by letters.
    let mut versions: Vec<_> = entries("/usr/local".as_ref(), "cuda-")
        .into_iter()
        .map(|path| (version_of(&path), path))
        .collect();
    versions.sort();
    roots.extend(versions.into_iter().rev().map(|(_, path)| path));
    roots.dedup();
    roots
}

/// Folders of Python packages that exist: of the active environment, of `python3` in `PATH`, of the user, of the system,
/// and what the set-up script fetched.
pub fn packages() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut of_prefix = |prefix: &Path| {
        for python in entries(&prefix.join("lib"), "python3") {
            folders.push(python.join("site-packages"));
            folders.push(python.join("dist-packages"));
        }
    };
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let Some(prefix) = set(name) {
            of_prefix(Path::new(&prefix));
        }
    }
    for bin in paths("PATH") {
        let python = bin.join("python3");
        for python in [Some(python.clone()), std::fs::canonicalize(python).ok()] {
            if let Some(prefix) = python
                .filter(|python| python.is_file())
                .as_deref()
                .and_then(Path::parent)
                .and_then(Path::parent)
            {
                of_prefix(prefix);
            }
        }
    }
    if let Some(home) = set("HOME") {
        of_prefix(&Path::new(&home).join(".local"));
    }
    of_prefix("/usr/local".as_ref());
    folders.push("/usr/lib/python3/dist-packages".into());
    folders.splice(0..0, paths("PYTHONPATH"));
    for tools in fetched() {
        folders.push(tools.join("assembler"));
        folders.push(tools.join("cuda"));
    }
    let mut seen = BTreeSet::new();
    folders.retain(|folder| folder.is_dir() && seen.insert(folder.clone()));
    folders
}

/// Folders into which the set-up script fetches tools.
fn fetched() -> Vec<PathBuf> {
    if let Some(tools) = set("R3_TOOLS") {
        return vec![tools.into()];
    }
    let program = std::env::current_exe().unwrap_or_default();
    program
        .ancestors()
        .skip(1)
        .map(|folder| folder.join(".tools"))
        .filter(|tools| tools.is_dir())
        .collect()
}

fn set(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn paths(name: &str) -> Vec<PathBuf> {
    set(name)
        .map(|value| {
            std::env::split_paths(&value)
                .filter(|path| path.is_absolute())
                .collect()
        })
        .unwrap_or_default()
}

/// Entries of a folder whose names begin so, in order.
fn entries(folder: &Path, start: &str) -> Vec<PathBuf> {
    let begins = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(start));
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(begins))
        .collect();
    found.sort();
    found
}

fn version_of(path: &Path) -> Vec<u32> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.trim_start_matches("cuda-")
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_without_its_parts_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("assembler/nvidia/cu13/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("r3-no-such-tool"), "").unwrap();
        let tool = Tool {
            name: "a tool",
            variable: "R3_NO_SUCH_TOOL",
            files: &["r3-no-such-tool"],
            needs: &["../nvvm/bin/part"],
            ..PTXAS
        };
        let folder = |packages: &Path| tool.inside(packages).collect::<Vec<_>>();
        let packages = root.path().join("assembler");
        assert_eq!(folder(&packages), Vec::<PathBuf>::new());
        std::fs::create_dir_all(root.path().join("assembler/nvidia/cu13/nvvm/bin/part")).unwrap();
        assert_eq!(folder(&packages), vec![bin]);
    }
}
