//! One launch after the other: restore its memory, set its state, launch it, compare.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use r3_archive::Archive;
use r3_archive::model::{
    AllocationKind, ImageKind, KernelId, KernelRecord, LaunchAttribute, LaunchId, LaunchRecord,
    ModuleId, RegionOwner,
};
use r3_image::Image;

use crate::code::{self, Code, CodeMode, Form};
use crate::compare::{
    BufferName, ElementType, InferredTypes, Tally, Tolerance, Tolerances, buffer_names,
};
use crate::device::{
    AddressRange, Device, DeviceError, JitOption, KernelHandle, LaunchConfig, ModuleHandle,
};
use crate::error::{Cause, ReplayError};
use crate::names::readable;
use crate::restore::contents::{self, KnownRegion, Placed, Source};
use crate::restore::plan::{AddressPlan, Granularities, Memory, Want};
use crate::restore::reexec;
use crate::restore::segments::{self, Moment, Region};
use crate::restore::space::{AddressMode, Space, SpaceError};
use crate::restore::translate::Translation;
use crate::state;

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions {
    /// Where memory goes.
    pub addresses: AddressMode,
    /// Which code runs.
    pub code: CodeMode,
    /// Whether words that point into a variable follow it when it lies elsewhere than recorded.
    pub follow_globals: bool,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            addresses: AddressMode::Exact,
            code: CodeMode::Auto,
            follow_globals: true,
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
    handle: KernelHandle,
    params: Vec<u8>,
    attributes: Vec<LaunchAttribute>,
    translation: Translation,
}

/// A copy of buffers on the device: where it is, where it belongs, how long it is.
#[derive(Debug)]
pub struct Golden {
    copies: Vec<(u64, u64, u64)>,
}

/// A chunk that is not as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkDifference {
    /// Index into [`Restored::buffers`].
    pub buffer: usize,
    /// Index of the chunk in the buffer.
    pub chunk: u64,
    /// Its offset in bytes.
    pub offset: u64,
}

/// What was found in one buffer.
#[derive(Clone, Debug)]
pub struct BufferResult {
    /// Index into [`Restored::buffers`].
    pub buffer: usize,
    /// Type by which it was compared.
    pub element: ElementType,
    /// Tolerance by which it was compared.
    pub tolerance: Tolerance,
    /// Chunks with a difference.
    pub chunks: u64,
    /// Chunks among them that were looked into.
    pub examined: u64,
    /// Differences in those.
    pub tally: Tally,
}

impl BufferResult {
    /// Whether everything is within the tolerance.
    pub fn ok(&self) -> bool {
        self.tally.out == 0 && self.examined == self.chunks
    }
}

/// Chunks of one buffer that are looked into when there is no tolerance: what differs is wrong
/// anyway.
const MOST_EXAMINED: u64 = 4096;

/// A loaded module.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    handle: ModuleHandle,
    form: Form,
}

