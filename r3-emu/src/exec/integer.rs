//! Integer arithmetic.

use super::Op;
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType};

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    match (mnemonic.opcode(), mnemonic.ty()?) {
        (Opcode::Add, ScalarType::U32 | ScalarType::S32) if !mnemonic.sat() => {
            Some(d.map2(Class::Alu, |a: u32, b: u32| a.wrapping_add(b)))
        }
        _ => None,
    }
}
