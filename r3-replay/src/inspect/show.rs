//! `show`: one launch in full.

use r3_archive::Archive;
use r3_archive::model::{
    AllocationKind, KernelId, KernelRecord, LaunchId, LaunchRecord, LayoutSource, RegionOwner,
};
use r3_image::Image;
use serde::Serialize;

use super::REPORT_VERSION;
use super::attached::{Attached, attached};
use crate::code::spell_forms;
use crate::compare::{argument, buffer_names};
use crate::names::{printable, readable};
use crate::trust::{Caveat, caveats};

/// The report of `show`.
#[derive(Clone, Debug, Serialize)]
pub struct Launch {
    /// Version of the report.
    pub version: u32,
    /// Number.
    pub id: LaunchId,
    /// Kernel.
    pub kernel: KernelId,
    /// The kernel's readable name.
    pub name: String,
    /// The kernel's name as in the code.
    pub mangled: String,
    /// Code forms of its image, for people.
    pub code: String,
    /// What was attached to the kernel, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// Driver entry point.
    pub entry_point: String,
    /// Grid dimensions.
    pub grid: [u32; 3],
    /// Block dimensions.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Launched cooperatively.
    pub cooperative: bool,
    /// Device.
    pub device: i32,
    /// How often this kernel had been launched with this shape.
    pub occurrence: u64,
    /// How many launches the program had made.
    pub sequence: u64,
    /// Launching thread.
    pub thread: u64,
    /// Time of the launch, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
    /// Where the layout of the parameters was read.
    pub layout: &'static str,
    /// Parameters.
    pub arguments: Vec<Argument>,
    /// Launch attributes: number and value in hexadecimal digits.
    pub attributes: Vec<(u32, String)>,
    /// Function attributes that the application can set, with their values.
    pub function_settings: Vec<(i32, i32)>,
    /// Cache preference, if the application set one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_config: Option<u32>,
    /// Limits of the context.
    pub limits: Vec<(u32, u64)>,
    /// Memory.
    pub regions: Vec<Region>,
    /// Why a replay proves less than it seems to.
    pub caveats: Vec<Caveat>,
    /// Notes of the capture.
    pub notes: Vec<String>,
}

/// One parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Argument {
    /// Name: `arg0`.
    pub name: String,
    /// Offset in the parameter buffer.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Its bytes, in hexadecimal digits; of large ones only the first.
    pub bytes: String,
    /// What the bytes are as numbers, for sizes that have a number type.
    pub values: Vec<String>,
    /// Words in it that point into memory.
    pub pointers: Vec<Pointer>,
}

/// A pointer in a parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Pointer {
    /// Offset of the word in the parameter buffer.
    pub offset: u32,
    /// The word.
    pub address: u64,
    /// The allocation that it points into, and how far.
    pub target: String,
}

/// Memory of the launch.
#[derive(Clone, Debug, Serialize)]
pub struct Region {
    /// Name.
    pub name: String,
    /// Address.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// Kind of memory.
    pub kind: &'static str,
    /// 64 KiB chunks.
    pub chunks: u64,
    /// Chunks among them that are not all zeros.
    pub stored_chunks: u64,
    /// Chunks that the launch changed.
    pub changed_chunks: u64,
}

/// Gathers the report.
pub fn show(archive: &Archive, launch: &LaunchRecord) -> Launch {
    let kernel = archive.kernel(launch.kernel);
    let image = kernel
        .and_then(|kernel| archive.module(kernel.module?))
        .and_then(|module| archive.read_blob(&module.image).ok())
        .map(Image::from_vec);
    let details = kernel
        .zip(image.as_ref())
        .and_then(|(kernel, image)| image.kernel(&kernel.name));
    Launch {
        version: REPORT_VERSION,
        id: launch.id,
        kernel: launch.kernel,
        name: kernel.map_or_else(
            || format!("kernel {}", launch.kernel),
            |kernel| readable(&kernel.name),
        ),
        mangled: kernel
            .map(|kernel| printable(&kernel.name))
            .unwrap_or_default(),
        code: image.as_ref().map_or_else(
            || "not in the archive".to_owned(),
            |image| spell_forms(&image.code_forms()),
        ),
        attached: attached(archive, launch.kernel),
        entry_point: printable(&launch.entry_point),
        grid: launch.grid,
        block: launch.block,
        dynamic_shared: launch.dynamic_shared,
        cooperative: launch.cooperative,
        device: launch.device,
        occurrence: launch.occurrence,
        sequence: launch.sequence,
        thread: launch.thread,
        unix_ns: launch.unix_ns,
        layout: kernel.map_or("unknown", |kernel| match kernel.layout {
            LayoutSource::Driver => "driver",
            LayoutSource::Cubin => "cubin",
            LayoutSource::Ptx => "ptx",
            LayoutSource::Buffer => "unknown",
        }),
        arguments: kernel
            .map(|kernel| arguments(archive, kernel, launch))
            .unwrap_or_default(),
        attributes: launch
            .attributes
            .iter()
            .map(|a| (a.id, hex(&a.value, usize::MAX)))
            .collect(),
        function_settings: launch.function_settings.clone(),
        cache_config: launch.cache_config,
        limits: launch.limits.clone(),
        regions: kernel
            .map(|kernel| regions(archive, kernel, launch))
            .unwrap_or_default(),
        caveats: caveats(launch, details.as_ref()),
        notes: launch.notes.iter().map(|note| printable(note)).collect(),
    }
}

