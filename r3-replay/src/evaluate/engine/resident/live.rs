//! The launch whose memory is in place now, and going over to another one.
//!
//! Launches of one program share addresses. Going over to another one restores what the present one may have written, so
//! that its memory is known chunk by chunk, and then writes the chunks in which the other one differs.

use std::rc::Rc;

use r3_archive::model::{LaunchId, LaunchRecord};

use super::budget::lengths;
use super::kept::{Expected, Kept, LaunchKeys, Mask, Restoring};
use super::{Resident, Trouble, not_ready};
use crate::device::AddressRange;
use crate::replay::{self, InPlace};
use crate::restore::contents::KnownRegion;
use crate::restore::plan::merge;
use crate::restore::segments::{self, Moment, Segment};

/// A launch whose memory is in place.
pub(super) struct Live {
    pub launch: LaunchId,
    pub place: InPlace,
    /// What is mapped and was not recorded.
    pub slack: Vec<AddressRange>,
    /// Whether what the launch leaves alone is as it was.
    pub clean: bool,
    /// Whether a candidate ran since everything was compared last.
    pub unjudged: bool,
    /// Key of the guards.
    pub guard: u64,
}

impl Live {
    pub fn new(launch: LaunchId, place: InPlace) -> Self {
        let slack = slack(&place);
        Self {
            launch,
            place,
            slack,
            clean: true,
            unjudged: false,
            guard: 0,
        }
    }
}

/// What is mapped and not a region.
fn slack(place: &InPlace) -> Vec<AddressRange> {
    let regions = merge(place.targets.iter().flatten().copied().collect());
    let mut slack = Vec::new();
    for mapped in merge(place.mapped.clone()) {
        let mut start = mapped.start();
        for region in regions.iter().filter(|region| region.overlaps(mapped)) {
            slack.extend(AddressRange::between(start, region.start()));
            start = start.max(region.end());
        }
        slack.extend(AddressRange::between(start, mapped.end()));
    }
    slack
}

