//! One candidate, from its guards to its score.

use std::rc::Rc;

use r3_archive::model::{KernelRecord, LaunchId, LaunchRecord};
use r3_codegen::recipe::Guard;
use xxhash_rust::xxh3::xxh3_128;

use super::code::{self, Brought};
use super::perturb::{self, Kind};
use super::race::{self, Raced, Rules};
use super::resident::Facts;
use super::run::{Engine, Ready, Site, stand};
use super::shape::{self, Shape};
use super::stand::{Judged, Lane, PERTURBED, Stand, Stop};
use super::{Lost, Task, TaskResult, Watch, bound, gate, noise, stats};
use crate::evaluate::outcome::{LaunchOutcome, Role, Score, Timing, Unit, Verdict};
use crate::evaluate::plan::{Plan, Regime};
use crate::remix::facts;

/// A launch of a task.
struct Run {
    launch: LaunchId,
    role: Role,
    weight: f64,
    ready: Ready,
    facts: Rc<Facts>,
    shape: Shape,
    /// Whether its inputs stay as recorded: the original cannot take other ones.
    fixed: bool,
}

/// Times at which an original is short: more pairs are run, since a time is only some hundred nanoseconds exact. A batch of
/// launches between two events would be more exact per run, but its later launches would find the results of
/// the first one in memory, and could save themselves the work.
const SHORT: [(f64, u32); 2] = [(10e3, 4), (50e3, 2)];

/// Out of how many blocks of timed rounds one has another snapshot in it, in a search.
const SWAP_ONE_IN: u64 = 24;
/// Launches whose copies are larger are put back too slowly for that.
const SWAP_MOST: u64 = 64 << 20;

/// Guards whose answer is kept.
const MOST_GUARDS: usize = 4096;

/// From which ratio on people should look at a result.
const ASTONISHING: f64 = 0.1;

