//! Attached code goes into the archive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use r3_archive::model::{AttachedForm, AttachedKernel, AttachmentId, AttachmentRecord};
use r3_archive::ops::{self, NewAttachment, OpError, Written};
use r3_archive::{Archive, SalvageReason};

use super::given::Given;
use super::names;

/// Why nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Copying failed.
    #[error(transparent)]
    Copy(#[from] OpError),
    /// The archive is being written, or was never finished.
    #[error(
        "{path} is not finished: its program may still be running. Give the new archive a name with --output FILE"
    )]
    Unfinished {
        /// The archive.
        path: String,
    },
    /// The new archive could not take the place of the old one.
    #[error("{path} cannot be replaced by {new}, which has the attached code: {reason}")]
    Replace {
        /// The archive.
        path: String,
        /// The new file.
        new: String,
        /// Why.
        reason: String,
    },
}

/// The PTX with the captured names of kernels, and the kernels that it is for: one for each set of kernels whose names
/// do not meet.
pub fn attachments(
    archive: &Archive,
    given: &Given,
    accepted: &[AttachedKernel],
    device: &str,
) -> Vec<NewAttachment> {
    // A kernel of the code can stand for several of the archive with the same name, but for one with another name only.
    let mut sets: Vec<(BTreeMap<String, String>, Vec<AttachedKernel>)> = Vec::new();
    for entry in accepted {
        let Some(kernel) = archive.kernel(entry.kernel) else {
            continue;
        };
        let place = sets.iter().position(|(names, _)| {
            names
                .get(&entry.name)
                .is_none_or(|name| *name == kernel.name)
        });
        let place = place.unwrap_or_else(|| {
            sets.push(Default::default());
            sets.len() - 1
        });
        if let Some((names, entries)) = sets.get_mut(place) {
            names.insert(entry.name.clone(), kernel.name.clone());
            entries.push(entry.clone());
        }
    }
    let of_set = |(names, entries): (BTreeMap<String, String>, Vec<AttachedKernel>)| {
        let renames: Vec<_> = names.into_iter().filter(|(from, to)| from != to).collect();
        let ptx = names::renamed(&given.ptx, &renames);
        let mut forms = vec![(AttachedForm::Ptx, ptx.into_bytes())];
        forms.extend(given.made_from.iter().cloned());
        NewAttachment {
            record: record(given, entries, device),
            forms,
        }
    };
    sets.into_iter().map(of_set).collect()
}

fn record(given: &Given, kernels: Vec<AttachedKernel>, device: &str) -> AttachmentRecord {
    let verified = kernels.iter().any(|kernel| !kernel.verified.is_empty());
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    AttachmentRecord {
        id: AttachmentId(0),
        kernels,
        forms: Vec::new(),
        file: given.file.clone(),
        file_hash: given.hash,
        source: given.source,
        build: given.build.clone(),
        device: if verified {
            device.to_owned()
        } else {
            String::new()
        },
        r3_version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
    }
}

/// Writes the archive with the attachments to `output`, or in place of itself.
pub fn store(
    archive: &Archive,
    new: &[NewAttachment],
    output: Option<&Path>,
) -> Result<Written, StoreError> {
    if let Some(output) = output {
        return Ok(ops::attach(archive, new, output)?);
    }
    // A link is followed, so that what it leads to is replaced and not the link.
    let path = archive.path().canonicalize();
    let path = &path.unwrap_or_else(|_| archive.path().to_owned());
    let unfinished = archive
        .salvaged()
        .is_some_and(|salvage| salvage.reason == SalvageReason::NotFinished);
    if unfinished {
        return Err(StoreError::Unfinished {
            path: path.display().to_string(),
        });
    }
    let beside = beside(path);
    let written = ops::attach(archive, new, &beside)?;
    let replaced = std::fs::metadata(path)
        .and_then(|old| std::fs::set_permissions(&beside, old.permissions()))
        .and_then(|()| std::fs::File::open(&beside)?.sync_all())
        .and_then(|()| std::fs::rename(&beside, path));
    match replaced {
        Ok(()) => Ok(written),
        Err(error) => {
            let _ = std::fs::remove_file(&beside);
            Err(StoreError::Replace {
                path: path.display().to_string(),
                new: beside.display().to_string(),
                reason: error.to_string(),
            })
        }
    }
}

/// The name of the new archive until it is complete: another one in each process.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".attaching-{}", std::process::id()));
    path.with_file_name(name)
}
