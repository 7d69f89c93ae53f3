//! Runs of the original with one buffer poisoned, and what came out of them as usual.

use std::collections::BTreeMap;

use r3_archive::model::LaunchId;

use super::judgement::{Judgement, piece_jobs};
use super::kept::{Kept, Mask, Piece};
use super::profile::{Target, poisoned};
use super::{Bound, Resident, Trouble, not_ready, variables};
use crate::device::pool::Buffer;
use crate::device::{
    AddressRange, COMPARE_CHUNK, Judged, MarkJob, MaskChange, MaskJob, Place, Source, Stream,
};
use crate::evaluate::engine::Watch;
use crate::replay::InPlace;

/// Pieces begin with a whole byte of a mask, and with 16 bytes of one.
const _: () = assert!(COMPARE_CHUNK.is_multiple_of(8 * 16));

/// Memory for one buffer's masks and copy, given back in the end.
pub(super) struct Scratch {
    /// The buffer as it is before the launch, sealed.
    pub copy: Option<Buffer>,
    pub key: u64,
    pub mask: Buffer,
    /// Bits of bytes that are still poison.
    pub still: Buffer,
}

/// What two runs showed.
pub(super) struct Fills {
    /// Bits of the bytes that came out as usual in both.
    pub equal: Vec<u8>,
    /// Bits of the bytes that were still poison after both, when all was poisoned.
    pub still: Vec<u8>,
    /// Whether everything outside the buffer came out as usual in both.
    pub others_right: bool,
}

/// Runs the original with a buffer poisoned, by a stream and by its opposite: all of it, or the bytes whose bit is set.
/// `None` when the original stops. Memory is as before the launch then.
pub(super) fn fills(
    resident: &mut Resident<'_>,
    bound: &Bound,
    everywhere: &InPlace,
    target: &Target,
    scratch: &Scratch,
    bits: Option<&[u8]>,
    watch: &dyn Watch,
) -> Result<Option<Fills>, Trouble> {
    let id = bound.launch();
    let len = target.range.len();
    let poison = match bits {
        None => None,
        Some(bits) => {
            let buffer = resident.take(bits.len() as u64)?;
            let written = resident.replayer.device().write(buffer.address(), bits);
            if let Err(error) = written {
                resident.pool.give(buffer);
                return Err(Trouble::of_device(error, false));
            }
            Some(buffer)
        }
    };
    let stream = Stream::new(resident.keys.key());
    let mut result = Some(Fills {
        equal: Vec::new(),
        still: Vec::new(),
        others_right: true,
    });
    let streams = [
        (stream, MaskChange::Set),
        (stream.inverted(), MaskChange::And),
    ];
    let ran = streams.into_iter().try_for_each(|(stream, change)| {
        let to = target.range.start();
        let place = match &poison {
            None => Place::fill(to, len, stream),
            Some(bits) => Place::poison(to, len, bits.address(), stream),
        };
        resident.place(&[place], false)?;
        match resident.original(bound, &poisoned(&target.name), watch) {
            Ok(()) => {}
            Err(Trouble::Fault(_) | Trouble::Timeout(_) | Trouble::CannotRun(_)) => {
                result = None;
                return resident.recover(bound, everywhere);
            }
            Err(trouble) => return Err(trouble),
        }
        if result.is_none() {
            return Ok(());
        }
        let mut marks = marks(resident, id, target, scratch, change)?;
        if bits.is_none() {
            marks.push(MarkJob {
                a: Source::memory(to),
                b: Source::stream(stream),
                len,
                mask: scratch.still.address(),
                change,
            });
        }
        resident
            .replayer
            .device()
            .mark_equal(&marks)
            .map_err(|error| Trouble::of_device(error, false))?;
        let others = others_right(resident, bound, target.region)?;
        if let Some(result) = &mut result {
            result.others_right &= others == Others::Right;
        }
        restore(resident, bound, everywhere, target, scratch, others)
    });
    if let Some(buffer) = poison {
        resident.pool.give(buffer);
    }
    ran?;
    if let Some(result) = &mut result {
        result.equal = read_mask(resident, &scratch.mask, len)?;
        if bits.is_none() {
            result.still = read_mask(resident, &scratch.still, len)?;
        }
    }
    Ok(result)
}

