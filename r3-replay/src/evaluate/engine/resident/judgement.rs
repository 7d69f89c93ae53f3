//! Whether everything is as it should be after a run: every recorded byte, and every byte that guards one.

use super::kept::{Kept, Piece};
use super::live::Live;
use super::{Bound, Resident, Trouble, guard, not_in_place, not_ready, variables};
use crate::compare::Tally;
use crate::device::{AddressRange, JudgeJob, Judged, MarkJob, MaskChange, Place, Source};
use crate::evaluate::outcome::Worst;

/// What a run left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// Elements that are out of tolerance.
    pub out: u64,
    /// Elements that differ within the tolerance.
    pub within: u64,
    /// Bytes that differ.
    pub bytes: u64,
    /// Largest absolute error, when there is a finite one.
    pub largest_absolute: Option<f64>,
    /// Largest relative error.
    pub largest_relative: Option<f64>,
    /// Where it is worst, when something is out of tolerance.
    pub worst: Option<Worst>,
    /// Recorded memory that the launch leaves alone and that is not as it was: the first place.
    pub strays: Option<String>,
    /// What is mapped and was not recorded was written to: the first place.
    pub canaries: Option<String>,
    /// A kept copy was written to: which.
    pub checksums: Option<String>,
}

impl Judgement {
    /// Whether everything is as it should be.
    pub fn is_right(&self) -> bool {
        self.out == 0 && !self.is_cheat() && self.strays.is_none()
    }

    /// Whether memory was written to that is not the launch's.
    pub fn is_cheat(&self) -> bool {
        self.canaries.is_some() || self.checksums.is_some()
    }

    /// Why it is not right, for people.
    pub fn reason(&self) -> Option<String> {
        if let Some(text) = self.canaries.as_ref().or(self.checksums.as_ref()) {
            return Some(text.clone());
        }
        if let Some(text) = &self.strays {
            return Some(text.clone());
        }
        let worst = self.worst.as_ref()?;
        Some(format!(
            "{} elements are out of tolerance; {} at byte {} is {} and should be {}",
            self.out, worst.buffer, worst.offset, worst.actual, worst.expected
        ))
    }

    /// Adds what was found in a buffer. `untouched`: the launch leaves it alone.
    pub(super) fn add_tally(&mut self, name: &str, tally: &Tally, untouched: bool) {
        self.count(&Judged::from(tally));
        let Some(first) = tally.first.first() else {
            return;
        };
        if untouched && self.strays.is_none() {
            self.strays = Some(format!(
                "{name}, which the original leaves alone, was changed at byte {}",
                first.offset
            ));
        }
        if self.worst.is_none() {
            self.worst = Some(Worst {
                buffer: name.to_owned(),
                offset: first.offset,
                expected: first.expected.clone(),
                actual: first.actual.clone(),
                out: 0,
            });
        }
    }

    fn count(&mut self, found: &Judged) {
        self.out += found.out;
        self.within += found.within;
        self.bytes += found.bytes;
        let larger = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        };
        self.largest_absolute = larger(self.largest_absolute, found.largest_absolute);
        self.largest_relative = larger(self.largest_relative, found.largest_relative);
    }
}

/// Names of the copies, in their order.
const COPIES: [&str; 4] = [
    "the memory before the launch",
    "the expected memory",
    "the mask of what must be written",
    "the memory that the launch leaves alone",
];

