//! `tensormap.replace` and `tensormap.cp_fenceproxy`; reading a tensor map.

use super::{Place, flow, invalid, range};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::{Flow, Op, lanes};
use crate::launch::Class;
use crate::tensor_map::{self, MAGIC, SIZE, TensorMap, field};
use r3_ptx::isa::{Mnemonic, Space, Word};
use r3_ptx::typed::Operand;

/// Alignment of a tensor map in memory.
const ALIGN: u64 = 64;

/// Reads and checks the tensor map at a lane's address.
pub(super) fn read(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    place: &Place,
) -> Result<TensorMap, Flow> {
    let address = place.lane(warp, lane);
    let at = range(
        warp,
        op,
        lane,
        (address, place.kind),
        (SIZE as u64, ALIGN),
        false,
    )?;
    // SAFETY: `range` checked it.
    let bytes = unsafe { at.cast::<[u8; SIZE]>().read_unaligned() };
    let map = tensor_map::decode(&bytes).and_then(|map| map.validate().map(|()| map));
    map.map_err(|e| invalid(warp, lane, e.to_string()))
}

/// The record of a `replace`. `op.b` is the new value, 64 bits.
struct Replace {
    map: Place,
    at: usize,
    bytes: usize,
    /// What the map has is less by this.
    less: u64,
}

fn replace(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<Replace>(op);
    for lane in lanes(mask) {
        let address = how.map.lane(warp, lane);
        let len = (SIZE as u64, ALIGN);
        let at = range(warp, op, lane, (address, how.map.kind), len, true)?;
        // SAFETY: `range` checked all of the map.
        let old = unsafe { at.cast::<[u8; SIZE]>().read_unaligned() };
        if old == [0; SIZE] {
            // A map may be made from nothing, by replacing all of its fields.
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(MAGIC.as_ptr(), at, MAGIC.len()) };
        } else if !old.starts_with(&MAGIC) {
            let text = "tensormap.replace on bytes that are no tensor map of this device";
            return Err(invalid(warp, lane, text));
        }
        let value = warp.lane::<u64>(op.b, lane).wrapping_sub(how.less);
        let bytes = value.to_le_bytes();
        // SAFETY: as above; the field is in the map.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(how.at), how.bytes) };
    }
    Ok(())
}

/// Decodes the two.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    if mnemonic.has(Word::CpFenceproxy) {
        return copy(d);
    }
    let map = Place::of(&d.address(0, mnemonic.space())?)?;
    let indexed = |d: &Decoder<'_>, most: u64| match d.operand(1)? {
        Operand::Number(n) if n < most => Ok(n as usize),
        _ => Err(Unsupported::new("tensormap.replace of this dimension")),
    };
    let ((at, bytes), less, value) = if mnemonic.has(Word::GlobalAddress) {
        (field::ADDRESS, 0, 1)
    } else if mnemonic.has(Word::Rank) {
        // The operand is the rank less one.
        (field::RANK, u64::MAX, 1)
    } else if mnemonic.has(Word::BoxDim) {
        (nth(field::BOX, indexed(d, 5)?), 0, 2)
    } else if mnemonic.has(Word::GlobalDim) {
        (nth(field::DIMS, indexed(d, 5)?), 1, 2)
    } else if mnemonic.has(Word::ElementStride) {
        (nth(field::ELEMENT_STRIDES, indexed(d, 5)?), 0, 2)
    } else if mnemonic.has(Word::GlobalStride) {
        (nth(field::STRIDES, indexed(d, 4)?), 0, 2)
    } else if mnemonic.has(Word::Elemtype) {
        (field::DATA_TYPE, 0, 1)
    } else if mnemonic.has(Word::InterleaveLayout) {
        (field::INTERLEAVE, 0, 1)
    } else if mnemonic.has(Word::SwizzleMode) {
        (field::SWIZZLE, 0, 1)
    } else if mnemonic.has(Word::FillMode) {
        (field::FILL, 0, 1)
    } else {
        return Err(Unsupported::new("tensormap.replace of this field"));
    };
    let mut op = d.whole(Class::Other, |warp, op, mask| flow(replace(warp, op, mask)));
    op.b = match d.operand(value)? {
        Operand::Number(n) if mnemonic.has(Word::Elemtype) => {
            let number = element_type(n).ok_or_else(|| Unsupported::new("this element type"))?;
            d.number(number, 8)
        }
        operand => d.src_of::<u64>(operand)?,
    };
    let how = Replace {
        map,
        at,
        bytes,
        less,
    };
    d.record(&mut op, how);
    Ok(op)
}

fn nth((at, bytes): (usize, usize), index: usize) -> (usize, usize) {
    (at + index * bytes, bytes)
}

/// `.elemtype` has numbers of its own: those of the ISA to those of `cuda.h`.
fn element_type(number: u64) -> Option<u64> {
    // u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz
    const TABLE: [u64; 13] = [0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12];
    TABLE.get(usize::try_from(number).ok()?).copied()
}

/// `tensormap.cp_fenceproxy`: 128 bytes from shared to global memory.
fn copy(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let to = Place::of(&d.address(0, Some(Space::Global))?)?;
    let from = Place::of(&d.address(1, Some(Space::Shared))?)?;
    let mut op = d.whole(Class::Global, |warp, op, mask| {
        let (to, from) = *warp.data::<(Place, Place)>(op);
        flow(lanes(mask).try_for_each(|lane| {
            let len = (SIZE as u64, SIZE as u64);
            let source = (from.lane(warp, lane), from.kind);
            let source = range(warp, op, lane, source, len, false)?;
            let target = (to.lane(warp, lane), to.kind);
            let target = range(warp, op, lane, target, len, true)?;
            // SAFETY: `range` checked both.
            unsafe { std::ptr::copy(source, target, SIZE) };
            Ok(())
        }))
    });
    d.record(&mut op, (to, from));
    Ok(op)
}
