//! An evaluator that is a table, a clock that is a number, and a run in a temporary folder.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use r3_archive::model::{KernelId, KernelRecord, LaunchId, LayoutSource, ParamLayout};
use r3_archive::{ArchiveWriter, WriterOptions};
use r3_replay::evaluate::candidate::CandidateCode;
use r3_replay::evaluate::describe::{DeviceDescription, KernelDescription, LaunchDescription};
use r3_replay::evaluate::engine::Prepared;
use r3_replay::evaluate::evaluator::{JobId, Status};
use r3_replay::evaluate::outcome::{CodeFacts, LaunchOutcome, Role, Sample, Score, Timing, Unit};
use r3_replay::evaluate::plan::Regime;
use r3_replay::evaluate::{Candidate, Outcome, Plan, Verdict};
use r3_replay::remix::pairs::Ratio;

use crate::result::export::json;
use crate::space::{Domain, KernelFacts, Parameter, Space};
use crate::store::{Store, key};
use crate::strategy::Kind;
use crate::tune::clock::Clock;
use crate::tune::launches::{HeldOut, Limits, choose};
use crate::tune::progress::{Progress, Watch};
use crate::tune::settings::{Approximation, Budget, DeviceSetting, Fine};
use crate::tune::{
    ArchiveFile, Artifact, Ask, Environment, Evaluate, EvaluateError, Ground, Settings, Summary,
    Tune, TuneError,
};

/// A clock that moves when somebody waits.
#[derive(Default)]
pub struct TestClock(Cell<f64>);

impl TestClock {
    pub fn pass(&self, seconds: f64) {
        self.0.set(self.0.get() + seconds);
    }
}

impl Clock for TestClock {
    fn now(&self) -> f64 {
        self.0.get()
    }

    fn unix(&self) -> f64 {
        1_700_000_000.0 + self.0.get()
    }

    fn sleep(&self, time: Duration) {
        self.pass(time.as_secs_f64());
    }
}

/// Somebody who watches, and stops after a number of looks.
#[derive(Default)]
pub struct Watcher {
    pub looks: Cell<u64>,
    pub stop_after: Option<u64>,
    pub leave_after: Option<u64>,
    pub said: Vec<String>,
    pub last: Option<Progress>,
}

impl Watch for Watcher {
    fn progress(&mut self, progress: &Progress) {
        self.looks.set(self.looks.get() + 1);
        self.last = Some(progress.clone());
    }

    fn say(&mut self, line: &str) {
        self.said.push(line.to_owned());
    }

    fn stop(&self) -> bool {
        let over = |after: Option<u64>| after.is_some_and(|after| self.looks.get() >= after);
        over(self.stop_after) || over(self.leave_after)
    }

    fn leave(&self) -> bool {
        self.leave_after
            .is_some_and(|after| self.looks.get() >= after)
    }
}

type Judge = Rc<dyn Fn(&Ask, u32) -> Outcome>;

/// Candidates are judged by a function of what is asked and how often it was asked.
pub struct Simulated {
    pub clock: Rc<TestClock>,
    pub judge: Judge,
    pub kernel: KernelDescription,
    pub limit: usize,
    /// Looks until a job is done, by its number.
    pub delay: fn(u64) -> u64,
    /// Calls at which it is gone.
    pub gone_at: Vec<u64>,
    /// Calls of `again` that fail after that.
    pub gone_for: u32,
    pub submitted: RefCell<Vec<Candidate>>,
    asked: BTreeMap<String, u32>,
    running: BTreeMap<JobId, (Ask, u64)>,
    next: u64,
    calls: u64,
    away: u32,
}

impl Simulated {
    pub fn new(clock: &Rc<TestClock>, counts: bool, judge: Judge) -> Self {
        Self {
            clock: Rc::clone(clock),
            judge,
            kernel: kernel(counts),
            limit: 64,
            delay: |_| 1,
            gone_at: Vec::new(),
            gone_for: 0,
            submitted: RefCell::default(),
            asked: BTreeMap::new(),
            running: BTreeMap::new(),
            next: 1,
            calls: 0,
            away: 0,
        }
    }

    fn call(&mut self) -> Result<(), EvaluateError> {
        self.calls += 1;
        if self.gone_at.contains(&self.calls) {
            self.running.clear();
            self.away = self.gone_for + 1;
        }
        if self.away > 0 {
            return Err(EvaluateError::Gone("the test took it away".into()));
        }
        Ok(())
    }
}

impl Evaluate for Simulated {
    fn describe(&mut self) -> Result<KernelDescription, EvaluateError> {
        Ok(self.kernel.clone())
    }

