//! What a launch writes, found by running its original on poisoned memory.
//!
//! Comparing memory before and after tells which bytes changed, and neither which were written with the value that was
//! there, nor which depend on what was there. So buffers are poisoned, one at a time, with a stream and then with the same
//! stream with all bits turned: what comes out as usual under both was written, and nothing in the buffer decided it. If
//! anything else comes out otherwise, the buffer is an input as well. A second pair of fills, on the bytes alone that
//! changed, finds outputs that share a buffer with inputs.
//!
//! What is found this way is tried as a whole in the end, before anybody is judged by it.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Instant;

use r3_archive::model::LaunchId;

use super::fills::{Scratch, changed_bits, fills};
use super::layout::{Chunks, Masks, regions};
use super::sites::words;
use super::{Bound, Resident, Trouble, not_ready};
use crate::compare::ElementType;
use crate::device::{AddressRange, Place, Stream};
use crate::evaluate::engine::{Lost, Watch};
use crate::replay::InPlace;
use crate::restore::contents;
use crate::restore::plan::merge;
use crate::restore::segments::{Moment, Region, Segment};

/// What was found.
pub(super) struct Found {
    /// Bytes that are written and that nothing in their buffer decides.
    pub masks: Masks,
    /// Bytes that are left alone, of buffers with a tolerance.
    pub still: Masks,
    pub inputs: Inputs,
    pub notes: Vec<String>,
}

/// What is known of buffers beside that.
#[derive(Default)]
pub(super) struct Inputs {
    /// Other results depend on them.
    pub read: BTreeSet<usize>,
    /// They hold no words that point into recorded memory.
    pub without_pointers: BTreeSet<usize>,
}

/// What is told of a run with a poisoned buffer, to a watch and in errors.
pub(super) fn poisoned(name: &str) -> String {
    format!("with {name} poisoned")
}

/// The launch and the buffer that were poisoned, from what a watch was told.
pub fn poisoned_buffer(what: &str) -> Option<(LaunchId, String)> {
    let (launch, rest) = what
        .strip_prefix("launch ")?
        .split_once(", the original with ")?;
    let name = rest.strip_suffix(" poisoned")?;
    Some((LaunchId(launch.parse().ok()?), name.to_owned()))
}

/// A buffer that is poisoned.
pub(super) struct Target {
    pub region: usize,
    pub name: String,
    pub range: AddressRange,
    /// Bytes of an element; when that is not known, of the largest ones there are.
    element_size: usize,
    /// Whether its elements may be off.
    tolerant: bool,
}

/// Finds out what a launch writes. Its copies are laid out for `chunks`, without masks, and filled.
pub(super) fn written(
    resident: &mut Resident<'_>,
    bound: &Bound,
    everywhere: &InPlace,
    chunks: &Chunks,
    watch: &dyn Watch,
) -> Result<Found, Trouble> {
    let begun = Instant::now();
    let id = bound.launch();
    resident.restore_plainly(bound)?;
    resident.sum_untouched(bound)?;
    resident.sum(id)?;
    let mut found = Found {
        masks: Masks::new(),
        still: Masks::new(),
        inputs: Inputs::default(),
        notes: Vec::new(),
    };
    let targets = targets(resident, bound, chunks, &mut found)?;
    let mut out_of_time = Vec::new();
    for target in targets {
        if begun.elapsed() > resident.options.profile_time {
            out_of_time.push(target.name);
            continue;
        }
        let tried = poison_one(resident, bound, everywhere, &target, watch, &mut found);
        let mask = tried.map_err(|trouble| match trouble {
            Trouble::Lost(lost) => {
                resident.remember_fault(bound, &target.name);
                Trouble::Lost(Lost {
                    poisoned: Some((id, target.name.clone())),
                    ..lost
                })
            }
            other => other,
        })?;
        if mask.iter().any(|byte| *byte != 0) {
            found.masks.insert(target.region, mask);
        }
    }
    if !out_of_time.is_empty() {
        found.notes.push(format!(
            "{} not poisoned: profiling took too long",
            out_of_time.join(", ")
        ));
    }
    Ok(found)
}

