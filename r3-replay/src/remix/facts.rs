//! What captured launches show, and whether a guard holds for a launch.
//!
//! A scalar, the grid and the block are facts of one launch. That memory is disjoint, and how pointers are aligned, is
//! asked of every launch of the kernel in the archive. Memory is disjoint as far as a snapshot tells: a pointer
//! argument points into an allocation that no other argument points into, and nothing in the recorded memory looks
//! like an address in it.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use r3_archive::chunk::{CHUNK_SIZE, ChunkRef};
use r3_archive::model::{
    AllocationId, KernelRecord, LaunchRecord, ParamLayout, RegionOwner, RegionSnapshot,
};
use r3_archive::{Archive, ReadError};
use r3_codegen::recipe::{Guard, Specialisation};
use r3_image::Image;

/// Which facts are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The values of all parameters that are no pointers.
    pub scalars: bool,
    /// The values of these parameters.
    pub params: BTreeSet<u32>,
    /// The grid.
    pub grid: bool,
    /// The block.
    pub block: bool,
    /// Disjoint memory.
    pub noalias: bool,
    /// Alignment of pointers.
    pub align: bool,
}

impl FromStr for Wanted {
    type Err = String;

    /// `scalars,grid,block,noalias,align`, `all`, `param:3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut wanted = Self::default();
        for part in text.split(',').map(str::trim) {
            match part {
                "scalars" => wanted.scalars = true,
                "grid" => wanted.grid = true,
                "block" => wanted.block = true,
                "noalias" => wanted.noalias = true,
                "align" => wanted.align = true,
                "all" => {
                    wanted = Self {
                        params: wanted.params,
                        scalars: true,
                        grid: true,
                        block: true,
                        noalias: true,
                        align: true,
                    };
                }
                part => {
                    let number = part.strip_prefix("param:").map(str::parse);
                    let Some(Ok(number)) = number else {
                        return Err(format!(
                            "`{part}` is no fact: scalars, grid, block, noalias, align, all, or param:N with the number \
                             of a parameter, from 0"
                        ));
                    };
                    wanted.params.insert(number);
                }
            }
        }
        Ok(wanted)
    }
}

/// Why facts are not to be had.
#[derive(Debug, thiserror::Error)]
pub enum FactError {
    /// The archive cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The layout of the parameters is not known.
    #[error("--specialize: the layout of the parameters of {kernel} is not known")]
    NoLayout {
        /// The kernel.
        kernel: String,
    },
    /// There is no such parameter.
    #[error("--specialize param:{index}: {kernel} has {count} parameters, counted from 0")]
    NoParam {
        /// What was asked for.
        index: u32,
        /// The kernel.
        kernel: String,
        /// How many it has.
        count: usize,
    },
    /// A parameter is a pointer.
    #[error(
        "--specialize param:{index}: it is a pointer, whose value holds in the recorded process alone"
    )]
    Pointer {
        /// The parameter.
        index: u32,
    },
}

/// A pointer that can lie anywhere is at most this much aligned: what allocations of the driver are.
const MOST_ALIGNED: u32 = 256;

/// Where the parameters lie: as recorded, else as the code says.
pub fn layout(archive: &Archive, record: &KernelRecord) -> Vec<ParamLayout> {
    if !record.params.is_empty() {
        return record.params.clone();
    }
    let module = record.module.and_then(|module| archive.module(module));
    let image = module.and_then(|module| archive.read_blob(&module.image).ok());
    image
        .and_then(|bytes| Image::from_vec(bytes).kernel_layout(&record.name))
        .unwrap_or_default()
        .into_iter()
        .map(|(offset, size)| ParamLayout { offset, size })
        .collect()
}

/// A kernel with the layout of its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    /// The archive that has it.
    pub archive: &'a Archive,
    /// Its record.
    pub record: &'a KernelRecord,
    /// Its parameters.
    pub layout: &'a [ParamLayout],
}

