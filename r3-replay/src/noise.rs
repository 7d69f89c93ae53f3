//! How much the original itself varies from run to run, and the tolerance that follows.
//!
//! Runs of the replayed original are compared with the first of them, not with the recording: a replay
//! that is wrong in the same way each time has no spread, and gets no tolerance.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use r3_archive::Archive;
use r3_archive::model::LaunchId;
use serde::Serialize;

use crate::compare::{
    BufferRule, ElementType, InferredTypes, TOLERANCE_VERSION, Tally, Tolerance, ToleranceFile,
    Tolerances,
};
use crate::error::ReplayError;
use crate::names::readable;
use crate::replay::{Replayer, Restored};

/// Suggested tolerances are this many times the spread that was seen: few runs do not show the
/// largest one.
const MARGIN: f64 = 4.0;

/// Relative spreads up to this are taken as rounding; larger ones come from results near zero, for
/// which only an absolute tolerance makes sense.
const ROUNDING: f64 = 1e-3;

/// Element types that are tried on a buffer whose type is not known.
const CANDIDATES: [ElementType; 4] = [
    ElementType::F32,
    ElementType::F64,
    ElementType::F16,
    ElementType::BF16,
];

/// The spread of one buffer.
#[derive(Clone, Debug, Serialize)]
pub struct BufferNoise {
    /// Name of the buffer.
    pub buffer: String,
    /// Length in bytes.
    pub len: u64,
    /// Type of its elements.
    #[serde(rename = "type")]
    pub element: ElementType,
    /// The type was guessed from the values that differ.
    pub guessed: bool,
    /// Elements that differed from the first run in some run, each counted once.
    pub elements: u64,
    /// Largest absolute difference from the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absolute: Option<f64>,
    /// Largest relative difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// Largest difference in representable values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ulp: Option<u64>,
    /// The tolerance that follows; absent when a difference has no finite value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested: Option<BufferRule>,
}

/// The spread of one launch.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchNoise {
    /// The launch.
    pub launch: LaunchId,
    /// Its kernel, readable.
    pub kernel: String,
    /// Runs.
    pub runs: u32,
    /// Buffers that differed between runs; all others were equal bit for bit.
    pub buffers: Vec<BufferNoise>,
    /// Buffers that were the same in all runs, but not as recorded.
    pub always_different: Vec<String>,
    /// Notes.
    pub notes: Vec<String>,
    /// Why it could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Measures a launch. `known` gives element types.
pub fn measure(
    archive: &Archive,
    replayer: &mut Replayer<'_>,
    id: LaunchId,
    runs: u32,
    known: &Tolerances,
) -> LaunchNoise {
    let mut noise = LaunchNoise {
        launch: id,
        kernel: String::new(),
        runs: 0,
        buffers: Vec::new(),
        always_different: Vec::new(),
        notes: Vec::new(),
        error: None,
    };
    let launch = match archive.load_launch(id) {
        Ok(launch) => launch,
        Err(error) => {
            noise.error = Some(error.to_string());
            return noise;
        }
    };
    noise.kernel = archive.kernel(launch.kernel).map_or_else(
        || format!("kernel {}", launch.kernel),
        |kernel| readable(&kernel.name),
    );
    let mut spread = Spread::default();
    for run in 0..runs.max(2) {
        match one_run(replayer, &launch, run, &mut spread) {
            Ok(restored) => {
                noise.runs = run + 1;
                if run + 1 == runs.max(2) {
                    let inferred = replayer.inferred_types(restored.kernel);
                    spread.report(&restored, known, &inferred, &mut noise);
                }
            }
            Err(error) => {
                noise.error = Some(error.cause.to_string());
                return noise;
            }
        }
    }
    noise
}

fn one_run<'l, 'a: 'l>(
    replayer: &mut Replayer<'a>,
    launch: &'l r3_archive::model::LaunchRecord,
    run: u32,
    spread: &mut Spread,
) -> Result<Restored<'l>, ReplayError> {
    let restored = replayer.restore(launch)?;
    replayer.launch(&restored)?;
    let mut found: BTreeMap<(usize, u64), Vec<u8>> = BTreeMap::new();
    for difference in replayer.differences(&restored)? {
        let (_, actual) = replayer.examine(&restored, &difference)?;
        found.insert((difference.buffer, difference.chunk), actual);
    }
    spread
        .differs
        .extend(found.keys().map(|(buffer, _)| *buffer));
    if run == 0 {
        spread.first = found;
        return Ok(restored);
    }
    // A chunk that was not found different holds what was recorded.
    let chunks: BTreeSet<_> = spread.first.keys().chain(found.keys()).copied().collect();
    for (buffer, chunk) in chunks {
        let recorded = match (
            spread.first.get(&(buffer, chunk)),
            found.get(&(buffer, chunk)),
        ) {
            (Some(_), Some(_)) => Vec::new(),
            _ => replayer.recorded(&restored, buffer, chunk)?,
        };
        let one = spread.first.get(&(buffer, chunk)).unwrap_or(&recorded);
        let other = found.get(&(buffer, chunk)).unwrap_or(&recorded);
        if one == other {
            continue;
        }
        let offset = restored
            .buffers
            .get(buffer)
            .map_or(0, |b| b.region.chunk(chunk).0);
        let tallies = spread.tallies.entry(buffer).or_default();
        for element in types() {
            tallies
                .entry(element)
                .or_default()
                .add(offset, one, other, element, &Tolerance::EXACT);
            let sizes = spread.sizes.entry((buffer, element)).or_default();
            sizes.add(one, other, element);
        }
        let varied = spread.varied.entry((buffer, chunk)).or_default();
        varied.resize(one.len().max(varied.len()), false);
        for ((mark, a), b) in varied.iter_mut().zip(one).zip(other) {
            *mark |= a != b;
        }
    }
    Ok(restored)
}

