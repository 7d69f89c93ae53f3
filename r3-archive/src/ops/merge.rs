//! Putting several archives into one.

use std::{borrow::Borrow, collections::HashMap, hash::Hash, path::Path};

use super::{OpError, Written, copy::Output};
use crate::{Archive, model::*};

/// Writes everything of all `archives` to the new file `out`.
///
/// - Ids are given anew, so that they stay unique; equal chunks are stored once.
/// - All process records are kept, those of the first archive first: it is the one that
///   [`Archive::process`] returns. Each launch gets a note that names the process it came from.
/// - Devices are the same when their UUIDs are; otherwise a device whose ordinal is taken gets a
///   free one, and launches and allocations follow.
/// - Modules and kernels are kept apart even when they are equal, since launch counts and
///   occurrences belong to one process.
pub fn merge<A: Borrow<Archive>>(archives: &[A], out: &Path) -> Result<Written, OpError> {
    if archives.is_empty() {
        return Err(OpError::NoInput);
    }
    Output::create(out, |output| {
        for archive in archives {
            for process in archive.borrow().processes() {
                output.append(process)?;
            }
        }
        let mut next = Next::default();
        let mut stats = ProcessStatsRecord::default();
        for archive in archives {
            let archive = archive.borrow();
            Merging {
                archive,
                output,
                next: &mut next,
                ids: Ids::default(),
            }
            .run()?;
            add(&mut stats, archive.process_stats());
        }
        output.append(&stats)
    })
}

fn add(sum: &mut ProcessStatsRecord, more: &ProcessStatsRecord) {
    sum.launches = sum.launches.saturating_add(more.launches);
    sum.captured = sum.captured.saturating_add(more.captured);
    sum.launches_into_graphs = sum
        .launches_into_graphs
        .saturating_add(more.launches_into_graphs);
    sum.graph_launches = sum.graph_launches.saturating_add(more.graph_launches);
    sum.snapshot_bytes = sum.snapshot_bytes.saturating_add(more.snapshot_bytes);
    sum.messages.extend(more.messages.iter().cloned());
}

/// The last ids that were given.
#[derive(Default)]
struct Next {
    module: u64,
    source: u64,
    kernel: u64,
    allocation: u64,
    launch: u64,
    attachment: u64,
    tuned: u64,
    devices: Vec<DeviceRecord>,
}

/// The new ids of one archive's records.
#[derive(Default)]
struct Ids {
    modules: HashMap<ModuleId, u64>,
    sources: HashMap<SourceId, u64>,
    kernels: HashMap<KernelId, u64>,
    allocations: HashMap<AllocationId, u64>,
    launches: HashMap<LaunchId, u64>,
    ordinals: HashMap<i32, i32>,
}

/// The new id of `old`. One whose record is lost gets a new id all the same, so that it does not
/// come to mean another archive's record.
fn renumber<I: Hash + Eq>(ids: &mut HashMap<I, u64>, next: &mut u64, old: I) -> u64 {
    *ids.entry(old).or_insert_with(|| {
        *next += 1;
        *next
    })
}

struct Merging<'a> {
    archive: &'a Archive,
    output: &'a mut Output,
    next: &'a mut Next,
    ids: Ids,
}

