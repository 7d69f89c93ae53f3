//! Options of the CUDA compilers, as far as device code depends on them.
//!
//! nvcc, clang and NVRTC spell the same wishes differently, and build systems add much that is about host code, outputs
//! and dependencies. [`Options::read`] keeps what decides which device code comes out, whichever compiler it was written
//! for; [`super::nvcc`], [`super::clang`] and [`super::nvrtc`] spell it for theirs.

/// Whose spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// nvcc, and scripts that stand for it, such as Kokkos' `nvcc_wrapper`.
    Nvcc,
    /// clang, and other compilers whose options are GCC's.
    Clang,
    /// NVRTC.
    Nvrtc,
}

/// What the preprocessor is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preprocess {
    /// `-I`.
    Include(String),
    /// `-isystem`.
    System(String),
    /// `-iquote`.
    Quote(String),
    /// `-idirafter`.
    After(String),
    /// `-D`.
    Define(String),
    /// `-U`.
    Undefine(String),
    /// `-include`.
    File(String),
}

/// What device code depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folders, macros and headers.
    pub preprocess: Vec<Preprocess>,
    /// `c++17`.
    pub standard: Option<String>,
    /// `3` of `-O3`.
    pub level: Option<String>,
    /// `-use_fast_math`.
    pub fast_math: bool,
    /// `-fgpu-approx-transcendentals`: fast mathematical functions alone.
    pub fast_functions: bool,
    /// `-ftz`.
    pub flush: Option<bool>,
    /// `-prec-div`.
    pub precise_division: Option<bool>,
    /// `-prec-sqrt`.
    pub precise_root: Option<bool>,
    /// `-fmad`.
    pub contraction: Option<bool>,
    /// `--expt-relaxed-constexpr`.
    pub relaxed_constexpr: bool,
    /// `--expt-extended-lambda`.
    pub extended_lambda: bool,
    /// `-maxrregcount`.
    pub max_registers: Option<String>,
    /// `-rdc=true`, `-dc`.
    pub relocatable: bool,
    /// `-lineinfo`.
    pub lines: bool,
    /// `-G`.
    pub device_debug: bool,
    /// `-ccbin`.
    pub host_compiler: Option<String>,
    /// For the host compiler, which nvcc has preprocess device code, too.
    pub host: Vec<String>,
    /// `--cuda-path`.
    pub toolkit: Option<String>,
    /// Architectures without `sm_` and `compute_`: `90a`.
    pub architectures: Vec<String>,
    /// Options that only the compiler of this spelling has.
    pub own: Vec<(Dialect, String)>,
    /// Files that were to be compiled.
    pub files: Vec<String>,
    /// Files with more options.
    pub option_files: Vec<String>,
    /// Options that nothing is known of, and that were left out.
    pub unknown: Vec<String>,
}

/// How an option gets its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// It has none, or one after `=` that may be left out.
    Nothing,
    /// After `=`, or the next argument.
    Value,
    /// Directly behind its name, after `=`, or the next argument.
    Joined,
}

/// What an option is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Include,
    System,
    Quote,
    After,
    Define,
    Undefine,
    File,
    Standard,
    Level,
    FastMath,
    FastFunctions,
    Flush,
    NoFlush,
    PreciseDivision,
    PreciseRoot,
    Contraction,
    ContractionMode,
    RelaxedConstexpr,
    ExtendedLambda,
    MaxRegisters,
    Relocatable,
    Lines,
    DeviceDebug,
    HostCompiler,
    Host,
    Toolkit,
    Architecture,
    Generate,
    PerThreadStream,
    OptionFile,
    /// Only the compiler of this spelling knows it.
    Own(Dialect),
    /// Host code, output, dependencies, linking, machine code.
    Nothing,
}

use About as A;
use Takes::{Joined, Nothing, Value};