    fn prepare(&mut self, _: &[LaunchId]) -> Result<Vec<Prepared>, EvaluateError> {
        Ok(prepared(&self.kernel))
    }

    fn submit(&mut self, ask: &Ask) -> Result<JobId, EvaluateError> {
        self.call()?;
        if self.running.len() >= self.limit {
            return Err(EvaluateError::Full);
        }
        let job = JobId(self.next);
        self.running
            .insert(job, (ask.clone(), (self.delay)(self.next)));
        self.next += 1;
        self.submitted.borrow_mut().push(ask.candidate.clone());
        Ok(job)
    }

    fn cancel(&mut self, jobs: &[JobId]) -> Result<(), EvaluateError> {
        for job in jobs {
            self.running.remove(job);
        }
        Ok(())
    }

    fn finished(&mut self, _: Duration) -> Result<Vec<(JobId, Outcome)>, EvaluateError> {
        self.call()?;
        self.clock.pass(0.1);
        let mut done = Vec::new();
        for (job, (_, looks)) in &mut self.running {
            *looks = looks.saturating_sub(1);
            if *looks == 0 {
                done.push(*job);
            }
        }
        // The last one first: nothing may depend on it.
        done.reverse();
        Ok(done
            .into_iter()
            .filter_map(|job| {
                let (ask, _) = self.running.remove(&job)?;
                let times = self
                    .asked
                    .entry(ask.candidate.id().to_string())
                    .or_default();
                *times += 1;
                Some((job, (self.judge)(&ask, *times)))
            })
            .collect())
    }

    fn status(&mut self) -> Result<Status, EvaluateError> {
        Ok(Status::default())
    }

    fn artifact(&mut self, candidate: &Candidate, _: &Plan) -> Result<Artifact, EvaluateError> {
        if matches!(candidate.code, CandidateCode::Recorded) {
            // As the evaluator: the archive's image, of which a device loads a part.
            return Ok(Artifact {
                name: "k".into(),
                image: "of the archive".into(),
                cubin: None,
                ptx: None,
                llvm: None,
                guards: Vec::new(),
            });
        }
        Ok(Artifact {
            name: "k".into(),
            image: image(candidate),
            cubin: Some(b"\x7fELF".to_vec()),
            ptx: Some(".version 8.0\n.target sm_90a\n".into()),
            llvm: None,
            guards: Vec::new(),
        })
    }

    fn again(&mut self) -> Result<(), EvaluateError> {
        self.away = self.away.saturating_sub(1);
        if self.away > 0 {
            return Err(EvaluateError::Gone("still away".into()));
        }
        Ok(())
    }
}

fn image(candidate: &Candidate) -> String {
    candidate.id().to_string()
}

/// A kernel on a device that measures.
pub fn kernel_for_tests() -> KernelDescription {
    kernel(false)
}

pub fn kernel(counts: bool) -> KernelDescription {
    KernelDescription {
        archive: "test".into(),
        name: "k".into(),
        readable: "k(float*)".into(),
        device: DeviceDescription {
            name: if counts { "CPU device" } else { "a GPU" }.into(),
            counts,
            sm: 90,
            driver: 13000,
            ..DeviceDescription::default()
        },
        forms: vec!["PTX".into()],
        compilable: true,
        recorded_runs: true,
        used: None,
        max_threads: 1024,
        bounds: Default::default(),
        required_block: None,
        census: None,
        params: Vec::new(),
        source: None,
        launches: (1..=4)
            .map(|id| LaunchDescription {
                launch: LaunchId(id),
                grid: [64, 1, 1],
                block: [256, 1, 1],
                dynamic_shared: 0,
                cooperative: false,
                weight: 10.0,
                bytes: 1 << 20,
                caveats: Vec::new(),
            })
            .collect(),
    }
}

pub fn prepared(kernel: &KernelDescription) -> Vec<Prepared> {
    let launches = kernel.launches.iter();
    launches
        .map(|launch| Prepared {
            launch: launch.launch,
            unusable: None,
            written: 1 << 16,
            restored: 1 << 16,
            kept: 1 << 18,
            deterministic: true,
            original: 300_000.0,
            noise: if kernel.device.counts { 0.0 } else { 0.004 },
            notes: Vec::new(),
        })
        .collect()
}

fn choice(name: &str, values: &[&str]) -> Parameter {
    Parameter {
        name: name.into(),
        domain: Domain::Choice(values.iter().map(|value| (*value).to_owned()).collect()),
        when: Vec::new(),
        varied: true,
        dropped: Vec::new(),
        why: String::new(),
    }
}

