//! Adding code to an archive after the capture.

use std::path::Path;

use super::{OpError, Written, copy::Output};
use crate::{Archive, model::*};

/// Code to be attached: a record without ids, with the code itself.
#[derive(Clone, Debug)]
pub struct NewAttachment {
    /// Everything but `id` and `forms`, which are given here.
    pub record: AttachmentRecord,
    /// The code: PTX, then what it was made from.
    pub forms: Vec<(AttachedForm, Vec<u8>)>,
}

/// Writes everything of `archive` and the attachments `new`, in this order, to the new file `out`. Ids stay as they
/// are; attachments get ids above those that are there, so that they hold.
pub fn attach(archive: &Archive, new: &[NewAttachment], out: &Path) -> Result<Written, OpError> {
    let kernels = new.iter().flat_map(|new| &new.record.kernels);
    for entry in kernels {
        if archive.kernel(entry.kernel).is_none() {
            return Err(OpError::NoKernel(entry.kernel));
        }
    }
    Output::create(out, |output| {
        everything(archive, output)?;
        let last = archive.attachments().last();
        let mut id = last.map_or(0, |attachment| attachment.id.0);
        for new in new {
            id += 1;
            let mut record = AttachmentRecord {
                id: AttachmentId(id),
                forms: Vec::new(),
                ..new.record.clone()
            };
            for (form, code) in &new.forms {
                let code = output.put(code)?;
                record.forms.push(AttachedCode { form: *form, code });
            }
            output.append(&record)?;
        }
        Ok(())
    })
}

/// Copies all records and the chunks that they name.
fn everything(archive: &Archive, output: &mut Output) -> Result<(), OpError> {
    for process in archive.processes() {
        output.append(process)?;
    }
    for device in archive.devices() {
        output.append(device)?;
    }
    for source in archive.sources() {
        output.source(archive, source)?;
    }
    for module in archive.modules() {
        output.module(archive, module)?;
    }
    for kernel in archive.kernels() {
        output.append(kernel)?;
        output.written.kernels += 1;
    }
    for allocation in archive.allocations() {
        output.append(allocation)?;
    }
    for head in archive.launch_heads() {
        output.launch(archive, &archive.load_launch(head.id)?)?;
    }
    for stats in archive.kernel_stats() {
        output.append(stats)?;
    }
    for attachment in archive.attachments() {
        output.attachment(archive, attachment)?;
    }
    for tuned in archive.tuned() {
        output.tuned(archive, tuned)?;
    }
    output.append(archive.process_stats())
}
