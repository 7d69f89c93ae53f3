//! Which launches of an archive a command is about.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchRecord};
use r3_options::{LaunchRule, NumberSet, OptionSpec, Options, Selection};
use std::collections::HashMap;

use super::{Failure, output};

/// Options that select launches.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Select {
    /// Launches by number, as `ls` shows them: `3`, `1,4-6`, `10-`.
    #[arg(long, value_name = "LIST")]
    pub launch: Option<String>,

    /// Kernels whose name matches a regular expression; `!REGEX` leaves kernels out.
    #[arg(long, value_name = "REGEX")]
    pub kernel: Vec<String>,
}

/// Opens an archive, and says on standard error what of it was lost.
pub fn open(path: &Path) -> Result<Archive, Failure> {
    let archive = Archive::open(path).map_err(Failure::new)?;
    if let Some(salvage) = archive.salvaged() {
        output::complain(&format!("{}: {salvage}", path.display()));
    }
    Ok(archive)
}

/// The launches that are selected, without their memory.
pub fn launches<'a>(
    archive: &'a Archive,
    select: &Select,
) -> Result<Vec<&'a LaunchRecord>, Failure> {
    let predicate = Predicate::new(archive, select)?;
    let selected: Vec<_> = archive
        .launch_heads()
        .iter()
        .filter(|launch| predicate.selects(launch))
        .collect();
    if selected.is_empty() && (select.launch.is_some() || !select.kernel.is_empty()) {
        let have = archive.launch_heads().len() as u64;
        return Err(Failure::Message(format!(
            "{}: none of its {} is selected (`r3-replay ls` lists them)",
            archive.path().display(),
            output::count(have, "launch", "launches")
        )));
    }
    Ok(selected)
}

/// Decides by launch number and kernel name.
pub struct Predicate {
    numbers: Option<NumberSet>,
    kernels: HashMap<KernelId, bool>,
}

impl Predicate {
    /// Reads the options.
    pub fn new(archive: &Archive, select: &Select) -> Result<Self, Failure> {
        let mut values: Vec<(&'static OptionSpec, OsString)> = Vec::new();
        if let (Some(list), Some(spec)) = (&select.launch, OptionSpec::by_long("launches")) {
            values.push((spec, list.into()));
        }
        if let (false, Some(spec)) = (select.kernel.is_empty(), OptionSpec::by_long("kernel")) {
            values.push((spec, select.kernel.join("\n").into()));
        }
        let options = Options::from_arguments(values).map_err(|errors| {
            let text: Vec<String> = errors
                .iter()
                .map(|error| error.to_string().replace("--launches=", "--launch "))
                .collect();
            Failure::Message(text.join("\n"))
        })?;
        let numbers = match (&select.launch, &options.launches) {
            (Some(list), LaunchRule::Listed(set)) => {
                all_there(archive, list, set)?;
                Some(set.clone())
            }
            _ => None,
        };
        let selection = Selection::new(&options);
        let kernels = archive
            .kernels()
            .iter()
            .map(|kernel| (kernel.id, selection.kernel_selected(&kernel.name)))
            .collect();
        Ok(Self { numbers, kernels })
    }

    /// Whether a launch is selected.
    pub fn selects(&self, launch: &LaunchRecord) -> bool {
        self.numbers
            .as_ref()
            .is_none_or(|set| set.contains(launch.id.0))
            && self.kernels.get(&launch.kernel).copied().unwrap_or(false)
    }
}

/// Numbers and ranges that no launch has are mistakes, not empty selections. A range may have
/// gaps, as archives have.
fn all_there(archive: &Archive, list: &str, set: &NumberSet) -> Result<(), Failure> {
    let mut have: Vec<u64> = archive.launch_heads().iter().map(|l| l.id.0).collect();
    have.sort_unstable();
    let missing: Vec<&str> = list
        .split(',')
        .map(str::trim)
        .filter(|part| {
            let number = |text: &str| text.parse::<u64>().ok();
            let (first, last) = match part.split_once('-') {
                None => (number(part), number(part)),
                Some((first, "")) => (number(first), Some(u64::MAX)),
                Some((first, last)) => (number(first), number(last)),
            };
            let (Some(first), Some(last)) = (first, last) else {
                // `all`.
                return !have.iter().any(|id| set.contains(*id));
            };
            let next = have.partition_point(|id| *id < first);
            have.get(next).is_none_or(|id| *id > last)
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = if missing.len() == 1 && missing.iter().all(|part| !part.contains('-')) {
        "launch"
    } else {
        "launches"
    };
    let there = match have.as_slice() {
        [] => "it has none".to_owned(),
        [only] => format!("it has only launch {only}"),
        [first, .., last] => format!(
            "it has {} from {first} to {last} (`r3-replay ls` lists them)",
            have.len()
        ),
    };
    Err(Failure::Message(format!(
        "{}: {what} {} not there: {there}",
        archive.path().display(),
        match missing.len() {
            1 => format!("{} is", missing.concat()),
            _ => format!("{} are", missing.join(", ")),
        }
    )))
}

/// A file to be written, which must not be there yet.
pub fn fresh(path: &Path) -> Result<PathBuf, Failure> {
    if path.symlink_metadata().is_ok() {
        return Err(Failure::Message(format!(
            "{} exists already",
            path.display()
        )));
    }
    Ok(path.to_owned())
}