impl Engine<'_> {
    /// Judges and times a candidate on launches that are ready.
    pub(super) fn trial(&mut self, task: &Task, watch: &dyn Watch) -> Result<TaskResult, Lost> {
        let mut result = TaskResult {
            verdict: Verdict::Right,
            reason: None,
            image: task.code.as_ref().map_or(0, |code| xxh3_128(&code.bytes)),
            blocks_per_multiprocessor: None,
            launches: Vec::new(),
            score: None,
            kernels_ms: 0.0,
            runs: 0,
            notes: Vec::new(),
        };
        match self.trial_inner(task, watch, &mut result) {
            Ok(()) => {}
            Err(Stop::Lost(lost)) => return Err(lost),
            Err(Stop::Verdict(judged)) => {
                result.verdict = judged.verdict;
                result.reason = Some(judged.reason);
                result.score = None;
            }
        }
        Ok(result)
    }

    fn trial_inner(
        &mut self,
        task: &Task,
        watch: &dyn Watch,
        result: &mut TaskResult,
    ) -> Result<(), Stop> {
        let site = self.site(watch).map_err(Stop::Lost)?;
        let kernel = self.archive.kernel(task.kernel).ok_or_else(|| {
            let why = format!("the archive has no kernel {}", task.kernel);
            Stop::new(Verdict::Unjudged, why)
        })?;
        let brought = self.brought(task, kernel)?;
        let mut runs = self.runs(task, kernel, result)?;
        if task.plan.time && task.plan.regime != Regime::Warm && !site.device.counts {
            self.cold_noise(&mut runs, &site, watch)?;
            result.notes.extend(site.floor.doubt());
        }
        let mut stand = stand(&mut self.resident, &mut self.keys, watch, &site, Vec::new());
        let mut course = Course {
            stand: &mut stand,
            site: &site,
            task,
            brought: &brought,
            tables: Vec::new(),
        };
        let judged = course.gate(&runs, result).and_then(|()| {
            course.perturbed(result)?;
            match task.plan.time {
                true => course.time(&runs, &mut self.chance, &mut self.clocks, watch, result),
                false => Ok(()),
            }
        });
        result.kernels_ms = stand.spent.kernels / 1e6;
        result.runs = stand.spent.runs;
        let unbound = stand.unbind();
        judged?;
        unbound.map_err(Stop::of_candidate)
    }

    /// What the code brings along that it may not, or that must stay as it is.
    fn brought(&mut self, task: &Task, kernel: &KernelRecord) -> Result<Brought, Stop> {
        let (Some(code), Some(original)) = (&task.code, self.original(kernel)) else {
            return Ok(Brought::default());
        };
        let brought = code::brought(&code.bytes, &code.name, &original);
        match brought.refused {
            Some(why) => Err(Stop::new(Verdict::Cheat, why)),
            None => Ok(brought),
        }
    }

    /// The launches that the candidate is to be run on, and how.
    fn runs(
        &mut self,
        task: &Task,
        kernel: &KernelRecord,
        result: &mut TaskResult,
    ) -> Result<Vec<Run>, Stop> {
        let plan = &task.plan;
        let tuned = plan
            .launches
            .iter()
            .map(|w| (w.launch, Role::Tuned, w.weight));
        let held = plan
            .held_out
            .iter()
            .map(|launch| (*launch, Role::HeldOut, 0.0));
        let mut runs: Vec<Run> = Vec::new();
        let mut unusable = None;
        for (launch, role, weight) in tuned.chain(held) {
            if runs.iter().any(|run| run.launch == launch) {
                continue;
            }
            let outcome = |verdict| LaunchOutcome {
                launch,
                role,
                verdict,
                worst: None,
                times: Vec::new(),
            };
            let Some(ready) = self.ready.get(&launch).cloned() else {
                continue;
            };
            let Some(facts) = ready.facts.clone() else {
                let why = ready.prepared.unusable.clone().unwrap_or_default();
                result
                    .notes
                    .push(format!("launch {launch} tells nothing: {why}"));
                result.launches.push(outcome(Verdict::CannotRun));
                unusable = unusable.or(Some(why));
                continue;
            };
            let shape = match shape::shape(&facts.record, &task.change) {
                Ok(shape) => shape,
                Err(why) => {
                    result.launches.push(outcome(Verdict::Refused));
                    return Err(Stop::new(
                        Verdict::Refused,
                        format!("launch {launch}: {why}"),
                    ));
                }
            };
            if let Some(why) = self.guarded(&task.guards, kernel, &facts.record, &shape) {
                result
                    .notes
                    .push(format!("launch {launch} is guarded: {why}"));
                result.launches.push(outcome(Verdict::Guarded));
                continue;
            }
            let left_out = |(of, what): &(LaunchId, String)| *of == launch && what == PERTURBED;
            runs.push(Run {
                fixed: self.options.leave_out.iter().any(left_out),
                launch,
                role,
                weight,
                ready,
                facts,
                shape,
            });
        }
        if runs.iter().any(|run| run.role == Role::Tuned) {
            return Ok(runs);
        }
        let guarded = result
            .launches
            .iter()
            .any(|launch| launch.role == Role::Tuned && launch.verdict == Verdict::Guarded);
        Err(match (guarded, unusable) {
            (true, _) => Stop::new(Verdict::Guarded, "its guards exclude every launch"),
            (false, Some(why)) => Stop::new(Verdict::CannotRun, why),
            (false, None) => Stop::new(Verdict::CannotRun, "there is no launch to be tuned on"),
        })
    }

    /// Why a guard does not hold for a launch of this shape, if one does not.
    fn guarded(
        &mut self,
        guards: &[Guard],
        kernel: &KernelRecord,
        launch: &LaunchRecord,
        shape: &Shape,
    ) -> Option<String> {
        let mut changed: Option<LaunchRecord> = None;
        if self.guards.len() > MOST_GUARDS {
            self.guards.clear();
        }
        for guard in guards {
            let key = (launch.id, guard.clone(), shape.grid, shape.block);
            if let Some(known) = self.guards.get(&key) {
                if known.is_some() {
                    return known.clone();
                }
                continue;
            }
            let changed = changed.get_or_insert_with(|| LaunchRecord {
                grid: shape.grid,
                block: shape.block,
                ..launch.clone()
            });
            let of = facts::Kernel {
                archive: self.archive,
                record: kernel,
                layout: &kernel.params,
            };
            let broken = of
                .broken(guard, changed)
                .unwrap_or_else(|error| Some(error.to_string()))
                .map(|why| format!("{}: {why}", facts::spell(guard)));
            self.guards.insert(key, broken.clone());
            if broken.is_some() {
                return broken;
            }
        }
        None
    }

    /// The noise with flushed caches, where it is not known yet.
    fn cold_noise(&mut self, runs: &mut [Run], site: &Site, watch: &dyn Watch) -> Result<(), Stop> {
        for run in runs.iter_mut().filter(|run| run.role == Role::Tuned) {
            if run.ready.cold_noise.is_some() {
                continue;
            }
            let held = site.hold(watch);
            let loads = self.against_itself(&run.facts, run.ready.limit, true, site, watch)?;
            drop(held);
            run.ready.cold_noise = noise::floor(&loads);
            if let Some(ready) = self.ready.get_mut(&run.launch) {
                ready.cold_noise = run.ready.cold_noise;
            }
        }
        Ok(())
    }
}