pub(super) fn read_mask(
    resident: &mut Resident<'_>,
    mask: &Buffer,
    len: u64,
) -> Result<Vec<u8>, Trouble> {
    let mut bits = vec![0; len.div_ceil(8) as usize];
    resident
        .replayer
        .device()
        .read(mask.address(), &mut bits)
        .map_err(|error| Trouble::of_device(error, false))?;
    Ok(bits)
}

/// Marks the bytes of a buffer that are as they should be after the launch. Where the launch may not write, that is what
/// was there before it; without a copy of that, such bytes are not marked.
pub(super) fn marks(
    resident: &mut Resident<'_>,
    id: LaunchId,
    target: &Target,
    scratch: &Scratch,
    change: MaskChange,
) -> Result<Vec<MarkJob>, Trouble> {
    let Some(kept) = resident.launches.get(&id) else {
        return Err(not_ready(id));
    };
    let start = target.range.start();
    let job = |offset: u64, expected: Source, len: u64| MarkJob {
        a: Source::memory(start + offset),
        b: expected,
        len,
        mask: scratch.mask.address() + offset / 8,
        change,
    };
    let mut jobs = Vec::new();
    let mut next = 0;
    let gap = |from: u64, to: u64, jobs: &mut Vec<MarkJob>| {
        if let Some(copy) = &scratch.copy
            && from < to
        {
            let before =
                Source::sealed(copy.address() + from, Stream::new(scratch.key).after(from));
            jobs.push(job(from, before, to - from));
        }
    };
    for piece in kept.pieces.iter().filter(|p| p.region == target.region) {
        gap(next, piece.offset, &mut jobs);
        if let Some(expected) = kept.expected_source(piece) {
            jobs.push(job(piece.offset, expected, piece.len));
        }
        next = piece.offset + piece.len;
    }
    gap(next, target.range.len(), &mut jobs);
    if scratch.copy.is_none() && change == MaskChange::Set {
        // What is not marked counts as not equal.
        let device = resident.replayer.device();
        if let Some(mask) = AddressRange::new(scratch.mask.address(), scratch.mask.len()) {
            device
                .zero(mask)
                .map_err(|error| Trouble::of_device(error, false))?;
        }
    }
    Ok(jobs)
}

/// How everything outside a buffer came out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Right,
    /// Something that each restoring restores is not as it should be.
    Wrong,
    /// Something that the launch leaves alone otherwise was changed.
    Strayed,
}

pub(super) fn others_right(
    resident: &mut Resident<'_>,
    bound: &Bound,
    region: usize,
) -> Result<Others, Trouble> {
    let id = bound.launch();
    let trouble = |error| Trouble::of_device(error, false);
    let Some(kept) = resident.launches.get(&id) else {
        return Err(not_ready(id));
    };
    let outside = |index: &usize| {
        kept.pieces
            .get(*index)
            .is_some_and(|piece| piece.region != region)
    };
    let jobs: Vec<_> = piece_jobs(kept, bound, false)
        .into_iter()
        .filter(|(index, _)| outside(index))
        .map(|(_, job)| job)
        .collect();
    let untouched: Vec<_> = kept
        .untouched
        .iter()
        .filter(|untouched| untouched.region != region)
        .copied()
        .collect();
    let ranges: Vec<AddressRange> = untouched.iter().map(|u| u.range).collect();
    let list = kept.variables.clone();
    let key = kept.keys.sums;
    let device = resident.replayer.device();
    let sums = device.checksums(key, &ranges).map_err(trouble)?;
    let found = device.judge(&jobs).map_err(trouble)?;
    if untouched.iter().zip(&sums).any(|(u, sum)| u.sum != *sum) {
        return Ok(Others::Strayed);
    }
    let mut judgement = Judgement::default();
    variables::judge(&mut resident.replayer, bound, &list, &mut judgement)?;
    if judgement.strays.is_some() {
        // They are all written again.
        resident.distrusted += 1;
    }
    let right = found.iter().all(Judged::passes) && judgement.out == 0;
    Ok(match right {
        true => Others::Right,
        false => Others::Wrong,
    })
}

/// Puts everything back after a run with a poisoned buffer.
pub(super) fn restore(
    resident: &mut Resident<'_>,
    bound: &Bound,
    everywhere: &InPlace,
    target: &Target,
    scratch: &Scratch,
    others: Others,
) -> Result<(), Trouble> {
    match (&scratch.copy, others) {
        (Some(copy), Others::Right | Others::Wrong) => {
            let place = Place::seal(
                copy.address(),
                target.range.start(),
                target.range.len(),
                Stream::new(scratch.key),
            );
            resident.place(&[place], false)?;
            resident.restore_plainly(bound)
        }
        _ => resident.recover(bound, everywhere),
    }
}

