//! What is kept of a launch, and what is known of it.

use std::rc::Rc;

use r3_archive::model::{LaunchId, LaunchRecord};
use serde::{Deserialize, Serialize};

use super::alter::Edit;
use super::aside::Aside;
use super::layout::Masks;
use super::sites::Site;
use super::variables::Variable;
use crate::compare::{BufferName, ElementType, Tolerance};
use crate::device::pool::{Buffer, Pool};
use crate::device::{AddressRange, HostBuffer, Place, Source, Stream};

/// What a launch does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferClass {
    /// It writes bytes that nothing in the buffer decides: these are poisoned.
    Written,
    /// What it writes depends on what was there, or it was not found out whether: the buffer is restored.
    ReadModifyWrite,
    /// It leaves the buffer as it is, and other results depend on it.
    Input,
    /// It leaves the buffer as it is.
    Untouched,
}

/// What is known of a buffer of a launch.
#[derive(Clone, Debug)]
pub struct BufferFacts {
    /// Index of its region in the record.
    pub region: usize,
    /// What it is called.
    pub name: BufferName,
    /// What the launch does with it.
    pub class: BufferClass,
    /// Whether results outside of it depend on what it holds before the launch.
    pub read: bool,
    /// Where it is; `None` for a variable of the kernel's module, which is elsewhere for each code.
    pub target: Option<AddressRange>,
    /// Length in bytes.
    pub len: u64,
    /// Bytes in it that are poisoned before each run.
    pub written: u64,
    /// Type by which it is compared.
    pub element: ElementType,
    /// How far its elements may be off.
    pub tolerance: Tolerance,
    /// Whether it holds, before the launch, words that point into recorded memory. Only known of buffers that were
    /// looked at; others count as if they did.
    pub has_pointers: bool,
}

/// What is known of a launch.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The launch.
    pub launch: LaunchId,
    /// Its record.
    pub record: Rc<LaunchRecord>,
    /// Why nothing can be judged on it, when that is so.
    pub unusable: Option<String>,
    /// Bytes that it writes and nothing else decides: poisoned before each run.
    pub written: u64,
    /// Bytes that are not poisoned and that it changes.
    pub changed_outside: u64,
    /// Bytes that are restored or poisoned before each run.
    pub restored: u64,
    /// Bytes of device memory for it, beside the live memory.
    pub kept: u64,
    /// Whether the original leaves the same bytes in each run.
    pub deterministic: bool,
    /// Whether the original leaves what was recorded.
    pub as_recorded: bool,
    /// Its buffers.
    pub buffers: Vec<BufferFacts>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Which bytes of a piece are poisoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    None,
    All,
    /// Those whose bit is set; the bits are so far into the mask.
    Bits(u64),
}

/// A stretch of a region that the launch may write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Index of the region in the record.
    pub region: usize,
    /// Where in the region.
    pub offset: u64,
    pub len: u64,
    /// How far into the copy of what should be there after the launch.
    pub expected: u64,
    /// How far into the copy of what was there before it; nothing is kept of what is poisoned wholly.
    pub before: Option<u64>,
    pub mask: Mask,
    /// How far into the mask the bits of bytes are that the launch leaves alone, of a buffer with a tolerance: these must
    /// be exact nevertheless.
    pub still: Option<u64>,
}

/// The kept copies of a launch.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub before: Option<Buffer>,
    pub expected: Option<Buffer>,
    pub mask: Option<Buffer>,
    /// What the launch leaves alone, for going over to it; not always there.
    pub inputs: Option<Buffer>,
}

/// A stretch of a region that the launch leaves alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    /// Index of the region in the record.
    pub region: usize,
    /// Its first chunk.
    pub first: u64,
    pub len: u64,
    /// How far into the copy.
    pub at: u64,
}

/// Keys of a launch. They never leave the host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LaunchKeys {
    pub before: u64,
    pub expected: u64,
    pub sums: u64,
}

/// Memory that the launch leaves alone, and its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Untouched {
    pub region: usize,
    pub range: AddressRange,
    pub sum: u64,
}

/// What the results of candidates are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// What was recorded.
    Recorded,
    /// What the original leaves here.
    Local,
}

/// A launch that is ready.
pub(super) struct Kept {
    pub record: Rc<LaunchRecord>,
    pub facts: Rc<Facts>,
    pub expected: Expected,
    pub keys: LaunchKeys,
    pub pieces: Vec<Piece>,
    /// What the copy of inputs has, ascending; empty without one.
    pub inputs: Vec<Input>,
    pub copies: Copies,
    /// Checksums of the copies.
    pub sums: Vec<u64>,
    /// The copies' bytes while they are not on the device, and which of them there are.
    pub spilled: Option<Spilled>,
    /// Bits of bytes that the launch leaves alone, by region, of buffers with a tolerance.
    pub still: Rc<Masks>,
    /// The mask, to make it again.
    pub mask: Rc<Vec<u8>>,
    pub untouched: Vec<Untouched>,
    /// Memory that was not recorded and that the original writes to: it is not guarded.
    pub unguarded: Vec<AddressRange>,
    pub variables: Vec<Variable>,
    /// Words that point to variables, before the launch and in what is expected after it.
    pub sites: [Vec<Site>; 2],
    /// The copies cannot be trusted any more.
    pub damaged: bool,
    /// Other inputs than those that were recorded.
    pub altered: Option<Altered>,
    /// When it was used last.
    pub used: u64,
}

