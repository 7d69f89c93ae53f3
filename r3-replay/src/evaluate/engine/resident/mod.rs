//! Launches that are kept ready on the device, so that code costs milliseconds and not a restore each.
//!
//! A launch is [made ready](Resident::ready) once: its memory is put where it was recorded, the original runs, and what
//! it writes is found out (see [`profile`]). From then on the device has, beside the live memory:
//!
//! - sealed copies of what the launch may write: as it was before (to restore it) and as it should be after,
//! - a mask of the bytes that it must write, which are poisoned before each run,
//! - guards in what is mapped between and behind the recorded regions,
//! - checksums, under keys that only the host has, of everything that the launch leaves alone and of the copies.
//!
//! Code is [bound](Resident::bind) to a launch (loaded freshly, its variables written), and then
//! [reset](Resident::reset), [run](Resident::run) and [judged](Resident::judgement) as often as wanted. Each of these is a few
//! operations on the device, and reads nothing from the archive, as long as nothing is damaged. What is damaged is put
//! back from the archive before anything else runs.
//!
//! Launches share addresses: one is live at a time, and [switching](live) writes what differs.

mod alter;
mod aside;
mod budget;
mod error;
mod fills;
mod inputs;
mod judgement;
mod kept;
mod layout;
mod live;
mod make;
mod profile;
mod remembered;
mod sites;
mod trials;
mod variables;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use r3_archive::Archive;
use r3_archive::model::LaunchId;

pub use self::alter::{Edit, PERTURBED};
pub use self::error::Trouble;
pub use self::judgement::Judgement;
pub use self::kept::{BufferClass, BufferFacts, Facts};
use self::kept::{Kept, Restoring};
use self::live::Live;
pub use self::profile::poisoned_buffer;
use super::keys::Keys;
use super::shape::Shape;
use super::{Image, Watch};
use crate::compare::Tolerances;
use crate::device::pool::Pool;
use crate::device::{Device, Effort, KernelHandle, LaunchConfig, ModuleHandle, Place, Stream};
use crate::replay::{self, ReplayOptions, Replayer};
use crate::restore::space::AddressMode;

/// How launches are kept.
#[derive(Clone, Debug)]
pub struct ResidentOptions {
    /// Where memory goes.
    pub addresses: AddressMode,
    /// How far results may be off, by kernel and buffer.
    pub tolerances: Tolerances,
    /// Whether nothing is allowed for where the device's own results may differ from a GPU's.
    pub strict: bool,
    /// Bytes of device memory for kept copies; `None` takes what is free when it is needed.
    pub memory_budget: Option<u64>,
    /// Bytes of host memory for what does not fit on the device.
    pub host_budget: u64,
    /// Buffers that are not poisoned when launches are profiled, by the name that reports use.
    pub leave_out: Vec<(LaunchId, String)>,
    /// Buffers of a launch that are poisoned at most when it is profiled.
    pub most_poisoned: usize,
    /// Profiling a launch begins no further buffer after this long.
    pub profile_time: std::time::Duration,
    /// Limit of one run of the original while it is profiled.
    pub run_limit: std::time::Duration,
    /// Folder in which profiles are remembered from process to process.
    pub profiles: Option<std::path::PathBuf>,
    /// Runs from which the spread of an original that varies is told.
    pub spread_runs: u32,
    /// Decides keys, for tests that must repeat.
    pub seed: Option<u64>,
}

impl Default for ResidentOptions {
    fn default() -> Self {
        Self {
            addresses: AddressMode::Exact,
            tolerances: Tolerances::exact(),
            strict: false,
            memory_budget: None,
            host_budget: 1 << 30,
            leave_out: Vec::new(),
            most_poisoned: 16,
            profile_time: std::time::Duration::from_secs(20),
            run_limit: std::time::Duration::from_secs(60),
            profiles: None,
            spread_runs: 6,
            seed: None,
        }
    }
}

/// Code that is bound to a launch that is ready.
#[derive(Debug)]
pub struct Bound {
    code: replay::Bound,
    /// Whether it is not the original.
    candidate: bool,
    /// When all its variables were written last, in the count of [`Resident::distrust`].
    variables: Cell<u64>,
}

impl Bound {
    fn original(code: replay::Bound) -> Self {
        Self {
            code,
            candidate: false,
            variables: Cell::new(0),
        }
    }

