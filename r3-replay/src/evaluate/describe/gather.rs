//! A kernel's description, out of an archive and a device.

use std::collections::{BTreeMap, BTreeSet};

use r3_archive::model::{KernelId, KernelRecord, LaunchRecord, ParamLayout, RegionOwner};
use r3_archive::{Archive, ReadError};
use r3_codegen::recipe::{Bounds, Code};
use r3_image::{Image, KernelInfo};

use super::{
    CapturedSource, Census, DeviceDescription, KernelDescription, LaunchDescription,
    ParamDescription, PointerTarget,
};
use crate::attach::forms::{self, KernelForm, Origin};
use crate::code::{self, CodeMode, Target};
use crate::device::{Device, DeviceError};
use crate::names::{printable, readable};
use crate::remix::trial::Used;
use crate::trust::caveats;

/// Why a kernel cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The archive has no such kernel.
    #[error("the archive has no kernel {0}")]
    NoKernel(KernelId),
    /// The archive cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The device does not say what it is.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// `CUfunction_attribute` numbers.
const MAX_THREADS_PER_BLOCK: i32 = 0;
const SHARED_SIZE_BYTES: i32 = 1;
const LOCAL_SIZE_BYTES: i32 = 3;
const NUM_REGS: i32 = 4;

/// Threads of a warp.
const WARP: u32 = 32;

/// Registers are handed out to warps in such pieces, and to whole groups of warps, one of each scheduler.
const REGISTERS_PIECE: u32 = 256;
const SCHEDULERS: u32 = 4;

/// Everything that is known of a kernel and its recorded launches. Nothing runs, and nothing is loaded.
pub fn describe(
    archive: &Archive,
    kernel: KernelId,
    device: &mut dyn Device,
) -> Result<KernelDescription, DescribeError> {
    let record = archive
        .kernel(kernel)
        .ok_or(DescribeError::NoKernel(kernel))?;
    let properties = device.properties()?;
    let image = match record.module.and_then(|module| archive.module(module)) {
        Some(module) => Some(Image::from_vec(archive.read_blob(&module.image)?)),
        None => None,
    };
    let sm = properties.sm;
    let forms = forms::forms(archive, kernel, sm)?;
    let info = image.as_ref().and_then(|image| {
        image
            .kernel_for(&record.name, sm)
            .or_else(|| image.kernel(&record.name))
    });
    let target = Target {
        sm,
        machine_code: device.runs_machine_code(),
    };
    let chosen = image
        .as_ref()
        .is_some_and(|image| code::choose(image, &record.name, target, CodeMode::Auto).is_ok());
    let attached = archive.attached_to(kernel).any(|attachment| {
        attachment
            .code(r3_archive::model::AttachedForm::Ptx)
            .is_some()
    });
    let mut launches = Vec::new();
    for head in archive.launch_heads() {
        if head.kernel == kernel {
            launches.push(archive.load_launch(head.id)?);
        }
    }
    let census = census_of(&forms);
    let declared = declared_pointers(&forms);
    let used = used(record, info.as_ref());
    Ok(KernelDescription {
        archive: uuid(archive.uuid()),
        name: record.name.clone(),
        readable: readable(&record.name),
        forms: forms.iter().map(|form| printable(&form.what)).collect(),
        compilable: !forms.is_empty(),
        recorded_runs: chosen || attached,
        max_threads: max_threads(record, info.as_ref(), used, &properties),
        used,
        bounds: info.as_ref().map(bounds).unwrap_or_default(),
        required_block: info.as_ref().and_then(|info| info.required_block),
        census,
        params: params(&layout(record, image.as_ref()), &launches, &declared),
        launches: launches
            .iter()
            .map(|launch| describe_launch(archive, launch, info.as_ref()))
            .collect(),
        device: properties,
        source: captured_source(&forms),
    })
}

/// What the application compiled at run time.
fn captured_source(forms: &[KernelForm]) -> Option<CapturedSource> {
    forms.iter().find_map(|form| match &form.code {
        Code::Source(source) if form.origin == Origin::Recorded => Some(CapturedSource {
            text: source.text.clone(),
            name: source.name.display().to_string(),
            headers: source.headers.clone(),
            options: source.options.clone(),
            instances: source.name_expressions.clone(),
            compiler: printable(&form.what),
        }),
        _ => None,
    })
}

