//! Whether a candidate may stand for the original: what it is, what it asks for, and what it leaves.
//!
//! In order, until something is not as it should be:
//!
//! 1. Its guards hold for the launch.
//! 2. Its launch shape is one that CUDA has, and that the device has threads, registers and shared memory for.
//! 3. What was loaded is what was given, and brings along no memory that outlives a launch.
//! 4. Run twice, from the same memory under different poison, it leaves every recorded byte as the original does, and
//!    nothing else. What is right under one poison and wrong under another depends on memory that it never wrote.
//! 5. New tables, which are written anew before each run, are as they were after it.

use r3_archive::model::LaunchRecord;

use super::code;
use super::resident::{Bound, Judgement, Resident, Trouble};
use super::shape::Shape;
use super::stand::{Stand, Stop};
use crate::device::DeviceError;
use crate::evaluate::describe::DeviceDescription;
use crate::evaluate::outcome::Verdict;

/// `CUfunction_attribute` numbers.
const MAX_THREADS: i32 = 0;
const STATIC_SHARED: i32 = 1;
const REGISTERS: i32 = 4;

/// Whether a device can launch bound code so. Returns how many blocks fit on a multiprocessor, where that is known.
pub fn fits(
    resident: &mut Resident<'_>,
    bound: &Bound,
    launch: &LaunchRecord,
    shape: &Shape,
    device: &DeviceDescription,
) -> Result<Option<u32>, Stop> {
    let refused = |why: String| Err(Stop::new(Verdict::Refused, why));
    let trouble = |error: DeviceError| Stop::of_candidate(Trouble::of_device(error, true));
    let handle = bound.handle();
    let target = resident.device();
    let mut attribute = |number| match target.kernel_attribute(handle, number) {
        Ok(value) => Ok(u32::try_from(value).unwrap_or(0)),
        Err(error) => Err(trouble(error)),
    };
    let most = attribute(MAX_THREADS)?;
    let (shared, registers) = (attribute(STATIC_SHARED)?, attribute(REGISTERS)?);
    let threads = shape.threads();
    if most > 0 && threads > most {
        return refused(format!(
            "a block of {threads} threads: this code, with {registers} registers a thread, can have {most}"
        ));
    }
    let shared = shared.saturating_add(shape.dynamic_shared);
    let most = device.max_shared_per_block;
    if most > 0 && shared > most {
        return refused(format!(
            "{shared} bytes of shared memory for a block: the device has {most}"
        ));
    }
    let blocks = resident
        .device()
        .occupancy(handle, threads, shape.dynamic_shared)
        .map_err(trouble)?;
    if blocks == Some(0) {
        return refused(format!(
            "no block fits on a multiprocessor: {threads} threads of {registers} registers, {shared} bytes of shared memory"
        ));
    }
    let grid = shape.grid.iter().map(|n| u64::from(*n)).product::<u64>();
    let at_once = u64::from(blocks.unwrap_or(0)) * u64::from(device.multiprocessors);
    if launch.cooperative && at_once > 0 && grid > at_once {
        return refused(format!(
            "a cooperative launch of {grid} blocks: {at_once} can run at a time"
        ));
    }
    Ok(blocks)
}

/// Runs a candidate twice under different poison.
pub fn gate(stand: &mut Stand<'_, '_>, lane: usize) -> Result<(), Stop> {
    let (one, other) = (stand.keys.key(), stand.keys.key());
    let first = stand.judge(lane, one, "")?;
    if !first.is_right() {
        return Err(Stop::of_judgement(first));
    }
    if let Some(lane) = stand.lanes.get_mut(lane) {
        lane.right_under = Some(one);
    }
    let second = stand.judge(lane, other, ", under another poison")?;
    match second.is_right() {
        true => Ok(()),
        false => Err(explain(stand, lane, other, second)),
    }
}

/// Why a candidate that was right once is wrong later, under a key: the poison, something that it keeps, or chance.
pub fn explain(stand: &mut Stand<'_, '_>, lane: usize, key: u64, found: Judgement) -> Stop {
    let cheats = found.is_cheat();
    let good = stand.lanes.get(lane).and_then(|lane| lane.right_under);
    let mut judged = match Stop::of_judgement(found) {
        Stop::Verdict(judged) if !cheats => judged,
        stop => return stop,
    };
    let mut again = |key: u64, what: &str| stand.judge(lane, key, what).map(|now| now.is_right());
    let runs = (|| {
        Ok::<_, Stop>((
            again(good.unwrap_or(key), ", under the first poison again")?,
            again(key, ", under the same poison again")?,
        ))
    })();
    let (verdict, why) = match runs {
        Err(stop) => return stop,
        Ok((true, false)) => (
            Verdict::Cheat,
            "right or wrong by what is in memory that it overwrites, or that is not its own: it depends on memory that it \
             never wrote",
        ),
        Ok((false, false)) => (
            Verdict::Cheat,
            "right in its first run and wrong since, from the same memory: it keeps something between runs",
        ),
        Ok((_, true)) => (
            Verdict::Wrong,
            "right in some runs and wrong in others, from the same memory (a race?)",
        ),
    };
    judged.verdict = verdict;
    judged.reason = format!("{why}; {}", judged.reason);
    Stop::Verdict(judged)
}

/// A table that code brought along, as it was when it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// What tables that code brought along hold. What the loader dropped, nothing uses.
pub fn tables(
    resident: &mut Resident<'_>,
    bound: &Bound,
    names: &[(String, u64)],
) -> Result<Vec<Table>, Stop> {
    let trouble = |error: DeviceError| Stop::of_candidate(Trouble::of_device(error, true));
    let mut tables = Vec::with_capacity(names.len());
    for (name, len) in names {
        let device = resident.device();
        let place = match device.global(bound.module(), name) {
            Ok(Some(place)) if place.len > 0 => place,
            Ok(_) => continue,
            // A driver may take names that compilers made up for none at all.
            Err(DeviceError::Call { .. }) if code::is_made_up(name) => continue,
            Err(error) => return Err(trouble(error)),
        };
        let mut bytes = vec![0; place.len.min(*len) as usize];
        device.read(place.address, &mut bytes).map_err(trouble)?;
        tables.push(Table {
            name: name.clone(),
            address: place.address,
            bytes,
        });
    }
    Ok(tables)
}

/// Whether the tables that are new hold what they held.
pub fn same_tables(
    resident: &mut Resident<'_>,
    new: &[(String, u64)],
    tables: &[Table],
) -> Result<(), Stop> {
    let trouble = |error: DeviceError| Stop::of_candidate(Trouble::of_device(error, true));
    for table in tables {
        if !new.iter().any(|(name, _)| *name == table.name) {
            continue;
        }
        let mut now = vec![0; table.bytes.len()];
        resident
            .device()
            .read(table.address, &mut now)
            .map_err(trouble)?;
        if now != table.bytes {
            return Err(Stop::new(
                Verdict::Cheat,
                format!(
                    "it wrote to {}, a variable of its own that outlives a launch",
                    table.name
                ),
            ));
        }
    }
    Ok(())
}