/// 96 points.
pub fn space() -> Space {
    Space {
        kernel: Some(KernelFacts {
            name: "k".into(),
            block: [256, 1, 1],
            max_threads: 1024,
            recorded_runs: true,
            compilable: true,
            ..KernelFacts::default()
        }),
        parameters: vec![
            choice(
                "block",
                &[
                    "256x1x1", "32x1x1", "64x1x1", "128x1x1", "512x1x1", "1024x1x1",
                ],
            ),
            choice("registers", &["as compiled", "max 32", "max 64", "max 128"]),
            choice("load_cache", &["default", "cs"]),
            choice("constants", &["none", "scalars"]),
        ],
        never: Vec::new(),
        start: Vec::new(),
    }
}

/// Time of a candidate as a part of the original's: known levers.
pub fn truth(candidate: &Candidate) -> f64 {
    let block = match candidate.launch.block {
        Some([128, ..]) => 0.8,
        Some([64, ..]) => 0.95,
        Some([32, ..]) => 1.7,
        Some([512, ..]) => 1.1,
        _ => 1.0,
    };
    let cache = if candidate.build.assembler_options.is_empty() {
        1.0
    } else {
        0.9
    };
    let registers = match candidate.build.bounds.maxnreg {
        Some(128) => 0.97,
        Some(64) => 1.2,
        _ => 1.0,
    };
    block * cache * registers
}

/// Every verdict that there is has its candidates.
pub fn verdict(candidate: &Candidate) -> Verdict {
    let constants = !candidate.build.specialise.is_empty();
    match (candidate.launch.block, candidate.build.bounds.maxnreg) {
        (Some([1024, ..]), Some(32)) => Verdict::Cheat,
        (Some([1024, ..]), Some(64)) => Verdict::Implausible,
        (Some([1024, ..]), _) => Verdict::Refused,
        (_, Some(32)) if constants => Verdict::NoCode,
        (Some([32, ..]), Some(32)) => Verdict::Timeout,
        (Some([64, ..]), Some(32)) => Verdict::Fault,
        (_, Some(32)) => Verdict::Wrong,
        (Some([512, ..]), _) if constants => Verdict::Guarded,
        _ => Verdict::Right,
    }
}

/// An outcome with this ratio; the interval is `noise` wide to both sides.
pub fn outcome(ask: &Ask, verdict: Verdict, ratio: f64, noise: f64, counts: bool) -> Outcome {
    let right = verdict == Verdict::Right;
    let pairs = if counts { 1 } else { ask.plan.least_pairs };
    let regimes = match ask.plan.regime {
        Regime::Both => vec![Regime::Warm, Regime::Cold],
        one => vec![one],
    };
    let of = |factor: f64| Ratio {
        median: ratio * factor,
        low: ratio * factor * (1.0 - noise),
        high: ratio * factor * (1.0 + noise),
        confidence: 0.95,
    };
    let timing = |regime| Timing {
        regime,
        unit: if counts {
            Unit::Cost
        } else {
            Unit::Nanoseconds
        },
        ratio: of(1.0),
        original: 300_000.0,
        candidate: 300_000.0 * ratio,
        samples: (0..pairs)
            .map(|pair| {
                // Symmetric around the ratio, and none of them on it.
                let side = if pair % 2 == 0 { 1.0 } else { -1.0 };
                let size = noise * (0.1 + f64::from(pair) / f64::from(pairs));
                Sample {
                    original: 300_000.0,
                    candidate: 300_000.0 * ratio * (1.0 + side * size),
                    candidate_first: pair % 2 == 1,
                    sm_clock_mhz: None,
                }
            })
            .collect(),
    };
    let of_launch = |launch, role| LaunchOutcome {
        launch,
        role,
        verdict,
        worst: None,
        // As the engine does it: held-out launches are judged, and not timed.
        times: if right && role == Role::Tuned {
            regimes.iter().map(|regime| timing(*regime)).collect()
        } else {
            Vec::new()
        },
    };
    let tuned = ask.plan.launches.iter();
    let held_out = ask.plan.held_out.iter();
    let launches = tuned
        .map(|one| of_launch(one.launch, Role::Tuned))
        .chain(held_out.map(|launch| of_launch(*launch, Role::HeldOut)))
        .collect();
    Outcome {
        candidate: ask.candidate.id(),
        verdict,
        reason: (!right).then(|| format!("the table says {}", verdict.word())),
        failure: None,
        code: Some(CodeFacts {
            image: image(&ask.candidate),
            ..CodeFacts::default()
        }),
        guards: Vec::new(),
        launches,
        score: right.then(|| Score {
            ratio: of(1.0),
            worst: ratio,
            pairs,
            dropped: false,
            noise: if counts { 0.0 } else { 0.004 },
        }),
        cost: Default::default(),
        notes: Vec::new(),
    }
}

