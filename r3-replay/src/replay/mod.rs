//! One launch after the other: restore its memory, set its state, launch it, compare.

mod bound;
mod comparison;
mod copies;
mod judge;
mod modules;
mod restoring;
mod sample;

use std::rc::Rc;

use r3_archive::Archive;
use r3_archive::model::{KernelId, KernelRecord, LaunchAttribute, LaunchId, LaunchRecord};

pub use self::bound::{Bound, InPlace, Shape};
pub use self::comparison::{BufferResult, ChunkDifference};
pub use self::copies::Golden;
pub use self::judge::{Judge, rule_of_region};
use self::modules::Modules;
pub use self::modules::{Attached, Substitute};
pub use self::sample::SampleResult;
use crate::code::{CodeMode, Form};
use crate::compare::{BufferName, InferredTypes};
use crate::device::{
    BlockRange, Device, DeviceError, Effort, Inexact, KernelHandle, LaunchConfig, Work,
};
use crate::error::{Cause, ReplayError};
use crate::names::readable;
use crate::restore::contents::KnownRegion;
use crate::restore::segments::{self, Region};
use crate::restore::space::{AddressMode, Space, SpaceError};
use crate::restore::translate::Translation;

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Where memory goes.
    pub addresses: AddressMode,
    /// Which code runs.
    pub code: CodeMode,
    /// Whether words that point into a variable follow it when it lies elsewhere than recorded.
    pub follow_globals: bool,
    /// Run only these blocks of each grid.
    pub blocks: Option<BlockRange>,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            addresses: AddressMode::Exact,
            code: CodeMode::Auto,
            follow_globals: true,
            blocks: None,
        }
    }
}

/// Words that were rewritten since what they point to lies elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rewritten {
    /// In the parameters.
    pub params: u64,
    /// In memory.
    pub memory: u64,
}

/// A region of a launch on the device.
#[derive(Clone, Debug)]
pub struct Buffer<'l> {
    /// The region.
    pub region: Region<'l>,
    /// Where it is on the device; `None` for a variable that the code does not have.
    pub target: Option<u64>,
    /// What it is called.
    pub name: BufferName,
}

/// A launch whose memory and state are on the device.
#[derive(Clone, Debug)]
pub struct Restored<'l> {
    /// The record.
    pub launch: &'l LaunchRecord,
    /// Its kernel.
    pub kernel: &'l KernelRecord,
    /// Form of the code that runs.
    pub form: Form,
    /// Its regions.
    pub buffers: Vec<Buffer<'l>>,
    /// Words that were rewritten.
    pub rewritten: Rewritten,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Only these blocks of its grid run.
    pub blocks: Option<BlockRange>,
    handle: KernelHandle,
    params: Vec<u8>,
    attributes: Vec<LaunchAttribute>,
    translation: Translation,
}

/// Replays the launches of an archive on a device.
pub struct Replayer<'a> {
    archive: &'a Archive,
    device: &'a mut dyn Device,
    options: ReplayOptions,
    space: Option<Space>,
    modules: Modules<'a>,
    /// What the last comparison showed to be on the device.
    known: Vec<KnownRegion>,
    lost: Option<LaunchId>,
}

impl<'a> Replayer<'a> {
    /// Does nothing yet.
    pub fn new(archive: &'a Archive, device: &'a mut dyn Device, options: ReplayOptions) -> Self {
        Self {
            archive,
            device,
            options,
            space: None,
            modules: Modules::new(archive, options.code),
            known: Vec::new(),
            lost: None,
        }
    }

    /// The device.
    pub fn device(&mut self) -> &mut dyn Device {
        self.device
    }

    /// Reserves the addresses of all launches that will be replayed. To be called once, before
    /// anything else takes up room. Returns the collisions, for people: launches in whose way they
    /// are will fail.
    pub fn reserve(
        &mut self,
        launches: impl IntoIterator<Item = LaunchId>,
    ) -> Result<Vec<String>, SpaceError> {
        let mut wants = Vec::new();
        for id in launches {
            // A launch that cannot be read, or that asks for the impossible, fails by itself later.
            let Ok(launch) = self.archive.load_launch(id) else {
                continue;
            };
            let Ok(regions) = segments::regions(&launch) else {
                continue;
            };
            let own = self.wants(&launch, &regions);
            if self.fits(&own).is_ok() {
                wants.extend(own);
            }
        }
        wants.sort_unstable_by_key(|want| want.range);
        wants.dedup();
        let space = Space::reserve(self.device, self.options.addresses, &wants)?;
        let failures = space
            .failures()
            .map(|(range, why)| format!("{range}: {why}"))
            .collect();
        self.space = Some(space);
        Ok(failures)
    }

