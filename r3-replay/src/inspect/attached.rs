//! Code that was attached to a kernel, for `info` and `show`.

use std::fmt;

use r3_archive::Archive;
use r3_archive::model::{AttachmentId, KernelId, LaunchId};
use serde::Serialize;

use crate::attach::forms::spell;
use crate::names::printable;

/// One attachment, as it concerns one kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Attached {
    /// Number.
    pub id: AttachmentId,
    /// Its forms, for people.
    pub forms: Vec<&'static str>,
    /// File that was given.
    pub file: String,
    /// Hash of that file: 128-bit xxh3.
    pub hash: String,
    /// The kernel's name in the code, where it is another one than the captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Compiler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// Its command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Where that was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Device on which it was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Launches that were verified.
    pub verified: Vec<LaunchId>,
    /// Launches among them that were not the same bit for bit.
    pub within: Vec<LaunchId>,
    /// When it was attached, nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}

/// What was attached to a kernel, the newest, which holds, first.
pub fn attached(archive: &Archive, kernel: KernelId) -> Vec<Attached> {
    let captured = archive.kernel(kernel).map(|kernel| kernel.name.as_str());
    let of = |attachment: &r3_archive::model::AttachmentRecord| {
        let entry = attachment.kernel(kernel)?;
        let build = attachment.build.as_ref();
        Some(Attached {
            id: attachment.id,
            forms: attachment
                .forms
                .iter()
                .map(|code| spell(code.form))
                .collect(),
            file: printable(&attachment.file),
            hash: r3_archive::chunk::ChunkId(attachment.file_hash).to_string(),
            name: (Some(entry.name.as_str()) != captured).then(|| printable(&entry.name)),
            compiler: build.map(|build| printable(&build.compiler)),
            command: build.map_or_else(Vec::new, |build| {
                build.command.iter().map(|word| printable(word)).collect()
            }),
            directory: build.map(|build| printable(&build.directory)),
            device: (!attachment.device.is_empty()).then(|| printable(&attachment.device)),
            verified: entry.verified.clone(),
            within: entry.within.clone(),
            unix_ns: attachment.unix_ns,
        })
    };
    archive.attached_to(kernel).filter_map(of).collect()
}

/// `PTX and source from wilson.cu, by nvcc 13.0.88; verified on …: launches 1, 2`.
impl fmt::Display for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.forms.join(" and "), self.file)?;
        if let Some(compiler) = &self.compiler {
            write!(f, ", by {compiler}")?;
        }
        if let Some(name) = &self.name {
            write!(f, ", there called {name}")?;
        }
        let list = |launches: &[LaunchId]| {
            let numbers: Vec<String> = launches.iter().map(ToString::to_string).collect();
            numbers.join(", ")
        };
        match (&self.device, self.verified.as_slice()) {
            (_, []) => f.write_str("; not verified"),
            (device, launches) => {
                let device = device.as_deref().unwrap_or("a device that is not known");
                let noun = if launches.len() == 1 {
                    "launch"
                } else {
                    "launches"
                };
                write!(f, "; verified on {device}: {noun} {}", list(launches))?;
                match self.within.as_slice() {
                    [] => Ok(()),
                    within if within == launches => f.write_str(", within tolerance"),
                    within => write!(f, ", of which {} within tolerance", list(within)),
                }
            }
        }
    }
}
