//! Reading and writing the lanes of slots, and the loops over them.

use super::{Body, Flow, Op, Slot};
use crate::block::Warp;
use std::marker::PhantomData;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// A type that lanes of a slot have. Its width decides the kind of slot: 8-bit values live in 16-bit slots.
///
/// # Safety
/// Any bits are a value, and the size is one of 2, 4, 8, 16.
pub(crate) unsafe trait Lane: Copy + Default + Send + Sync + 'static {
    /// Sign-extends, where a narrow value goes to a wider register.
    const SIGNED: bool = false;
}

macro_rules! lane {
    ($($ty:ty: $signed:literal),*) => { $(
        // SAFETY: plain numbers of 2, 4, 8 or 16 bytes.
        unsafe impl Lane for $ty { const SIGNED: bool = $signed; }
    )* };
}
lane!(u16: false, u32: false, u64: false, u128: false, i16: true, i32: true, i64: true, i128: true, f32: false, f64: false);

/// Marks what stands for a function that has no state.
pub(crate) struct Zst<F>(PhantomData<F>);

impl<F: Copy + 'static> Zst<F> {
    /// The function. A closure that captures something does not compile.
    #[inline(always)]
    pub fn get() -> F {
        const { assert!(size_of::<F>() == 0, "handlers cannot capture") };
        // SAFETY: a type of size 0 that is Copy and was made once (the caller of `Decoder::map…` had one) has no bits.
        unsafe { std::mem::zeroed() }
    }
}

impl Warp {
    /// Where a slot is. Valid for 32 lanes of the slot's width.
    #[inline(always)]
    pub fn slot<T>(&self, slot: Slot) -> *mut T {
        // SAFETY: slots come from the decoder, which sizes the memories of all bases for them.
        unsafe { self.bases[slot.base()].add(slot.offset()).cast() }
    }

    /// All 32 lanes of a slot.
    #[inline(always)]
    pub fn get<T: Lane>(&self, slot: Slot) -> [T; LANES] {
        let mut value = [T::default(); LANES];
        // SAFETY: see `slot`; any bits are a value, and `value` is new.
        unsafe { copy(self.slot::<T>(slot), value.as_mut_ptr()) };
        value
    }

    /// One lane of a slot.
    #[inline(always)]
    pub fn lane<T: Lane>(&self, slot: Slot, lane: usize) -> T {
        debug_assert!(lane < LANES);
        // SAFETY: see `slot`; masked to 32 lanes.
        unsafe { self.slot::<T>(slot).add(lane % LANES).read() }
    }

    /// Bits of a predicate.
    #[inline(always)]
    pub fn predicate(&self, slot: Slot) -> u32 {
        // SAFETY: see `slot`.
        unsafe { self.slot::<u32>(slot).read() }
    }

    /// Writes the bits of `mask`.
    #[inline(always)]
    pub fn set_predicate(&mut self, slot: Slot, mask: u32, value: u32) {
        let p = self.slot::<u32>(slot);
        // SAFETY: see `slot`.
        unsafe { p.write((p.read() & !mask) | (value & mask)) }
    }

    /// Whether the lanes outside `mask` are nobody's, so that all 32 may be written.
    #[inline(always)]
    pub fn covers(&self, mask: u32) -> bool {
        mask | self.idle == u32::MAX
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub fn put<T: Lane>(&mut self, slot: Slot, mask: u32, value: &[T; LANES]) {
        let d = self.slot::<T>(slot);
        if self.covers(mask) {
            // SAFETY: see `slot`; `value` is the caller's own memory.
            unsafe { copy(value.as_ptr(), d) }
        } else {
            blend(d, mask, value);
        }
    }

    /// `d = f(a)`
    #[inline(always)]
    pub fn map1<A: Lane, D: Lane>(&mut self, op: &Op, mask: u32, f: impl Fn(A) -> D) -> Flow {
        let a = self.slot::<A>(op.a);
        let mut r = [D::default(); LANES];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: see `slot`.
            *r = unsafe { f(a.add(i).read()) };
        }
        self.put(op.d, mask, &r);
        Flow::Next
    }

