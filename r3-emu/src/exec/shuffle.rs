//! Shuffles: a lane reads a register of another one.
//!
//! `shfl.sync` waits until all lanes of its mask that have not exited are there. The ISA leaves open what a lane gives that
//! does not execute the shuffle; here it is zero, as on an H200.

use super::{Flow, LANES, Op};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, Word};
use r3_ptx::typed::Operand;

/// How the source lane follows from lane and operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// In [`Op::imm`]: lanes of a mask meet.
const SYNC: u64 = 1;
/// In [`Op::imm`]: there is a predicate to write.
const PREDICATE: u64 = 2;

/// Lane to read from, and whether it is in the segment. `control` has the clamp value in bits 0–4 and the segment mask in
/// bits 8–12; only 5 bits of `operand` count.
#[inline(always)]
fn source(mode: Mode, lane: u32, operand: u32, control: u32) -> (u32, bool) {
    let operand = operand & 31;
    let clamp = control & 31;
    let segment = control >> 8 & 31;
    let highest = (lane & segment) | (clamp & !segment);
    let lowest = lane & segment;
    let (from, inside) = match mode {
        // A difference below zero is a huge number: it must not count as above the clamp value.
        Mode::Up => {
            let from = lane.cast_signed() - operand.cast_signed();
            (from.cast_unsigned(), from >= highest.cast_signed())
        }
        Mode::Down => (lane + operand, lane + operand <= highest),
        Mode::Bfly => (lane ^ operand, lane ^ operand <= highest),
        Mode::Idx => {
            let from = lowest | (operand & !segment);
            (from, from <= highest)
        }
    };
    (if inside { from & 31 } else { lane }, inside)
}

#[inline(always)]
fn shuffle(mode: Mode, warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    if op.imm & SYNC != 0 {
        let wanted = super::vote::members(warp, op.f, mask);
        if let Some(flow) = warp.converge(mask, wanted) {
            return flow;
        }
    }
    let value: [u32; LANES] = warp.get(op.a);
    let operand: [u32; LANES] = warp.get(op.b);
    let control: [u32; LANES] = warp.get(op.c);
    let mut result = [0; LANES];
    let mut inside = 0u32;
    for lane in 0..LANES {
        let (from, valid) = source(mode, lane as u32, operand[lane], control[lane]);
        let present = (mask >> (from & 31) & 1).wrapping_neg();
        result[lane] = value[from as usize & 31] & present;
        inside |= u32::from(valid) << lane;
    }
    warp.put(op.d, mask, &result);
    if op.imm & PREDICATE != 0 {
        warp.set_predicate(op.e, mask, inside);
    }
    Flow::Next
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    (mnemonic.opcode() == Opcode::Shfl).then(|| shfl(d, mnemonic))
}

fn shfl(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let mut op = match mnemonic.any_of(&[Word::Up, Word::Down, Word::Bfly, Word::Idx]) {
        Some(Word::Up) => d.whole(Class::Warp, |w, op, m| shuffle(Mode::Up, w, op, m)),
        Some(Word::Down) => d.whole(Class::Warp, |w, op, m| shuffle(Mode::Down, w, op, m)),
        Some(Word::Bfly) => d.whole(Class::Warp, |w, op, m| shuffle(Mode::Bfly, w, op, m)),
        _ => d.whole(Class::Warp, |w, op, m| shuffle(Mode::Idx, w, op, m)),
    };
    op.a = d.src::<u32>(1)?;
    op.b = d.src::<u32>(2)?;
    op.c = d.src::<u32>(3)?;
    if mnemonic.has(Word::Sync) {
        op.imm |= SYNC;
        op.f = d.src::<u32>(4)?;
    }
    let (value, predicate) = destinations(d)?;
    op.d = d.dst_of::<u32>(value)?;
    if let Some(predicate) = predicate {
        op.imm |= PREDICATE;
        op.e = d.dst_predicate_of(predicate)?;
    }
    Ok(op)
}

/// Operand 0 as `d` or `d|p`.
pub(super) fn destinations(d: &Decoder<'_>) -> Result<(Operand, Option<Operand>), Unsupported> {
    let first = d.operand(0)?;
    match (first, d.elements(first).as_slice()) {
        (Operand::Pair(_), &[value, predicate]) => Ok((value, Some(predicate))),
        _ => Ok((first, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, source};

    /// Clamp value and segment mask as `__shfl_*` makes them for a width.
    fn control(width: u32, up: bool) -> u32 {
        (32 - width) << 8 | if up { 0 } else { 31 }
    }

    #[test]
    fn up_stops_at_the_lowest_lane_of_the_segment() {
        assert_eq!(source(Mode::Up, 5, 3, control(32, true)), (2, true));
        assert_eq!(source(Mode::Up, 2, 3, control(32, true)), (2, false));
        assert_eq!(source(Mode::Up, 9, 3, control(8, true)), (9, false));
        assert_eq!(source(Mode::Up, 31, 31, control(32, true)), (0, true));
        assert_eq!(source(Mode::Up, 0, 0, control(32, true)), (0, true));
    }

    #[test]
    fn down_bfly_and_idx_stop_at_the_highest() {
        assert_eq!(source(Mode::Down, 30, 1, control(32, false)), (31, true));
        assert_eq!(source(Mode::Down, 31, 1, control(32, false)), (31, false));
        assert_eq!(source(Mode::Down, 7, 1, control(8, false)), (7, false));
        assert_eq!(source(Mode::Bfly, 5, 16, control(32, false)), (21, true));
        assert_eq!(source(Mode::Bfly, 5, 16, control(16, false)), (5, false));
        assert_eq!(source(Mode::Idx, 13, 9, control(8, false)), (9, true));
        assert_eq!(source(Mode::Idx, 21, 5, 2), (21, false));
    }

    #[test]
    fn only_five_bits_of_the_operand_count() {
        assert_eq!(source(Mode::Idx, 3, 37, control(32, false)), (5, true));
        assert_eq!(source(Mode::Down, 3, 32, control(32, false)), (3, true));
        assert_eq!(
            source(Mode::Up, 3, 0xffff_ffe1, control(32, true)),
            (2, true)
        );
    }
}
