//! Every reference from one record to another, and from records to chunks.

use std::collections::HashSet;

use super::report::{Report, Severity};
use crate::{
    Archive,
    chunk::{Blob, CHUNK_SIZE, ChunkId, ChunkList, ChunkRef},
    model::*,
};

/// Checks all records; `damaged` are chunks that cannot be read.
pub(super) fn check(archive: &Archive, damaged: HashSet<ChunkId>, report: &mut Report) {
    let mut checker = Checker {
        archive,
        report,
        damaged,
        used: HashSet::new(),
    };
    checker.unique();
    checker.process();
    checker.code();
    for head in archive.launch_heads() {
        match archive.load_launch(head.id) {
            Ok(launch) => checker.launch(&launch),
            Err(error) => checker
                .report
                .error(format!("launch {}", head.id), error.to_string()),
        }
    }
    checker.stats();
    checker.attachments();
    checker.tuned();
    let tables = archive.table_chunks();
    checker.used.extend(tables);
    let used = checker.used;
    report.unused_chunks = archive.chunk_ids().filter(|id| !used.contains(id)).count() as u64;
}

struct Checker<'a> {
    archive: &'a Archive,
    report: &'a mut Report,
    damaged: HashSet<ChunkId>,
    used: HashSet<ChunkId>,
}

