//! What differs in two regions that stand beside each other.

use r3_archive::ReadError;
use serde::Serialize;

use super::chunks::{chunks, each_chunk, words};
use super::looks::{Look, looks};
use super::pairs::{Kinship, Pair, Regions};
use super::{Side, joined};
use crate::compare::{ElementType, InferredTypes};

/// When.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Before the launch.
    Before,
    /// After it.
    After,
}

impl Moment {
    /// For tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A word that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its offset.
    pub offset: u64,
    /// In the first launch's memory.
    pub a: u64,
    /// In the second's.
    pub b: u64,
    /// Both are addresses of memory that is known.
    pub pointers: bool,
}

/// Words that are kept to be looked at: the first ones.
const MOST_WORDS: usize = 4096;
/// Of these, so many are in a report.
const SHOWN: usize = 4;

/// What was counted of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that differ.
    pub bytes: u64,
    /// Words that differ.
    pub words: u64,
    /// Words among them of which the first launch's is zero; and the second's.
    pub zeros: [u64; 2],
    /// Words that differ and point to the same place.
    pub moved: u64,
    /// The first words that differ.
    pub kept: Vec<Word>,
    /// Chunks that were not looked into.
    pub left_out: u64,
}

/// Memory that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its names.
    pub name: String,
    /// When.
    pub moment: Moment,
    /// Lengths in the launches.
    pub lens: [u64; 2],
    /// Bytes that differ. Addresses of the same place do not count.
    pub bytes: u64,
    /// Offset of the first one; `None` when only lengths differ.
    pub first: Option<u64>,
    /// Addresses of the same place, which lies elsewhere.
    pub moved: u64,
    /// What it looks like.
    pub look: Look,
    /// Some of it: offset, in the first launch, in the second.
    pub samples: Vec<Sample>,
    /// Differences after the launch at places that differed before already.
    pub inherited: bool,
    /// Chunks of 64 KiB that were not looked into, since there were too many.
    pub left_out: u64,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Its offset in bytes.
    pub offset: u64,
    /// In the first launch's memory.
    pub a: String,
    /// In the second's.
    pub b: String,
}

/// Compares a pair at a moment; `None` when it is the same.
///
/// # Errors
/// When memory cannot be read.
pub fn compare(
    a: &Side<'_>,
    b: &Side<'_>,
    regions: &Regions,
    pair: &Pair,
    moment: Moment,
    types: &InferredTypes,
) -> Result<Option<Compared>, ReadError> {
    let counted = count(a, b, regions, pair, moment)?;
    let len = |side: &Side<'_>, index: usize| {
        let region = side.launch.before.regions.get(index);
        region.map_or(0, |region| region.len)
    };
    let lens = [len(a, pair.a), len(b, pair.b)];
    let same_len = lens.first() == lens.last();
    if counted.bytes == 0 && (same_len || moment == Moment::After) {
        return Ok(None);
    }
    let element = types.get(pair.names.iter().map(String::as_str));
    let times = [a.launch.unix_ns, b.launch.unix_ns];
    let look = looks(&counted, element, times);
    let inherited = moment == Moment::After && {
        let before = count(a, b, regions, pair, Moment::Before)?;
        counted.kept.iter().all(|word| {
            let known = before.kept.binary_search_by_key(&word.offset, |w| w.offset);
            known.is_ok()
        })
    };
    Ok(Some(Compared {
        name: joined(std::iter::once(pair.name.as_str())),
        moment,
        lens,
        bytes: counted.bytes,
        first: first(&counted),
        moved: counted.moved,
        samples: samples(&counted, element, &look),
        look,
        inherited,
        left_out: counted.left_out,
    }))
}

fn count(
    a: &Side<'_>,
    b: &Side<'_>,
    regions: &Regions,
    pair: &Pair,
    moment: Moment,
) -> Result<Counted, ReadError> {
    let mut counted = Counted::default();
    let differing = chunks(a, b, pair, moment).filter(|chunk| {
        let [x, y] = chunk.data;
        // Equal content can be an address that means another place, but not in a launch that is well recorded.
        x != y
    });
    counted.left_out = each_chunk(a, b, differing, |offset, ours, theirs| {
        for (index, (x, y)) in words(ours).zip(words(theirs)).enumerate() {
            if x == y {
                continue;
            }
            let kinship = regions.kinship(x, y);
            if kinship == Kinship::Same {
                counted.moved += 1;
                continue;
            }
            let bytes = (x ^ y).to_le_bytes();
            counted.bytes += bytes.iter().filter(|byte| **byte != 0).count() as u64;
            counted.words += 1;
            for (zeros, word) in counted.zeros.iter_mut().zip([x, y]) {
                *zeros += u64::from(word == 0);
            }
            if counted.kept.len() < MOST_WORDS {
                counted.kept.push(Word {
                    offset: offset + 8 * index as u64,
                    a: x,
                    b: y,
                    pointers: kinship == Kinship::Pointers,
                });
            }
        }
    })?;
    Ok(counted)
}

/// The first byte that differs.
fn first(counted: &Counted) -> Option<u64> {
    let word = counted.kept.first()?;
    Some(word.offset + u64::from((word.a ^ word.b).trailing_zeros() / 8))
}

fn samples(counted: &Counted, element: Option<ElementType>, look: &Look) -> Vec<Sample> {
    let element = look.element().or(element).unwrap_or(ElementType::Bits);
    let size = element.size().clamp(1, 8);
    let mut samples = Vec::new();
    for word in &counted.kept {
        let (a, b) = (word.a.to_le_bytes(), word.b.to_le_bytes());
        let parts = a.chunks(size).zip(b.chunks(size)).enumerate();
        for (index, (x, y)) in parts.filter(|(_, (x, y))| x != y) {
            samples.push(Sample {
                offset: word.offset + (index * size) as u64,
                a: look.show(element, x),
                b: look.show(element, y),
            });
        }
        if samples.len() >= SHOWN {
            break;
        }
    }
    samples.truncate(SHOWN);
    samples
}
