//! Built-in rewrites of a variant: which there are, and which of them is taken.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use r3_codegen::passes::Random;
use r3_replay::evaluate::describe::KernelDescription;
use r3_source::rewrite::{self, Facts, Known, Scene, Site};
use r3_source::syntax::{Function, Unit};
use r3_source::tokens;

use super::effects::Change;
use super::population::Population;
use super::variant::{Variant, VariantNumber};
use super::workshop::Workshop;
use crate::elites::Novelty;
use crate::program::Program;

/// A text that a rewrite made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Made {
    /// Text and launch.
    pub variant: Variant,
    /// Name of the rewrite.
    pub by: String,
    /// What was done, in a line.
    pub what: String,
    /// Hash of what was changed and of the text around it.
    pub site: String,
}

/// Variants whose places are kept. Those of another one are found again when they are wanted.
const KEPT: usize = 32;

/// Rewrites of the variants that were looked at.
#[derive(Debug, Default)]
pub(super) struct Rewriting {
    /// Places that were tried, by their number among a variant's.
    tried: BTreeMap<VariantNumber, BTreeSet<usize>>,
    /// Variants of which nothing is left to be tried, and of which nothing is that may change something, as long as there are so many
    /// surprises and no more.
    nothing_left: BTreeSet<VariantNumber>,
    nothing_new: BTreeMap<VariantNumber, u64>,
    /// Places of the variants that were looked at last, the last one at the end.
    places: VecDeque<(VariantNumber, Arc<Vec<Place>>)>,
    /// What was tried since [`begin`](Self::begin).
    taken: Vec<(VariantNumber, usize)>,
}

/// A place where a rewrite applies.
#[derive(Clone, Debug)]
struct Place {
    site: Site,
    change: Change,
}

/// Which rewrites are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those that may change something.
    New,
    /// All of them.
    Any,
}

impl Rewriting {
    /// What is tried from now on can be [undone](Self::undo).
    pub fn begin(&mut self) {
        self.taken.clear();
    }

    /// As if nothing had been tried since it was said.
    pub fn undo(&mut self) {
        for (parent, place) in self.taken.drain(..) {
            if let Some(tried) = self.tried.get_mut(&parent) {
                tried.remove(&place);
            }
            self.nothing_left.remove(&parent);
            self.nothing_new.remove(&parent);
        }
    }

    /// Names of the rewrites that a variant may have something new by.
    pub fn open(
        &mut self,
        population: &Population,
        shop: &Workshop<'_>,
        parent: VariantNumber,
        wanted: Wanted,
    ) -> Vec<String> {
        let surprises = population.surprises();
        let new = self.nothing_new.get(&parent);
        let nothing_new = new.is_some_and(|before| *before == surprises);
        if self.nothing_left.contains(&parent) || (wanted == Wanted::New && nothing_new) {
            return Vec::new();
        }
        let places = self.places_of(population, shop, parent);
        let tried = self.tried.get(&parent);
        let open = places.iter().enumerate().filter(|(number, place)| {
            let left = tried.is_none_or(|tried| !tried.contains(number));
            left && is_wanted(population, place, wanted)
        });
        let names: BTreeSet<&str> = open
            .map(|(_, place)| place.site.operator.as_str())
            .collect();
        if names.is_empty() {
            match wanted {
                Wanted::Any => {
                    self.nothing_left.insert(parent);
                }
                Wanted::New => {
                    self.nothing_new.insert(parent, surprises);
                }
            }
        }
        names.into_iter().map(str::to_owned).collect()
    }