impl Resident<'_> {
    /// From now on nothing is known of the memory in place: it is written anew before it is used.
    pub(super) fn distrust(&mut self) {
        self.distrusted += 1;
        if let Some(live) = &mut self.live {
            live.clean = false;
        }
    }

    /// Looks after what a candidate ran that nobody judged: memory that the launch leaves alone, and copies. Returns what
    /// of it was changed, for people. What is damaged is put back before anything else runs.
    pub fn inspect(&mut self) -> Result<Option<&'static str>, Trouble> {
        let Some(live) = self
            .live
            .as_ref()
            .filter(|live| live.unjudged && live.clean)
        else {
            return Ok(None);
        };
        let Some(kept) = self.launches.get(&live.launch) else {
            return Ok(None);
        };
        let untouched = kept.untouched.iter().map(|untouched| untouched.range);
        let ranges: Vec<AddressRange> = untouched.chain(kept.ranges()).collect();
        let sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &ranges)
            .map_err(|error| Trouble::of_device(error, true))?;
        let launch = live.launch;
        self.judge_sums(launch, &sums)
    }

    /// What checksums say of the launch that is in place: first of the memory that it leaves alone, then of its copies. What is not
    /// as it was is not used again.
    pub(super) fn judge_sums(
        &mut self,
        launch: LaunchId,
        sums: &[u64],
    ) -> Result<Option<&'static str>, Trouble> {
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        let (memory, copies) = sums.split_at(kept.untouched.len().min(sums.len()));
        let damaged = copies != kept.sums;
        kept.damaged |= damaged;
        let clean = memory.iter().eq(kept.untouched.iter().map(|u| &u.sum));
        if let Some(live) = &mut self.live {
            live.unjudged = false;
        }
        if !clean {
            self.distrust();
        }
        Ok(match (damaged, clean) {
            (true, _) => Some("R3's own copies were written to"),
            (false, false) => Some("memory that the original leaves alone was changed"),
            (false, true) => None,
        })
    }

    /// Puts a launch that is ready in place.
    pub(super) fn activate(&mut self, launch: LaunchId) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        if let Some(unusable) = &kept.facts.unusable {
            return Err(Trouble::Machine(format!("launch {launch}: {unusable}")));
        }
        let in_place = |live: &Live| live.launch == launch && live.clean;
        if self.live.as_ref().is_some_and(in_place) && kept.is_here() && !kept.damaged {
            return Ok(());
        }
        let record = Rc::clone(&kept.record);
        let altered = kept.altered.as_ref().map(|a| Rc::clone(&a.edits));
        let mut known = self.leave()?;
        // The first launch after nothing was in place is no sign that launches take turns.
        let turns = !known.is_empty();
        let place = self.arrange(&record, &mut known)?;
        self.bring(launch)?;
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let damaged = kept.damaged;
        if !damaged {
            // Each reset writes these.
            known = with_pieces(kept, &place, known)?;
        }
        let unguarded = kept.unguarded.clone();
        let read = self.fill_missing(launch, &place, &known)?;
        let mut live = Live::new(launch, place);
        live.slack.retain(|range| !unguarded.contains(range));
        self.live = Some(live);
        if let Some(edits) = altered {
            self.write_edits(&edits)?;
        }
        if damaged {
            self.remake(launch)?;
        } else if turns && read {
            self.keep_inputs(launch)?;
        }
        Ok(())
    }

    /// Puts memory in place for a launch, the present one being left. What is not known any more is taken from `known`.
    pub(super) fn arrange(
        &mut self,
        record: &LaunchRecord,
        known: &mut Vec<KnownRegion>,
    ) -> Result<InPlace, Trouble> {
        let place = match self.replayer.arrange(record) {
            Ok(place) => place,
            // Copies may be in the way: without them there may be room.
            Err(_) if self.kept_bytes() > 0 => {
                let all: Vec<LaunchId> = self
                    .launches
                    .iter()
                    .filter(|(_, kept)| kept.is_here() && kept.bytes() > 0)
                    .map(|(id, _)| *id)
                    .collect();
                for launch in all {
                    self.spill(launch)?;
                }
                self.pool
                    .trim(self.replayer.device())
                    .map_err(|error| Trouble::of_device(error, false))?;
                // What the first try put in place counts as new no more, and is.
                known.clear();
                self.replayer
                    .arrange(record)
                    .map_err(|error| Trouble::of_replay(error, false))?
            }
            Err(error) => return Err(Trouble::of_replay(error, false)),
        };
        known.retain(|k| !place.fresh.iter().any(|fresh| fresh.overlaps(k.range)));
        Ok(place)
    }

    /// Ends the present launch: its memory is as it was before it, and what is known of it is returned.
    pub(super) fn leave(&mut self) -> Result<Vec<KnownRegion>, Trouble> {
        self.inspect()?;
        let Some(live) = self.live.take() else {
            return Ok(Vec::new());
        };
        let Some(kept) = self.launches.get(&live.launch) else {
            return Ok(Vec::new());
        };
        if !live.clean || kept.damaged || !kept.is_here() || kept.altered.is_some() {
            return Ok(Vec::new());
        }
        let places = kept.restoring(&live.place.targets, Restoring::Plain);
        let regions =
            segments::regions(&kept.record).map_err(|error| Trouble::Machine(error.to_string()))?;
        let mut known = Vec::new();
        for region in &regions {
            let Some(range) = live.place.targets.get(region.index).copied().flatten() else {
                continue;
            };
            // Nothing is kept of what is poisoned wholly.
            let lost = chunks_of(kept, region.index, |piece| piece.mask == Mask::All);
            let segments = without(&region.segments(Moment::Before), &lost);
            known.push(KnownRegion { range, segments });
        }
        self.place(&places, false)?;
        Ok(known)
    }

    /// Gets the copies of a launch onto the device, and finds out whether they are damaged.
    fn bring(&mut self, launch: LaunchId) -> Result<(), Trouble> {
        let trouble = |error| Trouble::of_device(error, false);
        self.clock += 1;
        let clock = self.clock;
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        kept.used = clock;
        if let Some(spilled) = kept.spilled.take() {
            match self.fetch(&spilled)? {
                Some(copies) => {
                    if let Some(kept) = self.launches.get_mut(&launch) {
                        kept.copies = copies;
                    }
                }
                None => {
                    if let Some(kept) = self.launches.get_mut(&launch) {
                        kept.damaged = true;
                    }
                }
            }
            self.keep_to_budget(launch)?;
        }
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        if !kept.damaged {
            let ranges = kept.ranges();
            let sums = self
                .replayer
                .device()
                .checksums(kept.keys.sums, &ranges)
                .map_err(trouble)?;
            kept.damaged = sums != kept.sums;
        }
        Ok(())
    }

    /// Makes the copies of a launch again, whose memory is in place as it was before it.
    fn remake(&mut self, launch: LaunchId) -> Result<(), Trouble> {
        let trouble = |error| Trouble::of_replay(error, false);
        let key = LaunchKeys {
            before: self.keys.key(),
            expected: self.keys.key(),
            sums: self.keys.key(),
        };
        let (Some(kept), Some(live)) = (self.launches.get_mut(&launch), &self.live) else {
            return Err(not_ready(launch));
        };
        let record = Rc::clone(&kept.record);
        let place = live.place.clone();
        let chunks = chunks(kept);
        kept.damaged = false;
        kept.keys = key;
        kept.spilled = None;
        kept.inputs.clear();
        let old = std::mem::take(&mut kept.copies);
        old.give(&mut self.pool);
        let lengths = lengths(kept);
        let copies = self.allocate(lengths)?;
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        kept.copies = copies;
        let (expected, mask) = (kept.expected, Rc::clone(&kept.mask));
        if let [_, _, Some(address)] = kept.addresses() {
            self.replayer
                .device()
                .write(address, &mask)
                .map_err(|error| Trouble::of_device(error, false))?;
        }
        // Bound code is needed for large variables, and to run it.
        let shape = replay::Shape::recorded(&record);
        let code = self.replayer.bind(&record, None, &shape).map_err(trouble)?;
        let bound = super::Bound::original(code);
        let made = self.seal_again(&bound, &place, &chunks, expected);
        let unbound = self.unbind(bound);
        made.and(unbound)?;
        self.sum(launch)?;
        self.keep_to_budget(launch)
    }

    fn seal_again(
        &mut self,
        bound: &super::Bound,
        place: &InPlace,
        chunks: &[(usize, u64)],
        expected: Expected,
    ) -> Result<(), Trouble> {
        let everywhere = self.everywhere(bound, place);
        self.fill_before(bound, &everywhere, chunks)?;
        let kept = self.launches.get(&bound.launch());
        let edits = kept.and_then(|kept| kept.altered.as_ref().map(|a| Rc::clone(&a.edits)));
        if let Some(edits) = edits {
            self.write_edits(&edits)?;
        }
        self.seal(bound, false)?;
        match expected {
            Expected::Recorded => self.seal_recorded(bound, &everywhere, chunks),
            Expected::Local => {
                self.restore_plainly(bound)?;
                self.run(bound)?;
                self.settle(bound)?;
                self.seal(bound, true)?;
                self.restore_plainly(bound)
            }
        }
    }
}

