//! `st.async` and `red.async`: to the shared memory of a block of the cluster, counted at an mbarrier there, or to
//! global memory.

use super::super::atomic::{Function, RmwWord, function};
use super::linear::reduce_element;
use super::{Place, barrier, complete, flow, range};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::access::SHARED;
use crate::exec::{Flow, Op, Slot, lanes};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Space, Word};

/// The record. `op.list`: the elements.
struct How {
    to: Place,
    barrier: Option<Place>,
    bytes: u32,
    reduce: Option<Function>,
}

fn run(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    let slots = warp.slots(op);
    let size = u64::from(how.bytes) * slots.len() as u64;
    for lane in lanes(mask) {
        let to = (how.to.lane(warp, lane), how.to.kind);
        let at = range(warp, op, lane, to, (size, size), true)?;
        for (i, slot) in slots.iter().enumerate() {
            let value = element(warp, *slot, lane, how.bytes);
            let source = value.to_le_bytes();
            let at = at.wrapping_add(i * how.bytes as usize);
            let f = how.reduce.unwrap_or(|_, b, _| b);
            // SAFETY: `range` checked bounds and alignment.
            unsafe {
                if how.bytes == 1 {
                    at.write(source[0]);
                } else {
                    reduce_element(source.as_ptr(), at, f, how.bytes);
                }
            }
        }
        if let Some(barrier) = &how.barrier {
            complete(warp, lane, barrier, None, size)?;
        }
    }
    Ok(())
}

fn element(warp: &Warp, slot: Slot, lane: usize, bytes: u32) -> u64 {
    match bytes {
        1 | 2 => warp.lane::<u16>(slot, lane).bits(),
        8 => warp.lane::<u64>(slot, lane),
        _ => warp.lane::<u32>(slot, lane).bits(),
    }
}

/// Decodes `st.async`.
pub(super) fn store(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    decode(d, mnemonic, false)
}

/// Decodes `red.async`.
pub(super) fn reduce(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    decode(d, mnemonic, true)
}

fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic, reduces: bool) -> Result<Op, Unsupported> {
    let ty = mnemonic
        .ty()
        .ok_or_else(|| Unsupported::new("asynchronous store without a type"))?;
    let counts = mnemonic.has(Word::MbarrierCompleteTxBytes);
    let space = match mnemonic.space() {
        Some(space) => space,
        None if counts => Space::SharedCluster,
        None => Space::Global,
    };
    let to = Place::of(&d.address(0, Some(space))?)?;
    let barrier = if counts { Some(barrier(d, 2)?) } else { None };
    let reduce = if reduces {
        let f = mnemonic
            .operation()
            .and_then(|o| function(o, ty, to.kind == SHARED));
        Some(f.ok_or_else(|| Unsupported::new("reduction of this type"))?)
    } else {
        None
    };
    let mut op = d.whole(Class::Atomic, |warp, op, mask| flow(run(warp, op, mask)));
    let operand = d.operand(1)?;
    let mut slots = Vec::new();
    for element in d.elements(operand) {
        slots.push(match ty.bytes() {
            1 | 2 => d.src_of::<u16>(element)?,
            4 => d.src_of::<u32>(element)?,
            8 => d.src_of::<u64>(element)?,
            _ => return Err(Unsupported::new("asynchronous store of this type")),
        });
    }
    d.list(&mut op, &slots);
    let how = How {
        to,
        barrier,
        bytes: ty.bytes() as u32,
        reduce,
    };
    d.record(&mut op, how);
    Ok(op)
}
