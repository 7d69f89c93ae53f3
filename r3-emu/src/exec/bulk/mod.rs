//! Bulk copies and reductions, tensor copies, and stores to other blocks that count at an mbarrier.
//!
//! All of them are done when they are issued, and count their bytes at the mbarrier at once; groups need no state.

mod linear;
mod map;
mod remote;
mod tensor;
mod tile;

use super::access::{self, GLOBAL, Kind, Parts, SHARED, Shape};
use super::mbarrier;
use super::{Flow, Op};
use crate::block::Warp;
use crate::decode::{Address, Decoder, Unsupported};
use crate::fault::FaultKind;
use crate::launch::Class;
use crate::memory::racecheck::Access;
use crate::memory::window;
use r3_ptx::isa::{Mnemonic, Opcode, Word};

/// An address of an op, with its kind.
#[derive(Clone, Copy)]
struct Place {
    parts: Parts,
    kind: Kind,
}

impl Place {
    fn of(address: &Address) -> Result<Self, Unsupported> {
        Ok(Self {
            parts: Parts::of(address),
            kind: access::kind(address)?,
        })
    }

    /// The address of a lane.
    fn lane(&self, warp: &Warp, lane: usize) -> u64 {
        self.parts.addresses(warp)[lane]
    }
}

/// Host address of `len` bytes at a lane's address, aligned to `align`; tells the race check.
fn range(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    (address, kind): (u64, Kind),
    (len, align): (u64, u64),
    write: bool,
) -> Result<*mut u8, Flow> {
    let shape = Shape {
        size: len,
        align,
        write,
    };
    warp.outside += u64::from(kind != SHARED);
    let at = access::one(warp, op.instruction as usize, lane, address, shape, kind)?;
    if kind == GLOBAL {
        warp.counts.global_sectors += len.div_ceil(32);
    }
    if access::watched(warp, kind) {
        let access = if write { Access::Write } else { Access::Read };
        let all = [address; super::LANES];
        access::watch(warp, op, 1 << lane, &all, len, kind, access);
    }
    Ok(at)
}

/// Shared addresses of `address` in the blocks of `ranks`; those of the block itself where there is no mask.
fn copies(address: u64, ranks: Option<u32>) -> impl Iterator<Item = u64> {
    let offset = window::shared_offset(address as u32);
    let mask = ranks.unwrap_or(0);
    let own = ranks.is_none().then_some(address);
    let others = (0..16)
        .filter(move |rank| mask >> rank & 1 != 0)
        .map(move |rank| u64::from(window::shared_of_rank(rank, offset)));
    own.into_iter().chain(others)
}

fn invalid(warp: &mut Warp, lane: usize, text: impl Into<String>) -> Flow {
    warp.fault(lane, FaultKind::Invalid(text.into()))
}

fn flow(result: Result<(), Flow>) -> Flow {
    match result {
        Ok(()) => Flow::Next,
        Err(flow) => flow,
    }
}

/// An mbarrier operand. Its space is that of the shared side of the copy.
fn barrier(d: &mut Decoder<'_>, index: usize) -> Result<Place, Unsupported> {
    let address = d.address(index, Some(r3_ptx::isa::Space::SharedCluster))?;
    let place = Place::of(&address)?;
    if place.kind != SHARED {
        return Err(Unsupported::new("mbarrier that is not in shared memory"));
    }
    Ok(place)
}

/// The mbarrier counts bytes, in each block that got a copy.
fn complete(
    warp: &mut Warp,
    lane: usize,
    barrier: &Place,
    ranks: Option<u32>,
    bytes: u64,
) -> Result<(), Flow> {
    let address = barrier.lane(warp, lane);
    for address in copies(address, ranks) {
        mbarrier::complete_bytes(warp, lane, address, bytes as u32)?;
    }
    Ok(())
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    let has = |word| mnemonic.has(word);
    match mnemonic.opcode() {
        Opcode::Cp if has(Word::Bulk) && has(Word::Prefetch) => {
            Some(Ok(d.whole(Class::Other, |_, _, _| Flow::Next)))
        }
        Opcode::Cp if has(Word::Tensor) => Some(tensor::decode(d, mnemonic)),
        Opcode::Cp if has(Word::Bulk) => Some(linear::decode(d, mnemonic)),
        Opcode::St if has(Word::Async) => Some(remote::store(d, mnemonic)),
        Opcode::St if has(Word::Bulk) => Some(linear::clear(d, mnemonic)),
        Opcode::Red if has(Word::Async) => Some(remote::reduce(d, mnemonic)),
        Opcode::Tensormap => Some(map::decode(d, mnemonic)),
        // Proxies are ways to the same memory, and everything is done in order here.
        Opcode::Fence if has(Word::Proxy) || has(Word::MbarrierInit) => {
            Some(Ok(d.whole(Class::Barrier, |_, _, _| Flow::Next)))
        }
        _ => None,
    }
}
