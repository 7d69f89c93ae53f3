//! Handlers: families of instructions that have a counterpart in LLVM IR.
//!
//! What a handler does must be right for every input, NaNs, subnormal numbers, shift counts and divisors of zero included.
//! Where IR would be free and PTX is not, the handler guards, or leaves the instruction to inline assembly.

pub(super) mod addresses;
mod atomic;
mod bits;
mod compare;
mod convert;
mod float;
mod integer;
mod load;
mod lop3;
mod memory;
mod moves;
mod packed;
mod special;
mod store;
mod sync;
mod warp;

use r3_ptx::isa::Opcode;

use super::function::Handler;

/// The handler of an opcode; `None`: inline assembly.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    integer::handler(opcode)
        .or_else(|| bits::handler(opcode))
        .or_else(|| float::handler(opcode))
        .or_else(|| packed::handler(opcode))
        .or_else(|| compare::handler(opcode))
        .or_else(|| convert::handler(opcode))
        .or_else(|| moves::handler(opcode))
        .or_else(|| special::handler(opcode))
        .or_else(|| load::handler(opcode))
        .or_else(|| store::handler(opcode))
        .or_else(|| atomic::handler(opcode))
        .or_else(|| sync::handler(opcode))
        .or_else(|| warp::handler(opcode))
}
