//! A decoded operation and what it points to.

use crate::block::Warp;
use crate::launch::Class;

/// A place in the register file: a byte offset, and in its two low bits which memory the offset is in.
///
/// A slot of a 16-, 32-, 64- or 128-bit value holds 32 lanes side by side (`[u32; 32]` and so on), aligned to 64
/// bytes. A slot of a predicate holds one bit a lane in a `u32`. Slots come from the decoder only, so they always lie
/// inside their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

/// The memories that slots are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Base {
    /// Registers and temporaries of the running function, one copy for each call.
    Frame = 0,
    /// Numbers of the function's text: never written, shared by all warps of all threads of the host.
    Constants = 1,
    /// Special registers that are the same for a block.
    Block = 2,
    /// Special registers of a warp, and the slots that take what nobody reads.
    Warp = 3,
}

impl Slot {
    /// The predicate that is always true: the first word of each function's constants.
    pub const TRUE: Self = Self(Base::Constants as u32);
    /// The predicate that is never true.
    pub const FALSE: Self = Self(4 | Base::Constants as u32);

    /// A slot at a byte offset.
    pub const fn new(base: Base, offset: u32) -> Self {
        debug_assert!(offset & 3 == 0);
        Self(offset | base as u32)
    }

    /// Which memory.
    #[inline(always)]
    pub fn base(self) -> usize {
        (self.0 & 3) as usize
    }

    /// Byte offset in it.
    #[inline(always)]
    pub fn offset(self) -> usize {
        (self.0 & !3) as usize
    }
}

/// What a handler says to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[must_use]
pub(crate) enum Flow {
    /// Done: go on with the next operation.
    Next,
    /// Done; all active lanes go on at [`Warp::pc`], which the handler set.
    Jump,
    /// The set of paths changed (lanes split, waited, called, returned or left): choose again.
    Switch,
    /// Not possible yet: try the same operation again after other lanes, warps or blocks of the cluster have made
    /// progress. The handler must not have had an effect. When nobody can make progress it is a deadlock.
    Retry,
    /// Done, go on with the next operation, but let others run first (`nanosleep`).
    Yield,
    /// [`Warp::fault`] was called.
    Fault,
}

/// Executes one operation for the lanes of `mask`, which is never 0.
///
/// # Safety
/// The operation belongs to the code that the warp is executing; handlers for AVX2 run only where it is there.
pub(crate) type Handler = unsafe fn(&mut Warp, &Op, u32) -> Flow;

/// One decoded operation: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Op {
    /// What it does.
    pub run: Handler,
    /// Predicate of its guard, [`Slot::TRUE`] without one.
    pub guard: Slot,
    /// All ones when the guard is negated.
    pub guard_flip: u32,
    /// First destination.
    pub d: Slot,
    /// Second destination (`d|p`), or whatever the family uses it for.
    pub e: Slot,
    /// First source.
    pub a: Slot,
    /// Second source.
    pub b: Slot,
    /// Third source.
    pub c: Slot,
    /// Fourth source.
    pub f: Slot,
    /// A number: an offset, a mode, a table of `lop3`.
    pub imm: u64,
    /// First of its further slots, see [`Warp::slots`].
    pub list: u32,
    /// Its record, see [`Warp::data`].
    pub data: u32,
    /// How many further slots.
    pub n: u16,
    /// What it counts as.
    pub class: Class,
    /// 1, or 0 for operations that the decoder added (they do not count).
    pub weight: u8,
    /// Index of the instruction it comes from.
    pub instruction: u32,
}

const _: () = assert!(size_of::<Op>() == 64);

/// The body of a handler. Implement it on an empty type and mark `run` `#[inline(always)]`; it is compiled twice, for
/// plain x86-64 and for AVX2 with FMA, and [`Level::handler`] chooses.
pub(crate) trait Body: 'static {
    /// See [`Handler`].
    fn run(warp: &mut Warp, op: &Op, mask: u32) -> Flow;
}

/// Which instantiation of the handlers this host can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// What every host of the target has.
    Baseline,
    /// AVX2, FMA, F16C, BMI1, BMI2, LZCNT, POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Level {
    /// The best of this host.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2")
                && has!("fma")
                && has!("f16c")
                && has!("bmi1")
                && has!("bmi2")
                && has!("lzcnt")
                && has!("popcnt")
            {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// The handler of a body.
    pub fn handler<B: Body>(self) -> Handler {
        match self {
            Self::Baseline => baseline::<B>,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::<B>,
        }
    }
}

unsafe fn baseline<B: Body>(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    B::run(warp, op, mask)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<B: Body>(warp: &mut Warp, op: &Op, mask: u32) -> Flow {
    B::run(warp, op, mask)
}