impl Kernel<'_> {
    /// The facts of a launch. `launch` is complete, with its memory.
    pub fn facts(
        &self,
        launch: &LaunchRecord,
        wanted: &Wanted,
    ) -> Result<Specialisation, FactError> {
        let mut facts = Specialisation {
            grid: wanted.grid.then_some(launch.grid),
            block: wanted.block.then_some(launch.block),
            ..Specialisation::default()
        };
        let about_params =
            wanted.scalars || wanted.noalias || wanted.align || !wanted.params.is_empty();
        if about_params && self.layout.is_empty() && !launch.params.is_empty() {
            return Err(FactError::NoLayout {
                kernel: self.record.name.clone(),
            });
        }
        for &index in &wanted.params {
            let Some(param) = self.layout.get(index as usize) else {
                return Err(FactError::NoParam {
                    index,
                    kernel: self.record.name.clone(),
                    count: self.layout.len(),
                });
            };
            let constant = constants(index, param, launch);
            if constant.is_empty() {
                return Err(FactError::Pointer { index });
            }
        }
        for (index, param) in (0..).zip(self.layout) {
            if wanted.scalars || wanted.params.contains(&index) {
                facts.params.extend(constants(index, param, launch));
            }
        }
        if wanted.noalias {
            let flags = |launch: &LaunchRecord| {
                let found = self.disjoint(launch)?.into_iter();
                Ok(found.map(|index| (index, 0)).collect())
            };
            facts.noalias = self.over_all_launches(launch, flags)?.into_keys().collect();
        }
        if wanted.align {
            let alignments = |launch: &LaunchRecord| {
                let found = pointers(self.layout, launch);
                Ok(found.map(|(index, at, _)| (index, alignment(at))).collect())
            };
            let all = self.over_all_launches(launch, alignments)?.into_iter();
            facts.align = all.filter(|(_, align)| *align > 1).collect();
        }
        Ok(facts)
    }

    /// Parameters that something is known of in every launch, and the least of it.
    fn over_all_launches(
        &self,
        launch: &LaunchRecord,
        of: impl Fn(&LaunchRecord) -> Result<BTreeMap<u32, u32>, FactError>,
    ) -> Result<BTreeMap<u32, u32>, FactError> {
        let mut all = of(launch)?;
        for head in self.archive.launch_heads() {
            if head.kernel != self.record.id || head.id == launch.id || all.is_empty() {
                continue;
            }
            let found = of(&self.archive.load_launch(head.id)?)?;
            all = all
                .into_iter()
                .filter_map(|(index, value)| Some((index, value.min(*found.get(&index)?))))
                .collect();
        }
        Ok(all)
    }

    /// Pointer parameters whose memory nothing else that a launch is given leads to.
    fn disjoint(&self, launch: &LaunchRecord) -> Result<BTreeSet<u32>, FactError> {
        let mut users: BTreeMap<AllocationId, usize> = BTreeMap::new();
        for word in &launch.pointers {
            *users.entry(word.allocation).or_default() += 1;
        }
        let alone: Vec<(u32, &RegionSnapshot)> = pointers(self.layout, launch)
            .filter(|(_, _, allocation)| users.get(allocation) == Some(&1))
            .filter_map(|(index, _, allocation)| {
                let region = launch
                    .before
                    .regions
                    .iter()
                    .find(|region| region.owner == RegionOwner::Allocation(allocation))?;
                Some((index, region))
            })
            .collect();
        let mut disjoint: BTreeSet<u32> = alone.iter().map(|(index, _)| *index).collect();
        let mut ranges: Vec<(u64, u64, u32)> = alone
            .iter()
            .map(|(index, region)| (region.address, region.address + region.len, *index))
            .collect();
        ranges.sort_unstable();
        if ranges.is_empty() {
            return Ok(disjoint);
        }
        let mut buffer = vec![0; CHUNK_SIZE];
        for region in &launch.before.regions {
            for (chunk, id) in region.chunks.stored() {
                let offset = chunk * CHUNK_SIZE as u64;
                let len = region.len.saturating_sub(offset).min(CHUNK_SIZE as u64) as usize;
                let Some(bytes) = buffer.get_mut(..len) else {
                    continue;
                };
                self.archive.read_chunk(ChunkRef::Data(id), bytes)?;
                for word in words(bytes, region.address + offset) {
                    let before = ranges.partition_point(|(start, _, _)| *start <= word);
                    let Some((_, end, index)) = before.checked_sub(1).and_then(|at| ranges.get(at))
                    else {
                        continue;
                    };
                    if word < *end {
                        disjoint.remove(index);
                    }
                }
            }
        }
        Ok(disjoint)
    }

    /// Why a guard does not hold for a launch; `None` when it does.
    pub fn broken(
        &self,
        guard: &Guard,
        launch: &LaunchRecord,
    ) -> Result<Option<String>, FactError> {
        Ok(match guard {
            Guard::Param {
                index,
                offset,
                bytes,
            } => {
                let found = self.bytes(*index, *offset, bytes.len(), launch);
                (found != Some(bytes.as_slice())).then(|| {
                    let found = found.map_or("not there".to_owned(), number);
                    format!("{} was wanted, {found} is given", spell(guard))
                })
            }
            Guard::Grid(grid) => {
                (*grid != launch.grid).then(|| format!("the grid is {:?}", launch.grid))
            }
            Guard::Block(block) => {
                (*block != launch.block).then(|| format!("the block is {:?}", launch.block))
            }
            Guard::NoAlias { index } => (!self.disjoint(launch)?.contains(index))
                .then(|| format!("something else may lead to the memory of parameter {index}")),
            Guard::Align { index, bytes } => {
                let mut all = pointers(self.layout, launch);
                let address = all.find(|(of, _, _)| of == index).map(|(_, at, _)| at);
                let fits = address.is_some_and(|at| at.is_multiple_of(u64::from((*bytes).max(1))));
                (!fits).then(|| {
                    let address = address.map_or("no pointer".to_owned(), |at| format!("{at:#x}"));
                    format!("parameter {index} is {address}")
                })
            }
        })
    }

    fn bytes<'l>(
        &self,
        index: u32,
        offset: u32,
        len: usize,
        launch: &'l LaunchRecord,
    ) -> Option<&'l [u8]> {
        let param = self.layout.get(index as usize)?;
        let start = (param.offset.checked_add(offset)?) as usize;
        launch.params.get(start..start.checked_add(len)?)
    }
}

