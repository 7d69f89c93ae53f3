//! How fast a candidate that is right is: races on all tuned launches become one score.

use std::time::Instant;

use super::keys::Keys;
use super::race::{self, Clocks, Raced, Rules};
use super::resident::Trouble;
use super::shape::Shape;
use super::stand::{Judged, Stop, milliseconds};
use super::trial::{Course, Run, named};
use super::{TaskResult, Watch, bound, stats};
use crate::evaluate::outcome::{Role, Score, Timing, Unit, Verdict};
use crate::evaluate::plan::{Plan, Regime};

/// Times at which an original is short: more pairs are run, since a time is only some hundred nanoseconds exact. A batch of
/// launches between two events would be more exact per run, but its later launches would find the results of
/// the first one in memory, and could save themselves the work.
const SHORT: [(f64, u32); 2] = [(10e3, 4), (50e3, 2)];

/// Out of how many blocks of timed rounds one has another snapshot in it, in a search.
const SWAP_ONE_IN: u64 = 24;
/// Launches whose copies are larger are put back too slowly for that.
const SWAP_MOST: u64 = 64 << 20;

/// From which ratio on people should look at a result.
const ASTONISHING: f64 = 0.1;

impl Course<'_, '_, '_> {
    /// Races the candidate, verifies it again, and scores it.
    pub(super) fn time(
        &mut self,
        runs: &[Run],
        chance: &mut Keys,
        clocks: &mut Clocks,
        watch: &dyn Watch,
        result: &mut TaskResult,
    ) -> Result<(), Stop> {
        let (begun, before) = (Instant::now(), self.stand.spent.parts.perturbed);
        let timed = self.time_inner(runs, chance, clocks, watch, result);
        let parts = &mut self.stand.spent.parts;
        // Other inputs amid timed runs are counted as that.
        parts.timed += milliseconds(begun) - (parts.perturbed - before);
        timed
    }

    fn time_inner(
        &mut self,
        runs: &[Run],
        chance: &mut Keys,
        clocks: &mut Clocks,
        watch: &dyn Watch,
        result: &mut TaskResult,
    ) -> Result<(), Stop> {
        let plan = &self.task.plan;
        let tuned: Vec<&Run> = runs.iter().filter(|run| run.is_timed(plan)).collect();
        for (run, lane) in tuned.iter().zip(&mut self.stand.lanes) {
            let original = Shape::recorded(&run.facts.record);
            let begun = Instant::now();
            let bound = self.stand.resident.bind(run.launch, None, &original);
            self.stand.spent.parts.load += milliseconds(begun);
            lane.original = Some(bound.map_err(Stop::of_original)?);
        }
        let small = tuned.iter().all(|run| run.facts.kept <= SWAP_MOST);
        self.stand.swap_one_in = match (plan.perturbed, small) {
            (0, true) => SWAP_ONE_IN,
            (0, false) => 0,
            _ => 2,
        };
        self.stand
            .resident
            .device()
            .reset_persisting()
            .map_err(|e| Stop::of_candidate(Trouble::of_device(e, false)))?;
        let held = self.site.hold(watch);
        result
            .notes
            .extend(held.as_ref().and_then(|held| held.note.clone()));
        let mut races: Vec<(Regime, Raced)> = Vec::new();
        for regime in regimes(plan, self.site.device.counts) {
            let rules = rules(plan, &tuned, regime, self.site.device.counts);
            let raced = race::race(self.stand, chance, clocks, &rules).map_err(named_timed)?;
            let Some(mut raced) = raced else {
                return Err(Stop::new(Verdict::Unjudged, "the device gave no times"));
            };
            result.notes.append(&mut raced.notes);
            let dropped = raced.dropped;
            races.push((regime, raced));
            if dropped {
                break;
            }
        }
        drop(held);
        for lane in 0..self.stand.lanes.len() {
            self.same_tables(lane)?;
        }
        self.tell(&tuned, &races, result);
        self.plausible(&tuned, &races, result)
    }

    /// Times and score of races.
    fn tell(&self, tuned: &[&Run], races: &[(Regime, Raced)], result: &mut TaskResult) {
        let mut score: Option<Score> = None;
        for (regime, raced) in races {
            let mut noise = 0.0;
            let mut whole = 0.0;
            let each = tuned.iter().zip(raced.launches.iter().zip(&raced.samples));
            for (run, (found, samples)) in each {
                let time = run.weight * found.original;
                whole += time;
                noise += time * run.noise(*regime);
                let timing = Timing {
                    regime: *regime,
                    unit: match self.site.device.counts {
                        true => Unit::Cost,
                        false => Unit::Nanoseconds,
                    },
                    ratio: found.ratio,
                    original: found.original,
                    candidate: found.candidate,
                    samples: samples.clone(),
                };
                let outcome = result
                    .launches
                    .iter_mut()
                    .find(|of| of.launch == run.launch && of.role == run.role);
                if let Some(outcome) = outcome {
                    outcome.times.push(timing);
                }
            }
            let worst = raced.launches.iter().take(self.tuned);
            let worst = worst.map(|found| found.ratio.median);
            let new = Score {
                ratio: raced.ratio,
                worst: worst.fold(0.0, f64::max),
                pairs: raced
                    .samples
                    .iter()
                    .map(|samples| samples.len() as u32)
                    .sum(),
                dropped: raced.dropped,
                noise: noise / whole,
            };
            score = Some(match score {
                None => new,
                Some(one) => Score {
                    ratio: stats::slower(one.ratio, new.ratio),
                    worst: one.worst.max(new.worst),
                    pairs: one.pairs + new.pairs,
                    dropped: one.dropped || new.dropped,
                    noise: one.noise.max(new.noise),
                },
            });
        }
        if let Some(score) = score.filter(|score| score.ratio.median < ASTONISHING) {
            result.notes.push(format!(
                "{:.1} times as fast: look at what it does before you believe it",
                1.0 / score.ratio.median
            ));
        }
        result.score = score;
    }

    /// Whether the device can be so fast.
    fn plausible(
        &self,
        tuned: &[&Run],
        races: &[(Regime, Raced)],
        result: &mut TaskResult,
    ) -> Result<(), Stop> {
        if self.site.device.counts {
            return Ok(());
        }
        for (_, raced) in races {
            for (run, found) in tuned.iter().zip(&raced.launches) {
                let bytes = run.facts.written.saturating_add(run.facts.changed_outside);
                let least = bound::bound(bytes, &self.site.device);
                let why = bound::impossible(found.candidate, least);
                let Some(why) = why else { continue };
                let outcome = result.launches.iter_mut();
                for outcome in outcome.filter(|of| of.launch == run.launch) {
                    outcome.verdict = Verdict::Implausible;
                }
                return Err(named(
                    Stop::new(Verdict::Implausible, why),
                    run.launch,
                    run.role,
                ));
            }
        }
        Ok(())
    }
}

