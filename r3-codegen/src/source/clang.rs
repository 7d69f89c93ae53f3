//! clang: device code of a file, as bitcode that no pass has seen.

use std::path::PathBuf;
use std::process::Command;

use super::find::{self, CLANG, Toolkit};
use super::options::{Dialect, Options};
use super::unit::{Unit, write};
use super::{Compiled, missing, refused, spell};
use crate::assemble::tool;
use crate::recipe::{Code, Failure, Source, Stage};

/// The oldest clang whose bitcode is read.
const OLDEST: u32 = 17;

/// The newest: that of the LLVM in this program.
const NEWEST: u32 = 22;

/// Declarations for plain kernels, for a machine without a CUDA toolkit: files by name.
const DECLARATIONS: &[(&str, &str)] = &[
    ("r3_device.h", include_str!("../../cuda/r3_device.h")),
    ("cuda_runtime.h", include_str!("../../cuda/cuda_runtime.h")),
    (
        "crt/sm_70_rt.hpp",
        include_str!("../../cuda/crt/sm_70_rt.hpp"),
    ),
];

/// Names of CUDA's headers which those declarations stand for.
const STANDS_FOR: &[&str] = &[
    "cuda.h",
    "cuda_runtime_api.h",
    "device_launch_parameters.h",
    "device_functions.h",
    "math_constants.h",
    "vector_types.h",
    "vector_functions.h",
    "sm_20_intrinsics.h",
];

