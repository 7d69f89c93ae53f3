//! Code for a launch whose memory is in place already: bound, launched, unbound, without the archive.
//!
//! [`Replayer::restore`] does everything for one run. Whoever runs a launch thousands of times with other code does the
//! parts apart: [`Replayer::arrange`] puts memory in place and [`Replayer::fill`] writes it; [`Replayer::bind`] loads
//! code freshly, finds its variables, translates pointers, and sets what the launch was recorded with or is to be
//! launched with instead.

use r3_archive::model::{LaunchAttribute, LaunchId, LaunchRecord, RegionOwner};

use super::Replayer;
use super::restoring::variables;
use crate::code::Form;
use crate::device::{
    AddressRange, BlockRange, DeviceError, DeviceInfo, Effort, KernelHandle, LaunchConfig,
    ModuleHandle,
};
use crate::error::{Cause, ReplayError};
use crate::restore::contents::{self, KnownRegion, Placed, Source};
use crate::restore::segments::{self, Moment, Region};
use crate::restore::translate::Translation;
use crate::state;

/// How something is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Part of the L1 cache that is to be shared memory, in percent; as recorded when it is not given.
    pub carveout: Option<u32>,
}

impl Shape {
    /// As it was recorded.
    pub fn recorded(launch: &LaunchRecord) -> Self {
        Self {
            grid: launch.grid,
            block: launch.block,
            dynamic_shared: launch.dynamic_shared,
            carveout: None,
        }
    }
}

/// Memory of a launch that is in place. Its content is another matter.
#[derive(Clone, Debug, Default)]
pub struct InPlace {
    /// Where each of the launch's regions is, by index into its record; `None` for variables of the kernel's own module,
    /// and for regions of no length.
    pub targets: Vec<Option<AddressRange>>,
    /// Memory that was not there before: its content is undefined.
    pub fresh: Vec<AddressRange>,
    /// All memory in place: the regions, and what is between and behind them.
    pub mapped: Vec<AddressRange>,
    /// What of the launch's memory lies elsewhere than it was recorded.
    pub moved: Translation,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Code that is loaded for a launch, and what it is launched with.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The launch.
    pub launch: LaunchId,
    /// Form of the code.
    pub form: Form,
    /// Hash of the bytes that were loaded.
    pub image: u128,
    /// How it is launched.
    pub shape: Shape,
    /// Where each of the launch's regions is, by index into its record; `None` for variables that the code does not have,
    /// and for regions of no length.
    pub targets: Vec<Option<AddressRange>>,
    /// What of the launch's memory and variables lies elsewhere than it was recorded.
    pub translation: Translation,
    /// What the user should know.
    pub notes: Vec<String>,
    module: ModuleHandle,
    handle: KernelHandle,
    cooperative: bool,
    params: Vec<u8>,
    attributes: Vec<LaunchAttribute>,
    blocks: Option<BlockRange>,
}

impl Bound {
    /// The kernel on the device.
    pub fn handle(&self) -> KernelHandle {
        self.handle
    }

    /// Its module on the device.
    pub fn module(&self) -> ModuleHandle {
        self.module
    }

    /// What it is launched with.
    pub fn config(&self) -> LaunchConfig<'_> {
        LaunchConfig {
            grid: self.shape.grid,
            block: self.shape.block,
            dynamic_shared: self.shape.dynamic_shared,
            cooperative: self.cooperative,
            attributes: &self.attributes,
            params: &self.params,
            blocks: self.blocks,
        }
    }
}

impl<'a> Replayer<'a> {
    /// Puts memory where a launch needs it, takes other memory away, and sets the context's limits. Nothing is written.
    pub fn arrange(&mut self, launch: &LaunchRecord) -> Result<InPlace, ReplayError> {
        self.attempt(launch, |this| {
            this.known.clear();
            let regions = segments::regions(launch)?;
            let arranged = this.arrange_inner(launch, &regions)?;
            let mut notes = arranged.notes;
            notes.extend(state::apply_limits(this.device, launch));
            let module = this
                .archive
                .kernel(launch.kernel)
                .and_then(|kernel| kernel.module);
            let mut targets = vec![None; launch.before.regions.len()];
            let mut moved = Vec::new();
            for region in &regions {
                let own = matches!(&region.record.owner,
                    RegionOwner::Global { module: owner, .. } if Some(*owner) == module);
                let place = this.space.as_ref().and_then(|s| s.place(region.range));
                let (false, Some(start)) = (own, place) else {
                    continue;
                };
                moved.push((region.range, start));
                if let Some(target) = targets.get_mut(region.index) {
                    *target = AddressRange::new(start, region.range.len());
                }
            }
            Ok(InPlace {
                targets,
                fresh: arranged.fresh,
                mapped: this.space.iter().flat_map(|space| space.mapped()).collect(),
                moved: Translation::new(moved),
                notes,
            })
        })
    }

