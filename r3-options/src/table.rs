//! The table of options, and the page of documentation that is made from it.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::PathBuf;

use crate::options::{LogLevel, Options, SnapshotScope, SyncScope, Trigger, TriggerSignal};
use crate::path::{DEFAULT_TEMPLATE, OutTemplate};
use crate::selection::{KernelFilter, LaunchRule};
use crate::value::{
    NumberSet, Pattern, number_or_unlimited, seconds, size, size_or_unlimited, whole_number, word,
};

/// Reads a value into the options, or says what it expected.
type Read = fn(&mut Options, &OsStr) -> Result<(), String>;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Name of the environment variable.
    pub env: &'static str,
    /// Name on the command line, without the dashes.
    pub long: &'static str,
    /// Syntax of the value, short.
    pub value_name: &'static str,
    /// The value that stands for the default; empty when the option has none.
    pub default: &'static str,
    /// One line.
    pub help: &'static str,
    /// The rest of what there is to know; may be empty.
    pub details: &'static str,
    /// May be given several times on a command line; the values are joined by newlines.
    pub repeatable: bool,
    read: Read,
}

impl OptionSpec {
    pub(crate) fn read(&self, options: &mut Options, value: &OsStr) -> Result<(), String> {
        (self.read)(options, value)
    }

    /// The option of this command-line name.
    pub fn by_long(long: &str) -> Option<&'static OptionSpec> {
        OPTIONS.iter().find(|spec| spec.long == long)
    }
}

/// Smallest staging memory: below it, no copy could be under way beside another.
const SMALLEST_MEMORY: u64 = 1 << 20;
/// Most worker threads.
const MOST_WORKERS: u64 = 256;