/// The table, on a device that counts.
pub fn counted() -> Judge {
    Rc::new(|ask, _| {
        let candidate = &ask.candidate;
        outcome(ask, verdict(candidate), truth(candidate), 0.0, true)
    })
}

/// The table, on a device that measures.
pub fn measured() -> Judge {
    Rc::new(|ask, _| {
        let candidate = &ask.candidate;
        outcome(ask, verdict(candidate), truth(candidate), 0.005, false)
    })
}

pub fn settings(folder: &Path, kind: Kind, evaluations: u64) -> Settings {
    Settings {
        archive: folder.join("a.r3"),
        kernel: "k".into(),
        strategy: kind,
        seed: 7,
        budget: Budget {
            evaluations: Some(evaluations),
            ..Budget::default()
        },
        device: DeviceSetting::Cpu,
        workers: Some(2),
        held_out: HeldOut::Quarter,
        tolerances: None,
        approximate: Approximation::None,
        regime: None,
        allowed: Default::default(),
        fine: Fine {
            batch: 4,
            depth: 3,
            ..Fine::default()
        },
    }
}

/// A run in a folder.
pub struct Bed {
    pub folder: tempfile::TempDir,
    pub clock: Rc<TestClock>,
    pub settings: Settings,
    pub space: Space,
    pub counts: bool,
}

impl Bed {
    pub fn new(counts: bool, kind: Kind, evaluations: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), kind, evaluations);
        archive(&settings.archive);
        Self {
            settings,
            folder,
            clock: Rc::default(),
            space: space(),
            counts,
        }
    }

    pub fn ground(&self) -> Ground {
        let kernel = kernel(self.counts);
        let limits = Limits { tuned: 8, gate: 2 };
        Ground {
            choice: choose(&kernel.launches, &self.settings.held_out, limits).unwrap(),
            prepared: prepared(&kernel),
            kernel,
        }
    }

    pub fn create(&self) -> Store {
        let store = Store::create(&self.folder.path().join("run")).unwrap();
        let ground = self.ground();
        let archive = ArchiveFile::read(&self.settings.archive).unwrap();
        let environment = Environment::new(&archive, &ground.kernel, 1, Vec::new());
        store.put(key::SETTINGS, &self.settings).unwrap();
        store.put(key::ENVIRONMENT, &environment).unwrap();
        store.put(key::KERNEL, &ground.kernel).unwrap();
        store.put(key::LAUNCHES, &ground.choice).unwrap();
        store.put(key::PREPARED, &ground.prepared).unwrap();
        store.put_text(key::SPACE, &self.space.to_toml()).unwrap();
        store
    }

    pub fn open(&self) -> Store {
        Store::open(&self.folder.path().join("run")).unwrap()
    }

    pub fn evaluator(&self) -> Simulated {
        let judge = if self.counts { counted() } else { measured() };
        Simulated::new(&self.clock, self.counts, judge)
    }

    pub fn run(
        &self,
        store: &mut Store,
        evaluator: &mut Simulated,
        watch: &mut Watcher,
    ) -> Result<Summary, TuneError> {
        let ground = self.ground();
        Tune {
            store,
            settings: &self.settings,
            space: &self.space,
            ground: &ground,
            clock: &*self.clock,
            forced: false,
        }
        .run(evaluator, watch)
    }

    /// From the beginning to the end.
    pub fn whole(&self) -> (Summary, String) {
        let mut store = self.create();
        let summary = self
            .run(&mut store, &mut self.evaluator(), &mut Watcher::default())
            .unwrap();
        let repeatable = repeatable(&store);
        (summary, repeatable)
    }
}

fn archive(path: &Path) {
    let options = WriterOptions {
        workers: 0,
        ..WriterOptions::default()
    };
    let writer = ArchiveWriter::create(path, options).unwrap();
    writer
        .append(&KernelRecord {
            id: KernelId(1),
            module: None,
            name: "k".into(),
            params: vec![ParamLayout { offset: 0, size: 8 }],
            layout: LayoutSource::Driver,
            attributes: Vec::new(),
        })
        .unwrap();
    writer.finish().unwrap();
}

/// What is in a store and does not depend on time.
pub fn repeatable(store: &Store) -> String {
    let mut all = json(store).unwrap();
    all.seconds = 0.0;
    all.events.clear();
    if let Some(summary) = &mut all.summary {
        summary.seconds = 0.0;
    }
    for evaluation in &mut all.evaluations {
        evaluation.asked_at = 0.0;
        evaluation.done_at = evaluation.done_at.map(|_| 0.0);
    }
    serde_json::to_string_pretty(&all).unwrap()
}
