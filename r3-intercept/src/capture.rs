//! Records one launch: the memory before it, the launch itself, the memory after it.
//!
//! One launch at a time is recorded. The program's thread waits here for its stream and for the copies,
//! with a time limit; a launch that cannot be recorded in time is made as if R3 were not there.

use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use r3_archive::model::{
    AllocationKind, LaunchAttribute, LaunchId, LaunchRecord, PointerWord, RegionOwner, Snapshot,
    SnapshotDelta,
};
use r3_options::{SnapshotScope, SyncScope};

use crate::allocations::{self, Allocation};
use crate::contexts::{self, Contexts};
use crate::copy::{CopyError, Copying, Range, wait};
use crate::driver::{self, RelaxedCapture, Stream};
use crate::ffi::{CUDA_SUCCESS, CUresult};
use crate::finish::PendingLaunch;
use crate::guard::guard;
use crate::modules::Function;
use crate::params::{self, Arguments};
use crate::reach::Map;
use crate::select::{self, Counter, Selected, Shape};
use crate::session::{self, Session};
use crate::skip::Skip;
use crate::snapshot::{Region, Snapshots, Target, Unreadable};
use crate::{finish, log, process, trigger};

/// A launch as the program asked for it.
pub struct Launch {
    pub entry_point: &'static str,
    pub shape: Shape,
    /// The stream; default streams by their explicit handles.
    pub stream: usize,
    pub cooperative: bool,
    pub attributes: Vec<LaunchAttribute>,
    pub arguments: Arguments,
}

static NEXT_LAUNCH: AtomicU64 = AtomicU64::new(1);

/// A launch between its two snapshots.
struct Half {
    contexts: MutexGuard<'static, Option<Contexts>>,
    context: usize,
    session: &'static Session,
    record: LaunchRecord,
    regions: Vec<Region>,
    stream: Stream,
}

/// Makes a selected launch and records it.
#[cold]
pub fn record(launch: &Launch, selected: &Selected, call: &dyn Fn() -> CUresult) -> CUresult {
    let Selected {
        counter,
        occurrence,
        ..
    } = *selected;
    let sequence = select::launches();
    let half = guard(|| Some(before(launch, selected, sequence)));
    let result = call();
    guard(|| {
        if result != CUDA_SUCCESS {
            // A launch that the driver refuses is none.
            counter.refused(occurrence);
            return;
        }
        let recorded = match half {
            Some(Ok(Some(half))) => after(half, counter),
            Some(Err(skip)) => Err(skip),
            Some(Ok(None)) | None => Ok(()),
        };
        if let Err(skip) = recorded {
            if skip.wanted {
                static SAID: AtomicBool = AtomicBool::new(false);
                if !SAID.swap(true, Ordering::Relaxed) {
                    log::info(format_args!("launches are left out: {}", skip.reason));
                }
            } else {
                let name = &counter.kernel().name;
                log::warn(format_args!(
                    "{name}: a launch is not recorded: {}",
                    skip.reason
                ));
            }
            counter.skipped(&skip.reason);
            if skip.for_good {
                counter.give_up();
            }
        }
    });
    result
}

