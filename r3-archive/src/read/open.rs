//! Opening: superblock, index or scan, records.

use std::collections::HashMap;

use super::{
    Archive, Ids, Limits, ReadError, Salvage, SalvageReason, Slot,
    scan::{self, Blocks},
    source::Source,
};
use crate::{
    chunk::CHUNK_SIZE,
    codec::{self, Record, StoredLaunch, supported_version},
    format::{
        self, BLOCKS_START, CLOSING_LEN, Closing, FILE_MAGIC, HEADER_LEN, IDENTITY_LEN, Identity,
        Kind,
    },
    index::{INDEX_VERSION, Index, RecordEntry},
    model::*,
};

pub(crate) fn open(source: Source, limits: Limits) -> Result<Archive, ReadError> {
    let (identity, closing) = superblock(&source)?;
    let tag = match identity {
        Some(identity) => identity.tag(),
        None => first_tag(&source)?,
    };
    let scanned = |reason| {
        let mut salvage = Salvage::new(reason);
        let blocks = scan::scan(&source, tag, &mut salvage)?;
        Ok((blocks, salvage))
    };
    let (blocks, mut salvage) = match (identity, closing) {
        (Some(_), Some(closing)) if closing.complete => {
            match index(&source, tag, &closing, &limits) {
                Ok(blocks) => (blocks, Salvage::new(SalvageReason::Blocks)),
                Err(error) => scanned(SalvageReason::Index(error.to_string()))?,
            }
        }
        (Some(_), Some(_)) => scanned(SalvageReason::NotFinished)?,
        _ => scanned(SalvageReason::Superblock)?,
    };
    let identity = identity.unwrap_or(Identity {
        version: 0,
        uuid: [0; 16],
        writer: [0; 16],
    });

    let mut archive = Archive {
        source,
        limits,
        identity,
        tag,
        salvage: None,
        chunks: blocks.chunks,
        processes: Vec::new(),
        devices: Vec::new(),
        modules: Vec::new(),
        sources: Vec::new(),
        kernels: Vec::new(),
        allocations: Vec::new(),
        kernel_stats: Vec::new(),
        process_stats: ProcessStatsRecord::default(),
        attachments: Vec::new(),
        tuned: Vec::new(),
        ids: Ids::default(),
        slots: Vec::new(),
        heads: Vec::new(),
        launches: std::sync::OnceLock::new(),
    };
    archive.read_records(&blocks.records, &mut salvage)?;
    archive.check_launches(&mut salvage);
    let whole = salvage.reason == SalvageReason::Blocks
        && salvage.damaged_blocks == 0
        && salvage.dropped.is_empty();
    archive.salvage = (!whole).then_some(salvage);
    Ok(archive)
}

/// The two parts of the superblock, each if its checksum holds.
fn superblock(source: &Source) -> Result<(Option<Identity>, Option<Closing>), ReadError> {
    let not_an_archive = |reason: &str| ReadError::NotAnArchive {
        path: source.path.clone(),
        reason: reason.to_owned(),
    };
    let mut start = [0; IDENTITY_LEN + CLOSING_LEN];
    if source.len() < start.len() as u64 {
        return Err(not_an_archive("it is too short"));
    }
    source.read_at(0, &mut start)?;
    let (first, second) = start.split_at(IDENTITY_LEN);
    let identity = first.try_into().ok().and_then(Identity::parse);
    if let Some(identity) = &identity
        && identity.version > format::FORMAT_VERSION
    {
        return Err(ReadError::TooNew {
            path: source.path.clone(),
            what: "format",
            found: identity.version,
            supported: format::FORMAT_VERSION,
            writer: identity.writer_version(),
        });
    }
    if identity.is_none() && !first.starts_with(&FILE_MAGIC) && first_tag(source).is_err() {
        return Err(not_an_archive("it does not start like one"));
    }
    Ok((identity, second.try_into().ok().and_then(Closing::parse)))
}

/// The tag of the first block: how the file's blocks are known when the superblock is damaged.
fn first_tag(source: &Source) -> Result<u64, ReadError> {
    let mut bytes = [0; HEADER_LEN];
    if source.len() >= BLOCKS_START + HEADER_LEN as u64 {
        source.read_at(BLOCKS_START, &mut bytes)?;
    }
    match format::BlockHeader::parse(&bytes) {
        Some(header) => Ok(header.tag),
        None => Err(ReadError::NotAnArchive {
            path: source.path.clone(),
            reason: "its superblock and its first block are damaged".into(),
        }),
    }
}

