//! Making a launch ready: the original runs, and what it writes, leaves and needs is found out.

use std::rc::Rc;

use r3_archive::model::{LaunchId, RegionOwner};

use super::fills;
use super::kept::{BufferClass, BufferFacts, Copies, Expected, Facts, Kept, LaunchKeys};
use super::layout::{Chunks, Masks, regions};
use super::live::Live;
use super::profile;
use super::sites::{self, Site};
use super::trials::HOUSEKEEPING;
use super::variables::{CONSTANT_MEMORY, Variable};
use super::{Bound, Resident, Trouble, not_ready};
use crate::compare::{Allowance, buffer_names};
use crate::device::COMPARE_CHUNK;
use crate::evaluate::engine::Watch;
use crate::replay::{InPlace, Shape, rule_of_region};
use crate::restore::contents::Source;
use crate::restore::segments::{Moment, Region};

/// How many times as many runs show how far an original varies, where it was not right by what the first ones showed.
const MORE_RUNS: u32 = 4;

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
        watch.within(HOUSEKEEPING, "memory is put in place");
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
        let Some(kept) = self.launches.get(&id) else {
            return Err(not_ready(id));
        };
        let before = (Rc::clone(&kept.facts), kept.variables.clone());
        let runs = self.options.spread_runs.max(2);
        let told = self.find_out(bound, place, &everywhere, runs, watch);
        let varies = |kept: &Kept| !kept.facts.deterministic;
        let does_not_hold = matches!(&told, Ok(Some(_)) | Err(Trouble::Machine(_)));
        if !does_not_hold || !self.launches.get(&id).is_some_and(varies) {
            return told;
        }
        // A few runs may have shown less than what the original varies at times: atomics come in almost the same order for long.
        self.begin_anew(bound, &everywhere, before)?;
        let more = runs.saturating_mul(MORE_RUNS);
        self.find_out(bound, place, &everywhere, more, watch)
    }

    /// Finds out what can be found out about a launch only by running it; where it varies, by so many runs.
    fn find_out(
        &mut self,
        bound: &Bound,
        place: &InPlace,
        everywhere: &InPlace,
        runs: u32,
        watch: &dyn Watch,
    ) -> Result<Option<String>, Trouble> {
        let id = bound.launch();
        let (chunks, deterministic) = self.first_runs(bound, everywhere, watch)?;
        self.change_facts(id, |facts| facts.deterministic = deterministic);
        if !deterministic
            && let Some(why) = self.spread(bound, (place, everywhere), &chunks, runs, watch)?
        {
            return Ok(Some(why));
        }
        let found = profile::written(self, bound, everywhere, &chunks, watch)?;
        if let Some(kept) = self.launches.get_mut(&id) {
            kept.still = Rc::new(found.still);
        }
        let mut all = chunks.clone();
        all.extend(chunks_of_masks(&found.masks));
        let kept_masks = self.confirm(bound, everywhere, &all, found.masks, watch)?;
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
        let before = (Rc::clone(&kept.facts), kept.variables.clone());
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
        if self.stands(bound, everywhere, &chunks, &masks, watch)? {
            self.classify(bound, &masks, &entry.inputs())?;
            if self.controls(bound, watch)?.is_none() {
                self.restore_plainly(bound)?;
                return Ok(Some(None));
            }
        }
        // It was another device, after all, or something else that is not in the entry's identity.
        self.begin_anew(bound, everywhere, before)?;
        Ok(None)
    }

    /// Nothing that was found out about a launch counts: its facts and variables are those of before.
    fn begin_anew(
        &mut self,
        bound: &Bound,
        everywhere: &InPlace,
        (facts, variables): (Rc<Facts>, Vec<Variable>),
    ) -> Result<(), Trouble> {
        if let Some(kept) = self.launches.get_mut(&bound.launch()) {
            kept.facts = facts;
            kept.variables = variables;
            kept.still = Rc::default();
            kept.untouched.clear();
        }
        self.recover(bound, everywhere)
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
                read: false,
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
        let changed = fills::changed(self, bound)?;
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
            buffer.read = inputs.read.contains(&buffer.region);
            buffer.has_pointers = !inputs.without_pointers.contains(&buffer.region);
            let changes = changed.get(&buffer.region).copied().unwrap_or(0) > 0
                || kept
                    .variables
                    .iter()
                    .any(|v| v.region == buffer.region && v.changes());
            buffer.class = match (buffer.written > 0, changes) {
                (true, _) => BufferClass::Written,
                (false, true) => BufferClass::ReadModifyWrite,
                (false, false) if buffer.read => BufferClass::Input,
                (false, false) => BufferClass::Untouched,
            };
        }
        Ok(())
    }
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
