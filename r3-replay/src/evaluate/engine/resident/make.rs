//! Making a launch ready: the original runs, and what it writes, leaves and needs is found out.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use r3_archive::model::{LaunchId, LaunchRecord, RegionOwner};

use super::kept::{
    BufferClass, BufferFacts, Copies, Expected, Facts, Kept, LaunchKeys, Mask, Piece, Untouched,
};
use super::live::{Live, lengths};
use super::profile;
use super::sites::{self, Site};
use super::variables::{CONSTANT_MEMORY, Variable};
use super::{Bound, Resident, Trouble, not_ready};
use crate::compare::{Allowance, Tolerances, buffer_names};
use crate::device::{AddressRange, COMPARE_CHUNK};
use crate::evaluate::engine::Watch;
use crate::names::readable;
use crate::noise;
use crate::replay::{InPlace, Shape, rule_of_region};
use crate::restore::contents::Source;
use crate::restore::segments::{self, Moment, Region};

/// Chunks that the launch may write: index of the region in the record, and of the chunk.
pub(super) type Chunks = BTreeSet<(usize, u64)>;

/// Bits of the bytes that are poisoned, by region. A region that is not there has none.
pub(super) type Masks = BTreeMap<usize, Vec<u8>>;

/// Alignment of pieces in the copies.
const PIECE_ALIGN: u64 = 256;

/// How often it is begun anew when the original turns out to write elsewhere in another run.
const ATTEMPTS: u32 = 4;

