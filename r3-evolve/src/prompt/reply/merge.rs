//! Definitions of an answer put into the regions of a file.
//!
//! Asked for a kernel, models often answer with a file: includes, helpers that are there already, a `main`; or with the one function
//! that they changed. So definitions are put where the file has those of the same name; what is new stands before the definition
//! that follows it in the answer; what the answer does not mention stays. What the file has outside of the regions in the same
//! words is left out, and so is code for the host; a helper that was changed although it may not be is an error, since calls from
//! elsewhere would still reach the old one.

use std::collections::BTreeSet;
use std::ops::Range;

use r3_source::syntax::Unit;

use super::items::{Item, items, types, without_marks};
use super::tokens::{placed, renamed};
use super::unusable::Unusable;
use crate::prompt::target::Target;

/// Headers that a program has for its host part, or that compilers of device code have built in.
const HOST_HEADERS: &[&str] = &[
    "cuda.h",
    "cuda_runtime.h",
    "cuda_runtime_api.h",
    "device_launch_parameters.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "math.h",
    "assert.h",
    "time.h",
    "cstdio",
    "cstdlib",
    "cstring",
    "cmath",
    "cassert",
    "ctime",
    "iostream",
    "iomanip",
    "vector",
    "string",
    "algorithm",
    "chrono",
    "random",
    "memory",
    "fstream",
    "sstream",
    "bits/stdc++.h",
    "helper_cuda.h",
    "math_functions.h",
];

/// A file of which whole definitions may be changed.
pub struct Definitions {
    /// Those in regions, with the region.
    inside: Vec<(usize, Item)>,
    /// All others.
    outside: Vec<Item>,
    /// The kernel among those inside.
    kernel: usize,
}

/// A definition of an answer.
struct Given {
    block: usize,
    text: String,
    item: Item,
    /// Which one inside the regions it is.
    known: Option<usize>,
}

impl Definitions {
    /// Of a file; `None` when a region is a part of a function, or the kernel's definition cannot be seen: then a region is text.
    pub fn of(target: &Target) -> Option<Self> {
        let unit = Unit::parse(&target.file).ok()?;
        let mut inside = Vec::new();
        let mut outside = Vec::new();
        for item in items(&unit) {
            let region = target
                .regions
                .iter()
                .position(|region| item.span.start < region.end && region.start < item.span.end);
            match region {
                Some(at) => {
                    let region = target.regions.get(at)?;
                    if item.span.start < region.start || region.end < item.span.end {
                        return None;
                    }
                    inside.push((at, item));
                }
                None => outside.push(item),
            }
        }
        let kernel = inside.iter().position(|(_, item)| {
            item.function
                .as_ref()
                .is_some_and(|function| function.kernel && function.name == target.kernel)
        })?;
        Some(Self {
            inside,
            outside,
            kernel,
        })
    }

    /// Whether a block defines something that may be changed, in other words than the file.
    pub fn changes(&self, text: &str, target: &Target) -> bool {
        let Ok(unit) = Unit::parse(text) else {
            return false;
        };
        let items = items(&unit);
        let mut kernels = items.iter().filter(|item| {
            item.function
                .as_ref()
                .is_some_and(|function| function.kernel)
        });
        let misnamed = matches!((kernels.next(), kernels.next()), (Some(kernel), None) if !self.is_known_kernel(kernel));
        misnamed
            || items.iter().any(|item| {
                self.known(item, &items).is_some_and(|known| {
                    self.inside
                        .get(known)
                        .is_some_and(|(_, old)| old.code != item.code)
                })
            })
            || self.directive_changes(text, target)
    }

    fn is_known_kernel(&self, item: &Item) -> bool {
        self.inside.iter().any(|(_, known)| known.name == item.name)
            || self.outside.iter().any(|known| known.name == item.name)
    }

    /// Whether the block has the kernel with another wish for its launch.
    fn directive_changes(&self, text: &str, target: &Target) -> bool {
        let wish = |text: &str| r3_source::directive::read(text).ok().flatten();
        self.defines_kernel(text) && wish(text) != wish(&target.file)
    }

    /// Whether a block defines the kernel.
    pub fn defines_kernel(&self, text: &str) -> bool {
        let Some((_, kernel)) = self.inside.get(self.kernel) else {
            return false;
        };
        Unit::parse(text).is_ok_and(|unit| {
            unit.functions()
                .iter()
                .any(|function| function.kernel && function.name == kernel.name)
        })
    }