/// The buffers to poison, those that change first.
fn targets(
    resident: &Resident<'_>,
    bound: &Bound,
    chunks: &Chunks,
    found: &mut Found,
) -> Result<Vec<Target>, Trouble> {
    let id = bound.launch();
    let out = resident.left_out(bound);
    let (Some(kept), Some(live)) = (resident.launches.get(&id), &resident.live) else {
        return Err(not_ready(id));
    };
    let record = Rc::clone(&kept.record);
    let regions = regions(&record)?;
    let recorded = merge(regions.iter().map(|region| region.range).collect());
    let source = contents::Source {
        archive: resident.archive(),
        translation: &live.place.moved,
    };
    let changes = |region: &Region<'_>| {
        chunks
            .range((region.index, 0)..(region.index + 1, 0))
            .count()
    };
    let mut order: Vec<&Region<'_>> = regions
        .iter()
        .filter(|region| {
            live.place
                .targets
                .get(region.index)
                .copied()
                .flatten()
                .is_some()
        })
        .collect();
    order.sort_by_key(|region| (std::cmp::Reverse(changes(region)), region.index));
    let mut targets = Vec::new();
    let mut too_many = Vec::new();
    for region in order {
        let Some(facts) = kept.facts.buffers.iter().find(|b| b.region == region.index) else {
            continue;
        };
        let name = facts.name.shown().to_owned();
        // Indices lead out of memory when they are poisoned, and what nothing changes is no output most of the time.
        let index = !facts.element.is_float() && facts.element != ElementType::Bits;
        if targets.len() >= resident.options.most_poisoned {
            if changes(region) > 0 {
                too_many.push(name);
            }
            continue;
        }
        if points(source, region, &recorded)? {
            if changes(region) > 0 {
                found.notes.push(format!(
                    "{name} is not poisoned: it holds words that point into recorded memory. What a candidate leaves out \
                     there shows only where memory changes"
                ));
            }
            continue;
        }
        found.inputs.without_pointers.insert(region.index);
        if changes(region) == 0 && index {
            continue;
        }
        if facts.name.all().any(|name| out.contains(name)) {
            found.inputs.read.insert(region.index);
            found.notes.push(format!(
                "{name} is not poisoned: the original stops when it is"
            ));
            continue;
        }
        if let Some(range) = live.place.targets.get(region.index).copied().flatten() {
            targets.push(Target {
                region: region.index,
                name,
                range,
                element_size: match facts.element {
                    ElementType::Bits => 8,
                    element => element.size(),
                },
                tolerant: !facts.tolerance.is_exact(),
            });
        }
    }
    if !too_many.is_empty() {
        found.notes.push(format!(
            "{} not poisoned: {} buffers of a launch are, at most",
            too_many.join(", "),
            resident.options.most_poisoned,
        ));
    }
    Ok(targets)
}

