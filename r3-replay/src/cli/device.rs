//! Opening a device for a command, and the options about it.

use std::io::Write;
use std::path::{Path, PathBuf};

use r3_archive::Archive;
use r3_archive::model::LaunchRecord;
use r3_codegen::source::files;
use r3_image::{CodeForm, Image};

use super::{Failure, output};
use crate::code::CodeMode;
use crate::device::cpu::{CpuDevice, CpuOptions, DEFAULT_CAPABILITY};
use crate::device::cuda::CudaDevice;
use crate::device::{BlockRange, Device, DeviceError, Platform};
use crate::names::printable;
use crate::replay::{Attached, ReplayOptions, Replayer};
use crate::restore::reexec;
use crate::restore::space::AddressMode;

/// Which kind of device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceKind {
    /// The GPU when there is one, else the CPU device.
    #[default]
    Auto,
    /// A GPU.
    Cuda,
    /// PTX on host threads.
    Cpu,
}

/// Options about the device, and which code runs on it.
#[derive(clap::Args, Clone, Debug)]
pub struct DeviceArgs {
    #[command(flatten)]
    pub place: PlaceArgs,

    /// Which code runs: what the driver picks from the recorded image, machine code, or PTX.
    #[arg(long, value_enum, default_value_t)]
    pub code: CodeMode,

    /// PTX to run instead of the recorded code of the kernels that it has. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub ptx: Vec<PathBuf>,
}

/// Options about the device.
#[derive(clap::Args, Clone, Debug)]
pub struct PlaceArgs {
    /// Where launches run: on a GPU, or, as PTX, on host threads. Without it, and without options of one of them: on
    /// the GPU when there is one.
    #[arg(long, value_enum, default_value_t)]
    pub device: DeviceKind,

    /// The GPU, by its number [default: 0].
    #[arg(long, value_name = "N")]
    pub gpu: Option<i32>,

    /// Where memory goes: where it was, or elsewhere, with pointers rewritten.
    #[arg(long, value_enum, default_value_t)]
    pub addr: AddressMode,

    /// Leave words alone that point to a variable which lies elsewhere than recorded.
    #[arg(long)]
    pub keep_global_pointers: bool,

    /// CPU device: host threads; 0 for as many as there are cores [default: 0].
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// CPU device: report races on shared memory.
    #[arg(long)]
    pub racecheck: bool,

    /// CPU device: end a launch after so many warp instructions.
    #[arg(long, value_name = "N")]
    pub instruction_limit: Option<u64>,
}

/// The option about a part of the grid.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct BlockArgs {
    /// CPU device: run only these blocks of each grid, by linear index (x runs fastest): `0..16`, `100..`, `7`.
    #[arg(long, value_name = "FIRST..END")]
    pub blocks: Option<BlockRange>,
}

impl PlaceArgs {
    /// With the code that the driver picks.
    pub fn with_recorded_code(&self) -> DeviceArgs {
        DeviceArgs {
            place: self.clone(),
            code: CodeMode::Auto,
            ptx: Vec::new(),
        }
    }

