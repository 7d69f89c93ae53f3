//! What words that differ look like. Each kind has a test on the words that were kept; the first that fits in the order of
//! [`Kind`] is told. A look is a guess: it says what to try first.

use serde::Serialize;

use super::memory::{Counted, Word};
use super::settings::is_address;
use crate::compare::ElementType;

/// What words look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Only lengths differ.
    Length,
    /// Addresses, of memory that does not stand beside each other.
    Pointers,
    /// A time of day, in seconds or parts of them, or a clock that both read at another time.
    Clock,
    /// Floating-point results that differ by little: sums in another order, other approximations.
    Rounding,
    /// A few small numbers that are not far apart.
    Counter,
    /// One side is zero, or one byte again and again, all over; the other is not.
    Unwritten,
    /// As different as random bits are.
    Random,
    /// Something else.
    Values,
}

/// What words look like, and how they are best shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Look {
    /// What.
    pub kind: Kind,
    /// The type by which they were understood.
    pub element: Option<ElementType>,
    /// For roundings, the largest difference relative to the value.
    pub relative: Option<f64>,
    /// The unit of a time of day.
    pub unit: Option<&'static str>,
}

impl Look {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            element: None,
            relative: None,
            unit: None,
        }
    }

    /// The type by which words are best shown.
    pub fn element(&self) -> Option<ElementType> {
        self.element
    }

    /// An element for people.
    pub fn show(&self, element: ElementType, bytes: &[u8]) -> String {
        match self.kind {
            Kind::Pointers => ElementType::Bits.show(bytes),
            _ => element.show(bytes),
        }
    }

    /// In a few words.
    pub fn words(&self) -> String {
        match self.kind {
            Kind::Length => "another length".to_owned(),
            Kind::Pointers => "addresses of other memory".to_owned(),
            Kind::Clock => match self.unit {
                Some(unit) => format!("a time of day, in {unit}"),
                None => "a clock that was read at another time".to_owned(),
            },
            Kind::Rounding => {
                let relative = self.relative.unwrap_or_default();
                format!("floating-point numbers, up to {relative:.0e} apart (relative)")
            }
            Kind::Counter => "small numbers, like counters".to_owned(),
            Kind::Unwritten => "memory that nobody wrote in one of them".to_owned(),
            Kind::Random => "random bits".to_owned(),
            Kind::Values => "other values".to_owned(),
        }
    }
}

/// What the words that differ look like. `element` is the type by which the kernel accesses them, where it is known; `times`
/// when the launches were, in nanoseconds since 1970.
pub fn looks(counted: &Counted, element: Option<ElementType>, times: [u64; 2]) -> Look {
    let words = counted.kept.as_slice();
    if words.is_empty() {
        return Look::of(Kind::Length);
    }
    let most = |test: &dyn Fn(&Word) -> bool| {
        let fitting = words.iter().filter(|word| test(word)).count();
        fitting * 10 >= words.len() * 9
    };
    if most(&|word| word.pointers) || shifted(words) {
        return Look {
            element: Some(ElementType::U64),
            ..Look::of(Kind::Pointers)
        };
    }
    if let Some((unit, element)) = time_of_day(words, times) {
        return Look {
            element: Some(element),
            unit: Some(unit),
            ..Look::of(Kind::Clock)
        };
    }
    if let Some((element, relative)) = rounding(words, element) {
        return Look {
            element: Some(element),
            relative: Some(relative),
            ..Look::of(Kind::Rounding)
        };
    }
    if let Some(element) = counter(words) {
        return Look {
            element: Some(element),
            ..Look::of(Kind::Counter)
        };
    }
    if clock(words) {
        return Look {
            element: Some(ElementType::U64),
            ..Look::of(Kind::Clock)
        };
    }
    if unwritten(counted) {
        return Look::of(Kind::Unwritten);
    }
    if random(words) {
        return Look::of(Kind::Random);
    }
    Look {
        element: element.filter(|element| element.is_float()),
        ..Look::of(Kind::Values)
    }
}

/// Addresses of memory that is not known, and that lies elsewhere as a whole: all exactly as far apart, by whole pieces.
fn shifted(words: &[Word]) -> bool {
    const PIECE: u64 = 256;
    let apart = |word: &Word| word.b.wrapping_sub(word.a);
    let first = words.first().map_or(1, apart);
    let alike = words
        .iter()
        .all(|word| apart(word) == first && is_address(word.a) && is_address(word.b));
    words.len() >= 2 && alike && first.is_multiple_of(PIECE)
}

/// A unit of a time of day.
struct Unit {
    nanoseconds: u64,
    name: &'static str,
    element: ElementType,
    /// How far such a time may be from that of the launch, in nanoseconds: the fewer numbers look like one, the farther.
    near: u64,
}

/// A day, in nanoseconds.
const DAY: u64 = 86_400_000_000_000;
const YEAR: u64 = 366 * DAY;

const UNITS: [Unit; 5] = [
    unit(1, "nanoseconds", ElementType::U64, YEAR),
    unit(1_000, "microseconds", ElementType::U64, YEAR),
    unit(1_000_000, "milliseconds", ElementType::U64, YEAR),
    unit(1_000_000_000, "seconds", ElementType::U64, YEAR),
    unit(1_000_000_000, "seconds", ElementType::U32, DAY),
];