/// A candidate under way.
struct Course<'c, 's, 'a> {
    stand: &'c mut Stand<'s, 'a>,
    site: &'c Site,
    task: &'c Task,
    brought: &'c Brought,
    /// What its tables held when it was loaded, lane by lane.
    tables: Vec<Vec<Vec<u8>>>,
}

impl Course<'_, '_, '_> {
    /// Loads and judges the candidate on each launch. Tuned ones stay loaded.
    fn gate(&mut self, runs: &[Run], result: &mut TaskResult) -> Result<(), Stop> {
        for run in runs {
            let passed = self.gate_one(run, result);
            let (verdict, worst) = match &passed {
                Ok(()) => (Verdict::Right, None),
                Err(Stop::Verdict(judged)) => (judged.verdict, judged.worst.clone()),
                Err(Stop::Lost(_)) => (Verdict::Fault, None),
            };
            result.launches.push(LaunchOutcome {
                launch: run.launch,
                role: run.role,
                verdict,
                worst,
                times: Vec::new(),
            });
            passed.map_err(|stop| named(stop, run.launch, run.role))?;
        }
        Ok(())
    }

    fn gate_one(&mut self, run: &Run, result: &mut TaskResult) -> Result<(), Stop> {
        let resident = &mut *self.stand.resident;
        let code = self.task.code.as_ref();
        let candidate = resident
            .bind(run.launch, code, &run.shape)
            .map_err(Stop::of_candidate)?;
        let image = candidate.image();
        let lane = self.stand.lanes.len();
        self.stand.lanes.push(Lane {
            launch: run.launch,
            facts: Rc::clone(&run.facts),
            limit: run.ready.limit,
            original: None,
            candidate,
            fixed: run.fixed,
            right_under: None,
        });
        if result.image == 0 {
            result.image = image;
        }
        if image != result.image {
            return Err(Stop::new(
                Verdict::Unjudged,
                format!(
                    "the image that was loaded ({image:032x}) is not the one that was given ({:032x})",
                    result.image
                ),
            ));
        }
        let Some(at) = self.stand.lanes.get(lane) else {
            return Ok(());
        };
        let blocks = gate::fits(
            self.stand.resident,
            &at.candidate,
            &run.facts.record,
            &run.shape,
            &self.site.device,
        )?;
        result.blocks_per_multiprocessor = result.blocks_per_multiprocessor.or(blocks);
        let names = &self.brought.tables;
        let tables = gate::tables(self.stand.resident, &at.candidate, names)?;
        gate::gate(self.stand, lane)?;
        self.same_tables(lane, &tables)?;
        match run.role {
            Role::HeldOut => {
                let lane = self.stand.lanes.pop();
                if let Some(lane) = lane {
                    self.stand
                        .resident
                        .unbind(lane.candidate)
                        .map_err(Stop::of_candidate)?;
                }
            }
            _ => self.tables.push(tables),
        }
        Ok(())
    }

    fn same_tables(&mut self, lane: usize, was: &[Vec<u8>]) -> Result<(), Stop> {
        let names = &self.brought.tables;
        let Some(lane) = self.stand.lanes.get(lane) else {
            return Ok(());
        };
        let is = gate::tables(self.stand.resident, &lane.candidate, names)?;
        gate::same_tables(names, was, &is)
    }

    /// Judges the candidate on other inputs.
    fn perturbed(&mut self, result: &mut TaskResult) -> Result<(), Stop> {
        let wanted = self.task.plan.perturbed;
        let lanes = self.stand.lanes.len().max(1);
        for index in 0..wanted {
            let lane = index as usize % lanes;
            let Some(launch) = self.stand.lanes.get(lane).map(|lane| lane.launch) else {
                continue;
            };
            let ran = self
                .stand
                .perturbed(lane, Kind::nth(index / lanes as u32), perturb::MOST);
            let (verdict, worst) = match &ran {
                Ok(true) => (Verdict::Right, None),
                Ok(false) => continue,
                Err(Stop::Verdict(judged)) => (judged.verdict, judged.worst.clone()),
                Err(Stop::Lost(_)) => (Verdict::Unjudged, None),
            };
            result.launches.push(LaunchOutcome {
                launch,
                role: Role::Perturbed,
                verdict,
                worst,
                times: Vec::new(),
            });
            ran.map_err(|stop| named(stop, launch, Role::Perturbed))?;
        }
        if wanted > 0 {
            let spent = self.stand.spent;
            let dropped = match spent.dropped {
                0 => String::new(),
                dropped => format!(
                    "; {dropped} more were dropped, since the original has no certain result on them"
                ),
            };
            result.notes.push(match spent.perturbed {
                0 => format!("no inputs could be perturbed{dropped}"),
                tried => format!("right on {tried} of {tried} perturbed inputs{dropped}"),
            });
        }
        Ok(())
    }

    /// Races the candidate, verifies it again, and scores it.
    fn time(
        &mut self,
        runs: &[Run],
        chance: &mut super::keys::Keys,
        clocks: &mut race::Clocks,
        watch: &dyn Watch,
        result: &mut TaskResult,
    ) -> Result<(), Stop> {
        let tuned: Vec<&Run> = runs.iter().filter(|run| run.role == Role::Tuned).collect();
        for (run, lane) in tuned.iter().zip(&mut self.stand.lanes) {
            let original = Shape::recorded(&run.facts.record);
            let original = self
                .stand
                .resident
                .bind(run.launch, None, &original)
                .map_err(Stop::of_original)?;
            lane.original = Some(original);
        }
        let plan = &self.task.plan;
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
            .map_err(|e| Stop::of_candidate(super::resident::Trouble::of_device(e, false)))?;
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
        for (lane, tables) in std::mem::take(&mut self.tables).iter().enumerate() {
            self.same_tables(lane, tables)?;
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
                    .find(|of| of.launch == run.launch && of.role == Role::Tuned);
                if let Some(outcome) = outcome {
                    outcome.times.push(timing);
                }
            }
            let worst = raced.launches.iter().map(|found| found.ratio.median);
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
                let why = bound::impossible(found.candidate, least, self.site.floor.empty);
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
    Rules {
        weights: tuned.iter().map(|run| run.weight).collect(),
        cold: regime == Regime::Cold,
        counts,
        screen: plan.screen,
        drop_ratio: plan.drop_ratio,
        least: plan.least_pairs,
        most: plan.most_pairs.max(plan.least_pairs).saturating_mul(more),
        warmup: plan.warmup_pairs,
        incumbent: plan.incumbent,
    }
}

/// A verdict that says where.
fn named(stop: Stop, launch: LaunchId, role: Role) -> Stop {
    let place = match role {
        Role::Tuned => format!("launch {launch}"),
        Role::HeldOut => format!("launch {launch}, held out"),
        Role::Perturbed => format!("launch {launch}, with perturbed inputs"),
    };
    match stop {
        Stop::Verdict(judged) => Stop::Verdict(Judged {
            reason: format!("{place}: {}", judged.reason),
            ..judged
        }),
        Stop::Lost(lost) => Stop::Lost(Lost {
            reason: format!("{place}: {}", lost.reason),
            ..lost
        }),
    }
}

fn named_timed(stop: Stop) -> Stop {
    match stop {
        Stop::Verdict(judged) => Stop::Verdict(Judged {
            reason: format!("while it was timed: {}", judged.reason),
            ..judged
        }),
        lost => lost,
    }
}