    /// Puts a launch's memory and state on the device.
    pub fn restore<'l>(&mut self, launch: &'l LaunchRecord) -> Result<Restored<'l>, ReplayError>
    where
        'a: 'l,
    {
        self.attempt(launch, |this| this.restore_inner(launch))
    }

    /// Launches, and waits until it is done.
    pub fn launch(&mut self, restored: &Restored<'_>) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| {
            this.known.clear();
            this.device.launch(restored.handle, &restored.config())?;
            Ok(this.device.synchronize()?)
        })
    }

    /// Launches, waits until it is done, and returns what that took.
    pub fn launch_timed(&mut self, restored: &Restored<'_>) -> Result<Effort, ReplayError> {
        self.attempt(restored.launch, |this| {
            this.known.clear();
            Ok(this
                .device
                .launch_timed(restored.handle, &restored.config())?)
        })
    }

    /// What the last launch did, on a device that counts.
    pub fn work(&self) -> Option<&Work> {
        self.device.work()
    }

    /// Why the launch's results may differ in some bits from the recorded ones, although both are right.
    pub fn inexact(&mut self, restored: &Restored<'_>) -> Result<Vec<Inexact>, ReplayError> {
        self.attempt(restored.launch, |this| {
            Ok(this.device.inexact(restored.handle)?)
        })
    }

    /// Where blocks of the launch write to memory of each other, if they do.
    pub fn meeting(&mut self, restored: &Restored<'_>) -> Result<Option<String>, ReplayError> {
        self.attempt(restored.launch, |this| {
            Ok(this.device.meeting(restored.handle)?)
        })
    }

    /// Lets PTX stand in for the code of the kernels that it has.
    pub fn attach(&mut self, attached: Attached) {
        self.modules.attach(attached);
    }

    /// Lets code stand in for one kernel's own, or its own again with `None`. What was restored for the code that
    /// stood in before must not be launched any more.
    pub fn substitute(
        &mut self,
        kernel: KernelId,
        code: Option<Substitute>,
    ) -> Result<(), DeviceError> {
        self.known.clear();
        match self.archive.kernel(kernel) {
            Some(kernel) => self.modules.substitute(self.device, kernel, code),
            None => Ok(()),
        }
    }

    /// Takes all code, and nothing else, off the device. What was restored must not be launched any more.
    pub fn unload(&mut self) -> Result<(), DeviceError> {
        self.known.clear();
        self.modules.clear(self.device)
    }

    /// As [`Self::substitute`], for the kernel of a launch.
    pub fn substitute_for(
        &mut self,
        launch: &LaunchRecord,
        code: Option<Substitute>,
    ) -> Result<(), ReplayError> {
        self.attempt(launch, |this| Ok(this.substitute(launch.kernel, code)?))
    }

    /// A `CUfunction_attribute` of the code that a launch was restored for.
    pub fn kernel_attribute(
        &mut self,
        restored: &Restored<'_>,
        attribute: i32,
    ) -> Result<i32, ReplayError> {
        self.attempt(restored.launch, |this| {
            Ok(this.device.kernel_attribute(restored.handle, attribute)?)
        })
    }

    /// The launch that left the device unusable for this process, if one did.
    pub fn lost(&self) -> Option<LaunchId> {
        self.lost
    }

    /// Takes everything off the device.
    pub fn clear(&mut self) -> Result<(), DeviceError> {
        self.known.clear();
        self.modules.clear(self.device)?;
        match self.space.take() {
            Some(mut space) => space.clear(self.device),
            None => Ok(()),
        }
    }

    /// What the code says of a kernel, when it can be read.
    pub fn kernel_info(&mut self, kernel: KernelId) -> Option<r3_image::KernelInfo> {
        self.modules.kernel_info(kernel)
    }

    /// What the kernel's PTX says of the types of its buffers.
    pub fn inferred_types(&mut self, kernel: &KernelRecord) -> Rc<InferredTypes> {
        self.modules.inferred_types(kernel)
    }

    fn attempt<T>(
        &mut self,
        launch: &LaunchRecord,
        action: impl FnOnce(&mut Self) -> Result<T, Cause>,
    ) -> Result<T, ReplayError> {
        let result = match self.lost {
            Some(earlier) if earlier != launch.id => Err(Cause::ContextLost(earlier)),
            _ => action(self),
        };
        result.map_err(|cause| {
            if let Cause::Device(DeviceError::Call { code, .. }) = &cause
                && STICKY.contains(code)
            {
                self.lost.get_or_insert(launch.id);
            }
            let kernel = self.archive.kernel(launch.kernel).map_or_else(
                || format!("kernel {}", launch.kernel),
                |k| readable(&k.name),
            );
            ReplayError {
                launch: launch.id,
                kernel,
                cause: Box::new(cause),
            }
        })
    }
}

impl Restored<'_> {
    fn config(&self) -> LaunchConfig<'_> {
        LaunchConfig {
            grid: self.launch.grid,
            block: self.launch.block,
            dynamic_shared: self.launch.dynamic_shared,
            cooperative: self.launch.cooperative,
            attributes: &self.attributes,
            params: &self.params,
            blocks: self.blocks,
        }
    }
}

/// Errors after which a context can do nothing more: uncorrectable ECC errors, illegal addresses
/// and instructions, time-outs, assertions, hardware stacks, misalignment, failed launches.
const STICKY: [i32; 11] = [214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719];

#[cfg(test)]
mod tests;