/// Options by name, without their dashes. Where compilers mean different things by one name, the first entry of the
/// dialect, or of none, is taken.
const TABLE: &[(&str, Takes, About)] = &[
    ("I", Joined, A::Include),
    ("include-path", Value, A::Include),
    ("isystem", Joined, A::System),
    ("system-include", Value, A::System),
    ("iquote", Joined, A::Quote),
    ("idirafter", Joined, A::After),
    ("D", Joined, A::Define),
    ("define-macro", Value, A::Define),
    ("U", Joined, A::Undefine),
    ("undefine-macro", Value, A::Undefine),
    ("include", Value, A::File),
    ("pre-include", Value, A::File),
    ("std", Value, A::Standard),
    ("optimize", Value, A::Level),
    ("use_fast_math", Nothing, A::FastMath),
    ("use-fast-math", Nothing, A::FastMath),
    ("ffast-math", Nothing, A::FastMath),
    ("fgpu-approx-transcendentals", Nothing, A::FastFunctions),
    ("fcuda-approx-transcendentals", Nothing, A::FastFunctions),
    ("ftz", Value, A::Flush),
    ("fcuda-flush-denormals-to-zero", Nothing, A::Flush),
    ("fgpu-flush-denormals-to-zero", Nothing, A::Flush),
    ("fno-cuda-flush-denormals-to-zero", Nothing, A::NoFlush),
    ("fno-gpu-flush-denormals-to-zero", Nothing, A::NoFlush),
    ("prec-div", Value, A::PreciseDivision),
    ("prec-sqrt", Value, A::PreciseRoot),
    ("fmad", Value, A::Contraction),
    ("ffp-contract", Value, A::ContractionMode),
    ("expt-relaxed-constexpr", Nothing, A::RelaxedConstexpr),
    ("expt-extended-lambda", Nothing, A::ExtendedLambda),
    ("extended-lambda", Nothing, A::ExtendedLambda),
    ("maxrregcount", Value, A::MaxRegisters),
    ("rdc", Value, A::Relocatable),
    ("relocatable-device-code", Value, A::Relocatable),
    ("dc", Nothing, A::Relocatable),
    ("device-c", Nothing, A::Relocatable),
    ("fgpu-rdc", Nothing, A::Relocatable),
    ("fcuda-rdc", Nothing, A::Relocatable),
    ("lineinfo", Nothing, A::Lines),
    ("generate-line-info", Nothing, A::Lines),
    ("G", Nothing, A::DeviceDebug),
    ("device-debug", Nothing, A::DeviceDebug),
    ("ccbin", Value, A::HostCompiler),
    ("compiler-bindir", Value, A::HostCompiler),
    ("Xcompiler", Value, A::Host),
    ("compiler-options", Value, A::Host),
    ("cuda-path", Value, A::Toolkit),
    ("arch", Value, A::Architecture),
    ("gpu-architecture", Value, A::Architecture),
    ("cuda-gpu-arch", Value, A::Architecture),
    ("offload-arch", Value, A::Architecture),
    ("gencode", Value, A::Generate),
    ("generate-code", Value, A::Generate),
    ("default-stream", Value, A::PerThreadStream),
    ("optf", Value, A::OptionFile),
    ("options-file", Value, A::OptionFile),
    // Kept for the compiler that has them.
    ("allow-unsupported-compiler", Nothing, A::Own(Dialect::Nvcc)),
    ("Xcudafe", Value, A::Own(Dialect::Nvcc)),
    ("Xcicc", Value, A::Own(Dialect::Nvcc)),
    ("extra-device-vectorization", Nothing, A::Own(Dialect::Nvcc)),
    ("restrict", Nothing, A::Own(Dialect::Nvcc)),
    ("static-global-template-stub", Value, A::Own(Dialect::Nvcc)),
    ("mllvm", Value, A::Own(Dialect::Clang)),
    ("Xclang", Value, A::Own(Dialect::Clang)),
    ("sysroot", Value, A::Own(Dialect::Clang)),
    ("isysroot", Value, A::Own(Dialect::Clang)),
    ("stdlib", Value, A::Own(Dialect::Clang)),
    ("nostdinc++", Nothing, A::Own(Dialect::Clang)),
    ("fms-extensions", Nothing, A::Own(Dialect::Clang)),
    (
        "device-as-default-execution-space",
        Nothing,
        A::Own(Dialect::Nvrtc),
    ),
    ("default-device", Nothing, A::Own(Dialect::Nvrtc)),
    ("device-int128", Nothing, A::Own(Dialect::Nvrtc)),
    ("device-float128", Nothing, A::Own(Dialect::Nvrtc)),
    ("builtin-move-forward", Value, A::Own(Dialect::Nvrtc)),
    ("builtin-initializer-list", Value, A::Own(Dialect::Nvrtc)),
    ("no-source-include", Nothing, A::Own(Dialect::Nvrtc)),
    ("minimal", Nothing, A::Own(Dialect::Nvrtc)),
    ("modify-stack-limit", Value, A::Own(Dialect::Nvrtc)),
    ("split-compile", Value, A::Nothing),
    // NVRTC would write files, or take what it wrote before. Options may come with a stranger's archive.
    ("fdevice-time-trace", Nothing, A::Nothing),
    ("pch", Nothing, A::Nothing),
    ("create-pch", Nothing, A::Nothing),
    ("use-pch", Nothing, A::Nothing),
    ("pch-dir", Nothing, A::Nothing),
    ("pch-verbose", Nothing, A::Nothing),
    ("pch-messages", Nothing, A::Nothing),
    ("instantiate-templates-in-pch", Nothing, A::Nothing),
    ("optimization-info", Nothing, A::Nothing),
    // About something else, with a value that must not be taken for a file.
    ("o", Joined, A::Nothing),
    ("output-file", Value, A::Nothing),
    ("odir", Value, A::Nothing),
    ("output-directory", Value, A::Nothing),
    ("MF", Joined, A::Nothing),
    ("MT", Joined, A::Nothing),
    ("MQ", Joined, A::Nothing),
    ("MJ", Joined, A::Nothing),
    ("dependency-output", Value, A::Nothing),
    ("dependency-target-name", Value, A::Nothing),
    ("x", Joined, A::Nothing),
    ("code", Value, A::Nothing),
    ("gpu-code", Value, A::Nothing),
    ("L", Joined, A::Nothing),
    ("library-path", Value, A::Nothing),
    ("l", Joined, A::Nothing),
    ("library", Value, A::Nothing),
    ("Xptxas", Value, A::Nothing),
    ("ptxas-options", Value, A::Nothing),
    ("Xlinker", Value, A::Nothing),
    ("linker-options", Value, A::Nothing),
    ("Xnvlink", Value, A::Nothing),
    ("nvlink-options", Value, A::Nothing),
    ("Xarchive", Value, A::Nothing),
    ("Xfatbin", Value, A::Nothing),
    ("fatbin-options", Value, A::Nothing),
    ("Xassembler", Value, A::Nothing),
    ("Xpreprocessor", Value, A::Nothing),
    ("cudart", Value, A::Nothing),
    ("cudadevrt", Value, A::Nothing),
    ("keep-dir", Value, A::Nothing),
    ("t", Value, A::Nothing),
    ("threads", Value, A::Nothing),
    ("m", Joined, A::Nothing),
    ("machine", Value, A::Nothing),
    ("diag-suppress", Value, A::Nothing),
    ("diag-warn", Value, A::Nothing),
    ("diag-error", Value, A::Nothing),
    ("Werror", Value, A::Nothing),
    ("time", Value, A::Nothing),
    ("compress-mode", Value, A::Nothing),
    ("rpath", Value, A::Nothing),
    ("target", Value, A::Nothing),
    ("target-directory", Value, A::Nothing),
    ("dumpdir", Value, A::Nothing),
    ("param", Value, A::Nothing),
    ("dlink-time-opt", Nothing, A::Nothing),
    ("dlto", Nothing, A::Nothing),
];

