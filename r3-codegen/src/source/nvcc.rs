//! nvcc: device code of a file, as PTX.

use std::path::Path;
use std::process::Command;

use super::find::{self, NVCC};
use super::options::{Dialect, Options};
use super::unit::Unit;
use super::{Compiled, missing, refused, spell};
use crate::assemble::tool;
use crate::recipe::{Code, Failure, Source, Stage};

/// Compiles.
pub fn compile(source: &Source, target: &str) -> Result<Compiled, Failure> {
    let program = match &source.program {
        Some(program) => program.clone(),
        None => NVCC
            .find()
            .ok_or_else(|| missing(format!("nvcc is not here: {}", NVCC.places())))?,
    };
    let options = Options::read(&source.options, Dialect::Nvcc);
    let unit = Unit::new(source)?;
    let output = unit.scratch.file("device.ptx");
    let mut command = Command::new(&program);
    command.current_dir(&unit.directory);
    command.args(["-ptx", &format!("-arch={target}")]);
    command.args(spell::nvcc(&options));
    for folder in &unit.includes {
        command.arg("-I").arg(folder);
    }
    if unit.is_copy() {
        let maps = unit.prefix_maps().into_iter();
        command.args(maps.map(|map| format!("-Xcompiler={map}")));
    }
    command.args(["-x", "cu"]).arg(&unit.file);
    let words = super::words(&command);
    command.arg("-o").arg(&output);
    tool::run(&mut command, Stage::Source).map_err(|failure| unit.plain(failure))?;
    let ptx =
        std::fs::read(&output).map_err(|error| refused(format!("nvcc left no PTX: {error}")))?;
    let version = version(&program);
    Ok(Compiled {
        code: Code::Ptx(
            unit.with_steady_names(String::from_utf8_lossy(&ptx).into_owned(), &source.text),
        ),
        kernels: Vec::new(),
        compiler: format!("nvcc {version}"),
        command: words,
        directory: unit.directory,
        notes: super::unknown(&options),
    })
}

/// `13.0.88`, where it says so.
fn version(program: &Path) -> String {
    let found = find::version(program, ", V").ok().flatten();
    found.unwrap_or_else(|| "of unknown version".to_owned())
}