    /// The definition inside the regions that is meant by one of an answer: by name, and by types where names are not enough.
    fn known(&self, item: &Item, among: &[Item]) -> Option<usize> {
        if item.name.is_empty() {
            return None;
        }
        let named: Vec<usize> = self
            .inside
            .iter()
            .enumerate()
            .filter(|(_, (_, known))| {
                known.name == item.name && known.function.is_some() == item.function.is_some()
            })
            .map(|(index, _)| index)
            .collect();
        let exact = named.iter().copied().find(|index| {
            self.inside
                .get(*index)
                .is_some_and(|(_, known)| known.is_same_as(item))
        });
        let alone = among.iter().filter(|other| other.name == item.name).count() == 1
            && !self.outside.iter().any(|other| other.name == item.name);
        match (exact, named.as_slice()) {
            (Some(index), _) => Some(index),
            (None, [index]) if alone => Some(*index),
            _ => None,
        }
    }

    /// Texts of all regions with the definitions of these blocks in them, which are in the order of the answer.
    pub fn merged(
        &self,
        blocks: &[String],
        target: &Target,
        notes: &mut Vec<String>,
    ) -> Result<Vec<String>, Unusable> {
        let mut given: Vec<Given> = Vec::new();
        let mut wishes: Vec<String> = Vec::new();
        for (block, text) in blocks.iter().enumerate() {
            let text = self.named(&without_marks(text), target, notes)?;
            let Ok(unit) = Unit::parse(&text) else {
                continue;
            };
            let items = items(&unit);
            for item in &items {
                if self.belongs(item, target, notes) {
                    given.push(Given {
                        block,
                        text: unit.slice(item.span.clone()).to_owned(),
                        known: self.known(item, &items),
                        item: item.clone(),
                    });
                }
            }
            // A wish for the launch that touches no definition is still the kernel's.
            for line in text.lines().map(str::trim).filter(|line| is_wish(line)) {
                let within = items
                    .iter()
                    .any(|item| unit.slice(item.span.clone()).contains(line));
                if !within {
                    wishes.push(line.to_owned());
                }
            }
        }
        self.without_superseded(&mut given);
        self.without_unused(&mut given);
        let kernels = given
            .iter()
            .filter(|given| given.known == Some(self.kernel))
            .count();
        if kernels > 1 {
            return Err(Unusable::SeveralKernels {
                kernel: target.kernel.clone(),
                count: kernels,
            });
        }
        self.refuse_outside(&given)?;
        let edits = self.edits(&given, &wishes, target);
        let mut regions = put(target, &edits);
        self.tidy(&given, &mut regions, target);
        Ok(regions)
    }

    /// Whether an item of an answer belongs into a region at all.
    fn belongs(&self, item: &Item, target: &Target, notes: &mut Vec<String>) -> bool {
        if item.kind == "preproc_include" {
            let name = item
                .bare
                .trim_start_matches(['#', ' ', '\t'])
                .trim_start_matches("include")
                .trim()
                .trim_matches(['<', '>', '"', ' ']);
            return !self.outside.iter().any(|outside| outside.code == item.code)
                && !HOST_HEADERS.contains(&name);
        }
        if self.outside.iter().any(|outside| outside.code == item.code) {
            return false;
        }
        let Some(function) = &item.function else {
            return true;
        };
        let known = self
            .inside
            .iter()
            .any(|(_, known)| known.name == function.name);
        if function.kernel && function.name != target.kernel && !known {
            notes.push(format!("another kernel, {}, was left out", function.name));
            return false;
        }
        if !function.kernel
            && !function.device
            && !known
            && for_the_host(&function.name, &item.bare)
        {
            notes.push(format!("host code, {}, was left out", function.name));
            return false;
        }
        true
    }

    /// The text with the kernel under its name. Another name is taken for a slip when there is one kernel only, with the right
    /// parameters.
    fn named(
        &self,
        text: &str,
        target: &Target,
        notes: &mut Vec<String>,
    ) -> Result<String, Unusable> {
        let Ok(unit) = Unit::parse(text) else {
            return Ok(text.to_owned());
        };
        let kernels: Vec<Item> = items(&unit)
            .into_iter()
            .filter(|item| {
                item.function
                    .as_ref()
                    .is_some_and(|function| function.kernel)
            })
            .collect();
        if kernels.iter().any(|kernel| kernel.name == target.kernel) {
            return Ok(text.to_owned());
        }
        let wanted = self
            .inside
            .get(self.kernel)
            .and_then(|(_, item)| item.function.as_ref())
            .map(types);
        match kernels.as_slice() {
            [kernel] if !self.is_known_kernel(kernel) => {
                if kernel.function.as_ref().map(types) == wanted {
                    notes.push(format!("the kernel was called {}", kernel.name));
                    Ok(renamed(text, &kernel.name, &target.kernel))
                } else {
                    Err(Unusable::NoKernel {
                        kernel: target.kernel.clone(),
                        found: vec![kernel.name.clone()],
                    })
                }
            }
            _ => Ok(text.to_owned()),
        }
    }

