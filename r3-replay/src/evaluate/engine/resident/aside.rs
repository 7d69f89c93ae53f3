//! A launch's own copies, put aside while it has other inputs, so that the recorded ones come back without the archive.
//!
//! Other inputs need copies of their own: what is there before the launch with them, and what the original leaves. Where there is
//! room, these get memory and keys of their own, and what was in place of the edits is kept, sealed. Coming back is then a
//! copy on the device. Everything is verified by the checksums of before: what is not as it was is made from the archive.

use r3_archive::model::LaunchId;

use super::alter::Edit;
use super::budget::lengths;
use super::kept::{Copies, Input, LaunchKeys};
use super::{Resident, Trouble, not_ready};
use crate::device::pool::Buffer;
use crate::device::{AddressRange, Place, Stream};

/// What a launch had before it got other inputs.
#[derive(Debug)]
pub(super) struct Aside {
    copies: Copies,
    inputs: Vec<Input>,
    keys: LaunchKeys,
    sums: Vec<u64>,
    /// What was where edits are, sealed.
    replaced: Option<Buffer>,
    replaced_key: u64,
    /// Where that was, and how long.
    places: Vec<(u64, u64)>,
}

impl Aside {
    /// Gives its memory back.
    pub fn give(self, pool: &mut crate::device::pool::Pool) {
        self.copies.give(pool);
        if let Some(buffer) = self.replaced {
            pool.give(buffer);
        }
    }

    /// Where its copies are.
    #[cfg(test)]
    pub fn addresses(&self) -> Vec<u64> {
        let parts = self.copies.parts().chain(&self.replaced);
        parts.map(Buffer::address).collect()
    }

    /// What puts the replaced bytes back, or keeps them.
    fn moves(&self, keep: bool) -> Vec<Place> {
        let Some(buffer) = &self.replaced else {
            return Vec::new();
        };
        let mut at = 0;
        let moves = self.places.iter().map(|(address, len)| {
            let (copy, stream) = (buffer.address() + at, Stream::new(self.replaced_key));
            let (from, to) = if keep {
                (*address, copy)
            } else {
                (copy, *address)
            };
            let place = Place::seal(from, to, *len, stream.after(at));
            at = room(at + len);
            place
        });
        moves.collect()
    }
}

/// Where the next stretch begins in the copy of what is replaced.
fn room(end: u64) -> u64 {
    end.next_multiple_of(256)
}