/// Options without a value that are about something else, by how they begin. Others are left out as well, and told.
const NOTHING: &[&str] = &[
    "c",
    "compile",
    "M",
    "W",
    "f",
    "g",
    "w",
    "pedantic",
    "pipe",
    "pthread",
    "shared",
    "static",
    "save-temps",
    "keep",
    "dryrun",
    "v",
    "verbose",
    "res-usage",
    "resource-usage",
    "no-align-double",
    "noprof",
    "forward-unknown",
    "generate-dep",
    "disable-warnings",
    "display-error",
    "nogpu",
    "nocuda",
    "no-cuda",
    "cuda-device-only",
    "cuda-host-only",
    "no-offload",
    "offload",
    "no-gpu",
    "rdynamic",
    "s",
    "source-in-ptx",
    "ansi",
    "no-compress",
    "compress-all",
    "E",
    "S",
    "fatbin",
    "cubin",
    "ptx",
    "ltoir",
    "link",
    "dlink",
    "ewp",
];

impl Options {
    /// Reads arguments, without the compiler's name, of a command in some dialect.
    pub fn read(arguments: &[String], dialect: Dialect) -> Self {
        let mut options = Self::default();
        options.add(arguments, dialect);
        options
    }

    /// Adds more arguments.
    pub fn add(&mut self, arguments: &[String], dialect: Dialect) {
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if let Some(file) = argument.strip_prefix('@') {
                self.option_files.push(file.to_owned());
            } else if argument == "-" || !argument.starts_with('-') {
                self.files.push(argument.clone());
            } else {
                self.option(argument, dialect, &mut rest);
            }
        }
    }

    fn option<'a>(
        &mut self,
        argument: &str,
        dialect: Dialect,
        rest: &mut impl Iterator<Item = &'a String>,
    ) {
        let Some((about, takes, value)) = find(argument, dialect) else {
            return self.unknown(argument, dialect);
        };
        let value = match (takes, value) {
            (Nothing, value) => value,
            (_, Some(value)) => Some(value),
            (_, None) => rest.next().cloned(),
        };
        self.keep(argument, about, takes, value, dialect);
    }

    fn unknown(&mut self, argument: &str, dialect: Dialect) {
        let body = argument.trim_start_matches('-');
        if dialect == Dialect::Nvrtc {
            // What NVRTC was given once it takes again. A text may name a file that is then written.
            let value = argument.split_once('=').map(|(_, value)| value);
            let harmless =
                |value: &str| matches!(value, "true" | "false") || value.parse::<u32>().is_ok();
            match value.is_none_or(harmless) {
                true => self.own.push((dialect, argument.to_owned())),
                false => self.unknown.push(argument.to_owned()),
            }
        } else if !NOTHING.iter().any(|start| body.starts_with(start)) {
            self.unknown.push(argument.to_owned());
        }
    }

    fn keep(
        &mut self,
        argument: &str,
        about: About,
        takes: Takes,
        value: Option<String>,
        dialect: Dialect,
    ) {
        let holds = value
            .as_deref()
            .is_none_or(|value| value != "false" && value != "0");
        let text = value.clone().unwrap_or_default();
        match about {
            A::Include => self.folders(&text, dialect, Preprocess::Include),
            A::System => self.folders(&text, dialect, Preprocess::System),
            A::Quote => self.preprocess.push(Preprocess::Quote(text)),
            A::After => self.preprocess.push(Preprocess::After(text)),
            A::Define => self.preprocess.push(Preprocess::Define(text)),
            A::Undefine => self.preprocess.push(Preprocess::Undefine(text)),
            A::File => self.preprocess.push(Preprocess::File(text)),
            A::Standard => self.standard = Some(text),
            A::Level => self.level = Some(text),
            A::FastMath => self.fast_math = holds,
            A::FastFunctions => self.fast_functions = true,
            A::Flush => self.flush = Some(holds),
            A::NoFlush => self.flush = Some(false),
            A::PreciseDivision => self.precise_division = Some(holds),
            A::PreciseRoot => self.precise_root = Some(holds),
            A::Contraction => self.contraction = Some(holds),
            A::ContractionMode => self.contraction = Some(text != "off"),
            A::RelaxedConstexpr => self.relaxed_constexpr = true,
            A::ExtendedLambda => self.extended_lambda = true,
            A::MaxRegisters => self.max_registers = Some(text),
            A::Relocatable => self.relocatable = holds,
            A::Lines => self.lines = true,
            A::DeviceDebug => self.device_debug = true,
            A::HostCompiler => self.host_compiler = Some(text),
            A::Host => self.host(&text),
            A::Toolkit => self.toolkit = Some(text),
            A::Architecture => self.architecture(&text),
            A::Generate => self.generate(&text),
            A::PerThreadStream if text == "per-thread" => {
                let define = "CUDA_API_PER_THREAD_DEFAULT_STREAM=1".to_owned();
                self.preprocess.push(Preprocess::Define(define));
            }
            A::OptionFile => self.option_files.extend(text.split(',').map(str::to_owned)),
            A::Own(dialect) => {
                let joined = argument.contains('=') || takes == Nothing;
                self.own.push((dialect, argument.to_owned()));
                if let (false, Some(value)) = (joined, value) {
                    self.own.push((dialect, value));
                }
            }
            A::PerThreadStream | A::Nothing => {}
        }
    }

    /// nvcc takes lists.
    fn folders(&mut self, text: &str, dialect: Dialect, make: fn(String) -> Preprocess) {
        let parts: Vec<&str> = match dialect {
            Dialect::Nvcc => text.split(',').filter(|part| !part.is_empty()).collect(),
            Dialect::Clang | Dialect::Nvrtc => vec![text],
        };
        let folders = parts.into_iter().map(|part| make(part.to_owned()));
        self.preprocess.extend(folders);
    }

    /// Options for the host compiler: a list, of which each may be several words. What the preprocessor is told counts
    /// for device code, too.
    fn host(&mut self, text: &str) {
        let words: Vec<String> = text
            .split(',')
            .flat_map(|part| shlex::split(part).unwrap_or_else(|| vec![part.to_owned()]))
            .collect();
        let found = Self::read(&words, Dialect::Clang);
        self.preprocess.extend(found.preprocess);
        let about_macros = |word: &&String| {
            [
                "-fopenmp",
                "-march",
                "-mtune",
                "-m",
                "-pthread",
                "-fno-exceptions",
                "-fno-rtti",
            ]
            .iter()
            .any(|start| word.starts_with(start))
        };
        self.host.extend(words.iter().filter(about_macros).cloned());
    }

    fn architecture(&mut self, text: &str) {
        for part in text.split(',') {
            let part = part.trim_matches(['[', ']', '"', '\'']);
            let number = ["sm_", "compute_", "lto_"]
                .iter()
                .find_map(|start| part.strip_prefix(start));
            if let Some(number) = number
                && number.starts_with(|c: char| c.is_ascii_digit())
                && !self.architectures.iter().any(|known| known == number)
            {
                self.architectures.push(number.to_owned());
            }
        }
    }

    /// `arch=compute_90,code=[sm_90,compute_90]`.
    fn generate(&mut self, text: &str) {
        let code = text.split_once("code=").map(|(_, code)| code);
        self.architecture(code.unwrap_or(text).trim_start_matches("arch="));
    }

    /// Target for device code that ran on architecture `sm`: with the suffix that the command had for it.
    pub fn target(&self, sm: u32) -> String {
        let number = sm.to_string();
        let suffix = |known: &&String| {
            let suffix = known.strip_prefix(number.as_str());
            suffix.is_some_and(|suffix| suffix.is_empty() || matches!(suffix, "a" | "f"))
        };
        let mut known: Vec<&String> = self.architectures.iter().filter(suffix).collect();
        known.sort();
        match known.last() {
            Some(known) => format!("sm_{known}"),
            None => format!("sm_{sm}"),
        }
    }

    /// Options that only a compiler of this spelling has.
    pub fn own(&self, dialect: Dialect) -> impl Iterator<Item = &String> {
        let own = self.own.iter().filter(move |(whose, _)| *whose == dialect);
        own.map(|(_, option)| option)
    }
}