/// The blocks that the index names.
fn index(
    source: &Source,
    tag: u64,
    closing: &Closing,
    limits: &Limits,
) -> Result<Blocks, ReadError> {
    let offset = closing.index_offset;
    let header = source.header(offset, tag)?;
    if header.kind != Kind::INDEX {
        return Err(source.damaged(offset, "the index is not there"));
    }
    if header.version > INDEX_VERSION {
        return Err(source.damaged(offset, format!("its version {} is too new", header.version)));
    }
    let bytes = source.payload(offset, &header, limits.index_bytes)?;
    let Some(index) = Index::parse(&bytes) else {
        return Err(source.damaged(offset, "its length does not fit"));
    };
    let mut chunks = HashMap::with_capacity(index.chunks.len());
    for (id, entry) in index.chunks {
        if entry.raw_len as usize <= CHUNK_SIZE {
            chunks.entry(id).or_insert(entry);
        }
    }
    Ok(Blocks {
        records: index.records,
        chunks,
    })
}

impl Archive {
    fn read_records(
        &mut self,
        records: &[RecordEntry],
        salvage: &mut Salvage,
    ) -> Result<(), ReadError> {
        for entry in records {
            let Some(supported) = supported_version(entry.kind) else {
                salvage.unknown_blocks += 1;
                continue;
            };
            if entry.version > supported {
                return Err(ReadError::TooNew {
                    path: self.source.path.clone(),
                    what: entry.kind.name(),
                    found: entry.version.into(),
                    supported: supported.into(),
                    writer: self.identity.writer_version(),
                });
            }
            if let Err(error) = self.read_record(entry) {
                let reason = match error {
                    ReadError::Damaged { reason, .. } => reason,
                    error @ ReadError::Io { .. } => return Err(error),
                    error => error.to_string(),
                };
                if entry.kind == Kind::LAUNCH {
                    salvage.dropped.push(super::DroppedLaunch {
                        id: None,
                        offset: entry.offset,
                        reason,
                    });
                } else {
                    salvage.damage(entry.offset, entry.kind.name(), reason);
                }
            }
        }
        // Only the last counts of a kernel hold.
        let mut seen = std::collections::HashSet::new();
        self.kernel_stats.reverse();
        self.kernel_stats.retain(|stats| seen.insert(stats.kernel));
        self.kernel_stats.reverse();
        self.attachments.sort_by_key(|attachment| attachment.id);
        self.tuned.sort_by_key(|tuned| tuned.id);
        // Threads may have written in another order.
        self.slots.sort_by_key(|slot| slot.launch.head.id);
        Ok(())
    }

    fn read_record(&mut self, entry: &RecordEntry) -> Result<(), ReadError> {
        match entry.kind {
            Kind::PROCESS => self.processes.push(self.decode(entry)?),
            Kind::DEVICE => self.devices.push(self.decode(entry)?),
            Kind::MODULE => {
                let record: ModuleRecord = self.decode(entry)?;
                self.ids
                    .modules
                    .entry(record.id)
                    .or_insert(self.modules.len());
                self.modules.push(record);
            }
            Kind::SOURCE => {
                let record: SourceRecord = self.decode(entry)?;
                self.ids
                    .sources
                    .entry(record.id)
                    .or_insert(self.sources.len());
                self.sources.push(record);
            }
            Kind::KERNEL => {
                let record: KernelRecord = self.decode(entry)?;
                self.ids
                    .kernels
                    .entry(record.id)
                    .or_insert(self.kernels.len());
                self.kernels.push(record);
            }
            Kind::ALLOCATION => {
                let record: AllocationRecord = self.decode(entry)?;
                self.ids
                    .allocations
                    .entry(record.id)
                    .or_insert(self.allocations.len());
                self.allocations.push(record);
            }
            Kind::KERNEL_STATS => self.kernel_stats.push(self.decode(entry)?),
            Kind::PROCESS_STATS => self.process_stats = self.decode(entry)?,
            Kind::ATTACHMENT => self.attachments.push(self.decode(entry)?),
            Kind::TUNED_KERNEL => self.tuned.push(self.decode(entry)?),
            Kind::LAUNCH => {
                let body = self.body(entry)?;
                let launch: StoredLaunch = codec::decode(&body).map_err(|reason| {
                    self.source.damaged(
                        entry.offset,
                        format!("the launch does not decode: {reason}"),
                    )
                })?;
                self.slots.push(Slot {
                    offset: entry.offset,
                    launch,
                    chunks: 0,
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn decode<R: Record>(&self, entry: &RecordEntry) -> Result<R, ReadError> {
        codec::decode_record(entry.version, self.body(entry)?).map_err(|reason| {
            self.source.damaged(
                entry.offset,
                format!("the {} record does not decode: {reason}", R::KIND.name()),
            )
        })
    }

    /// The raw bytes of a record, as its block and the index agree on it.
    fn body(&self, entry: &RecordEntry) -> Result<Vec<u8>, ReadError> {
        let header = self.source.header(entry.offset, self.tag)?;
        if header.kind != entry.kind || header.version != entry.version {
            return Err(self.source.damaged(
                entry.offset,
                format!("the {} is not there", entry.kind.name()),
            ));
        }
        if header.encoding != format::Encoding::Bincode.number() {
            return Err(self.source.damaged(
                entry.offset,
                format!("its encoding {} is not known to this R3", header.encoding),
            ));
        }
        self.source
            .payload(entry.offset, &header, self.limits.record_bytes)
    }
}
