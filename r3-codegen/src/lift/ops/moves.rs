//! Moves, and what turns addresses of one space into those of another.

use inkwell::values::{BasicValueEnum, IntValue};
use r3_ptx::isa::{Mnemonic, Opcode, ScalarType, Space, Word};
use r3_ptx::typed::{Operand, Symbol};

use super::addresses;
use crate::error::LiftError;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::Mov => Some(mov),
        Opcode::Cvta => Some(cvta),
        Opcode::Isspacep => Some(isspacep),
        Opcode::Prefetch | Opcode::Prefetchu => Some(prefetch),
        _ => None,
    }
}

impl<'m> Lifter<'_, 'm> {
    /// Elements of an operand in braces; a plain one is its only element.
    pub(super) fn parts(&self, operand: &'m Operand) -> &'m [Operand] {
        match *operand {
            Operand::Vector(first, len) => self.body.list(first, len),
            _ => std::slice::from_ref(operand),
        }
    }
}

fn mov<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    let (Some(ty), [to, from]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    match (to, from) {
        // LLVM knows the address of a parameter only as a pointer.
        (_, Operand::Address(Symbol::Param(_) | Symbol::Result(_), _)) => return Ok(false),
        (Operand::Vector(..), Operand::Vector(..)) => {
            let (to, from) = (lifter.parts(to), lifter.parts(from));
            let ty = match mnemonic.vector() {
                // Parts to parts: as bits.
                1 => part(ty, to.len()),
                _ => Some(ty),
            };
            let (Some(ty), true) = (ty, to.len() == from.len()) else {
                return Ok(false);
            };
            let mut values = Vec::with_capacity(from.len());
            for operand in from {
                values.push(lifter.value(operand, ty)?);
            }
            for (to, value) in to.iter().zip(values) {
                lifter.set(to, value, ty)?;
            }
        }
        (Operand::Vector(..), Operand::Special(_)) => return Ok(false),
        (Operand::Vector(..), _) => return unpack(lifter, ty, to, from),
        (_, Operand::Vector(..)) => {
            let Some(value) = pack(lifter, ty, from)? else {
                return Ok(false);
            };
            lifter.set(to, value.into(), ty)?;
        }
        (_, Operand::Address(symbol, offset)) => {
            let pointer = addresses::symbol_value(lifter, *symbol, *offset)?;
            lifter.set(to, pointer.into(), ty)?;
        }
        _ => {
            let value = lifter.value(from, ty)?;
            lifter.set(to, value, ty)?;
        }
    }
    Ok(true)
}

/// The type of one of so many parts.
fn part(ty: ScalarType, parts: usize) -> Option<ScalarType> {
    match ty.bits() as usize / parts.max(1) {
        8 => Some(ScalarType::B8),
        16 => Some(ScalarType::B16),
        32 => Some(ScalarType::B32),
        64 => Some(ScalarType::B64),
        _ => None,
    }
}

/// `mov.b64 {a, b}, c`: the lowest bits go to the first.
fn unpack<'m>(
    lifter: &mut Lifter<'_, 'm>,
    ty: ScalarType,
    to: &'m Operand,
    from: &Operand,
) -> Handled {
    let parts = lifter.parts(to);
    let Some(narrow) = part(ty, parts.len()) else {
        return Ok(false);
    };
    let whole = lifter.integer(from, ty.bits())?;
    let int = lifter.globals.types.int(lifter.context, narrow.bits());
    for (index, to) in (0u64..).zip(parts) {
        if *to == Operand::Sink {
            continue;
        }
        let shift = whole
            .get_type()
            .const_int(index * u64::from(narrow.bits()), false);
        let value = match index {
            0 => whole,
            _ => lifter.build(|b| b.build_right_shift(whole, shift, false, ""))?,
        };
        let value = lifter.build(|b| b.build_int_truncate(value, int, ""))?;
        lifter.set(to, value.into(), narrow)?;
    }
    Ok(true)
}

/// `mov.b64 c, {a, b}`: a vector of the parts has the bits of the whole, and LLVM prints it as it was.
fn pack<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    ty: ScalarType,
    from: &'m Operand,
) -> Result<Option<IntValue<'ctx>>, LiftError> {
    let parts = lifter.parts(from);
    let Some(narrow) = part(ty, parts.len()) else {
        return Ok(None);
    };
    let int = lifter.globals.types.int(lifter.context, narrow.bits());
    let mut vector = int.vec_type(parts.len() as u32).get_poison();
    for (index, operand) in (0u64..).zip(parts) {
        let value = lifter.integer(operand, narrow.bits())?;
        let index = lifter.globals.types.i32.const_int(index, false);
        vector = lifter.build(|b| b.build_insert_element(vector, value, index, ""))?;
    }
    let whole = lifter.globals.types.int(lifter.context, ty.bits());
    let whole = lifter.build(|b| b.build_bit_cast(vector, whole, ""))?;
    Ok(match whole {
        BasicValueEnum::IntValue(whole) => Some(whole),
        _ => None,
    })
}

/// `cvta` into a register that stays an integer.
fn cvta<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    let (Some(ty), [to, from]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    match addresses::convert(lifter, mnemonic, from)? {
        Some(pointer) => lifter.set(to, pointer.into(), ty).map(|()| true),
        None => Ok(false),
    }
}

fn isspacep<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let name = match mnemonic.space() {
        Some(Space::Const) => "llvm.nvvm.isspacep.const",
        Some(Space::Global) => "llvm.nvvm.isspacep.global",
        Some(Space::Local) => "llvm.nvvm.isspacep.local",
        Some(Space::Shared | Space::SharedCta) => "llvm.nvvm.isspacep.shared",
        Some(Space::SharedCluster) => "llvm.nvvm.isspacep.shared.cluster",
        _ => return Ok(false),
    };
    let [to, from] = operands else {
        return Ok(false);
    };
    let pointer = addresses::in_space(lifter, from, Space::Generic)?;
    let Some(made) = lifter.intrinsic(name, &[], &[pointer.into()])? else {
        return Ok(false);
    };
    lifter.set(to, made, ScalarType::Pred).map(|()| true)
}

/// Prefetches that LLVM knows. As text they would be walls for other accesses.
fn prefetch<'m>(
    lifter: &mut Lifter<'_, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let name = match (mnemonic.opcode(), mnemonic.words()) {
        (Opcode::Prefetch, [Word::L1]) => "llvm.nvvm.prefetch.L1",
        (Opcode::Prefetch, [Word::L2]) => "llvm.nvvm.prefetch.L2",
        (Opcode::Prefetch, [Word::Global, Word::L1]) => "llvm.nvvm.prefetch.global.L1",
        (Opcode::Prefetch, [Word::Global, Word::L2]) => "llvm.nvvm.prefetch.global.L2",
        (Opcode::Prefetch, [Word::Local, Word::L1]) => "llvm.nvvm.prefetch.local.L1",
        (Opcode::Prefetch, [Word::Local, Word::L2]) => "llvm.nvvm.prefetch.local.L2",
        (Opcode::Prefetchu, [Word::L1]) => "llvm.nvvm.prefetchu.L1",
        _ => return Ok(false),
    };
    let [place] = operands else {
        return Ok(false);
    };
    let pointer = lifter.address(place, mnemonic.space())?;
    Ok(lifter.intrinsic(name, &[], &[pointer.into()])?.is_some())
}
