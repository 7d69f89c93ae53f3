//! `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`: a box of a tensor, between global and shared memory.

use super::super::atomic::{Function, function};
use super::linear::reduce_element;
use super::tile::{self, Row};
use super::{Place, barrier, complete, copies, flow, invalid, map, range};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::exec::access::{GLOBAL, SHARED};
use crate::exec::{Flow, Op, Slot, lanes};
use crate::launch::Class;
use crate::memory::window::SHARED_LIMIT;
use crate::tensor_map::{DataType, TensorMap};
use r3_ptx::isa::{Mnemonic, Operation, ScalarType, Word};

/// The record. `op.list`: the coordinates. `op.c`: mask of blocks.
struct How {
    map: Place,
    shared: Place,
    /// Into shared memory; the mbarrier.
    barrier: Option<Place>,
    dimensions: u8,
    multicast: bool,
    /// `tile::gather4`, `tile::scatter4`
    four_rows: bool,
    reduce: Option<Operation>,
}

fn run(warp: &mut Warp, op: &Op, mask: u32) -> Result<(), Flow> {
    let how = warp.data::<How>(op);
    for lane in lanes(mask) {
        let map = map::read(warp, op, lane, &how.map)?;
        if map.rank != how.dimensions {
            let text = format!(
                "tensor map of {} dimensions, {} in the instruction",
                map.rank, how.dimensions
            );
            return Err(invalid(warp, lane, text));
        }
        if map.interleave != 0 || map.im2col.is_some() {
            let what = "tensor map in interleaved layout or in im2col mode";
            let kind = crate::fault::FaultKind::Unsupported(what.to_owned());
            return Err(warp.fault(lane, kind));
        }
        let sides = map.box_dims.iter().take(map.rank.into());
        let boxed = sides.fold(1, |n: u64, &side| n.saturating_mul(side.into()));
        let bytes = boxed.saturating_mul(map.data_type.bytes().into());
        if bytes > u64::from(SHARED_LIMIT) {
            let text = format!("a box of {bytes} bytes, more than shared memory can have");
            return Err(invalid(warp, lane, text));
        }
        let coordinates = coordinates(warp, warp.slots(op), lane);
        let rows = if how.four_rows {
            let first = i64::from(coordinates[0]);
            let row = |r: i32| tile::row(&map, [first, i64::from(r), 0, 0, 0], 2);
            coordinates[1..].iter().map(|r| row(*r)).collect()
        } else {
            tile::rows(&map, coordinates)
        };
        let row_bytes = u64::from(map.box_dims[0] * map.data_type.bytes());
        let total = row_bytes * rows.len() as u64;
        let address = how.shared.lane(warp, lane);
        match &how.barrier {
            Some(barrier) => {
                let bytes = gather(warp, op, lane, &map, &rows)?;
                let ranks = how
                    .multicast
                    .then(|| u32::from(warp.lane::<u16>(op.c, lane)));
                for to in copies(address, ranks) {
                    spread(warp, op, lane, &map, to, &bytes)?;
                }
                complete(warp, lane, barrier, ranks, total)?;
            }
            None => {
                let bytes = collect(warp, op, lane, &map, (address, how.shared.kind), total)?;
                let f = match how.reduce {
                    Some(operation) => Some(reduction(warp, lane, operation, map.data_type)?),
                    None => None,
                };
                store(warp, op, lane, &map, &rows, &bytes, f)?;
            }
        }
    }
    Ok(())
}

fn coordinates(warp: &Warp, slots: &[Slot], lane: usize) -> [i32; 5] {
    let mut c = [0; 5];
    for (c, slot) in c.iter_mut().zip(slots) {
        *c = warp.lane::<i32>(*slot, lane);
    }
    c
}

