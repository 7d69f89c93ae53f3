//! A launch's memory and state onto the device.

use std::collections::BTreeMap;

use r3_archive::model::{
    AllocationKind, KernelRecord, LaunchAttribute, LaunchRecord, ModuleId, RegionOwner,
};

use super::bound::Shape;
use super::comparison::placed;
use super::modules::Loaded;
use super::{Buffer, Replayer, Restored, Rewritten};
use crate::compare::{BufferName, buffer_names};
use crate::device::{AddressRange, BlockRange, KernelHandle, ModuleHandle, Platform};
use crate::error::Cause;
use crate::names::readable;
use crate::restore::contents::{self, Source};
use crate::restore::plan::{AddressPlan, Granularities, Memory, Want};
use crate::restore::reexec;
use crate::restore::segments::{self, Region};
use crate::restore::space::{AddressMode, Arranged, Space, SpaceError};
use crate::restore::translate::Translation;
use crate::state;

/// Code that is tied to a launch.
pub(super) struct Tied<'l> {
    pub handle: KernelHandle,
    pub buffers: Vec<Buffer<'l>>,
    pub translation: Translation,
    pub params: Vec<u8>,
    /// Words of the parameters that were rewritten.
    pub rewritten: u64,
    pub attributes: Vec<LaunchAttribute>,
    pub notes: Vec<String>,
}

/// The variables of a module among a launch's regions, where they were recorded.
pub(super) fn variables<'l>(
    module: ModuleId,
    regions: &[Region<'l>],
) -> Vec<(&'l str, AddressRange)> {
    regions
        .iter()
        .filter_map(|region| match &region.record.owner {
            RegionOwner::Global {
                module: owner,
                name,
            } if *owner == module => Some((name.as_str(), region.range)),
            _ => None,
        })
        .collect()
}

impl<'a> Replayer<'a> {
    fn granularities(&self) -> Granularities {
        Granularities {
            reservation: self.device.reservation_granularity(),
            mapping: self.device.mapping_granularity(),
            host: self.device.host_granularity(),
        }
    }

    /// Memory that a launch needs at fixed places. Variables of the kernel's own module come with
    /// its code.
    pub(super) fn wants(&self, launch: &LaunchRecord, regions: &[Region<'_>]) -> Vec<Want> {
        let module = self
            .archive
            .kernel(launch.kernel)
            .and_then(|kernel| kernel.module);
        regions
            .iter()
            .filter_map(|region| {
                let memory = match &region.record.owner {
                    RegionOwner::Global { module: owner, .. } if Some(*owner) == module => {
                        return None;
                    }
                    RegionOwner::Global { .. } => Memory::Device,
                    RegionOwner::Allocation(id) => {
                        match self.archive.allocation(*id).map(|a| a.kind) {
                            Some(AllocationKind::Host | AllocationKind::HostRegistered) => {
                                Memory::Host
                            }
                            _ => Memory::Device,
                        }
                    }
                };
                // Elsewhere, only device memory can be had.
                let memory = match self.options.addresses {
                    AddressMode::Exact => memory,
                    AddressMode::Remap => Memory::Device,
                };
                Some(Want {
                    range: region.range,
                    memory,
                })
            })
            .collect()
    }

    /// Whether the device is large enough for a launch.
    pub(super) fn fits(&self, wants: &[Want]) -> Result<(), SpaceError> {
        let granularities = self.granularities();
        let mappings = AddressPlan::new(wants, granularities)?.mappings(wants, granularities)?;
        let needed = mappings
            .device
            .iter()
            .chain(&mappings.host)
            .fold(0u64, |sum, range| sum.saturating_add(range.len()));
        let total = self.device.info().total_memory;
        if needed > total {
            Err(SpaceError::TooLarge { needed, total })
        } else {
            Ok(())
        }
    }

    pub(super) fn restore_inner<'l>(
        &mut self,
        launch: &'l LaunchRecord,
    ) -> Result<Restored<'l>, Cause>
    where
        'a: 'l,
    {
        let archive = self.archive;
        let kernel = archive
            .kernel(launch.kernel)
            .ok_or(Cause::NoKernel(launch.kernel))?;
        let regions = segments::regions(launch)?;
        let blocks = self.blocks(launch)?;
        let arranged = self.arrange_inner(launch, &regions)?;
        let mut notes = arranged.notes;
        let mut known = std::mem::take(&mut self.known);
        known.retain(|k| !arranged.fresh.iter().any(|fresh| fresh.overlaps(k.range)));
        let module = kernel.module.ok_or(Cause::NoCode)?;
        let (loaded, note) =
            self.modules
                .load(self.device, kernel, &variables(module, &regions))?;
        notes.extend(note);
        notes.extend(state::apply_limits(self.device, launch));
        let shape = Shape::recorded(launch);
        let code = self.bind_inner(launch, kernel, regions, loaded, &kernel.name, &shape)?;
        notes.extend(code.notes);
        let source = Source {
            archive,
            translation: &code.translation,
        };
        if !code.translation.is_empty() {
            // What is known is without rewritten words.
            known.clear();
        }
        let rewritten = Rewritten {
            params: code.rewritten,
            memory: contents::restore(self.device, source, &placed(&code.buffers), &known)?,
        };
        if rewritten != Rewritten::default() {
            notes.push(format!(
                "pointers rewritten to where things lie now: {} in parameters, {} in memory",
                rewritten.params, rewritten.memory
            ));
        }
        Ok(Restored {
            launch,
            kernel,
            form: loaded.form,
            buffers: code.buffers,
            rewritten,
            notes,
            blocks,
            handle: code.handle,
            params: code.params,
            attributes: code.attributes,
            translation: code.translation,
        })
    }

