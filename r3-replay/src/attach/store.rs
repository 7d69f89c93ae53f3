//! Attached code goes into the archive.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
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
    /// The same, beside an archive.
    #[error("{path} is as it was: {error}. --output FILE puts the new archive elsewhere")]
    Beside {
        /// The archive.
        path: String,
        /// Why.
        error: OpError,
    },
    /// Nothing can be written there.
    #[error("{folder} cannot be written to: {reason}. {advice}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why.
        reason: std::io::Error,
        /// What to do.
        advice: &'static str,
    },
    /// Some of the archive cannot be read, and would not be in the new one.
    #[error(
        "{path} is damaged (`r3-replay fsck` tells where), and what cannot be read of it would be lost. Give the new \
         archive a name with --output FILE"
    )]
    Damaged {
        /// The archive.
        path: String,
    },
    /// Somebody else wrote it meanwhile.
    #[error(
        "{path} was changed while the code was verified, by another `attach` perhaps. It stays as it is now: run this \
         again"
    )]
    Changed {
        /// The archive.
        path: String,
    },
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

/// Where the archive with the code goes.
#[derive(Clone, Debug)]
pub struct Place {
    path: PathBuf,
    /// The file that is replaced.
    replaces: Option<FileIdentity>,
}

/// What tells whether a file is still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let of = std::fs::metadata(path).ok()?;
        Some(Self {
            device: of.dev(),
            inode: of.ino(),
            len: of.len(),
            changed: (of.mtime(), of.mtime_nsec()),
        })
    }
}

impl Place {
    /// `output`, or the archive's own. What can be known to go wrong is told before anything is compiled or run.
    pub fn of(archive: &Archive, output: Option<&Path>) -> Result<Self, StoreError> {
        if let Some(output) = output {
            writable(output, "The new archive is written there")?;
            return Ok(Self {
                path: output.to_owned(),
                replaces: None,
            });
        }
        // A link is followed, so that what it leads to is replaced and not the link.
        let path = archive.path().canonicalize();
        let path = path.unwrap_or_else(|_| archive.path().to_owned());
        let shown = || path.display().to_string();
        match archive.salvaged().map(|salvage| &salvage.reason) {
            Some(SalvageReason::NotFinished) => {
                return Err(StoreError::Unfinished { path: shown() });
            }
            Some(_) => return Err(StoreError::Damaged { path: shown() }),
            None => {}
        }
        writable(
            &path,
            "The new archive is written beside the old one: --output FILE puts it elsewhere",
        )?;
        Ok(Self {
            replaces: FileIdentity::of(&path),
            path,
        })
    }
}

/// Whether files can be made in a file's folder.
fn writable(file: &Path, advice: &'static str) -> Result<(), StoreError> {
    let folder = match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Ok(()),
    };
    let Ok(name) = CString::new(folder.as_os_str().as_bytes()) else {
        return Ok(());
    };
    // SAFETY: the string is terminated and lives for the call.
    match unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => Err(StoreError::Folder {
            folder: folder.display().to_string(),
            reason: std::io::Error::last_os_error(),
            advice,
        }),
    }
}

/// Writes the archive with the attachments.
pub fn store(
    archive: &Archive,
    new: &[NewAttachment],
    place: &Place,
) -> Result<Written, StoreError> {
    let path = &place.path;
    if place.replaces.is_none() {
        return Ok(ops::attach(archive, new, path)?);
    }
    let beside = beside(path);
    let written = ops::attach(archive, new, &beside).map_err(|error| StoreError::Beside {
        path: path.display().to_string(),
        error,
    })?;
    if FileIdentity::of(path) != place.replaces {
        let _ = std::fs::remove_file(&beside);
        return Err(StoreError::Changed {
            path: path.display().to_string(),
        });
    }
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