    /// An option that only the CPU device has.
    fn of_cpu(&self, blocks: Option<BlockRange>) -> Option<&'static str> {
        [
            (blocks.is_some(), "--blocks"),
            (self.threads.is_some(), "--threads"),
            (self.racecheck, "--racecheck"),
            (self.instruction_limit.is_some(), "--instruction-limit"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// Opens the device for some launches. On a GPU, allocates little, so that recorded addresses stay free.
pub fn open(
    args: &DeviceArgs,
    blocks: Option<BlockRange>,
    archive: &Archive,
    launches: &[&LaunchRecord],
) -> Result<Box<dyn Device>, Failure> {
    let args = &args.place;
    let cpu_option = args.of_cpu(blocks);
    let kind = match (args.device, args.gpu, cpu_option) {
        (DeviceKind::Cuda, _, Some(option)) | (DeviceKind::Auto, Some(_), Some(option)) => {
            return Err(Failure::Message(format!(
                "{option} is for the CPU device: use it with --device cpu"
            )));
        }
        (DeviceKind::Cpu, Some(_), _) => {
            return Err(Failure::Message(
                "--gpu is for GPUs: use it with --device cuda".to_owned(),
            ));
        }
        (DeviceKind::Auto, Some(_), None) => DeviceKind::Cuda,
        (DeviceKind::Auto, None, Some(_)) => DeviceKind::Cpu,
        (kind, _, _) => kind,
    };
    if kind != DeviceKind::Cpu {
        match CudaDevice::open(args.gpu.unwrap_or(0)) {
            Ok(device) => return Ok(Box::new(device)),
            Err(error) if kind == DeviceKind::Auto => output::complain(&format!(
                "running on the CPU device, since there is no GPU to be used: {}",
                why(error)
            )),
            Err(error) => return Err(Failure::new(error)),
        }
    }
    let options = CpuOptions {
        compute_capability: recorded_on(archive, launches),
        threads: args.threads.unwrap_or(0),
        racecheck: args.racecheck,
        instruction_limit: args.instruction_limit,
    };
    Ok(Box::new(CpuDevice::new(options, Box::new(print))))
}

/// A short reason.
fn why(error: DeviceError) -> String {
    match error {
        DeviceError::NoDriver { reason } => reason,
        DeviceError::NoDevice { count: 0, .. } => "the driver sees none".to_owned(),
        error => error.to_string(),
    }
}

/// Compute capability of the GPU on which the first of some launches was recorded.
fn recorded_on(archive: &Archive, launches: &[&LaunchRecord]) -> (i32, i32) {
    launches
        .first()
        .and_then(|launch| {
            let devices = archive.devices();
            devices.iter().find(|d| d.ordinal == launch.device)
        })
        .map(|device| device.compute_capability)
        .filter(|(major, _)| *major > 0)
        .unwrap_or(DEFAULT_CAPABILITY)
}

/// Architecture of the GPU on which the first of some launches was recorded.
pub fn recorded_architecture(archive: &Archive, launches: &[&LaunchRecord]) -> u32 {
    let (major, minor) = recorded_on(archive, launches);
    u32::try_from(major.saturating_mul(10).saturating_add(minor)).unwrap_or(0)
}

/// What a kernel prints goes to standard error, which has no JSON on it.
fn print(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let mut out = std::io::stderr().lock();
    for line in text.split_inclusive('\n') {
        let end = if line.ends_with('\n') { "\n" } else { "" };
        let _ = write!(out, "{}{end}", printable(line.trim_end_matches('\n')));
    }
}

/// A replayer with the addresses of all launches reserved. Where one is in use by this process,
/// the process starts over with another layout of its address space.
pub fn replayer<'a>(
    archive: &'a Archive,
    device: &'a mut dyn Device,
    args: &DeviceArgs,
    blocks: Option<BlockRange>,
    launches: &[&LaunchRecord],
) -> Result<Replayer<'a>, Failure> {
    let options = ReplayOptions {
        addresses: args.place.addr,
        code: args.code,
        follow_globals: !args.place.keep_global_pointers,
        blocks,
    };
    let own_addresses = device.info().platform == Platform::Cpu;
    let mut replayer = Replayer::new(archive, device, options);
    for path in &args.ptx {
        replayer.attach(attached(path)?);
    }
    let collisions = replayer
        .reserve(launches.iter().map(|launch| launch.id))
        .map_err(Failure::new)?;
    if let Some(first) = collisions.first()
        && !own_addresses
        && reexec::may_start_over()
    {
        match reexec::start_over() {
            Ok(never) => match never {},
            Err(error) => output::complain(&format!(
                "addresses are in use ({first}), and starting over with another layout failed: {error}"
            )),
        }
    }
    Ok(replayer)
}

fn attached(path: &Path) -> Result<Attached, Failure> {
    let bytes = files::read(path, files::CODE)
        .map_err(|error| Failure::Message(format!("--ptx {}: {error}", path.display())))?;
    let image = Image::from_vec(bytes);
    if !image
        .entries()
        .iter()
        .any(|entry| entry.form == CodeForm::Ptx)
    {
        return Err(Failure::Message(format!(
            "--ptx {}: there is no PTX in it",
            path.display()
        )));
    }
    Ok(Attached {
        name: path.display().to_string(),
        image,
    })
}
