//! What of one recording stands beside what of the other.

use std::collections::{BTreeMap, VecDeque};

use r3_archive::chunk::ChunkRef;
use r3_archive::model::{LaunchId, LaunchRecord, RegionOwner};
use r3_archive::{Archive, ReadError};

use super::chunks::{chunks, each_chunk, words};
use super::memory::Moment;
use super::{Alone, Side, joined};
use crate::compare::buffer_names;

/// Launches of two archives that stand for each other, in the order of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// Those that both have.
    pub pairs: Vec<(LaunchId, LaunchId)>,
    /// Those of the first alone.
    pub only_first: Vec<LaunchId>,
    /// Those of the second alone.
    pub only_second: Vec<LaunchId>,
}

/// A launch is found again by its kernel's name, its shape, and how often that had been launched.
pub fn launches(a: &Archive, b: &Archive) -> Launches {
    let key = |archive: &Archive, launch: &LaunchRecord| {
        let name = archive
            .kernel(launch.kernel)
            .map(|kernel| kernel.name.clone());
        let shape = (launch.grid, launch.block, launch.dynamic_shared);
        (name, shape, launch.occurrence)
    };
    let mut left: BTreeMap<_, VecDeque<LaunchId>> = BTreeMap::new();
    for launch in b.launch_heads() {
        left.entry(key(b, launch)).or_default().push_back(launch.id);
    }
    let mut found = Launches::default();
    for launch in a.launch_heads() {
        match left.get_mut(&key(a, launch)).and_then(VecDeque::pop_front) {
            Some(other) => found.pairs.push((launch.id, other)),
            None => found.only_first.push(launch.id),
        }
    }
    found.only_second = left.into_values().flatten().collect();
    found.only_second.sort_unstable();
    found
}

/// A region of each launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Index among the first launch's regions.
    pub a: usize,
    /// Among the second's.
    pub b: usize,
    /// Its names.
    pub name: String,
    /// Names by which element types are known.
    pub names: Vec<String>,
}

/// Which memory stands beside which.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    pairs: Vec<Pair>,
    /// By the first's index: the second's.
    partner: BTreeMap<usize, usize>,
    taken: Vec<usize>,
    /// Where regions lie: start, end, index; ascending.
    places: [Vec<(u64, u64, usize)>; 2],
    /// Where allocations lie that are in no region.
    others: [Vec<(u64, u64)>; 2],
}

/// What two words are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinship {
    /// Both point to the same offset of regions that stand beside each other.
    Same,
    /// Both point into recorded memory or allocations, and not to the same place.
    Pointers,
    /// At least one is no pointer that is known.
    None,
}