/// Replays the launches of an archive on a device.
pub struct Replayer<'a> {
    archive: &'a Archive,
    device: &'a mut dyn Device,
    options: ReplayOptions,
    space: Option<Space>,
    images: HashMap<ModuleId, Image>,
    /// By module, and which part of its image.
    modules: HashMap<(ModuleId, Option<usize>), Loaded>,
    kernels: HashMap<KernelId, (Loaded, Option<String>)>,
    types: HashMap<KernelId, Rc<InferredTypes>>,
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
            images: HashMap::new(),
            modules: HashMap::new(),
            kernels: HashMap::new(),
            types: HashMap::new(),
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

    /// Launches, waits until it is done, and returns its running time in nanoseconds.
    pub fn launch_timed(&mut self, restored: &Restored<'_>) -> Result<f64, ReplayError> {
        self.attempt(restored.launch, |this| {
            this.known.clear();
            Ok(this
                .device
                .launch_timed(restored.handle, &restored.config())?)
        })
    }

    /// Compares all memory with what was recorded after the launch. Buffers without a difference
    /// are left out.
    pub fn compare(
        &mut self,
        restored: &Restored<'_>,
        tolerances: &Tolerances,
    ) -> Result<Vec<BufferResult>, ReplayError> {
        let readable_kernel = readable(&restored.kernel.name);
        let kernel_names = [restored.kernel.name.as_str(), readable_kernel.as_str()];
        let mut results: Vec<BufferResult> = Vec::new();
        let inferred = self.inferred_types(restored.kernel);
        for difference in self.differences(restored)? {
            if results
                .last()
                .is_none_or(|last| last.buffer != difference.buffer)
            {
                let names: Vec<&str> = restored
                    .buffers
                    .get(difference.buffer)
                    .map(|b| b.name.all().collect())
                    .unwrap_or_default();
                let inferred = inferred.get(names.iter().copied());
                let (element, tolerance) = tolerances.of(&kernel_names, &names, inferred);
                results.push(BufferResult {
                    buffer: difference.buffer,
                    element,
                    tolerance,
                    chunks: 0,
                    examined: 0,
                    tally: Tally::default(),
                });
            }
            let Some(result) = results.last_mut() else {
                continue;
            };
            result.chunks += 1;
            if result.tolerance.is_exact() && result.examined >= MOST_EXAMINED {
                continue;
            }
            result.examined += 1;
            let (expected, actual) = self.examine(restored, &difference)?;
            let (element, tolerance) = (result.element, result.tolerance);
            result
                .tally
                .add(difference.offset, &expected, &actual, element, &tolerance);
        }
        Ok(results)
    }

    /// The chunks that are not as recorded after the launch, ascending by buffer and chunk.
    pub fn differences(
        &mut self,
        restored: &Restored<'_>,
    ) -> Result<Vec<ChunkDifference>, ReplayError> {
        self.attempt(restored.launch, |this| this.differences_inner(restored))
    }

    /// The recorded and the present bytes of a chunk.
    pub fn examine(
        &mut self,
        restored: &Restored<'_>,
        difference: &ChunkDifference,
    ) -> Result<(Vec<u8>, Vec<u8>), ReplayError> {
        let recorded = self.recorded(restored, difference.buffer, difference.chunk)?;
        let mut actual = vec![0; recorded.len()];
        if let Some(buffer) = restored.buffers.get(difference.buffer) {
            self.read(restored, buffer, difference.offset, &mut actual)?;
        }
        Ok((recorded, actual))
    }

    /// The recorded bytes of a chunk after the launch, with pointers as they are now.
    pub fn recorded(
        &mut self,
        restored: &Restored<'_>,
        buffer: usize,
        chunk: u64,
    ) -> Result<Vec<u8>, ReplayError> {
        self.attempt(restored.launch, |this| {
            let Some(buffer) = restored.buffers.get(buffer) else {
                return Ok(Vec::new());
            };
            let (_, len) = buffer.region.chunk(chunk);
            let mut bytes = vec![0; len as usize];
            let source = this.source(restored);
            source.read(
                &buffer.region,
                chunk,
                buffer.region.after(chunk),
                &mut bytes,
            )?;
            Ok(bytes)
        })
    }

    fn source<'s>(&self, restored: &'s Restored<'_>) -> Source<'s>
    where
        'a: 's,
    {
        Source {
            archive: self.archive,
            translation: &restored.translation,
        }
    }

    /// Reads a buffer as it is on the device now.
    pub fn read(
        &mut self,
        restored: &Restored<'_>,
        buffer: &Buffer<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| match buffer.target {
            Some(target) => Ok(this.device.read(target + offset, out)?),
            None => Ok(()),
        })
    }

    /// Copies, on the device, all buffers that the recorded launch changed. To be taken right after
    /// [`Self::restore`].
    pub fn keep_copy(&mut self, restored: &Restored<'_>) -> Result<Golden, ReplayError> {
        self.attempt(restored.launch, |this| {
            let mut golden = Golden { copies: Vec::new() };
            for buffer in restored
                .buffers
                .iter()
                .filter(|b| !b.region.changes.is_empty())
            {
                let Some(target) = buffer.target else {
                    continue;
                };
                let len = buffer.region.range.len();
                let copied = this.device.allocate(len).and_then(|copy| {
                    golden.copies.push((copy, target, len));
                    this.device.copy(target, copy, len)
                });
                if let Err(error) = copied {
                    for (copy, _, _) in golden.copies {
                        let _ = this.device.free(copy);
                    }
                    return Err(error.into());
                }
            }
            this.device.synchronize()?;
            Ok(golden)
        })
    }

    /// Puts the copied buffers back.
    pub fn put_back(
        &mut self,
        restored: &Restored<'_>,
        golden: &Golden,
    ) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| {
            this.known.clear();
            for (copy, target, len) in &golden.copies {
                this.device.copy(*copy, *target, *len)?;
            }
            Ok(this.device.synchronize()?)
        })
    }

    /// Frees a copy.
    pub fn drop_copy(
        &mut self,
        restored: &Restored<'_>,
        golden: Golden,
    ) -> Result<(), ReplayError> {
        self.attempt(restored.launch, |this| {
            for (copy, _, _) in golden.copies {
                this.device.free(copy)?;
            }
            Ok(())
        })
    }

    /// The launch that left the device unusable for this process, if one did.
    pub fn lost(&self) -> Option<LaunchId> {
        self.lost
    }

    /// Takes everything off the device.
    pub fn clear(&mut self) -> Result<(), DeviceError> {
        self.kernels.clear();
        self.known.clear();
        for (_, loaded) in self.modules.drain() {
            self.device.unload(loaded.handle)?;
        }
        match self.space.take() {
            Some(mut space) => space.clear(self.device),
            None => Ok(()),
        }
    }

    /// What the code says of a kernel, when it can be read.
    pub fn kernel_info(&mut self, kernel: KernelId) -> Option<r3_image::KernelInfo> {
        let kernel = self.archive.kernel(kernel)?;
        let module = kernel.module?;
        self.image(module).ok()?.kernel(&kernel.name)
    }

    /// What the kernel's PTX says of the types of its buffers.
    pub fn inferred_types(&mut self, kernel: &KernelRecord) -> Rc<InferredTypes> {
        if let Some(known) = self.types.get(&kernel.id) {
            return Rc::clone(known);
        }
        let types = kernel
            .module
            .and_then(|module| self.image(module).ok())
            .map(|image| InferredTypes::of(image, kernel))
            .unwrap_or_default();
        let types = Rc::new(types);
        self.types.insert(kernel.id, Rc::clone(&types));
        types
    }

    fn image(&mut self, module: ModuleId) -> Result<&Image, Cause> {
        let record = self.archive.module(module).ok_or(Cause::NoModule(module))?;
        match self.images.entry(module) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(entry) => {
                let bytes = self.archive.read_blob(&record.image)?;
                Ok(entry.insert(Image::from_vec(bytes)))
            }
        }
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

    fn granularities(&self) -> Granularities {
        Granularities {
            reservation: self.device.reservation_granularity(),
            mapping: self.device.mapping_granularity(),
            host: self.device.host_granularity(),
        }
    }

    /// Memory that a launch needs at fixed places. Variables of the kernel's own module come with
    /// its code.
    fn wants(&self, launch: &LaunchRecord, regions: &[Region<'_>]) -> Vec<Want> {
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
    fn fits(&self, wants: &[Want]) -> Result<(), SpaceError> {
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

    fn restore_inner<'l>(&mut self, launch: &'l LaunchRecord) -> Result<Restored<'l>, Cause>
    where
        'a: 'l,
    {
        let archive = self.archive;
        let kernel = archive
            .kernel(launch.kernel)
            .ok_or(Cause::NoKernel(launch.kernel))?;
        let regions = segments::regions(launch)?;
        let wants = self.wants(launch, &regions);
        self.fits(&wants)
            .map_err(|error| self.explain(launch, &regions, error))?;
        if self.space.is_none() {
            let space = Space::reserve(self.device, self.options.addresses, &wants);
            self.space = Some(space.map_err(|error| self.explain(launch, &regions, error))?);
        }
        let mut notes = self.kind_notes(&regions);
        let Some(space) = &mut self.space else {
            return Err(Cause::NoCode);
        };
        let mut known = std::mem::take(&mut self.known);
        match space.arrange(self.device, &wants) {
            Ok(arranged) => {
                known.retain(|k| !arranged.fresh.iter().any(|fresh| fresh.overlaps(k.range)));
                notes.extend(arranged.notes);
            }
            Err(error) => return Err(self.explain(launch, &regions, error)),
        }
        let (loaded, note) = self.load(kernel)?;
        notes.extend(note);
        let module = kernel.module.ok_or(Cause::NoCode)?;
        let handle = self
            .device
            .kernel(loaded.handle, &kernel.name)?
            .ok_or(Cause::KernelNotFound { module })?;
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
        let mut rewritten = Rewritten {
            params: translation.rewrite(0, &mut params),
            memory: 0,
        };
        notes.extend(state::apply_limits(self.device, launch));
        notes.extend(state::apply_settings(self.device, handle, launch)?);
        let (attributes, more) = state::attributes(launch, |window| {
            buffers
                .iter()
                .any(|b| b.target == Some(b.region.range.start()) && b.region.range.covers(window))
        });
        notes.extend(more);
        let source = Source {
            archive,
            translation: &translation,
        };
        if !translation.is_empty() {
            // What is known is without rewritten words.
            known.clear();
        }
        rewritten.memory = contents::restore(self.device, source, &placed(&buffers), &known)?;
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
            buffers,
            rewritten,
            notes,
            handle,
            params,
            attributes,
            translation,
        })
    }

    /// Notes about kinds of memory that a replay does not reproduce.
    fn kind_notes(&self, regions: &[Region<'_>]) -> Vec<String> {
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

    /// The kernel's module on the device, and what the user should know about it.
    fn load(&mut self, kernel: &KernelRecord) -> Result<(Loaded, Option<String>), Cause> {
        if let Some(known) = self.kernels.get(&kernel.id) {
            return Ok(known.clone());
        }
        let loaded = self.load_new(kernel)?;
        self.kernels.insert(kernel.id, loaded.clone());
        Ok(loaded)
    }

    fn load_new(&mut self, kernel: &KernelRecord) -> Result<(Loaded, Option<String>), Cause> {
        let id = kernel.module.ok_or(Cause::NoCode)?;
        let record = self.archive.module(id).ok_or(Cause::NoModule(id))?;
        let capability = self.device.info().compute_capability;
        let mode = self.options.code;
        let Code {
            bytes,
            part,
            form,
            note,
        } = code::choose(self.image(id)?, &kernel.name, capability, mode)?;
        if let Some(loaded) = self.modules.get(&(id, part)) {
            return Ok((Loaded { form, ..*loaded }, note));
        }
        let (options, dropped) = jit_options(&record.jit_options);
        // Options are for compiling; machine code takes none of them.
        let options = if record.kind == ImageKind::Cubin {
            Vec::new()
        } else {
            options
        };
        let handle = self.device.load(&bytes, &options)?;
        let loaded = Loaded { handle, form };
        self.modules.insert((id, part), loaded);
        let note = match (note, dropped) {
            (note, None) => note,
            (None, dropped) => dropped,
            (Some(note), Some(dropped)) => Some(format!("{note}; {dropped}")),
        };
        Ok((loaded, note))
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

    fn differences_inner(
        &mut self,
        restored: &Restored<'_>,
    ) -> Result<Vec<ChunkDifference>, Cause> {
        let source = self.source(restored);
        let placed = placed(&restored.buffers);
        let indices: Vec<usize> = (0..restored.buffers.len())
            .filter(|&index| {
                restored
                    .buffers
                    .get(index)
                    .is_some_and(|b| b.target.is_some())
            })
            .collect();
        let different = contents::different_chunks(self.device, source, &placed)?;
        if different.is_empty() && restored.translation.is_empty() {
            // Every byte was compared: the next launch need not be given what is there.
            self.known = placed
                .iter()
                .filter(|placed| !placed.by_reading)
                .filter_map(|placed| {
                    let range = AddressRange::new(placed.target, placed.region.range.len())?;
                    let segments = placed.region.segments(Moment::After);
                    Some(KnownRegion { range, segments })
                })
                .collect();
        }
        Ok(different
            .into_iter()
            .filter_map(|chunk| {
                Some(ChunkDifference {
                    buffer: *indices.get(chunk.region)?,
                    chunk: chunk.chunk,
                    offset: placed.get(chunk.region)?.region.chunk(chunk.chunk).0,
                })
            })
            .collect())
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
        }
    }
}

fn placed<'l>(buffers: &[Buffer<'l>]) -> Vec<Placed<'l>> {
    buffers
        .iter()
        .filter_map(|buffer| {
            Some(Placed {
                region: buffer.region,
                target: buffer.target?,
                by_reading: matches!(buffer.region.record.owner, RegionOwner::Global { .. }),
            })
        })
        .collect()
}