/// The box as it is in shared memory, before the swizzle.
fn gather(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    map: &TensorMap,
    rows: &[Row],
) -> Result<Vec<u8>, Flow> {
    let size = map.data_type.bytes() as usize;
    let row_bytes = map.box_dims[0] as usize * size;
    let mut bytes = vec![0; row_bytes * rows.len()];
    if map.nan_fill {
        let nan = map.data_type.nan().to_le_bytes();
        for element in bytes.chunks_exact_mut(size) {
            element.copy_from_slice(&nan[..size]);
        }
    }
    for (row, out) in rows.iter().zip(bytes.chunks_exact_mut(row_bytes)) {
        if row.inside == 0 {
            continue;
        }
        let len = row.inside as usize * size;
        let from = (row.address, GLOBAL);
        let source = range(warp, op, lane, from, (len as u64, 1), false)?;
        let out = &mut out[row.skip as usize * size..][..len];
        // SAFETY: `range` checked the source.
        unsafe { std::ptr::copy_nonoverlapping(source, out.as_mut_ptr(), len) };
        convert(map.data_type, out);
    }
    Ok(bytes)
}

/// What a load does to the elements of some types.
fn convert(ty: DataType, bytes: &mut [u8]) {
    let (ftz, tf32) = match ty {
        DataType::F32Ftz => (true, false),
        DataType::Tf32 => (false, true),
        DataType::Tf32Ftz => (true, true),
        _ => return,
    };
    for element in bytes.chunks_exact_mut(4) {
        let mut word = [0; 4];
        word.copy_from_slice(element);
        let mut bits = u32::from_le_bytes(word);
        if ftz && bits & 0x7f80_0000 == 0 {
            bits &= 0x8000_0000;
        }
        if tf32 && bits & 0x7f80_0000 != 0x7f80_0000 {
            bits = bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff;
        }
        element.copy_from_slice(&bits.to_le_bytes());
    }
}

/// Bytes of a box in shared memory move in units of 8, the finest that a swizzle permutes.
const UNIT: usize = 8;

/// Alignment of a box in shared memory.
const ALIGN: u64 = 128;

/// Writes a box to shared memory.
fn spread(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    map: &TensorMap,
    address: u64,
    bytes: &[u8],
) -> Result<(), Flow> {
    let len = (extent(map, bytes.len() as u64), ALIGN);
    let target = range(warp, op, lane, (address, SHARED), len, true)?;
    for (i, unit) in bytes.chunks_exact(UNIT).enumerate() {
        let at = place(map, address, i);
        // SAFETY: `range` checked the whole box; a swizzle permutes within it.
        unsafe { std::ptr::copy_nonoverlapping(unit.as_ptr(), target.add(at), UNIT) };
    }
    Ok(())
}

/// Reads a box from shared memory.
fn collect(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    map: &TensorMap,
    (address, kind): (u64, u8),
    total: u64,
) -> Result<Vec<u8>, Flow> {
    let len = (extent(map, total), ALIGN);
    let source = range(warp, op, lane, (address, kind), len, false)?;
    let mut bytes = vec![0; total as usize];
    for (i, unit) in bytes.chunks_exact_mut(UNIT).enumerate() {
        let at = place(map, address, i);
        // SAFETY: as in `spread`.
        unsafe { std::ptr::copy_nonoverlapping(source.add(at), unit.as_mut_ptr(), UNIT) };
    }
    Ok(bytes)
}

/// Bytes of shared memory that a box touches: a swizzle permutes within eight rows of its span at most.
fn extent(map: &TensorMap, total: u64) -> u64 {
    match map.swizzle.span() {
        Some(_) => total.next_multiple_of(128),
        None => total,
    }
}

/// Offset of unit `index` of a packed box, with the swizzle of its address.
fn place(map: &TensorMap, address: u64, index: usize) -> usize {
    let start = crate::memory::window::shared_offset(address as u32);
    let plain = start.wrapping_add((index * UNIT) as u32);
    map.swizzle.apply(plain).wrapping_sub(start) as usize
}

