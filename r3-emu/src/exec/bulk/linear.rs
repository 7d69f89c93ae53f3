//! `cp.async.bulk`, `cp.reduce.async.bulk`, `st.bulk`: so many bytes, a multiple of 16.

use super::super::atomic::{Function, RmwWord, function};
use super::{Place, barrier, complete, copies, flow, invalid, range};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::access::SHARED;
use crate::exec::{Op, lanes};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Space, Word};

/// The record of a copy. `op.b` is the size, `op.c` the mask of blocks or of bytes.
struct How {
    to: Place,
    from: Place,
    barrier: Option<Place>,
    multicast: bool,
    byte_mask: bool,
    reduce: Option<(Function, u32)>,
}

/// Bulk copies move multiples of so many bytes, aligned to as many.
const UNIT: u64 = 16;

fn copy(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), crate::exec::Flow> {
    let how = warp.data::<How>(op);
    for lane in lanes(mask) {
        let size = u64::from(warp.lane::<u32>(op.b, lane));
        if !size.is_multiple_of(UNIT) {
            let text = format!("bulk copy of {size} bytes: a multiple of 16 is needed");
            return Err(invalid(warp, lane, text));
        }
        if size > 0 {
            let from = (how.from.lane(warp, lane), how.from.kind);
            let source = range(warp, op, lane, from, (size, UNIT), false)?;
            let ranks = how
                .multicast
                .then(|| u32::from(warp.lane::<u16>(op.c, lane)));
            for to in copies_of(how, how.to.lane(warp, lane), ranks) {
                let target = range(warp, op, lane, (to, how.to.kind), (size, UNIT), true)?;
                match how.reduce {
                    // SAFETY: both ranges were checked, and elements divide 16.
                    Some((f, bytes)) => unsafe { reduce(source, target, size, f, bytes) },
                    None if how.byte_mask => {
                        let bytes = warp.lane::<u16>(op.c, lane);
                        for i in (0..size as usize).filter(|i| bytes >> (i % 16) & 1 != 0) {
                            // SAFETY: both ranges were checked.
                            unsafe { target.add(i).write(source.add(i).read()) };
                        }
                    }
                    // SAFETY: both ranges were checked; they may overlap.
                    None => unsafe { std::ptr::copy(source, target, size as usize) },
                }
            }
        }
        if let Some(barrier) = &how.barrier {
            let ranks = how
                .multicast
                .then(|| u32::from(warp.lane::<u16>(op.c, lane)));
            complete(warp, lane, barrier, ranks, size)?;
        }
    }
    Ok(())
}

fn copies_of(how: &How, address: u64, ranks: Option<u32>) -> Vec<u64> {
    if how.to.kind == SHARED {
        copies(address, ranks).collect()
    } else {
        vec![address]
    }
}

/// Applies `f` to each element of the target.
///
/// # Safety
/// Both are valid for `size` bytes, and the target is aligned to elements.
unsafe fn reduce(source: *const u8, target: *mut u8, size: u64, f: Function, bytes: u32) {
    for at in (0..size as usize).step_by(bytes as usize) {
        // SAFETY: the caller's promise.
        unsafe { reduce_element(source.add(at), target.add(at), f, bytes) };
    }
}

/// Applies `f` to one element of `bytes` bytes.
///
/// # Safety
/// Both are valid; the target is aligned.
pub(super) unsafe fn reduce_element(source: *const u8, target: *mut u8, f: Function, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            2 => {
                let b = source.cast::<u16>().read_unaligned().into();
                u16::update(target, |a| f(a, b, 0));
            }
            8 => {
                let b = source.cast::<u64>().read_unaligned();
                u64::update(target, |a| f(a, b, 0));
            }
            _ => {
                let b = source.cast::<u32>().read_unaligned().into();
                u32::update(target, |a| f(a, b, 0));
            }
        }
    }
}

/// Decodes `cp.async.bulk` and `cp.reduce.async.bulk`.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    if mnemonic.has(Word::IgnoreOob) {
        return Err(Unsupported::new(".ignore_oob"));
    }
    let spaces: Vec<Space> = mnemonic.spaces().collect();
    let &[to, from] = spaces.as_slice() else {
        return Err(Unsupported::new("bulk copy without two spaces"));
    };
    let to = Place::of(&d.address(0, Some(to))?)?;
    let from = Place::of(&d.address(1, Some(from))?)?;
    let mut op = d.whole(Class::Global, |warp, op, mask| flow(copy(warp, op, mask)));
    op.b = d.src::<u32>(2)?;
    let counts = mnemonic.has(Word::MbarrierCompleteTxBytes);
    let barrier = if counts { Some(barrier(d, 3)?) } else { None };
    let multicast = mnemonic.has(Word::MulticastCluster);
    let byte_mask = mnemonic.has(Word::CpMask);
    if multicast {
        op.c = d.src::<u16>(4)?;
    }
    if byte_mask {
        op.c = d.src::<u16>(d.operand_count() - 1)?;
    }
    let reduce = if mnemonic.has(Word::Reduce) {
        let (Some(operation), Some(ty)) = (mnemonic.operation(), mnemonic.ty()) else {
            return Err(Unsupported::new("reduction without operation or type"));
        };
        let f = function(operation, ty, to.kind == SHARED);
        let f = f.ok_or_else(|| Unsupported::new("reduction of this type"))?;
        Some((f, ty.bytes() as u32))
    } else {
        None
    };
    let how = How {
        to,
        from,
        barrier,
        multicast,
        byte_mask,
        reduce,
    };
    d.record(&mut op, how);
    Ok(op)
}

/// Decodes `st.bulk`: zeros.
pub(super) fn clear(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let to = Place::of(&d.address(0, mnemonic.space())?)?;
    let mut op = d.whole(Class::Shared, |warp, op, mask| {
        let to = *warp.data::<Place>(op);
        flow(lanes(mask).try_for_each(|lane| {
            let size = warp.lane::<u64>(op.b, lane);
            if !size.is_multiple_of(8) {
                let text = format!("st.bulk of {size} bytes: a multiple of 8 is needed");
                return Err(invalid(warp, lane, text));
            }
            let address = to.lane(warp, lane);
            let at = super::mbarrier::shared_address(warp, lane, address, to.kind)?;
            if size > 0 {
                let at = range(warp, op, lane, (at, SHARED), (size, 8), true)?;
                // SAFETY: `range` checked it.
                unsafe { std::ptr::write_bytes(at, 0, size as usize) };
            }
            Ok(())
        }))
    });
    op.b = d.src::<u64>(1)?;
    d.record(&mut op, to);
    Ok(op)
}