/// Everything up to the launch. `None` when it is not to be recorded for a reason of the user's own.
fn before(launch: &Launch, selected: &Selected, sequence: u64) -> Result<Option<Half>, Skip> {
    let Some(settings) = process::settings() else {
        // Reports what is wrong with the options.
        let _ = session::session();
        return Ok(None);
    };
    if !trigger::is_armed() {
        return Ok(None);
    }
    let Some(session) = session::session() else {
        return Ok(None);
    };
    let options = &settings.options;
    if driver::is_capturing(launch.stream)? {
        selected.counter.uncount(selected.occurrence);
        session::LAUNCHES_INTO_GRAPHS.fetch_add(1, Ordering::Relaxed);
        return Err(Skip {
            wanted: true,
            .."it went into a CUDA graph".into()
        });
    }
    let deadline = Instant::now() + options.timeout;
    let mut contexts = contexts::lock(deadline)?;
    session.has_room().map_err(|reason| Skip {
        wanted: true,
        ..reason.into()
    })?;
    let _relaxed = RelaxedCapture::enter();
    let key = driver::current_context();
    let context = contexts::open(&mut contexts, key)?;

    let function = &*selected.function;
    let layout = function
        .kernel
        .layout(function.handle)
        .map(|(params, _)| params.as_slice());
    // SAFETY: the program's own arguments of a launch that it is about to make.
    let params = unsafe { launch.arguments.copy(layout) }
        .ok_or("the sizes of its parameters are not known")?;
    let stream = Stream::of_program(launch.stream);
    session.device(context.device)?;
    session.kernel(function)?;

    context.mark.record(stream)?;
    wait(context.mark, deadline)?;
    if options.sync == SyncScope::Context {
        driver::synchronize_context()?;
    }
    let mut notes = Vec::new();
    let globals = globals(function);
    adopt_unseen(&params, &globals, &mut notes);
    // What is in the map stays allocated until this is over.
    let copying = Copying::begin();
    let map = Map::new(&allocations::ranges());
    let device = context.device;
    let saved = context
        .snapshots(session, &map, options.memory, deadline)
        .and_then(|mut snapshots| {
            save_reachable(&mut snapshots, device, &params, globals, options.snapshot)
        });
    drop(copying);
    let mut reached = match saved {
        Ok(reached) => reached,
        Err(error) => {
            context.distrust();
            return Err(error.into());
        }
    };
    notes.extend(left_out(
        std::mem::take(&mut reached.unreadable),
        reached.regions.is_empty(),
    )?);
    for index in &reached.allocations {
        session.allocation(&map.allocations()[*index])?;
    }
    let pointers = params::words(&params)
        .filter_map(|(offset, address)| {
            let allocation = map.find(address)?;
            let allocation = map.allocations()[allocation].id;
            Some(PointerWord {
                offset,
                address,
                allocation,
            })
        })
        .collect();
    let cache_config = function.kernel.cache_config.load(Ordering::Relaxed);
    let record = LaunchRecord {
        id: LaunchId(NEXT_LAUNCH.fetch_add(1, Ordering::Relaxed)),
        kernel: function.kernel.id,
        device,
        entry_point: launch.entry_point.to_owned(),
        grid: launch.shape.grid(),
        block: launch.shape.block(),
        dynamic_shared: launch.shape.dynamic_shared(),
        cooperative: launch.cooperative,
        attributes: launch.attributes.clone(),
        params,
        pointers,
        function_settings: function_settings(function),
        cache_config: u32::try_from(cache_config).ok(),
        limits: driver::limits(),
        occurrence: selected.occurrence,
        sequence,
        // SAFETY: no arguments, cannot fail; glibc has no function for it before 2.30.
        thread: unsafe { libc::syscall(libc::SYS_gettid) }.unsigned_abs(),
        unix_ns: session::unix_ns(),
        before: Snapshot::default(),
        after: SnapshotDelta::default(),
        notes,
    };
    let regions = reached.regions;
    Ok(Some(Half {
        contexts,
        context: key,
        session,
        record,
        regions,
        stream,
    }))
}

/// Everything behind the launch.
fn after(half: Half, counter: &'static Counter) -> Result<(), Skip> {
    let Half {
        mut contexts,
        context,
        session,
        mut record,
        regions,
        stream,
    } = half;
    let _relaxed = RelaxedCapture::enter();
    let options = process::settings()
        .map(|s| &s.options)
        .ok_or("no settings")?;
    let context = contexts
        .as_mut()
        .and_then(|contexts| contexts.get_mut(&context))
        .ok_or("its context ended")?;
    let deadline = Instant::now() + options.timeout;
    let bytes: u64 = regions.iter().map(|region| region.range.len).sum();
    context.mark.record(stream)?;
    wait(context.mark, deadline)?;
    let copying = Copying::begin();
    let map = Map::new(&allocations::ranges());
    let (regions, gone): (Vec<Region>, Vec<Region>) =
        regions.into_iter().partition(|region| match region.owner {
            RegionOwner::Allocation(id) => map.holds(region.range.address, id),
            RegionOwner::Global { .. } => true,
        });
    let saved = context
        .snapshots(session, &map, options.memory, deadline)
        .and_then(|mut snapshots| snapshots.after(regions));
    drop(copying);
    let (regions, freed) = match saved {
        Ok(saved) => saved,
        Err(error) => {
            context.distrust();
            return Err(error.into());
        }
    };
    for region in gone {
        record.notes.push(format!(
            "{} was freed during the launch",
            describe(&region.owner)
        ));
    }
    record.notes.extend(left_out(freed, regions.is_empty())?);
    session
        .snapshot_bytes
        .fetch_add(bytes.saturating_mul(2), Ordering::Relaxed);
    session.captured.fetch_add(1, Ordering::Relaxed);
    let launch = PendingLaunch {
        counter,
        record,
        regions,
    };
    finish::submit(session, launch);
    Ok(())
}

/// Notes on memory that is not in the snapshot. A launch of which nothing could be read is not
/// recorded.
fn left_out(unreadable: Vec<Unreadable>, nothing_left: bool) -> Result<Vec<String>, Skip> {
    if let (true, Some((_, error))) = (nothing_left, unreadable.first()) {
        return Err(error.clone().into());
    }
    let note =
        |(owner, error): Unreadable| format!("{} could not be read: {error}", describe(&owner));
    Ok(unreadable.into_iter().map(note).collect())
}

fn describe(owner: &RegionOwner) -> String {
    match owner {
        RegionOwner::Allocation(id) => format!("allocation {id}"),
        RegionOwner::Global { module, name } => format!("variable {name} of module {module}"),
    }
}

