//! `ls`: one entry per launch.

use r3_archive::Archive;
use r3_archive::model::{KernelId, LaunchId, LaunchRecord};
use rayon::prelude::*;
use serde::Serialize;

use super::REPORT_VERSION;
use crate::names::{printable, readable};

/// The report of `ls`.
#[derive(Clone, Debug, Serialize)]
pub struct Launches {
    /// Version of the report.
    pub version: u32,
    /// Launches in the order in which they were recorded.
    pub launches: Vec<Launch>,
}

/// A launch.
#[derive(Clone, Debug, Serialize)]
pub struct Launch {
    /// Number.
    pub id: LaunchId,
    /// Kernel.
    pub kernel: KernelId,
    /// The kernel's readable name.
    pub name: String,
    /// Grid dimensions.
    pub grid: [u32; 3],
    /// Block dimensions.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// How often this kernel had been launched with this shape.
    pub occurrence: u64,
    /// How many launches the program had made.
    pub sequence: u64,
    /// Device.
    pub device: i32,
    /// Regions of memory that were saved.
    pub regions: u64,
    /// Their bytes.
    pub memory_bytes: u64,
    /// Bytes in chunks that the launch changed.
    pub changed_bytes: u64,
    /// Notes of the capture.
    pub notes: Vec<String>,
}

/// Gathers the report about some launches, given without their memory.
pub fn launches(archive: &Archive, heads: &[&LaunchRecord]) -> Launches {
    Launches {
        version: REPORT_VERSION,
        launches: heads.par_iter().map(|head| launch(archive, head)).collect(),
    }
}

fn launch(archive: &Archive, head: &LaunchRecord) -> Launch {
    let full = archive.load_launch(head.id).ok();
    let regions = full
        .as_ref()
        .map(|l| l.before.regions.as_slice())
        .unwrap_or_default();
    let chunk = r3_archive::chunk::CHUNK_SIZE as u64;
    let changed = full.as_ref().map_or(0, |launch| {
        launch
            .after
            .changes
            .iter()
            .filter_map(|change| {
                let len = regions.get(change.region as usize)?.len;
                Some(
                    len.saturating_sub(change.chunk.saturating_mul(chunk))
                        .min(chunk),
                )
            })
            .sum()
    });
    Launch {
        id: head.id,
        kernel: head.kernel,
        name: archive.kernel(head.kernel).map_or_else(
            || format!("kernel {}", head.kernel),
            |kernel| readable(&kernel.name),
        ),
        grid: head.grid,
        block: head.block,
        dynamic_shared: head.dynamic_shared,
        occurrence: head.occurrence,
        sequence: head.sequence,
        device: head.device,
        regions: regions.len() as u64,
        memory_bytes: regions
            .iter()
            .fold(0, |sum, region| sum.saturating_add(region.len)),
        changed_bytes: changed,
        notes: head.notes.iter().map(|note| printable(note)).collect(),
    }
}