/// All types that are known, since a buffer's own is only looked up at the end.
fn types() -> impl Iterator<Item = ElementType> {
    let known = |element: &ElementType| *element != ElementType::Bits;
    ElementType::ALL.into_iter().filter(known)
}

/// What the runs of one launch showed.
#[derive(Default)]
struct Spread {
    /// Chunks of the first run that were not as recorded.
    first: BTreeMap<(usize, u64), Vec<u8>>,
    /// Buffers that were not as recorded in some run.
    differs: BTreeSet<usize>,
    tallies: BTreeMap<usize, HashMap<ElementType, Tally>>,
    sizes: HashMap<(usize, ElementType), Sizes>,
    /// By buffer and chunk: which bytes were not the same in some run.
    varied: BTreeMap<(usize, u64), Vec<bool>>,
}

/// Differences told apart by whether they look like rounding.
#[derive(Clone, Copy, Default)]
struct Sizes {
    /// Largest relative difference among the small ones.
    relative: f64,
    /// Largest absolute difference among the others.
    absolute: f64,
}

impl Sizes {
    fn add(&mut self, one: &[u8], other: &[u8], element: ElementType) {
        let size = element.size();
        for (a, b) in one
            .chunks(size)
            .zip(other.chunks(size))
            .filter(|(a, b)| a != b)
        {
            let difference = element.difference(a, b, &Tolerance::EXACT);
            if !difference.absolute.is_finite() {
                continue;
            }
            if difference.relative <= ROUNDING {
                self.relative = self.relative.max(difference.relative);
            } else {
                self.absolute = self.absolute.max(difference.absolute);
            }
        }
    }
}

impl Spread {
    /// Elements of a buffer that varied. Chunks hold whole elements.
    fn elements(&self, buffer: usize, element: ElementType) -> u64 {
        self.varied
            .range((buffer, 0)..=(buffer, u64::MAX))
            .flat_map(|(_, bytes)| bytes.chunks(element.size()))
            .filter(|bytes| bytes.contains(&true))
            .count() as u64
    }

    fn report(
        &mut self,
        restored: &Restored<'_>,
        known: &Tolerances,
        inferred: &InferredTypes,
        noise: &mut LaunchNoise,
    ) {
        noise.notes.clone_from(&restored.notes);
        let readable_kernel = readable(&restored.kernel.name);
        let kernel_names = [restored.kernel.name.as_str(), readable_kernel.as_str()];
        for buffer in &self.differs {
            if !self.tallies.contains_key(buffer)
                && let Some(buffer) = restored.buffers.get(*buffer)
            {
                noise.always_different.push(buffer.name.shown().to_owned());
            }
        }
        for (index, tallies) in std::mem::take(&mut self.tallies) {
            let Some(buffer) = restored.buffers.get(index) else {
                continue;
            };
            let names: Vec<&str> = buffer.name.all().collect();
            let (element, guessed) = match known
                .of(&kernel_names, &names, inferred.get(names.iter().copied()))
                .0
            {
                ElementType::Bits => (guess(&tallies), true),
                element => (element, false),
            };
            let Some(tally) = tallies.get(&element) else {
                continue;
            };
            let sizes = self
                .sizes
                .get(&(index, element))
                .copied()
                .unwrap_or_default();
            let suggested = (tally.not_finite == 0).then(|| BufferRule {
                kernel: Some(restored.kernel.name.clone()),
                buffer: Some(buffer.name.shown().to_owned()),
                element,
                absolute: MARGIN * sizes.absolute,
                relative: MARGIN * sizes.relative,
                ulp: None,
            });
            noise.buffers.push(BufferNoise {
                buffer: buffer.name.shown().to_owned(),
                len: buffer.region.range.len(),
                element,
                guessed,
                elements: self.elements(index, element),
                absolute: tally.largest_absolute,
                relative: tally.largest_relative,
                ulp: tally.largest_ulp,
                suggested,
            });
        }
    }
}

