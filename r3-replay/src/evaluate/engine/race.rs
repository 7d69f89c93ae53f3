//! How fast a candidate is against the original, found out with as few runs as that takes.
//!
//! ```text
//!  warm-up (a number of rounds that nobody can foresee)
//!    └► screen: 3 rounds; far slower than the best so far? dropped
//!         └► 4 rounds ─► 8 ─► 16 ─► 32: dropped as soon as the interval is above the best so far
//!              └► times of two kinds, and a win at stake? as many rounds once more
//! ```
//!
//! A round is a pair of runs of each launch, each code first every other time; the pairs of one launch are run one after
//! the other, since memory of another launch has to be put in place first. Nothing ends a race early because a
//! candidate is good: what is claimed stands on the full number of rounds, so that looking often does not make luck a
//! result. Which runs are verified, and when another snapshot comes in between, is left to chance.

use std::time::Duration;

use super::keys::Keys;
use super::noise;
use super::stats::{self, Found, Pairs, WIDE};
use crate::evaluate::outcome::Sample;
use crate::remix::pairs::Ratio;

/// Which code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The recorded code.
    Original,
    /// The candidate's.
    Candidate,
}

/// Which runs of a pair are verified.
#[derive(Clone, Copy, Debug, Default)]
struct Checked {
    candidate: bool,
    original: bool,
}

/// What a race is run on.
pub trait Track {
    /// Why it cannot go on: the candidate failed, or the device did.
    type Stop;

    /// The time of a run from restored and poisoned memory, with flushed caches in the cold regime. With `check`, all that
    /// it left is compared: what a candidate leaves, and what an original does that runs beside one.
    fn time(
        &mut self,
        launch: usize,
        side: Side,
        cold: bool,
        check: bool,
    ) -> Result<f64, Self::Stop>;

    /// The candidate once on another snapshot, judged and not timed, where there is one.
    fn elsewhere(&mut self, launch: usize) -> Result<(), Self::Stop>;

    /// Clock of the multiprocessors in MHz, where it is known.
    fn clock(&mut self) -> Option<u32>;

    /// Waits for clocks to come back.
    fn pause(&mut self, time: Duration);
}

/// How long a race goes on.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How often the application does each launch.
    pub weights: Vec<f64>,
    /// Whether caches are flushed before each run.
    pub cold: bool,
    /// Whether times are counts that repeat exactly: then one round says all.
    pub counts: bool,
    /// Rounds after which a candidate far slower than the best is dropped; 0 for none.
    pub screen: u32,
    /// How far.
    pub drop_ratio: f64,
    /// Rounds at least.
    pub least: u32,
    /// Rounds at most.
    pub most: u32,
    /// Rounds before those that count, at least.
    pub warmup: u32,
    /// The best ratio so far: upper end of its interval.
    pub incumbent: Option<f64>,
}

/// What a race came to.
#[derive(Clone, Debug)]
pub struct Raced {
    /// What remains of the time of all launches.
    pub ratio: Ratio,
    /// Launch by launch, in order.
    pub launches: Vec<Found>,
    /// All pairs, launch by launch.
    pub samples: Vec<Vec<Sample>>,
    /// Whether it was given up, since the candidate can hardly be the best.
    pub dropped: bool,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Clocks that were seen on a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    highest: u32,
}

/// Blocks of so many rounds are verified in their midst, too.
const MOST_UNCHECKED: u64 = 4;

/// A pair is run again when the clock was below this part of the highest one seen.
const HELD_DOWN: f64 = 0.75;
/// How often in a row.
const MOST_RETRIES: u32 = 4;
/// Pairs in a race that may be run again.
const ALL_RETRIES: u32 = 16;
/// The first wait for clocks; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

impl Clocks {
    /// Whether a clock was held down, as far as is known by now.
    fn held_down(&mut self, clock: Option<u32>) -> bool {
        let Some(clock) = clock else { return false };
        self.highest = self.highest.max(clock);
        f64::from(clock) < HELD_DOWN * f64::from(self.highest)
    }
}

/// Runs a race. `None` when a launch has no time: a device that gives none, or no launch at all.
pub fn race<T: Track>(
    track: &mut T,
    keys: &mut Keys,
    clocks: &mut Clocks,
    rules: &Rules,
) -> Result<Option<Raced>, T::Stop> {
    let mut race = Race::new(track, keys, clocks, rules);
    if rules.counts {
        race.rounds(1)?;
        return Ok(race.finish(false, Vec::new()));
    }
    race.warm_up()?;
    let best = rules.incumbent.unwrap_or(1.0);
    let most = rules.most.max(rules.least).max(1);
    let least = rules.least.clamp(1, most);
    if rules.screen > 0 && rules.screen < least {
        race.rounds(rules.screen)?;
        match race.ratio() {
            Some(ratio) if ratio.median > rules.drop_ratio * best => {
                return Ok(race.finish(true, Vec::new()));
            }
            None => return Ok(None),
            _ => {}
        }
    }
    let mut target = least;
    loop {
        race.rounds(target)?;
        let Some(ratio) = race.ratio() else {
            return Ok(None);
        };
        if target >= most {
            break;
        }
        if ratio.low > best {
            return Ok(race.finish(true, Vec::new()));
        }
        target = target.saturating_mul(2).min(most);
    }
    let mut notes = Vec::new();
    // A win that would be none is not worth more runs.
    let at_stake = |found: &Found| found.spread > WIDE && found.typical < 1.0 - noise::LEAST;
    if race.found().is_some_and(|found| found.iter().any(at_stake)) {
        race.rounds(target.saturating_mul(2))?;
        notes.push(format!(
            "times of one code were more than {WIDE} apart: as many pairs were run once more, and the fastest runs must \
             agree with the medians"
        ));
    }
    Ok(race.finish(false, notes))
}