    /// The launch.
    pub fn launch(&self) -> LaunchId {
        self.code.launch
    }

    /// Hash of the bytes that were loaded (128-bit xxh3).
    pub fn image(&self) -> u128 {
        self.code.image
    }

    /// The kernel on the device.
    pub fn handle(&self) -> KernelHandle {
        self.code.handle()
    }

    /// Its module on the device.
    pub fn module(&self) -> ModuleHandle {
        self.code.module()
    }

    /// What it is launched with.
    pub fn config(&self) -> LaunchConfig<'_> {
        self.code.config()
    }

    /// What the user should know.
    pub fn notes(&self) -> &[String] {
        &self.code.notes
    }
}

/// Keeps launches of an archive ready on a device.
pub struct Resident<'a> {
    replayer: Replayer<'a>,
    options: ResidentOptions,
    keys: Keys,
    pool: Pool,
    launches: BTreeMap<LaunchId, Kept>,
    live: Option<Live>,
    /// Counts uses of launches, to tell which was not used for longest.
    clock: u64,
    /// Counts how often memory stopped being what it was thought to be, from 1.
    distrusted: u64,
}

impl<'a> Resident<'a> {
    /// Does nothing on the device yet.
    pub fn new(archive: &'a Archive, device: &'a mut dyn Device, options: ResidentOptions) -> Self {
        let how = ReplayOptions {
            addresses: options.addresses,
            ..ReplayOptions::default()
        };
        Self {
            replayer: Replayer::new(archive, device, how),
            keys: Keys::new(options.seed),
            options,
            pool: Pool::new(),
            launches: BTreeMap::new(),
            live: None,
            clock: 0,
            distrusted: 1,
        }
    }

    /// Reserves the addresses of launches that will be made ready. To be called once, before anything else takes up room.
    /// Returns the collisions, for people.
    pub fn reserve(
        &mut self,
        launches: impl IntoIterator<Item = LaunchId>,
    ) -> Result<Vec<String>, Trouble> {
        self.replayer
            .reserve(launches)
            .map_err(|error| Trouble::Machine(error.to_string()))
    }

    /// The device.
    pub fn device(&mut self) -> &mut dyn Device {
        self.replayer.device()
    }

