//! `device-check`: a device's operations against the host's.

use serde::Serialize;

use super::device::DeviceKind;
use super::output::Output;
use super::{DIFFERENT, Failure, OK};
use crate::device::Device;
use crate::device::check::{CheckOptions, Checked, check};
use crate::device::cpu::{CpuDevice, CpuOptions};
use crate::device::cuda::CudaDevice;

/// Try what the engine does with memory of a device against the same on the host, and take its times.
///
/// Exit code: 0; 1 when the device did something else than the host; 2 when it cannot be used.
#[derive(clap::Args)]
pub struct Args {
    /// The GPU when there is one, a GPU, or the CPU device.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceKind,

    /// The GPU, by its number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpu: i32,

    /// Random cases of each operation.
    #[arg(long, value_name = "N", default_value_t = 60)]
    cases: u32,

    /// Bytes of each of two buffers on which times are taken [default: 256 MiB on a GPU, 16 MiB on the CPU device].
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,

    /// Where random numbers begin.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    device: String,
    operations: Vec<Checked>,
}

/// Runs the command.
pub fn run(args: &Args, out: &mut Output) -> Result<u8, Failure> {
    let gpu = match args.device {
        DeviceKind::Cpu => None,
        DeviceKind::Cuda => Some(CudaDevice::open(args.gpu).map_err(Failure::new)?),
        DeviceKind::Auto => CudaDevice::open(args.gpu).ok(),
    };
    let (mut device, bytes): (Box<dyn Device>, u64) = match gpu {
        Some(gpu) => (Box::new(gpu), 256 << 20),
        None => {
            let device = CpuDevice::new(CpuOptions::default(), Box::new(|_| ()));
            (Box::new(device), 16 << 20)
        }
    };
    let options = CheckOptions {
        cases: args.cases,
        bytes: args.bytes.unwrap_or(bytes),
        seed: args.seed,
    };
    let operations = check(device.as_mut(), options).map_err(Failure::new)?;
    let code = if operations.iter().all(|operation| operation.ok) {
        OK
    } else {
        DIFFERENT
    };
    if args.json {
        out.json(&Report {
            version: 1,
            device: device.info().to_string(),
            operations,
        })?;
        return Ok(code);
    }
    out.line(device.info())?;
    let number = |value: Option<f64>| value.map(|value| format!("{value:.1}")).unwrap_or_default();
    out.table(
        &["operation", "", "GB/s", "µs", ""],
        &[2, 3],
        operations.into_iter().map(|operation| {
            vec![
                operation.name.to_owned(),
                if operation.ok { "ok" } else { "WRONG" }.to_owned(),
                number(operation.gigabytes_per_second),
                number(operation.microseconds),
                operation.note.unwrap_or_default(),
            ]
        }),
    )?;
    Ok(code)
}
