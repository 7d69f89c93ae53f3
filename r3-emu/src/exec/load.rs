//! Loads: `ld`, `ldu`, of all spaces, scalars and vectors.
//!
//! Cache operators, eviction priorities and prefetch sizes have no meaning here. Loads with an order, and volatile ones, are
//! single host loads with acquire order, each lane for itself, and may be polls.

use super::access::{self, GENERIC, GLOBAL, Kind, LOCAL, PARAM, SHARED, Shape, Spots};
use super::{Body, Flow, LANES, Lane, Op, lanes};
use crate::block::Warp;
use crate::decode::{Decoder, Unsupported};
use crate::memory::racecheck::Access;
use r3_ptx::isa::{Mnemonic, Opcode, Order};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A value in memory, and the register in which it is kept.
pub(super) trait Cell: Copy + Default + 'static {
    /// What a lane of its slot is.
    type Register: Lane;
    /// Bytes.
    const SIZE: u64 = size_of::<Self>() as u64;
    /// Memory to register.
    fn widen(self) -> Self::Register;
    /// Register to memory.
    fn narrow(register: Self::Register) -> Self;
    /// A single host load.
    ///
    /// # Safety
    /// `at` is valid for reads and aligned.
    unsafe fn load(at: *mut u8) -> Self;
    /// A single host store.
    ///
    /// # Safety
    /// `at` is valid for writes and aligned.
    unsafe fn store(self, at: *mut u8, order: Ordering);
}

macro_rules! cell {
    ($($ty:ty, $register:ty, $bits:ty, $atomic:ty;)*) => { $(
        impl Cell for $ty {
            type Register = $register;

            #[inline(always)]
            fn widen(self) -> $register {
                self as $register
            }

            #[inline(always)]
            fn narrow(register: $register) -> Self {
                register as Self
            }

            #[inline(always)]
            unsafe fn load(at: *mut u8) -> Self {
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(at.cast()) }.load(Ordering::Acquire) as Self
            }

            #[inline(always)]
            unsafe fn store(self, at: *mut u8, order: Ordering) {
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(at.cast()) }.store(self as $bits, order);
            }
        }
    )* };
}
cell! {
    u8, u16, u8, AtomicU8;
    i8, i16, u8, AtomicU8;
    u16, u16, u16, AtomicU16;
    u32, u32, u32, AtomicU32;
    u64, u64, u64, AtomicU64;
}

impl Cell for u128 {
    type Register = u128;

    #[inline(always)]
    fn widen(self) -> u128 {
        self
    }

    #[inline(always)]
    fn narrow(register: u128) -> Self {
        register
    }

    #[inline(always)]
    unsafe fn load(at: *mut u8) -> Self {
        // Hosts with AVX move 16 aligned bytes at once.
        // SAFETY: the caller's promise.
        let value = unsafe { at.cast::<u128>().read_volatile() };
        std::sync::atomic::fence(Ordering::Acquire);
        value
    }

    #[inline(always)]
    unsafe fn store(self, at: *mut u8, _: Ordering) {
        std::sync::atomic::fence(Ordering::Release);
        // SAFETY: the caller's promise.
        unsafe { at.cast::<u128>().write_volatile(self) };
    }
}

/// A plain load of a scalar.
struct Scalar<T, const KIND: Kind>(PhantomData<T>);

impl<T: Cell, const KIND: Kind> Body for Scalar<T, KIND> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let spots = match access::spots::<KIND>(warp, op, mask, Shape::natural(T::SIZE, false)) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        if access::watched(warp, KIND) {
            let all = access::addresses(warp, op);
            access::watch(warp, op, mask, &all, T::SIZE, KIND, Access::Read);
        }
        let same_width = size_of::<T>() == size_of::<T::Register>();
        match spots {
            // The two most frequent shapes go to the register at once.
            Spots::Run(from) if same_width && mask == u32::MAX => {
                let to = warp.slot::<u8>(op.d);
                // SAFETY: `spots` checked all lanes; a slot has 32 of them, of the same width, and is not device memory.
                unsafe { std::ptr::copy_nonoverlapping(from, to, LANES * size_of::<T>()) };
            }
            Spots::Same(from) if warp.covers(mask) => {
                // SAFETY: `spots` checked the place.
                let value = unsafe { from.cast::<T>().read_unaligned() }.widen();
                warp.put(op.d, mask, &[value; LANES]);
            }
            _ => {
                // SAFETY: `spots` checked the lanes of the mask.
                let r = unsafe { read_all::<T>(&spots, mask, T::SIZE, 0) };
                warp.put(op.d, mask, &r);
            }
        }
        Flow::Next
    }
}