/// Compiles. A clang that is newer than the LLVM in this program gives PTX, since its bitcode could not be read.
pub fn compile(source: &Source, target: &str) -> Result<Compiled, Failure> {
    let (program, version) = match &source.program {
        Some(program) => (program.clone(), find::version(program, "clang version ")?),
        None => found()?,
    };
    let version = version.unwrap_or_else(|| "0".to_owned());
    let options = Options::read(&source.options, Dialect::Clang);
    let unit = Unit::new(source)?;
    let as_ptx = major(&version) > NEWEST;
    let (words, mut notes) = spell::clang(&options);
    notes.extend(super::unknown(&options));

    let mut command = Command::new(&program);
    command.current_dir(&unit.directory);
    command.args([
        "-x",
        "cuda",
        "--cuda-device-only",
        &format!("--cuda-gpu-arch={target}"),
    ]);
    // clang names every target that it does not know yet, and every toolkit.
    command.args(["-Wno-unknown-cuda-version", "-ferror-limit=20"]);
    let level = options.level.as_deref().unwrap_or("3");
    command.arg(format!("-O{}", if level == "0" { "1" } else { level }));
    let output = match as_ptx {
        true => {
            command.arg("-S");
            unit.scratch.file("device.ptx")
        }
        false => {
            // As it comes from the front end: passes are what a recipe is about.
            command.args(["-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]);
            unit.scratch.file("device.bc")
        }
    };
    command.args(words);
    for folder in &unit.includes {
        command.arg("-I").arg(folder);
    }
    let toolkit = toolkit(&options);
    match &toolkit {
        Some(toolkit) => with_toolkit(&mut command, toolkit, &unit)?,
        None => {
            without_toolkit(&mut command, &unit, target)?;
            notes.push(
                "there is no CUDA toolkit here: compiled with R3's own declarations of what plain kernels use"
                    .to_owned(),
            );
        }
    }
    if unit.is_copy() {
        command.args(unit.prefix_maps());
    }
    command.arg(&unit.file);
    let words = super::words(&command);
    command.arg("-o").arg(&output);
    let run = tool::run(&mut command, Stage::Source).map_err(|failure| unit.plain(failure));
    run.map_err(|failure| match toolkit {
        Some(_) => failure,
        None => Failure {
            message: format!(
                "{} (there is no CUDA toolkit here, and R3's own declarations are for plain kernels: name one with \
                 CUDA_HOME)",
                failure.message
            ),
            ..failure
        },
    })?;
    let bytes = std::fs::read(&output)
        .map_err(|error| refused(format!("clang left no result: {error}")))?;
    Ok(Compiled {
        code: match as_ptx {
            true => Code::Ptx(String::from_utf8_lossy(&bytes).into_owned()),
            false => Code::Bitcode(steady(bytes, source, &unit)),
        },
        kernels: Vec::new(),
        compiler: format!("clang {version}"),
        command: words,
        directory: unit.directory,
        notes,
    })
}

/// Bitcode names the file that it is of: a copy is in another folder each time.
fn steady(bytes: Vec<u8>, source: &Source, unit: &Unit) -> Vec<u8> {
    let renamed = unit
        .is_copy()
        .then(|| crate::compile::of_file(&bytes, &source.name.to_string_lossy()));
    renamed.flatten().unwrap_or(bytes)
}

/// `--cuda-path=none` asks for R3's own declarations.
fn toolkit(options: &Options) -> Option<Toolkit> {
    match options.toolkit.as_deref() {
        Some("none") => None,
        given => Toolkit::find(given),
    }
}

fn with_toolkit(command: &mut Command, toolkit: &Toolkit, unit: &Unit) -> Result<(), Failure> {
    command.arg(format!("--cuda-path={}", toolkit.root.display()));
    // clang's wrapper includes a header of cuRAND, which is a package of its own.
    let stub = unit.scratch.path().join("stub");
    write(&stub.join("curand_mtgp32_kernel.h"), "")?;
    command.arg("-isystem").arg(stub);
    for folder in toolkit.includes() {
        command.arg("-isystem").arg(folder);
    }
    if !toolkit.has_libdevice() {
        command.arg("-nogpulib");
    }
    Ok(())
}

fn without_toolkit(command: &mut Command, unit: &Unit, target: &str) -> Result<(), Failure> {
    let folder = unit.scratch.path().join("cuda");
    for (name, text) in DECLARATIONS {
        write(&folder.join(name), text)?;
    }
    for name in STANDS_FOR {
        write(&folder.join(name), "#include \"cuda_runtime.h\"\n")?;
    }
    command
        .args(["-nocudainc", "-nogpulib", "-isystem"])
        .arg(&folder);
    command.args(["-include", "r3_device.h"]);
    // The version of PTX would be that of the toolkit.
    command.arg(format!("--cuda-feature=+ptx{}", least_ptx(target)));
    Ok(())
}

/// A version of PTX that has the target, and that every clang knows which has it.
fn least_ptx(target: &str) -> u32 {
    let digits = target
        .trim_start_matches("sm_")
        .trim_end_matches(['a', 'f']);
    match digits.parse().unwrap_or(0) {
        0..100 => 80,
        100..=101 => 86,
        120 => 87,
        _ => 88,
    }
}

/// The first clang that is not too old, and its version.
fn found() -> Result<(PathBuf, Option<String>), Failure> {
    let mut old = Vec::new();
    let debian = (OLDEST..=NEWEST + 3)
        .rev()
        .map(|version| PathBuf::from(format!("/usr/lib/llvm-{version}/bin/clang++")))
        // Who names one means this one.
        .filter(|path| path.is_file() && !named());
    let mut newer = None;
    for path in CLANG.candidates().into_iter().chain(debian) {
        let Ok(version) = find::version(&path, "clang version ") else {
            continue;
        };
        let number = version.as_deref().map_or(0, major);
        if (OLDEST..=NEWEST).contains(&number) || named() {
            return Ok((path, version));
        }
        match number > NEWEST {
            true => newer = newer.or(Some((path, version))),
            false => old.push(path.display().to_string()),
        }
    }
    newer.ok_or_else(|| {
        missing(match old.is_empty() {
            true => format!("clang is not here: {}", CLANG.places()),
            false => format!(
                "clang {OLDEST} or newer is needed; older ones are here: {}",
                old.join(", ")
            ),
        })
    })
}

/// Whether the user names one.
fn named() -> bool {
    std::env::var_os(CLANG.variable).is_some_and(|value| !value.is_empty())
}

fn major(version: &str) -> u32 {
    let number = version.split('.').next().and_then(|part| part.parse().ok());
    number.unwrap_or(0)
}
