//! Special registers: where their slots are, and the values that change while a kernel runs.

use crate::exec::{Base, LANES, Slot};
use r3_ptx::isa::SpecialRegister as S;

/// Registers that are the same for a whole block, in the order of their slots.
pub(crate) const OF_BLOCK: &[S] = &[
    S::NtidX,
    S::NtidY,
    S::NtidZ,
    S::CtaidX,
    S::CtaidY,
    S::CtaidZ,
    S::NctaidX,
    S::NctaidY,
    S::NctaidZ,
    S::ClusteridX,
    S::ClusteridY,
    S::ClusteridZ,
    S::NclusteridX,
    S::NclusteridY,
    S::NclusteridZ,
    S::ClusterCtaidX,
    S::ClusterCtaidY,
    S::ClusterCtaidZ,
    S::ClusterNctaidX,
    S::ClusterNctaidY,
    S::ClusterNctaidZ,
    S::ClusterCtarank,
    S::ClusterNctarank,
    S::NwarpId,
    S::SmId,
    S::NsmId,
    S::TotalSmemSize,
    S::AggrSmemSize,
    S::DynamicSmemSize,
    S::GridId,
    // Address of the grid's workspace in cooperative launches, high and low half.
    S::Envreg(1),
    S::Envreg(2),
    // Always 0 here.
    S::TidW,
];

/// Registers of a warp, in the order of their slots.
pub(crate) const OF_WARP: &[S] = &[
    S::TidX,
    S::TidY,
    S::TidZ,
    S::LaneId,
    S::WarpId,
    S::LanemaskEq,
    S::LanemaskLe,
    S::LanemaskLt,
    S::LanemaskGe,
    S::LanemaskGt,
];

/// Registers that are 0 on this device: the fourth elements, counters and what a driver would set.
fn zero(register: S) -> bool {
    matches!(
        register,
        S::TidW
            | S::NtidW
            | S::CtaidW
            | S::NctaidW
            | S::ClusteridW
            | S::NclusteridW
            | S::ClusterCtaidW
            | S::ClusterNctaidW
            | S::Envreg(0 | 3..)
            | S::Pm(_)
            | S::Pm64(_)
            | S::ReservedSmemOffset(_)
            | S::ReservedSmemOffsetBegin
            | S::ReservedSmemOffsetEnd
            | S::ReservedSmemOffsetCap
            | S::LocalityDomainId
            | S::CurrentGraphExec
    )
}

/// Bytes of a slot of either list.
const STRIDE: u32 = 256;
/// Bytes at the start of the warp's memory that take what nobody reads.
const SINK: u32 = 512;

/// Bytes of a block's memory of slots.
pub(crate) const BLOCK_BYTES: usize = (OF_BLOCK.len() + 1) * STRIDE as usize;
/// Bytes of a warp's.
pub(crate) const WARP_BYTES: usize = SINK as usize + (OF_WARP.len() + 1) * STRIDE as usize;

/// The carry flag: a bit a lane.
pub(crate) const CARRY: Slot = Slot::new(Base::Warp, SINK + OF_WARP.len() as u32 * STRIDE);

/// `%is_explicit_cluster`
pub(crate) const EXPLICIT_CLUSTER: Slot = Slot::new(Base::Block, OF_BLOCK.len() as u32 * STRIDE);

/// Slot and width of a register that does not change while a block runs.
pub(crate) fn fixed(register: S) -> Option<(Slot, u32)> {
    let register = if zero(register) { S::TidW } else { register };
    let width = if register == S::GridId { 8 } else { 4 };
    let find = |list: &[S]| list.iter().position(|&r| r == register);
    if let Some(i) = find(OF_BLOCK) {
        return Some((Slot::new(Base::Block, i as u32 * STRIDE), width));
    }
    let i = find(OF_WARP)?;
    Some((Slot::new(Base::Warp, SINK + i as u32 * STRIDE), width))
}

/// Writes one value to all lanes of a block's register. `memory` has [`BLOCK_BYTES`].
pub(crate) fn fill(memory: *mut u8, register: S, value: u64) {
    let Some((slot, width)) = fixed(register) else {
        return;
    };
    if slot.base() != Base::Block as usize {
        return;
    }
    for lane in 0..LANES {
        // SAFETY: slots of this list lie in the memory, with 32 lanes of 4 or 8 bytes.
        unsafe {
            let at = memory.add(slot.offset());
            if width == 8 {
                at.cast::<u64>().add(lane).write(value);
            } else {
                at.cast::<u32>().add(lane).write(value as u32);
            }
        }
    }
}

/// Writes one lane of a warp's register. `memory` has [`WARP_BYTES`].
pub(crate) fn fill_lane(memory: *mut u8, register: S, lane: usize, value: u32) {
    let Some((slot, _)) = fixed(register) else {
        return;
    };
    if slot.base() == Base::Warp as usize && lane < LANES {
        // SAFETY: as in `fill`.
        unsafe {
            memory
                .add(slot.offset())
                .cast::<u32>()
                .add(lane)
                .write(value)
        }
    }
}

/// The four elements of a register that is named as a whole.
pub(crate) fn elements(register: S) -> [r3_ptx::typed::Operand; 4] {
    let all = match register {
        S::Tid => [S::TidX, S::TidY, S::TidZ, S::TidW],
        S::Ntid => [S::NtidX, S::NtidY, S::NtidZ, S::NtidW],
        S::Ctaid => [S::CtaidX, S::CtaidY, S::CtaidZ, S::CtaidW],
        S::Nctaid => [S::NctaidX, S::NctaidY, S::NctaidZ, S::NctaidW],
        S::Clusterid => [S::ClusteridX, S::ClusteridY, S::ClusteridZ, S::ClusteridW],
        S::Nclusterid => [
            S::NclusteridX,
            S::NclusteridY,
            S::NclusteridZ,
            S::NclusteridW,
        ],
        S::ClusterCtaid => [
            S::ClusterCtaidX,
            S::ClusterCtaidY,
            S::ClusterCtaidZ,
            S::ClusterCtaidW,
        ],
        _ => [
            S::ClusterNctaidX,
            S::ClusterNctaidY,
            S::ClusterNctaidZ,
            S::ClusterNctaidW,
        ],
    };
    all.map(r3_ptx::typed::Operand::Special)
}

/// Registers that change while a kernel runs. Clocks count this warp's instructions, so that they are deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Dynamic {
    /// `%clock`, `%clock64`, `%globaltimer`, `%globaltimer_lo`
    Clock,
    /// `%clock_hi`, `%globaltimer_hi`
    ClockHigh,
}

impl Dynamic {
    /// The kind of a register.
    pub fn of(register: S) -> Option<Self> {
        match register {
            S::Clock | S::Clock64 | S::Globaltimer | S::GlobaltimerLo => Some(Self::Clock),
            S::ClockHi | S::GlobaltimerHi => Some(Self::ClockHigh),
            _ => None,
        }
    }
}