impl Resident<'_> {
    /// Compares everything after a run. Words that point to variables are turned into recorded ones by that: a run after
    /// it needs a [reset](Self::reset).
    pub fn judgement(&mut self, bound: &Bound) -> Result<Judgement, Trouble> {
        let launch = bound.launch();
        let trouble = |error| Trouble::of_device(error, bound.candidate);
        let sites = match self.launches.get(&launch) {
            Some(kept) => kept.sites[1].clone(),
            None => return Err(not_ready(launch)),
        };
        if self.live.as_ref().is_none_or(|live| live.launch != launch) {
            return Err(not_in_place(launch));
        }
        self.point_as_recorded(bound, &sites)?;
        let (Some(kept), Some(live)) = (self.launches.get(&launch), &self.live) else {
            return Err(not_ready(launch));
        };
        let pieces = piece_jobs(kept, bound, false);
        let mut jobs: Vec<JudgeJob> = pieces.iter().map(|(_, job)| *job).collect();
        jobs.extend(live.slack.iter().map(|range| guard_job(live, *range)));
        let untouched: Vec<AddressRange> = kept.untouched.iter().map(|u| u.range).collect();
        let copies = kept.ranges();
        let ranges: Vec<AddressRange> = untouched.iter().chain(&copies).copied().collect();
        let device = self.replayer.device();
        let found = device.judge(&jobs).map_err(trouble)?;
        let sums = device.checksums(kept.keys.sums, &ranges).map_err(trouble)?;
        let (of_pieces, of_guards) = found.split_at(pieces.len().min(found.len()));
        let (of_untouched, of_copies) = sums.split_at(untouched.len().min(sums.len()));

        let inexact: Vec<usize> = pieces
            .iter()
            .zip(of_pieces)
            .filter(|(_, found)| found.within > 0)
            .map(|((piece, _), _)| *piece)
            .collect();
        let mut judgement = Judgement::default();
        let mut worst: Option<(usize, u64, &JudgeJob)> = None;
        for ((piece, job), found) in pieces.iter().zip(of_pieces) {
            judgement.count(found);
            if let Some(at) = found.first_out
                && worst.is_none()
            {
                worst = Some((*piece, at, job));
            }
        }
        let strayed: Vec<usize> = kept
            .untouched
            .iter()
            .zip(of_untouched)
            .filter(|(untouched, sum)| untouched.sum != **sum)
            .map(|(untouched, _)| untouched.region)
            .collect();
        let guard = live
            .slack
            .iter()
            .zip(of_guards)
            .find_map(|(range, found)| Some((range, found.first_out?)));
        judgement.canaries = guard.map(|(range, at)| {
            format!(
                "memory behind or between the recorded buffers was written to, at {:#x}{}",
                range.start() + at,
                near(kept, bound, range.start() + at)
            )
        });
        let damaged = kept
            .sums
            .iter()
            .zip(of_copies)
            .position(|(kept, now)| kept != now);
        judgement.checksums = damaged.map(|at| {
            let name = COPIES.get(at).copied().unwrap_or("a copy");
            format!("R3's own copy of {name} was written to")
        });
        if let Some((piece, at, job)) = worst {
            judgement.worst = Some(self.worst(launch, piece, at, &job.clone())?);
        }
        if let Some(kept) = self.launches.get_mut(&launch) {
            kept.damaged |= damaged.is_some();
            let list = kept.variables.clone();
            variables::judge(&mut self.replayer, bound, &list, &mut judgement)?;
        }
        if let Some(live) = &mut self.live {
            live.unjudged = false;
        }
        if !strayed.is_empty() {
            let text = self.stray(bound, &strayed)?;
            judgement.strays = Some(text);
        }
        if judgement.strays.is_none() {
            judgement.strays = self.not_still(bound, &inexact)?;
        }
        if judgement.strays.is_some() {
            self.distrust();
        }
        let out = judgement.out;
        if let Some(worst) = &mut judgement.worst {
            worst.out = out;
        }
        Ok(judgement)
    }

    /// Bytes that a judgement reads, at least: what the launch may write, what it leaves alone, and the copies.
    pub fn compared_bytes(&self, launch: r3_archive::model::LaunchId) -> u64 {
        let Some(kept) = self.launches.get(&launch) else {
            return 0;
        };
        let pieces = kept.pieces.iter().map(|piece| 2 * piece.len);
        let untouched = kept.untouched.iter().map(|untouched| untouched.range.len());
        let copies = kept.ranges().into_iter().map(|range| range.len());
        pieces.chain(untouched).chain(copies).sum()
    }

    /// What was changed of bytes that the launch leaves alone in pieces with a tolerance, for people.
    fn not_still(&mut self, bound: &Bound, pieces: &[usize]) -> Result<Option<String>, Trouble> {
        let trouble = |error| Trouble::of_device(error, bound.candidate);
        let launch = bound.launch();
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let list: Vec<(Piece, u64)> = pieces
            .iter()
            .filter_map(|index| {
                let piece = kept.pieces.get(*index)?;
                Some((*piece, piece.still?))
            })
            .collect();
        let room = |piece: &Piece| piece.len.div_ceil(8).next_multiple_of(16);
        let len: u64 = list.iter().map(|(piece, _)| room(piece)).sum();
        if len == 0 {
            return Ok(None);
        }
        let scratch = self.take(len)?;
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let [_, _, mask] = kept.addresses();
        let mut at = scratch.address();
        let (mut places, mut marks, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for (piece, still) in &list {
            let parts = (
                mask,
                piece.at(&bound.code.targets),
                kept.expected_source(piece),
            );
            if let (Some(mask), Some(actual), Some(expected)) = parts {
                let bytes = piece.len.div_ceil(8);
                places.push(Place {
                    to: at,
                    len: bytes,
                    from: Some(Source::memory(mask + still)),
                    poison: None,
                });
                marks.push(MarkJob {
                    a: Source::memory(actual),
                    b: expected,
                    len: piece.len,
                    mask: at,
                    change: MaskChange::AndNot,
                });
                ranges.extend(AddressRange::new(at, bytes).map(|range| (piece.region, range)));
            }
            at += room(piece);
        }
        let masks: Vec<AddressRange> = ranges.iter().map(|(_, range)| *range).collect();
        let device = self.replayer.device();
        let counted = device
            .place(&places)
            .and_then(|()| device.mark_equal(&marks))
            .and_then(|()| device.count_bits(&masks))
            .map_err(trouble);
        self.pool.give(scratch);
        let counted = counted?;
        let Some(kept) = self.launches.get(&launch) else {
            return Err(not_ready(launch));
        };
        let mut of_regions = ranges.iter().zip(counted);
        let found = of_regions.find(|(_, count)| *count > 0);
        Ok(found.map(|((region, _), count)| {
            format!(
                "{count} bytes of {} that the original leaves alone were changed",
                kept.name(*region).unwrap_or("?")
            )
        }))
    }

    /// The guards that were written to since the last reset.
    pub(super) fn hit_guards(&mut self, bound: &Bound) -> Result<Vec<AddressRange>, Trouble> {
        let Some(live) = &self.live else {
            return Err(not_ready(bound.launch()));
        };
        let slack = live.slack.clone();
        let jobs: Vec<JudgeJob> = slack.iter().map(|range| guard_job(live, *range)).collect();
        let found = self
            .replayer
            .device()
            .judge(&jobs)
            .map_err(|error| Trouble::of_device(error, bound.candidate))?;
        let hit = slack.into_iter().zip(found);
        Ok(hit
            .filter(|(_, found)| !found.is_equal())
            .map(|(range, _)| range)
            .collect())
    }

    /// Whether a run left bit for bit what is expected, memory that the launch leaves alone included. Words that point to
    /// variables must be as recorded.
    pub(super) fn is_exact(&mut self, bound: &Bound) -> Result<bool, Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let jobs: Vec<JudgeJob> = piece_jobs(kept, bound, true)
            .into_iter()
            .map(|(_, job)| job)
            .collect();
        let found = self
            .replayer
            .device()
            .judge(&jobs)
            .map_err(|error| Trouble::of_device(error, bound.candidate))?;
        Ok(found.iter().all(Judged::is_equal))
    }

    /// Shows an element.
    fn worst(
        &mut self,
        launch: r3_archive::model::LaunchId,
        piece: usize,
        at: u64,
        job: &JudgeJob,
    ) -> Result<Worst, Trouble> {
        let size = (job.element.size() as u64).min(job.len - at.min(job.len));
        let mut read = |source: Source| {
            let mut bytes = vec![0; size as usize];
            if let Some(address) = source.memory {
                self.replayer
                    .device()
                    .read(address, &mut bytes)
                    .map_err(|error| Trouble::of_device(error, false))?;
            }
            if let Some(stream) = source.stream {
                stream.apply(&mut bytes);
            }
            Ok::<_, Trouble>(bytes)
        };
        let actual = read(job.actual.after(at))?;
        let expected = read(job.expected.after(at))?;
        let kept = self
            .launches
            .get(&launch)
            .ok_or_else(|| not_ready(launch))?;
        let piece = kept.pieces.get(piece);
        let name = piece.and_then(|piece| kept.name(piece.region));
        Ok(Worst {
            buffer: name.unwrap_or("?").to_owned(),
            offset: piece.map_or(0, |piece| piece.offset) + at,
            expected: job.element.show(&expected),
            actual: job.element.show(&actual),
            out: 0,
        })
    }

    /// What of the memory that the launch leaves alone was changed, for people.
    fn stray(&mut self, bound: &Bound, regions: &[usize]) -> Result<String, Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let name = |region: &usize| kept.name(*region).unwrap_or("?").to_owned();
        let first = regions.first().map(name).unwrap_or_default();
        let place = match (&kept.altered, &self.live) {
            (None, Some(live)) => {
                let record = std::rc::Rc::clone(&kept.record);
                let place = live.place.clone();
                self.replayer
                    .not_as_recorded(&record, &place)
                    .map_err(|error| Trouble::of_replay(error, bound.candidate))?
                    .into_iter()
                    .find(|(region, _)| regions.contains(region))
            }
            _ => None,
        };
        Ok(match place {
            Some((_, chunk)) => format!(
                "{first}, which the original leaves alone there, was changed between bytes {} and {}",
                chunk << 16,
                (chunk + 1) << 16
            ),
            None => format!("{first} was changed where the original leaves it alone"),
        })
    }
}