impl Resident<'_> {
    /// Makes a launch ready. It is among `launches` afterwards, unless the device is lost or the machine failed.
    pub(super) fn make(&mut self, id: LaunchId, watch: &dyn Watch) -> Result<(), Trouble> {
        let record = match self.archive().load_launch(id) {
            Ok(record) => Rc::new(record),
            Err(error) => {
                return Err(Trouble::Machine(format!("launch {id}: {error}")));
            }
        };
        let facts = Facts {
            launch: id,
            record: Rc::clone(&record),
            unusable: None,
            written: 0,
            changed_outside: 0,
            restored: 0,
            kept: 0,
            deterministic: true,
            as_recorded: true,
            buffers: Vec::new(),
            notes: record.notes.clone(),
        };
        let kept = Kept {
            record,
            facts: Rc::new(facts),
            expected: Expected::Recorded,
            keys: LaunchKeys::default(),
            pieces: Vec::new(),
            inputs: Vec::new(),
            copies: Copies::default(),
            sums: Vec::new(),
            spilled: None,
            still: Rc::default(),
            mask: Rc::default(),
            untouched: Vec::new(),
            unguarded: Vec::new(),
            variables: Vec::new(),
            sites: Default::default(),
            damaged: false,
            altered: None,
            used: 0,
        };
        let made = self.learn(kept, watch);
        watch.idle();
        let why = match made {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => why,
            Err(Trouble::Lost(lost)) => {
                self.forget(id);
                return Err(lost.into());
            }
            Err(trouble) => trouble.to_string(),
        };
        // Nothing can be judged on it: nothing is kept of it but why.
        self.distrust();
        if let Some(kept) = self.launches.get_mut(&id) {
            let mut facts = (*kept.facts).clone();
            facts.unusable = Some(why);
            facts.kept = 0;
            kept.facts = Rc::new(facts);
            kept.pieces.clear();
            std::mem::take(&mut kept.copies).give(&mut self.pool);
        }
        Ok(())
    }

    /// Takes a launch away that was ready.
    pub fn forget(&mut self, id: LaunchId) {
        if let Some(kept) = self.launches.remove(&id) {
            kept.give(&mut self.pool);
        }
    }

    /// Returns why nothing can be judged on the launch.
    fn learn(&mut self, mut kept: Kept, watch: &dyn Watch) -> Result<Option<String>, Trouble> {
        let id = kept.facts.launch;
        let record = Rc::clone(&kept.record);
        let mut known = self.leave()?;
        kept.keys = LaunchKeys {
            before: self.keys.key(),
            expected: self.keys.key(),
            sums: self.keys.key(),
        };
        self.launches.insert(id, kept);
        watch.within(self.options.run_limit, "memory is put in place");
        let trouble = |error| Trouble::of_replay(error, false);
        let place = self.arrange(&record, &mut known)?;
        self.replayer
            .fill(&record, &place, &known)
            .map_err(trouble)?;
        self.live = Some(Live::new(id, place.clone()));
        self.read_variables(id, &place)?;
        let shape = Shape::recorded(&record);
        let code = self.replayer.bind(&record, None, &shape).map_err(trouble)?;
        let bound = Bound::original(code);
        let learnt = self
            .write_variables(&bound, true)
            .and_then(|()| self.learn_bound(&bound, &place, watch));
        if let Some(kept) = self.launches.get_mut(&id) {
            let facts = Rc::make_mut(&mut kept.facts);
            for note in place.notes.iter().chain(bound.notes()) {
                if !facts.notes.contains(note) {
                    facts.notes.push(note.clone());
                }
            }
        }
        let unbound = self.unbind(bound);
        let learnt = learnt?;
        unbound?;
        Ok(learnt)
    }

    fn learn_bound(
        &mut self,
        bound: &Bound,
        place: &InPlace,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Trouble> {
        let id = bound.launch();
        self.name_buffers(bound, place)?;
        let everywhere = self.everywhere(bound, place);
        if let Some(told) = self.take_up(bound, &everywhere, watch)? {
            return Ok(told);
        }
        let (chunks, deterministic) = self.first_runs(bound, &everywhere, watch)?;
        self.change_facts(id, |facts| facts.deterministic = deterministic);
        if !deterministic
            && let Some(why) = self.spread(bound, place, &everywhere, &chunks, watch)?
        {
            return Ok(Some(why));
        }
        let found = profile::written(self, bound, &everywhere, &chunks, watch)?;
        if let Some(kept) = self.launches.get_mut(&id) {
            kept.still = Rc::new(found.still);
        }
        let mut all = chunks.clone();
        all.extend(chunks_of_masks(&found.masks));
        let kept_masks = self.confirm(bound, &everywhere, &all, found.masks, watch)?;
        self.classify(bound, &kept_masks, &found.inputs)?;
        self.change_facts(id, |facts| facts.notes.extend(found.notes));
        if let Some(why) = self.controls(bound, watch)? {
            return Ok(Some(why));
        }
        let notes = match self.launches.get(&id) {
            Some(kept) => kept.facts.notes.clone(),
            None => Vec::new(),
        };
        self.remember(bound, &all, &kept_masks, &found.inputs, &notes);
        self.restore_plainly(bound)?;
        Ok(None)
    }

    /// Takes up what an earlier process found out, when the original stands it. `None` when it is to be found out anew; else
    /// why nothing can be judged on the launch, if that is so.
    fn take_up(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        watch: &dyn Watch,
    ) -> Result<Option<Option<String>>, Trouble> {
        let id = bound.launch();
        let Some(entry) = self.recall(bound) else {
            return Ok(None);
        };
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        let parts = (
            entry.chunks(&kept.record),
            entry.masks(&kept.record),
            entry.still(&kept.record),
        );
        let (Some(chunks), Some(masks), Some(still)) = parts else {
            return Ok(None);
        };
        let before = Rc::clone(&kept.facts);
        kept.expected = entry.expected();
        kept.still = Rc::new(still);
        let facts = Rc::make_mut(&mut kept.facts);
        facts.deterministic = entry.deterministic;
        facts.as_recorded = entry.as_recorded;
        for note in &entry.notes {
            if !facts.notes.contains(note) {
                facts.notes.push(note.clone());
            }
        }
        for buffer in &mut facts.buffers {
            if let Some((element, tolerance)) = entry.rule(buffer.region) {
                (buffer.element, buffer.tolerance) = (element, tolerance);
            }
        }
        let variables = kept.variables.clone();
        if self.stands(bound, everywhere, &chunks, &masks, watch)? {
            self.classify(bound, &masks, &entry.inputs())?;
            if self.controls(bound, watch)?.is_none() {
                self.restore_plainly(bound)?;
                return Ok(Some(None));
            }
        }
        // It was another device, after all, or something else that is not in the entry's identity.
        if let Some(kept) = self.launches.get_mut(&id) {
            kept.facts = before;
            kept.variables = variables;
            kept.still = Rc::default();
            kept.untouched.clear();
        }
        self.recover(bound, everywhere)?;
        Ok(None)
    }

    /// Where everything of a launch is that is compared on the device: its memory, and the variables that are too large
    /// for constant memory.
    pub(super) fn everywhere(&self, bound: &Bound, place: &InPlace) -> InPlace {
        let mut targets = bound.code.targets.clone();
        if let Some(kept) = self.launches.get(&bound.launch()) {
            for variable in &kept.variables {
                if let Some(target) = targets.get_mut(variable.region) {
                    *target = None;
                }
            }
        }
        InPlace {
            targets,
            ..place.clone()
        }
    }

    /// Reads the small variables of the kernel's module, and finds the words that point to any.
    fn read_variables(&mut self, id: LaunchId, place: &InPlace) -> Result<(), Trouble> {
        let archive = self.archive();
        let Some(kept) = self.launches.get(&id) else {
            return Err(not_ready(id));
        };
        let record = Rc::clone(&kept.record);
        let regions = regions(&record)?;
        let kernel = archive.kernel(record.kernel);
        let module = kernel.and_then(|kernel| kernel.module);
        let names = kernel.map_or_else(Vec::new, |kernel| buffer_names(kernel, &record));
        let own: Vec<&Region<'_>> = regions
            .iter()
            .filter(|region| {
                matches!(&region.record.owner,
                    RegionOwner::Global { module: owner, .. } if Some(*owner) == module)
            })
            .collect();
        let mut variables = Vec::new();
        for region in &own {
            if region.range.len() <= CONSTANT_MEMORY {
                let name = names.get(region.index).map_or("?", |name| name.shown());
                variables.push(Variable::read(archive, region, name)?);
            }
        }
        let small = |index: usize| variables.iter().any(|v| v.region == index);
        let memory: Vec<&Region<'_>> = regions.iter().filter(|r| !small(r.index)).collect();
        let into = sites::variable_ranges(&record, own.iter().map(|region| region.index));
        let source = Source {
            archive,
            translation: &place.moved,
        };
        let found = [Moment::Before, Moment::After]
            .map(|moment| sites::find(source, &memory, &into, moment));
        let [before, after] = found;
        let sites = [before?, after?];
        if let Some(kept) = self.launches.get_mut(&id) {
            kept.variables = variables;
            kept.sites = sites;
        }
        Ok(())
    }

    /// Takes guards away that the original itself writes to.
    fn unguard(&mut self, bound: &Bound) -> Result<(), Trouble> {
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

    /// Names, types and tolerances of all buffers.
    fn name_buffers(&mut self, bound: &Bound, place: &InPlace) -> Result<(), Trouble> {
        let id = bound.launch();
        let archive = self.archive();
        let Some(kept) = self.launches.get(&id) else {
            return Err(not_ready(id));
        };
        let record = Rc::clone(&kept.record);
        let regions = regions(&record)?;
        let Some(kernel) = archive.kernel(record.kernel) else {
            return Err(not_ready(id));
        };
        let names = buffer_names(kernel, &record);
        let allowance = match self.options.strict {
            true => None,
            false => {
                let reasons = self
                    .replayer
                    .device()
                    .inexact(bound.handle())
                    .map_err(|error| Trouble::of_device(error, false))?;
                Allowance::new(&reasons)
            }
        };
        let inferred = self.replayer.inferred_types(kernel);
        let mut buffers = Vec::new();
        for region in &regions {
            let name = names.get(region.index).cloned().unwrap_or_default();
            let (element, tolerance) = rule_of_region(
                archive,
                kernel,
                region,
                &name,
                &inferred,
                (&self.options.tolerances, allowance),
            )
            .map_err(|error| Trouble::Machine(error.to_string()))?;
            buffers.push(BufferFacts {
                region: region.index,
                name,
                class: BufferClass::Untouched,
                target: place.targets.get(region.index).copied().flatten(),
                len: region.range.len(),
                written: 0,
                element,
                tolerance,
                has_pointers: true,
            });
        }
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        for variable in &mut kept.variables {
            if let Some(facts) = buffers.iter().find(|b| b.region == variable.region) {
                variable.element = facts.element;
                variable.tolerance = facts.tolerance;
            }
        }
        Rc::make_mut(&mut kept.facts).buffers = buffers;
        Ok(())
    }

    /// Runs the original twice from recorded memory. Returns the chunks that it may write, and whether it left the same
    /// both times; copies of memory before and after the first run are there then.
    fn first_runs(
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

    /// The original varies: how far, and with what it is to be compared. Returns why that cannot be told.
    fn spread(
        &mut self,
        bound: &Bound,
        place: &InPlace,
        everywhere: &InPlace,
        chunks: &Chunks,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Trouble> {
        let id = bound.launch();
        let runs = self.options.spread_runs.max(2);
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
    fn confirm(
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
    fn stands(
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
    fn controls(&mut self, bound: &Bound, watch: &dyn Watch) -> Result<Option<String>, Trouble> {
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
    fn recorded_chunks(&self, id: LaunchId, everywhere: &InPlace) -> Result<Chunks, Trouble> {
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

    /// Writes recorded bytes from before the launch into chunks.
    pub(super) fn fill_before(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &[(usize, u64)],
    ) -> Result<(), Trouble> {
        self.fill_at(bound, everywhere, chunks, Moment::Before)
    }

    fn fill_at(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &[(usize, u64)],
        moment: Moment,
    ) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let record = Rc::clone(&kept.record);
        self.replayer
            .fill_chunks(&record, everywhere, chunks, moment)
            .map_err(|error| Trouble::of_replay(error, false))
    }

    /// Makes the expected copy from recorded bytes.
    pub(super) fn seal_recorded(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        chunks: &[(usize, u64)],
    ) -> Result<(), Trouble> {
        self.fill_at(bound, everywhere, chunks, Moment::After)?;
        self.seal(bound, true)?;
        self.fill_before(bound, everywhere, chunks)
    }

    fn not_as_recorded(
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

    /// Makes a copy of the present state of what may be written.
    pub(super) fn seal(&mut self, bound: &Bound, expected: bool) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let places = kept.sealing(&bound.code.targets, expected);
        self.place(&places, false)
    }

    /// Restores without poison.
    pub(super) fn restore_plainly(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let places = kept.restoring(&bound.code.targets, super::Restoring::Plain);
        self.place(&places, false)?;
        self.point_to_variables(bound)?;
        self.write_variables(bound, false)
    }

    /// Takes what variables hold now as what is expected of them. Returns whether that is what was recorded.
    pub(super) fn keep_variables(&mut self, bound: &Bound) -> Result<bool, Trouble> {
        let mut as_recorded = true;
        for (region, now) in self.read_small(bound)? {
            let Some(kept) = self.launches.get_mut(&bound.launch()) else {
                continue;
            };
            for variable in kept.variables.iter_mut().filter(|v| v.region == region) {
                let mut recorded = variable.expected.clone();
                let at = variable.range.start();
                bound.code.translation.rewrite(at, &mut recorded);
                if now != recorded {
                    as_recorded = false;
                    variable.expected.clone_from(&now);
                }
            }
        }
        Ok(as_recorded)
    }

    fn same_variables(&mut self, bound: &Bound) -> Result<bool, Trouble> {
        let now = self.read_small(bound)?;
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        Ok(now.iter().all(|(region, now)| {
            let variables = kept.variables.iter().filter(|v| v.region == *region);
            variables.into_iter().all(|variable| {
                let mut expected = variable.expected.clone();
                let at = variable.range.start();
                bound.code.translation.rewrite(at, &mut expected);
                *now == expected
            })
        }))
    }

    /// The small variables as they are now, by region.
    fn read_small(&mut self, bound: &Bound) -> Result<Vec<(usize, Vec<u8>)>, Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let list: Vec<(usize, usize)> = kept
            .variables
            .iter()
            .map(|v| (v.region, v.before.len()))
            .collect();
        let mut found = Vec::new();
        for (region, len) in list {
            let Some(target) = bound.code.targets.get(region).copied().flatten() else {
                continue;
            };
            let mut bytes = vec![0; len];
            self.replayer
                .device()
                .read(target.start(), &mut bytes)
                .map_err(|error| Trouble::of_device(error, false))?;
            found.push((region, bytes));
        }
        Ok(found)
    }

    /// Lays the copies out for chunks that may be written and bytes that are poisoned, and makes the mask. The copies'
    /// content is undefined then.
    pub(super) fn lay_out(
        &mut self,
        id: LaunchId,
        chunks: &Chunks,
        masks: &Masks,
    ) -> Result<(), Trouble> {
        let keys = LaunchKeys {
            before: self.keys.key(),
            expected: self.keys.key(),
            sums: self.keys.key(),
        };
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        let (pieces, bits) = pieces(&kept.record, chunks, masks, &kept.still)?;
        kept.pieces = pieces;
        kept.mask = Rc::new(bits);
        // Other bytes under the same key would tell of both.
        kept.keys = keys;
        kept.inputs.clear();
        std::mem::take(&mut kept.copies).give(&mut self.pool);
        let lengths = lengths(kept);
        let copies = self
            .allocate(lengths)
            .map_err(|trouble| trouble.during("copies of what the launch may write"))?;
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        kept.copies = copies;
        let mask = Rc::clone(&kept.mask);
        if let [_, _, Some(address)] = kept.addresses() {
            self.replayer
                .device()
                .write(address, &mask)
                .map_err(|error| Trouble::of_device(error, false))?;
        }
        Ok(())
    }

    /// Takes the checksums of the copies.
    pub(super) fn sum(&mut self, id: LaunchId) -> Result<(), Trouble> {
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        kept.sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &kept.ranges())
            .map_err(|error| Trouble::of_device(error, false))?;
        // Those of memory are under the same key.
        let ranges: Vec<AddressRange> = kept.untouched.iter().map(|u| u.range).collect();
        let sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &ranges)
            .map_err(|error| Trouble::of_device(error, false))?;
        for (untouched, sum) in kept.untouched.iter_mut().zip(sums) {
            untouched.sum = sum;
        }
        Ok(())
    }

    /// Takes the checksums of what is in no piece.
    pub(super) fn sum_untouched(&mut self, bound: &Bound) -> Result<(), Trouble> {
        let id = bound.launch();
        let (Some(kept), Some(live)) = (self.launches.get_mut(&id), &self.live) else {
            return Err(not_ready(id));
        };
        let mut ranges = Vec::new();
        for (region, target) in live.place.targets.iter().enumerate() {
            let Some(target) = target else { continue };
            let mut start = target.start();
            for piece in kept.pieces.iter().filter(|piece| piece.region == region) {
                let from = target.start() + piece.offset;
                ranges.extend(AddressRange::between(start, from).map(|range| (region, range)));
                start = from + piece.len;
            }
            ranges.extend(AddressRange::between(start, target.end()).map(|r| (region, r)));
        }
        let list: Vec<AddressRange> = ranges.iter().map(|(_, range)| *range).collect();
        let sums = self
            .replayer
            .device()
            .checksums(kept.keys.sums, &list)
            .map_err(|error| Trouble::of_device(error, false))?;
        kept.untouched = ranges
            .into_iter()
            .zip(sums)
            .map(|((region, range), sum)| Untouched { region, range, sum })
            .collect();
        Ok(())
    }

    pub(super) fn change_facts(&mut self, id: LaunchId, change: impl FnOnce(&mut Facts)) {
        if let Some(kept) = self.launches.get_mut(&id) {
            change(Rc::make_mut(&mut kept.facts));
        }
    }

    /// What the launch does with each buffer, and the sums over all.
    fn classify(
        &mut self,
        bound: &Bound,
        masks: &Masks,
        inputs: &profile::Inputs,
    ) -> Result<(), Trouble> {
        let id = bound.launch();
        let changed = profile::changed(self, bound)?;
        let Some(kept) = self.launches.get_mut(&id) else {
            return Err(not_ready(id));
        };
        let bits = |region: usize| {
            masks.get(&region).map_or(0, |mask| {
                mask.iter().map(|byte| u64::from(byte.count_ones())).sum()
            })
        };
        let pieces = kept.pieces.clone();
        let room = kept.bytes();
        // Before the launch, words in what is poisoned point nowhere.
        let masked = |site: &Site| {
            masks.get(&site.region).is_some_and(|mask| {
                (site.offset..site.offset + 8).all(|byte| {
                    let bits = mask.get((byte / 8) as usize).copied().unwrap_or(0);
                    bits >> (byte % 8) & 1 == 1
                })
            })
        };
        kept.sites[0].retain(|site| !masked(site));
        let facts = Rc::make_mut(&mut kept.facts);
        facts.written = masks.keys().map(|region| bits(*region)).sum();
        facts.restored = pieces.iter().map(|piece| piece.len).sum();
        facts.kept = room;
        facts.changed_outside = changed.values().sum();
        for buffer in &mut facts.buffers {
            buffer.written = bits(buffer.region);
            buffer.has_pointers = !inputs.without_pointers.contains(&buffer.region);
            let changes = changed.get(&buffer.region).copied().unwrap_or(0) > 0
                || kept
                    .variables
                    .iter()
                    .any(|v| v.region == buffer.region && v.changes());
            buffer.class = match (buffer.written > 0, changes) {
                (true, _) => BufferClass::Written,
                (false, true) => BufferClass::ReadModifyWrite,
                (false, false) if inputs.read.contains(&buffer.region) => BufferClass::Input,
                (false, false) => BufferClass::Untouched,
            };
        }
        Ok(())
    }
}

/// The regions of a record.
pub(super) fn regions(record: &LaunchRecord) -> Result<Vec<Region<'_>>, Trouble> {
    segments::regions(record).map_err(|error| Trouble::Machine(error.to_string()))
}

/// The chunks in which some byte is poisoned.
fn chunks_of_masks(masks: &Masks) -> Chunks {
    let mut chunks = Chunks::new();
    for (region, mask) in masks {
        let parts = mask.chunks((COMPARE_CHUNK / 8) as usize);
        for (chunk, part) in (0u64..).zip(parts) {
            if part.iter().any(|byte| *byte != 0) {
                chunks.insert((*region, chunk));
            }
        }
    }
    chunks
}

/// What a chunk's mask is like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    None,
    All,
    Some,
}

/// Pieces for chunks, and the bits of those in which only some bytes are poisoned.
fn pieces(
    record: &LaunchRecord,
    chunks: &Chunks,
    masks: &Masks,
    still: &Masks,
) -> Result<(Vec<Piece>, Vec<u8>), Trouble> {
    let regions = regions(record)?;
    let mut pieces: Vec<Piece> = Vec::new();
    let mut bits: Vec<u8> = Vec::new();
    let (mut before, mut expected) = (0u64, 0u64);
    let mut last: Option<(usize, u64, Kind)> = None;
    for (index, chunk) in chunks {
        let Some(region) = regions.iter().find(|region| region.index == *index) else {
            continue;
        };
        let (offset, len) = region.chunk(*chunk);
        let len = u64::from(len);
        if len == 0 {
            continue;
        }
        let part = masks.get(index).and_then(|mask| {
            let from = (offset / 8) as usize;
            mask.get(from..from + len.div_ceil(8) as usize)
        });
        let kind = match part {
            Some(part) if part.iter().all(|byte| *byte == 0) => Kind::None,
            Some(part) if full(part, len) => Kind::All,
            Some(_) => Kind::Some,
            None => Kind::None,
        };
        let goes_on = last == Some((*index, chunk.wrapping_sub(1), kind));
        last = Some((*index, *chunk, kind));
        match pieces.last_mut() {
            Some(piece) if goes_on => {
                piece.len += len;
            }
            _ => {
                expected = expected.next_multiple_of(PIECE_ALIGN);
                before = before.next_multiple_of(PIECE_ALIGN);
                bits.resize(bits.len().next_multiple_of(16), 0);
                pieces.push(Piece {
                    region: *index,
                    offset,
                    len,
                    expected,
                    before: (kind != Kind::All).then_some(before),
                    mask: match kind {
                        Kind::None => Mask::None,
                        Kind::All => Mask::All,
                        Kind::Some => Mask::Bits(bits.len() as u64),
                    },
                    still: None,
                });
            }
        }
        expected += len;
        if kind != Kind::All {
            before += len;
        }
        if let (Kind::Some, Some(part)) = (kind, part) {
            bits.extend_from_slice(part);
        }
    }
    for piece in &mut pieces {
        let from = (piece.offset / 8) as usize;
        let len = piece.len.div_ceil(8) as usize;
        let part = still
            .get(&piece.region)
            .and_then(|still| still.get(from..from + len));
        if let Some(part) = part.filter(|part| part.iter().any(|byte| *byte != 0)) {
            bits.resize(bits.len().next_multiple_of(16), 0);
            piece.still = Some(bits.len() as u64);
            bits.extend_from_slice(part);
        }
    }
    Ok((pieces, bits))
}

/// Whether all of `len` bits are set.
fn full(bits: &[u8], len: u64) -> bool {
    let whole = (len / 8) as usize;
    let rest = (len % 8) as u32;
    let (head, tail) = bits.split_at(whole.min(bits.len()));
    head.iter().all(|byte| *byte == 0xff)
        && (rest == 0
            || tail
                .first()
                .is_some_and(|byte| byte.trailing_ones() >= rest))
}
