//! `capture`: starts a program with the capture library preloaded.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use r3_options::{
    LAUNCHER_OPTIONS, OPTIONS, OptionError, OptionSpec, Options, ProcessFacts, rank_from_env,
};

use super::output::complain;
use super::{FAILED, Failure};
use crate::capture::{library, preflight};

/// Run a program and record its CUDA launches.
///
/// The program replaces this one, and keeps its process id; its exit code is its own. Options are
/// the `R3_*` variables under other names; variables that are set already hold where no option is
/// given.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: TableOptions,

    /// The program and its arguments, after `--`.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

/// The options of the table, as they were given.
struct TableOptions(Vec<(&'static OptionSpec, OsString)>);

impl clap::Args for TableOptions {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        for spec in OPTIONS.iter().chain(LAUNCHER_OPTIONS) {
            let mut help = format!("{} [{}]", spec.help, spec.env);
            if !spec.default.is_empty() {
                help.push_str(&format!(" [default: {}]", spec.default));
            }
            command = command.arg(
                Arg::new(spec.long)
                    .long(spec.long)
                    .value_name(spec.value_name)
                    .help(help)
                    .allow_hyphen_values(true)
                    .value_parser(clap::value_parser!(OsString))
                    .action(if spec.repeatable {
                        ArgAction::Append
                    } else {
                        ArgAction::Set
                    }),
            );
        }
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TableOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for spec in OPTIONS.iter().chain(LAUNCHER_OPTIONS) {
            let Ok(Some(values)) = matches.try_get_many::<OsString>(spec.long) else {
                continue;
            };
            let values: Vec<&OsStr> = values.map(OsString::as_os_str).collect();
            given.push((spec, values.join(OsStr::new("\n"))));
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the command. Returns only when the program could not be started.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Failure::Message("no program was given".to_owned()));
    };
    // Words behind the first one are the program's; a first one with a dash is a mistyped option.
    if let Some(option) = program.to_str().filter(|word| word.starts_with('-')) {
        return Err(Failure::Message(unknown(option)));
    }
    let given = &args.options.0;
    Options::from_arguments(given.iter().cloned()).map_err(failure)?;
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| !given.iter().any(|(spec, _)| name == spec.env))
        .collect();
    environment.extend(
        given
            .iter()
            .map(|(spec, value)| (spec.env.into(), value.clone())),
    );
    // Variables that were set before may be wrong, too.
    let options = Options::from_env(environment.iter().cloned()).map_err(failure)?;
    let value = |name: &str| {
        environment
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let own = std::env::current_exe()
        .map_err(|error| Failure::Message(format!("cannot tell where this program is: {error}")))?;
    let library_given = value("R3_LIBRARY")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let library = library::find(library_given.as_deref(), &own).map_err(Failure::new)?;
    let path = preflight::find(program, value("PATH").as_deref()).map_err(Failure::new)?;
    if let Some(obstacle) = preflight::obstacle(&path, &library) {
        complain(&format!("nothing will be recorded: {obstacle}"));
    }
    if let Some(warning) = preflight::output(&out_path(&options, &path, &value)) {
        complain(&warning.to_string());
    }
    let preload = library::preload(value("LD_PRELOAD"), &library);
    let error = Command::new(&path)
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .env("LD_PRELOAD", preload)
        .exec();
    complain(&format!("cannot start {}: {error}", path.display()));
    Ok(FAILED)
}

/// The message for a word that is no option.
fn unknown(word: &str) -> String {
    let name = word.split('=').next().unwrap_or(word);
    let variable = format!(
        "R3_{}",
        name.trim_start_matches('-')
            .to_ascii_uppercase()
            .replace('-', "_")
    );
    // The table knows the names that are near.
    let nearest = match Options::from_env([(variable.into(), "x".into())]) {
        Err(errors) => errors.into_iter().find_map(|error| match error {
            OptionError::Unknown { nearest, .. } => nearest,
            _ => None,
        }),
        Ok(_) => None,
    };
    let long = nearest.and_then(|env| {
        OPTIONS
            .iter()
            .chain(LAUNCHER_OPTIONS)
            .find(|spec| spec.env == env)
    });
    match long {
        Some(spec) => format!("unknown option {name}; did you mean --{}?", spec.long),
        None => {
            format!("unknown option {name}; `r3-replay capture --help` lists the options")
        }
    }
}

/// Where the archive of the program itself will go. Its children have other numbers.
fn out_path(
    options: &Options,
    program: &Path,
    value: &impl Fn(&str) -> Option<OsString>,
) -> PathBuf {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    options.out_path(&ProcessFacts {
        host: host.trim_end().into(),
        pid: std::process::id(),
        rank: rank_from_env(|name| value(name)?.into_string().ok()),
        exe: program
            .canonicalize()
            .unwrap_or_else(|_| program.to_owned())
            .into(),
    })
}

fn failure(errors: Vec<OptionError>) -> Failure {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Failure::Message(lines.join("\nr3-replay: "))
}
