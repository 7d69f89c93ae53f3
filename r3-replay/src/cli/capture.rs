//! `capture`: starts a program with the capture library preloaded.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches, FromArgMatches};
use r3_options::{LAUNCHER_OPTIONS, OPTIONS, OptionError, OptionSpec, Options};

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
    Options::from_env(environment.iter().cloned()).map_err(failure)?;
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

fn failure(errors: Vec<OptionError>) -> Failure {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Failure::Message(lines.join("\nr3-replay: "))
}
