//! Compilers and CUDA toolkits on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::assemble::find::{PTXAS, Tool, packages, toolkits};
use crate::assemble::tool;
use crate::recipe::{Compiler, Failure, Stage};

/// nvcc.
pub const NVCC: Tool = Tool {
    name: "nvcc",
    variable: "R3_NVCC",
    files: &["nvcc"],
    program: true,
    toolkit: &["bin"],
    packages: &["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"],
    // Its compiler proper and the headers are packages of their own; who wants ptxas has the first alone.
    needs: &["../nvvm/bin/cicc", "../include/cuda_runtime.h"],
};

/// NVIDIA's run-time compiler.
pub const NVRTC: Tool = Tool {
    name: "NVRTC",
    variable: "R3_NVRTC",
    files: &[
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so.11.2",
        "libnvrtc.so",
    ],
    program: false,
    toolkit: &[
        "lib64",
        "lib",
        "targets/x86_64-linux/lib",
        "targets/sbsa-linux/lib",
    ],
    packages: &["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"],
    needs: &[],
};

/// clang: 22 first, whose bitcode is certain to be read; then older ones, then newer ones, which give PTX instead.
pub const CLANG: Tool = Tool {
    name: "clang",
    variable: "R3_CLANG",
    files: &[
        "clang++-22",
        "clang++-21",
        "clang++-20",
        "clang++-19",
        "clang++-18",
        "clang++-17",
        "clang++",
        "clang++-25",
        "clang++-24",
        "clang++-23",
    ],
    program: true,
    toolkit: &[],
    packages: &[],
    needs: &[],
};

/// Which compiler a file is, by its name.
pub fn kind(path: &Path) -> Option<Compiler> {
    let name = path.file_name()?.to_str()?;
    if name.contains("nvrtc") {
        Some(Compiler::Nvrtc)
    } else if name.contains("nvcc") {
        Some(Compiler::Nvcc)
    } else if name.contains("clang") {
        Some(Compiler::Clang)
    } else {
        None
    }
}

/// A program as a shell in `directory` would find it.
pub fn in_path(program: &str, directory: &Path) -> Option<PathBuf> {
    let path = match program.contains('/') {
        true => directory.join(program),
        false => {
            let folders = std::env::var_os("PATH")?;
            std::env::split_paths(&folders)
                .map(|folder| folder.join(program))
                .find(|path| path.is_file())?
        }
    };
    path.is_file().then_some(path)
}

/// A CUDA toolkit: where its headers and libdevice are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolkit {
    /// Its root, which has `include/cuda_runtime.h`.
    pub root: PathBuf,
}

impl Toolkit {
    fn at(root: &Path) -> Option<Self> {
        let headers = root.join("include/cuda_runtime.h");
        headers.is_file().then(|| Self {
            root: root.to_owned(),
        })
    }

    /// The one that is given, else the one beside nvcc or `ptxas`, else those where toolkits are installed.
    pub fn find(given: Option<&str>) -> Option<Self> {
        if let Some(given) = given {
            return Self::at(Path::new(given));
        }
        let installed = toolkits().into_iter();
        let of_packages = packages()
            .into_iter()
            .map(|folder| folder.join("nvidia/cu13"));
        let beside = [NVCC, PTXAS].into_iter().filter_map(|tool| {
            let program = tool.find()?;
            let program = program.canonicalize().unwrap_or(program);
            Some(program.parent()?.parent()?.to_owned())
        });
        installed
            .chain(of_packages)
            .chain(beside)
            .find_map(|root| Self::at(&root))
    }

    /// Folders of headers: CUDA's own, and CCCL's, on which cooperative groups stand.
    pub fn includes(&self) -> Vec<PathBuf> {
        ["include", "include/cccl"]
            .iter()
            .map(|inner| self.root.join(inner))
            .filter(|folder| folder.is_dir())
            .collect()
    }

    /// Whether clang finds libdevice in it.
    pub fn has_libdevice(&self) -> bool {
        self.root.join("nvvm/libdevice/libdevice.10.bc").is_file()
    }
}

/// What a program says of its version: the first match of `marker`, up to a space or comma behind it.
pub fn version(program: &Path, marker: &str) -> Result<Option<String>, Failure> {
    let said = tool::run(Command::new(program).arg("--version"), Stage::Source)?;
    let text = String::from_utf8_lossy(&said.output).into_owned();
    let after = text.split_once(marker).map(|(_, after)| after);
    let number = after.map(|after| {
        let end = |c: char| !(c.is_ascii_digit() || c == '.');
        after.split(end).next().unwrap_or_default().to_owned()
    });
    Ok(number.filter(|number| !number.is_empty()))
}