impl Run {
    /// Whether times are taken.
    pub fn is_timed(&self, plan: &Plan) -> bool {
        self.role == Role::Tuned || (self.role == Role::HeldOut && plan.time_held_out)
    }

    fn noise(&self, regime: Regime) -> f64 {
        match regime {
            Regime::Cold => self.ready.cold_noise.unwrap_or(self.ready.prepared.noise),
            _ => self.ready.prepared.noise,
        }
    }
}

/// The regimes of a plan, one by one. A device that counts has no caches.
fn regimes(plan: &Plan, counts: bool) -> Vec<Regime> {
    match plan.regime {
        _ if counts => vec![Regime::Warm],
        Regime::Both => vec![Regime::Warm, Regime::Cold],
        one => vec![one],
    }
}

fn rules(plan: &Plan, tuned: &[&Run], regime: Regime, counts: bool) -> Rules {
    let shortest = tuned
        .iter()
        .map(|run| run.ready.prepared.original)
        .fold(f64::INFINITY, f64::min);
    let more = SHORT
        .iter()
        .find(|(below, _)| shortest < *below)
        .map_or(1, |(_, more)| *more);
    // In a search, launches share the pairs: what is told of all of them together is as certain. So many rounds as an
    // interval of 95 % takes there are in any case.
    let shared = match plan.screen {
        0 => 1,
        _ => u32::try_from(tuned.len()).unwrap_or(u32::MAX).max(1),
    };
    let share = |pairs: u32, at_least: u32| pairs.div_ceil(shared).max(at_least.min(pairs));
    let most = plan.most_pairs.max(plan.least_pairs);
    Rules {
        weights: tuned.iter().map(|run| run.weight).collect(),
        cold: regime == Regime::Cold,
        counts,
        screen: share(plan.screen, 1),
        drop_ratio: plan.drop_ratio,
        least: share(plan.least_pairs, 2),
        most: share(most, LEAST_ROUNDS).saturating_mul(more),
        warmup: plan.warmup_pairs.div_ceil(shared),
        incumbent: plan.incumbent,
    }
}

/// Rounds of the sign test for 95 %, and two that may be off.
const LEAST_ROUNDS: u32 = 8;

fn named_timed(stop: Stop) -> Stop {
    match stop {
        Stop::Verdict(judged) => Stop::Verdict(Judged {
            reason: format!("while it was timed: {}", judged.reason),
            ..judged
        }),
        lost => lost,
    }
}