/// What an argument is about, and its value where that is part of it.
fn find(argument: &str, dialect: Dialect) -> Option<(About, Takes, Option<String>)> {
    let body = argument
        .strip_prefix("--")
        .or_else(|| argument.strip_prefix('-'))?;
    let entry = |name: &str| TABLE.iter().find(|(known, _, _)| *known == name).copied();
    // GCC's and clang's `-Werror`, `-t…` and so on have no value.
    let values_of_nvcc = |name: &str| matches!(name, "Werror" | "t" | "time" | "code" | "G" | "dc");
    let entry = |name: &str| match dialect {
        Dialect::Clang if values_of_nvcc(name) => None,
        _ => entry(name),
    };
    if let Some((_, takes, about)) = entry(body) {
        return Some((about, takes, None));
    }
    if let Some((name, value)) = body.split_once('=')
        && let Some((_, takes, about)) = entry(name)
    {
        return Some((about, takes, Some(value.to_owned())));
    }
    // `-O3`, `-Ofast`, `-Os`; `-O` alone is `-O1`.
    if let Some(level) = body.strip_prefix('O') {
        return Some((
            A::Level,
            Nothing,
            Some(if level.is_empty() { "1" } else { level }.to_owned()),
        ));
    }
    let joined = TABLE
        .iter()
        .filter(|(name, takes, _)| *takes == Joined && body.starts_with(name))
        .max_by_key(|(name, _, _)| name.len())?;
    let (name, takes, about) = *joined;
    // A long name that begins with a short one is another option.
    let long = argument.starts_with("--") || (name.len() == 1 && !"IDULlmox".contains(name));
    let value = body.get(name.len()..)?;
    (!long).then(|| (about, takes, Some(value.to_owned())))
}