/// Most bytes of a parameter that are shown.
const SHOWN: usize = 64;

fn arguments(archive: &Archive, kernel: &KernelRecord, launch: &LaunchRecord) -> Vec<Argument> {
    let whole = (0, u32::try_from(launch.params.len()).unwrap_or(u32::MAX));
    let layout: Vec<(u32, u32)> = match kernel.layout {
        LayoutSource::Buffer if launch.params.is_empty() => Vec::new(),
        LayoutSource::Buffer => vec![whole],
        _ => kernel
            .params
            .iter()
            .map(|param| (param.offset, param.size))
            .collect(),
    };
    layout
        .into_iter()
        .map(|(offset, size)| {
            let end = offset.saturating_add(size);
            let bytes = launch
                .params
                .get(offset as usize..end as usize)
                .unwrap_or_default();
            Argument {
                name: argument(kernel, offset),
                offset,
                size,
                bytes: hex(bytes, SHOWN),
                values: values(bytes),
                pointers: launch
                    .pointers
                    .iter()
                    .filter(|p| (offset..end).contains(&p.offset))
                    .map(|p| Pointer {
                        offset: p.offset,
                        address: p.address,
                        target: match archive.allocation(p.allocation) {
                            Some(allocation) => format!(
                                "alloc {}+{:#x}",
                                p.allocation,
                                p.address.saturating_sub(allocation.address)
                            ),
                            None => format!("alloc {}", p.allocation),
                        },
                    })
                    .collect(),
            }
        })
        .collect()
}

/// A parameter as the numbers that it may be.
fn values(bytes: &[u8]) -> Vec<String> {
    match *bytes {
        [a] => vec![format!("{a}")],
        [a, b] => vec![format!("{}", i16::from_le_bytes([a, b]))],
        [a, b, c, d] => {
            let word = [a, b, c, d];
            vec![
                format!("{}", i32::from_le_bytes(word)),
                format!("{:?}f", f32::from_le_bytes(word)),
            ]
        }
        [a, b, c, d, e, f, g, h] => {
            let word = [a, b, c, d, e, f, g, h];
            vec![
                format!("{}", i64::from_le_bytes(word)),
                format!("{:?}", f64::from_le_bytes(word)),
            ]
        }
        _ => Vec::new(),
    }
}

fn hex(bytes: &[u8], most: usize) -> String {
    let mut text: String = bytes
        .iter()
        .take(most)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if bytes.len() > most {
        text.push('…');
    }
    text
}

fn regions(archive: &Archive, kernel: &KernelRecord, launch: &LaunchRecord) -> Vec<Region> {
    let names = buffer_names(kernel, launch);
    launch
        .before
        .regions
        .iter()
        .zip(names)
        .enumerate()
        .map(|(index, (region, name))| Region {
            name: name.all().collect::<Vec<_>>().join(", "),
            address: region.address,
            len: region.len,
            kind: match &region.owner {
                RegionOwner::Global { .. } => "variable",
                RegionOwner::Allocation(id) => archive
                    .allocation(*id)
                    .map_or("unknown", |allocation| kind(allocation.kind)),
            },
            chunks: region.chunks.len(),
            stored_chunks: region.chunks.stored().count() as u64,
            changed_chunks: launch
                .after
                .changes
                .iter()
                .filter(|change| change.region as usize == index)
                .count() as u64,
        })
        .collect()
}

/// A kind of allocation, for people.
pub fn kind(kind: AllocationKind) -> &'static str {
    match kind {
        AllocationKind::Device => "device",
        AllocationKind::Pitched => "pitched",
        AllocationKind::Async => "stream-ordered",
        AllocationKind::Mapped => "mapped",
        AllocationKind::Managed => "managed",
        AllocationKind::Host => "host",
        AllocationKind::HostRegistered => "registered host",
        AllocationKind::Ipc => "other process's",
        AllocationKind::External => "external",
        AllocationKind::Foreign => "not seen",
    }
}
