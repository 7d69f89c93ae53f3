//! The options, typed, and how they are read from names and values.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::OptionError;
use crate::path::{OutTemplate, ProcessFacts};
use crate::selection::{KernelFilter, LaunchRule};
use crate::table::{LAUNCHER_OPTIONS, OPTIONS, OptionSpec, RESERVED, TOOL_VARIABLES};
use crate::value::{NumberSet, Pattern};

/// Which memory is saved with a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotScope {
    /// What the arguments reach, directly or through pointers in memory, and the module's globals.
    Reachable,
    /// What the arguments point into, and the module's globals.
    Args,
    /// Every allocation, and the module's globals.
    All,
}

/// How much the library says on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What stopped the capture.
    Error,
    /// What is missing from the archive, too.
    Warn,
    /// What is recorded, too.
    Info,
    /// Everything.
    Debug,
}

/// What is waited for before memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// The stream of the launch.
    Stream,
    /// All work of the context.
    Context,
}

/// A signal that starts and stops recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerSignal {
    /// `SIGUSR1`.
    Usr1,
    /// `SIGUSR2`.
    Usr2,
}

/// When launches are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// From the start of the process to its end.
    Start,
    /// Between `cuProfilerStart` and `cuProfilerStop`.
    Profiler,
    /// From one signal to the next.
    Signal(TriggerSignal),
    /// While this file exists.
    File(PathBuf),
}

/// Everything that a user can set.
#[derive(Clone, Debug)]
pub struct Options {
    /// `R3_OUT`: where the archive goes.
    pub out: OutTemplate,
    /// `R3_KERNEL`: which kernels.
    pub kernel: KernelFilter,
    /// `R3_LAUNCHES`: which occurrences.
    pub launches: LaunchRule,
    /// `R3_MAX`: launches recorded, at most.
    pub max_launches: u64,
    /// `R3_BUDGET`: bytes of the archive file, at most.
    pub budget: u64,
    /// `R3_MEMORY`: bytes of host memory for staging, at most.
    pub memory: u64,
    /// `R3_SNAPSHOT`: which memory.
    pub snapshot: SnapshotScope,
    /// `R3_RANKS`: which ranks.
    pub ranks: NumberSet,
    /// `R3_PROCESS`: which programs; `None` for all.
    pub process: Option<Pattern>,
    /// `R3_LOG`: how much is said.
    pub log: LogLevel,
    /// `R3_LEVEL`: zstd level.
    pub level: i32,
    /// `R3_WORKERS`: threads that compress and write; `None` for [`Options::workers`]' own choice.
    pub workers: Option<u32>,
    /// `R3_TIMEOUT`: how long to wait for a stream.
    pub timeout: Duration,
    /// `R3_SYNC`: what is waited for.
    pub sync: SyncScope,
    /// `R3_TRIGGER`: when.
    pub trigger: Trigger,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            out: OutTemplate::default_template(),
            kernel: KernelFilter::default(),
            launches: LaunchRule::Decades,
            max_launches: u64::MAX,
            budget: 8 << 30,
            memory: 256 << 20,
            snapshot: SnapshotScope::Reachable,
            ranks: NumberSet::all(),
            process: None,
            log: LogLevel::Warn,
            level: 1,
            workers: None,
            timeout: Duration::from_secs(30),
            sync: SyncScope::Stream,
            trigger: Trigger::Start,
        }
    }
}

impl Options {
    /// Reads the variables that start with `R3_`; others are not looked at.
    pub fn from_env(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<OptionError>> {
        let mut options = Self::default();
        let mut errors = Vec::new();
        for (name, value) in variables {
            let Some(name) = option_name(&name) else {
                continue;
            };
            if LAUNCHER_OPTIONS.iter().any(|spec| spec.env == name)
                || TOOL_VARIABLES.iter().any(|&(tool, _)| tool == name)
            {
                continue;
            }
            let result = match OPTIONS.iter().find(|spec| spec.env == name) {
                Some(spec) => options.set(spec, &name, &value),
                None => Err(match RESERVED.iter().find(|(known, _)| *known == name) {
                    Some((_, purpose)) => OptionError::Reserved { name, purpose },
                    None => OptionError::unknown(&name),
                }),
            };
            errors.extend(result.err());
        }
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(errors)
        }
    }

    /// Reads options of a command line; messages name them by their long form.
    /// The values of one repeated option are to be joined by newlines first.
    pub fn from_arguments<'a>(
        arguments: impl IntoIterator<Item = (&'a OptionSpec, OsString)>,
    ) -> Result<Self, Vec<OptionError>> {
        let mut options = Self::default();
        let mut errors = Vec::new();
        for (spec, value) in arguments {
            errors.extend(options.set(spec, &format!("--{}", spec.long), &value).err());
        }
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(errors)
        }
    }

    fn set(&mut self, spec: &OptionSpec, name: &str, value: &OsStr) -> Result<(), OptionError> {
        if value.is_empty() {
            return Ok(());
        }
        spec.read(self, value)
            .map_err(|expected| OptionError::malformed(name, &value.to_string_lossy(), expected))
    }

    /// The archive's path for one process. Relative paths are relative to the
    /// working directory at the time of the call.
    pub fn out_path(&self, facts: &ProcessFacts) -> PathBuf {
        self.out.path(facts)
    }

    /// Is a process of this program and rank recorded? Without a rank it counts as rank 0.
    pub fn process_selected(&self, facts: &ProcessFacts) -> bool {
        let program = facts.program().to_string_lossy();
        self.ranks.contains(u64::from(facts.rank.unwrap_or(0)))
            && self
                .process
                .as_ref()
                .is_none_or(|pattern| pattern.matches(&program))
    }

    /// Threads that compress and write, on a machine with this many cores: as
    /// set, else half of the cores, at least 1 and at most 8.
    pub fn workers(&self, cores: usize) -> usize {
        match self.workers {
            Some(workers) => workers as usize,
            None => (cores / 2).clamp(1, 8),
        }
    }
}

/// The name, when it is one of ours. Names are ASCII; another byte in one is
/// shown as a replacement character in the message that follows.
fn option_name(name: &OsStr) -> Option<String> {
    name.as_encoded_bytes()
        .starts_with(b"R3_")
        .then(|| name.to_string_lossy().into_owned())
}
