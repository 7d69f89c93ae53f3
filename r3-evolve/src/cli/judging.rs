//! What `tune` and `evolve` have in common: where and how candidates are judged, and a run's folder before it begins.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use r3_codegen::source::files;
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::rules::Allowed;
use r3_replay::serve::address::Address;
use r3_replay::serve::child::ChildOptions;
use r3_replay::serve::token::Token;

use super::Failure;
use super::output::Output;
use crate::result::text;
use crate::store::Store;
use crate::strategy::Kind;
use crate::tune::client::{Place, Server};
use crate::tune::launches::HeldOut;
use crate::tune::settings::{Approximation, Budget, DeviceSetting, Fine};
use crate::tune::{ArchiveFile, Environment, Ground, Settings, Summary};

/// Where and how candidates are judged.
#[derive(Default, clap::Args)]
pub struct Judging {
    /// Where candidates run [default: the GPU when there is one].
    #[arg(long, value_enum)]
    pub device: Option<DeviceKind>,

    /// The GPU, by its number [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..), allow_negative_numbers = true)]
    pub gpu: Option<i32>,

    /// Compile processes [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), allow_negative_numbers = true)]
    pub workers: Option<u32>,

    /// Launches that do not decide and must be right all the same: a part (0.25) or their numbers (3,7).
    #[arg(long, value_name = "FRACTION|LIST", allow_negative_numbers = true)]
    pub held_out: Option<HeldOut>,

    /// Tolerances for results, as for `r3-replay verify`.
    #[arg(long, value_name = "FILE")]
    pub tolerance_file: Option<PathBuf>,

    /// How inexact arithmetic may be; more than none needs --tolerance-file [default: none].
    #[arg(long, value_enum)]
    pub approximate: Option<ApproximateChoice>,

    /// State of the caches before a timed run [default: warm while searching, both for the result].
    #[arg(long, value_enum)]
    pub regime: Option<RegimeChoice>,

    /// A server that is there (`unix:PATH`, `tcp:HOST:PORT`) instead of one of this run's own.
    #[arg(long, value_name = "ADDR")]
    pub server: Option<Address>,

    /// File with the token of that server.
    #[arg(long, value_name = "FILE", requires = "server")]
    pub token_file: Option<PathBuf>,

    /// Finer settings; --set help=all lists them. May be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceKind {
    /// A GPU.
    Cuda,
    /// PTX on host threads: counts instead of measuring.
    Cpu,
}

/// Steps of inexact arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ApproximateChoice {
    /// Results stay the same.
    None,
    /// Approximate division, square root and reciprocal.
    Division,
    /// Subnormal numbers are flushed too.
    Flush,
    /// All that -use_fast_math does.
    Functions,
}

/// States of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RegimeChoice {
    /// As a run before leaves them.
    Warm,
    /// Flushed.
    Cold,
    /// Both; what counts is the smaller gain.
    Both,
}

impl Judging {
    /// Whether `--set help` was said; then it is answered.
    pub fn helps(&self) -> Option<String> {
        let mut set = self.set.iter();
        set.any(|one| one == "help=all" || one == "help")
            .then(Fine::help)
    }

    /// Options that say the opposite of each other.
    pub fn contradictions(&self) -> Result<(), Failure> {
        if self.gpu.is_some() && self.device == Some(DeviceKind::Cpu) {
            return Err(Failure::new(
                "--gpu and --device cpu: candidates run on a GPU or on the CPU device; leave one out",
            ));
        }
        Ok(())
    }

