//! One candidate, from its guards to its last perturbed input; `score` goes on from there.

use std::rc::Rc;
use std::time::{Duration, Instant};

use r3_archive::model::{KernelRecord, LaunchId, LaunchRecord, ModuleId, RegionOwner};
use r3_codegen::recipe::Guard;
use xxhash_rust::xxh3::xxh3_128;

use super::code::{self, Brought};
use super::perturb::{self, Kind};
use super::resident::Facts;
use super::run::{Engine, Ready, Site, stand};
use super::shape::{self, Shape};
use super::stand::{Judged, Lane, PERTURBED, Stand, Stop, milliseconds};
use super::{Lost, Task, TaskResult, Watch, gate, noise};
use crate::evaluate::outcome::{LaunchOutcome, Parts, Role, Verdict};
use crate::evaluate::plan::{Plan, Regime};
use crate::remix::facts;

/// A launch of a task.
pub(super) struct Run {
    pub launch: LaunchId,
    pub role: Role,
    pub weight: f64,
    pub ready: Ready,
    pub facts: Rc<Facts>,
    shape: Shape,
    /// Whether its inputs stay as recorded: the original cannot take other ones.
    fixed: bool,
}

/// Limit of loading code, which drivers may have to compile.
const LOADING: Duration = Duration::from_secs(180);

/// Guards whose answer is kept.
const MOST_GUARDS: usize = 4096;

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
            parts: Parts::default(),
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
            self.cold_noise(&mut runs, &task.plan, &site, watch)?;
            result.notes.extend(site.floor.doubt());
        }
        let mut stand = stand(&mut self.resident, &mut self.keys, watch, &site, Vec::new());
        let mut course = Course {
            stand: &mut stand,
            site: &site,
            task,
            brought: &brought,
            module: kernel.module,
            tuned: runs.iter().filter(|run| run.role == Role::Tuned).count(),
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
        let begun = Instant::now();
        let unbound = stand.unbind();
        stand.spent.parts.load += milliseconds(begun);
        result.parts = stand.spent.parts;
        judged?;
        unbound.map_err(Stop::of_candidate)
    }

    /// What the code brings along that it may not, or that must stay as it is.
    fn brought(&mut self, task: &Task, kernel: &KernelRecord) -> Result<Brought, Stop> {
        let (Some(code), Some(original)) = (&task.code, self.original(kernel)) else {
            return Ok(Brought::default());
        };
        let brought = code::brought(&code.bytes, &code.name, &original, &task.idle);
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
    fn cold_noise(
        &mut self,
        runs: &mut [Run],
        plan: &Plan,
        site: &Site,
        watch: &dyn Watch,
    ) -> Result<(), Stop> {
        for run in runs.iter_mut().filter(|run| run.is_timed(plan)) {
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
pub(super) struct Course<'c, 's, 'a> {
    pub stand: &'c mut Stand<'s, 'a>,
    pub site: &'c Site,
    pub task: &'c Task,
    brought: &'c Brought,
    /// Whose variables are restored as memory is.
    module: Option<ModuleId>,
    /// Lanes of tuned launches: these are the first.
    pub tuned: usize,
}

impl Course<'_, '_, '_> {
    /// Loads and judges the candidate on each launch. Tuned ones stay loaded.
    fn gate(&mut self, runs: &[Run], result: &mut TaskResult) -> Result<(), Stop> {
        for run in runs {
            let begun = Instant::now();
            let passed = self.gate_one(run, result);
            let parts = &mut self.stand.spent.parts;
            match run.role {
                Role::HeldOut => parts.held_out += milliseconds(begun),
                Role::Tuned | Role::Perturbed => parts.judged += milliseconds(begun),
            }
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
        let text = format!("the candidate, loaded for launch {}", run.launch);
        self.stand.watch.within(LOADING, &text);
        let begun = Instant::now();
        let bound = resident.bind(run.launch, code, &run.shape);
        self.stand.watch.idle();
        self.stand.spent.parts.load += milliseconds(begun);
        let candidate = bound.map_err(Stop::of_candidate)?;
        let image = candidate.image();
        let lane = self.stand.lanes.len();
        self.stand.lanes.push(Lane {
            launch: run.launch,
            facts: Rc::clone(&run.facts),
            limit: run.ready.limit,
            original: None,
            candidate,
            fixed: run.fixed || run.role != Role::Tuned,
            right_under: None,
            tables: Vec::new(),
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
        let regions = run.facts.record.before.regions.iter();
        let recorded: Vec<&str> = regions
            .filter_map(|region| match &region.owner {
                RegionOwner::Global { module, name } if Some(*module) == self.module => {
                    Some(name.as_str())
                }
                _ => None,
            })
            .collect();
        let names = self.brought.renewed(&recorded);
        let tables = gate::tables(self.stand.resident, &at.candidate, &names)?;
        if let Some(at) = self.stand.lanes.get_mut(lane) {
            at.tables = tables;
        }
        gate::gate(self.stand, lane)?;
        self.same_tables(lane)?;
        if run.role == Role::HeldOut
            && !self.task.plan.time_held_out
            && let Some(lane) = self.stand.lanes.pop()
        {
            let begun = Instant::now();
            let unbound = self.stand.resident.unbind(lane.candidate);
            self.stand.spent.parts.load += milliseconds(begun);
            unbound.map_err(Stop::of_candidate)?;
        }
        Ok(())
    }

    /// Whether the candidate left its own tables as they were.
    pub fn same_tables(&mut self, lane: usize) -> Result<(), Stop> {
        let new = &self.brought.tables;
        match self.stand.lanes.get(lane) {
            Some(lane) => gate::same_tables(self.stand.resident, new, &lane.tables),
            None => Ok(()),
        }
    }

    /// Judges the candidate on other inputs.
    fn perturbed(&mut self, result: &mut TaskResult) -> Result<(), Stop> {
        let wanted = self.task.plan.perturbed;
        let lanes = self.tuned.max(1);
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
            let why = match (self.stand.lanes.first(), spent.dropped) {
                (Some(lane), 0) if lane.fixed => {
                    ": the original stops the device on others".to_owned()
                }
                (Some(lane), 0) => format!(": {}", perturb::why_none(&lane.facts.buffers)),
                _ => String::new(),
            };
            result.notes.push(match spent.perturbed {
                0 => format!("no inputs could be perturbed{why}{dropped}"),
                tried => format!("right on {tried} of {tried} perturbed inputs{dropped}"),
            });
        }
        Ok(())
    }
}

/// A verdict that says where.
pub(super) fn named(stop: Stop, launch: LaunchId, role: Role) -> Stop {
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