/// Copies in host memory.
pub(super) struct Spilled {
    pub bytes: HostBuffer,
    /// Lengths of the copies, in their order.
    pub lengths: [u64; 4],
}

/// Other inputs.
#[derive(Debug)]
pub(super) struct Altered {
    pub edits: Rc<Vec<Edit>>,
    /// What was known of the launch before it was altered.
    pub untouched: Vec<Untouched>,
    pub variables: Vec<Variable>,
    pub expected: Expected,
    /// Its copies, where there was room for others.
    pub aside: Option<Aside>,
}

/// What memory gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restoring {
    /// What it had before the launch, as far as that is kept.
    Plain,
    /// The same, with outputs poisoned.
    Poisoned(u64),
}

impl LaunchKeys {
    pub fn before(&self, at: u64) -> Stream {
        Stream::new(self.before).after(at)
    }

    pub fn expected(&self, at: u64) -> Stream {
        Stream::new(self.expected).after(at)
    }
}

/// The stream of poison: by address, so that each place has its own bytes.
pub(super) fn poison(key: u64, address: u64) -> Stream {
    Stream::new(key).after(address)
}

impl Piece {
    /// Where it is, by the targets of regions.
    pub fn at(&self, targets: &[Option<AddressRange>]) -> Option<u64> {
        let target = targets.get(self.region).copied().flatten()?;
        (self.offset.checked_add(self.len)? <= target.len()).then(|| target.start() + self.offset)
    }
}

impl Kept {
    /// The addresses of the copies: before, expected, mask.
    pub fn addresses(&self) -> [Option<u64>; 3] {
        let Copies {
            before,
            expected,
            mask,
            ..
        } = &self.copies;
        [before, expected, mask].map(|buffer| buffer.as_ref().map(Buffer::address))
    }

    /// What a reset does to memory.
    pub fn restoring(&self, targets: &[Option<AddressRange>], how: Restoring) -> Vec<Place> {
        let [before, _, mask] = self.addresses();
        let place = |piece: &Piece| {
            let to = piece.at(targets)?;
            let restored = || {
                let at = piece.before?;
                Some(Place::seal(
                    before? + at,
                    to,
                    piece.len,
                    self.keys.before(at),
                ))
            };
            match (how, piece.mask) {
                (Restoring::Plain, _) | (Restoring::Poisoned(_), Mask::None) => restored(),
                (Restoring::Poisoned(key), Mask::All) => {
                    Some(Place::fill(to, piece.len, poison(key, to)))
                }
                (Restoring::Poisoned(key), Mask::Bits(bits)) => {
                    Some(restored()?.but(mask? + bits, poison(key, to)))
                }
            }
        };
        self.pieces.iter().filter_map(place).collect()
    }

    /// What makes the copy of the present state: the one before the launch, or the expected one.
    pub fn sealing(&self, targets: &[Option<AddressRange>], expected: bool) -> Vec<Place> {
        let [before, after, _] = self.addresses();
        let place = |piece: &Piece| {
            let from = piece.at(targets)?;
            Some(match expected {
                true => Place::seal(
                    from,
                    after? + piece.expected,
                    piece.len,
                    self.keys.expected(piece.expected),
                ),
                false => {
                    let at = piece.before?;
                    Place::seal(from, before? + at, piece.len, self.keys.before(at))
                }
            })
        };
        self.pieces.iter().filter_map(place).collect()
    }

    /// What should be in a piece after the launch.
    pub fn expected_source(&self, piece: &Piece) -> Option<Source> {
        let [_, expected, _] = self.addresses();
        Some(Source::sealed(
            expected? + piece.expected,
            self.keys.expected(piece.expected),
        ))
    }

    /// The copies as ranges.
    pub fn ranges(&self) -> Vec<AddressRange> {
        self.copies
            .parts()
            .filter_map(|buffer| AddressRange::new(buffer.address(), buffer.len()))
            .collect()
    }

    /// What a region is called.
    pub fn name(&self, region: usize) -> Option<&str> {
        let facts = self.facts.buffers.iter().find(|b| b.region == region)?;
        Some(facts.name.shown())
    }

    /// Whether its copies are on the device.
    pub fn is_here(&self) -> bool {
        self.spilled.is_none()
    }

    /// Bytes of device memory that the copies take up.
    pub fn bytes(&self) -> u64 {
        self.copies.parts().map(Buffer::room).sum()
    }

    /// Gives the copies' memory back.
    pub fn give(self, pool: &mut Pool) {
        self.copies.give(pool);
        if let Some(aside) = self.altered.and_then(|altered| altered.aside) {
            aside.give(pool);
        }
    }
}

impl Copies {
    /// Gives their memory back.
    pub fn give(self, pool: &mut Pool) {
        for buffer in [self.before, self.expected, self.mask, self.inputs]
            .into_iter()
            .flatten()
        {
            pool.give(buffer);
        }
    }

    /// The copies that there are, in their order.
    pub fn parts(&self) -> impl Iterator<Item = &Buffer> {
        [&self.before, &self.expected, &self.mask, &self.inputs]
            .into_iter()
            .flatten()
    }
}
