//! What was found out about launches, on disk: a worker that is started again after a candidate broke it need not profile
//! them again.
//!
//! An entry is taken up only for the same archive, launch, code, device, tolerances and version of R3, and only when the
//! original stands it again. What cannot be read, or does not fit, is as if it were not there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use r3_archive::model::LaunchRecord;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::kept::Expected;
use super::layout::{Chunks, Masks, regions};
use super::profile::Inputs;
use super::{Bound, Resident};
use crate::compare::{ElementType, Tolerance};
use crate::device::COMPARE_CHUNK;

/// Increases when the meaning of an entry changes.
const VERSION: u32 = 2;

/// Bits by region: runs of equal bytes.
type Packed = Vec<(u32, Vec<(u8, u64)>)>;

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    version: u32,
    /// Chunks that may be written: region, first chunk, how many.
    chunks: Vec<(u32, u64, u64)>,
    /// Which bytes are poisoned.
    masks: Packed,
    /// The same of bytes that are left alone, in buffers with a tolerance.
    still: Packed,
    read: Vec<u32>,
    without_pointers: Vec<u32>,
    pub deterministic: bool,
    pub as_recorded: bool,
    local: bool,
    rules: Vec<Rule>,
    pub notes: Vec<String>,
}

/// How a buffer is compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Rule {
    region: u32,
    element: ElementType,
    absolute: f64,
    relative: f64,
    ulp: Option<u64>,
}

fn number(region: usize) -> u32 {
    u32::try_from(region).unwrap_or(u32::MAX)
}

fn packed(bits: &[u8]) -> Vec<(u8, u64)> {
    let mut runs: Vec<(u8, u64)> = Vec::new();
    for byte in bits {
        match runs.last_mut() {
            Some((last, count)) if last == byte => *count += 1,
            _ => runs.push((*byte, 1)),
        }
    }
    runs
}

/// The bits of runs, which must be `len` bytes.
fn unpacked(runs: &[(u8, u64)], len: u64) -> Option<Vec<u8>> {
    let total = runs
        .iter()
        .try_fold(0u64, |sum, (_, count)| sum.checked_add(*count))?;
    if total != len {
        return None;
    }
    let mut bits = Vec::with_capacity(usize::try_from(len).ok()?);
    for (byte, count) in runs {
        bits.resize(bits.len() + *count as usize, *byte);
    }
    Some(bits)
}

fn packed_masks(masks: &Masks) -> Packed {
    masks
        .iter()
        .map(|(region, bits)| (number(*region), packed(bits)))
        .collect()
}

fn masks_of(packed: &Packed, record: &LaunchRecord) -> Option<Masks> {
    let regions = regions(record).ok()?;
    let masks = packed.iter().map(|(region, runs)| {
        let region = regions.iter().find(|r| number(r.index) == *region)?;
        Some((
            region.index,
            unpacked(runs, region.range.len().div_ceil(8))?,
        ))
    });
    masks.collect()
}

impl Remembered {
    pub fn chunks(&self, record: &LaunchRecord) -> Option<Chunks> {
        let regions = regions(record).ok()?;
        let mut chunks = Chunks::new();
        for (region, first, count) in &self.chunks {
            let region = regions.iter().find(|r| number(r.index) == *region)?;
            let end = first.checked_add(*count)?;
            if end > region.range.len().div_ceil(COMPARE_CHUNK) {
                return None;
            }
            chunks.extend((*first..end).map(|chunk| (region.index, chunk)));
        }
        Some(chunks)
    }

    pub fn masks(&self, record: &LaunchRecord) -> Option<Masks> {
        masks_of(&self.masks, record)
    }

    pub fn still(&self, record: &LaunchRecord) -> Option<Masks> {
        masks_of(&self.still, record)
    }

    pub fn inputs(&self) -> Inputs {
        let list = |of: &[u32]| of.iter().map(|region| *region as usize).collect();
        Inputs {
            read: list(&self.read),
            without_pointers: list(&self.without_pointers),
        }
    }

    pub fn expected(&self) -> Expected {
        match self.local {
            true => Expected::Local,
            false => Expected::Recorded,
        }
    }

    /// How a region is compared.
    pub fn rule(&self, region: usize) -> Option<(ElementType, Tolerance)> {
        let rule = self
            .rules
            .iter()
            .find(|rule| rule.region == number(region))?;
        let tolerance = Tolerance {
            absolute: rule.absolute,
            relative: rule.relative,
            ulp: rule.ulp,
        };
        Some((rule.element, tolerance))
    }
}