impl Merging<'_> {
    fn run(mut self) -> Result<(), OpError> {
        let archive = self.archive;
        for device in archive.devices() {
            self.device(device)?;
        }
        for source in archive.sources() {
            let id = self.source_id(source.id);
            self.output.source(
                archive,
                &SourceRecord {
                    id,
                    ..source.clone()
                },
            )?;
        }
        for module in archive.modules() {
            let id = self.module_id(module.id);
            let source = module.source.map(|source| self.source_id(source));
            self.output.module(
                archive,
                &ModuleRecord {
                    id,
                    source,
                    ..module.clone()
                },
            )?;
        }
        for kernel in archive.kernels() {
            let id = self.kernel_id(kernel.id);
            let module = kernel.module.map(|module| self.module_id(module));
            self.output.append(&KernelRecord {
                id,
                module,
                ..kernel.clone()
            })?;
            self.output.written.kernels += 1;
        }
        for allocation in archive.allocations() {
            let id = self.allocation_id(allocation.id);
            let device = self.ordinal(allocation.device);
            self.output.append(&AllocationRecord {
                id,
                device,
                ..allocation.clone()
            })?;
        }
        for head in archive.launch_heads() {
            let launch = self.launch(archive.load_launch(head.id)?);
            self.output.launch(archive, &launch)?;
        }
        for stats in archive.kernel_stats() {
            let kernel = self.kernel_id(stats.kernel);
            self.output.append(&KernelStatsRecord {
                kernel,
                ..stats.clone()
            })?;
        }
        for attachment in archive.attachments() {
            let attachment = self.attachment(attachment.clone());
            self.output.attachment(archive, &attachment)?;
        }
        for tuned in archive.tuned() {
            self.next.tuned += 1;
            self.output.tuned(
                archive,
                &TunedKernelRecord {
                    id: TunedId(self.next.tuned),
                    ..tuned.clone()
                },
            )?;
        }
        Ok(())
    }

    fn attachment(&mut self, mut attachment: AttachmentRecord) -> AttachmentRecord {
        self.next.attachment += 1;
        attachment.id = AttachmentId(self.next.attachment);
        for entry in &mut attachment.kernels {
            entry.kernel = self.kernel_id(entry.kernel);
            for launches in [&mut entry.verified, &mut entry.within] {
                // Those that a trim has left out since have no new id.
                *launches = launches
                    .iter()
                    .filter_map(|launch| Some(LaunchId(*self.ids.launches.get(launch)?)))
                    .collect();
            }
        }
        attachment.source = attachment.source.map(|source| self.source_id(source));
        attachment
    }

    fn device(&mut self, device: &DeviceRecord) -> Result<(), OpError> {
        let known = self
            .next
            .devices
            .iter()
            .find(|known| known.uuid == device.uuid);
        if let Some(known) = known {
            self.ids.ordinals.insert(device.ordinal, known.ordinal);
            return Ok(());
        }
        let taken = |ordinal: i32| {
            self.next
                .devices
                .iter()
                .any(|known| known.ordinal == ordinal)
        };
        let ordinal = if taken(device.ordinal) {
            (0..i32::MAX)
                .find(|ordinal| !taken(*ordinal))
                .unwrap_or(device.ordinal)
        } else {
            device.ordinal
        };
        self.ids.ordinals.insert(device.ordinal, ordinal);
        let device = DeviceRecord {
            ordinal,
            ..device.clone()
        };
        self.output.append(&device)?;
        self.next.devices.push(device);
        Ok(())
    }

    fn launch(&mut self, mut launch: LaunchRecord) -> LaunchRecord {
        let process = self.archive.process();
        launch.notes.push(format!(
            "merged: was launch {} of {}, process {} on {}",
            launch.id, process.exe, process.pid, process.host
        ));
        self.next.launch += 1;
        self.ids.launches.insert(launch.id, self.next.launch);
        launch.id = LaunchId(self.next.launch);
        launch.kernel = self.kernel_id(launch.kernel);
        launch.device = self.ordinal(launch.device);
        for pointer in &mut launch.pointers {
            pointer.allocation = self.allocation_id(pointer.allocation);
        }
        for region in &mut launch.before.regions {
            match &mut region.owner {
                RegionOwner::Allocation(id) => *id = self.allocation_id(*id),
                RegionOwner::Global { module, .. } => *module = self.module_id(*module),
            }
        }
        launch
    }

    fn ordinal(&self, old: i32) -> i32 {
        self.ids.ordinals.get(&old).copied().unwrap_or(old)
    }

    fn module_id(&mut self, old: ModuleId) -> ModuleId {
        ModuleId(renumber(&mut self.ids.modules, &mut self.next.module, old))
    }

    fn source_id(&mut self, old: SourceId) -> SourceId {
        SourceId(renumber(&mut self.ids.sources, &mut self.next.source, old))
    }

    fn kernel_id(&mut self, old: KernelId) -> KernelId {
        KernelId(renumber(&mut self.ids.kernels, &mut self.next.kernel, old))
    }

    fn allocation_id(&mut self, old: AllocationId) -> AllocationId {
        AllocationId(renumber(
            &mut self.ids.allocations,
            &mut self.next.allocation,
            old,
        ))
    }
}