/// Whether a region holds, before the launch, a word that points into recorded memory, elsewhere or in itself.
fn points(
    source: contents::Source<'_>,
    region: &Region<'_>,
    recorded: &[AddressRange],
) -> Result<bool, Trouble> {
    let into = |word: u64| {
        let after = recorded.partition_point(|range| range.start() <= word);
        let range = after.checked_sub(1).and_then(|at| recorded.get(at));
        range.is_some_and(|range| range.contains(word))
    };
    let mut bytes = Vec::new();
    for segment in region.segments(Moment::Before) {
        let Segment::Stored { chunk, id } = segment else {
            continue;
        };
        let (offset, len) = region.chunk(chunk);
        bytes.clear();
        bytes.resize(len as usize, 0);
        source
            .archive
            .read_chunk(r3_archive::chunk::ChunkRef::Data(id), &mut bytes)
            .map_err(|error| Trouble::Machine(error.to_string()))?;
        if words(region.range.start() + offset, &bytes).any(|(_, word)| into(word)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Bits of the bytes of a buffer that are written and that nothing in it decides.
fn poison_one(
    resident: &mut Resident<'_>,
    bound: &Bound,
    everywhere: &InPlace,
    target: &Target,
    watch: &dyn Watch,
    found: &mut Found,
) -> Result<Vec<u8>, Trouble> {
    let len = target.range.len();
    let scratch = Scratch {
        // Without room for it, only what changes is poisoned.
        copy: resident.take(len).ok(),
        key: resident.keys.key(),
        mask: resident.take(len.div_ceil(8))?,
        still: resident.take(len.div_ceil(8))?,
    };
    let result = poison_with(resident, bound, everywhere, target, &scratch, watch, found);
    resident.pool.give(scratch.mask);
    resident.pool.give(scratch.still);
    if let Some(copy) = scratch.copy {
        resident.pool.give(copy);
    }
    result
}

fn poison_with(
    resident: &mut Resident<'_>,
    bound: &Bound,
    everywhere: &InPlace,
    target: &Target,
    scratch: &Scratch,
    watch: &dyn Watch,
    found: &mut Found,
) -> Result<Vec<u8>, Trouble> {
    let len = target.range.len();
    let mut mask = vec![0u8; len.div_ceil(8) as usize];
    let mut still = Vec::new();
    let fill = |resident: &mut Resident<'_>, bits: Option<&[u8]>| {
        fills(resident, bound, everywhere, target, scratch, bits, watch)
    };
    if let Some(copy) = &scratch.copy {
        let seal = Place::seal(
            target.range.start(),
            copy.address(),
            len,
            Stream::new(scratch.key),
        );
        resident.place(&[seal], false)?;
        let run = fill(resident, None)?;
        if run.as_ref().is_none_or(|run| !run.others_right) {
            found.inputs.read.insert(target.region);
        }
        if let Some(run) = run {
            if run.others_right {
                mask = run.equal;
            }
            still = run.still;
        }
        if any(&mask) {
            // Bytes that depend on what was there come out the same by chance; not four times.
            match fill(resident, None)? {
                Some(run) => mask.iter_mut().zip(run.equal).for_each(|(m, e)| *m &= e),
                None => mask.fill(0),
            }
        }
    }
    let changed = changed_bits(resident, bound, target, scratch)?;
    let missed: Vec<u8> = changed.iter().zip(&mask).map(|(c, m)| c & !m).collect();
    let mut more = missed.clone();
    for _ in 0..2 {
        if any(&more) {
            match fill(resident, Some(&missed))? {
                Some(run) if run.others_right => {
                    more.iter_mut().zip(run.equal).for_each(|(m, e)| *m &= e);
                }
                Some(_) | None => more.fill(0),
            }
        }
    }
    mask.iter_mut()
        .zip(more)
        .for_each(|(mask, more)| *mask |= more);
    whole_elements(&mut mask, &changed, target.element_size);
    if target.tolerant && any(&still) {
        for ((still, changed), mask) in still.iter_mut().zip(&changed).zip(&mask) {
            *still &= !changed & !mask;
        }
        // An element of which only a part is left alone is within its tolerance as a whole.
        let others: Vec<u8> = still.iter().map(|byte| !byte).collect();
        whole_elements(&mut still, &others, target.element_size);
        found.still.insert(target.region, still);
    }
    Ok(mask)
}

fn any(bits: &[u8]) -> bool {
    bits.iter().any(|byte| *byte != 0)
}

/// Takes elements out of a mask of which some other byte changes without being in it: they depend on what was there,
/// and what of them is in the mask does so as well, only seldom.
fn whole_elements(mask: &mut [u8], changed: &[u8], size: usize) {
    let element = match size {
        1 => return,
        2 => 0b11u8,
        4 => 0b1111,
        _ => 0b1111_1111,
    };
    for (mask, changed) in mask.iter_mut().zip(changed) {
        for at in (0..8).step_by(size.min(8)) {
            let bits = element << at;
            if changed & !*mask & bits != 0 {
                *mask &= !bits;
            }
        }
    }
}