/// Values of all lanes of the mask, `offset` bytes behind their spots.
///
/// # Safety
/// The spots are valid for reads of `offset` plus the cell's size, for the lanes of `mask`.
#[inline(always)]
pub(super) unsafe fn read_all<T: Cell>(
    spots: &Spots,
    mask: u32,
    size: u64,
    offset: usize,
) -> [T::Register; LANES] {
    let mut r = [T::Register::default(); LANES];
    match spots {
        Spots::Same(p) => {
            // SAFETY: the caller's promise. Parameters and caller's memory may lie anywhere.
            let value = unsafe { p.wrapping_add(offset).cast::<T>().read_unaligned() };
            r = [value.widen(); LANES];
        }
        Spots::Run(p) if mask == u32::MAX => {
            for (i, r) in r.iter_mut().enumerate() {
                let at = p.wrapping_add(i * size as usize + offset);
                // SAFETY: the caller's promise.
                *r = unsafe { at.cast::<T>().read_unaligned() }.widen();
            }
        }
        Spots::Each(all) if mask == u32::MAX => {
            for (r, p) in r.iter_mut().zip(all) {
                // SAFETY: the caller's promise.
                *r = unsafe { p.wrapping_add(offset).cast::<T>().read_unaligned() }.widen();
            }
        }
        _ => {
            for lane in lanes(mask) {
                let at = spots.lane(lane, size).wrapping_add(offset);
                // SAFETY: the caller's promise.
                r[lane] = unsafe { at.cast::<T>().read_unaligned() }.widen();
            }
        }
    }
    r
}

/// A plain load of `op.n` elements of a vector.
struct Vector<T, const KIND: Kind>(PhantomData<T>);

impl<T: Cell, const KIND: Kind> Body for Vector<T, KIND> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let size = T::SIZE * u64::from(op.n);
        let spots = match access::spots::<KIND>(warp, op, mask, Shape::natural(size, false)) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        if access::watched(warp, KIND) {
            let all = access::addresses(warp, op);
            access::watch(warp, op, mask, &all, size, KIND, Access::Read);
        }
        for i in 0..usize::from(op.n) {
            // SAFETY: `spots` checked the lanes of the mask.
            let r = unsafe { read_all::<T>(&spots, mask, size, i * T::SIZE as usize) };
            let to = warp.slots(op)[i];
            warp.put(to, mask, &r);
        }
        Flow::Next
    }
}

/// A load with an order, or a volatile one, of `op.n` elements; its record is the kind.
struct Ordered<T>(PhantomData<T>);

impl<T: Cell> Body for Ordered<T> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        let size = T::SIZE * u64::from(op.n);
        let kind = *warp.data::<Kind>(op);
        let all = access::addresses(warp, op);
        let shape = Shape::natural(size, false);
        let hint = op.instruction as usize;
        let spots = match access::spots_of(warp, hint, mask, &all, shape, kind) {
            Ok(spots) => spots,
            Err(flow) => return flow,
        };
        if access::watched(warp, kind) {
            access::watch(warp, op, mask, &all, size, kind, Access::OrderedRead);
        }
        for i in 0..usize::from(op.n) {
            let mut r = [T::Register::default(); LANES];
            for lane in lanes(mask) {
                let at = spots.lane(lane, size).wrapping_add(i * T::SIZE as usize);
                // Only parameters can be less aligned on the host, and nobody writes them.
                r[lane] = if (at as usize).is_multiple_of(align_of::<T>()) {
                    // SAFETY: `spots` checked the lane; aligned as tested.
                    unsafe { T::load(at) }.widen()
                } else {
                    // SAFETY: `spots` checked the lane.
                    unsafe { at.cast::<T>().read_unaligned() }.widen()
                };
            }
            let to = warp.slots(op)[i];
            warp.put(to, mask, &r);
        }
        warp.spin();
        Flow::Next
    }
}

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match mnemonic.opcode() {
        Opcode::Ld | Opcode::Ldu => Some(load(d, mnemonic)),
        _ => None,
    }
}

