//! Built-in rewrites of a variant: which there are, and which of them is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use r3_codegen::passes::Random;
use r3_replay::evaluate::describe::KernelDescription;
use r3_source::rewrite::{self, Facts, Known, Scene, Site};
use r3_source::syntax::{Function, Unit};
use r3_source::tokens;

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
}

/// Rewrites of the variants that were looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Rewriting {
    /// Places of each variant's rewrites. Those that were tried are taken out.
    sites: BTreeMap<VariantNumber, Arc<Vec<Site>>>,
}

impl Rewriting {
    /// Names of the rewrites that a variant may have something new by.
    pub fn open(
        &mut self,
        population: &Population,
        shop: &Workshop<'_>,
        parent: VariantNumber,
    ) -> Vec<String> {
        let sites = self
            .sites
            .entry(parent)
            .or_insert_with(|| Arc::new(all_sites(population, shop, parent)));
        let names: BTreeSet<&str> = sites.iter().map(|site| site.operator.as_str()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// A new text of a variant, by a rewrite that is named.
    pub fn make(
        &mut self,
        population: &Population,
        shop: &Workshop<'_>,
        parent: VariantNumber,
        name: &str,
        random: &mut Random,
    ) -> Option<Made> {
        let variant = population.get(parent)?.variant();
        let unit = Unit::parse(&variant.text).ok()?;
        let kernel = &shop.ground.kernel;
        let looked = Looked::at(&unit, &population.program, kernel, shop.tolerant())?;
        let sites = Arc::make_mut(self.sites.get_mut(&parent)?);
        loop {
            let mine: Vec<usize> = sites
                .iter()
                .enumerate()
                .filter(|(_, site)| site.operator == name)
                .map(|(place, _)| place)
                .collect();
            let place = *random.pick(&mine)?;
            let site = sites.remove(place);
            let scene = looked.scene(&unit);
            let Ok(rewritten) = rewrite::apply(&scene, &site) else {
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
                });
            }
        }
    }
}

/// Whether nothing like it was seen.
fn is_new(novelty: &Novelty, variant: &Variant) -> bool {
    novelty
        .seen(variant, tokens::fingerprint(&variant.text))
        .is_none()
}

fn all_sites(population: &Population, shop: &Workshop<'_>, parent: VariantNumber) -> Vec<Site> {
    let Some(known) = population.get(parent) else {
        return Vec::new();
    };
    let kernel = &shop.ground.kernel;
    let mut sites = sites_of(
        &population.program,
        kernel,
        shop.tolerant(),
        &known.row.text,
    );
    let without = &shop.settings.rewrites.without;
    sites.retain(|site| !without.contains(&site.operator));
    sites
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
