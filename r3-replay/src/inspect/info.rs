//! `info`: totals, and one entry per kernel.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use r3_archive::Archive;
use r3_archive::model::{KernelId, KernelRecord, KernelStatsRecord, LaunchRecord, ModuleId};
use r3_image::{Image, KernelInfo};
use rayon::prelude::*;
use serde::Serialize;

use super::attached::{Attached, attached};
use super::tuned::{Tuned, tuned};
use super::{REPORT_VERSION, spell_uuid};
use crate::code::spell_forms;
use crate::names::{printable, readable};

/// The report of `info`.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Version of the report.
    pub version: u32,
    /// The file.
    pub file: String,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Its identity.
    pub uuid: String,
    /// What was lost of it, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub salvaged: Option<String>,
    /// Processes whose launches it has: several after a merge, none when the record of the process
    /// is lost. What follows is of the first.
    pub processes: usize,
    /// Version of R3 that captured it.
    pub r3_version: String,
    /// Command line of the program.
    pub command: Vec<String>,
    /// Host and process.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Rank, when the program had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Start of the capture, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// Driver version, e.g. 13000.
    pub driver_version: i32,
    /// GPUs.
    pub devices: Vec<Device>,
    /// Launches.
    pub launches: Totals,
    /// Kernels, the most launched first.
    pub kernels: Vec<Kernel>,
    /// Tuned kernels, which `r3-evolve tune` made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
    /// What the capture could not record.
    pub messages: Vec<String>,
}

/// A GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Ordinal in the program.
    pub ordinal: i32,
    /// Name.
    pub name: String,
    /// Compute capability.
    pub compute_capability: (i32, i32),
    /// Memory in bytes.
    pub total_memory: u64,
}

/// Counts over all kernels.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Launches in the archive.
    pub recorded: u64,
    /// Launches that the capture saw.
    pub seen: u64,
    /// Launches that went into CUDA graphs, which are not captured.
    pub into_graphs: u64,
    /// Launches of CUDA graphs.
    pub graph_launches: u64,
    /// Bytes of memory that the recorded launches cover, before compression.
    pub memory_bytes: u64,
}

/// A kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// Number.
    pub id: KernelId,
    /// Readable name.
    pub name: String,
    /// Name as in the code.
    pub mangled: String,
    /// Launches that the capture saw.
    pub seen: u64,
    /// Launches in the archive.
    pub recorded: u64,
    /// Shapes of launches: grid, block, dynamic shared memory, launches seen and recorded.
    pub shapes: Vec<Shape>,
    /// Bytes of memory that its recorded launches cover.
    pub memory_bytes: u64,
    /// Module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<ModuleId>,
    /// Code forms of its image, for people.
    pub code: String,
    /// Whether source came with it.
    pub source: bool,
    /// What was attached to it, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attached: Vec<Attached>,
    /// Registers per thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Static shared memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub static_shared: Option<u32>,
    /// What is special: `cooperative`, `cluster`, `printf`, `heap`, `assert`, `device-launch`.
    pub flags: Vec<&'static str>,
    /// Selected launches that were not recorded, by reason.
    pub skipped: Vec<Skipped>,
}

/// One shape of a kernel's launches.
#[derive(Clone, Debug, Serialize)]
pub struct Shape {
    /// Grid dimensions.
    pub grid: [u32; 3],
    /// Block dimensions.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Launches seen.
    pub seen: u64,
    /// Launches recorded.
    pub recorded: u64,
}

/// Launches that were not recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// Why.
    pub reason: String,
    /// How many.
    pub launches: u64,
}

/// What the recorded launches of a kernel say.
#[derive(Default)]
struct FromLaunches {
    recorded: u64,
    memory: u64,
    cooperative: bool,
    cluster: bool,
    shapes: BTreeMap<([u32; 3], [u32; 3], u32), u64>,
}

