//! Runs of the original while a launch is made ready, and what they are held against.

use std::rc::Rc;
use std::time::Duration;

use r3_archive::model::LaunchId;

use super::kept::Expected;
use super::layout::{Chunks, Masks, regions};
use super::{Bound, Resident, Trouble, not_ready};
use crate::compare::Tolerances;
use crate::device::COMPARE_CHUNK;
use crate::evaluate::engine::Watch;
use crate::names::readable;
use crate::noise;
use crate::replay::InPlace;

/// Limit of what is done with memory between runs of the original: an archive may be as large as the device.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(3600);

/// How often it is begun anew when the original turns out to write elsewhere in another run.
const ATTEMPTS: u32 = 4;

impl Resident<'_> {
    /// Runs the original twice from recorded memory. Returns the chunks that it may write, and whether it left the same
    /// both times; copies of memory before and after the first run are there then.
    pub(super) fn first_runs(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        watch: &dyn Watch,
    ) -> Result<(Chunks, bool), Trouble> {
        let id = bound.launch();
        let mut chunks = self.recorded_chunks(id, everywhere)?;
        for attempt in 0..ATTEMPTS {
            let list: Vec<_> = chunks.iter().copied().collect();
            self.fill_before(bound, everywhere, &list)?;
            self.point_to_variables(bound)?;
            self.write_variables(bound, true)?;
            self.original(bound, "as it was recorded", watch)?;
            let found = self.not_as_recorded(bound, everywhere)?;
            let mut as_recorded = found.is_empty();
            chunks.extend(found);
            self.lay_out(id, &chunks, &Masks::new())?;
            self.seal(bound, true)?;
            as_recorded &= self.keep_variables(bound)?;
            let list: Vec<_> = chunks.iter().copied().collect();
            self.fill_before(bound, everywhere, &list)?;
            self.seal(bound, false)?;
            let key = self.keys.key();
            self.reset(bound, key)?;
            self.original(bound, "once more", watch)?;
            self.unguard(bound)?;
            let found = self.not_as_recorded(bound, everywhere)?;
            let more = found.iter().any(|chunk| !chunks.contains(chunk));
            if more && attempt + 1 < ATTEMPTS {
                chunks.extend(found);
                continue;
            }
            chunks.extend(found);
            let same = !more && self.is_exact(bound)? && self.same_variables(bound)?;
            if let Some(kept) = self.launches.get_mut(&id) {
                let as_recorded = as_recorded && same;
                kept.expected = match as_recorded {
                    true => Expected::Recorded,
                    false => Expected::Local,
                };
                let facts = Rc::make_mut(&mut kept.facts);
                facts.as_recorded = as_recorded;
                if same && !as_recorded {
                    facts.notes.push(
                        "the original leaves other bytes here than were recorded, the same in each run: candidates \
                         are compared with what it leaves here"
                            .to_owned(),
                    );
                }
            }
            return Ok((chunks, same));
        }
        Err(Trouble::Machine(
            "the original writes somewhere else in each run".to_owned(),
        ))
    }

    /// Takes guards away that the original itself writes to.
    pub(super) fn unguard(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let hit = self.hit_guards(bound)?;
        if hit.is_empty() {
            return Ok(());
        }
        let (Some(kept), Some(live)) = (self.launches.get_mut(&bound.launch()), &mut self.live)
        else {
            return Err(not_ready(bound.launch()));
        };
        live.slack.retain(|range| !hit.contains(range));
        let facts = Rc::make_mut(&mut kept.facts);
        for range in &hit {
            facts.notes.push(format!(
                "the original writes to memory at {range} that was not recorded: what candidates do there is not judged"
            ));
        }
        kept.unguarded.extend(hit);
        Ok(())
    }

    /// The original varies: how far, and with what it is to be compared. Returns why that cannot be told.
    pub(super) fn spread(
        &mut self,
        bound: &Bound,
        (place, everywhere): (&InPlace, &InPlace),
        chunks: &Chunks,
        runs: u32,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Trouble> {
        let id = bound.launch();
        watch.within(
            self.options.run_limit.saturating_mul(runs + 1),
            "the spread of the original is measured",
        );
        let archive = self.archive();
        let noise = noise::measure(
            archive,
            &mut self.replayer,
            id,
            runs,
            &self.options.tolerances,
        );
        // Its code is loaded a second time for that.
        self.replayer
            .unload()
            .map_err(|error| Trouble::of_device(error, false))?;
        if let Some(error) = noise.error {
            return Ok(Some(format!("the original cannot be run again: {error}")));
        }
        let mut spread = Tolerances::exact();
        for rule in noise::tolerance_file(std::slice::from_ref(&noise)).buffers {
            spread
                .add(rule)
                .map_err(|error| Trouble::Machine(error.to_string()))?;
        }
        let record = match self.launches.get(&id) {
            Some(kept) => Rc::clone(&kept.record),
            None => return Err(not_ready(id)),
        };
        let kernel = archive.kernel(record.kernel);
        let kernel = kernel.map_or_else(String::new, |kernel| kernel.name.clone());
        let shown = readable(&kernel);
        self.change_facts(id, |facts| {
            for buffer in facts.buffers.iter_mut().filter(|b| b.tolerance.is_exact()) {
                let names: Vec<&str> = buffer.name.all().collect();
                let (element, tolerance) = spread.of(&[&kernel, &shown], &names, None);
                if !tolerance.is_exact() {
                    (buffer.element, buffer.tolerance) = (element, tolerance);
                }
            }
            facts.notes.push(format!(
                "the original varies from run to run: {} may be off by what it varies itself, times 4",
                noise
                    .buffers
                    .iter()
                    .map(|buffer| buffer.buffer.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ));
        });
        // Measuring it left its last run in memory.
        self.replayer
            .fill(&record, place, &[])
            .map_err(|error| Trouble::of_replay(error, false))?;
        if let Some(live) = &mut self.live {
            live.clean = true;
        }
        self.lay_out(id, chunks, &Masks::new())?;
        let list: Vec<_> = chunks.iter().copied().collect();
        self.fill_before(bound, everywhere, &list)?;
        self.seal(bound, false)?;
        for expected in [Expected::Recorded, Expected::Local] {
            if let Some(kept) = self.launches.get_mut(&id) {
                kept.expected = expected;
            }
            match expected {
                Expected::Recorded => self.seal_recorded(bound, everywhere, &list)?,
                Expected::Local => {
                    self.restore_plainly(bound)?;
                    self.original(bound, "to be compared with", watch)?;
                    self.seal(bound, true)?;
                    self.keep_variables(bound)?;
                }
            }
            self.sum(id)?;
            let mut right = true;
            for _ in 0..2 {
                let key = self.keys.key();
                self.reset(bound, key)?;
                self.original(bound, "against its own spread", watch)?;
                right &= self.judgement(bound)?.is_right();
            }
            if right {
                self.change_facts(id, |facts| {
                    facts.as_recorded = expected == Expected::Recorded;
                });
                return Ok(None);
            }
        }
        Ok(Some(
            "the original varies more from run to run than several runs of it showed: give a tolerance".to_owned(),
        ))
    }

    /// Lays copies out for what is poisoned, and drops what the original does not stand: it must be right with everything
    /// poisoned.
    pub(super) fn confirm(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &Chunks,
        masks: Masks,
        watch: &dyn Watch,
    ) -> Result<Masks, Trouble> {
        if self.stands(bound, everywhere, chunks, &masks, watch)? {
            return Ok(masks);
        }
        let mut kept = Masks::new();
        for (region, mask) in masks {
            let mut more = kept.clone();
            more.insert(region, mask);
            if self.stands(bound, everywhere, chunks, &more, watch)? {
                kept = more;
            }
        }
        // What was tried last need not be what is kept.
        if !self.stands(bound, everywhere, chunks, &kept, watch)? {
            return Err(Trouble::Machine(
                "the original does not leave the same again after it was profiled".to_owned(),
            ));
        }
        Ok(kept)
    }

    /// Whether the original is right with some bytes poisoned. Copies are laid out for that.
    pub(super) fn stands(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &Chunks,
        masks: &Masks,
        watch: &dyn Watch,
    ) -> Result<bool, Trouble> {
        let id = bound.launch();
        self.lay_out(id, chunks, masks)?;
        let list: Vec<_> = chunks.iter().copied().collect();
        self.fill_before(bound, everywhere, &list)?;
        self.seal(bound, false)?;
        let expected = match self.launches.get(&id) {
            Some(kept) => kept.expected,
            None => return Err(not_ready(id)),
        };
        match expected {
            Expected::Recorded => self.seal_recorded(bound, everywhere, &list)?,
            Expected::Local => {
                self.restore_plainly(bound)?;
                self.original(bound, "to be compared with", watch)?;
                self.seal(bound, true)?;
                self.keep_variables(bound)?;
            }
        }
        self.fill_before(bound, everywhere, &list)?;
        self.sum(id)?;
        self.sum_untouched(bound)?;
        for _ in 0..2 {
            let key = self.keys.key();
            self.reset(bound, key)?;
            match self.original(bound, "with everything poisoned that it writes", watch) {
                Ok(()) => {}
                Err(Trouble::Fault(_) | Trouble::Timeout(_) | Trouble::CannotRun(_)) => {
                    self.recover(bound, everywhere)?;
                    return Ok(false);
                }
                Err(trouble) => return Err(trouble),
            }
            if !self.judgement(bound)?.is_right() {
                self.recover(bound, everywhere)?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes all memory from the archive again, while a launch is being made ready.
    pub(super) fn recover(&mut self, bound: &Bound, everywhere: &InPlace) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let record = Rc::clone(&kept.record);
        self.replayer
            .fill(&record, everywhere, &[])
            .map_err(|error| Trouble::of_replay(error, false))?;
        if let Some(live) = &mut self.live {
            live.clean = true;
        }
        self.point_to_variables(bound)?;
        self.write_variables(bound, true)
    }

    /// An empty kernel must be wrong, and the original right. Returns why that is not so.
    pub(super) fn controls(
        &mut self,
        bound: &Bound,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Trouble> {
        // One poisoned byte is right by chance once in 256 times.
        let mut nothing_is_right = true;
        for _ in 0..4 {
            let key = self.keys.key();
            self.reset(bound, key)?;
            nothing_is_right &= self.judgement(bound)?.is_right();
        }
        if nothing_is_right {
            return Ok(Some(
                "nothing can be told right from wrong: a kernel that does nothing passes"
                    .to_owned(),
            ));
        }
        for _ in 0..2 {
            let key = self.keys.key();
            self.reset(bound, key)?;
            self.original(bound, "as a control", watch)?;
            let judgement = self.judgement(bound)?;
            if let Some(why) = judgement.reason().filter(|_| !judgement.is_right()) {
                return Ok(Some(format!(
                    "the original is not right by its own measure: {why}"
                )));
            }
        }
        Ok(None)
    }

    /// Runs the original, and turns words that point to its variables into recorded ones. What it is run for is told in
    /// errors.
    pub(super) fn original(
        &mut self,
        bound: &Bound,
        what: &str,
        watch: &dyn Watch,
    ) -> Result<(), Trouble> {
        let what = format!("launch {}, the original {what}", bound.launch());
        watch.within(self.options.run_limit, &what);
        self.run(bound).map_err(|trouble| trouble.during(&what))?;
        watch.within(HOUSEKEEPING, "what the original left is looked at");
        self.settle(bound)
    }

    /// Turns words that point to variables into recorded ones.
    pub(super) fn settle(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let sites = match self.launches.get(&bound.launch()) {
            Some(kept) => kept.sites[1].clone(),
            None => Vec::new(),
        };
        self.point_as_recorded(bound, &sites)
    }

    /// The chunks that the recorded launch changed, those with words that point to variables, and all of large variables.
    pub(super) fn recorded_chunks(
        &self,
        id: LaunchId,
        everywhere: &InPlace,
    ) -> Result<Chunks, Trouble> {
        let Some(kept) = self.launches.get(&id) else {
            return Err(not_ready(id));
        };
        let mut chunks = Chunks::new();
        let regions = regions(&kept.record)?;
        for region in &regions {
            let Some(target) = everywhere.targets.get(region.index).copied().flatten() else {
                continue;
            };
            chunks.extend(region.changes.iter().map(|c| (region.index, c.chunk)));
            let live = self.live.as_ref();
            let in_place = live.and_then(|live| live.place.targets.get(region.index).copied()?);
            if in_place.is_none() {
                chunks.extend((0..target.len().div_ceil(COMPARE_CHUNK)).map(|c| (region.index, c)));
            }
        }
        for site in kept.sites.iter().flatten() {
            for byte in [site.offset, site.offset + 7] {
                chunks.insert((site.region, byte / COMPARE_CHUNK));
            }
        }
        Ok(chunks)
    }

    pub(super) fn not_as_recorded(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
    ) -> Result<Vec<(usize, u64)>, Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let record = Rc::clone(&kept.record);
        self.replayer
            .not_as_recorded(&record, everywhere)
            .map_err(|error| Trouble::of_replay(error, false))
    }
}