    /// The archive.
    pub fn archive(&self) -> &'a Archive {
        self.replayer.archive()
    }

    /// Makes a launch ready, if it is not. A launch on which nothing can be judged is ready as well, and
    /// [says why](Facts::unusable) that is so.
    pub fn ready(&mut self, launch: LaunchId, watch: &dyn Watch) -> Result<Rc<Facts>, Trouble> {
        if let Some(kept) = self.launches.get(&launch) {
            return Ok(Rc::clone(&kept.facts));
        }
        self.make(launch, watch)?;
        self.keep_to_budget(launch)?;
        self.facts(launch).ok_or_else(|| not_ready(launch))
    }

    /// What is known of a launch that is ready.
    pub fn facts(&self, launch: LaunchId) -> Option<Rc<Facts>> {
        Some(Rc::clone(&self.launches.get(&launch)?.facts))
    }

    /// Loads code freshly for a launch that is ready, the recorded one without `code`, and writes its variables.
    pub fn bind(
        &mut self,
        launch: LaunchId,
        code: Option<&Image>,
        shape: &Shape,
    ) -> Result<Bound, Trouble> {
        self.activate(launch)?;
        let kept = self
            .launches
            .get(&launch)
            .ok_or_else(|| not_ready(launch))?;
        let record = Rc::clone(&kept.record);
        let parts = code.map(|image| (image.bytes.as_slice(), image.form, image.name.as_str()));
        let shape = replay::Shape {
            grid: shape.grid,
            block: shape.block,
            dynamic_shared: shape.dynamic_shared,
            carveout: shape.carveout,
        };
        let candidate = code.is_some() || shape != replay::Shape::recorded(&record);
        let code = self
            .replayer
            .bind(&record, parts, &shape)
            .map_err(|error| Trouble::of_replay(error, candidate))?;
        let bound = Bound {
            candidate,
            ..Bound::original(code)
        };
        let written = self.write_variables(&bound, true);
        if let Err(trouble) = written {
            let _ = self.unbind(bound);
            return Err(trouble);
        }
        Ok(bound)
    }

    /// Takes code off the device.
    pub fn unbind(&mut self, bound: Bound) -> Result<(), Trouble> {
        let candidate = bound.candidate;
        if candidate
            && self
                .live
                .as_ref()
                .is_some_and(|l| l.launch == bound.launch())
        {
            self.inspect()?;
        }
        self.replayer
            .unbind(bound.code)
            .map_err(|error| Trouble::of_device(error, candidate))
    }

    /// Puts memory and variables as they were before the launch, poisons what must be written, and sets guards: a
    /// run from here is a fresh one. Another key poisons with other bytes.
    pub fn reset(&mut self, bound: &Bound, key: u64) -> Result<(), Trouble> {
        self.activate(bound.launch())?;
        let kept = self
            .launches
            .get(&bound.launch())
            .ok_or_else(|| not_ready(bound.launch()))?;
        let mut places = kept.restoring(&bound.code.targets, Restoring::Poisoned(key));
        if let Some(live) = &mut self.live {
            live.guard = key;
            places.extend(guards(live, key));
        }
        self.place(&places, bound.candidate)?;
        self.point_to_variables(bound)?;
        self.write_variables(bound, false)
    }

    /// Launches, and waits until it is done.
    pub fn run(&mut self, bound: &Bound) -> Result<(), Trouble> {
        self.used(bound)?;
        let ran = self
            .replayer
            .launch_bound(&bound.code)
            .and_then(|()| self.replayer.device().synchronize());
        self.after_run(ran, bound)
    }

    /// Launches, waits until it is done, and returns what that took.
    pub fn run_timed(&mut self, bound: &Bound) -> Result<Effort, Trouble> {
        self.used(bound)?;
        let ran = self.replayer.launch_bound_timed(&bound.code);
        self.after_run(ran, bound)
    }

    fn after_run<T>(
        &mut self,
        ran: Result<T, crate::device::DeviceError>,
        bound: &Bound,
    ) -> Result<T, Trouble> {
        ran.map_err(|error| {
            // A kernel that stopped half-way may have written anywhere.
            self.distrust();
            Trouble::of_device(error, bound.candidate)
        })
    }

    fn used(&mut self, bound: &Bound) -> Result<(), Trouble> {
        self.clock += 1;
        match &mut self.live {
            Some(live) if live.launch == bound.launch() => live.unjudged |= bound.candidate,
            _ => return Err(not_in_place(bound.launch())),
        }
        if let Some(kept) = self.launches.get_mut(&bound.launch()) {
            kept.used = self.clock;
        }
        Ok(())
    }

    fn place(&mut self, places: &[Place], candidate: bool) -> Result<(), Trouble> {
        self.replayer
            .device()
            .place(places)
            .map_err(|error| Trouble::of_device(error, candidate))
    }

    /// Takes everything off the device.
    pub fn clear(&mut self) -> Result<(), Trouble> {
        let trouble = |error| Trouble::of_device(error, false);
        for (_, kept) in std::mem::take(&mut self.launches) {
            kept.give(&mut self.pool);
        }
        self.live = None;
        self.pool.trim(self.replayer.device()).map_err(trouble)?;
        self.replayer.clear().map_err(trouble)
    }

    /// Bytes of device memory that copies take up, those kept for the next one included.
    pub fn kept_bytes(&self) -> u64 {
        self.pool.in_use() + self.pool.kept()
    }
}

/// The guards of what is mapped and not recorded.
fn guards(live: &Live, key: u64) -> impl Iterator<Item = Place> + '_ {
    live.slack.iter().map(move |range| {
        let stream = guard(key).after(range.start());
        Place::fill(range.start(), range.len(), stream)
    })
}

/// The stream of guards: by address, so that each place has its own bytes.
fn guard(key: u64) -> Stream {
    Stream::new(key.rotate_left(17) ^ 0x6775_6172_6473_0000)
}

fn not_in_place(launch: LaunchId) -> Trouble {
    Trouble::Machine(format!(
        "launch {launch} is not in place: a run or a judgement comes after a reset"
    ))
}

fn not_ready(launch: LaunchId) -> Trouble {
    Trouble::Machine(format!("launch {launch} was not made ready"))
}