/// All chunks of pieces.
fn chunks(kept: &Kept) -> Vec<(usize, u64)> {
    let mut chunks: Vec<(usize, u64)> = kept
        .pieces
        .iter()
        .flat_map(|piece| {
            let first = piece.offset / crate::device::COMPARE_CHUNK;
            let end = (piece.offset + piece.len).div_ceil(crate::device::COMPARE_CHUNK);
            (first..end).map(|chunk| (piece.region, chunk))
        })
        .collect();
    chunks.sort_unstable();
    chunks
}

/// Chunks of a region that are in some pieces: first, and the one behind the last; ascending.
pub(super) fn chunks_of(
    kept: &Kept,
    region: usize,
    which: impl Fn(&super::kept::Piece) -> bool,
) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = kept
        .pieces
        .iter()
        .filter(|piece| piece.region == region && which(piece))
        .map(|piece| {
            (
                piece.offset / crate::device::COMPARE_CHUNK,
                (piece.offset + piece.len).div_ceil(crate::device::COMPARE_CHUNK),
            )
        })
        .collect();
    found.sort_unstable();
    found
}

/// What is known, and the pieces of the launch that is to come as if they were in place.
fn with_pieces(
    kept: &Kept,
    place: &InPlace,
    known: Vec<KnownRegion>,
) -> Result<Vec<KnownRegion>, Trouble> {
    let regions =
        segments::regions(&kept.record).map_err(|error| Trouble::Machine(error.to_string()))?;
    let mut result = Vec::new();
    for region in &regions {
        let Some(range) = place.targets.get(region.index).copied().flatten() else {
            continue;
        };
        let own = chunks_of(kept, region.index, |_| true);
        let base = known.iter().find(|known| known.range == range);
        let mut segments = base.map_or_else(Vec::new, |known| without(&known.segments, &own));
        segments.extend(within(&region.segments(Moment::Before), &own));
        segments.sort_unstable_by_key(|segment| segment.span().0);
        result.push(KnownRegion { range, segments });
    }
    Ok(result)
}

/// Segments without some chunks.
pub(super) fn without(segments: &[Segment], chunks: &[(u64, u64)]) -> Vec<Segment> {
    let mut left = Vec::new();
    for segment in segments {
        let (mut start, end) = segment.span();
        let first = chunks.partition_point(|(_, end)| *end <= start);
        for (from, to) in chunks.iter().skip(first) {
            if *from >= end {
                break;
            }
            left.extend(segment.part(start, *from));
            start = start.max(*to);
        }
        left.extend(segment.part(start, end));
    }
    left
}

/// The parts of segments that some chunks are in.
fn within(segments: &[Segment], chunks: &[(u64, u64)]) -> Vec<Segment> {
    let mut found = Vec::new();
    for segment in segments {
        let (start, end) = segment.span();
        let first = chunks.partition_point(|(_, end)| *end <= start);
        for (from, to) in chunks.iter().skip(first) {
            if *from >= end {
                break;
            }
            found.extend(segment.part(start.max(*from), end.min(*to)));
        }
    }
    found
}
