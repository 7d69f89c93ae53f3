//! Atomics.
//!
//! LLVM 22 prints the operation of an `atomicrmw` without its order and scope: PTX's defaults, relaxed and the whole GPU,
//! are what can be said that way. Of a `cmpxchg` it prints both.

use inkwell::values::{AsValueRef, BasicValueEnum};
use llvm_sys::LLVMAtomicRMWBinOp::{self, *};
use r3_ptx::isa::{Mnemonic, Opcode, Operation, Order, ScalarType, Scope, Space, Word};
use r3_ptx::typed::Operand;

use super::memory::ordering;
use crate::lift::function::{Handled, Handler, Lifter};

/// The handler of an opcode of this family.
pub(crate) fn handler(opcode: Opcode) -> Option<Handler> {
    match opcode {
        Opcode::Atom => Some(atom),
        // LLVM prints `atom` for all.
        _ => None,
    }
}

use ScalarType as T;

/// What LLVM has: operation, types, name.
const OPERATIONS: &[(Operation, &[ScalarType], LLVMAtomicRMWBinOp)] = &[
    (
        Operation::Add,
        &[T::U32, T::S32, T::U64],
        LLVMAtomicRMWBinOpAdd,
    ),
    (Operation::Add, &[T::F32, T::F64], LLVMAtomicRMWBinOpFAdd),
    (Operation::And, &[T::B32, T::B64], LLVMAtomicRMWBinOpAnd),
    (Operation::Or, &[T::B32, T::B64], LLVMAtomicRMWBinOpOr),
    (Operation::Xor, &[T::B32, T::B64], LLVMAtomicRMWBinOpXor),
    (Operation::Exch, &[T::B32, T::B64], LLVMAtomicRMWBinOpXchg),
    (Operation::Min, &[T::S32, T::S64], LLVMAtomicRMWBinOpMin),
    (Operation::Max, &[T::S32, T::S64], LLVMAtomicRMWBinOpMax),
    (Operation::Min, &[T::U32, T::U64], LLVMAtomicRMWBinOpUMin),
    (Operation::Max, &[T::U32, T::U64], LLVMAtomicRMWBinOpUMax),
    (Operation::Inc, &[T::U32], LLVMAtomicRMWBinOpUIncWrap),
    (Operation::Dec, &[T::U32], LLVMAtomicRMWBinOpUDecWrap),
];

fn atom<'m>(lifter: &mut Lifter<'_, 'm>, mnemonic: &Mnemonic, operands: &'m [Operand]) -> Handled {
    let space = mnemonic.space();
    let has = matches!(
        space,
        None | Some(Space::Global | Space::Shared | Space::SharedCta)
    );
    let (Some(ty), Some(operation)) = (mnemonic.ty(), mnemonic.operation()) else {
        return Ok(false);
    };
    if !has || mnemonic.vector() != 1 || mnemonic.has(Word::L2CacheHint) {
        return Ok(false);
    }
    let order = mnemonic.order().unwrap_or(Order::Relaxed);
    let scope = mnemonic.scope().unwrap_or(Scope::Gpu);
    let made = match *operands {
        [_, place, compared, new] if operation == Operation::Cas => {
            let (T::B32 | T::B64, Some(ordering)) = (ty, ordering(order)) else {
                return Ok(false);
            };
            let compared = lifter.integer(&compared, ty.bits())?;
            let new = lifter.integer(&new, ty.bits())?;
            let pointer = lifter.address(&place, space)?;
            lifter.compare_and_swap(pointer, [compared, new], ordering, scope)
        }
        [_, place, value] if order == Order::Relaxed && scope == Scope::Gpu => {
            let mut table = OPERATIONS.iter();
            let Some((.., found)) =
                table.find(|(known, types, _)| *known == operation && types.contains(&ty))
            else {
                return Ok(false);
            };
            let value = lifter.value(&value, ty)?;
            let pointer = lifter.address(&place, space)?;
            // Optimisers would make an exchange of the addition of a NaN, and forget how the GPU writes one.
            lifter.atomic(*found, pointer, value.as_value_ref(), ty.is_float())
        }
        _ => return Ok(false),
    };
    // SAFETY: the operation gives a value of the type of its operand.
    let made = unsafe { BasicValueEnum::new(made) };
    match operands.first() {
        Some(to) => lifter.set(to, made, ty)?,
        None => return Ok(false),
    }
    Ok(true)
}