/// Errors after which a context can do nothing more: from `CUDA_ERROR_ILLEGAL_ADDRESS` on, ECC
/// errors, assertions.
const STICKY: [i32; 13] = [
    214, 700, 701, 702, 708, 709, 710, 714, 715, 716, 717, 718, 719,
];

/// `CUjit_option` numbers whose values are plain numbers and shape the code.
const PLAIN_JIT_OPTIONS: [u32; 18] = [
    0, 1, 7, 8, 10, 11, 13, 14, 15, 16, 20, 21, 22, 23, 24, 30, 31, 32,
];

/// `CUjit_option` numbers that give the addresses of host-defined symbols.
const SYMBOL_JIT_OPTIONS: [u32; 3] = [17, 18, 19];

/// The options that can be given again, and a note when an important one cannot.
fn jit_options(recorded: &[(u32, u64)]) -> (Vec<JitOption>, Option<String>) {
    let options = recorded
        .iter()
        .filter(|(option, _)| PLAIN_JIT_OPTIONS.contains(option))
        .map(|&(option, value)| JitOption { option, value })
        .collect();
    let symbols = recorded
        .iter()
        .any(|(option, _)| SYMBOL_JIT_OPTIONS.contains(option));
    let note = symbols.then(|| {
        "the application linked symbols of its own into the code, which a replay cannot".to_owned()
    });
    (options, note)
}

#[cfg(test)]
mod tests;