    /// A new text of a variant, by a rewrite that is named.
    #[allow(
        clippy::too_many_arguments,
        reason = "what is known, what is wanted, and chance"
    )]
    pub fn make(
        &mut self,
        population: &Population,
        shop: &Workshop<'_>,
        parent: VariantNumber,
        name: &str,
        wanted: Wanted,
        random: &mut Random,
    ) -> Option<Made> {
        let variant = population.get(parent)?.variant();
        let unit = Unit::parse(&variant.text).ok()?;
        let kernel = &shop.ground.kernel;
        let looked = Looked::at(&unit, &population.program, kernel, shop.tolerant())?;
        let places = self.places_of(population, shop, parent);
        let tried = self.tried.entry(parent).or_default();
        loop {
            let mine: Vec<usize> = places
                .iter()
                .enumerate()
                .filter(|(number, place)| {
                    let named = place.site.operator == name && !tried.contains(number);
                    named && is_wanted(population, place, wanted)
                })
                .map(|(number, _)| number)
                .collect();
            let number = *random.pick(&mine)?;
            let place = places.get(number)?;
            tried.insert(number);
            self.taken.push((parent, number));
            let scene = looked.scene(&unit);
            let Ok(rewritten) = rewrite::apply(&scene, &place.site) else {
                continue;
            };
            let Ok(variant) = shop.variant(rewritten.text) else {
                continue;
            };
            if is_new(&population.novelty, &variant) {
                return Some(Made {
                    variant,
                    by: name.to_owned(),
                    what: rewritten.what,
                    site: format!("{:032x}", place.change.here),
                });
            }
        }
    }

    /// Places of a variant, in the order of its text.
    fn places_of(
        &mut self,
        population: &Population,
        shop: &Workshop<'_>,
        parent: VariantNumber,
    ) -> Arc<Vec<Place>> {
        let known = self.places.iter().position(|(other, _)| *other == parent);
        let entry = known
            .and_then(|at| self.places.remove(at))
            .unwrap_or_else(|| (parent, Arc::new(all_places(population, shop, parent))));
        let places = Arc::clone(&entry.1);
        self.places.push_back(entry);
        while self.places.len() > KEPT {
            self.places.pop_front();
        }
        places
    }
}

fn is_wanted(population: &Population, place: &Place, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Any => true,
        Wanted::New => {
            !population.only_repeats(&place.site.operator)
                && !population.expects_nothing(place.change)
        }
    }
}

/// Whether nothing like it was seen.
fn is_new(novelty: &Novelty, variant: &Variant) -> bool {
    novelty
        .seen(variant, tokens::fingerprint(&variant.text))
        .is_none()
}

fn all_places(population: &Population, shop: &Workshop<'_>, parent: VariantNumber) -> Vec<Place> {
    let Some(known) = population.get(parent) else {
        return Vec::new();
    };
    let kernel = &shop.ground.kernel;
    let text = &known.row.text;
    let mut sites = sites_of(&population.program, kernel, shop.tolerant(), text);
    let without = &shop.settings.rewrites.without;
    sites.retain(|site| !without.contains(&site.operator));
    let place = |site: Site| Place {
        change: Change::of(text, &site),
        site,
    };
    sites.into_iter().map(place).collect()
}

/// The places in a text where built-in rewrites apply.
pub(super) fn sites_of(
    program: &Program,
    kernel: &KernelDescription,
    tolerant: bool,
    text: &str,
) -> Vec<Site> {
    let all = || {
        let unit = Unit::parse(text).ok()?;
        let looked = Looked::at(&unit, program, kernel, tolerant)?;
        Some(rewrite::all_sites(&looked.scene(&unit)))
    };
    all().unwrap_or_default()
}

/// What operators look at, of a text.
struct Looked {
    kernel: Function,
    spans: Vec<std::ops::Range<usize>>,
    facts: Facts,
}

impl Looked {
    fn at(
        unit: &Unit,
        program: &Program,
        described: &KernelDescription,
        tolerant: bool,
    ) -> Option<Self> {
        let kernel = unit.kernel(&program.function).ok()?;
        let regions = program.regions(unit.text()).ok()?;
        let facts = facts(described, &kernel, tolerant);
        Some(Self {
            spans: regions.spans().to_vec(),
            kernel,
            facts,
        })
    }

    fn scene<'a>(&'a self, unit: &'a Unit) -> Scene<'a> {
        Scene {
            unit,
            kernel: &self.kernel,
            spans: &self.spans,
            facts: &self.facts,
        }
    }
}