/// Bits of the bytes of a buffer that the launch changes.
pub(super) fn changed_bits(
    resident: &mut Resident<'_>,
    bound: &Bound,
    target: &Target,
    scratch: &Scratch,
) -> Result<Vec<u8>, Trouble> {
    let id = bound.launch();
    let Some(kept) = resident.launches.get(&id) else {
        return Err(not_ready(id));
    };
    let pieces: Vec<_> = kept
        .pieces
        .iter()
        .filter(|piece| piece.region == target.region)
        .copied()
        .collect();
    let jobs: Vec<MarkJob> = pieces
        .iter()
        .filter_map(|piece| {
            Some(MarkJob {
                a: before_source(kept, piece)?,
                b: kept.expected_source(piece)?,
                len: piece.len,
                mask: scratch.mask.address() + piece.offset / 8,
                change: MaskChange::Set,
            })
        })
        .collect();
    resident
        .replayer
        .device()
        .mark_equal(&jobs)
        .map_err(|error| Trouble::of_device(error, false))?;
    let len = target.range.len();
    let equal = read_mask(resident, &scratch.mask, len)?;
    let mut changed = vec![0u8; equal.len()];
    for piece in &pieces {
        let from = (piece.offset / 8) as usize;
        let to = (piece.offset + piece.len).div_ceil(8) as usize;
        let part = changed.get_mut(from..to).into_iter().flatten();
        for (changed, equal) in part.zip(equal.get(from..to).into_iter().flatten()) {
            *changed = !equal;
        }
    }
    // Bits behind the end stand for nothing.
    if let (Some(last), rest @ 1..) = (changed.last_mut(), len % 8) {
        *last &= (1u8 << rest) - 1;
    }
    Ok(changed)
}

pub(super) fn before_source(kept: &Kept, piece: &Piece) -> Option<Source> {
    let [before, _, _] = kept.addresses();
    let at = piece.before?;
    Some(Source::sealed(before? + at, kept.keys.before(at)))
}

/// How many bytes of each region the launch changes that are not poisoned.
pub(super) fn changed(
    resident: &mut Resident<'_>,
    bound: &Bound,
) -> Result<BTreeMap<usize, u64>, Trouble> {
    let id = bound.launch();
    let trouble = |error| Trouble::of_device(error, false);
    let Some(kept) = resident.launches.get(&id) else {
        return Err(not_ready(id));
    };
    let pieces: Vec<_> = kept
        .pieces
        .iter()
        .filter(|piece| piece.before.is_some())
        .copied()
        .collect();
    let room: u64 = pieces
        .iter()
        .map(|piece| piece.len.div_ceil(8).next_multiple_of(16))
        .sum();
    let mut changed = BTreeMap::new();
    if room == 0 {
        return Ok(changed);
    }
    let buffer = resident.take(room)?;
    let Some(kept) = resident.launches.get(&id) else {
        return Err(not_ready(id));
    };
    let [_, _, mask] = kept.addresses();
    let (mut marks, mut masks, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = buffer.address();
    for piece in &pieces {
        let bytes = piece.len.div_ceil(8);
        if let (Some(a), Some(b)) = (before_source(kept, piece), kept.expected_source(piece)) {
            marks.push(MarkJob {
                a,
                b,
                len: piece.len,
                mask: at,
                change: MaskChange::Set,
            });
        }
        if let (Mask::Bits(bits), Some(mask)) = (piece.mask, mask) {
            masks.push(MaskJob {
                mask: at,
                bits: mask + bits,
                bytes,
                change: MaskChange::Or,
            });
        }
        ranges.extend(AddressRange::new(at, bytes));
        at += bytes.next_multiple_of(16);
    }
    let device = resident.replayer.device();
    let counted = device
        .mark_equal(&marks)
        .and_then(|()| device.change_masks(&masks))
        .and_then(|()| device.count_bits(&ranges))
        .map_err(trouble);
    resident.pool.give(buffer);
    for (piece, same) in pieces.iter().zip(counted?) {
        *changed.entry(piece.region).or_default() += piece.len.saturating_sub(same);
    }
    Ok(changed)
}