/// The floating-point type under which the differences are fewest representable values apart:
/// rounding changes the last bits of a number, which are no number's last bits under a wrong type.
/// A wide type and its low half cannot be told apart by that, so that a narrow one, which asks for
/// more, is preferred.
fn guess(tallies: &HashMap<ElementType, Tally>) -> ElementType {
    CANDIDATES
        .into_iter()
        .filter_map(|element| {
            let tally = tallies.get(&element)?;
            Some((
                tally.not_finite,
                tally.largest_ulp.unwrap_or(u64::MAX),
                element,
            ))
        })
        .min_by_key(|(not_finite, ulp, _)| (*not_finite, *ulp))
        .map_or(ElementType::F32, |(_, _, element)| element)
}

/// The tolerance file for some launches: for each kernel and buffer, the largest spread of all
/// launches.
pub fn tolerance_file(launches: &[LaunchNoise]) -> ToleranceFile {
    let mut rules: BTreeMap<(String, String), BufferRule> = BTreeMap::new();
    for rule in launches
        .iter()
        .flat_map(|l| &l.buffers)
        .filter_map(|b| b.suggested.as_ref())
    {
        let key = (
            rule.kernel.clone().unwrap_or_default(),
            rule.buffer.clone().unwrap_or_default(),
        );
        rules
            .entry(key)
            .and_modify(|known| {
                if known.element == rule.element {
                    known.absolute = known.absolute.max(rule.absolute);
                    known.relative = known.relative.max(rule.relative);
                }
            })
            .or_insert_with(|| rule.clone());
    }
    ToleranceFile {
        version: TOLERANCE_VERSION,
        buffers: rules.into_values().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use r3_archive::model::AllocationKind;

    use super::*;
    use crate::replay::ReplayOptions;
    use crate::testing::{TestArchive, TestDevice, TestRegion};
    use crate::verify::{Outcome, VerifyOptions, verify_launch};

    const A: u64 = 0x7f12_3460_0000;

    fn floats(values: [f32; 4]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    /// A launch that leaves a sum in the first element, and a device that gets another last bit
    /// each time.
    fn noisy() -> (Archive, TestDevice) {
        let mut archive = TestArchive::new();
        archive.allocation(1, A, 16, AllocationKind::Device);
        archive.launch(&[TestRegion::memory(
            1,
            A,
            floats([0.0, 2.0, 3.0, 4.0]),
            floats([1000.0, 2.0, 3.0, 4.0]),
        )]);
        let run = Cell::new(0u32);
        let device = TestDevice::new().with_kernel("kernel", move |memory, _| {
            run.set(run.get() + 1);
            let bits = 1000f32.to_bits() + run.get() % 3;
            let second = 2f32.to_bits();
            memory.store(A, u64::from(second) << 32 | u64::from(bits))
        });
        (archive.open(), device)
    }

    #[test]
    fn the_suggested_tolerance_accepts_the_noise_and_no_more() {
        let (archive, mut device) = noisy();
        let mut replayer = Replayer::new(&archive, &mut device, ReplayOptions::default());
        let noise = measure(
            &archive,
            &mut replayer,
            LaunchId(1),
            10,
            &Tolerances::exact(),
        );
        assert_eq!(noise.error, None);
        let buffer = &noise.buffers[0];
        assert_eq!(
            (buffer.element, buffer.guessed, buffer.ulp),
            (ElementType::F32, true, Some(1))
        );
        assert_eq!(buffer.elements, 1, "once, however many runs show it");
        let mut tolerances = Tolerances::exact();
        for rule in tolerance_file(&[noise]).buffers {
            tolerances.add(rule).unwrap();
        }
        let mut outcome = |tolerances: &Tolerances| {
            let options = VerifyOptions {
                repeat: 2,
                ..VerifyOptions::exactly(tolerances)
            };
            verify_launch(&archive, &mut replayer, LaunchId(1), options).outcome
        };
        assert_eq!(outcome(&tolerances), Outcome::Within);
        assert_eq!(outcome(&Tolerances::exact()), Outcome::Mismatch);
    }

    #[test]
    fn what_is_wrong_each_time_gets_no_tolerance() {
        let (archive, _) = noisy();
        let mut device = TestDevice::new().with_kernel("kernel", |memory, _| memory.store(A, 7));
        let mut replayer = Replayer::new(&archive, &mut device, ReplayOptions::default());
        let noise = measure(
            &archive,
            &mut replayer,
            LaunchId(1),
            4,
            &Tolerances::exact(),
        );
        assert!(noise.buffers.is_empty());
        assert_eq!(noise.always_different, ["arg0"]);
        assert!(tolerance_file(&[noise]).buffers.is_empty());
    }
}
