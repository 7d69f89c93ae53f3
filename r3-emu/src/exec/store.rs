//! Stores: `st` of all spaces, scalars and vectors.
//!
//! Lanes store in their order: where several write the same place, the last one's value stays. Stores with an order, and
//! volatile ones, are single host stores, of release order where asked for.

use super::access::{self, GENERIC, GLOBAL, Kind, LOCAL, SHARED, Shape, Spots};
use super::load::{Cell, by_width};
use super::{Body, Flow, LANES, Op, Slot, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::memory::racecheck::Access;
use r3_ptx::isa::{Mnemonic, Opcode, Order, Word};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// A plain store of a scalar.
struct Scalar<T, const KIND: Kind>(PhantomData<T>);

impl<T: Cell, const KIND: Kind> Body for Scalar<T, KIND> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let spots = match access::spots::<KIND>(warp, op, mask, Shape::natural(T::SIZE, true)) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        if access::watched(warp, KIND) {
            watch::<T>(warp, op, mask, T::SIZE, KIND, &[op.b], Access::Write);
        }
        let same_width = size_of::<T>() == size_of::<T::Register>();
        match spots {
            Spots::Run(to) if same_width && mask == u32::MAX => {
                let from = warp.slot::<u8>(op.b);
                // SAFETY: `spots` checked all lanes; a slot has 32 of them, of the same width, and is not device memory.
                unsafe { std::ptr::copy_nonoverlapping(from, to, LANES * size_of::<T>()) };
            }
            _ => {
                let value = warp.get::<T::Register>(op.b);
                // SAFETY: `spots` checked the lanes of the mask.
                unsafe { write_all::<T>(&spots, mask, T::SIZE, 0, &value) };
            }
        }
        Flow::Next
    }
}

/// Writes the lanes of the mask, `offset` bytes behind their spots.
///
/// # Safety
/// The spots are valid for writes of `offset` plus the cell's size, for the lanes of `mask`.
#[inline(always)]
pub(super) unsafe fn write_all<T: Cell>(
    spots: &Spots,
    mask: u32,
    size: u64,
    offset: usize,
    value: &[T::Register; LANES],
) {
    match spots {
        Spots::Same(p) => {
            let last = 31 - mask.leading_zeros() as usize % LANES;
            let at = p.wrapping_add(offset).cast::<T>();
            // SAFETY: the caller's promise.
            unsafe { at.write_unaligned(T::narrow(value[last])) };
        }
        Spots::Run(p) if mask == u32::MAX => {
            for (i, v) in value.iter().enumerate() {
                let at = p.wrapping_add(i * size as usize + offset).cast::<T>();
                // SAFETY: the caller's promise.
                unsafe { at.write_unaligned(T::narrow(*v)) };
            }
        }
        _ => {
            for lane in lanes(mask) {
                let at = spots.lane(lane, size).wrapping_add(offset).cast::<T>();
                // SAFETY: the caller's promise.
                unsafe { at.write_unaligned(T::narrow(value[lane])) };
            }
        }
    }
}

/// A plain store of `op.n` elements of a vector.
struct Vector<T, const KIND: Kind>(PhantomData<T>);

impl<T: Cell, const KIND: Kind> Body for Vector<T, KIND> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let size = T::SIZE * u64::from(op.n);
        let spots = match access::spots::<KIND>(warp, op, mask, Shape::natural(size, true)) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        let slots = warp.slots(op);
        if access::watched(warp, KIND) {
            watch::<T>(warp, op, mask, size, KIND, slots, Access::Write);
        }
        for (i, slot) in slots.iter().enumerate() {
            let value = warp.get::<T::Register>(*slot);
            // SAFETY: `spots` checked the lanes of the mask.
            unsafe { write_all::<T>(&spots, mask, size, i * T::SIZE as usize, &value) };
        }
        Flow::Next
    }
}

/// What a store with an order needs to know.
struct How {
    kind: Kind,
    release: bool,
}

/// A store with an order, or a volatile one, of `op.n` elements.
struct Ordered<T>(PhantomData<T>);

