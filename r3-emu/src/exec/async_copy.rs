//! `cp.async`: copies from global to shared memory.
//!
//! They are done when they are issued, which the ISA allows; so groups need no state, and waiting for them is no operation.

use super::access::{self, GLOBAL, Kind, SHARED, Shape};
use super::{Flow, Op, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use crate::memory::racecheck::Access;
use r3_ptx::isa::{Mnemonic, Opcode, Space, Word};

/// The record of a copy. `op.a`, `op.f`, `op.imm` are the target, `op.b` the bytes that are read (0 to `size`).
struct How {
    size: u32,
    to: Kind,
    from: Kind,
    source: access::Parts,
    /// A predicate in `op.c`: read nothing.
    ignore: bool,
}

fn copy(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    let hint = op.instruction as usize;
    let size = u64::from(how.size);
    let to_all = access::addresses(warp, op);
    let from_all = how.source.addresses(warp);
    let to = access::spots_of(
        warp,
        hint,
        mask,
        &to_all,
        Shape::natural(size, true),
        how.to,
    )?;
    if access::watched(warp, how.to) {
        access::watch(warp, op, mask, &to_all, size, how.to, Access::Write);
    }
    let ignored = if how.ignore { warp.predicate(op.c) } else { 0 };
    let counts = warp.get::<u32>(op.b);
    // Lanes that read all: one check for them together.
    let full = lanes(mask & !ignored).fold(0u32, |m, l| m | u32::from(counts[l] >= how.size) << l);
    let shape = Shape::natural(size, false);
    let all = match full {
        0 => None,
        _ => Some(access::spots_of(
            warp, hint, full, &from_all, shape, how.from,
        )?),
    };
    for lane in lanes(mask) {
        let mut buffer = [0u8; 16];
        let from = match &all {
            Some(spots) if full >> lane & 1 != 0 => Some((spots.lane(lane, size), how.size)),
            _ if ignored >> lane & 1 != 0 || counts[lane] == 0 => None,
            _ => {
                // A part: only that is read, but the address is aligned as for the whole.
                let part = Shape {
                    size: u64::from(counts[lane]),
                    align: size,
                    write: false,
                };
                warp.outside += 1;
                let at = access::one(warp, hint, lane, from_all[lane], part, how.from)?;
                Some((at, counts[lane]))
            }
        };
        if let Some((from, n)) = from {
            // SAFETY: checked above; the buffer has 16 bytes, and sizes are 4, 8 or 16.
            unsafe { std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), n as usize) };
        }
        // SAFETY: `spots_of` checked the target.
        unsafe {
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), to.lane(lane, size), size as usize);
        }
    }
    Ok(())
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    let has = |word| mnemonic.has(word);
    if mnemonic.opcode() != Opcode::Cp || has(Word::Mbarrier) {
        return None;
    }
    if has(Word::CommitGroup) || has(Word::WaitGroup) || has(Word::WaitAll) {
        return Some(Ok(d.whole(Class::Barrier, |_, _, _| Flow::Next)));
    }
    if has(Word::Bulk) {
        return None;
    }
    Some(decode_copy(d, mnemonic))
}

fn decode_copy(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let (target, to) = access::decode_address(d, 0, Some(Space::Shared))?;
    let (source, from) = access::decode_address(d, 1, Some(Space::Global))?;
    if to != SHARED || from != GLOBAL {
        return Err(Unsupported::new("cp.async between these spaces"));
    }
    let size = match d.operand(2)? {
        r3_ptx::typed::Operand::Number(n @ (4 | 8 | 16)) => n as u32,
        _ => return Err(Unsupported::new("cp.async of another size than 4, 8 or 16")),
    };
    let mut op = d.whole(Class::Global, |warp, op, mask| match copy(warp, op, mask) {
        Ok(()) => Flow::Next,
        Err(flow) => flow,
    });
    access::set_address(&mut op, &target);
    // A cache policy is the last operand where there is one.
    let end = d.operand_count() - usize::from(mnemonic.has(Word::L2CacheHint));
    op.b = d.number(u64::from(size), 4);
    let mut ignore = false;
    if end > 3 {
        let operand = d.operand(3)?;
        if d.is_predicate(operand) {
            op.c = d.predicate_of(operand)?;
            ignore = true;
        } else {
            op.b = d.src_of::<u32>(operand)?;
        }
    }
    let how = How {
        size,
        to,
        from,
        source: access::Parts::of(&source),
        ignore,
    };
    d.record(&mut op, how);
    Ok(op)
}