/// Writes the elements that are inside the tensor, or combines them with what is there.
fn store(
    warp: &mut Warp,
    op: &Op,
    lane: usize,
    map: &TensorMap,
    rows: &[Row],
    bytes: &[u8],
    f: Option<Function>,
) -> Result<(), Flow> {
    let size = map.data_type.bytes() as usize;
    let row_bytes = map.box_dims[0] as usize * size;
    for (row, bytes) in rows.iter().zip(bytes.chunks_exact(row_bytes)) {
        if row.inside == 0 {
            continue;
        }
        let len = row.inside as usize * size;
        let to = (row.address, GLOBAL);
        let target = range(warp, op, lane, to, (len as u64, 1), true)?;
        let bytes = &bytes[row.skip as usize * size..][..len];
        match f {
            None => {
                // SAFETY: `range` checked the target.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, len) };
            }
            Some(f) => {
                for at in (0..len).step_by(size) {
                    // SAFETY: as above; tensors are aligned to 16 bytes and so are their elements to their size.
                    unsafe {
                        reduce_element(bytes.as_ptr().add(at), target.add(at), f, size as u32);
                    }
                }
            }
        }
    }
    Ok(())
}

fn reduction(
    warp: &mut Warp,
    lane: usize,
    operation: Operation,
    ty: DataType,
) -> Result<Function, Flow> {
    let scalar = match ty {
        DataType::U8 | DataType::U16 => None,
        DataType::U32 => Some(ScalarType::U32),
        DataType::S32 => Some(ScalarType::S32),
        DataType::U64 => Some(ScalarType::U64),
        DataType::S64 => Some(ScalarType::S64),
        DataType::F16 => Some(ScalarType::F16),
        DataType::Bf16 => Some(ScalarType::BF16),
        DataType::F64 => Some(ScalarType::F64),
        _ => Some(ScalarType::F32),
    };
    let f = scalar.and_then(|scalar| function(operation, scalar, false));
    f.ok_or_else(|| {
        let text = format!("reduction {operation:?} on a tensor of {ty:?}");
        invalid(warp, lane, text)
    })
}

/// Decodes tensor copies.
pub(super) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let has = |word| mnemonic.has(word);
    if has(Word::Im2col) || has(Word::Im2colW) || has(Word::Im2colW128) || has(Word::Im2colNoOffs) {
        return Err(Unsupported::new("tensor copies in im2col mode"));
    }
    let loads = has(Word::MbarrierCompleteTxBytes);
    let (tensor, shared) = if loads { (1, 0) } else { (0, 1) };
    let operand = d.operand(tensor)?;
    let parts = d.elements(operand);
    let &[map, coordinates] = parts.as_slice() else {
        return Err(Unsupported::new("tensor operand without coordinates"));
    };
    let map = Place::of(&d.address_of(map, None)?)?;
    let mut slots = Vec::new();
    for coordinate in d.elements(coordinates) {
        slots.push(d.src_of::<i32>(coordinate)?);
    }
    let space = mnemonic.spaces().find(|s| *s != r3_ptx::isa::Space::Global);
    let shared = Place::of(&d.address(shared, space)?)?;
    if shared.kind != SHARED {
        return Err(Unsupported::new(
            "tensor copy from or to another space than shared memory",
        ));
    }
    let barrier = if loads { Some(barrier(d, 2)?) } else { None };
    let mut op = d.whole(Class::Global, |warp, op, mask| flow(run(warp, op, mask)));
    let multicast = has(Word::MulticastCluster);
    if multicast {
        let back = 1 + usize::from(has(Word::L2CacheHint));
        op.c = d.src::<u16>(d.operand_count() - back)?;
    }
    let dimensions = [Word::D1, Word::D2, Word::D3, Word::D4, Word::D5]
        .iter()
        .position(|word| has(*word))
        .map_or(0, |n| n as u8 + 1);
    d.list(&mut op, &slots);
    let how = How {
        map,
        shared,
        barrier,
        dimensions,
        multicast,
        four_rows: has(Word::TileGather4) || has(Word::TileScatter4),
        reduce: if has(Word::Reduce) {
            mnemonic.operation()
        } else {
            None
        },
    };
    d.record(&mut op, how);
    Ok(op)
}