impl Checker<'_> {
    fn unique(&mut self) {
        let archive = self.archive;
        let mut twice = |kind: &str, ids: &mut dyn Iterator<Item = u64>| {
            let mut seen = HashSet::new();
            for id in ids.filter(|id| !seen.insert(*id)) {
                self.report
                    .error(format!("{kind} {id}"), "its id is given twice");
            }
        };
        twice("module", &mut archive.modules().iter().map(|r| r.id.0));
        twice("source", &mut archive.sources().iter().map(|r| r.id.0));
        twice("kernel", &mut archive.kernels().iter().map(|r| r.id.0));
        twice(
            "allocation",
            &mut archive.allocations().iter().map(|r| r.id.0),
        );
        twice(
            "attachment",
            &mut archive.attachments().iter().map(|r| r.id.0),
        );
        twice("tuned kernel", &mut archive.tuned().iter().map(|r| r.id.0));
    }

    fn process(&mut self) {
        // A file of results has no process.
        let results = !self.archive.tuned().is_empty() && self.archive.launch_heads().is_empty();
        if self.archive.processes().is_empty() && !results {
            // A process that is killed early has not written it yet.
            let early = !self.report.finished;
            let severity = if early {
                Severity::Warning
            } else {
                Severity::Error
            };
            self.report
                .add(severity, None, "process", "its record is missing");
        }
        let mut ordinals = HashSet::new();
        for device in self.archive.devices() {
            if !ordinals.insert(device.ordinal) {
                self.report
                    .error(format!("device {}", device.ordinal), "it is there twice");
            }
        }
    }

    fn code(&mut self) {
        let archive = self.archive;
        for source in archive.sources() {
            let what = format!("source {}", source.id);
            self.blob(&what, &source.text);
            for (name, text) in &source.headers {
                self.blob(&format!("{what}, header {name}"), text);
            }
        }
        for module in archive.modules() {
            let what = format!("module {}", module.id);
            self.blob(&what, &module.image);
            if let Some(source) = module.source
                && archive.source(source).is_none()
            {
                self.report
                    .error(what, format!("its source {source} is missing"));
            }
        }
        for kernel in archive.kernels() {
            if let Some(module) = kernel.module
                && archive.module(module).is_none()
            {
                let what = format!("kernel {}", kernel.id);
                self.report
                    .error(what, format!("its module {module} is missing"));
            }
        }
    }

    fn attachments(&mut self) {
        let archive = self.archive;
        for attachment in archive.attachments() {
            let what = format!("attachment {}", attachment.id);
            for form in &attachment.forms {
                self.blob(&what, &form.code);
            }
            if attachment.code(AttachedForm::Ptx).is_none() {
                self.report.error(&what, "it has no PTX");
            }
            for entry in &attachment.kernels {
                if archive.kernel(entry.kernel).is_none() {
                    let message = format!("its kernel {} is missing", entry.kernel);
                    self.report.error(&what, message);
                }
            }
            if let Some(source) = attachment.source
                && archive.source(source).is_none()
            {
                self.report
                    .error(&what, format!("its source {source} is missing"));
            }
        }
    }

    fn tuned(&mut self) {
        let archive = self.archive;
        for tuned in archive.tuned() {
            let what = format!("tuned kernel {}", tuned.id);
            for code in &tuned.code {
                self.blob(&what, &code.code);
            }
            if let Some(source) = &tuned.source {
                self.blob(&what, &source.text);
                self.blob(&what, &source.given);
            }
            for guard in &tuned.guards {
                let index = match guard {
                    TunedGuard::Param { index, .. }
                    | TunedGuard::NoAlias { index }
                    | TunedGuard::Align { index, .. } => *index as usize,
                    TunedGuard::Grid(_) | TunedGuard::Block(_) => continue,
                };
                if index >= tuned.params.len() {
                    let message = format!("it has no parameter {index}, which a guard asks about");
                    self.report.error(&what, message);
                }
            }
        }
    }

    fn launch(&mut self, launch: &LaunchRecord) {
        let archive = self.archive;
        let what = format!("launch {}", launch.id);
        if archive.kernel(launch.kernel).is_none() {
            self.report
                .error(&what, format!("its kernel {} is missing", launch.kernel));
        }
        if !archive
            .devices()
            .iter()
            .any(|device| device.ordinal == launch.device)
        {
            self.report
                .error(&what, format!("its device {} is missing", launch.device));
        }
        for pointer in &launch.pointers {
            self.pointer(&what, launch, pointer);
        }
        let mut end = 0u64;
        for region in &launch.before.regions {
            if region.address < end {
                let address = region.address;
                self.report.error(
                    &what,
                    format!("the region at {address:#x} overlaps another"),
                );
            }
            end = region.address.saturating_add(region.len);
            self.region(&what, region);
        }
        for change in &launch.after.changes {
            if let ChunkRef::Data(id) = change.data {
                self.used.insert(id);
                if self.damaged.contains(&id) {
                    self.report
                        .error(&what, format!("chunk {id:?} after it is damaged"));
                }
            }
        }
    }

    fn pointer(&mut self, what: &str, launch: &LaunchRecord, pointer: &PointerWord) {
        let at = pointer.offset as usize;
        let word = at.checked_add(8).and_then(|end| launch.params.get(at..end));
        if word != Some(&pointer.address.to_le_bytes()[..]) {
            let message = format!("its parameters have no {:#x} at {at}", pointer.address);
            self.report.error(what, message);
        }
        match self.archive.allocation(pointer.allocation) {
            None => {
                let message = format!("allocation {} is missing", pointer.allocation);
                self.report.error(what, message);
            }
            Some(allocation) => {
                let offset = pointer.address.checked_sub(allocation.address);
                // One past the end is a pointer that programs pass, too.
                if offset.is_none_or(|offset| offset > allocation.len) {
                    let message = format!(
                        "{:#x} does not point into allocation {}",
                        pointer.address, allocation.id
                    );
                    self.report.warning(what, message);
                }
            }
        }
    }

    fn region(&mut self, what: &str, region: &RegionSnapshot) {
        let at = format!("the region at {:#x}", region.address);
        match &region.owner {
            RegionOwner::Allocation(id) => match self.archive.allocation(*id) {
                None => self
                    .report
                    .error(what, format!("{at}: allocation {id} is missing")),
                Some(allocation)
                    if allocation.address != region.address || allocation.len < region.len =>
                {
                    self.report
                        .error(what, format!("{at} does not fit allocation {id}"));
                }
                Some(_) => {}
            },
            RegionOwner::Global { module, .. } if self.archive.module(*module).is_none() => {
                self.report
                    .error(what, format!("{at}: module {module} is missing"));
            }
            RegionOwner::Global { .. } => {}
        }
        self.list(&format!("{what}, {at}"), &region.chunks, region.len);
    }

    fn stats(&mut self) {
        for stats in self.archive.kernel_stats() {
            if self.archive.kernel(stats.kernel).is_none() {
                let what = "kernel statistics";
                self.report
                    .error(what, format!("kernel {} is missing", stats.kernel));
            }
        }
    }

    fn blob(&mut self, what: &str, blob: &Blob) {
        self.list(what, &blob.chunks, blob.len);
    }

    /// Every chunk is there and has the length of its place.
    fn list(&mut self, what: &str, list: &ChunkList, len: u64) {
        if let Err(error) = self.archive.check_list(list, len) {
            self.report.error(what, error.to_string());
            return;
        }
        for (index, id) in list.stored() {
            self.used.insert(id);
            let start = index.saturating_mul(CHUNK_SIZE as u64);
            let wanted = len.saturating_sub(start).min(CHUNK_SIZE as u64);
            match self.archive.chunk_len_stored(id) {
                None => self.report.error(what, format!("chunk {id:?} is missing")),
                Some(_) if self.damaged.contains(&id) => {
                    self.report.error(what, format!("chunk {id:?} is damaged"));
                }
                Some((raw, _)) if u64::from(raw) != wanted => {
                    let message = format!("chunk {id:?} has {raw} bytes where {wanted} belong");
                    self.report.error(what, message);
                }
                Some(_) => {}
            }
        }
    }
}
