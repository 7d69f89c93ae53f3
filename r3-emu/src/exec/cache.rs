//! Hints about caches: `prefetch`, `prefetchu`, `applypriority`, `discard`, `createpolicy`. There are no caches here, so only
//! what the ISA makes a fault is checked.

use super::access::{self, Shape};
use super::{Flow, Op, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode};

/// `discard` and `applypriority` are about so many bytes, aligned to as many.
const LINE: u64 = 128;

fn check(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let kind = *warp.data::<access::Kind>(op);
    let all = access::addresses(warp, op);
    let shape = Shape::natural(LINE, true);
    for lane in lanes(mask) {
        access::one(warp, op.instruction as usize, lane, all[lane], shape, kind)?;
    }
    Ok(())
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        // A prefetch of an address that does not exist is no fault.
        Opcode::Prefetch | Opcode::Prefetchu => {
            Some(Ok(d.whole(Class::Other, |_, _, _| Flow::Next)))
        }
        Opcode::Discard | Opcode::Applypriority => Some(line(d, mnemonic)),
        Opcode::Createpolicy => Some(policy(d)),
        _ => None,
    }
}

/// What `discard` leaves is not determined; here it is what was there.
fn line(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let (address, kind) = access::decode_address(d, 0, mnemonic.space())?;
    let mut op = d.whole(Class::Other, |warp, op, mask| match check(warp, op, mask) {
        Ok(()) => Flow::Next,
        Err(flow) => flow,
    });
    access::set_address(&mut op, &address);
    d.record(&mut op, kind);
    Ok(op)
}

/// A policy is an opaque number that only cache hints use.
fn policy(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        warp.put(op.d, mask, &[0u64; 32]);
        Flow::Next
    });
    op.d = d.dst::<u64>(0)?;
    Ok(op)
}