    /// Puts memory where a launch needs it, and takes other memory away.
    pub(super) fn arrange_inner(
        &mut self,
        launch: &LaunchRecord,
        regions: &[Region<'_>],
    ) -> Result<Arranged, Cause> {
        let wants = self.wants(launch, regions);
        self.fits(&wants)
            .map_err(|error| self.explain(launch, regions, error))?;
        if self.space.is_none() {
            let space = Space::reserve(self.device, self.options.addresses, &wants);
            self.space = Some(space.map_err(|error| self.explain(launch, regions, error))?);
        }
        let mut notes = self.kind_notes(regions);
        let Some(space) = &mut self.space else {
            return Err(Cause::NoCode);
        };
        match space.arrange(self.device, &wants) {
            Ok(arranged) => {
                notes.extend(arranged.notes);
                Ok(Arranged { notes, ..arranged })
            }
            Err(error) => Err(self.explain(launch, regions, error)),
        }
    }

    /// Ties loaded code to a launch whose memory is in place: where its variables are, what of its pointers moved, what
    /// it is launched with.
    pub(super) fn bind_inner<'l>(
        &mut self,
        launch: &LaunchRecord,
        kernel: &KernelRecord,
        regions: Vec<Region<'l>>,
        loaded: Loaded,
        entry: &str,
        shape: &Shape,
    ) -> Result<Tied<'l>, Cause> {
        let module = kernel.module.ok_or(Cause::NoCode)?;
        let handle = self
            .device
            .kernel(loaded.handle, entry)?
            .ok_or(Cause::KernelNotFound { module })?;
        let mut notes = Vec::new();
        let names = buffer_names(kernel, launch);
        let mut buffers = Vec::with_capacity(regions.len());
        for region in regions {
            let name = names.get(region.index).cloned().unwrap_or_default();
            let target = self.target(module, loaded.handle, &region, &name, &mut notes)?;
            buffers.push(Buffer {
                region,
                target,
                name,
            });
        }
        let translation = self.translation(&buffers, &mut notes);
        let mut params = launch.params.clone();
        let rewritten = translation.rewrite(0, &mut params);
        notes.extend(state::apply_settings(
            self.device,
            handle,
            launch,
            shape.dynamic_shared,
        )?);
        if let Some(carveout) = shape.carveout {
            state::apply_carveout(self.device, handle, carveout)?;
        }
        let (attributes, more) = state::attributes(launch, |window| {
            buffers
                .iter()
                .any(|b| b.target == Some(b.region.range.start()) && b.region.range.covers(window))
        });
        notes.extend(more);
        Ok(Tied {
            handle,
            buffers,
            translation,
            params,
            rewritten,
            attributes,
            notes,
        })
    }

    /// The blocks that are to run; `None` for all.
    pub(super) fn blocks(&self, launch: &LaunchRecord) -> Result<Option<BlockRange>, Cause> {
        let Some(wanted) = self.options.blocks else {
            return Ok(None);
        };
        let all = BlockRange::all(launch.grid);
        let blocks = wanted.within(launch.grid).ok_or(Cause::NoSuchBlocks {
            wanted,
            have: all.end,
        })?;
        Ok((blocks != all).then_some(blocks))
    }

    /// Notes about kinds of memory that a replay does not reproduce.
    fn kind_notes(&self, regions: &[Region<'_>]) -> Vec<String> {
        if self.device.info().platform == Platform::Cpu {
            // All memory is of one kind there.
            return Vec::new();
        }
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for region in regions {
            let RegionOwner::Allocation(id) = &region.record.owner else {
                continue;
            };
            let kind = match self.archive.allocation(*id).map(|a| a.kind) {
                Some(AllocationKind::Managed) => "managed memory",
                Some(AllocationKind::Ipc) => "memory of another process",
                Some(AllocationKind::External) => "external memory",
                Some(AllocationKind::Foreign) => "memory whose allocation was not seen",
                _ => continue,
            };
            *counts.entry(kind).or_default() += 1;
        }
        counts
            .into_iter()
            .map(|(kind, count)| format!("{kind} ({count} regions) is replayed as device memory"))
            .collect()
    }

    /// Where a region's bytes go.
    fn target(
        &mut self,
        module: ModuleId,
        loaded: ModuleHandle,
        region: &Region<'_>,
        name: &BufferName,
        notes: &mut Vec<String>,
    ) -> Result<Option<u64>, Cause> {
        match &region.record.owner {
            RegionOwner::Global {
                module: owner,
                name: mangled,
            } if *owner == module => {
                let Some(global) = self.device.global(loaded, mangled)? else {
                    if !region.changes.is_empty() {
                        return Err(Cause::NoVariable {
                            name: readable(mangled),
                        });
                    }
                    notes.push(format!(
                        "{} is not in this code, and is not compared",
                        name.shown()
                    ));
                    return Ok(None);
                };
                if global.len < region.range.len() {
                    return Err(Cause::VariableLength {
                        name: readable(mangled),
                        found: global.len,
                        recorded: region.range.len(),
                    });
                }
                Ok(Some(global.address))
            }
            _ => Ok(self
                .space
                .as_ref()
                .and_then(|space| space.place(region.range))),
        }
    }

    /// The translation of everything that lies elsewhere than recorded.
    fn translation(&self, buffers: &[Buffer<'_>], notes: &mut Vec<String>) -> Translation {
        let moved = |global: bool| {
            buffers
                .iter()
                .filter(move |b| {
                    matches!(b.region.record.owner, RegionOwner::Global { .. }) == global
                })
                .filter_map(|b| Some((b.region.range, b.target?)))
                .filter(|(range, target)| range.start() != *target)
        };
        let globals = moved(true).count();
        if globals > 0 && !self.options.follow_globals {
            notes.push(format!(
                "{globals} variables lie elsewhere than recorded; words that point to them are left alone"
            ));
            return Translation::new(moved(false));
        }
        Translation::new(moved(false).chain(moved(true)))
    }

    /// Adds to an error what only the replayer knows.
    fn explain(&self, launch: &LaunchRecord, regions: &[Region<'_>], error: SpaceError) -> Cause {
        let SpaceError::Collision { wanted, occupant } = error else {
            return Cause::Space(error);
        };
        let names = self
            .archive
            .kernel(launch.kernel)
            .map(|kernel| buffer_names(kernel, launch))
            .unwrap_or_default();
        let Some(region) = regions.iter().find(|region| region.range.overlaps(wanted)) else {
            return Cause::Space(SpaceError::Collision { wanted, occupant });
        };
        Cause::Collision {
            allocation: names.get(region.index).map_or_else(
                || format!("region {}", region.index),
                |name| name.shown().to_owned(),
            ),
            range: region.range,
            wanted,
            occupant,
            started_over: reexec::started_over(),
        }
    }
}
