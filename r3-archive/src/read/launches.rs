//! Launches: checked at opening, put together when asked for.

use std::collections::{HashMap, hash_map::Entry};

use super::{Archive, DroppedLaunch, ReadError, Salvage};
use crate::{
    chunk::{CHUNK_SIZE, ChunkId, ChunkList, ChunkRef, ChunkRun},
    codec::{StoredLaunch, StoredList, StoredRegion, TABLE_ENTRY, table_entries},
    model::*,
};

const ENTRIES_PER_CHUNK: u64 = (CHUNK_SIZE / TABLE_ENTRY) as u64;

/// A launch as it is stored.
pub(crate) struct Slot {
    /// Where its block starts.
    pub offset: u64,
    pub launch: StoredLaunch,
    /// Stored chunks that it names.
    pub chunks: u64,
}

impl Archive {
    /// All launches, ascending by id. The first call puts them together, which takes memory in
    /// proportion to what their snapshots cover (16 bytes per stored chunk). Where that is too
    /// much, see [`launch_heads`](Self::launch_heads) and [`load_launch`](Self::load_launch).
    ///
    /// Launches of which a part is missing were left out at opening: see
    /// [`salvaged`](Self::salvaged). Left out here are those after the first that exceeds
    /// [`Limits::all_launch_chunks`](super::Limits::all_launch_chunks), and those that can be read
    /// no more because the file was changed in the meantime.
    pub fn launches(&self) -> &[LaunchRecord] {
        self.launches.get_or_init(|| {
            let mut left = self.limits.all_launch_chunks;
            let fits = |slot: &&Slot| {
                let rest = left.checked_sub(slot.chunks);
                left = rest.unwrap_or(0);
                rest.is_some()
            };
            let slots = self.slots.iter().take_while(fits);
            slots.filter_map(|slot| self.resolve(slot).ok()).collect()
        })
    }

    /// All launches, ascending by id, with nothing in `before` and `after`. Costs nothing.
    pub fn launch_heads(&self) -> &[LaunchRecord] {
        &self.heads
    }

    /// The launch with this id. Puts all of them together: see [`launches`](Self::launches).
    pub fn launch(&self, id: LaunchId) -> Option<&LaunchRecord> {
        let launches = self.launches();
        let at = launches
            .binary_search_by_key(&id, |launch| launch.id)
            .ok()?;
        launches.get(at)
    }

    /// Reads one launch, and keeps nothing of it.
    pub fn load_launch(&self, id: LaunchId) -> Result<LaunchRecord, ReadError> {
        match self
            .slots
            .binary_search_by_key(&id, |slot| slot.launch.head.id)
        {
            Ok(at) if at < self.slots.len() => self.resolve(&self.slots[at]),
            _ => Err(ReadError::NoLaunch {
                path: self.source.path.clone(),
                launch: id,
            }),
        }
    }

    /// What the regions of a launch belong to, without reading their chunk lists.
    pub(crate) fn owners(&self, id: LaunchId) -> impl Iterator<Item = &RegionOwner> {
        let at = self
            .slots
            .binary_search_by_key(&id, |slot| slot.launch.head.id)
            .ok();
        let slot = at.and_then(|at| self.slots.get(at));
        slot.into_iter()
            .flat_map(|slot| &slot.launch.regions)
            .map(|region| &region.owner)
    }

    /// Chunks that hold the chunk lists of launches.
    pub(crate) fn table_chunks(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.slots
            .iter()
            .flat_map(|slot| &slot.launch.regions)
            .flat_map(|region| {
                let table = match &region.chunks {
                    StoredList::Inline(_) => None,
                    StoredList::Table(blob) => Some(blob.chunks.stored().map(|(_, id)| id)),
                };
                table.into_iter().flatten()
            })
    }

    /// The record of a stored launch.
    fn resolve(&self, slot: &Slot) -> Result<LaunchRecord, ReadError> {
        let mut launch = slot.launch.head.clone();
        let mut left = self.limits.launch_chunks;
        for region in &slot.launch.regions {
            launch.before.regions.push(RegionSnapshot {
                owner: region.owner.clone(),
                address: region.address,
                len: region.len,
                chunks: self.resolve_list(region, &mut left)?,
            });
        }
        launch.after.changes = slot.launch.changes.clone();
        Ok(launch)
    }