    /// Compile processes.
    pub fn workers(&self) -> usize {
        self.workers
            .map(|workers| workers as usize)
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// The settings of a run that begins. A strategy is that of knobs.
    pub fn settings(
        &self,
        archive: &Path,
        kernel: String,
        strategy: Kind,
        seed: u64,
        budget: Budget,
    ) -> Result<Settings, Failure> {
        let mut fine = Fine::for_workers(self.workers());
        for one in &self.set {
            fine.set(one).map_err(Failure::new)?;
        }
        let tolerances = match &self.tolerance_file {
            Some(path) => {
                let text = files::text(path, files::SETTINGS)
                    .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
                Some((absolute(path), text))
            }
            None => None,
        };
        let approximate = self.approximate.map_or(Approximation::None, approximation);
        if approximate != Approximation::None && tolerances.is_none() {
            return Err(Failure::new(
                "inexact arithmetic gives other results, so that nothing would be right: say with --tolerance-file by how much they may differ",
            ));
        }
        Ok(Settings {
            archive: absolute(archive),
            kernel,
            strategy,
            seed,
            budget,
            device: self.device(),
            workers: self.workers.map(|workers| workers as usize),
            held_out: self.held_out.clone().unwrap_or_default(),
            tolerances,
            approximate,
            regime: self.regime.map(regime),
            allowed: Allowed::default(),
            fine,
        })
    }

    /// Options that name something else than a run had and cannot change while it goes on.
    pub fn fixed(&self, before: &Settings) -> Vec<&'static str> {
        let checks = [
            (
                "--held-out",
                self.held_out
                    .as_ref()
                    .is_none_or(|held_out| *held_out == before.held_out),
            ),
            ("--set", self.set.is_empty()),
            (
                "--approximate",
                self.approximate
                    .is_none_or(|choice| approximation(choice) == before.approximate),
            ),
            (
                "--regime",
                self.regime
                    .is_none_or(|choice| Some(regime(choice)) == before.regime),
            ),
            ("--tolerance-file", self.tolerance_file.is_none()),
            (
                "--device",
                (self.device.is_none() && self.gpu.is_none()) || self.device() == before.device,
            ),
        ];
        let changed = checks.iter().filter(|(_, same)| !same);
        changed.map(|(name, _)| *name).collect()
    }

    /// Where candidates run.
    pub fn device(&self) -> DeviceSetting {
        match (self.device, self.gpu) {
            (Some(DeviceKind::Cpu), _) => DeviceSetting::Cpu,
            (Some(DeviceKind::Cuda), gpu) => DeviceSetting::Cuda(gpu.unwrap_or(0)),
            (None, Some(gpu)) => DeviceSetting::Cuda(gpu),
            (None, None) if Path::new("/dev/nvidiactl").exists() => DeviceSetting::Cuda(0),
            (None, None) => DeviceSetting::Cpu,
        }
    }

    /// The evaluator: one of this run's own, or one that is there.
    pub fn connect(&self, settings: &Settings, log: Option<PathBuf>) -> Result<Server, Failure> {
        let place = match &self.server {
            Some(address) => {
                let token = match &self.token_file {
                    Some(path) => Some(Token::read(path).map_err(Failure::new)?),
                    None => None,
                };
                Place::There(address.clone(), token)
            }
            None => Place::Own(ChildOptions {
                archives: vec![settings.archive.clone()],
                arguments: server_arguments(settings),
                log,
                ..ChildOptions::default()
            }),
        };
        // The machine's name for this process: no other run of it has the same.
        let group = format!("evolve-{}", std::process::id());
        Server::new(
            place,
            settings.archive.clone(),
            settings.kernel.clone(),
            group,
        )
        .map_err(Failure::new)
    }
}

/// Where nothing has begun, nothing is left of it. What another process has just begun there stays.
pub fn clear(folder: &Path) {
    const LOCK: &str = "run.lock";
    let lock = File::options().write(true).open(folder.join(LOCK)).ok();
    // Held while it is cleared, so that nobody begins meanwhile.
    let is_free = |lock: &File| !matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
    if !lock.as_ref().is_none_or(is_free) || folder.join(crate::store::FILE).exists() {
        return;
    }
    let database = crate::store::FILE;
    for name in [
        "serve.log".to_owned(),
        LOCK.to_owned(),
        format!("{database}.new"),
        format!("{database}.new-journal"),
    ] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let _ = std::fs::remove_dir(folder);
}

/// A run's folder before there is a database in it.
pub struct Unborn<'f> {
    folder: &'f Path,
}

impl<'f> Unborn<'f> {
    /// Makes the folder, for the server's log.
    pub fn new(folder: &'f Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
        Ok(Self { folder })
    }

    /// Makes the database.
    pub fn create(&self) -> Result<Store, Failure> {
        Store::create(self.folder).map_err(Failure::new)
    }
}

/// A path that holds from anywhere.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn approximation(choice: ApproximateChoice) -> Approximation {
    match choice {
        ApproximateChoice::None => Approximation::None,
        ApproximateChoice::Division => Approximation::Division,
        ApproximateChoice::Flush => Approximation::Flush,
        ApproximateChoice::Functions => Approximation::Functions,
    }
}

fn regime(choice: RegimeChoice) -> Regime {
    match choice {
        RegimeChoice::Warm => Regime::Warm,
        RegimeChoice::Cold => Regime::Cold,
        RegimeChoice::Both => Regime::Both,
    }
}

fn server_arguments(settings: &Settings) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: OsString| {
        arguments.push(name.into());
        arguments.push(value);
    };
    match settings.device {
        DeviceSetting::Cuda(gpu) => {
            add("--device", "cuda".into());
            add("--gpus", gpu.to_string().into());
        }
        DeviceSetting::Cpu => add("--device", "cpu".into()),
    }
    if let Some(workers) = settings.workers {
        add("--workers", workers.to_string().into());
    }
    if let Some((path, _)) = &settings.tolerances {
        add("--tolerance-file", path.clone().into());
    }
    arguments
}

