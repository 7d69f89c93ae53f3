//! Checking an archive: every block, every checksum, every reference.

use std::{collections::HashSet, path::Path};

use super::{
    references,
    report::{Report, Severity},
};
use crate::{
    Archive, ReadError, Salvage, SalvageReason,
    chunk::CHUNK_SIZE,
    format::{BlockHeader, Kind},
};

/// Checks the file at `path`. Fails only when it cannot be read, is no archive, or is too new.
pub fn fsck(path: impl AsRef<Path>) -> Result<Report, ReadError> {
    check(&Archive::open(path)?)
}

/// Checks an archive that was opened, reading all of it.
pub fn check(archive: &Archive) -> Result<Report, ReadError> {
    let mut report = Report {
        path: archive.path().display().to_string(),
        file_len: archive.file_len(),
        finished: true,
        ..Report::default()
    };
    opening(archive, &mut report);
    blocks(archive, &mut report)?;
    references::check(archive, &mut report);
    Ok(report)
}

/// What was found at opening.
fn opening(archive: &Archive, report: &mut Report) {
    let Some(salvage) = archive.salvaged() else {
        return;
    };
    match &salvage.reason {
        SalvageReason::NotFinished => {
            report.finished = false;
            report.warning("file", "its writer did not finish; it has no index");
        }
        SalvageReason::Superblock => report.error("superblock", "its checksum is wrong"),
        SalvageReason::Index(reason) => report.error("index", reason.clone()),
        SalvageReason::Blocks => {}
    }
    for launch in &salvage.dropped {
        let what = launch
            .id
            .map_or("a launch".to_owned(), |id| format!("launch {id}"));
        report.add(
            Severity::Error,
            Some(launch.offset),
            what,
            launch.reason.clone(),
        );
    }
}

/// Every block: header, payload, hash, and whether the index knows it.
fn blocks(archive: &Archive, report: &mut Report) -> Result<(), ReadError> {
    let source = archive.bytes();
    let dropped: HashSet<u64> = archive
        .salvaged()
        .map(|salvage| salvage.dropped.iter().map(|launch| launch.offset).collect())
        .unwrap_or_default();
    let mut walked = Salvage::new(SalvageReason::Blocks);
    let mut chunks_seen = HashSet::new();
    let mut failed = None;
    archive.walk(&mut walked, |offset, header| {
        let count = report.blocks.entry(header.kind.name()).or_default();
        count.blocks += 1;
        count.stored_bytes += header.block_len().unwrap_or(0);
        count.raw_bytes = count.raw_bytes.saturating_add(header.raw_len);
        if header.kind == Kind::CHUNK && !chunks_seen.insert(header.hash) {
            let what = format!("chunk {:?}", header.hash);
            report.add(Severity::Warning, Some(offset), what, "it is stored twice");
        }
        match source.payload(offset, header, limit(archive, header)) {
            Ok(_) => {}
            Err(ReadError::Damaged { reason, .. }) => {
                if !dropped.contains(&offset) {
                    report.add(Severity::Error, Some(offset), name(header), reason);
                }
            }
            Err(error @ ReadError::Io { .. }) => failed = Some(error),
            Err(error) => {
                report.add(
                    Severity::Error,
                    Some(offset),
                    name(header),
                    error.to_string(),
                );
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    for block in walked.damaged {
        report.add(
            Severity::Error,
            Some(block.offset),
            block.what,
            block.reason,
        );
    }
    if walked.incomplete_blocks > 0 {
        let message = format!("{} were begun and not completed", walked.incomplete_blocks);
        report.warning("blocks", message);
    }
    for id in archive.chunk_ids() {
        if !chunks_seen.contains(&id) {
            report.error(
                format!("chunk {id:?}"),
                "the index names it, and it is not there",
            );
        }
    }
    let known: HashSet<_> = archive.chunk_ids().collect();
    let unindexed = chunks_seen.difference(&known).count();
    if unindexed > 0 {
        report.warning("index", format!("{unindexed} chunks are not in it"));
    }
    Ok(())
}

fn limit(archive: &Archive, header: &BlockHeader) -> u64 {
    match header.kind {
        Kind::CHUNK => CHUNK_SIZE as u64,
        Kind::INDEX => archive.limits().index_bytes,
        _ => archive.limits().record_bytes,
    }
}

fn name(header: &BlockHeader) -> String {
    match header.kind {
        Kind::CHUNK => format!("chunk {:?}", header.hash),
        kind => kind.name().to_owned(),
    }
}