    fn resolve_list(&self, region: &StoredRegion, left: &mut u64) -> Result<ChunkList, ReadError> {
        let blob = match &region.chunks {
            StoredList::Inline(list) => return Ok(list.clone()),
            StoredList::Table(blob) => blob,
        };
        let mut list = ChunkList::new();
        let mut part = Vec::new();
        let mut rest = blob.len;
        for run in blob.chunks.runs() {
            match run {
                ChunkRun::Zero(count) => {
                    let bytes = count.saturating_mul(CHUNK_SIZE as u64).min(rest);
                    list.push_zeros(bytes / TABLE_ENTRY as u64);
                    rest -= bytes;
                }
                ChunkRun::Data(ids) => {
                    for id in ids {
                        let len = rest.min(CHUNK_SIZE as u64);
                        part.resize(len as usize, 0);
                        self.read_chunk(ChunkRef::Data(*id), &mut part)?;
                        rest -= len;
                        *left = left.checked_sub(len / TABLE_ENTRY as u64).ok_or_else(|| {
                            ReadError::Limit {
                                path: self.source.path.clone(),
                                what: "a launch's list of chunks",
                                needed: self.limits.launch_chunks.saturating_add(1),
                                limit: self.limits.launch_chunks,
                            }
                        })?;
                        for chunk in table_entries(&part) {
                            list.push(chunk);
                        }
                    }
                }
            }
        }
        Ok(list)
    }

    /// Drops launches that cannot be used, and says so.
    pub(super) fn check_launches(&mut self, salvage: &mut Salvage) {
        let mut tables = Tables::default();
        let mut kept: Vec<Slot> = Vec::with_capacity(self.slots.len());
        for mut slot in std::mem::take(&mut self.slots) {
            let id = slot.launch.head.id;
            let twice = kept.last().is_some_and(|last| last.launch.head.id == id);
            let checked = if twice {
                Err("another launch has the same id".to_owned())
            } else {
                self.check_launch(&slot, &mut tables)
            };
            match checked {
                Ok(chunks) => {
                    slot.chunks = chunks;
                    kept.push(slot);
                }
                Err(reason) => {
                    salvage.dropped.push(DroppedLaunch {
                        id: Some(id),
                        offset: slot.offset,
                        reason,
                    });
                }
            }
        }
        self.heads = kept.iter().map(|slot| slot.launch.head.clone()).collect();
        self.slots = kept;
    }

    /// The number of stored chunks that a launch names, or what of it is missing.
    fn check_launch(&self, slot: &Slot, tables: &mut Tables) -> Result<u64, String> {
        let launch = &slot.launch;
        if self.kernel(launch.head.kernel).is_none() {
            return Err(format!(
                "the record of its kernel {} is missing",
                launch.head.kernel
            ));
        }
        let mut total = launch.changes.len() as u64;
        for region in &launch.regions {
            total = total.saturating_add(self.check_region(region, tables)?);
            if total > self.limits.launch_chunks {
                return Err(format!(
                    "it names more than {} chunks",
                    self.limits.launch_chunks
                ));
            }
        }
        let mut last = None;
        for change in &launch.changes {
            let place = (change.region, change.chunk);
            if last.replace(place).is_some_and(|last| last >= place) {
                return Err("its changes are not ascending".to_owned());
            }
            let region = usize::try_from(change.region)
                .ok()
                .and_then(|at| launch.regions.get(at));
            let Some(region) = region else {
                return Err(format!(
                    "it changes region {}, which it does not have",
                    change.region
                ));
            };
            let Some(wanted) = chunk_len(region.len, change.chunk) else {
                return Err(format!(
                    "it changes memory beyond the region at {:#x}",
                    region.address
                ));
            };
            if let ChunkRef::Data(id) = change.data {
                self.check_chunk(id, wanted)?;
            }
        }
        Ok(total)
    }