impl Resident<'_> {
    /// Puts the copies of a launch aside, whose memory is in place as it was before it. Without room for others they stay, and
    /// are overwritten.
    pub(super) fn put_aside(&mut self, launch: LaunchId, edits: &[Edit]) -> Result<(), Trouble> {
        let (Some(kept), Some(live)) = (self.launches.get(&launch), &self.live) else {
            return Err(not_ready(launch));
        };
        let mut places = Vec::new();
        let mut replaced = 0;
        for edit in edits {
            let target = live.place.targets.get(edit.region).copied().flatten();
            let len = edit.bytes.len() as u64;
            let end = edit.offset.checked_add(len);
            let inside = target.filter(|target| end.is_some_and(|end| end <= target.len()));
            // Whoever writes it says what is wrong with it.
            let Some(target) = inside else { return Ok(()) };
            places.push((target.start() + edit.offset, len));
            replaced = room(replaced + len);
        }
        let [before, expected, ..] = lengths(kept);
        let wanted = [before, expected, replaced];
        let Some([before, expected, replaced]) = self.spare(wanted) else {
            return Ok(());
        };
        let keys = LaunchKeys {
            before: self.keys.key(),
            expected: self.keys.key(),
            sums: self.keys.key(),
        };
        let replaced_key = self.keys.key();
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        let copies = Copies {
            before,
            expected,
            // Nothing is in it that depends on inputs.
            mask: kept.copies.mask.take(),
            inputs: None,
        };
        let aside = Aside {
            copies: std::mem::replace(&mut kept.copies, copies),
            inputs: std::mem::take(&mut kept.inputs),
            keys: std::mem::replace(&mut kept.keys, keys),
            sums: kept.sums.clone(),
            replaced,
            replaced_key,
            places,
        };
        let moves = aside.moves(true);
        match &mut kept.altered {
            Some(altered) => altered.aside = Some(aside),
            None => return Err(not_ready(launch)),
        }
        self.place(&moves, false)
    }

    /// Buffers of some lengths, when there is room for all of them; none for a length of 0.
    fn spare(&mut self, lengths: [u64; 3]) -> Option<[Option<Buffer>; 3]> {
        let all: u64 = lengths.iter().sum();
        let room = match self.options.memory_budget {
            Some(budget) => budget.saturating_sub(self.pool.in_use()),
            // The other half is for what comes later.
            None => {
                let free = self.replayer.device().free_memory().unwrap_or(0) / 2;
                free.saturating_add(self.pool.kept())
            }
        };
        if all > room {
            return None;
        }
        let mut found = [None, None, None];
        let mut failed = false;
        for (slot, len) in found.iter_mut().zip(lengths) {
            if len > 0 && !failed {
                *slot = self.pool.take(self.replayer.device(), len).ok();
                failed = slot.is_none();
            }
        }
        if failed {
            for buffer in found.into_iter().flatten() {
                self.pool.give(buffer);
            }
            return None;
        }
        // Buffers of other lengths that are only kept must not take what code needs, or what the budget allows.
        let idle = self.pool.kept();
        let is_much = match self.options.memory_budget {
            Some(budget) => idle > budget.saturating_sub(self.pool.in_use()),
            None => idle > self.replayer.device().free_memory().unwrap_or(0),
        };
        if is_much {
            // What cannot be freed is said by whoever uses the device next.
            let _ = self.pool.trim(self.replayer.device());
        }
        Some(found)
    }

    /// Gives a launch its copies back, and what edits replaced. Returns what of it a candidate changed, for people; it is made from
    /// the archive then.
    pub(super) fn take_back(
        &mut self,
        launch: LaunchId,
        aside: Aside,
    ) -> Result<Option<&'static str>, Trouble> {
        let Some(kept) = self.launches.get_mut(&launch) else {
            return Err(not_ready(launch));
        };
        // In place, and nothing wrong with it: else it is put back from the archive, and the copies are looked at then.
        let live = self.live.as_ref();
        let in_place = live.is_some_and(|live| live.launch == launch && live.clean);
        let whole = in_place && !kept.damaged && kept.is_here();
        let moves = aside.moves(false);
        let Aside {
            copies,
            inputs,
            keys,
            sums,
            replaced,
            ..
        } = aside;
        let mut others = std::mem::replace(&mut kept.copies, copies);
        kept.copies.mask = others.mask.take();
        kept.inputs = inputs;
        kept.keys = keys;
        kept.sums = sums;
        let lost = kept.copies.mask.is_none() && !kept.mask.is_empty();
        kept.damaged = kept.spilled.take().is_some() || lost;
        let ranges: Vec<AddressRange> = match whole {
            true => {
                let untouched = kept.untouched.iter().map(|untouched| untouched.range);
                untouched.chain(kept.ranges()).collect()
            }
            false => Vec::new(),
        };
        let key = kept.keys.sums;
        let mut found = Ok(Vec::new());
        if whole {
            let device = self.replayer.device();
            found = device
                .place(&moves)
                .and_then(|()| device.checksums(key, &ranges))
                .map_err(|error| Trouble::of_device(error, true));
        }
        others.give(&mut self.pool);
        if let Some(buffer) = replaced {
            self.pool.give(buffer);
        }
        let found = match found {
            Ok(found) => found,
            Err(trouble) => {
                // Edits may still be in place, and the copies were not looked at.
                if let Some(kept) = self.launches.get_mut(&launch) {
                    kept.damaged = true;
                }
                self.distrust();
                return Err(trouble);
            }
        };
        if !whole {
            if self.live.as_ref().is_some_and(|live| live.launch == launch) {
                self.distrust();
            }
            return Ok(None);
        }
        self.judge_sums(launch, &found)
    }
}
