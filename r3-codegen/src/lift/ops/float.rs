//! Arithmetic of .f32, .f64, .f16, .bf16.

use r3_ptx::isa::Opcode;

use crate::lift::function::Handler;

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    let _ = opcode;
    None
}