    /// Writes the bytes that a launch's memory had before it, from the archive, where they are not `known` to be there.
    pub fn fill(
        &mut self,
        launch: &LaunchRecord,
        place: &InPlace,
        known: &[KnownRegion],
    ) -> Result<(), ReplayError> {
        self.attempt(launch, |this| {
            let regions = segments::regions(launch)?;
            let source = Source {
                archive: this.archive,
                translation: &place.moved,
            };
            contents::restore(
                this.device,
                source,
                &placed(&regions, &place.targets),
                known,
            )?;
            Ok(this.device.synchronize()?)
        })
    }

    /// Writes the bytes that some chunks of a launch's memory (index of the region in the record, and of the chunk) had
    /// at a moment.
    pub fn fill_chunks(
        &mut self,
        launch: &LaunchRecord,
        place: &InPlace,
        chunks: &[(usize, u64)],
        moment: Moment,
    ) -> Result<(), ReplayError> {
        self.attempt(launch, |this| {
            let regions = segments::regions(launch)?;
            let source = Source {
                archive: this.archive,
                translation: &place.moved,
            };
            let placed = placed(&regions, &place.targets);
            let chunks: Vec<(usize, u64)> = chunks
                .iter()
                .filter_map(|(region, chunk)| {
                    let at = placed.iter().position(|p| p.region.index == *region)?;
                    Some((at, *chunk))
                })
                .collect();
            contents::write_chunks(this.device, source, &placed, &chunks, moment)?;
            Ok(this.device.synchronize()?)
        })
    }

    /// The chunks of a launch's memory that are not as recorded after it: index of the region in the record, and index
    /// of the chunk. Variables of the kernel's own module are left out.
    pub fn not_as_recorded(
        &mut self,
        launch: &LaunchRecord,
        place: &InPlace,
    ) -> Result<Vec<(usize, u64)>, ReplayError> {
        self.attempt(launch, |this| {
            let regions = segments::regions(launch)?;
            let source = Source {
                archive: this.archive,
                translation: &place.moved,
            };
            let placed = placed(&regions, &place.targets);
            let found = contents::different_chunks(this.device, source, &placed)?;
            Ok(found
                .into_iter()
                .filter_map(|d| Some((placed.get(d.region)?.region.index, d.chunk)))
                .collect())
        })
    }

    /// Loads code for a launch whose memory is in place, freshly: the kernel's own, or `code` (bytes, form, name of the
    /// kernel in it) in place of it. Its variables are not written.
    pub fn bind(
        &mut self,
        launch: &LaunchRecord,
        code: Option<(&[u8], Form, &str)>,
        shape: &Shape,
    ) -> Result<Bound, ReplayError> {
        self.attempt(launch, |this| {
            let kernel = this
                .archive
                .kernel(launch.kernel)
                .ok_or(Cause::NoKernel(launch.kernel))?;
            let module = kernel.module.ok_or(Cause::NoCode)?;
            let regions = segments::regions(launch)?;
            let variables = variables(module, &regions);
            let bytes = code.map(|(bytes, form, _)| (bytes, form));
            let (loaded, note, image) =
                this.modules
                    .load_fresh(this.device, kernel, bytes, &variables)?;
            let entry = code.map_or(kernel.name.as_str(), |(_, _, name)| name);
            let tied = this.bind_inner(launch, kernel, regions, loaded, entry, shape);
            let mut tied = match tied {
                Ok(tied) => tied,
                Err(cause) => {
                    // What could not be bound is not kept; the first error is the one to tell.
                    let _ = this.device.unload(loaded.handle);
                    return Err(cause);
                }
            };
            tied.notes.extend(note);
            let mut targets = vec![None; launch.before.regions.len()];
            for buffer in &tied.buffers {
                if let (Some(start), Some(slot)) =
                    (buffer.target, targets.get_mut(buffer.region.index))
                {
                    *slot = AddressRange::new(start, buffer.region.range.len());
                }
            }
            Ok(Bound {
                launch: launch.id,
                form: loaded.form,
                image,
                shape: *shape,
                targets,
                translation: tied.translation,
                notes: tied.notes,
                module: loaded.handle,
                handle: tied.handle,
                cooperative: launch.cooperative,
                params: tied.params,
                attributes: tied.attributes,
                blocks: this.blocks(launch)?,
            })
        })
    }

    /// Takes bound code off the device.
    pub fn unbind(&mut self, bound: Bound) -> Result<(), DeviceError> {
        self.device.unload(bound.module)
    }

    /// Launches bound code. It may still be running on return.
    pub fn launch_bound(&mut self, bound: &Bound) -> Result<(), DeviceError> {
        self.device.launch(bound.handle, &bound.config())
    }

    /// Launches bound code, waits for it, and returns what that took.
    pub fn launch_bound_timed(&mut self, bound: &Bound) -> Result<Effort, DeviceError> {
        self.device.launch_timed(bound.handle, &bound.config())
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    /// The archive.
    pub fn archive(&self) -> &'a r3_archive::Archive {
        self.archive
    }
}

fn placed<'l>(regions: &[Region<'l>], targets: &[Option<AddressRange>]) -> Vec<Placed<'l>> {
    regions
        .iter()
        .filter_map(|region| {
            Some(Placed {
                region: *region,
                target: targets.get(region.index).copied().flatten()?.start(),
                by_reading: false,
            })
        })
        .collect()
}
