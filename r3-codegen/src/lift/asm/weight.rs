//! What LLVM may think of assembly.

use r3_ptx::isa::{Effects, Mnemonic, Opcode, Order, SpecialRegister};

/// What LLVM may think of a piece of assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lift) enum Weight {
    /// It computes.
    Pure,
    /// It reads memory.
    Reads,
    /// It does something, but not to memory that others see.
    Acts,
    /// It may do anything to memory.
    Memory,
}

/// What LLVM may think of an instruction.
pub(super) fn of_instruction(mnemonic: &Mnemonic, effects: Effects, outputs: usize) -> Weight {
    let ordered = matches!(
        mnemonic.order(),
        Some(
            Order::Volatile
                | Order::Mmio
                | Order::Relaxed
                | Order::Acquire
                | Order::Release
                | Order::AcqRel
                | Order::SeqCst
        )
    );
    let ordered = ordered || effects.convergent;
    if effects.writes || effects.sync || (effects.reads && ordered) {
        return Weight::Memory;
    }
    if effects.reads {
        return Weight::Reads;
    }
    match mnemonic.opcode() {
        Opcode::Mma | Opcode::Wmma | Opcode::Movmatrix => Weight::Pure,
        opcode if OF_THE_WARP.contains(&opcode) => Weight::Acts,
        Opcode::Prefetch | Opcode::Prefetchu | Opcode::Applypriority => Weight::Acts,
        Opcode::Alloca | Opcode::Stacksave | Opcode::Stackrestore => Weight::Memory,
        // Products by descriptors, groups of copies, hints: what they touch is not in their operands.
        _ if outputs == 0 || effects.convergent => Weight::Memory,
        _ => Weight::Pure,
    }
}

/// What they give depends on which threads execute them together, and on nothing in memory.
const OF_THE_WARP: &[Opcode] = &[
    Opcode::Activemask,
    Opcode::Elect,
    Opcode::Match,
    Opcode::Redux,
    Opcode::Shfl,
    Opcode::Vote,
];

/// What LLVM may think of reading a special register: most never change while a thread runs.
pub(super) fn of_special(register: SpecialRegister) -> Weight {
    use SpecialRegister as S;
    match register {
        S::Clock
        | S::ClockHi
        | S::Clock64
        | S::Globaltimer
        | S::GlobaltimerLo
        | S::GlobaltimerHi => Weight::Memory,
        S::SmId | S::WarpId | S::Pm(_) | S::Pm64(_) => Weight::Acts,
        _ => Weight::Pure,
    }
}
