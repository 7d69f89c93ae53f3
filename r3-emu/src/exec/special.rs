//! What PTX calls approximate: see [`approx`].

use super::Op;
use super::float::by_flag;
use crate::arith::approx;
use crate::arith::half::{BF16, F16, Half, high, low, pair};
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Word};

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    use Opcode as O;
    // A form without rounding is of the first versions of PTX, and approximate.
    if mnemonic.rounding().is_some() {
        return None;
    }
    let class = Class::Special;
    let ftz = mnemonic.ftz();
    Some(match (mnemonic.opcode(), mnemonic.ty()?) {
        (O::Div, ScalarType::F32) if mnemonic.has(Word::Full) => {
            by_flag!(ftz, F => d.map2(class, |a: f32, b: f32| approx::div_full(a, b, F)))
        }
        (O::Div, ScalarType::F32) => {
            by_flag!(ftz, F => d.map2(class, |a: f32, b: f32| approx::div(a, b, F)))
        }
        (O::Rcp, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::rcp(a, F)))
        }
        (O::Sqrt, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::sqrt(a, F)))
        }
        (O::Rsqrt, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::rsqrt(a, F)))
        }
        (O::Sin, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::sin(a, F)))
        }
        (O::Cos, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::cos(a, F)))
        }
        (O::Lg2, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::lg2(a, F)))
        }
        (O::Ex2, ScalarType::F32) => {
            by_flag!(ftz, F => d.map1(class, |a: f32| approx::ex2(a, F)))
        }
        (O::Tanh, ScalarType::F32) => d.map1(class, approx::tanh_single),
        (O::Rcp, ScalarType::F64) => d.map1(class, approx::rcp_upper),
        (O::Rsqrt, ScalarType::F64) if ftz => d.map1(class, approx::rsqrt_upper),
        (O::Rsqrt, ScalarType::F64) => d.map1(class, approx::rsqrt_double),
        (O::Ex2 | O::Tanh, ScalarType::F16) => half::<F16>(d, mnemonic),
        (O::Ex2 | O::Tanh, ScalarType::BF16) => half::<BF16>(d, mnemonic),
        (O::Ex2 | O::Tanh, ScalarType::F16x2) => halves::<F16>(d, mnemonic),
        (O::Ex2 | O::Tanh, ScalarType::BF16x2) => halves::<BF16>(d, mnemonic),
        _ => return None,
    })
}

fn half<H: Half>(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Special;
    if mnemonic.opcode() == Opcode::Tanh {
        return d.map1(class, |a: u16| approx::tanh_half::<H>(a));
    }
    by_flag!(mnemonic.ftz(), F => d.map1(class, |a: u16| approx::ex2_half::<H>(a, F)))
}

fn halves<H: Half>(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Result<Op, Unsupported> {
    let class = Class::Special;
    if mnemonic.opcode() == Opcode::Tanh {
        return d.map1(class, |a: u32| {
            pair(
                approx::tanh_half::<H>(high(a)),
                approx::tanh_half::<H>(low(a)),
            )
        });
    }
    by_flag!(mnemonic.ftz(), F => d.map1(class, |a: u32| {
        pair(approx::ex2_half::<H>(high(a), F), approx::ex2_half::<H>(low(a), F))
    }))
}
