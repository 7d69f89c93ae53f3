//! Video instructions.

use super::Op;
use crate::decode::{Decoder, Unsupported};
use r3_ptx::isa::Mnemonic;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    let _ = (d, mnemonic);
    None
}
