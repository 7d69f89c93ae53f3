//! What `fsck` found.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something is lost or wrong.
    Error,
    /// Everything that is there can be used.
    Warning,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the file, for a block.
    pub offset: Option<u64>,
    /// What, e.g. `launch 12`.
    pub what: String,
    /// What is wrong with it.
    pub message: String,
}

/// Blocks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockCount {
    /// How many.
    pub blocks: u64,
    /// Bytes that they take in the file, headers included.
    pub stored_bytes: u64,
    /// Bytes once decompressed.
    pub raw_bytes: u64,
}

/// The result of [`fsck`](super::fsck). Its `Display` is for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file.
    pub path: String,
    /// Its length.
    pub file_len: u64,
    /// Whether its writer finished it.
    pub finished: bool,
    /// Blocks by kind.
    pub blocks: BTreeMap<&'static str, BlockCount>,
    /// Chunks that no record names.
    pub unused_chunks: u64,
    /// Everything that is not as it should be: the first [`MAX_FINDINGS`] of each severity.
    pub findings: Vec<Finding>,
    /// Number of errors.
    pub errors: u64,
    /// Number of warnings.
    pub warnings: u64,
}

/// Findings of each severity that are kept.
pub const MAX_FINDINGS: u64 = 1000;

impl Report {
    /// Whether nothing is lost or wrong.
    pub fn is_sound(&self) -> bool {
        self.errors == 0
    }

    pub(super) fn add(
        &mut self,
        severity: Severity,
        offset: Option<u64>,
        what: impl Into<String>,
        message: impl Into<String>,
    ) {
        let count = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= MAX_FINDINGS {
            let (what, message) = (what.into(), message.into());
            self.findings.push(Finding {
                severity,
                offset,
                what,
                message,
            });
        }
    }

    pub(super) fn error(&mut self, what: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Error, None, what, message);
    }

    pub(super) fn warning(&mut self, what: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Warning, None, what, message);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.finished {
            "finished"
        } else {
            "not finished"
        };
        writeln!(f, "{}: {} bytes, {state}", self.path, self.file_len)?;
        for (kind, count) in &self.blocks {
            writeln!(
                f,
                "  {:>8} {kind}: {} bytes, {} uncompressed",
                count.blocks, count.stored_bytes, count.raw_bytes
            )?;
        }
        for finding in &self.findings {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            write!(f, "{severity}: {}", finding.what)?;
            if let Some(offset) = finding.offset {
                write!(f, " at offset {offset}")?;
            }
            writeln!(f, ": {}", finding.message)?;
        }
        let kept = self.findings.len() as u64;
        if kept < self.errors + self.warnings {
            writeln!(f, "and {} more", self.errors + self.warnings - kept)?;
        }
        let counted = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let (errors, warnings) = (
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
        );
        write!(f, "{errors}, {warnings}")
    }
}