/// Gathers the report.
pub fn info(archive: &Archive) -> Info {
    let process = archive.process();
    let stats = archive.process_stats();
    let from_launches = from_launches(archive);
    let images = Images::read(archive);
    let by_kernel: HashMap<KernelId, &KernelStatsRecord> = archive
        .kernel_stats()
        .iter()
        .map(|stats| (stats.kernel, stats))
        .collect();
    let mut kernels: Vec<Kernel> = archive
        .kernels()
        .iter()
        .map(|record| {
            let launches = from_launches.get(&record.id);
            kernel(
                archive,
                record,
                by_kernel.get(&record.id).copied(),
                launches,
                &images,
            )
        })
        .collect();
    kernels.sort_by(|a, b| (b.seen, b.recorded, &a.name).cmp(&(a.seen, a.recorded, &b.name)));
    let recorded = archive.launch_heads().len() as u64;
    Info {
        version: REPORT_VERSION,
        file: archive.path().display().to_string(),
        file_bytes: archive.file_len(),
        uuid: spell_uuid(archive.uuid()),
        salvaged: archive.salvaged().map(ToString::to_string),
        processes: processes(archive),
        r3_version: printable(&process.r3_version),
        command: process
            .argv
            .iter()
            .map(|argument| printable(argument))
            .collect(),
        host: printable(&process.host),
        pid: process.pid,
        rank: process.rank,
        started_unix_ns: process.started_unix_ns,
        driver_version: process.driver_version,
        devices: archive
            .devices()
            .iter()
            .map(|device| Device {
                ordinal: device.ordinal,
                name: printable(&device.name),
                compute_capability: device.compute_capability,
                total_memory: device.total_memory,
            })
            .collect(),
        launches: Totals {
            recorded,
            seen: stats.launches.max(recorded),
            into_graphs: stats.launches_into_graphs,
            graph_launches: stats.graph_launches,
            memory_bytes: kernels
                .iter()
                .fold(0, |sum, k| sum.saturating_add(k.memory_bytes)),
        },
        kernels,
        tuned: tuned(archive),
        messages: stats
            .messages
            .iter()
            .map(|message| printable(message))
            .collect(),
    }
}

/// Parts of one capture that were merged again are of one process.
fn processes(archive: &Archive) -> usize {
    let different: BTreeSet<_> = archive
        .processes()
        .iter()
        .map(|process| (&process.host, process.pid, process.started_unix_ns))
        .collect();
    different.len()
}

fn from_launches(archive: &Archive) -> HashMap<KernelId, FromLaunches> {
    let memory: Vec<u64> = archive
        .launch_heads()
        .par_iter()
        .map(|head| {
            archive.load_launch(head.id).map_or(0, |launch| {
                launch
                    .before
                    .regions
                    .iter()
                    .fold(0u64, |sum, r| sum.saturating_add(r.len))
            })
        })
        .collect();
    let mut kernels: HashMap<KernelId, FromLaunches> = HashMap::new();
    for (launch, memory) in archive.launch_heads().iter().zip(memory) {
        let kernel = kernels.entry(launch.kernel).or_default();
        kernel.recorded += 1;
        kernel.memory = kernel.memory.saturating_add(memory);
        kernel.cooperative |= launch.cooperative;
        kernel.cluster |= has_cluster(launch);
        *kernel
            .shapes
            .entry((launch.grid, launch.block, launch.dynamic_shared))
            .or_default() += 1;
    }
    kernels
}

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER_DIMENSION: u32 = 4;

fn has_cluster(launch: &LaunchRecord) -> bool {
    launch
        .attributes
        .iter()
        .any(|attribute| attribute.id == CLUSTER_DIMENSION)
}

/// The images of all modules that kernels come from.
struct Images(HashMap<ModuleId, Image>);

impl Images {
    fn read(archive: &Archive) -> Self {
        let wanted: BTreeSet<ModuleId> = archive
            .kernels()
            .iter()
            .filter_map(|kernel| kernel.module)
            .collect();
        Self(
            wanted
                .into_par_iter()
                .filter_map(|id| {
                    let record = archive.module(id)?;
                    Some((id, Image::from_vec(archive.read_blob(&record.image).ok()?)))
                })
                .collect(),
        )
    }
}