impl Regions {
    /// Pairs regions: by the names of variables and arguments, then along pointers in memory, then by address, then by
    /// their order among those of one length.
    ///
    /// # Errors
    /// When memory cannot be read.
    pub fn new(a: &Side<'_>, b: &Side<'_>) -> Result<Self, ReadError> {
        let mut regions = Self {
            places: [places(&a.launch), places(&b.launch)],
            others: [others(a), others(b)],
            ..Self::default()
        };
        let names = [
            buffer_names(a.kernel, &a.launch),
            buffer_names(b.kernel, &b.launch),
        ];
        let own = |name: &&str| !name.starts_with("alloc ");
        for (index, name) in names[0].iter().enumerate() {
            let mut known = names[1].iter().enumerate();
            let found = known.find(|(_, other)| {
                name.all()
                    .filter(own)
                    .any(|name| other.all().any(|other| other == name))
            });
            if let Some((other, _)) = found {
                regions.pair(index, other, joined(name.all()), name.all());
            }
        }
        regions.along_pointers(a, b)?;
        let rest = |regions: &Self, by: fn(&Side<'_>, usize) -> Option<(u64, u64)>| {
            let mut found = Vec::new();
            for index in 0..a.launch.before.regions.len() {
                if regions.partner.contains_key(&index) {
                    continue;
                }
                let wanted = by(a, index);
                let mut free = (0..b.launch.before.regions.len())
                    .filter(|other| !regions.taken.contains(other))
                    .filter(|other| !found.iter().any(|(_, taken)| taken == other));
                if let Some(other) = free.find(|other| wanted.is_some() && by(b, *other) == wanted)
                {
                    found.push((index, other));
                }
            }
            found
        };
        let at = |side: &Side<'_>, index: usize| {
            let region = side.launch.before.regions.get(index)?;
            Some((region.address, region.len))
        };
        let len = |side: &Side<'_>, index: usize| {
            let region = side.launch.before.regions.get(index)?;
            let of_module = matches!(region.owner, RegionOwner::Global { .. });
            (!of_module).then_some((0, region.len))
        };
        for by in [at as fn(&Side<'_>, usize) -> Option<(u64, u64)>, len] {
            for (index, other) in rest(&regions, by) {
                let name = names[0].get(index);
                let shown = name.map_or_else(String::new, |name| joined(name.all()));
                regions.pair(index, other, shown, name.into_iter().flat_map(|n| n.all()));
            }
        }
        regions.pairs.sort_by_key(|pair| pair.a);
        Ok(regions)
    }

    fn pair<'n>(
        &mut self,
        a: usize,
        b: usize,
        name: String,
        names: impl Iterator<Item = &'n str>,
    ) -> bool {
        if self.partner.contains_key(&a) || self.taken.contains(&b) {
            return false;
        }
        self.partner.insert(a, b);
        self.taken.push(b);
        self.pairs.push(Pair {
            a,
            b,
            name,
            names: names.map(str::to_owned).collect(),
        });
        true
    }

    /// What lies at the same place of a pair, and points into regions of one length at one offset, stands beside each other.
    fn along_pointers(&mut self, a: &Side<'_>, b: &Side<'_>) -> Result<(), ReadError> {
        let all = a
            .launch
            .before
            .regions
            .len()
            .min(b.launch.before.regions.len());
        let mut next = 0;
        while let Some(pair) = self.pairs.get(next).cloned() {
            if self.pairs.len() == all {
                break;
            }
            next += 1;
            let mut found = Vec::new();
            let chunks = chunks(a, b, &pair, Moment::Before).filter(|chunk| {
                // Zeros point nowhere.
                let [x, y] = chunk.data;
                x != ChunkRef::Zero && y != ChunkRef::Zero
            });
            each_chunk(a, b, chunks, |offset, ours, theirs| {
                for (word, (x, y)) in words(ours).zip(words(theirs)).enumerate() {
                    let (Some((i, at)), Some((k, there))) = (self.find(0, x), self.find(1, y))
                    else {
                        continue;
                    };
                    if at == there && !self.partner.contains_key(&i) {
                        found.push((i, k, offset + 8 * word as u64));
                    }
                }
            })?;
            for (i, k, offset) in found {
                let lens = (
                    a.launch.before.regions.get(i).map(|region| region.len),
                    b.launch.before.regions.get(k).map(|region| region.len),
                );
                if lens.0 == lens.1 {
                    let name = format!("what {} points to at {offset:#x}", pair.name);
                    self.pair(i, k, name, std::iter::empty());
                }
            }
        }
        Ok(())
    }

    /// All pairs, in the order of the first launch's regions.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The region that an address of a side (0 or 1) is in, and its offset there.
    fn find(&self, side: usize, address: u64) -> Option<(usize, u64)> {
        let places = self.places.get(side)?;
        let at = places.partition_point(|(start, _, _)| *start <= address);
        let (start, end, index) = places.get(at.checked_sub(1)?)?;
        // The end of a region belongs to it, as long as no other one begins there.
        (address <= *end).then(|| (*index, address - start))
    }

    /// Whether an address of a side is in memory that is known and not recorded with the launch.
    fn is_other(&self, side: usize, address: u64) -> bool {
        let others = self.others.get(side);
        let at = others.map_or(0, |others| {
            others.partition_point(|(start, _)| *start <= address)
        });
        let range = others.and_then(|others| others.get(at.checked_sub(1)?));
        range.is_some_and(|(_, end)| address < *end)
    }

    /// Whether an address of a side is in a region of its launch.
    pub fn is_recorded(&self, side: usize, address: u64) -> bool {
        self.find(side, address).is_some()
    }

    /// What two words are to each other.
    pub fn kinship(&self, a: u64, b: u64) -> Kinship {
        match (self.find(0, a), self.find(1, b)) {
            (Some((i, at)), Some((k, there))) => {
                match at == there && self.partner.get(&i) == Some(&k) {
                    true => Kinship::Same,
                    false => Kinship::Pointers,
                }
            }
            (x, y) => {
                let known =
                    (x.is_some() || self.is_other(0, a)) && (y.is_some() || self.is_other(1, b));
                match known {
                    true => Kinship::Pointers,
                    false => Kinship::None,
                }
            }
        }
    }

    /// Regions without a counterpart.
    pub fn alone(&self, a: &Side<'_>, b: &Side<'_>) -> Vec<Alone> {
        let of = |side: &Side<'_>, first: bool, paired: &dyn Fn(usize) -> bool| {
            let names = buffer_names(side.kernel, &side.launch);
            let regions = side.launch.before.regions.iter().zip(names).enumerate();
            regions
                .filter(|(index, _)| !paired(*index))
                .map(|(_, (region, name))| Alone {
                    name: joined(name.all()),
                    first,
                    len: region.len,
                })
                .collect::<Vec<_>>()
        };
        let mut alone = of(a, true, &|index| self.partner.contains_key(&index));
        alone.extend(of(b, false, &|index| self.taken.contains(&index)));
        alone
    }
}

fn places(launch: &LaunchRecord) -> Vec<(u64, u64, usize)> {
    let regions = launch.before.regions.iter().enumerate();
    let mut places: Vec<(u64, u64, usize)> = regions
        .map(|(index, region)| {
            let end = region.address.saturating_add(region.len);
            (region.address, end, index)
        })
        .collect();
    places.sort_unstable();
    places
}

/// Allocations of a side's archive that are no regions of its launch.
fn others(side: &Side<'_>) -> Vec<(u64, u64)> {
    let owned: Vec<_> = side
        .launch
        .before
        .regions
        .iter()
        .filter_map(|region| match region.owner {
            RegionOwner::Allocation(id) => Some(id),
            RegionOwner::Global { .. } => None,
        })
        .collect();
    let allocations = side.archive.allocations().iter();
    let mut others: Vec<(u64, u64)> = allocations
        .filter(|allocation| !owned.contains(&allocation.id))
        .map(|allocation| {
            let end = allocation.address.saturating_add(allocation.len);
            (allocation.address, end)
        })
        .collect();
    others.sort_unstable();
    others
}
