//! What results depend on besides the settings: the archive, the device, the tools.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use r3_archive::Archive;
use r3_replay::evaluate::describe::{DeviceDescription, KernelDescription};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Where and of what a run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Version of R3.
    pub r3: String,
    /// UUID of the archive, hexadecimal.
    pub archive_uuid: String,
    /// 128-bit xxh3 of the archive's file, hexadecimal.
    pub archive_hash: String,
    /// The kernel's name, as the code has it.
    pub kernel: String,
    /// The device.
    pub device: DeviceDescription,
    /// Hash of the space, hexadecimal.
    pub space: String,
    /// Tools that compile, with their versions.
    pub tools: Vec<String>,
}

impl Environment {
    /// What is the case now.
    pub fn new(
        archive: &ArchiveFile,
        kernel: &KernelDescription,
        space: u128,
        tools: Vec<String>,
    ) -> Self {
        Self {
            r3: env!("CARGO_PKG_VERSION").to_owned(),
            archive_uuid: archive.uuid.clone(),
            archive_hash: archive.hash.clone(),
            kernel: kernel.name.clone(),
            device: kernel.device.clone(),
            space: format!("{space:032x}"),
            tools,
        }
    }

    /// What is otherwise than it was, in sentences. Empty when a run can go on.
    #[must_use]
    pub fn changes(&self, before: &Self) -> Vec<String> {
        let device = |of: &DeviceDescription| format!("{} ({})", of.name, of.uuid);
        let pairs = [
            ("version of R3", before.r3.clone(), self.r3.clone()),
            (
                "archive",
                before.archive_uuid.clone(),
                self.archive_uuid.clone(),
            ),
            (
                "archive's content",
                before.archive_hash.clone(),
                self.archive_hash.clone(),
            ),
            ("kernel", before.kernel.clone(), self.kernel.clone()),
            ("device", device(&before.device), device(&self.device)),
            (
                "driver",
                before.device.driver.to_string(),
                self.device.driver.to_string(),
            ),
            (
                "architecture",
                before.device.sm.to_string(),
                self.device.sm.to_string(),
            ),
            ("space", before.space.clone(), self.space.clone()),
            (
                "list of tools",
                before.tools.join(", "),
                self.tools.join(", "),
            ),
        ];
        pairs
            .into_iter()
            .filter(|(_, before, now)| before != now)
            .map(|(what, before, now)| format!("the {what} was `{before}` and is `{now}`"))
            .collect()
    }
}

/// Identity and content of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Its UUID, hexadecimal.
    pub uuid: String,
    /// 128-bit xxh3 of the file, hexadecimal.
    pub hash: String,
}

impl ArchiveFile {
    /// Reads the whole file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let archive = Archive::open(path).map_err(|error| error.to_string())?;
        let mut file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut hash = Xxh3::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => hash.update(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        Ok(Self {
            uuid: hexadecimal(&archive.uuid()),
            hash: format!("{:032x}", hash.digest128()),
        })
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_named_with_what_it_was() {
        let before = Environment {
            r3: "0.1.0".into(),
            archive_uuid: "aa".into(),
            archive_hash: "bb".into(),
            kernel: "k".into(),
            device: DeviceDescription {
                name: "NVIDIA H200".into(),
                uuid: "GPU-1".into(),
                driver: 13000,
                sm: 90,
                ..DeviceDescription::default()
            },
            space: "cc".into(),
            tools: vec!["ptxas 13.0.88".into()],
        };
        assert!(before.changes(&before).is_empty());
        let mut now = before.clone();
        now.device.uuid = "GPU-2".into();
        now.device.driver = 13010;
        now.archive_hash = "dd".into();
        now.space = "ee".into();
        now.tools.clear();
        assert_eq!(
            now.changes(&before),
            [
                "the archive's content was `bb` and is `dd`",
                "the device was `NVIDIA H200 (GPU-1)` and is `NVIDIA H200 (GPU-2)`",
                "the driver was `13000` and is `13010`",
                "the space was `cc` and is `ee`",
                "the list of tools was `ptxas 13.0.88` and is ``",
            ]
        );
    }
}