fn kernel(
    archive: &Archive,
    record: &KernelRecord,
    stats: Option<&KernelStatsRecord>,
    launches: Option<&FromLaunches>,
    images: &Images,
) -> Kernel {
    let image = record.module.and_then(|module| images.0.get(&module));
    let details = image.and_then(|image| image.kernel(&record.name));
    let shapes = shapes(stats, launches);
    let recorded = launches.map_or(0, |l| l.recorded);
    let seen = shapes
        .iter()
        .fold(0u64, |sum, shape| sum.saturating_add(shape.seen));
    let source = record
        .module
        .and_then(|module| archive.module(module))
        .is_some_and(|module| module.source.is_some());
    let code = match (record.module, image) {
        (_, Some(image)) => spell_forms(&image.code_forms()),
        // A kernel that is only counted has no module in its record.
        (None, _) if recorded == 0 => "not in the archive".to_owned(),
        (None, _) => "none: the load of its module was not seen".to_owned(),
        (Some(_), None) => "not in the archive".to_owned(),
    };
    Kernel {
        id: record.id,
        name: readable(&record.name),
        mangled: printable(&record.name),
        seen: seen.max(recorded),
        recorded,
        shapes,
        memory_bytes: launches.map_or(0, |l| l.memory),
        module: record.module,
        code,
        source,
        attached: attached(archive, record.id),
        registers: details.as_ref().and_then(|d| d.registers),
        static_shared: details.as_ref().and_then(|d| d.static_shared),
        flags: flags(launches, details.as_ref()),
        skipped: stats
            .map(|stats| {
                stats
                    .skipped
                    .iter()
                    .map(|s| Skipped {
                        reason: printable(&s.reason),
                        launches: s.launches,
                    })
                    .collect()
            })
            .unwrap_or_default(),
    }
}

fn shapes(stats: Option<&KernelStatsRecord>, launches: Option<&FromLaunches>) -> Vec<Shape> {
    // What was captured is not what is here, once the archive was trimmed; and of a program that
    // was killed, counts may be missing.
    let mut here = launches.map(|l| l.shapes.clone()).unwrap_or_default();
    let mut shapes: Vec<Shape> = stats
        .iter()
        .flat_map(|stats| &stats.shapes)
        .map(|shape| {
            let key = (shape.grid, shape.block, shape.dynamic_shared);
            let recorded = here.remove(&key).unwrap_or(0);
            Shape {
                grid: shape.grid,
                block: shape.block,
                dynamic_shared: shape.dynamic_shared,
                seen: shape.launches.max(recorded),
                recorded,
            }
        })
        .collect();
    shapes.extend(
        here.into_iter()
            .map(|((grid, block, dynamic_shared), count)| Shape {
                grid,
                block,
                dynamic_shared,
                seen: count,
                recorded: count,
            }),
    );
    shapes.sort_by_key(|shape| (std::cmp::Reverse(shape.seen), shape.grid, shape.block));
    shapes
}

fn flags(launches: Option<&FromLaunches>, details: Option<&KernelInfo>) -> Vec<&'static str> {
    let mut flags = Vec::new();
    let mut add = |name, holds: bool| {
        if holds {
            flags.push(name);
        }
    };
    add("cooperative", launches.is_some_and(|l| l.cooperative));
    add(
        "cluster",
        launches.is_some_and(|l| l.cluster) || details.is_some_and(|d| d.cluster_dims.is_some()),
    );
    add("printf", details.is_some_and(KernelInfo::uses_printf));
    add("heap", details.is_some_and(KernelInfo::uses_heap));
    add("assert", details.is_some_and(KernelInfo::uses_assert));
    add(
        "device-launch",
        details.is_some_and(KernelInfo::launches_kernels),
    );
    flags
}
