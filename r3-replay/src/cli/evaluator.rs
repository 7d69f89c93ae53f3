//! Options about an evaluator: where candidates run, how they are judged, and what compiling may cost.

use std::path::PathBuf;
use std::time::Duration;

use r3_archive::Archive;
use r3_codegen::worker::Limits;

use super::device::DeviceKind;
use super::verify::ToleranceArgs;
use super::{Failure, output};
use crate::device::DeviceError;
use crate::device::cpu::DEFAULT_CAPABILITY;
use crate::device::cuda::CudaDevice;
use crate::evaluate::evaluator::{DeviceChoice, EngineSetup, EvaluatorOptions};

/// Options about an evaluator.
#[derive(clap::Args, Clone, Debug)]
pub struct EvaluatorArgs {
    /// Where candidates run: on GPUs, or, as PTX, on host threads, where they are counted and not timed. Without it: on the
    /// first GPU when there is one.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceKind,

    /// GPUs, by their numbers: `0`, `0,2`, `all` [default: 0].
    #[arg(long, value_name = "LIST", value_parser = gpus)]
    gpus: Option<Gpus>,

    /// CPU devices: so many at a time [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    cpus: Option<u32>,

    /// CPU device: the architecture that it stands for [default: that of the first archive's GPU, else 90].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(50..=199))]
    sm: Option<u32>,

    /// CPU device: host threads of each; 0 for as many as there are cores [default: 0].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Compilations at a time [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,

    /// Seconds that a compilation may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    compile_limit: u64,

    /// MiB of memory that a compilation may use.
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(64..))]
    memory_limit: u64,

    /// Folder for compiled code, used again by later runs [default: r3-replay/code in XDG_CACHE_HOME, else in ~/.cache].
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// Bytes that the folder may have: `500M`, `4G`; 0 for no folder.
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size)]
    cache_size: u64,

    /// Candidates that may be waiting or running at a time.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    queue: u32,

    #[command(flatten)]
    tolerances: ToleranceArgs,

    /// CPU device: allow for nothing where no tolerance is given.
    #[arg(long)]
    strict: bool,

    /// Seconds that a launch may take in any case; one whose original takes longer may take 50 times as long as it.
    #[arg(long, value_name = "SECONDS", default_value_t = 4.0, value_parser = seconds)]
    launch_limit: f64,

    /// Device memory for kept copies: `500M`, `40G` [default: what is free, less a reserve].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_budget: Option<u64>,
}

/// GPUs of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gpus {
    All,
    Listed(Vec<i32>),
}

impl EvaluatorArgs {
    /// For an evaluator of some archives.
    pub fn options(&self, archives: &[PathBuf]) -> Result<EvaluatorOptions, Failure> {
        let usual = EvaluatorOptions::default();
        let compile = Limits {
            time: Duration::from_secs(self.compile_limit),
            memory: self.memory_limit << 20,
            ..usual.compile.clone()
        };
        let workers = self.workers.map(|count| count as usize);
        Ok(EvaluatorOptions {
            devices: self.devices(archives)?,
            compile: Limits {
                workers: workers.unwrap_or(compile.workers),
                ..compile
            },
            cache: self.cache_folder()?,
            cache_limit: self.cache_size,
            queue_limit: self.queue as usize,
            engine: EngineSetup {
                tolerances: self.tolerances.read()?,
                strict: self.strict,
                memory_budget: self.memory_budget,
                least_time: Duration::from_secs_f64(self.launch_limit),
                threads: self.threads.unwrap_or(0),
                ..usual.engine.clone()
            },
            ..usual
        })
    }

