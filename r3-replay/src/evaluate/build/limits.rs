//! Whether a launch can be done at all: what CUDA, the device and the code allow.

use r3_archive::model::LaunchRecord;

use crate::evaluate::describe::DeviceDescription;
use crate::evaluate::engine::Image;
use crate::evaluate::engine::shape::Shape;

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`: three 32-bit numbers.
const CLUSTER_DIMENSION: u32 = 4;

/// Threads of a warp.
const WARP: u32 = 32;

/// Registers are handed out to warps in pieces of so many, and each of four schedulers has a quarter of them.
const REGISTERS_PIECE: u32 = 256;
const SCHEDULERS: u32 = 4;

/// What is known of code. `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Threads of a block at most.
    pub max_threads: Option<u32>,
    /// The only block that may be launched.
    pub required_block: Option<[u32; 3]>,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Static shared memory of a block, in bytes.
    pub static_shared: Option<u32>,
    /// Blocks of a cluster.
    pub cluster: Option<[u32; 3]>,
}

impl Known {
    /// What an image says of its kernel.
    pub fn of_image(image: &Image, sm: u32) -> Self {
        let parsed = r3_image::Image::from_vec(image.bytes.clone());
        let info = parsed
            .kernel_for(&image.name, sm)
            .or_else(|| parsed.kernel(&image.name));
        let Some(info) = info else {
            return Self::default();
        };
        Self {
            max_threads: info
                .max_block
                .map(|block| product(block).min(u64::from(u32::MAX)) as u32)
                .or(info.max_threads),
            required_block: info.required_block,
            registers: info.registers,
            static_shared: info.static_shared,
            cluster: info.cluster_dims,
        }
    }
}

/// Why a launch cannot be done so. What the device does not say is not checked.
pub fn check(
    launch: &LaunchRecord,
    shape: &Shape,
    known: &Known,
    device: &DeviceDescription,
) -> Result<(), String> {
    let threads = shape.threads();
    if let Some(most) = limit(device.max_threads_per_block)
        && threads > most
    {
        return Err(format!(
            "a block of {} has {threads} threads: the device takes {most}",
            spell(shape.block)
        ));
    }
    if let Some(required) = known.required_block
        && required != shape.block
    {
        return Err(format!(
            "the code demands blocks of {} (.reqntid), not {}",
            spell(required),
            spell(shape.block)
        ));
    }
    if let Some(most) = known.max_threads
        && threads > most
    {
        return Err(format!(
            "a block of {threads} threads: the code is for {most} at most"
        ));
    }
    if let (Some(registers), Some(all)) =
        (known.registers, limit(device.registers_per_multiprocessor))
        && !registers_suffice(registers, threads, all)
    {
        return Err(format!(
            "a block of {threads} threads with {registers} registers each: a multiprocessor has {all}"
        ));
    }
    let shared = u64::from(known.static_shared.unwrap_or(0)) + u64::from(shape.dynamic_shared);
    if let Some(most) = limit(device.max_shared_per_block)
        && shared > u64::from(most)
    {
        return Err(format!(
            "{shared} bytes of shared memory for a block: the device has {most}"
        ));
    }
    if let Some(cluster) = cluster(launch).or(known.cluster) {
        for ((blocks, of), axis) in shape.grid.iter().zip(cluster).zip(["x", "y", "z"]) {
            if !blocks.is_multiple_of(of.max(1)) {
                return Err(format!(
                    "a grid of {blocks} blocks in {axis} cannot be divided into clusters of {of}"
                ));
            }
        }
    }
    if launch.cooperative {
        cooperative(shape, device)?;
    }
    Ok(())
}

/// All blocks of a cooperative launch are there at once. Registers and shared memory may allow fewer than this; the driver
/// knows.
fn cooperative(shape: &Shape, device: &DeviceDescription) -> Result<(), String> {
    let (Some(threads), Some(multiprocessors)) = (
        limit(device.max_threads_per_multiprocessor),
        limit(device.multiprocessors),
    ) else {
        return Ok(());
    };
    let warps = |threads: u32| u64::from(threads.div_ceil(WARP));
    let each = warps(threads) / warps(shape.threads()).max(1);
    let most = each * u64::from(multiprocessors);
    let blocks = product(shape.grid);
    if blocks > most {
        return Err(format!(
            "a cooperative launch of {blocks} blocks: {most} at most fit on the device at once"
        ));
    }
    Ok(())
}

/// Whether a block's registers fit into a multiprocessor.
fn registers_suffice(registers: u32, threads: u32, all: u32) -> bool {
    let warp = u64::from(registers)
        .saturating_mul(u64::from(WARP))
        .next_multiple_of(u64::from(REGISTERS_PIECE));
    let warps = u64::from(threads.div_ceil(WARP).div_ceil(SCHEDULERS));
    warp * warps <= u64::from(all / SCHEDULERS)
}

/// The clusters that the application asked for.
fn cluster(launch: &LaunchRecord) -> Option<[u32; 3]> {
    let attribute = launch
        .attributes
        .iter()
        .find(|attribute| attribute.id == CLUSTER_DIMENSION)?;
    let (words, _) = attribute.value.as_chunks::<4>();
    match words {
        [x, y, z, ..] => Some([x, y, z].map(|word| u32::from_le_bytes(*word))),
        _ => None,
    }
}

fn limit(number: u32) -> Option<u32> {
    (number > 0).then_some(number)
}

fn product(dims: [u32; 3]) -> u64 {
    dims.iter()
        .fold(1u64, |all, n| all.saturating_mul(u64::from(*n)))
}

/// Dimensions for people.
pub(super) fn spell([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}