/// Pairs alone, as many rounds as the rules say at least: launch by launch.
pub fn rounds<T: Track>(
    track: &mut T,
    keys: &mut Keys,
    clocks: &mut Clocks,
    rules: &Rules,
) -> Result<Vec<Vec<Sample>>, T::Stop> {
    let mut race = Race::new(track, keys, clocks, rules);
    race.warm_up()?;
    race.rounds(rules.least)?;
    Ok(race.samples)
}

struct Race<'r, T> {
    track: &'r mut T,
    keys: &'r mut Keys,
    clocks: &'r mut Clocks,
    rules: &'r Rules,
    samples: Vec<Vec<Sample>>,
    retries: u32,
    throttled: u32,
    /// Which code is first in the first round.
    first: usize,
}

impl<'r, T: Track> Race<'r, T> {
    fn new(track: &'r mut T, keys: &'r mut Keys, clocks: &'r mut Clocks, rules: &'r Rules) -> Self {
        let first = keys.below(2) as usize;
        Self {
            track,
            keys,
            clocks,
            rules,
            samples: vec![Vec::new(); rules.weights.len()],
            retries: ALL_RETRIES,
            throttled: 0,
            first,
        }
    }

    fn warm_up(&mut self) -> Result<(), T::Stop> {
        for launch in 0..self.rules.weights.len() {
            let rounds = u64::from(self.rules.warmup) + self.keys.below(3);
            for round in 0..rounds {
                self.once(launch, round.is_multiple_of(2), Checked::default())?;
            }
        }
        Ok(())
    }

    /// Rounds until there are so many. The candidate's last run, and one that chance picks, are verified; in the end the
    /// original's last one as well: a candidate that slows the original down is no faster.
    fn rounds(&mut self, until: u32) -> Result<(), T::Stop> {
        let have = self.samples.first().map_or(0, Vec::len) as u32;
        let new = u64::from(until.saturating_sub(have));
        let launches = self.rules.weights.len();
        let ends = self.rules.counts || until >= self.rules.most;
        let swapped = self.keys.below(launches as u64) as usize;
        // Launch by launch: memory of another one has to be put in place first.
        for launch in 0..launches {
            let (checked, elsewhere) = (self.keys.below(new), self.keys.below(new));
            for round in 0..new {
                if launch == swapped && round == elsewhere && new > 1 {
                    self.track.elsewhere(launch)?;
                }
                let last = round + 1 == new;
                let check = Checked {
                    candidate: last || (round == checked && new >= MOST_UNCHECKED),
                    original: last && ends,
                };
                let sample = self.pair(launch, (u64::from(have) + round) as usize, check)?;
                if let Some(samples) = self.samples.get_mut(launch) {
                    samples.push(sample);
                }
            }
        }
        Ok(())
    }

    /// A pair with clocks that are not held down, as far as that can be had.
    fn pair(&mut self, launch: usize, round: usize, check: Checked) -> Result<Sample, T::Stop> {
        let candidate_first = !(round + launch + self.first).is_multiple_of(2);
        let mut pause = FIRST_PAUSE;
        for _ in 0..MOST_RETRIES {
            let sample = self.once(launch, candidate_first, check)?;
            if !self.clocks.held_down(sample.sm_clock_mhz) {
                return Ok(sample);
            }
            if self.retries == 0 {
                self.throttled += 1;
                return Ok(sample);
            }
            self.retries -= 1;
            self.track.pause(pause);
            pause *= 2;
        }
        let sample = self.once(launch, candidate_first, check)?;
        self.throttled += u32::from(self.clocks.held_down(sample.sm_clock_mhz));
        Ok(sample)
    }

    fn once(
        &mut self,
        launch: usize,
        candidate_first: bool,
        check: Checked,
    ) -> Result<Sample, T::Stop> {
        let cold = self.rules.cold;
        let mut sample = Sample {
            original: 0.0,
            candidate: 0.0,
            candidate_first,
            sm_clock_mhz: None,
        };
        for candidate in [candidate_first, !candidate_first] {
            if candidate {
                let check = check.candidate;
                sample.candidate = self.track.time(launch, Side::Candidate, cold, check)?;
            } else {
                let check = check.original;
                sample.original = self.track.time(launch, Side::Original, cold, check)?;
            }
        }
        sample.sm_clock_mhz = self.track.clock();
        Ok(sample)
    }

    fn pairs(&self) -> Vec<Pairs<'_>> {
        self.rules
            .weights
            .iter()
            .zip(&self.samples)
            .map(|(weight, samples)| Pairs {
                weight: *weight,
                samples,
            })
            .collect()
    }

    fn ratio(&self) -> Option<Ratio> {
        stats::combined(&self.pairs())
    }

    fn found(&self) -> Option<Vec<Found>> {
        self.samples
            .iter()
            .map(|samples| stats::launch(samples))
            .collect()
    }

    fn finish(self, dropped: bool, mut notes: Vec<String>) -> Option<Raced> {
        let mut ratio = self.ratio()?;
        let mut launches = self.found()?;
        if self.rules.counts {
            ratio.confidence = 1.0;
            for launch in &mut launches {
                launch.ratio.confidence = 1.0;
            }
        }
        if self.throttled > 0 {
            let pairs: usize = self.samples.iter().map(Vec::len).sum();
            notes.push(format!(
                "clocks were held down (below {:.0} % of {} MHz) in {} of {pairs} pairs, also when they were run again; all \
                 of them count",
                100.0 * HELD_DOWN,
                self.clocks.highest,
                self.throttled,
            ));
        }
        Some(Raced {
            ratio,
            launches,
            samples: self.samples,
            dropped,
            notes,
        })
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
mod tests;