/// What results depend on.
pub fn environment(
    server: &mut Server,
    archive: &ArchiveFile,
    ground: &Ground,
    space: u128,
) -> Result<Environment, Failure> {
    let tools = server
        .tools(ground.kernel.compilable)
        .map_err(Failure::new)?;
    Ok(Environment::new(archive, &ground.kernel, space, tools))
}

/// Says what each launch is used for.
pub fn launches(ground: &Ground, out: &mut Output) -> Result<(), Failure> {
    let unit = if ground.kernel.device.counts {
        "cost"
    } else {
        "nanoseconds"
    };
    for launch in &ground.kernel.launches {
        let tuned = ground
            .choice
            .tuned
            .iter()
            .any(|one| one.launch == launch.launch);
        let what = if tuned {
            "decides"
        } else if ground.choice.gate.contains(&launch.launch) {
            "held out, checks every candidate"
        } else if ground.choice.held_out.contains(&launch.launch) {
            "held out, checks the result"
        } else {
            "not used"
        };
        let prepared = ground
            .prepared
            .iter()
            .find(|one| one.launch == launch.launch);
        let measured = prepared.map_or_else(String::new, |one| {
            format!(
                ", {}, noise {:.2} %",
                text::time(one.original, unit),
                100.0 * one.noise
            )
        });
        out.line(format!(
            "launch    {}: {:?} x {:?}, stands for {:.0}{measured}: {what}",
            launch.launch, launch.grid, launch.block, launch.weight
        ))?;
    }
    for note in &ground.choice.notes {
        out.line(format!("note: {note}"))?;
    }
    Ok(())
}

/// What is said where the machine failed: that the archive is another one now, if it is.
pub fn machine(error: impl std::fmt::Display, settings: &Settings, began: &Environment) -> Failure {
    let same = ArchiveFile::read(&settings.archive).is_ok_and(|now| now.hash == began.archive_hash);
    if same {
        return Failure::new(error);
    }
    Failure::new(format!(
        "{error}. {} is not what it was when the run began: put it back",
        settings.archive.display()
    ))
}

/// Prints what a run found, and where it is.
pub fn tell(summary: &Summary, folder: &Path, json: bool, out: &mut Output) -> Result<(), Failure> {
    if json {
        return out.json(summary);
    }
    out.text(&text::summary(summary))?;
    for line in super::times::lines(&Store::look(folder).map_err(Failure::new)?)? {
        out.line(line)?;
    }
    if summary.claim {
        let result = folder.join(crate::tune::BEST);
        out.line(format!("result    {}", result.display()))?;
    }
    out.line(format!("run       {}", folder.display()))
}

/// Refuses an archive that is not the one that a run began with: what has changed.
pub fn refuse_another(
    now: &ArchiveFile,
    was: &Environment,
    settings: &Settings,
) -> Result<(), Vec<String>> {
    if now.uuid == was.archive_uuid && now.hash == was.archive_hash {
        return Ok(());
    }
    Err(vec![format!(
        "{} is not the archive that the run began with (its content was {}, and is {})",
        settings.archive.display(),
        was.archive_hash,
        now.hash
    )])
}

/// Complains about options that cannot change while a run goes on.
pub fn refuse_changes(fixed: &[&str]) -> Result<(), Failure> {
    if fixed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} cannot change while a run goes on: leave {} out, or begin another run",
        fixed.join(", "),
        if fixed.len() == 1 { "it" } else { "them" }
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_process_has_just_begun_in_a_folder_is_not_cleared() {
        let outer = std::env::temp_dir().join(format!("r3-clear-{}", std::process::id()));
        let folder = outer.join("run");
        std::fs::create_dir_all(&folder).unwrap();
        // As it is while the other one makes its database.
        let lock = File::create(folder.join("run.lock")).unwrap();
        lock.lock().unwrap();
        for name in ["serve.log", "run.db.new"] {
            std::fs::write(folder.join(name), "theirs").unwrap();
        }
        clear(&folder);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
        // And when it is made.
        std::fs::rename(folder.join("run.db.new"), folder.join("run.db")).unwrap();
        drop(lock);
        clear(&folder);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
        // What nobody holds, and nothing came of, goes.
        std::fs::remove_file(folder.join("run.db")).unwrap();
        clear(&folder);
        assert!(!folder.exists());
        std::fs::remove_dir_all(outer).unwrap();
    }
}