/// The variables of the kernel's module, at their addresses in this context.
fn globals(function: &Function) -> Vec<(RegionOwner, Range)> {
    let (Some(image), Some(module)) = (&function.kernel.image, function.module) else {
        return Vec::new();
    };
    let mut globals: Vec<_> = image
        .variables()
        .iter()
        .filter_map(|name| {
            let (address, len) = module.variable(name)?;
            let owner = RegionOwner::Global {
                module: image.id,
                name: name.clone(),
            };
            Some((owner, Range { address, len }))
        })
        .collect();
    globals.sort_by_key(|(_, range)| range.address);
    globals.dedup_by_key(|(_, range)| range.address);
    globals
}

/// Argument words that point into memory whose allocation was not seen: the driver is asked.
fn adopt_unseen(params: &[u8], globals: &[(RegionOwner, Range)], notes: &mut Vec<String>) {
    for (offset, word) in params::words(params) {
        // Small numbers, and more than the 57 bits of any address, are no pointers.
        if !(0x1_0000..1 << 57).contains(&word) || allocations::ranges().find(word).is_some() {
            continue;
        }
        let in_global = |range: &Range| (range.address..range.address + range.len).contains(&word);
        if globals.iter().any(|(_, range)| in_global(range)) {
            continue;
        }
        if let Some((address, len)) = driver::address_range(word) {
            let Allocation { id, .. } = allocations::adopt(address, len);
            notes.push(format!(
                "parameter word at {offset} points into memory whose allocation was not seen \
                 (allocation {id})"
            ));
        } else if (0x7f00_0000_0000..0x8000_0000_0000).contains(&word) {
            notes.push(format!(
                "parameter word at {offset} looks like an address ({word:#x}) of memory that the \
                 driver does not know"
            ));
        }
    }
}

#[derive(Default)]
struct Reached {
    regions: Vec<Region>,
    /// Indices into the map.
    allocations: BTreeSet<usize>,
    unreadable: Vec<Unreadable>,
}

/// Saves the module's variables and what the arguments reach, in waves: what one wave's memory points
/// to is the next wave.
fn save_reachable(
    snapshots: &mut Snapshots<'_>,
    device: i32,
    params: &[u8],
    globals: Vec<(RegionOwner, Range)>,
    scope: SnapshotScope,
) -> Result<Reached, CopyError> {
    let map = snapshots.map;
    let mut reached = Reached::default();
    match scope {
        SnapshotScope::All => reached.allocations.extend(0..map.allocations().len()),
        SnapshotScope::Args | SnapshotScope::Reachable => {
            map.scan(params, &mut reached.allocations);
        }
    }
    let mut wave: Vec<Target> = globals
        .into_iter()
        .map(|(owner, range)| Target {
            owner,
            range,
            on_device: false,
        })
        .collect();
    let mut next: BTreeSet<usize> = reached.allocations.clone();
    loop {
        wave.extend(next.iter().map(|index| {
            let allocation = &map.allocations()[*index];
            let on_device = may_fingerprint(allocation, device);
            let Allocation {
                id, address, len, ..
            } = *allocation;
            let owner = RegionOwner::Allocation(id);
            Target {
                owner,
                range: Range { address, len },
                on_device,
            }
        }));
        if wave.is_empty() {
            break;
        }
        let scan = scope == SnapshotScope::Reachable;
        let mut found = BTreeSet::new();
        let (regions, unreadable) =
            snapshots.before(std::mem::take(&mut wave), scan, &mut found)?;
        reached.regions.extend(regions);
        reached.unreadable.extend(unreadable);
        next = found.difference(&reached.allocations).copied().collect();
        reached.allocations.extend(&next);
    }
    reached.regions.sort_by_key(|region| region.range.address);
    // A variable can lie inside memory that was adopted as an allocation; the first one holds.
    let mut end = 0;
    reached.regions.retain(|region| {
        let disjoint = region.range.address >= end;
        if disjoint {
            end = region.range.address + region.range.len;
        }
        disjoint
    });
    Ok(reached)
}

/// Whether a kernel of ours on `device` may read the memory. A read of memory that it has no access to
/// would end the program's context, so the driver is asked.
fn may_fingerprint(allocation: &Allocation, device: i32) -> bool {
    let plain = match allocation.kind {
        AllocationKind::Device | AllocationKind::Pitched | AllocationKind::Async => true,
        AllocationKind::Mapped => allocation.is_plain,
        _ => false,
    };
    let known_readable = || match driver::is_readable(allocation.address) {
        Some(readable) => readable,
        // Memory from `cuMemAlloc` is always readable on its own device.
        None => allocation.kind == AllocationKind::Device,
    };
    plain && allocation.device == device && known_readable()
}

/// Attributes that a program can set, with their values now: dynamic shared memory, carve-out and
/// the cluster attributes of `CUfunction_attribute`.
fn function_settings(function: &Function) -> Vec<(i32, i32)> {
    const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;
    const LAST: i32 = 15;
    (MAX_DYNAMIC_SHARED_SIZE_BYTES..=LAST)
        .filter_map(|id| function.handle.attribute(id).map(|value| (id, value)))
        .collect()
}
