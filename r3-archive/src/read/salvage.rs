//! What was lost, when a file is not whole.

use std::fmt;

use serde::Serialize;

use crate::model::LaunchId;

/// Why an archive had to be salvaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SalvageReason {
    /// The writer did not finish: it was killed, or is still at work.
    NotFinished,
    /// The superblock is damaged.
    Superblock,
    /// The index is damaged.
    Index(String),
    /// The index is whole, and some block is not.
    Blocks,
}

/// A block that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedBlock {
    /// Where it starts.
    pub offset: u64,
    /// Its kind, or what is known of it.
    pub what: String,
    /// What is wrong.
    pub reason: String,
}

/// A launch that is in the file and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DroppedLaunch {
    /// The launch, when its record could be read.
    pub id: Option<LaunchId>,
    /// Where its block starts.
    pub offset: u64,
    /// Why it cannot be used.
    pub reason: String,
}

/// What was lost of an archive that is not whole. Its `Display` is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Salvage {
    /// Why the archive had to be salvaged.
    pub reason: SalvageReason,
    /// Bytes between the blocks that belong to none and are not zero.
    pub bytes_skipped: u64,
    /// Blocks that were begun and not completed.
    pub incomplete_blocks: u64,
    /// Blocks of a kind that this R3 does not know.
    pub unknown_blocks: u64,
    /// Blocks that cannot be used; the first [`MAX_NAMED`] of them.
    pub damaged: Vec<DamagedBlock>,
    /// Number of blocks that cannot be used.
    pub damaged_blocks: u64,
    /// Launches that cannot be used.
    pub dropped: Vec<DroppedLaunch>,
}

/// Damaged blocks that are named one by one.
pub const MAX_NAMED: usize = 100;

impl Salvage {
    pub(crate) fn new(reason: SalvageReason) -> Self {
        Self {
            reason,
            bytes_skipped: 0,
            incomplete_blocks: 0,
            unknown_blocks: 0,
            damaged: Vec::new(),
            damaged_blocks: 0,
            dropped: Vec::new(),
        }
    }

    pub(crate) fn damage(&mut self, offset: u64, what: &str, reason: String) {
        self.damaged_blocks += 1;
        if self.damaged.len() < MAX_NAMED {
            self.damaged.push(DamagedBlock {
                offset,
                what: what.to_owned(),
                reason,
            });
        }
    }
}

impl fmt::Display for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            SalvageReason::NotFinished => {
                write!(
                    f,
                    "not finished: the program was killed, or is still running"
                )?;
            }
            SalvageReason::Superblock => write!(f, "the superblock is damaged")?,
            SalvageReason::Index(reason) => write!(f, "the index is damaged ({reason})")?,
            SalvageReason::Blocks => write!(f, "parts of the file are damaged")?,
        }
        if self.bytes_skipped > 0 {
            write!(f, "; {} bytes skipped", self.bytes_skipped)?;
        }
        if self.incomplete_blocks > 0 {
            write!(f, "; {} blocks incomplete", self.incomplete_blocks)?;
        }
        if self.unknown_blocks > 0 {
            write!(f, "; {} blocks of unknown kind", self.unknown_blocks)?;
        }
        for block in &self.damaged {
            write!(
                f,
                "\n  {} at offset {}: {}",
                block.what, block.offset, block.reason
            )?;
        }
        let unnamed = self
            .damaged_blocks
            .saturating_sub(self.damaged.len() as u64);
        if unnamed > 0 {
            write!(f, "\n  and {unnamed} more damaged blocks")?;
        }
        for launch in &self.dropped {
            match launch.id {
                Some(id) => write!(f, "\n  launch {id} dropped: {}", launch.reason)?,
                None => {
                    write!(
                        f,
                        "\n  a launch at offset {} dropped: {}",
                        launch.offset, launch.reason
                    )?;
                }
            }
        }
        Ok(())
    }
}
