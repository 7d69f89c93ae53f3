//! Reciprocals, roots, and what PTX calls approximate.
//!
//! An approximation is computed by the very instruction of the original: its intrinsic prints as that and nothing else, and LLVM
//! does not compute it at compile time. Where there is no such intrinsic it stays inline assembly.

use r3_ptx::isa::{Mnemonic, Opcode, ScalarType as T, Word};
use r3_ptx::typed::Operand;

use super::float::root_or_reciprocal;
use super::integer::set_call;
use super::packed;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    use Opcode as O;
    Some(match opcode {
        O::Rcp | O::Sqrt => reciprocal,
        O::Rsqrt | O::Sin | O::Cos | O::Lg2 | O::Ex2 => approximation,
        _ => return None,
    })
}

/// Whether it is approximate: a division without rounding, in any spelling.
pub(super) fn is_approximate(mnemonic: &Mnemonic) -> bool {
    mnemonic.opcode() == Opcode::Div && mnemonic.rounding().is_none()
}

fn reciprocal<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (Some(ty), [d, a]) = (mnemonic.ty(), operands) else {
        return Ok(false);
    };
    if mnemonic.rounding().is_none() {
        return lift(lifter, mnemonic, operands);
    }
    let a = lifter.value(a, ty)?;
    root_or_reciprocal(lifter, mnemonic, ty, d, a)
}

fn approximation<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    lift(lifter, mnemonic, operands)
}

/// Intrinsics by opcode, type and `.ftz`.
const INTRINSICS: &[(Opcode, T, bool, &str)] = &[
    (Opcode::Rcp, T::F32, true, "llvm.nvvm.rcp.approx.ftz.f"),
    (Opcode::Rcp, T::F64, true, "llvm.nvvm.rcp.approx.ftz.d"),
    (Opcode::Sqrt, T::F32, false, "llvm.nvvm.sqrt.approx.f"),
    (Opcode::Sqrt, T::F32, true, "llvm.nvvm.sqrt.approx.ftz.f"),
    (Opcode::Rsqrt, T::F32, false, "llvm.nvvm.rsqrt.approx.f"),
    (Opcode::Rsqrt, T::F32, true, "llvm.nvvm.rsqrt.approx.ftz.f"),
    (Opcode::Rsqrt, T::F64, false, "llvm.nvvm.rsqrt.approx.d"),
    (Opcode::Rsqrt, T::F64, true, "llvm.nvvm.rsqrt.approx.ftz.d"),
    (Opcode::Sin, T::F32, false, "llvm.nvvm.sin.approx.f"),
    (Opcode::Sin, T::F32, true, "llvm.nvvm.sin.approx.ftz.f"),
    (Opcode::Cos, T::F32, false, "llvm.nvvm.cos.approx.f"),
    (Opcode::Cos, T::F32, true, "llvm.nvvm.cos.approx.ftz.f"),
    (Opcode::Lg2, T::F32, false, "llvm.nvvm.lg2.approx.f"),
    (Opcode::Lg2, T::F32, true, "llvm.nvvm.lg2.approx.ftz.f"),
    (Opcode::Ex2, T::F32, false, "llvm.nvvm.ex2.approx"),
    (Opcode::Ex2, T::F32, true, "llvm.nvvm.ex2.approx.ftz"),
    (Opcode::Ex2, T::F16, false, "llvm.nvvm.ex2.approx"),
    (Opcode::Ex2, T::F16x2, false, "llvm.nvvm.ex2.approx"),
    (Opcode::Ex2, T::BF16, true, "llvm.nvvm.ex2.approx.ftz"),
    (Opcode::Ex2, T::BF16x2, true, "llvm.nvvm.ex2.approx.ftz"),
    (Opcode::Div, T::F32, false, "llvm.nvvm.div.approx.f"),
    (Opcode::Div, T::F32, true, "llvm.nvvm.div.approx.ftz.f"),
];

/// An approximation.
pub(super) fn lift<'ctx, 'm>(
    lifter: &mut Lifter<'ctx, 'm>,
    mnemonic: &Mnemonic,
    operands: &'m [Operand],
) -> Handled {
    let (&[ty], [d, sources @ ..]) = (mnemonic.types(), operands) else {
        return Ok(false);
    };
    let (opcode, ftz) = (mnemonic.opcode(), mnemonic.ftz());
    let known = [Word::Approx, Word::Full, Word::Ftz];
    let other = |word: &Word| !known.contains(word) && word.ty().is_none();
    if mnemonic.words().iter().any(other) {
        return Ok(false);
    }
    let name = match mnemonic.has(Word::Full) {
        true if ftz => Some("llvm.nvvm.div.full.ftz"),
        true => Some("llvm.nvvm.div.full"),
        // The oldest forms do not say `.approx`; they are left as they are.
        false if mnemonic.approx() => INTRINSICS
            .iter()
            .find(|&&(o, t, f, _)| (o, t, f) == (opcode, ty, ftz))
            .map(|&(.., name)| name),
        false => None,
    };
    let Some(name) = name else {
        return Ok(false);
    };
    let wanted = packed::type_of(lifter, ty);
    let overloads = [wanted];
    let overloads = if opcode == Opcode::Ex2 {
        &overloads[..]
    } else {
        &[]
    };
    let mut values = [wanted.const_zero(); 2];
    let Some(used) = values.get_mut(..sources.len()) else {
        return Ok(false);
    };
    for (value, operand) in used.iter_mut().zip(sources) {
        *value = match packed::vector_type(lifter, ty) {
            Some(vector) => packed::vector(lifter, operand, vector)?.into(),
            None => lifter.value(operand, ty)?,
        };
    }
    let arguments = &*used;
    set_call(lifter, name, overloads, arguments, d, ty)
}
