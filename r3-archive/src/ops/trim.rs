//! Cutting an archive to some of its launches.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
};

use super::{OpError, Written, copy::Output};
use crate::{
    Archive,
    model::{
        AllocationId, AttachmentRecord, KernelId, LaunchId, LaunchRecord, ModuleId, RegionOwner,
        SourceId,
    },
};

/// Writes the launches that `select` chooses to the new file `out`, with the kernels, modules,
/// sources, allocations and chunks that they need and nothing else; ids stay as they are, and
/// chunks are copied as they are compressed. Process and devices are kept, and so are the launch
/// counts of the kernels that are kept, since a tuner weights by them, and the code that was
/// attached to them.
///
/// `select` sees each launch with nothing in `before` and `after`.
pub fn trim(
    archive: &Archive,
    select: impl Fn(&LaunchRecord) -> bool,
    out: &Path,
) -> Result<Written, OpError> {
    let chosen: Vec<&LaunchRecord> = archive
        .launch_heads()
        .iter()
        .filter(|launch| select(launch))
        .collect();
    if chosen.is_empty() {
        return Err(OpError::NothingSelected);
    }
    let needs = Needs::of(archive, &chosen)?;
    Output::create(out, |output| {
        for process in archive.processes() {
            output.append(process)?;
        }
        for device in archive.devices() {
            output.append(device)?;
        }
        for source in archive
            .sources()
            .iter()
            .filter(|r| needs.sources.contains(&r.id))
        {
            output.source(archive, source)?;
        }
        for module in archive
            .modules()
            .iter()
            .filter(|r| needs.modules.contains(&r.id))
        {
            output.module(archive, module)?;
        }
        for kernel in archive
            .kernels()
            .iter()
            .filter(|r| needs.kernels.contains(&r.id))
        {
            output.append(kernel)?;
            output.written.kernels += 1;
        }
        for allocation in archive
            .allocations()
            .iter()
            .filter(|r| needs.allocations.contains(&r.id))
        {
            output.append(allocation)?;
        }
        for launch in &needs.launches {
            output.launch(archive, &archive.load_launch(*launch)?)?;
        }
        for stats in archive
            .kernel_stats()
            .iter()
            .filter(|r| needs.kernels.contains(&r.kernel))
        {
            output.append(stats)?;
        }
        for attachment in &needs.attachments {
            output.attachment(archive, attachment)?;
        }
        for tuned in archive.tuned() {
            let kept = |kernel: &crate::model::KernelRecord| {
                needs.kernels.contains(&kernel.id) && kernel.name == tuned.kernel
            };
            if archive.kernels().iter().any(kept) {
                output.tuned(archive, tuned)?;
            }
        }
        output.append(archive.process_stats())
    })
}

/// What the chosen launches refer to.
#[derive(Default)]
struct Needs {
    launches: BTreeSet<LaunchId>,
    kernels: HashSet<KernelId>,
    modules: HashSet<ModuleId>,
    sources: HashSet<SourceId>,
    allocations: HashSet<AllocationId>,
    attachments: Vec<AttachmentRecord>,
}

impl Needs {
    fn of(archive: &Archive, chosen: &[&LaunchRecord]) -> Result<Self, OpError> {
        let mut needs = Self::default();
        for launch in chosen {
            needs.launches.insert(launch.id);
            needs.kernels.insert(launch.kernel);
            needs.modules.extend(
                archive
                    .kernel(launch.kernel)
                    .and_then(|kernel| kernel.module),
            );
            needs
                .allocations
                .extend(launch.pointers.iter().map(|pointer| pointer.allocation));
            for owner in archive.owners(launch.id) {
                match owner {
                    RegionOwner::Allocation(id) => needs.allocations.insert(*id),
                    RegionOwner::Global { module, .. } => needs.modules.insert(*module),
                };
            }
        }
        for attachment in archive.attachments() {
            let mut attachment = attachment.clone();
            attachment
                .kernels
                .retain(|entry| needs.kernels.contains(&entry.kernel));
            if !attachment.kernels.is_empty() {
                needs.sources.extend(attachment.source);
                needs.attachments.push(attachment);
            }
        }
        for module in &needs.modules {
            needs
                .sources
                .extend(archive.module(*module).and_then(|module| module.source));
        }
        Ok(needs)
    }
}