    /// Of several definitions of one thing the last one counts; several kernels in one block stay, and are an error.
    fn without_superseded(&self, given: &mut Vec<Given>) {
        let mut keep = vec![true; given.len()];
        for (index, one) in given.iter().enumerate() {
            let again = given.iter().skip(index + 1).any(|later| {
                (later.block != one.block || one.known != Some(self.kernel))
                    && (later.item.is_same_as(&one.item)
                        || (later.known.is_some() && later.known == one.known))
            });
            if again && let Some(keep) = keep.get_mut(index) {
                *keep = false;
            }
        }
        let mut keep = keep.into_iter();
        given.retain(|_| keep.next().unwrap_or(true));
    }

    /// What is new in a block that changes nothing which is there counts only when something uses it.
    fn without_unused(&self, given: &mut Vec<Given>) {
        let main: BTreeSet<usize> = given
            .iter()
            .filter(|given| given.known.is_some())
            .map(|given| given.block)
            .collect();
        let mut used: BTreeSet<String> = given
            .iter()
            .filter(|given| main.contains(&given.block))
            .flat_map(|given| words(&given.item.bare))
            .collect();
        let mut wanted: BTreeSet<usize> = BTreeSet::new();
        loop {
            let next = given.iter().enumerate().find(|(index, given)| {
                !wanted.contains(index)
                    && !main.contains(&given.block)
                    && !given.item.name.is_empty()
                    && used.contains(&given.item.name)
                    && !self
                        .inside
                        .iter()
                        .any(|(_, known)| known.name == given.item.name)
                    && !self
                        .outside
                        .iter()
                        .any(|known| known.name == given.item.name)
            });
            let Some((index, given)) = next else { break };
            wanted.insert(index);
            used.extend(words(&given.item.bare));
        }
        let mut index = 0;
        given.retain(|given| {
            index += 1;
            main.contains(&given.block) || wanted.contains(&(index - 1))
        });
    }

