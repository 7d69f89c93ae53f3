//! The memory of a launch, before and after it: which chunks must be copied, and which are known.

use std::collections::BTreeSet;

use r3_archive::chunk::{CHUNK_SIZE, ChunkRef};
use r3_archive::model::RegionOwner;

use crate::copy::{Copied, Copier, CopyError, Range};
use crate::driver::DriverError;
use crate::ffi::CUDA_ERROR_INVALID_VALUE;
use crate::fingerprint::{self, Fingerprint, Fingerprinter, Tables, WORTHWHILE};
use crate::finish::{After, Part, PendingRegion};
use crate::reach::Map;

/// Memory to save.
pub struct Target {
    pub owner: RegionOwner,
    pub range: Range,
    /// It is device memory, which a kernel of ours may read. Reading managed memory there would move
    /// it, reading host memory is slow.
    pub on_device: bool,
}

/// A region whose memory before the launch is on its way to the archive.
pub struct Region {
    pub owner: RegionOwner,
    pub range: Range,
    before: Vec<Part>,
    fingerprints: Option<Vec<Fingerprint>>,
}

/// Takes the snapshots of one launch.
pub struct Snapshots<'a> {
    pub copier: Copier<'a>,
    pub map: &'a Map,
    /// `None` where everything is copied.
    pub fingerprinter: Option<(&'a mut Fingerprinter, Tables)>,
}

/// Memory that could not be read, and why.
pub type Unreadable = (RegionOwner, DriverError);

/// Consecutive chunks of a region.
enum Run {
    Zeros(u64),
    Known(Vec<ChunkRef>),
    /// With a fingerprint for each chunk, where those are made.
    Copy {
        range: Range,
        fingerprints: Vec<Option<Fingerprint>>,
    },
}