/// What the capture knows of all launches.
fn facts(described: &KernelDescription, kernel: &Function, tolerant: bool) -> Facts {
    let launches = &described.launches;
    let same = |of: fn(&r3_replay::evaluate::describe::LaunchDescription) -> [u32; 3]| {
        let first = launches.first().map(of)?;
        launches
            .iter()
            .all(|launch| of(launch) == first)
            .then_some(first)
    };
    let parameters = described.params.iter().zip(&kernel.parameters);
    Facts {
        block: same(|launch| launch.block),
        grid: same(|launch| launch.grid),
        parameters: parameters
            .map(
                |(described, written)| match (&described.target, &described.constant) {
                    (Some(target), _) => Known::Pointer {
                        alignment: target.alignment,
                        bytes: target.least,
                        allocation: target.allocation,
                    },
                    (None, Some(bytes)) => value(bytes, &written.ty),
                    (None, None) => Known::Unknown,
                },
            )
            .collect(),
        tolerant,
        sm: described.device.sm,
    }
}

/// A constant argument, read as its declared type.
fn value(bytes: &[u8], ty: &str) -> Known {
    let words: Vec<&str> = ty
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty() && *word != "const" && *word != "volatile")
        .collect();
    if ty.contains(['*', '&', '[', '<']) {
        return Known::Unknown;
    }
    let integer = || match *bytes {
        [a] => Some(i64::from(i8::from_le_bytes([a]))),
        [a, b] => Some(i64::from(i16::from_le_bytes([a, b]))),
        [a, b, c, d] => Some(i64::from(i32::from_le_bytes([a, b, c, d]))),
        _ => <[u8; 8]>::try_from(bytes).ok().map(i64::from_le_bytes),
    };
    let unsigned = || match *bytes {
        [a] => Some(i64::from(a)),
        [a, b] => Some(i64::from(u16::from_le_bytes([a, b]))),
        [a, b, c, d] => Some(i64::from(u32::from_le_bytes([a, b, c, d]))),
        _ => {
            let all = <[u8; 8]>::try_from(bytes).ok().map(u64::from_le_bytes);
            all.and_then(|all| i64::try_from(all).ok())
        }
    };
    match words.as_slice() {
        ["float"] => match <[u8; 4]>::try_from(bytes) {
            Ok(bytes) => Known::Float(f64::from(f32::from_le_bytes(bytes))),
            Err(_) => Known::Unknown,
        },
        ["double"] => match <[u8; 8]>::try_from(bytes) {
            Ok(bytes) => Known::Float(f64::from_le_bytes(bytes)),
            Err(_) => Known::Unknown,
        },
        ["unsigned", ..] | ["size_t" | "uint8_t" | "uint16_t" | "uint32_t" | "uint64_t"] => {
            unsigned().map_or(Known::Unknown, Known::Integer)
        }
        ["int" | "short" | "long" | "char" | "signed", ..]
        | ["int8_t" | "int16_t" | "int32_t" | "int64_t" | "ptrdiff_t"] => {
            integer().map_or(Known::Unknown, Known::Integer)
        }
        _ => Known::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_argument_is_read_as_it_is_declared() {
        assert_eq!(
            value(&[255, 255, 255, 255], "const int"),
            Known::Integer(-1)
        );
        assert_eq!(
            value(&[255, 255, 255, 255], "unsigned int"),
            Known::Integer(4_294_967_295)
        );
        assert_eq!(value(&2.5f32.to_le_bytes(), "float"), Known::Float(2.5));
        // What is not a number, or not of that size, is not known.
        assert_eq!(value(&[0; 8], "float *"), Known::Unknown);
        assert_eq!(value(&[0; 12], "float3"), Known::Unknown);
        assert_eq!(value(&[1, 2, 3], "int"), Known::Unknown);
        assert_eq!(value(&[255; 8], "unsigned long"), Known::Unknown);
    }
}
