//! Checking an archive: every block, every checksum, every reference.

use std::{collections::HashSet, path::Path};

use super::{
    references,
    report::{Report, Severity},
};
use crate::{
    Archive, ReadError, Salvage, SalvageReason,
    chunk::{CHUNK_SIZE, ChunkId},
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
    let reported = opening(archive, &mut report);
    let damaged = blocks(archive, &reported, &mut report)?;
    references::check(archive, damaged, &mut report);
    Ok(report)
}

/// What was found at opening. Returns the blocks that it concerns.
fn opening(archive: &Archive, report: &mut Report) -> HashSet<u64> {
    let Some(salvage) = archive.salvaged() else {
        return HashSet::new();
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
    if salvage.unknown_blocks > 0 {
        let message = format!(
            "{} are of a kind that this R3 does not know",
            salvage.unknown_blocks
        );
        report.warning("blocks", message);
    }
    let mut reported = HashSet::new();
    for block in &salvage.damaged {
        reported.insert(block.offset);
        let (what, reason) = (block.what.clone(), block.reason.clone());
        report.add(Severity::Error, Some(block.offset), what, reason);
    }
    for launch in &salvage.dropped {
        reported.insert(launch.offset);
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
    reported
}

/// Every block: header, payload, hash, and whether the index knows it. Those in `reported` are
/// not reported again. Returns the chunks that are damaged.
fn blocks(
    archive: &Archive,
    reported: &HashSet<u64>,
    report: &mut Report,
) -> Result<HashSet<ChunkId>, ReadError> {
    let source = archive.bytes();
    let mut walked = Salvage::new(SalvageReason::Blocks);
    let (mut chunks, mut damaged) = (HashSet::new(), HashSet::new());
    let mut failed = None;
    archive.walk(&mut walked, |offset, header| {
        let count = report.blocks.entry(header.kind.name()).or_default();
        count.blocks += 1;
        count.stored_bytes += header.block_len().unwrap_or(0);
        count.raw_bytes = count.raw_bytes.saturating_add(header.raw_len);
        if header.kind == Kind::CHUNK && !chunks.insert(header.hash) {
            report.add(
                Severity::Warning,
                Some(offset),
                name(header),
                "it is stored twice",
            );
        }
        let reason = match source.payload(offset, header, limit(archive, header)) {
            Ok(_) => return,
            Err(ReadError::Damaged { reason, .. }) => reason,
            Err(error @ ReadError::Io { .. }) => {
                failed = Some(error);
                return;
            }
            Err(error) => error.to_string(),
        };
        if header.kind == Kind::CHUNK {
            damaged.insert(header.hash);
        }
        if !reported.contains(&offset) {
            report.add(Severity::Error, Some(offset), name(header), reason);
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    for block in walked
        .damaged
        .into_iter()
        .filter(|block| !reported.contains(&block.offset))
    {
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
    for id in archive.chunk_ids().filter(|id| !chunks.contains(id)) {
        damaged.insert(id);
        report.error(
            format!("chunk {id:?}"),
            "the index names it, and it is not there",
        );
    }
    let unindexed = chunks
        .iter()
        .filter(|id| archive.chunk_len_stored(**id).is_none())
        .count();
    if unindexed > 0 {
        report.warning("index", format!("{unindexed} chunks are not in it"));
    }
    Ok(damaged)
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