impl Snapshots<'_> {
    /// Saves memory before the launch. Adds to `found` what its words point to, if `scan`.
    pub fn before(
        &mut self,
        targets: Vec<Target>,
        scan: bool,
        found: &mut BTreeSet<usize>,
    ) -> Result<(Vec<Region>, Vec<Unreadable>), CopyError> {
        let mut prints = Vec::new();
        for target in &targets {
            prints.push(match target.on_device {
                true => self.fingerprints(target.range)?,
                false => None,
            });
        }
        let mut plans: Vec<Vec<Run>> = targets
            .iter()
            .zip(&prints)
            .map(|(target, prints)| match prints {
                Some(prints) => runs(target.range, (0u64..).zip(prints.iter().copied()))
                    .into_iter()
                    .map(|(_, run)| run)
                    .collect(),
                None => vec![Run::Copy {
                    range: target.range,
                    fingerprints: Vec::new(),
                }],
            })
            .collect();
        // Words of fingerprinted regions have been looked at on the device.
        let scanned: Vec<bool> = plans
            .iter()
            .zip(&prints)
            .flat_map(|(plan, prints)| plan.iter().map(move |run| (run, prints.is_none())))
            .filter(|(run, _)| matches!(run, Run::Copy { .. }))
            .map(|(_, plain)| plain && scan)
            .collect();
        let map = self.map;
        let copied = self.copier.copy(&copies(&plans), |index, bytes| {
            if scanned[index] {
                map.scan(bytes, found);
            }
        })?;
        if let Some((fingerprinter, tables)) = &self.fingerprinter
            && scan
        {
            fingerprinter.hits(tables, &self.copier, found)?;
        }
        self.confirm(&mut plans)?;
        for ((target, plan), prints) in targets.iter().zip(&plans).zip(&mut prints) {
            if let Some(prints) = prints {
                forget_unconfirmed(target.range, plan, prints);
            }
        }
        let mut copied = copied.into_iter();
        let (mut regions, mut unreadable) = (Vec::new(), Vec::new());
        for ((target, plan), fingerprints) in targets.into_iter().zip(plans).zip(prints) {
            let Target { owner, range, .. } = target;
            match parts(plan, &mut copied) {
                Ok(before) => regions.push(Region {
                    owner,
                    range,
                    before,
                    fingerprints,
                }),
                Err(error) => unreadable.push((owner, error)),
            }
        }
        Ok((regions, unreadable))
    }

    /// Saves what the launch changed. Memory that was freed meanwhile is left out: the program could
    /// not have given the launch memory that it frees before the launch has ended.
    pub fn after(
        &mut self,
        regions: Vec<Region>,
    ) -> Result<(Vec<PendingRegion>, Vec<Unreadable>), CopyError> {
        // For each region: whether the changes are known chunk by chunk, and what is to be copied.
        let mut plans = Vec::new();
        let mut firsts = Vec::new();
        for region in &regions {
            let now = match &region.fingerprints {
                Some(_) => self.fingerprints(region.range)?,
                None => None,
            };
            match (&region.fingerprints, now) {
                (Some(old), Some(new)) => {
                    let changed = (0u64..)
                        .zip(old.iter().zip(new))
                        .filter(|(_, (old, new))| *old != new);
                    let runs = runs(region.range, changed.map(|(index, (_, new))| (index, new)));
                    let (first, runs): (Vec<u64>, Vec<Run>) = runs.into_iter().unzip();
                    firsts.push(Some(first));
                    plans.push(runs);
                }
                _ => {
                    firsts.push(None);
                    plans.push(vec![Run::Copy {
                        range: region.range,
                        fingerprints: Vec::new(),
                    }]);
                }
            }
        }
        let mut copied = self.copier.copy(&copies(&plans), |_, _| {})?.into_iter();
        self.confirm(&mut plans)?;
        let (mut pending, mut freed) = (Vec::new(), Vec::new());
        for ((region, plan), first) in regions.into_iter().zip(plans).zip(firsts) {
            let parts = match parts(plan, &mut copied) {
                Ok(parts) => parts,
                Err(error) if error.code == CUDA_ERROR_INVALID_VALUE => {
                    freed.push((region.owner, error));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let after = match first {
                Some(first) => After::Changes(first.into_iter().zip(parts).collect()),
                None => After::Whole(
                    parts
                        .into_iter()
                        .flat_map(|part| match part {
                            Part::Copied(tickets, _) => tickets,
                            Part::Zeros(_) | Part::Known(_) => Vec::new(),
                        })
                        .collect(),
                ),
            };
            let Region {
                owner,
                range: Range { address, len },
                before,
                ..
            } = region;
            pending.push(PendingRegion {
                owner,
                address,
                len,
                before,
                after,
            });
        }
        Ok((pending, freed))
    }

    /// Fingerprints of a region, where that pays.
    fn fingerprints(&mut self, range: Range) -> Result<Option<Vec<Fingerprint>>, CopyError> {
        match &mut self.fingerprinter {
            Some((fingerprinter, tables))
                if range.len >= WORTHWHILE && range.address.is_multiple_of(16) =>
            {
                fingerprinter.run(range, tables, &self.copier).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Makes the fingerprints of what was copied once more. Where another stream wrote between the first
    /// time and the copy, the fingerprint does not stand for what was copied.
    fn confirm(&mut self, plans: &mut [Vec<Run>]) -> Result<(), CopyError> {
        let Some((fingerprinter, tables)) = &mut self.fingerprinter else {
            return Ok(());
        };
        for run in plans.iter_mut().flatten() {
            if let Run::Copy {
                range,
                fingerprints,
            } = run
                && !fingerprints.is_empty()
            {
                let now = fingerprinter.run(*range, tables, &self.copier)?;
                for (first, now) in fingerprints.iter_mut().zip(now) {
                    *first = first.filter(|first| *first == now);
                }
            }
        }
        Ok(())
    }
}

/// Marks the chunks of a region whose content was not confirmed: they count as changed later.
fn forget_unconfirmed(region: Range, plan: &[Run], prints: &mut [Fingerprint]) {
    for run in plan {
        if let Run::Copy {
            range,
            fingerprints,
        } = run
        {
            let first = (range.address - region.address) / CHUNK_SIZE as u64;
            for (index, _) in fingerprints.iter().enumerate().filter(|(_, f)| f.is_none()) {
                if let Some(print) = prints.get_mut(first as usize + index) {
                    *print = Fingerprint::UNKNOWN;
                }
            }
        }
    }
}

/// Consecutive chunks of `range` with the same fate, each with the index of its first chunk.
fn runs(range: Range, chunks: impl Iterator<Item = (u64, Fingerprint)>) -> Vec<(u64, Run)> {
    let zeros = Fingerprint::of_zero_chunk();
    let known = fingerprint::known();
    let mut runs: Vec<(u64, Run)> = Vec::new();
    let mut next = u64::MAX;
    for (index, print) in chunks {
        let offset = index * CHUNK_SIZE as u64;
        let len = (range.len - offset).min(CHUNK_SIZE as u64);
        let last = runs
            .last_mut()
            .map(|(_, run)| run)
            .filter(|_| index == next);
        next = index + 1;
        if print == zeros {
            match last {
                Some(Run::Zeros(count)) => *count += 1,
                _ => runs.push((index, Run::Zeros(1))),
            }
            continue;
        }
        match (known.get(&print), last) {
            (Some(chunk), Some(Run::Known(run))) => run.push(*chunk),
            (Some(chunk), _) => runs.push((index, Run::Known(vec![*chunk]))),
            (
                None,
                Some(Run::Copy {
                    range,
                    fingerprints,
                }),
            ) => {
                range.len += len;
                fingerprints.push(Some(print));
            }
            (None, _) => {
                let range = Range {
                    address: range.address + offset,
                    len,
                };
                runs.push((
                    index,
                    Run::Copy {
                        range,
                        fingerprints: vec![Some(print)],
                    },
                ));
            }
        }
    }
    runs
}

/// The ranges that the plans copy, in order.
fn copies(plans: &[Vec<Run>]) -> Vec<Range> {
    plans
        .iter()
        .flatten()
        .filter_map(|run| match run {
            Run::Copy { range, .. } => Some(*range),
            Run::Zeros(_) | Run::Known(_) => None,
        })
        .collect()
}

/// A plan, carried out. Takes as many of `copied` as the plan copies, also when one failed.
fn parts(
    plan: Vec<Run>,
    copied: &mut impl Iterator<Item = Copied>,
) -> Result<Vec<Part>, DriverError> {
    let mut parts = Vec::new();
    let mut failed = None;
    for run in plan {
        match run {
            Run::Zeros(count) => parts.push(Part::Zeros(count)),
            Run::Known(chunks) => parts.push(Part::Known(chunks)),
            Run::Copy { fingerprints, .. } => {
                if let Some(copied) = copied.next() {
                    failed = failed.or(copied.error);
                    parts.push(Part::Copied(copied.tickets, fingerprints));
                }
            }
        }
    }
    failed.map_or(Ok(parts), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_with_known_content_are_not_copied() {
        let zero = Fingerprint::of(&[0; CHUNK_SIZE]);
        let other = Fingerprint::of(&[1; CHUNK_SIZE]);
        let tail = Fingerprint::of(&[1; 100]);
        let range = Range {
            address: 0x1000_0000,
            len: 4 * CHUNK_SIZE as u64 + 100,
        };
        let prints = [other, other, zero, zero, tail];
        let runs = runs(range, (0u64..).zip(prints));
        let seen: Vec<_> = runs
            .iter()
            .map(|(first, run)| match run {
                Run::Zeros(count) => (*first, 0, *count),
                Run::Known(chunks) => (*first, 1, chunks.len() as u64),
                Run::Copy { range, .. } => (*first, range.address, range.len),
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, 0x1000_0000, 2 * CHUNK_SIZE as u64),
                (2, 0, 2),
                (4, 0x1000_0000 + 4 * CHUNK_SIZE as u64, 100),
            ]
        );
    }
}