/// What is to be compared, and the index of each one's piece. `exact`: without tolerances.
pub(super) fn piece_jobs(kept: &Kept, bound: &Bound, exact: bool) -> Vec<(usize, JudgeJob)> {
    let jobs = kept.pieces.iter().enumerate().filter_map(|(index, piece)| {
        let actual = Source::memory(piece.at(&bound.code.targets)?);
        let mut job = JudgeJob::exact(actual, kept.expected_source(piece)?, piece.len);
        if let Some(facts) = kept.facts.buffers.iter().find(|b| b.region == piece.region)
            && !exact
        {
            job.element = facts.element;
            job.tolerance = facts.tolerance;
        }
        Some((index, job))
    });
    jobs.collect()
}

fn guard_job(live: &Live, range: AddressRange) -> JudgeJob {
    let expected = Source::stream(guard(live.guard).after(range.start()));
    JudgeJob::exact(Source::memory(range.start()), expected, range.len())
}

/// Which buffer an address lies behind, for people.
fn near(kept: &Kept, bound: &Bound, address: u64) -> String {
    let targets = bound.code.targets.iter().enumerate();
    let behind = targets
        .filter_map(|(region, target)| Some((region, (*target)?)))
        .filter(|(_, target)| target.end() <= address)
        .max_by_key(|(_, target)| target.end());
    match behind {
        Some((region, target)) => format!(
            ", {} bytes behind the end of {}",
            address - target.end(),
            kept.name(region).unwrap_or("?")
        ),
        None => String::new(),
    }
}