/// Of the first form that is PTX.
fn census_of(forms: &[KernelForm]) -> Option<Census> {
    forms.iter().find_map(|form| match &form.code {
        Code::Ptx(text) => super::census(text, &form.name),
        _ => None,
    })
}

/// Parameters that PTX declares as pointers (`.ptr`), by position.
fn declared_pointers(forms: &[KernelForm]) -> BTreeSet<u32> {
    let of = |form: &KernelForm| {
        let Code::Ptx(text) = &form.code else {
            return None;
        };
        super::census::declared_pointers(text, &form.name)
    };
    forms.iter().find_map(of).unwrap_or_default()
}

/// As UUIDs are written.
fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn attribute(record: &KernelRecord, number: i32) -> Option<u32> {
    let mut attributes = record.attributes.iter();
    let (_, value) = attributes.find(|(of, _)| *of == number)?;
    u32::try_from(*value).ok()
}

/// What the recorded code uses: as its driver said, else as the image says.
fn used(record: &KernelRecord, info: Option<&KernelInfo>) -> Option<Used> {
    let said = attribute(record, NUM_REGS).filter(|registers| *registers > 0);
    if let Some(registers) = said {
        return Some(Used {
            registers,
            local: attribute(record, LOCAL_SIZE_BYTES).unwrap_or(0),
            shared: attribute(record, SHARED_SIZE_BYTES).unwrap_or(0),
        });
    }
    let info = info?;
    Some(Used {
        registers: info.registers?,
        local: info.local_bytes.unwrap_or(0),
        shared: info.static_shared.unwrap_or(0),
    })
}

/// Most threads of a block for the recorded code: what the device, the code's bounds and its registers allow.
fn max_threads(
    record: &KernelRecord,
    info: Option<&KernelInfo>,
    used: Option<Used>,
    device: &DeviceDescription,
) -> u32 {
    let by_registers = used
        .filter(|used| used.registers > 0 && device.registers_per_multiprocessor > 0)
        .map(|used| {
            let warp = used
                .registers
                .saturating_mul(WARP)
                .next_multiple_of(REGISTERS_PIECE);
            let warps = device.registers_per_multiprocessor / warp;
            (warps / SCHEDULERS * SCHEDULERS).max(1) * WARP
        });
    let limits = [
        Some(device.max_threads_per_block).filter(|most| *most > 0),
        attribute(record, MAX_THREADS_PER_BLOCK).filter(|most| *most > 0),
        info.and_then(|info| info.max_threads),
        by_registers,
    ];
    limits.into_iter().flatten().min().unwrap_or(1024)
}

fn bounds(info: &KernelInfo) -> Bounds {
    Bounds {
        maxnreg: info.max_registers,
        maxntid: info.max_block.map(|block| {
            block
                .iter()
                .fold(1u32, |all, size| all.saturating_mul(*size))
        }),
        minnctapersm: info.min_blocks,
        ..Bounds::default()
    }
}

/// Where the parameters lie: as recorded, else as the code says.
fn layout(record: &KernelRecord, image: Option<&Image>) -> Vec<ParamLayout> {
    if !record.params.is_empty() {
        return record.params.clone();
    }
    image
        .and_then(|image| image.kernel_layout(&record.name))
        .unwrap_or_default()
        .into_iter()
        .map(|(offset, size)| ParamLayout { offset, size })
        .collect()
}

fn params(
    layout: &[ParamLayout],
    launches: &[LaunchRecord],
    declared: &BTreeSet<u32>,
) -> Vec<ParamDescription> {
    let mut all: Vec<ParamDescription> = (0..)
        .zip(layout)
        .map(|(index, param)| {
            let range = param.offset..param.offset.saturating_add(param.size);
            let mut values: BTreeMap<&[u8], u32> = BTreeMap::new();
            let mut pointer = declared.contains(&index);
            for launch in launches {
                pointer |= launch
                    .pointers
                    .iter()
                    .any(|word| range.contains(&word.offset));
                let bytes = launch.params.get(range.start as usize..range.end as usize);
                *values.entry(bytes.unwrap_or_default()).or_default() += 1;
            }
            let mut all = values.keys();
            let constant = match (all.next(), all.next()) {
                (Some(bytes), None) if !pointer && !bytes.is_empty() => Some(bytes.to_vec()),
                _ => None,
            };
            ParamDescription {
                index,
                offset: param.offset,
                size: param.size,
                pointer,
                constant,
                values: u32::try_from(values.len()).unwrap_or(u32::MAX),
                target: target(param, launches),
            }
        })
        .collect();
    number_allocations(&mut all, launches);
    all
}