/// Builds an op for each width of memory cells.
macro_rules! by_width {
    ($ty:expr, $f:ident $(::<$kind:ident>)? ($($arg:expr),*)) => {
        match ($ty.bytes(), $ty.is_signed()) {
            (1, false) => $f::<u8 $(, $kind)?>($($arg),*),
            (1, true) => $f::<i8 $(, $kind)?>($($arg),*),
            (2, false) => $f::<u16 $(, $kind)?>($($arg),*),
            (4, false) => $f::<u32 $(, $kind)?>($($arg),*),
            (8, _) => $f::<u64 $(, $kind)?>($($arg),*),
            (16, _) => $f::<u128 $(, $kind)?>($($arg),*),
            (2, true) => $f::<u16 $(, $kind)?>($($arg),*),
            (4, true) => $f::<u32 $(, $kind)?>($($arg),*),
            (n, _) => Err(Unsupported::new(format!("memory access of {n} bytes"))),
        }
    };
}
pub(super) use by_width;

fn load(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let ty = mnemonic
        .ty()
        .ok_or_else(|| Unsupported::new("load without a type"))?;
    let (address, kind) = access::decode_address(d, 1, mnemonic.space())?;
    let ordered = !matches!(mnemonic.order(), None | Some(Order::Weak));
    // Volatile local memory is nobody else's: a plain load does.
    let ordered = ordered && matches!(kind, GLOBAL | SHARED | GENERIC);
    let vector = mnemonic.vector() > 1;
    let mut op = if ordered {
        by_width!(ty, ordered_op(d, kind))?
    } else {
        match (kind, vector) {
            (GLOBAL, false) => by_width!(ty, scalar_op::<GLOBAL>(d))?,
            (SHARED, false) => by_width!(ty, scalar_op::<SHARED>(d))?,
            (LOCAL, false) => by_width!(ty, scalar_op::<LOCAL>(d))?,
            (PARAM, false) => by_width!(ty, scalar_op::<PARAM>(d))?,
            (_, false) => by_width!(ty, scalar_op::<GENERIC>(d))?,
            (GLOBAL, true) => by_width!(ty, vector_op::<GLOBAL>(d))?,
            (SHARED, true) => by_width!(ty, vector_op::<SHARED>(d))?,
            (LOCAL, true) => by_width!(ty, vector_op::<LOCAL>(d))?,
            (PARAM, true) => by_width!(ty, vector_op::<PARAM>(d))?,
            (_, true) => by_width!(ty, vector_op::<GENERIC>(d))?,
        }
    };
    access::set_address(&mut op, &address);
    let operand = d.operand(0)?;
    let elements = d.elements(operand);
    let mut slots = Vec::with_capacity(elements.len());
    for element in elements {
        slots.push(match (ty.bytes(), ty.is_signed()) {
            (1, false) => d.dst_of::<u16>(element)?,
            (1 | 2, true) => d.dst_of::<i16>(element)?,
            (2, false) => d.dst_of::<u16>(element)?,
            (4, false) => d.dst_of::<u32>(element)?,
            (4, true) => d.dst_of::<i32>(element)?,
            (8, false) => d.dst_of::<u64>(element)?,
            (8, true) => d.dst_of::<i64>(element)?,
            _ => d.dst_of::<u128>(element)?,
        });
    }
    if slots.len() != usize::from(mnemonic.vector()) {
        return Err(Unsupported::new("vector with another number of elements"));
    }
    op.d = slots[0];
    d.list(&mut op, &slots);
    Ok(op)
}

fn scalar_op<T: Cell, const KIND: Kind>(d: &Decoder<'_>) -> Result<Op, Unsupported> {
    Ok(d.op::<Scalar<T, KIND>>(access::class(KIND)))
}

fn vector_op<T: Cell, const KIND: Kind>(d: &Decoder<'_>) -> Result<Op, Unsupported> {
    Ok(d.op::<Vector<T, KIND>>(access::class(KIND)))
}

fn ordered_op<T: Cell>(d: &mut Decoder<'_>, kind: Kind) -> Result<Op, Unsupported> {
    let mut op = d.op::<Ordered<T>>(access::class(kind));
    d.record(&mut op, kind);
    Ok(op)
}