    fn check_region(&self, region: &StoredRegion, tables: &mut Tables) -> Result<u64, String> {
        let needed = region.len.div_ceil(CHUNK_SIZE as u64);
        let wrong = |found: u64| {
            format!(
                "the region at {:#x} has {needed} chunks, and {found} are listed",
                region.address
            )
        };
        let blob = match &region.chunks {
            StoredList::Inline(list) => {
                if list.len() != needed {
                    return Err(wrong(list.len()));
                }
                let mut total = 0u64;
                for (index, id) in list.stored() {
                    self.check_chunk(id, chunk_len(region.len, index).unwrap_or(0))?;
                    total += 1;
                }
                return Ok(total);
            }
            StoredList::Table(blob) => blob,
        };
        if needed.checked_mul(TABLE_ENTRY as u64) != Some(blob.len)
            || blob.chunks.len() != blob.len.div_ceil(CHUNK_SIZE as u64)
        {
            return Err(wrong(blob.len / TABLE_ENTRY as u64));
        }
        let mut total = 0u64;
        for (index, id) in blob.chunks.stored() {
            let len = chunk_len(blob.len, index).unwrap_or(0);
            let table = tables.get(self, id, len)?;
            total = total.saturating_add(table.stored);
            // Only the last chunk of the region may be short, and it must be.
            let first = index.saturating_mul(ENTRIES_PER_CHUNK);
            let entries = u64::from(len) / TABLE_ENTRY as u64;
            let last = first.saturating_add(entries) == needed;
            let full = if last {
                entries.saturating_sub(1)
            } else {
                entries
            };
            if let Some((_, id)) = table.odd.filter(|(at, _)| *at < full) {
                return Err(format!("chunk {id:?} is missing, or has the wrong length"));
            }
            if let (true, ChunkRef::Data(id)) = (last, table.last) {
                self.check_chunk(id, chunk_len(region.len, needed - 1).unwrap_or(0))?;
            }
        }
        Ok(total)
    }

    fn check_chunk(&self, id: ChunkId, wanted: u32) -> Result<(), String> {
        match self.chunks.get(&id) {
            None => Err(format!("chunk {id:?} is missing")),
            Some(entry) if entry.raw_len != wanted => Err(format!(
                "chunk {id:?} has {} bytes where {wanted} belong",
                entry.raw_len
            )),
            Some(_) => Ok(()),
        }
    }
}

/// Length of chunk `index` of something with `len` bytes. `None` beyond its end.
pub(super) fn chunk_len(len: u64, index: u64) -> Option<u32> {
    let start = index.checked_mul(CHUNK_SIZE as u64)?;
    let rest = len.checked_sub(start).filter(|rest| *rest > 0)?;
    Some(rest.min(CHUNK_SIZE as u64) as u32)
}

/// Tables that were looked into already: most launches share theirs.
#[derive(Default)]
struct Tables(HashMap<ChunkId, Result<Table, String>>);

#[derive(Clone, Copy)]
struct Table {
    /// Chunks that it names, zeros not counted.
    stored: u64,
    /// The first entry that is not in the file as a full chunk.
    odd: Option<(u64, ChunkId)>,
    last: ChunkRef,
}

impl Tables {
    fn get(&mut self, archive: &Archive, id: ChunkId, len: u32) -> Result<Table, String> {
        let entry = match self.0.entry(id) {
            Entry::Occupied(known) => {
                archive.check_chunk(id, len)?;
                return known.get().clone();
            }
            Entry::Vacant(entry) => entry,
        };
        let mut part = vec![0; len as usize];
        let read = archive.read_chunk(ChunkRef::Data(id), &mut part);
        let table = read.map_err(|error| error.to_string()).map(|()| {
            let mut table = Table {
                stored: 0,
                odd: None,
                last: ChunkRef::Zero,
            };
            for (at, chunk) in (0u64..).zip(table_entries(&part)) {
                table.last = chunk;
                if let ChunkRef::Data(id) = chunk {
                    table.stored += 1;
                    if table.odd.is_none() && archive.check_chunk(id, CHUNK_SIZE as u32).is_err() {
                        table.odd = Some((at, id));
                    }
                }
            }
            table
        });
        entry.insert(table).clone()
    }
}