    /// `d = f(a, b)`
    #[inline(always)]
    pub fn map2<A: Lane, B: Lane, D: Lane>(
        &mut self,
        op: &Op,
        mask: u32,
        f: impl Fn(A, B) -> D,
    ) -> Flow {
        let (a, b) = (self.slot::<A>(op.a), self.slot::<B>(op.b));
        let mut r = [D::default(); LANES];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: see `slot`.
            *r = unsafe { f(a.add(i).read(), b.add(i).read()) };
        }
        self.put(op.d, mask, &r);
        Flow::Next
    }

    /// `d = f(a, b, c)`
    #[inline(always)]
    pub fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(
        &mut self,
        op: &Op,
        mask: u32,
        f: impl Fn(A, B, C) -> D,
    ) -> Flow {
        let (a, b, c) = (
            self.slot::<A>(op.a),
            self.slot::<B>(op.b),
            self.slot::<C>(op.c),
        );
        let mut r = [D::default(); LANES];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: see `slot`.
            *r = unsafe { f(a.add(i).read(), b.add(i).read(), c.add(i).read()) };
        }
        self.put(op.d, mask, &r);
        Flow::Next
    }

    /// A bit for each lane: `f(a, b)`.
    #[inline(always)]
    pub fn test2<A: Lane, B: Lane>(&mut self, op: &Op, f: impl Fn(A, B) -> bool) -> u32 {
        let (a, b) = (self.slot::<A>(op.a), self.slot::<B>(op.b));
        let mut flags = [0u8; LANES];
        for (i, flag) in flags.iter_mut().enumerate() {
            // SAFETY: see `slot`.
            *flag = u8::from(unsafe { f(a.add(i).read(), b.add(i).read()) });
        }
        bits(&flags)
    }
}

/// Lanes of a mask, in order.
#[inline(always)]
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

/// One bit for each flag that is 1; flags are 0 or 1.
#[inline(always)]
pub(crate) fn bits(flags: &[u8; LANES]) -> u32 {
    let mut word = 0;
    for (i, chunk) in flags.chunks_exact(8).enumerate() {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        // The eight low bits move to the highest byte, in order.
        let packed = u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        word |= (packed as u32) << (8 * i);
    }
    word
}

/// Copies 32 lanes, in pieces that stay in vector registers: as a whole it would be a call of the C library's function, which
/// costs more than what most handlers do.
///
/// # Safety
/// Both are valid for 32 lanes, and are the same or do not overlap.
#[inline(always)]
unsafe fn copy<T: Lane>(from: *const T, to: *mut T) {
    type Piece = [u64; 4];
    let (from, to) = (from.cast::<Piece>(), to.cast::<Piece>());
    macro_rules! pieces {
        ($($i:literal)*) => {
            // SAFETY: as the caller says; both have at least so many pieces.
            unsafe { $(to.add($i).write_unaligned(from.add($i).read_unaligned());)* }
        };
    }
    pieces!(0 1);
    if size_of::<T>() >= 4 {
        pieces!(2 3);
    }
    if size_of::<T>() >= 8 {
        pieces!(4 5 6 7);
    }
    if size_of::<T>() >= 16 {
        pieces!(8 9 10 11 12 13 14 15);
    }
}

/// Writes the lanes of `mask`, keeps the others.
#[inline(always)]
fn blend<T: Lane>(d: *mut T, mask: u32, value: &[T; LANES]) {
    macro_rules! select {
        ($int:ty) => {{
            let d = d.cast::<$int>();
            let v = std::ptr::from_ref(value).cast::<$int>();
            for i in 0..LANES {
                let keep = ((mask >> i) & 1).wrapping_sub(1);
                // All ones or zeros at any width, sign-extended.
                let keep = keep as i32 as $int;
                // SAFETY: both have 32 lanes of this width.
                unsafe {
                    let new = v.add(i).read();
                    let old = d.add(i).read();
                    d.add(i).write((new & !keep) | (old & keep));
                }
            }
        }};
    }
    match size_of::<T>() {
        2 => select!(u16),
        4 => select!(u32),
        8 => select!(u64),
        _ => select!(u128),
    }
}

macro_rules! mapped {
    ($name:ident, $call:ident, $($arg:ident),+) => {
        /// The handler of a function over lanes.
        pub(crate) struct $name<F, $($arg,)+ D>(PhantomData<(F, $($arg,)+ D)>);

        impl<F: Fn($($arg),+) -> D + Copy + 'static, $($arg: Lane,)+ D: Lane> Body for $name<F, $($arg,)+ D> {
            #[inline(always)]
            fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
                warp.$call(op, mask, Zst::<F>::get())
            }
        }
    };
}
mapped!(Map1, map1, A);
mapped!(Map2, map2, A, B);
mapped!(Map3, map3, A, B, C);

/// The handler of a whole-warp function without state.
pub(crate) struct Whole<F>(PhantomData<F>);

impl<F: Fn(&mut Warp, &Op, u32) -> Flow + Copy + 'static> Body for Whole<F> {
    #[inline(always)]
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
        Zst::<F>::get()(warp, op, mask)
    }
}
