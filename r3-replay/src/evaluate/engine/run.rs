//! The engine: launches are made ready, candidates come in, verdicts and scores go out.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use r3_archive::Archive;
use r3_archive::model::{KernelId, KernelRecord, LaunchId};
use r3_codegen::recipe::Guard;
use r3_image::Image as CodeImage;

use super::code::Original;
use super::floor::{self, Floor};
use super::keys::Keys;
use super::lock::{Held, TimingLock};
use super::noise;
pub use super::options::EngineOptions;
use super::race::{self, Clocks, Rules};
use super::resident::{Facts, Resident, Trouble};
use super::scrub::Scrub;
use super::shape::Shape;
use super::stand::{Lane, Spent, Stand, Stop};
use super::{Lost, Prepared, Task, TaskResult, Watch};
use crate::device::Device;
use crate::evaluate::describe::DeviceDescription;
use crate::evaluate::outcome::Sample;
use crate::nvml::Nvml;

/// Judges and times candidates for the kernels of one archive on one device.
pub struct Engine<'a> {
    pub(super) archive: &'a Archive,
    pub(super) resident: Resident<'a>,
    pub(super) options: EngineOptions,
    /// Keys of poison, and what is perturbed.
    pub(super) keys: Keys,
    /// What a race leaves to chance.
    pub(super) chance: Keys,
    pub(super) clocks: Clocks,
    /// What is known of the device, once something was made ready.
    pub(super) site: Option<Rc<Site>>,
    pub(super) ready: BTreeMap<LaunchId, Ready>,
    /// What is known of the kernels' own code.
    originals: BTreeMap<KernelId, Rc<Original>>,
    /// Why guards do not hold, by launch and shape.
    pub(super) guards: HashMap<Guarded, Option<String>>,
    reserved: bool,
}

/// A guard on a launch with a grid and a block.
pub(super) type Guarded = (LaunchId, Guard, [u32; 3], [u32; 3]);

/// A device, and what was measured on it.
pub(super) struct Site {
    pub device: DeviceDescription,
    /// Why memory is restored and compared slowly, if it is.
    slow: Option<String>,
    pub floor: Floor,
    pub scrub: Option<Scrub>,
    pub nvml: Option<Nvml>,
    lock: Option<TimingLock>,
    timeout: Duration,
}

/// A launch that candidates can be judged on, or why not.
#[derive(Clone)]
pub(super) struct Ready {
    pub prepared: Prepared,
    /// `None` when it is not usable.
    pub facts: Option<Rc<Facts>>,
    /// How long a run may take.
    pub limit: Duration,
    /// As [`Prepared::noise`], with flushed caches; measured when it is needed.
    pub cold_noise: Option<f64>,
}

/// What the original does on a launch.
struct Baseline {
    original: f64,
    noise: f64,
    limit: Duration,
    notes: Vec<String>,
}

/// How long the original may take on a launch before anything is known of it.
const FIRST_LIMIT: Duration = Duration::from_secs(120);

impl Site {
    /// Takes the timing lock of the GPU, when there is one to take.
    pub fn hold(&self, watch: &dyn Watch) -> Option<Held<'_>> {
        Some(self.lock.as_ref()?.hold(self.timeout, || watch.idle()))
    }
}

impl<'a> Engine<'a> {
    /// Does nothing on the device yet.
    pub fn new(archive: &'a Archive, device: &'a mut dyn Device, options: EngineOptions) -> Self {
        Self {
            archive,
            resident: Resident::new(archive, device, options.resident()),
            keys: Keys::new(options.seed),
            chance: Keys::new(options.seed.map(|seed| !seed)),
            clocks: Clocks::default(),
            site: None,
            ready: BTreeMap::new(),
            originals: BTreeMap::new(),
            guards: HashMap::new(),
            reserved: false,
            options,
        }
    }

    /// Reserves the addresses of launches, before anything else takes up room. Returns the collisions, for people: the
    /// launches in whose way they are will not be usable in this process. Without it, the first
    /// [`Self::prepare`] reserves those of all launches of the archive.
    pub fn reserve(&mut self, launches: &[LaunchId]) -> Result<Vec<String>, Lost> {
        if std::mem::replace(&mut self.reserved, true) {
            return Ok(Vec::new());
        }
        match self.resident.reserve(launches.iter().copied()) {
            Ok(collisions) => Ok(collisions),
            Err(Trouble::Lost(lost)) => Err(lost),
            Err(trouble) => Err(Lost::of_machine(trouble.to_string())),
        }
    }

    /// Makes launches of a kernel ready: what they write is found out, the original is timed against itself. Launches that
    /// candidates cannot be judged on say why. What is ready already is told again.
    pub fn prepare(
        &mut self,
        kernel: KernelId,
        launches: &[LaunchId],
        watch: &dyn Watch,
    ) -> Result<Vec<Prepared>, Lost> {
        let site = self.site(watch)?;
        let mut prepared = Vec::with_capacity(launches.len());
        for launch in launches {
            if !self.ready.contains_key(launch) {
                let made = self.make_ready(kernel, *launch, &site, watch);
                watch.idle();
                self.ready.insert(*launch, made?);
            }
            prepared.extend(self.ready.get(launch).map(|ready| ready.prepared.clone()));
        }
        Ok(prepared)
    }

