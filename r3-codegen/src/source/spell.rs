//! Options in each compiler's spelling.

use std::path::Path;

use super::options::{Dialect, Options, Preprocess};

/// In nvcc's spelling, with what only other compilers have: [`Options::read`] gives the same options again.
pub fn neutral(options: &Options) -> Vec<String> {
    let mut words = plain_nvcc(options);
    if options.fast_functions {
        words.push("-fgpu-approx-transcendentals".to_owned());
    }
    words.extend(options.own(Dialect::Clang).cloned());
    words.extend(options.own(Dialect::Nvrtc).cloned());
    words.extend(
        options
            .toolkit
            .iter()
            .map(|path| format!("--cuda-path={path}")),
    );
    let architectures = options.architectures.iter();
    words.extend(
        architectures.map(|number| format!("-gencode=arch=compute_{number},code=sm_{number}")),
    );
    words
}

/// For nvcc, without architecture and files.
pub fn nvcc(options: &Options) -> Vec<String> {
    plain_nvcc(&with_fast_functions(options))
}

/// Where only fast functions are asked for: NVIDIA's compilers have one switch for them and for fast arithmetic, and one
/// for each kind of arithmetic, which wins.
fn with_fast_functions(options: &Options) -> Options {
    let mut options = options.clone();
    if options.fast_functions && !options.fast_math {
        options.fast_math = true;
        options.flush.get_or_insert(false);
        options.precise_division.get_or_insert(true);
        options.precise_root.get_or_insert(true);
    }
    options
}

fn plain_nvcc(options: &Options) -> Vec<String> {
    let mut words = Vec::new();
    for item in &options.preprocess {
        match item {
            Preprocess::Include(folder) => words.push(format!("-I{folder}")),
            Preprocess::System(folder) => words.extend(["-isystem".to_owned(), folder.clone()]),
            // nvcc has no such options of its own.
            Preprocess::Quote(folder) => words.push(format!("-Xcompiler=-iquote,{folder}")),
            Preprocess::After(folder) => words.push(format!("-Xcompiler=-idirafter,{folder}")),
            Preprocess::Define(text) => words.push(format!("-D{text}")),
            Preprocess::Undefine(text) => words.push(format!("-U{text}")),
            Preprocess::File(file) => words.extend(["-include".to_owned(), file.clone()]),
        }
    }
    let mut word = |holds: bool, word: &str| {
        if holds {
            words.push(word.to_owned());
        }
    };
    word(options.fast_math, "-use_fast_math");
    word(options.relaxed_constexpr, "--expt-relaxed-constexpr");
    word(options.extended_lambda, "--extended-lambda");
    word(options.relocatable, "-rdc=true");
    word(options.lines, "-lineinfo");
    word(options.device_debug, "-G");
    for (name, value) in [
        ("-ftz", options.flush),
        ("-prec-div", options.precise_division),
        ("-prec-sqrt", options.precise_root),
        ("-fmad", options.contraction),
    ] {
        words.extend(value.map(|value| format!("{name}={value}")));
    }
    words.extend(options.standard.iter().map(|name| format!("-std={name}")));
    // nvcc passes `-Ofast` and the like to the host compiler alone.
    words.extend(options.level.iter().map(|level| format!("-O{level}")));
    words.extend(
        options
            .max_registers
            .iter()
            .map(|n| format!("-maxrregcount={n}")),
    );
    words.extend(
        options
            .host_compiler
            .iter()
            .map(|path| format!("-ccbin={path}")),
    );
    words.extend(options.host.iter().map(|word| format!("-Xcompiler={word}")));
    words.extend(options.own(Dialect::Nvcc).cloned());
    words
}

/// For clang, without architecture, toolkit and files; and what it has no option for.
pub fn clang(options: &Options) -> (Vec<String>, Vec<String>) {
    let mut words = Vec::new();
    let mut notes = Vec::new();
    for item in &options.preprocess {
        match item {
            Preprocess::Include(folder) => words.push(format!("-I{folder}")),
            Preprocess::System(folder) => words.extend(["-isystem".to_owned(), folder.clone()]),
            Preprocess::Quote(folder) => words.extend(["-iquote".to_owned(), folder.clone()]),
            Preprocess::After(folder) => words.extend(["-idirafter".to_owned(), folder.clone()]),
            Preprocess::Define(text) => words.push(format!("-D{text}")),
            Preprocess::Undefine(text) => words.push(format!("-U{text}")),
            Preprocess::File(file) => words.extend(["-include".to_owned(), file.clone()]),
        }
    }
    let mut word = |holds: bool, word: &str| {
        if holds {
            words.push(word.to_owned());
        }
    };
    word(options.relocatable, "-fgpu-rdc");
    word(options.lines, "-gline-tables-only");
    // What headers ask for that were written for nvcc; clang always allows both.
    word(
        options.relaxed_constexpr,
        "-D__CUDACC_RELAXED_CONSTEXPR__=1",
    );
    word(options.extended_lambda, "-D__CUDACC_EXTENDED_LAMBDA__=1");
    word(options.fast_math, "-ffast-math");
    word(
        options.fast_math || options.fast_functions,
        "-fgpu-approx-transcendentals",
    );
    let flush = options.flush.unwrap_or(options.fast_math);
    word(flush, "-fgpu-flush-denormals-to-zero");
    word(options.contraction == Some(false), "-ffp-contract=off");
    words.extend(options.standard.iter().map(|name| format!("-std={name}")));
    words.extend(options.own(Dialect::Clang).cloned());
    let mut note = |holds: bool, name: &str| {
        if holds {
            notes.push(format!("clang has no counterpart of {name} here"));
        }
    };
    note(options.precise_division == Some(false), "-prec-div=false");
    note(options.precise_root == Some(false), "-prec-sqrt=false");
    note(options.max_registers.is_some(), "-maxrregcount");
    (words, notes)
}

/// For NVRTC, without architecture. Folders are relative to `directory`, since a library has no folder of its own.
pub fn nvrtc(options: &Options, directory: &Path) -> Vec<String> {
    let options = &with_fast_functions(options);
    let mut words = Vec::new();
    for item in &options.preprocess {
        match item {
            Preprocess::Include(folder)
            | Preprocess::System(folder)
            | Preprocess::Quote(folder)
            | Preprocess::After(folder) => {
                words.push(format!("-I{}", directory.join(folder).display()));
            }
            Preprocess::Define(text) => words.push(format!("-D{text}")),
            Preprocess::Undefine(text) => words.push(format!("-U{text}")),
            Preprocess::File(file) => {
                words.push(format!("--pre-include={}", directory.join(file).display()));
            }
        }
    }
    let mut word = |holds: bool, word: &str| {
        if holds {
            words.push(word.to_owned());
        }
    };
    word(options.fast_math, "--use_fast_math");
    word(options.extended_lambda, "--extended-lambda");
    word(options.relocatable, "--relocatable-device-code=true");
    word(options.lines, "--generate-line-info");
    word(options.device_debug, "--device-debug");
    for (name, value) in [
        ("--ftz", options.flush),
        ("--prec-div", options.precise_division),
        ("--prec-sqrt", options.precise_root),
        ("--fmad", options.contraction),
    ] {
        words.extend(value.map(|value| format!("{name}={value}")));
    }
    let standard = options
        .standard
        .as_ref()
        .map(|name| name.replace("gnu++", "c++"));
    words.extend(standard.map(|name| format!("--std={name}")));
    words.extend(
        options
            .max_registers
            .iter()
            .map(|n| format!("--maxrregcount={n}")),
    );
    words.extend(options.own(Dialect::Nvrtc).cloned());
    words
}