/// A guard for people: `parameter 3 = 1024`.
pub fn spell(guard: &Guard) -> String {
    match guard {
        Guard::Param {
            index,
            offset: 0,
            bytes,
        } => format!("parameter {index} = {}", number(bytes)),
        Guard::Param {
            index,
            offset,
            bytes,
        } => format!("parameter {index}, byte {offset} = {}", number(bytes)),
        Guard::Grid([x, y, z]) => format!("grid = {x}x{y}x{z}"),
        Guard::Block([x, y, z]) => format!("block = {x}x{y}x{z}"),
        Guard::NoAlias { index } => format!("parameter {index} has memory of its own"),
        Guard::Align { index, bytes } => format!("parameter {index} is a multiple of {bytes}"),
    }
}

/// Few bytes as a number, more as they are.
fn number(bytes: &[u8]) -> String {
    let mut word = [0; 8];
    match word.get_mut(..bytes.len()) {
        Some(low) if matches!(bytes.len(), 1 | 2 | 4 | 8) => {
            low.copy_from_slice(bytes);
            let value = u64::from_le_bytes(word);
            if value < 1 << 24 {
                value.to_string()
            } else {
                format!("{value:#x}")
            }
        }
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The parts of a parameter that are no pointers into recorded memory, as (parameter, offset, bytes).
fn constants(index: u32, param: &ParamLayout, launch: &LaunchRecord) -> Vec<(u32, u32, Vec<u8>)> {
    let end = param.offset.saturating_add(param.size);
    let mut parts = Vec::new();
    let mut from = param.offset;
    let mut part = |from: u32, to: u32| {
        let bytes = launch.params.get(from as usize..to as usize);
        if let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) {
            parts.push((index, from - param.offset, bytes.to_vec()));
        }
    };
    let mut words: Vec<u32> = launch.pointers.iter().map(|word| word.offset).collect();
    words.sort_unstable();
    for word in words {
        if word >= from && word < end {
            part(from, word);
            from = word.saturating_add(8).min(end);
        }
    }
    part(from, end);
    parts
}

/// Parameters that are one pointer into recorded memory: position, address, allocation.
fn pointers<'l>(
    layout: &'l [ParamLayout],
    launch: &'l LaunchRecord,
) -> impl Iterator<Item = (u32, u64, AllocationId)> + 'l {
    (0..).zip(layout).filter_map(|(index, param)| {
        let word = launch
            .pointers
            .iter()
            .find(|word| word.offset == param.offset && param.size == 8)?;
        Some((index, word.address, word.allocation))
    })
}

fn alignment(address: u64) -> u32 {
    1u32 << address.trailing_zeros().min(MOST_ALIGNED.trailing_zeros())
}

/// The words at addresses that are multiples of 8, when `bytes` begins at `address`.
fn words(bytes: &[u8], address: u64) -> impl Iterator<Item = u64> + '_ {
    let skip = (address.wrapping_neg() % 8) as usize;
    bytes
        .get(skip..)
        .unwrap_or_default()
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests;