    /// Judges a candidate, and times it when it is right and the plan says so. Launches that are not ready are made so.
    pub fn evaluate(&mut self, task: &Task, watch: &dyn Watch) -> Result<TaskResult, Lost> {
        let plan = &task.plan;
        let launches: Vec<LaunchId> = plan
            .launches
            .iter()
            .map(|weighted| weighted.launch)
            .collect();
        self.prepare(task.kernel, &launches, watch)?;
        self.prepare(task.kernel, &plan.held_out, watch)?;
        let result = self.trial(task, watch);
        watch.idle();
        result
    }

    /// Bytes of device memory that are taken up beside the launches' own memory.
    pub fn device_memory(&self) -> u64 {
        self.resident.kept_bytes()
    }

    /// What the device is like.
    pub fn device(&mut self) -> &mut dyn Device {
        self.resident.device()
    }

    pub(super) fn site(&mut self, watch: &dyn Watch) -> Result<Rc<Site>, Lost> {
        if let Some(site) = &self.site {
            return Ok(Rc::clone(site));
        }
        let all: Vec<LaunchId> = self
            .archive
            .launch_heads()
            .iter()
            .map(|head| head.id)
            .collect();
        // Whose addresses are taken, cannot be made ready, and says so.
        self.reserve(&all)?;
        watch.within(FIRST_LIMIT, "the device, measured");
        let lost = |error: crate::device::DeviceError| match Trouble::of_device(error, false) {
            Trouble::Lost(lost) => lost,
            other => Lost::of_machine(other.to_string()),
        };
        let device = self.resident.device();
        device.reset_persisting().map_err(lost)?;
        let what = device.properties().map_err(lost)?;
        let slow = device.bulk_by_host().map_err(lost)?;
        let floor = floor::measure(device, &what).map_err(lost)?;
        let scrub = match what.counts {
            true => None,
            false => Scrub::load(device, &what).map_err(lost)?,
        };
        watch.idle();
        let gpu = !what.counts && !what.uuid.is_empty();
        let site = Rc::new(Site {
            slow,
            floor,
            scrub,
            nvml: gpu.then(|| Nvml::open(&what.uuid)).flatten(),
            lock: gpu.then(|| TimingLock::new(&what.uuid, self.options.lock_folder.as_deref())),
            timeout: self.options.lock_timeout,
            device: what,
        });
        self.site = Some(Rc::clone(&site));
        Ok(site)
    }

    /// What is known of a kernel's own code.
    pub(super) fn original(&mut self, kernel: &KernelRecord) -> Option<Rc<Original>> {
        if let Some(known) = self.originals.get(&kernel.id) {
            return Some(Rc::clone(known));
        }
        let module = self.archive.module(kernel.module?)?;
        let image = CodeImage::from_vec(self.archive.read_blob(&module.image).ok()?);
        let original = Rc::new(Original::new(&image, &kernel.name));
        self.originals.insert(kernel.id, Rc::clone(&original));
        Some(original)
    }

    fn make_ready(
        &mut self,
        kernel: KernelId,
        launch: LaunchId,
        site: &Site,
        watch: &dyn Watch,
    ) -> Result<Ready, Lost> {
        let unusable = |why: String| Ready {
            prepared: Prepared {
                launch,
                unusable: Some(why),
                written: 0,
                restored: 0,
                kept: 0,
                deterministic: false,
                original: 0.0,
                noise: 0.0,
                notes: Vec::new(),
            },
            facts: None,
            limit: self.options.least_time,
            cold_noise: None,
        };
        let facts = match self.resident.ready(launch, watch) {
            Ok(facts) if facts.record.kernel == kernel => facts,
            Ok(_) => {
                return Ok(unusable(format!(
                    "launch {launch} is not one of kernel {kernel}"
                )));
            }
            Err(Trouble::Lost(lost)) => return Err(lost),
            Err(trouble) => return Ok(unusable(trouble.to_string())),
        };
        let mut ready = unusable(String::new());
        ready.prepared = Prepared {
            launch,
            unusable: facts.unusable.clone(),
            written: facts.written,
            restored: facts.restored,
            kept: facts.kept,
            deterministic: facts.deterministic,
            original: 0.0,
            noise: 0.0,
            notes: facts.notes.clone(),
        };
        ready.prepared.notes.extend(site.slow.clone());
        if facts.unusable.is_some() {
            return Ok(ready);
        }
        match self.baseline(&facts, site, watch) {
            Ok(baseline) => {
                ready.prepared.original = baseline.original;
                ready.prepared.noise = baseline.noise;
                ready.prepared.notes.extend(baseline.notes);
                ready.limit = baseline.limit;
                ready.facts = Some(facts);
            }
            Err(Stop::Lost(lost)) => return Err(lost),
            Err(Stop::Verdict(judged)) => ready.prepared.unusable = Some(judged.reason),
        }
        Ok(ready)
    }