    fn devices(&self, archives: &[PathBuf]) -> Result<Vec<DeviceChoice>, Failure> {
        let of_cpu = [
            (self.cpus.is_some(), "--cpus"),
            (self.sm.is_some(), "--sm"),
            (self.threads.is_some(), "--threads"),
        ];
        let cpu_option = of_cpu
            .into_iter()
            .find_map(|(given, name)| given.then_some(name));
        let kind = match (self.device, self.gpus.is_some(), cpu_option) {
            (DeviceKind::Cuda, _, Some(option)) | (DeviceKind::Auto, true, Some(option)) => {
                return Err(Failure::Message(format!(
                    "{option} is for the CPU device: use it with --device cpu"
                )));
            }
            (DeviceKind::Cpu, true, _) => {
                return Err(Failure::Message(
                    "--gpus is for GPUs: use it with --device cuda".to_owned(),
                ));
            }
            (DeviceKind::Auto, true, None) => DeviceKind::Cuda,
            (DeviceKind::Auto, false, Some(_)) => DeviceKind::Cpu,
            (kind, ..) => kind,
        };
        if kind != DeviceKind::Cpu {
            match self.gpus() {
                Ok(gpus) => return Ok(gpus.into_iter().map(DeviceChoice::Cuda).collect()),
                Err(error) if kind == DeviceKind::Auto => output::complain(&format!(
                    "running on the CPU device, since there is no GPU to be used: {error}"
                )),
                Err(error) => return Err(Failure::new(error)),
            }
        }
        let sm = self.sm.unwrap_or_else(|| recorded_on(archives));
        Ok(vec![DeviceChoice::Cpu(sm); self.cpus.unwrap_or(1) as usize])
    }

    /// GPUs that are there. Nothing is allocated on them.
    fn gpus(&self) -> Result<Vec<i32>, DeviceError> {
        let listed = match &self.gpus {
            None => vec![0],
            Some(Gpus::Listed(listed)) => listed.clone(),
            Some(Gpus::All) => {
                CudaDevice::open(0)?;
                let mut all = vec![0];
                // The first ordinal that there is not says how many there are.
                while CudaDevice::open(all.len() as i32).is_ok() {
                    all.push(all.len() as i32);
                }
                return Ok(all);
            }
        };
        for ordinal in &listed {
            CudaDevice::open(*ordinal)?;
        }
        Ok(listed)
    }

    fn cache_folder(&self) -> Result<Option<PathBuf>, Failure> {
        if self.cache_size == 0 {
            return Ok(None);
        }
        if let Some(folder) = &self.cache {
            // Workers have another working directory.
            return std::path::absolute(folder)
                .map(Some)
                .map_err(|error| Failure::Message(format!("--cache: {error}")));
        }
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let base = set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
        Ok(base.map(|base| base.join("r3-replay").join("code")))
    }
}

/// Architecture of the GPU on which the first archive's first launch was recorded.
fn recorded_on(archives: &[PathBuf]) -> u32 {
    let recorded = archives.first().and_then(|path| {
        // Whoever opens it next says what is wrong with it.
        let archive = Archive::open(path).ok()?;
        let launch = archive.launch_heads().first()?;
        let devices = archive.devices();
        let device = devices.iter().find(|d| d.ordinal == launch.device)?;
        Some(device.compute_capability)
    });
    let (major, minor) = recorded
        .filter(|(major, _)| *major > 0)
        .unwrap_or(DEFAULT_CAPABILITY);
    u32::try_from(major * 10 + minor).unwrap_or(90)
}

fn gpus(text: &str) -> Result<Gpus, String> {
    if text == "all" {
        return Ok(Gpus::All);
    }
    let mut listed = Vec::new();
    for part in text.split(',') {
        match part.trim().parse::<i32>() {
            Ok(ordinal) if ordinal >= 0 && !listed.contains(&ordinal) => listed.push(ordinal),
            Ok(ordinal) if ordinal >= 0 => return Err(format!("{ordinal} is there twice")),
            _ => {
                return Err(format!(
                    "`{part}` is no GPU's number: `0,1` or `all` is expected"
                ));
            }
        }
    }
    Ok(Gpus::Listed(listed))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("0.001 to 86400 is expected".to_owned()),
    }
}

/// A number of bytes: `4096`, `500K`, `64M`, `4G`, `1T`, also with `iB` after it.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: a number of bytes is expected, or `500M`, `4G`");
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.strip_suffix("iB").unwrap_or(unit) {
        "" if unit.is_empty() => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_bounded() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("500K"), Ok(500 << 10));
        assert_eq!(size("4GiB"), Ok(4 << 30));
        for text in [
            "",
            "G",
            "4 G",
            "4g",
            "-1",
            "4B",
            "iB",
            "4iB",
            "16777216T",
            "1.5G",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn gpus_are_numbers_and_none_is_there_twice() {
        assert_eq!(gpus("all"), Ok(Gpus::All));
        assert_eq!(gpus("0,2"), Ok(Gpus::Listed(vec![0, 2])));
        for text in ["", "0,", "-1", "0,0", "a", "all,0"] {
            assert!(gpus(text).is_err(), "{text}");
        }
    }
}