/// Every option of the preloaded library, in the order in which people ask for them.
pub static OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        env: "R3_OUT",
        long: "out",
        value_name: "PATH",
        default: DEFAULT_TEMPLATE,
        help: "Where the archive goes",
        details: "`%h` is the host name, `%p` the process id, `%r` the rank (0 without a parallel launcher), \
                  `%e` the program's file name, `%%` a percent sign. A path that ends in `/` or names an existing \
                  directory gets the default file name in it. Relative paths are relative to the working \
                  directory at the start of the capture. An existing file is never overwritten.",
        repeatable: false,
        read: |options, value| {
            options.out = OutTemplate::parse(value)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_KERNEL",
        long: "kernel",
        value_name: "REGEX",
        default: "",
        help: "Record kernels whose name matches; `!REGEX` leaves kernels out",
        details: "A pattern matches anywhere in the mangled name, in the demangled name \
                  (`void scale<float>(float*, int)`), or in that without the return type; `^` and `$` anchor it. \
                  Several patterns are separated by newlines, or the option is given several times. A kernel is \
                  recorded when some pattern without `!` matches (or there is none) and no pattern with `!` does.",
        repeatable: true,
        read: |options, value| {
            options.kernel = KernelFilter::parse(text(value)?)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_LAUNCHES",
        long: "launches",
        value_name: "RANGES",
        default: "decades",
        help: "Which launches of each kernel and shape, counted from 1: `10,200-210,1000-`",
        details: "Launches are counted apart for each kernel, grid, block and dynamic shared memory. Ranges may come \
                  in any order and overlap; `1000-` has no end; `all` is `1-`. `decades` is 1, 2, 3, then 10, 100, \
                  1000 and so on.",
        repeatable: false,
        read: |options, value| {
            options.launches = match text(value)? {
                "decades" => LaunchRule::Decades,
                list => LaunchRule::Listed(NumberSet::parse(list, 1)?),
            };
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_MAX",
        long: "max",
        value_name: "COUNT",
        default: "unlimited",
        help: "Launches recorded in one process, at most",
        details: "Later launches are counted only. 0 records none.",
        repeatable: false,
        read: |options, value| {
            options.max_launches = number_or_unlimited(text(value)?)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_BUDGET",
        long: "budget",
        value_name: "SIZE",
        default: "8G",
        help: "Size of the archive file, at most",
        details: "Bytes, with an optional binary suffix K, M, G or T; or `unlimited`. A launch that does not fit is \
                  left out. Memory and code may use seven eighths; launch records and the index use the rest, \
                  and can exceed a budget of a few dozen kilobytes.",
        repeatable: false,
        read: |options, value| {
            options.budget = size_or_unlimited(text(value)?)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_MEMORY",
        long: "memory",
        value_name: "SIZE",
        default: "256M",
        help: "Host memory used while recording, at most",
        details: "Bytes, with an optional binary suffix K, M, G or T; at least 1M. The application waits while it is \
                  used up.",
        repeatable: false,
        read: |options, value| {
            options.memory = size(text(value)?, SMALLEST_MEMORY)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_SNAPSHOT",
        long: "snapshot",
        value_name: "SCOPE",
        default: "reachable",
        help: "Which memory is saved: `reachable`, `args` or `all`",
        details: "`reachable`: allocations that the arguments point into, and those that their contents point into, \
                  and so on. `args`: only the first of these. `all`: every allocation. The variables and constants \
                  of the module are always saved.",
        repeatable: false,
        read: |options, value| {
            options.snapshot = word(
                text(value)?,
                &[
                    ("reachable", SnapshotScope::Reachable),
                    ("args", SnapshotScope::Args),
                    ("all", SnapshotScope::All),
                ],
            )?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_RANKS",
        long: "ranks",
        value_name: "RANGES",
        default: "all",
        help: "Which ranks of a parallel job record: `0,2-5`",
        details: "The rank is that of Open MPI, MPICH, MVAPICH, PMIx, Flux, torchrun or Slurm. A process without a \
                  rank counts as rank 0.",
        repeatable: false,
        read: |options, value| {
            options.ranks = NumberSet::parse(text(value)?, 0)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_PROCESS",
        long: "process",
        value_name: "REGEX",
        default: "",
        help: "Record programs whose file name matches",
        details: "A pattern on the name of the executable without its directory, e.g. `^python3`. Other processes run \
                  unrecorded.",
        repeatable: false,
        read: |options, value| {
            options.process = Some(Pattern::parse(text(value)?)?);
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_TRIGGER",
        long: "trigger",
        value_name: "WHEN",
        default: "start",
        help: "When to record: `start`, `profiler`, `signal:USR1`, `signal:USR2` or `file:PATH`",
        details: "`start`: from the start of the process. `profiler`: between `cuProfilerStart` and `cuProfilerStop` \
                  (`cudaProfilerStart` and `cudaProfilerStop`). `signal:USR1`: from one signal to the next. \
                  `file:PATH`: while the file exists. Launches outside are counted, and occurrences count on.",
        repeatable: false,
        read: |options, value| {
            options.trigger = trigger(value)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_SYNC",
        long: "sync",
        value_name: "SCOPE",
        default: "stream",
        help: "What a recorded launch waits for: `stream` or `context`",
        details: "`stream`: earlier work of the launch's own stream. `context`: all work of the context, for programs \
                  whose other streams write the same memory at the same time; it can wait for ever when such work \
                  needs the launching thread.",
        repeatable: false,
        read: |options, value| {
            let words = [
                ("stream", SyncScope::Stream),
                ("context", SyncScope::Context),
            ];
            options.sync = word(text(value)?, &words)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_TIMEOUT",
        long: "timeout",
        value_name: "SECONDS",
        default: "30",
        help: "Longest wait for a stream before a launch is left out",
        details: "Decimals are allowed.",
        repeatable: false,
        read: |options, value| {
            options.timeout = seconds(text(value)?)?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_LEVEL",
        long: "level",
        value_name: "1..19",
        default: "1",
        help: "Compression level (zstd)",
        details: "",
        repeatable: false,
        read: |options, value| {
            let level = whole_number(text(value)?, 1, 19)?;
            options.level = i32::try_from(level).map_err(|error| error.to_string())?;
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_WORKERS",
        long: "workers",
        value_name: "COUNT",
        default: "auto",
        help: "Threads that compress and write",
        details: "`auto` is half of the cores, at least 1 and at most 8.",
        repeatable: false,
        read: |options, value| {
            options.workers = match text(value)? {
                "auto" => None,
                count => {
                    let count = whole_number(count, 1, MOST_WORKERS)?;
                    Some(u32::try_from(count).map_err(|error| error.to_string())?)
                }
            };
            Ok(())
        },
    },
    OptionSpec {
        env: "R3_LOG",
        long: "log",
        value_name: "LEVEL",
        default: "warn",
        help: "How much is said on standard error: `off`, `error`, `warn`, `info` or `debug`",
        details: "",
        repeatable: false,
        read: |options, value| {
            options.log = word(
                text(value)?,
                &[
                    ("off", LogLevel::Off),
                    ("error", LogLevel::Error),
                    ("warn", LogLevel::Warn),
                    ("info", LogLevel::Info),
                    ("debug", LogLevel::Debug),
                ],
            )?;
            Ok(())
        },
    },
];

/// Options of the launcher alone: known to the preloaded library, which ignores them.
pub static LAUNCHER_OPTIONS: &[OptionSpec] = &[OptionSpec {
    env: "R3_LIBRARY",
    long: "library",
    value_name: "PATH",
    default: "",
    help: "The library that the launcher preloads",
    details: "Without it, `libr3.so` beside the program, then in `../lib` and `../lib64` from there.",
    repeatable: false,
    read: |_, _| Ok(()),
}];

/// Variables that tell `r3-replay` where other tools are, and what each names. They may be set for a whole session: the preloaded
/// library ignores them.
pub static TOOL_VARIABLES: &[(&str, &str)] = &[
    ("R3_PTXAS", "NVIDIA's assembler, `ptxas`"),
    ("R3_NVJITLINK", "its linker as a library, `libnvJitLink.so`"),
    ("R3_NVDISASM", "its disassembler, `nvdisasm`"),
    ("R3_CUOBJDUMP", "`cuobjdump`, which disassembles too"),
    ("R3_NVCC", "`nvcc`"),
    ("R3_NVRTC", "the run-time compiler, `libnvrtc.so`"),
    ("R3_CLANG", "`clang++`"),
    (
        "R3_LIBDEVICE",
        "the mathematical functions for bitcode, `libdevice.10.bc`",
    ),
    ("R3_TOOLS", "a folder with what `scripts/setup.sh` fetched"),
];

/// Names that later versions will know, and what they are meant for.
pub(crate) static RESERVED: &[(&str, &str)] = &[(
    "R3_APPLY",
    "is meant for running an application with a tuned kernel",
)];

fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "text in UTF-8".into())
}

fn trigger(value: &OsStr) -> Result<Trigger, String> {
    use std::os::unix::ffi::OsStrExt;
    if let Some(path) = value.as_bytes().strip_prefix(b"file:")
        && !path.is_empty()
        && !path.contains(&0)
    {
        return Ok(Trigger::File(PathBuf::from(OsStr::from_bytes(path))));
    }
    match value.to_str() {
        Some("start") => Ok(Trigger::Start),
        Some("profiler") => Ok(Trigger::Profiler),
        Some("signal:USR1") => Ok(Trigger::Signal(TriggerSignal::Usr1)),
        Some("signal:USR2") => Ok(Trigger::Signal(TriggerSignal::Usr2)),
        _ => Err("start, profiler, signal:USR1, signal:USR2 or file:PATH".into()),
    }
}

/// The text of `docs/options.md`.
pub fn options_page() -> String {
    let mut page = String::from(PAGE_HEAD);
    page.push_str("\n| variable | option | default | what it sets |\n|---|---|---|---|\n");
    for spec in OPTIONS.iter().chain(LAUNCHER_OPTIONS) {
        let default = match spec.default {
            "" => "–".to_owned(),
            value => format!("`{value}`"),
        };
        let value = spec.value_name;
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "| `{}` | `--{} {value}` | {default} | {} |",
            spec.env, spec.long, spec.help
        );
    }
    for spec in OPTIONS
        .iter()
        .chain(LAUNCHER_OPTIONS)
        .filter(|spec| !spec.details.is_empty())
    {
        let _ = write!(
            page,
            "\n## {}\n\n{}.\n{}\n",
            spec.env, spec.help, spec.details
        );
    }
    page.push_str(PAGE_TOOLS);
    for (name, what) in TOOL_VARIABLES {
        let _ = writeln!(page, "| `{name}` | {what} |");
    }
    page
}

const PAGE_TOOLS: &str = "
## Tools of `remix` and `attach`

These variables name tools that are not where R3 looks by itself. The preloaded library ignores them.

| variable | names |
|---|---|
";

const PAGE_HEAD: &str = "\
# Options

<!-- Made from the table in r3-options/src/table.rs by its tests; see there. -->

The preloaded library reads the variables; `r3-replay capture` takes the same settings as options and sets the variables
for the program that it starts. An empty value is the same as none. A variable that starts with `R3_` and is not in this
table, or a value that cannot be read, is reported on standard error, and the program runs unrecorded.
";
