//! Reads and writes of single rows and elements, for instructions that spread them over lanes in their own ways.

use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::access::{self, Kind, SHARED, Shape};
use crate::exec::{Flow, Op};
use crate::memory::racecheck::Access;
use r3_ptx::isa::Mnemonic;

pub(super) use crate::exec::access::addresses;

/// Decodes the address in operand `index` into an op.
pub(super) fn decode(
    d: &mut Decoder<'_>,
    op: &mut Op,
    index: usize,
    mnemonic: &Mnemonic,
) -> Result<Kind, Unsupported> {
    let (address, kind) = access::decode_address(d, index, mnemonic.space())?;
    access::set_address(op, &address);
    Ok(kind)
}

/// Reads naturally aligned bytes for a lane.
pub(super) fn read(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    kind: Kind,
    address: u64,
    out: &mut [u8],
) -> Result<(), Flow> {
    let from = locate(
        warp,
        op,
        lane,
        kind,
        address,
        out.len() as u64,
        Access::Read,
    )?;
    // SAFETY: `locate` checked that so many bytes are there; `out` is the caller's own.
    unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
    Ok(())
}

/// Writes naturally aligned bytes for a lane.
pub(super) fn write(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    kind: Kind,
    address: u64,
    bytes: &[u8],
) -> Result<(), Flow> {
    let len = bytes.len() as u64;
    let to = locate(warp, op, lane, kind, address, len, Access::Write)?;
    // SAFETY: as in `read`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}

fn locate(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    kind: Kind,
    address: u64,
    len: u64,
    access: Access,
) -> Result<*mut u8, Flow> {
    let shape = Shape::natural(len, matches!(access, Access::Write));
    let host = access::one(warp, op.instruction as usize, lane, address, shape, kind)?;
    if access::watched(warp, kind) {
        let mut all = [0; 32];
        all[lane] = address;
        access::watch(warp, op, 1 << lane, &all, len, kind, access);
    }
    Ok(host)
}

/// Reads 16 bytes of the block's shared memory.
pub(super) fn read_shared(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    address: u32,
) -> Result<[u8; 16], Flow> {
    let mut out = [0; 16];
    read(warp, op, lane, SHARED, u64::from(address), &mut out)?;
    Ok(out)
}