const fn unit(nanoseconds: u64, name: &'static str, element: ElementType, near: u64) -> Unit {
    Unit {
        nanoseconds,
        name,
        element,
        near,
    }
}

fn time_of_day(words: &[Word], [a, b]: [u64; 2]) -> Option<(&'static str, ElementType)> {
    let near = |value: u64, unit: &Unit, launch: u64| {
        launch > YEAR && value.saturating_mul(unit.nanoseconds).abs_diff(launch) < unit.near
    };
    UNITS
        .iter()
        .find(|unit| {
            words.iter().all(|word| {
                let parts = elements(word, unit.element);
                let mut parts = parts.into_iter();
                parts.all(|(x, y)| near(x, unit, a) && near(y, unit, b))
            })
        })
        .map(|unit| (unit.name, unit.element))
}

/// The elements of a word that differ, as numbers.
fn elements(word: &Word, element: ElementType) -> Vec<(u64, u64)> {
    match element.size() {
        8 => vec![(word.a, word.b)],
        size => {
            let bits = 8 * size as u32;
            let mask = (1u64 << bits) - 1;
            (0..64 / bits)
                .map(|part| {
                    let shift = part * bits;
                    ((word.a >> shift) & mask, (word.b >> shift) & mask)
                })
                .filter(|(a, b)| a != b)
                .collect()
        }
    }
}

/// The largest relative difference, when all are small for a floating-point type: that by which the kernel accesses them, else
/// single or double precision.
fn rounding(words: &[Word], known: Option<ElementType>) -> Option<(ElementType, f64)> {
    let types = match known {
        Some(known) if known.is_float() => vec![known],
        Some(ElementType::Bits) | None => vec![ElementType::F64, ElementType::F32],
        Some(_) => Vec::new(),
    };
    types.into_iter().find_map(|element| {
        // A thousand times the type's own precision and more is no rounding any more, but a chain of them may be.
        let most = (element.rounding() * 65_536.0).min(0.05);
        let mut largest = 0.0f64;
        for word in words {
            for (a, b) in elements(word, element) {
                let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
                let size = element.size();
                let value = |bytes: &[u8]| element.magnitude(bytes.get(..size)?);
                let (x, y) = (value(&a)?, value(&b)?);
                let scale = x.max(y);
                // Numbers that are no floating-point numbers are subnormal ones, or enormous.
                if !(1e-30..1e30).contains(&scale) {
                    return None;
                }
                let same_sign = a.get(size - 1)? & 0x80 == b.get(size - 1)? & 0x80;
                let relative = if same_sign {
                    (x - y).abs() / scale
                } else {
                    2.0
                };
                largest = largest.max(relative);
            }
        }
        (largest <= most).then_some((element, largest))
    })
}

/// Most words that counters are.
const COUNTERS: usize = 16;
/// How far two counts are apart at most.
const APART: u64 = 1 << 16;

fn counter(words: &[Word]) -> Option<ElementType> {
    if words.len() > COUNTERS {
        return None;
    }
    [ElementType::U32, ElementType::U64]
        .into_iter()
        .find(|element| {
            words.iter().all(|word| {
                let parts = elements(word, *element);
                parts
                    .iter()
                    .all(|(a, b)| a.abs_diff(*b) < APART && *a.max(b) < 1 << 30)
            })
        })
}

/// Cycles or times since some start: large, and all about as far apart.
fn clock(words: &[Word]) -> bool {
    let apart: Vec<f64> = words
        .iter()
        .map(|word| word.b as f64 - word.a as f64)
        .collect();
    let large = words.iter().all(|word| {
        let (low, high) = (word.a.min(word.b), word.a.max(word.b));
        (1 << 20..1 << 62).contains(&low) && high < 1 << 62
    });
    let mean = apart.iter().sum::<f64>() / apart.len().max(1) as f64;
    large
        && apart.len() >= 2
        && apart
            .iter()
            .all(|apart| (apart - mean).abs() <= 0.02 * mean.abs())
}

/// One side is the same byte all over, in more than a few words.
fn unwritten(counted: &Counted) -> bool {
    const LEAST: u64 = 2;
    let filled = |of: fn(&Word) -> u64| {
        let first = counted.kept.first().map(of).unwrap_or_default();
        let byte = first & 0xFF;
        let pattern = byte.wrapping_mul(0x0101_0101_0101_0101);
        counted.kept.iter().all(|word| of(word) == pattern)
    };
    counted.words >= LEAST && (filled(|word| word.a) != filled(|word| word.b))
}

/// Least words for which chance can be told.
const CHANCE: usize = 32;

fn random(words: &[Word]) -> bool {
    if words.len() < CHANCE {
        return false;
    }
    // Halves of words may be the same, in structures.
    let halves = words
        .iter()
        .flat_map(|word| elements(word, ElementType::U32));
    let halves: Vec<(u64, u64)> = halves.collect();
    let different: u32 = halves.iter().map(|(a, b)| (a ^ b).count_ones()).sum();
    let part = f64::from(different) / (32 * halves.len().max(1)) as f64;
    // Numbers of one kind share upper bits: each bit of random ones is set in half of them.
    let ones = |bit: u32| halves.iter().filter(|(a, _)| a >> bit & 1 == 1).count();
    let even = (0..32).all(|bit| {
        let part = ones(bit) as f64 / halves.len().max(1) as f64;
        (0.25..0.75).contains(&part)
    });
    (0.44..0.56).contains(&part) && even
}