impl Resident<'_> {
    /// Buffers of a launch that are not poisoned: those that were given, and those that are remembered to stop the
    /// original.
    pub(super) fn left_out(&self, bound: &Bound) -> BTreeSet<String> {
        let given = self.options.leave_out.iter();
        let mut out: BTreeSet<String> = given
            .filter(|(launch, _)| *launch == bound.launch())
            .map(|(_, name)| name.clone())
            .collect();
        let file = self.file(bound, "", "faults");
        if let Some(text) = file.and_then(|path| std::fs::read_to_string(path).ok()) {
            out.extend(text.lines().map(str::to_owned));
        }
        out
    }

    /// Remembers that the original stops when a buffer is poisoned.
    pub(super) fn remember_fault(&self, bound: &Bound, name: &str) {
        let mut out = self.left_out(bound);
        out.insert(name.to_owned());
        if let Some(path) = self.file(bound, "", "faults") {
            let lines: Vec<String> = out.into_iter().collect();
            let _ = write(&path, lines.join("\n").as_bytes());
        }
    }

    /// Where the entry of a launch is.
    fn entry(&self, bound: &Bound) -> Option<PathBuf> {
        self.file(bound, &format!("{:?}", self.left_out(bound)), "profile")
    }

    /// Where something about a launch is.
    fn file(&self, bound: &Bound, also: &str, extension: &str) -> Option<PathBuf> {
        let folder = self.options.profiles.as_ref()?;
        let kept = self.launches.get(&bound.launch())?;
        let info = self.replayer.info();
        let identity = format!(
            "{VERSION} {} {:032x} {} {:032x} {:?} {:?} {} {} {} {:?} {}",
            env!("CARGO_PKG_VERSION"),
            u128::from_le_bytes(self.archive().uuid()),
            bound.launch(),
            bound.image(),
            info.compute_capability,
            info.platform,
            info.name,
            self.options.strict,
            self.options.most_poisoned,
            self.options.tolerances,
            also,
        );
        let content = postcard::to_stdvec(&*kept.record).ok()?;
        let hash = xxh3_128(&[identity.as_bytes(), &content].concat());
        Some(folder.join(format!("{hash:032x}.{extension}")))
    }

    /// What is remembered of a launch.
    pub(super) fn recall(&self, bound: &Bound) -> Option<Remembered> {
        let bytes = std::fs::read(self.entry(bound)?).ok()?;
        let (sum, content) = bytes.split_at_checked(8)?;
        if sum != xxh3_64(content).to_le_bytes() {
            return None;
        }
        let entry: Remembered = postcard::from_bytes(content).ok()?;
        (entry.version == VERSION).then_some(entry)
    }

    /// Remembers what was found out about a launch. Failing at that costs time later, and nothing else.
    pub(super) fn remember(
        &self,
        bound: &Bound,
        chunks: &Chunks,
        masks: &Masks,
        inputs: &Inputs,
        notes: &[String],
    ) {
        let (Some(path), Some(kept)) = (self.entry(bound), self.launches.get(&bound.launch()))
        else {
            return;
        };
        let mut runs: Vec<(u32, u64, u64)> = Vec::new();
        for (region, chunk) in chunks {
            match runs.last_mut() {
                Some((last, first, count))
                    if *last == number(*region) && *first + *count == *chunk =>
                {
                    *count += 1;
                }
                _ => runs.push((number(*region), *chunk, 1)),
            }
        }
        let entry = Remembered {
            version: VERSION,
            chunks: runs,
            masks: packed_masks(masks),
            still: packed_masks(&kept.still),
            read: inputs.read.iter().map(|region| number(*region)).collect(),
            without_pointers: inputs
                .without_pointers
                .iter()
                .map(|region| number(*region))
                .collect(),
            deterministic: kept.facts.deterministic,
            as_recorded: kept.facts.as_recorded,
            local: kept.expected == Expected::Local,
            rules: kept
                .facts
                .buffers
                .iter()
                .map(|buffer| Rule {
                    region: number(buffer.region),
                    element: buffer.element,
                    absolute: buffer.tolerance.absolute,
                    relative: buffer.tolerance.relative,
                    ulp: buffer.tolerance.ulp,
                })
                .collect(),
            notes: notes.to_vec(),
        };
        if let Ok(content) = postcard::to_stdvec(&entry) {
            let sum = xxh3_64(&content).to_le_bytes();
            let _ = write(&path, &[sum.as_slice(), &content].concat());
        }
    }
}

/// Writes an entry in one go: nobody sees half of one.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let other = path.with_extension(format!("{}.new", std::process::id()));
    let done = std::fs::write(&other, content).and_then(|()| std::fs::rename(&other, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&other);
    }
    done
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_bits_come_back(bits in prop::collection::vec(0u8..3, 0..200)) {
            let runs = packed(&bits);
            prop_assert_eq!(unpacked(&runs, bits.len() as u64), Some(bits.clone()));
            prop_assert_eq!(unpacked(&runs, bits.len() as u64 + 1), None);
        }
    }

    #[test]
    fn a_length_that_no_machine_has_is_refused() {
        assert_eq!(unpacked(&[(1, u64::MAX), (2, 3)], 2), None);
        assert_eq!(unpacked(&[(1, u64::MAX)], 8), None);
    }
}