    /// The original's time and noise, and whether anything can be told right from wrong at all.
    fn baseline(
        &mut self,
        facts: &Rc<Facts>,
        site: &Site,
        watch: &dyn Watch,
    ) -> Result<Baseline, Stop> {
        let shape = Shape::recorded(&facts.record);
        let bound = self
            .resident
            .bind(facts.launch, None, &shape)
            .map_err(Stop::of_original)?;
        let lane = Lane {
            launch: facts.launch,
            facts: Rc::clone(facts),
            limit: FIRST_LIMIT,
            original: None,
            candidate: bound,
            fixed: true,
            right_under: None,
            tables: Vec::new(),
        };
        let mut stand = stand(&mut self.resident, &mut self.keys, watch, site, vec![lane]);
        let told = (|| {
            if !stand.nothing_fails(0)? {
                return Err(Stop::new(
                    crate::evaluate::Verdict::CannotRun,
                    "a kernel that does nothing passes on this launch: nothing can be told right from wrong",
                ));
            }
            let mut slowest = Duration::ZERO;
            let mut original = 0.0;
            for _ in 0..2 {
                let begun = Instant::now();
                original = stand.untold(0)?;
                slowest = slowest.max(begun.elapsed());
            }
            Ok((original, slowest))
        })();
        let unbound = stand.unbind();
        let (first, slowest) = told?;
        unbound.map_err(Stop::of_original)?;
        let limit = self
            .options
            .least_time
            .max(slowest.mul_f64(self.options.time_factor.clamp(1.0, 1e6)));
        let mut baseline = Baseline {
            original: first,
            noise: 0.0,
            limit,
            notes: Vec::new(),
        };
        if site.device.counts {
            return Ok(baseline);
        }
        let held = site.hold(watch);
        baseline
            .notes
            .extend(held.as_ref().and_then(|held| held.note.clone()));
        let loads = self.against_itself(facts, limit, false, site, watch)?;
        if let (Some(floor), Some(times)) = (
            noise::floor(&loads),
            crate::bench::times(&originals(&loads)),
        ) {
            baseline.noise = floor;
            baseline.original = times.median;
        }
        if let Some(empty) = site.floor.empty.filter(|empty| *empty > 0.0) {
            baseline.notes.push(format!(
                "an empty kernel takes {:.1} µs here: nothing can be more than {:.1} times as fast as the original",
                empty / 1e3,
                (baseline.original / empty).max(1.0),
            ));
        }
        Ok(baseline)
    }

    /// Pairs of the original and a second load of it, load by load.
    pub(super) fn against_itself(
        &mut self,
        facts: &Rc<Facts>,
        limit: Duration,
        cold: bool,
        site: &Site,
        watch: &dyn Watch,
    ) -> Result<Vec<Vec<Sample>>, Stop> {
        let shape = Shape::recorded(&facts.record);
        let rounds = self.options.noise_pairs.div_ceil(noise::LOADS).max(2);
        let rules = Rules {
            weights: vec![1.0],
            cold,
            counts: false,
            screen: 0,
            drop_ratio: 1.0,
            least: rounds,
            most: rounds,
            warmup: 1,
            incumbent: None,
        };
        let mut loads = Vec::new();
        for _ in 0..noise::LOADS {
            let mut load = || self.resident.bind(facts.launch, None, &shape);
            let original = load().map_err(Stop::of_original)?;
            let candidate = load().map_err(Stop::of_original)?;
            let lane = Lane {
                launch: facts.launch,
                facts: Rc::clone(facts),
                limit,
                original: Some(original),
                candidate,
                fixed: true,
                right_under: None,
                tables: Vec::new(),
            };
            let mut stand = stand(&mut self.resident, &mut self.keys, watch, site, vec![lane]);
            let samples = race::rounds(&mut stand, &mut self.chance, &mut self.clocks, &rules);
            let unbound = stand.unbind();
            loads.push(samples?.concat());
            unbound.map_err(Stop::of_original)?;
        }
        Ok(loads)
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        // Another engine may come after it on the same device. Where that is lost, there is nothing to be freed.
        if let Some(scrub) = self.site.as_ref().and_then(|site| site.scrub) {
            let _ = scrub.unload(self.resident.device());
        }
        let _ = self.resident.clear();
    }
}

/// Where lanes are run.
pub(super) fn stand<'s, 'a>(
    resident: &'s mut Resident<'a>,
    keys: &'s mut Keys,
    watch: &'s dyn Watch,
    site: &'s Site,
    lanes: Vec<Lane>,
) -> Stand<'s, 'a> {
    Stand {
        resident,
        keys,
        watch,
        nvml: site.nvml.as_ref(),
        scrub: site.scrub,
        lanes,
        swap_one_in: 0,
        last: 0,
        spent: Spent::default(),
    }
}

fn originals(loads: &[Vec<Sample>]) -> Vec<f64> {
    loads.iter().flatten().map(|pair| pair.original).collect()
}