    fn refuse_outside(&self, given: &[Given]) -> Result<(), Unusable> {
        let clash = given
            .iter()
            .filter(|given| given.known.is_none())
            .find(|given| {
                self.outside
                    .iter()
                    .any(|outside| outside.is_same_as(&given.item))
            });
        match clash {
            Some(given) => Err(Unusable::Outside {
                name: given.item.name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// What changes in the file: bytes and what comes in their place, in order.
    fn edits(
        &self,
        given: &[Given],
        wishes: &[String],
        target: &Target,
    ) -> Vec<(Range<usize>, String)> {
        let mut edits: Vec<(Range<usize>, String)> = Vec::new();
        let place = |known: usize| self.inside.get(known).map(|(_, item)| item.span.clone());
        let mut insert = |at: usize, text: String| edits.push((at..at, text));
        for (index, new) in given
            .iter()
            .enumerate()
            .filter(|(_, given)| given.known.is_none())
        {
            let in_block = |other: &&Given| other.block == new.block;
            let behind = given
                .iter()
                .skip(index)
                .filter(in_block)
                .find_map(|other| other.known);
            let before = given
                .iter()
                .take(index)
                .filter(in_block)
                .rev()
                .find_map(|other| other.known);
            let user = given
                .iter()
                .filter(|other| words(&other.item.bare).contains(&new.item.name))
                .filter_map(|other| other.known)
                .min();
            if let Some(span) = behind.or(user).and_then(place) {
                insert(span.start, format!("{}\n\n", new.text));
            } else if let Some(span) = before.and_then(place) {
                insert(span.end, format!("\n\n{}", new.text));
            }
        }
        for given in given {
            let Some(known) = given.known else { continue };
            let (Some(span), Some((_, old))) = (place(known), self.inside.get(known)) else {
                continue;
            };
            let mut text = given.text.clone();
            let same = old.code == given.item.code;
            let wished = !wishes.is_empty() || given.text.lines().any(is_wish);
            if known == self.kernel && (!same || wished) {
                for wish in wishes {
                    text = format!("{wish}\n{text}");
                }
                text = with_linkage(&text, &given.item, old);
            } else if same {
                continue;
            }
            edits.push((span, text));
        }
        let kernel = place(self.kernel).unwrap_or_default();
        if edits
            .iter()
            .any(|(span, _)| *span == kernel && !kernel.is_empty())
        {
            // A wish for the launch belongs to the kernel that was replaced, wherever it stood.
            for region in &target.regions {
                let mut at = region.start;
                for line in target
                    .file
                    .get(region.clone())
                    .unwrap_or_default()
                    .split_inclusive('\n')
                {
                    let span = at..at + line.len();
                    at = span.end;
                    let replaced = edits
                        .iter()
                        .any(|(other, _)| other.start < span.end && span.start < other.end);
                    if is_wish(line) && !replaced {
                        edits.push((span, String::new()));
                    }
                }
            }
        }
        // Insertions come before what is replaced at the same place, in the order of the answer.
        edits.sort_by_key(|(span, _)| (span.start, span.end));
        edits
    }

    /// Helpers that nobody uses any more go.
    fn tidy(&self, given: &[Given], regions: &mut [String], target: &Target) {
        loop {
            let file = target.with(regions);
            let Some(span_and_region) =
                self.inside
                    .iter()
                    .enumerate()
                    .find_map(|(index, (region, item))| {
                        let function = item.function.as_ref()?;
                        let mentioned = given.iter().any(|given| given.known == Some(index));
                        let uses = |text: &str| {
                            placed(text)
                                .iter()
                                .filter(|(_, token)| *token == item.name)
                                .count()
                        };
                        if function.kernel
                            || mentioned
                            || uses(&file) != 1
                            || uses(&target.file) == 1
                        {
                            return None;
                        }
                        let text = regions.get(*region)?;
                        let old = target.file.get(item.span.clone())?;
                        let at = text.find(old)?;
                        Some((*region, at..at + old.len()))
                    })
            else {
                return;
            };
            let (region, mut span) = span_and_region;
            let Some(text) = regions.get_mut(region) else {
                return;
            };
            while text
                .get(span.end..)
                .is_some_and(|rest| rest.starts_with('\n'))
            {
                span.end += 1;
            }
            text.replace_range(span, "");
        }
    }
}

/// The regions of a file after edits, which lie within them.
fn put(target: &Target, edits: &[(Range<usize>, String)]) -> Vec<String> {
    target
        .regions
        .iter()
        .map(|region| {
            let mut text = String::new();
            let mut at = region.start;
            for (span, new) in edits {
                if span.start < at || region.end < span.end {
                    continue;
                }
                text.push_str(target.file.get(at..span.start).unwrap_or_default());
                text.push_str(new);
                at = span.end;
            }
            text.push_str(target.file.get(at..region.end).unwrap_or_default());
            super::unix(&text)
        })
        .collect()
}

fn words(text: &str) -> BTreeSet<String> {
    placed(text)
        .iter()
        .map(|(_, token)| (*token).to_owned())
        .collect()
}

/// Whether a line is a comment that says how the kernel is launched.
fn is_wish(line: &str) -> bool {
    let line = line.trim();
    line.starts_with("//") && !matches!(r3_source::directive::read(line), Ok(None))
}

/// `extern "C"` stays where the kernel had it: without it, it would have another name.
fn with_linkage(text: &str, new: &Item, old: &Item) -> String {
    let linked = |item: &Item| item.bare.trim_start().starts_with("extern");
    if !linked(old) || linked(new) {
        return text.to_owned();
    }
    match text.find(new.bare.as_str()) {
        Some(at) => {
            let mut text = text.to_owned();
            text.insert_str(at, "extern \"C\" ");
            text
        }
        None => text.to_owned(),
    }
}

/// Whether a function without a word for where it runs is made for the host: it launches, or calls the run-time library.
fn for_the_host(name: &str, text: &str) -> bool {
    name == "main"
        || placed(text).iter().any(|(_, token)| {
            (token.starts_with("cuda") && token.chars().nth(4).is_some_and(char::is_uppercase))
                || matches!(
                    *token,
                    "<<<" | "malloc" | "free" | "fprintf" | "dim3" | "std"
                )
        })
}
