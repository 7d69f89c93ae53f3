//! Variables of the kernel's own module: they come with each code, wherever that puts them.
//!
//! Constant memory can be reached by copies only, not by kernels, and nothing says which variable is in it. All that fit
//! into it are therefore kept on the host, written, and compared there. Larger ones are memory like any other, only
//! elsewhere for each code.

use r3_archive::Archive;
use r3_archive::chunk::{CHUNK_SIZE, ChunkRef};

use super::judgement::Judgement;
use super::{Bound, Resident, Trouble, not_ready};
use crate::compare::{ElementType, Tally, Tolerance};
use crate::device::AddressRange;
use crate::restore::segments::Region;

/// Constant memory of a module, and so the longest variable that may be in it.
pub(super) const CONSTANT_MEMORY: u64 = 64 << 10;

/// A variable whose bytes are kept on the host.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// Index of the region in the record.
    pub region: usize,
    /// Where it was recorded.
    pub range: AddressRange,
    /// Name, for people.
    pub name: String,
    pub before: Vec<u8>,
    pub expected: Vec<u8>,
    pub element: ElementType,
    pub tolerance: Tolerance,
}

impl Variable {
    /// Reads a variable from the archive. At most [`CONSTANT_MEMORY`] bytes long.
    pub fn read(archive: &Archive, region: &Region<'_>, name: &str) -> Result<Self, Trouble> {
        let read = |of: &dyn Fn(u64) -> ChunkRef| {
            let mut bytes = vec![0; region.range.len() as usize];
            for (chunk, part) in (0u64..).zip(bytes.chunks_mut(CHUNK_SIZE)) {
                archive
                    .read_chunk(of(chunk), part)
                    .map_err(|error| Trouble::Machine(error.to_string()))?;
            }
            Ok::<_, Trouble>(bytes)
        };
        Ok(Self {
            region: region.index,
            range: region.range,
            name: name.to_owned(),
            before: read(&|chunk| region.before(chunk))?,
            expected: read(&|chunk| region.after(chunk))?,
            element: ElementType::Bits,
            tolerance: Tolerance::EXACT,
        })
    }

    /// Whether the launch changes it.
    pub fn changes(&self) -> bool {
        self.before != self.expected
    }
}

impl Resident<'_> {
    /// Writes the variables of bound code: all of them, or those that may have changed.
    pub(super) fn write_variables(&mut self, bound: &Bound, all: bool) -> Result<(), Trouble> {
        let all = all || bound.variables.get() != self.distrusted;
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Ok(());
        };
        write(
            &mut self.replayer,
            bound,
            kept.variables.iter().filter(|v| all || v.changes()),
        )?;
        bound.variables.set(self.distrusted);
        Ok(())
    }

    /// Takes what variables hold now as what is expected of them. Returns whether that is what was recorded.
    pub(super) fn keep_variables(&mut self, bound: &Bound) -> Result<bool, Trouble> {
        let mut as_recorded = true;
        for (region, now) in self.read_small(bound)? {
            let Some(kept) = self.launches.get_mut(&bound.launch()) else {
                continue;
            };
            for variable in kept.variables.iter_mut().filter(|v| v.region == region) {
                let mut recorded = variable.expected.clone();
                let at = variable.range.start();
                bound.code.translation.rewrite(at, &mut recorded);
                if now != recorded {
                    as_recorded = false;
                    variable.expected.clone_from(&now);
                }
            }
        }
        Ok(as_recorded)
    }

    pub(super) fn same_variables(&mut self, bound: &Bound) -> Result<bool, Trouble> {
        let now = self.read_small(bound)?;
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        Ok(now.iter().all(|(region, now)| {
            let variables = kept.variables.iter().filter(|v| v.region == *region);
            variables.into_iter().all(|variable| {
                let mut expected = variable.expected.clone();
                let at = variable.range.start();
                bound.code.translation.rewrite(at, &mut expected);
                *now == expected
            })
        }))
    }

    /// The small variables as they are now, by region.
    pub(super) fn read_small(&mut self, bound: &Bound) -> Result<Vec<(usize, Vec<u8>)>, Trouble> {
        let Some(kept) = self.launches.get(&bound.launch()) else {
            return Err(not_ready(bound.launch()));
        };
        let list: Vec<(usize, usize)> = kept
            .variables
            .iter()
            .map(|v| (v.region, v.before.len()))
            .collect();
        let mut found = Vec::new();
        for (region, len) in list {
            let Some(target) = bound.code.targets.get(region).copied().flatten() else {
                continue;
            };
            let mut bytes = vec![0; len];
            self.replayer
                .device()
                .read(target.start(), &mut bytes)
                .map_err(|error| Trouble::of_device(error, false))?;
            found.push((region, bytes));
        }
        Ok(found)
    }
}

/// Writes variables as they were before the launch.
pub(super) fn write<'v>(
    replayer: &mut crate::replay::Replayer<'_>,
    bound: &Bound,
    variables: impl Iterator<Item = &'v Variable>,
) -> Result<(), Trouble> {
    for variable in variables {
        let Some(target) = bound.code.targets.get(variable.region).copied().flatten() else {
            continue;
        };
        let mut bytes = variable.before.clone();
        let recorded = variable.range.start();
        bound.code.translation.rewrite(recorded, &mut bytes);
        replayer
            .device()
            .write(target.start(), &bytes)
            .map_err(|error| Trouble::of_device(error, bound.candidate))?;
    }
    Ok(())
}

/// Compares variables with what they should be after the launch.
pub(super) fn judge(
    replayer: &mut crate::replay::Replayer<'_>,
    bound: &Bound,
    variables: &[Variable],
    judgement: &mut Judgement,
) -> Result<(), Trouble> {
    for variable in variables {
        let Some(target) = bound.code.targets.get(variable.region).copied().flatten() else {
            continue;
        };
        let mut actual = vec![0; variable.expected.len()];
        replayer
            .device()
            .read(target.start(), &mut actual)
            .map_err(|error| Trouble::of_device(error, bound.candidate))?;
        let mut expected = variable.expected.clone();
        let recorded = variable.range.start();
        bound.code.translation.rewrite(recorded, &mut expected);
        let mut tally = Tally::default();
        tally.add(0, &expected, &actual, variable.element, &variable.tolerance);
        judgement.add_tally(&variable.name, &tally, !variable.changes());
    }
    Ok(())
}
