//! Moves, and what packs and unpacks vectors.

use super::{Flow, LANES, Lane, Op};
use crate::decode::{Decoder, Unsupported};
use crate::launch::Class;
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType};
use r3_ptx::typed::Operand;

/// See [`FAMILIES`](super::FAMILIES).
pub(crate) fn decode(d: &mut Decoder<'_>, mnemonic: &Mnemonic) -> Option<Result<Op, Unsupported>> {
    if mnemonic.opcode() != Opcode::Mov {
        return None;
    }
    let ty = mnemonic.ty()?;
    Some(match ty {
        ScalarType::Pred => predicate(d),
        _ if mnemonic.vector() > 1 => vector(d, ty),
        _ => scalar(d, ty),
    })
}

fn predicate(d: &mut Decoder<'_>) -> Result<Op, Unsupported> {
    let mut op = d.whole(Class::Alu, |warp, op, mask| {
        let value = warp.predicate(op.a);
        warp.set_predicate(op.d, mask, value);
        Flow::Next
    });
    op.a = d.predicate(1)?;
    op.d = d.dst_predicate(0)?;
    Ok(op)
}

fn scalar(d: &mut Decoder<'_>, ty: ScalarType) -> Result<Op, Unsupported> {
    let (to, from) = (d.operand(0)?, d.operand(1)?);
    let is_vector = |o| matches!(o, Operand::Vector(..));
    match (is_vector(to), is_vector(from)) {
        (true, false) => unpack(d, ty, to, from),
        (false, true) => pack(d, ty, to, from),
        (true, true) => vector(d, ty),
        (false, false) => match ty.bits() {
            0..=16 => d.map1(Class::Alu, |a: u16| a),
            17..=32 => d.map1(Class::Alu, |a: u32| a),
            33..=64 => d.map1(Class::Alu, |a: u64| a),
            _ => d.map1(Class::Alu, |a: u128| a),
        },
    }
}

/// `mov.v2.f32 a, b`: element by element. All are read before the first is written.
fn vector(d: &mut Decoder<'_>, ty: ScalarType) -> Result<Op, Unsupported> {
    let to = d.elements(d.operand(0)?);
    let from = d.elements(d.operand(1)?);
    if to.len() != from.len() {
        return Err(Unsupported::new("vectors of different lengths"));
    }
    macro_rules! copy {
        ($int:ty) => {{
            let mut op = d.whole(Class::Alu, |warp, op, mask| {
                let slots = warp.slots(op);
                let (from, to) = slots.split_at(slots.len() / 2);
                let values: [[$int; LANES]; 8] =
                    std::array::from_fn(|i| from.get(i).map_or([0; LANES], |&s| warp.get(s)));
                for (&slot, value) in to.iter().zip(&values) {
                    warp.put(slot, mask, value);
                }
                Flow::Next
            });
            let mut slots = Vec::new();
            for &operand in &from {
                slots.push(d.src_of::<$int>(operand)?);
            }
            for &operand in &to {
                slots.push(d.dst_of::<$int>(operand)?);
            }
            d.list(&mut op, &slots);
            Ok(op)
        }};
    }
    match ty.bits() {
        0..=16 => copy!(u16),
        17..=32 => copy!(u32),
        _ => copy!(u64),
    }
}

/// `mov.b64 {a, b}, c`
fn unpack(
    d: &mut Decoder<'_>,
    ty: ScalarType,
    to: Operand,
    from: Operand,
) -> Result<Op, Unsupported> {
    let pieces = d.elements(to);
    let bits = ty.bits() / pieces.len().max(1) as u32;
    macro_rules! split {
        ($whole:ty, $piece:ty) => {{
            fn build(
                d: &mut Decoder<'_>,
                pieces: &[Operand],
                from: Operand,
                bits: u32,
            ) -> Result<Op, Unsupported> {
                let mut op = d.whole(Class::Alu, |warp, op, mask| {
                    let value: [$whole; LANES] = warp.get(op.a);
                    let bits = op.imm as u32;
                    let keep = <$piece>::MAX >> (<$piece>::BITS - bits);
                    for (i, &slot) in warp.slots(op).iter().enumerate() {
                        let shift = i as u32 * bits;
                        let piece = value.map(|v| (v >> shift) as $piece & keep);
                        warp.put(slot, mask, &piece);
                    }
                    Flow::Next
                });
                op.imm = bits.into();
                op.a = d.src_of::<$whole>(from)?;
                destinations::<$piece>(d, &mut op, pieces)?;
                Ok(op)
            }
            build(d, &pieces, from, bits)
        }};
    }
    match (ty.bits(), bits) {
        (16, 8) => split!(u16, u16),
        (32, 8 | 16) => split!(u32, u16),
        (64, 8 | 16) => split!(u64, u16),
        (64, 32) => split!(u64, u32),
        (128, 32) => split!(u128, u32),
        (128, 64) => split!(u128, u64),
        _ => Err(Unsupported::new(format!(
            "{} pieces of a .{ty}",
            pieces.len()
        ))),
    }
}

fn destinations<T: Lane>(
    d: &mut Decoder<'_>,
    op: &mut Op,
    pieces: &[Operand],
) -> Result<(), Unsupported> {
    let mut slots = Vec::with_capacity(pieces.len());
    for &piece in pieces {
        slots.push(d.dst_of::<T>(piece)?);
    }
    d.list(op, &slots);
    Ok(())
}

/// `mov.b64 c, {a, b}`
fn pack(
    d: &mut Decoder<'_>,
    ty: ScalarType,
    to: Operand,
    from: Operand,
) -> Result<Op, Unsupported> {
    let pieces = d.elements(from);
    let bits = ty.bits() / pieces.len().max(1) as u32;
    macro_rules! join {
        ($whole:ty, $piece:ty) => {{
            fn build(
                d: &mut Decoder<'_>,
                to: Operand,
                pieces: &[Operand],
                bits: u32,
            ) -> Result<Op, Unsupported> {
                let mut op = d.whole(Class::Alu, |warp, op, mask| {
                    let bits = op.imm as u32;
                    let keep = <$piece>::MAX >> (<$piece>::BITS - bits);
                    let mut value: [$whole; LANES] = [0; LANES];
                    for (i, &slot) in warp.slots(op).iter().enumerate() {
                        let shift = i as u32 * bits;
                        let piece: [$piece; LANES] = warp.get(slot);
                        for (v, p) in value.iter_mut().zip(piece) {
                            *v |= <$whole>::from(p & keep) << shift;
                        }
                    }
                    warp.put(op.d, mask, &value);
                    Flow::Next
                });
                op.imm = bits.into();
                op.d = d.dst_of::<$whole>(to)?;
                let mut slots = Vec::with_capacity(pieces.len());
                for &piece in pieces {
                    slots.push(d.src_of::<$piece>(piece)?);
                }
                d.list(&mut op, &slots);
                Ok(op)
            }
            build(d, to, &pieces, bits)
        }};
    }
    match (ty.bits(), bits) {
        (16, 8) => join!(u16, u16),
        (32, 8 | 16) => join!(u32, u16),
        (64, 8 | 16) => join!(u64, u16),
        (64, 32) => join!(u64, u32),
        (128, 32) => join!(u128, u32),
        (128, 64) => join!(u128, u64),
        _ => Err(Unsupported::new(format!(
            "a .{ty} of {} pieces",
            pieces.len()
        ))),
    }
}
