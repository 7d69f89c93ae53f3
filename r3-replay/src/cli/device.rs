//! Opening a device for a command, and the options about it.

use r3_archive::Archive;
use r3_archive::model::LaunchRecord;

use super::{Failure, output};
use crate::code::CodeMode;
use crate::device::Device;
use crate::device::cuda::CudaDevice;
use crate::replay::{ReplayOptions, Replayer};
use crate::restore::reexec;
use crate::restore::space::AddressMode;

/// Options about the device.
#[derive(clap::Args, Clone, Debug)]
pub struct DeviceArgs {
    /// The GPU, by its number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpu: i32,

    /// Where memory goes: where it was, or elsewhere, with pointers rewritten.
    #[arg(long, value_enum, default_value_t)]
    pub addr: AddressMode,

    /// Which code runs: what the driver picks from the recorded image, machine code, or PTX.
    #[arg(long, value_enum, default_value_t)]
    pub code: CodeMode,

    /// Leave words alone that point to a variable which lies elsewhere than recorded.
    #[arg(long)]
    pub keep_global_pointers: bool,
}

/// Opens the device. Allocates little, so that recorded addresses stay free.
pub fn open(args: &DeviceArgs) -> Result<Box<dyn Device>, Failure> {
    Ok(Box::new(CudaDevice::open(args.gpu).map_err(Failure::new)?))
}

/// A replayer with the addresses of all launches reserved. Where one is in use by this process,
/// the process starts over with another layout of its address space.
pub fn replayer<'a>(
    archive: &'a Archive,
    device: &'a mut dyn Device,
    args: &DeviceArgs,
    launches: &[&LaunchRecord],
) -> Result<Replayer<'a>, Failure> {
    let options = ReplayOptions {
        addresses: args.addr,
        code: args.code,
        follow_globals: !args.keep_global_pointers,
    };
    let mut replayer = Replayer::new(archive, device, options);
    let collisions = replayer
        .reserve(launches.iter().map(|launch| launch.id))
        .map_err(Failure::new)?;
    if let Some(first) = collisions.first()
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
