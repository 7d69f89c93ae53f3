//! Matrix instructions: `mma`, `wmma`, `wgmma`, and what loads, stores and moves their fragments.
//!
//! A matrix instruction takes elements out of the registers of all lanes ([`layout`]) or out of shared memory
//! ([`descriptor`], [`tiles`]) into plain arrays, multiplies those ([`product`], with the formats of [`number`]), and puts the
//! result back. What depends on the instruction's words is worked out when it is decoded.

mod access;
mod descriptor;
mod dot;
mod layout;
mod mma;
mod number;
mod product;
mod rows;
mod tiles;
mod wgmma;
mod wmma;

use super::Op;
use crate::decode::{Decoder, Unsupported};
use r3_ptx::isa::{Mnemonic, Opcode, Word};

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    Some(match mnemonic.opcode() {
        Opcode::Mma => mma::decode(d, mnemonic),
        Opcode::Wmma if mnemonic.has(Word::Mma) => mma::decode(d, mnemonic),
        Opcode::Wmma => wmma::decode(d, mnemonic),
        Opcode::Wgmma => wgmma::decode(d, mnemonic),
        Opcode::Ldmatrix => rows::decode_load(d, mnemonic),
        Opcode::Stmatrix => rows::decode_store(d, mnemonic),
        Opcode::Movmatrix => rows::decode_move(d),
        Opcode::Dp4a => dot::decode4(d, mnemonic),
        Opcode::Dp2a => dot::decode2(d, mnemonic),
        _ => return None,
    })
}