/// Says which pointers lead into the same allocation in some launch.
fn number_allocations(params: &mut [ParamDescription], launches: &[LaunchRecord]) {
    let mut numbers: Vec<u32> = (1..).take(params.len()).collect();
    let mut of_module = vec![false; params.len()];
    for launch in launches {
        let regions = &launch.before.regions;
        let places: Vec<Option<usize>> = params
            .iter()
            .map(|param| {
                let mut words = launch.pointers.iter();
                let address = words.find(|word| word.offset == param.offset)?.address;
                let after = regions.partition_point(|region| region.address <= address);
                after.checked_sub(1)
            })
            .collect();
        let mut first: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, place) in places.into_iter().enumerate() {
            let (Some(place), Some(number)) = (place, numbers.get(at).copied()) else {
                continue;
            };
            let owner = regions.get(place).map(|region| &region.owner);
            if let Some(flag) = of_module.get_mut(at) {
                *flag |= !matches!(owner, Some(RegionOwner::Allocation(..)));
            }
            let one = *first.entry(place).or_insert(at);
            let same = numbers.get(one).copied().unwrap_or(number);
            for other in &mut numbers {
                if *other == number {
                    *other = same;
                }
            }
        }
    }
    for ((param, number), of_module) in params.iter_mut().zip(numbers).zip(of_module) {
        if let Some(target) = &mut param.target {
            target.allocation = if of_module { 0 } else { number };
        }
    }
}

/// Where a parameter points to in all launches.
fn target(param: &ParamLayout, launches: &[LaunchRecord]) -> Option<PointerTarget> {
    if param.size != 8 {
        return None;
    }
    let mut all: Option<PointerTarget> = None;
    for launch in launches {
        let mut words = launch.pointers.iter();
        let address = words.find(|word| word.offset == param.offset)?.address;
        let regions = &launch.before.regions;
        let at = regions.partition_point(|region| region.address <= address);
        let region = regions.get(at.checked_sub(1)?)?;
        let bytes = (region.address.checked_add(region.len)?).checked_sub(address)?;
        let alignment = 1u64 << address.trailing_zeros().min(63);
        let one = all.unwrap_or(PointerTarget {
            alignment,
            least: bytes,
            most: bytes,
            allocation: 0,
        });
        all = Some(PointerTarget {
            alignment: one.alignment.min(alignment),
            least: one.least.min(bytes),
            most: one.most.max(bytes),
            allocation: 0,
        });
    }
    all
}

fn describe_launch(
    archive: &Archive,
    launch: &LaunchRecord,
    info: Option<&KernelInfo>,
) -> LaunchDescription {
    let regions = &launch.before.regions;
    LaunchDescription {
        launch: launch.id,
        grid: launch.grid,
        block: launch.block,
        dynamic_shared: launch.dynamic_shared,
        cooperative: launch.cooperative,
        weight: weight(archive, launch),
        bytes: regions
            .iter()
            .fold(0, |sum, region| region.len.saturating_add(sum)),
        caveats: caveats(launch, info)
            .into_iter()
            .map(|caveat| caveat.sentence().to_owned())
            .chain(launch.notes.iter().map(|note| printable(note)))
            .collect(),
    }
}

/// Launches of this shape that the application did, shared among those that were recorded.
fn weight(archive: &Archive, launch: &LaunchRecord) -> f64 {
    let same = |other: &&LaunchRecord| {
        other.kernel == launch.kernel
            && other.grid == launch.grid
            && other.block == launch.block
            && other.dynamic_shared == launch.dynamic_shared
    };
    let recorded = archive.launch_heads().iter().filter(same).count().max(1);
    let counted = archive
        .kernel_stats()
        .iter()
        .filter(|stats| stats.kernel == launch.kernel)
        .flat_map(|stats| &stats.shapes)
        .filter(|shape| {
            shape.grid == launch.grid
                && shape.block == launch.block
                && shape.dynamic_shared == launch.dynamic_shared
        })
        .map(|shape| shape.launches)
        .max()
        .unwrap_or(0);
    // Where counts were lost, what was recorded happened at least.
    (counted.max(recorded as u64) as f64) / recorded as f64
}