impl<T: Cell> Body for Ordered<T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let size = T::SIZE * u64::from(op.n);
        let how = warp.data::<How>(op);
        let all = access::addresses(warp, op);
        let shape = Shape::natural(size, true);
        let hint = op.instruction as usize;
        let spots = match access::spots_of(warp, hint, mask, &all, shape, how.kind) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        let slots = warp.slots(op);
        if access::watched(warp, how.kind) {
            access::watch(warp, op, mask, &all, size, how.kind, Access::OrderedWrite);
        }
        let order = if how.release {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        for lane in lanes(mask) {
            for (i, slot) in slots.iter().enumerate() {
                let at = spots.lane(lane, size).wrapping_add(i * T::SIZE as usize);
                let value = T::narrow(warp.lane::<T::Register>(*slot, lane));
                // SAFETY: `spots` checked bounds and alignment; shared, local and global host memory is aligned as the
                // device's is.
                unsafe { value.store(at, order) };
            }
        }
        Flow::Next
    }
}

/// Tells the race check of a store, and of lanes that store different values to the same place.
#[cold]
#[inline(never)]
fn watch<T: Cell>(
    warp: &mut Warp,
    op: &Op,
    mask: u32,
    size: u64,
    kind: Kind,
    slots: &[Slot],
    access: Access,
) {
    let all = access::addresses(warp, op);
    access::watch(warp, op, mask, &all, size, kind, access);
    access::watch_same_store(warp, op, mask, &all, size, kind, |warp, a, b| {
        slots.iter().any(|slot| {
            let value = warp.get::<T::Register>(*slot);
            // SAFETY: cells are plain numbers; compared as bytes.
            let bytes = |v: T| unsafe {
                let at = std::ptr::from_ref(&v).cast::<u8>();
                std::slice::from_raw_parts(at, size_of::<T>()).to_vec()
            };
            bytes(T::narrow(value[a])) != bytes(T::narrow(value[b]))
        })
    });
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::St if !mnemonic.has(Word::Async) && !mnemonic.has(Word::Bulk) => {
            Some(store(d, mnemonic))
        }
        _ => None,
    }
}

fn store(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let ty = mnemonic
        .ty()
        .ok_or_else(|| Unsupported::new("store without a type"))?;
    let (address, kind) = access::decode_address(d, 0, mnemonic.space())?;
    if kind == access::PARAM {
        return Err(Unsupported::new("store to a parameter of the kernel"));
    }
    let order = mnemonic.order();
    let ordered = !matches!(order, None | Some(Order::Weak));
    let ordered = ordered && matches!(kind, GLOBAL | SHARED | GENERIC);
    let vector = mnemonic.vector() > 1;
    let mut op = if ordered {
        let release = order == Some(Order::Release);
        by_width!(ty, ordered_op(d, kind, release))?
    } else {
        match (kind, vector) {
            (GLOBAL, false) => by_width!(ty, scalar_op::<GLOBAL>(d))?,
            (SHARED, false) => by_width!(ty, scalar_op::<SHARED>(d))?,
            (LOCAL, false) => by_width!(ty, scalar_op::<LOCAL>(d))?,
            (_, false) => by_width!(ty, scalar_op::<GENERIC>(d))?,
            (GLOBAL, true) => by_width!(ty, vector_op::<GLOBAL>(d))?,
            (SHARED, true) => by_width!(ty, vector_op::<SHARED>(d))?,
            (LOCAL, true) => by_width!(ty, vector_op::<LOCAL>(d))?,
            (_, true) => by_width!(ty, vector_op::<GENERIC>(d))?,
        }
    };
    access::set_address(&mut op, &address);
    let operand = d.operand(1)?;
    let mut slots = Vec::new();
    for element in d.elements(operand) {
        slots.push(match ty.bytes() {
            1 | 2 => d.src_of::<u16>(element)?,
            4 => d.src_of::<u32>(element)?,
            8 => d.src_of::<u64>(element)?,
            _ => d.src_of::<u128>(element)?,
        });
    }
    if slots.len() != usize::from(mnemonic.vector()) {
        return Err(Unsupported::new("vector with another number of elements"));
    }
    op.b = slots[0];
    d.list(&mut op, &slots);
    Ok(op)
}

fn scalar_op<T: Cell, const KIND: Kind>(d: &Decoder<'_>) -> Result<Op, Unsupported> {
    Ok(d.op::<Scalar<T, KIND>>(access::class(KIND)))
}

fn vector_op<T: Cell, const KIND: Kind>(d: &Decoder<'_>) -> Result<Op, Unsupported> {
    Ok(d.op::<Vector<T, KIND>>(access::class(KIND)))
}

fn ordered_op<T: Cell>(d: &mut Decoder<'_>, kind: Kind, release: bool) -> Result<Op, Unsupported> {
    let mut op = d.op::<Ordered<T>>(access::class(kind));
    d.record(&mut op, How { kind, release });
    Ok(op)
}
