//! A copy of what a launch leaves alone, for going over to it from another one.
//!
//! It is made only when launches take turns and there is room, from what has just come from the archive.

use std::rc::Rc;

use r3_archive::model::LaunchId;

use super::kept::{Input, Kept, LaunchKeys};
use super::layout::regions;
use super::{Resident, Trouble, not_ready};
use crate::device::{AddressRange, COMPARE_CHUNK, Place, Source, Stream};
use crate::replay::InPlace;
use crate::restore::contents::KnownRegion;
use crate::restore::segments::{Moment, Segment, changed};

impl LaunchKeys {
    fn inputs(&self, at: u64) -> Stream {
        // Another stream than that of the copy from before the launch, which may hold the same bytes.
        Stream::new(self.before ^ 0x696e_7075_7473_0000).after(at)
    }
}

/// What must be written so that memory is as before a launch: index of the region, and segments.
type Missing = Vec<(usize, Vec<Segment>)>;

impl Resident<'_> {
    /// Writes what of a launch's memory is not known to be there, from its copy or else from the archive. Returns whether
    /// it came from the archive.
    pub(super) fn fill_missing(
        &mut self,
        launch: LaunchId,
        place: &InPlace,
        known: &[KnownRegion],
    ) -> Result<bool, Trouble> {
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let record = Rc::clone(&kept.record);
        let missing = missing(kept, place, known)?;
        if let Some(places) = from_copy(kept, place, &missing) {
            self.place(&places, false)?;
            return Ok(false);
        }
        self.replayer
            .fill(&record, place, known)
            .map_err(|error| Trouble::of_replay(error, false))?;
        let stored = |segment: &Segment| matches!(segment, Segment::Stored { .. });
        Ok(missing
            .iter()
            .any(|(_, segments)| segments.iter().any(stored)))
    }

    /// Makes the copy of what a launch leaves alone, whose memory is in place as it was before it, when there is room.
    pub(super) fn keep_inputs(&mut self, launch: LaunchId) -> Result<(), Trouble> {
        let (Some(kept), Some(live)) = (self.launches.get(&launch), &self.live) else {
            return Err(not_ready(launch));
        };
        if kept.copies.inputs.is_some() || kept.altered.is_some() {
            return Ok(());
        }
        let place = live.place.clone();
        let (inputs, len) = inputs(kept, &place)?;
        let room = match self.options.memory_budget {
            Some(budget) => budget.saturating_sub(self.pool.in_use()),
            // The other half is for what comes later.
            None => self.replayer.device().free_memory().unwrap_or(0) / 2,
        };
        if len == 0 || len > room {
            return Ok(());
        }
        // Without room it is read from the archive each time.
        let Ok(buffer) = self.pool.take(self.replayer.device(), len) else {
            return Ok(());
        };
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        let keys = kept.keys;
        let seals: Vec<Place> = inputs
            .iter()
            .filter_map(|input| {
                let target = place.targets.get(input.region).copied().flatten()?;
                let from = target.start() + input.first * COMPARE_CHUNK;
                let to = buffer.address() + input.at;
                Some(Place::seal(from, to, input.len, keys.inputs(input.at)))
            })
            .collect();
        kept.copies.inputs = Some(buffer);
        kept.inputs = inputs;
        self.place(&seals, false)?;
        self.sum(launch)
    }
}

/// The stored chunks of a launch that are in no piece, and where they go in a copy; and its length.
fn inputs(kept: &Kept, place: &InPlace) -> Result<(Vec<Input>, u64), Trouble> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut len = 0u64;
    for region in &regions(&kept.record)? {
        if place.targets.get(region.index).copied().flatten().is_none() {
            continue;
        }
        let own = super::live::chunks_of(kept, region.index, |_| true);
        for segment in super::live::without(&region.segments(Moment::Before), &own) {
            let Segment::Stored { chunk, .. } = segment else {
                continue;
            };
            let bytes = u64::from(region.chunk(chunk).1);
            match inputs.last_mut() {
                Some(last)
                    if last.region == region.index
                        && last.first * COMPARE_CHUNK + last.len == chunk * COMPARE_CHUNK =>
                {
                    last.len += bytes;
                }
                _ => {
                    len = len.next_multiple_of(256);
                    inputs.push(Input {
                        region: region.index,
                        first: chunk,
                        len: bytes,
                        at: len,
                    });
                }
            }
            len += bytes;
        }
    }
    Ok((inputs, len))
}

fn missing(kept: &Kept, place: &InPlace, known: &[KnownRegion]) -> Result<Missing, Trouble> {
    let mut missing = Vec::new();
    for region in &regions(&kept.record)? {
        let Some(range) = place.targets.get(region.index).copied().flatten() else {
            continue;
        };
        let wanted = region.segments(Moment::Before);
        let there = known.iter().find(|known| known.range == range);
        let segments = there.map_or_else(|| wanted.clone(), |k| changed(&k.segments, &wanted));
        missing.push((region.index, segments));
    }
    Ok(missing)
}

/// What writes missing bytes from the copy; `None` when it has not all of them.
fn from_copy(kept: &Kept, place: &InPlace, missing: &Missing) -> Option<Vec<Place>> {
    let copy = kept.copies.inputs.as_ref().filter(|_| !kept.damaged)?;
    let mut places: Vec<Place> = Vec::new();
    for (index, segments) in missing {
        let target = place.targets.get(*index).copied().flatten()?;
        for segment in segments {
            let (first, end) = segment.span();
            let offset = first * COMPARE_CHUNK;
            let len = target.len().min(end * COMPARE_CHUNK).saturating_sub(offset);
            let to = target.start() + offset;
            if let Segment::Zeros { .. } = segment {
                places.extend(AddressRange::new(to, len).map(|range| Place {
                    to: range.start(),
                    len: range.len(),
                    from: Some(Source::ZEROS),
                    poison: None,
                }));
                continue;
            }
            let after = kept
                .inputs
                .partition_point(|input| (input.region, input.first) <= (*index, first));
            let input = kept.inputs.get(after.checked_sub(1)?)?;
            let inside = offset.checked_sub(input.first * COMPARE_CHUNK)?;
            if input.region != *index || inside + len > input.len {
                return None;
            }
            let at = input.at + inside;
            let from = copy.address() + at;
            match places.last_mut() {
                // Neighbours on both sides.
                Some(last)
                    if last.to + last.len == to
                        && last.from.and_then(|s| s.memory).map(|m| m + last.len) == Some(from) =>
                {
                    last.len += len;
                }
                _ => places.push(Place::seal(from, to, len, kept.keys.inputs(at))),
            }
        }
    }
    Some(places)
}
