//! A thin face over LLVM's C interface: values as they are, of whatever type.
//!
//! `inkwell`'s typed values do not cover every type that IR from outside may have; the walk over uses here does.

use std::marker::PhantomData;

use inkwell::module::Module;
use llvm_sys::core::{
    LLVMBuildAnd, LLVMBuildBitCast, LLVMBuildIntToPtr, LLVMBuildOr, LLVMBuildPtrToInt,
    LLVMBuildStore, LLVMConstBitCast, LLVMConstIntGetSExtValue, LLVMConstIntOfArbitraryPrecision,
    LLVMConstIntToPtr, LLVMCountParams, LLVMCreateBuilderInContext, LLVMDisposeBuilder,
    LLVMGetArgOperand, LLVMGetCalledValue, LLVMGetElementType, LLVMGetEntryBasicBlock,
    LLVMGetFirstInstruction, LLVMGetFirstUse, LLVMGetGEPSourceElementType,
    LLVMGetInlineAsmAsmString, LLVMGetInstructionOpcode, LLVMGetIntTypeWidth, LLVMGetIntrinsicID,
    LLVMGetModuleContext, LLVMGetNextInstruction, LLVMGetNextUse, LLVMGetNumOperands,
    LLVMGetOperand, LLVMGetParam, LLVMGetTypeContext, LLVMGetTypeKind, LLVMGetUser,
    LLVMIntTypeInContext, LLVMIsACallInst, LLVMIsAConstantInt, LLVMIsAFunction, LLVMIsAInlineAsm,
    LLVMIsAInstruction, LLVMPositionBuilderBefore, LLVMReplaceAllUsesWith, LLVMSetAlignment,
    LLVMSetOperand, LLVMTypeOf,
};
use llvm_sys::prelude::{LLVMBuilderRef, LLVMTypeRef, LLVMValueRef};
use llvm_sys::target::{
    LLVMABISizeOfType, LLVMGetModuleDataLayout, LLVMOffsetOfElement, LLVMStoreSizeOfType,
    LLVMTargetDataRef,
};
use llvm_sys::{LLVMOpcode, LLVMTypeKind};

// SAFETY of every block here: a value, type or layout comes from a module that `'m` borrows, so that it is alive; nothing
// here removes instructions. What a function of LLVM wants of its argument (an instruction, a call, a constant) is
// asked before it is called. One thread works in a context at a time, since `inkwell`'s contexts cannot be shared.

/// Any value of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Value<'m>(LLVMValueRef, PhantomData<&'m ()>);

/// Any type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type<'m>(LLVMTypeRef, PhantomData<&'m ()>);

/// Sizes and offsets by a module's data layout.
#[derive(Clone, Copy)]
pub(super) struct Layout<'m>(LLVMTargetDataRef, PhantomData<&'m ()>);

impl<'m> Layout<'m> {
    /// That of a module.
    pub fn of(module: &'m Module) -> Self {
        // SAFETY: see above.
        Self(
            unsafe { LLVMGetModuleDataLayout(module.as_mut_ptr()) },
            PhantomData,
        )
    }

    /// Bytes that a store of the type writes; `None` for types without a size.
    pub fn stored(self, ty: Type<'m>) -> Option<u64> {
        if !ty.is_sized() {
            return None;
        }
        // SAFETY: see above; the type has a size.
        Some(unsafe { LLVMStoreSizeOfType(self.0, ty.0) })
    }

    /// Bytes between two elements of an array of the type.
    fn stride(self, ty: Type<'m>) -> Option<u64> {
        if !ty.is_sized() {
            return None;
        }
        // SAFETY: see above; the type has a size.
        Some(unsafe { LLVMABISizeOfType(self.0, ty.0) })
    }
}

impl<'m> Type<'m> {
    /// A type that the module's owner holds.
    ///
    /// # Safety
    /// The type must belong to the context of a module that `'m` borrows.
    pub unsafe fn from_raw(raw: LLVMTypeRef) -> Self {
        Self(raw, PhantomData)
    }

    /// An integer type beside this one.
    pub fn integer(self, bits: u32) -> Self {
        // SAFETY: see above.
        Self(
            unsafe { LLVMIntTypeInContext(LLVMGetTypeContext(self.0), bits) },
            PhantomData,
        )
    }

    /// What kind of type.
    pub fn kind(self) -> LLVMTypeKind {
        // SAFETY: see above.
        unsafe { LLVMGetTypeKind(self.0) }
    }

    /// Bits of an integer type.
    pub fn integer_bits(self) -> Option<u32> {
        (self.kind() == LLVMTypeKind::LLVMIntegerTypeKind)
            // SAFETY: see above; it is an integer type.
            .then(|| unsafe { LLVMGetIntTypeWidth(self.0) })
    }

    /// Whether it is a pointer.
    pub fn is_pointer(self) -> bool {
        self.kind() == LLVMTypeKind::LLVMPointerTypeKind
    }

    /// Whether a value of the type is a row of bits that can be cast to an integer of the same size.
    pub fn is_bits(self) -> bool {
        match self.kind() {
            LLVMTypeKind::LLVMIntegerTypeKind
            | LLVMTypeKind::LLVMHalfTypeKind
            | LLVMTypeKind::LLVMBFloatTypeKind
            | LLVMTypeKind::LLVMFloatTypeKind
            | LLVMTypeKind::LLVMDoubleTypeKind
            | LLVMTypeKind::LLVMPointerTypeKind => true,
            LLVMTypeKind::LLVMVectorTypeKind => {
                // SAFETY: see above; a vector has elements.
                let element = Self(unsafe { LLVMGetElementType(self.0) }, PhantomData);
                // A vector of pointers or of single bits would need more than a cast.
                element.is_bits()
                    && !element.is_pointer()
                    && element.integer_bits().is_none_or(|bits| bits % 8 == 0)
            }
            _ => false,
        }
    }

    /// Whether it has a size.
    pub fn is_sized(self) -> bool {
        // SAFETY: see above.
        unsafe { llvm_sys::core::LLVMTypeIsSized(self.0) != 0 }
    }
}

impl<'m> Value<'m> {
    /// A value that the module's owner holds.
    ///
    /// # Safety
    /// The value must belong to a module that `'m` borrows.
    pub unsafe fn from_raw(raw: LLVMValueRef) -> Self {
        Self(raw, PhantomData)
    }

    /// For calls of LLVM that are not here.
    pub fn raw(self) -> LLVMValueRef {
        self.0
    }

    /// Its type.
    pub fn ty(self) -> Type<'m> {
        // SAFETY: see above.
        Type(unsafe { LLVMTypeOf(self.0) }, PhantomData)
    }

    /// Instructions and constants that use it, each as often as it does.
    pub fn users(self) -> Vec<Self> {
        let mut found = Vec::new();
        // SAFETY: see above.
        let mut at = unsafe { LLVMGetFirstUse(self.0) };
        while !at.is_null() {
            // SAFETY: see above; `at` is a use in the list.
            unsafe {
                found.push(Self(LLVMGetUser(at), PhantomData));
                at = LLVMGetNextUse(at);
            }
        }
        // The order of uses tells of how the module was built; that of the users' first appearance is kept by reversal.
        found.reverse();
        found
    }

    /// The operation, if it is an instruction.
    pub fn opcode(self) -> Option<LLVMOpcode> {
        // SAFETY: see above.
        let is = unsafe { LLVMIsAInstruction(self.0) };
        (!is.is_null())
            // SAFETY: see above; it is an instruction.
            .then(|| unsafe { LLVMGetInstructionOpcode(self.0) })
    }

    /// An operand.
    pub fn operand(self, index: u32) -> Option<Self> {
        // SAFETY: see above; the index is below the count.
        unsafe {
            let count = u32::try_from(LLVMGetNumOperands(self.0)).unwrap_or(0);
            (index < count).then(|| Self(LLVMGetOperand(self.0, index), PhantomData))
        }
    }

    /// The value of a constant integer, sign-extended.
    pub fn constant(self) -> Option<i64> {
        // SAFETY: see above; only a constant integer of at most 64 bits is asked for its value.
        unsafe {
            if LLVMIsAConstantInt(self.0).is_null() || LLVMGetIntTypeWidth(LLVMTypeOf(self.0)) > 64
            {
                return None;
            }
            Some(LLVMConstIntGetSExtValue(self.0))
        }
    }

    /// Puts another value in its place everywhere.
    pub fn replace_all_uses_with(self, other: Self) {
        // SAFETY: see above; callers give a value of the same type.
        unsafe { LLVMReplaceAllUsesWith(self.0, other.0) }
    }

    /// Puts another value in place of an operand.
    pub fn set_operand(self, index: u32, other: Self) {
        // SAFETY: see above; callers give an operand that is there, and a value of its type.
        unsafe { LLVMSetOperand(self.0, index, other.0) }
    }

    /// The instruction after it.
    pub fn next(self) -> Option<Self> {
        // SAFETY: see above.
        let is = unsafe { LLVMIsAInstruction(self.0) };
        if is.is_null() {
            return None;
        }
        // SAFETY: see above; it is an instruction.
        let next = unsafe { LLVMGetNextInstruction(self.0) };
        (!next.is_null()).then_some(Self(next, PhantomData))
    }

    /// Bytes from the base pointer of a `getelementptr` to its result, if all its indices are constants.
    pub fn offset(self, layout: Layout<'m>) -> Option<i64> {
        // SAFETY: see above; callers ask for `getelementptr` only.
        let mut ty = Type(
            unsafe { LLVMGetGEPSourceElementType(self.0) },
            PhantomData::<&'m ()>,
        );
        let mut offset = self
            .operand(1)?
            .constant()?
            .checked_mul(i64::try_from(layout.stride(ty)?).ok()?)?;
        for at in 2.. {
            let Some(index) = self.operand(at) else {
                break;
            };
            let index = index.constant()?;
            match ty.kind() {
                LLVMTypeKind::LLVMStructTypeKind => {
                    let index = u32::try_from(index).ok()?;
                    // SAFETY: see above; LLVM accepts only indices of elements that a struct has.
                    let (step, element) = unsafe {
                        (
                            LLVMOffsetOfElement(layout.0, ty.0, index),
                            llvm_sys::core::LLVMStructGetTypeAtIndex(ty.0, index),
                        )
                    };
                    offset = offset.checked_add(i64::try_from(step).ok()?)?;
                    ty = Type(element, PhantomData);
                }
                LLVMTypeKind::LLVMArrayTypeKind | LLVMTypeKind::LLVMVectorTypeKind => {
                    // SAFETY: see above; both have elements.
                    ty = Type(unsafe { LLVMGetElementType(ty.0) }, PhantomData);
                    let step = index.checked_mul(i64::try_from(layout.stride(ty)?).ok()?)?;
                    offset = offset.checked_add(step)?;
                }
                _ => return None,
            }
        }
        Some(offset)
    }

    /// What a call calls.
    pub fn callee(self) -> Option<Callee<'m>> {
        // SAFETY: see above; only a call is asked for what it calls.
        unsafe {
            if LLVMIsACallInst(self.0).is_null() {
                return None;
            }
            let called = LLVMGetCalledValue(self.0);
            Some(if !LLVMIsAInlineAsm(called).is_null() {
                Callee::Assembly
            } else if LLVMIsAFunction(called).is_null() {
                Callee::Function
            } else if LLVMGetIntrinsicID(called) != 0 {
                Callee::Intrinsic(Self(called, PhantomData))
            } else {
                Callee::Function
            })
        }
    }

    /// The text of the inline assembly that a call is.
    pub fn assembly(self) -> Option<&'m str> {
        // SAFETY: see above; only a call is asked for what it calls, only inline assembly for its text, which LLVM keeps
        // as long as the context.
        let text = unsafe {
            if LLVMIsACallInst(self.0).is_null() {
                return None;
            }
            let called = LLVMGetCalledValue(self.0);
            if LLVMIsAInlineAsm(called).is_null() {
                return None;
            }
            let mut length = 0;
            let text = LLVMGetInlineAsmAsmString(called, &raw mut length);
            std::slice::from_raw_parts(text.cast::<u8>(), length)
        };
        std::str::from_utf8(text).ok()
    }

    /// An argument of a call; callers know that there is one.
    pub fn argument(self, index: u32) -> Self {
        // SAFETY: see above; callers ask calls for arguments that they have.
        Self(unsafe { LLVMGetArgOperand(self.0, index) }, PhantomData)
    }

    /// A function's parameter.
    pub fn parameter(self, index: u32) -> Option<Self> {
        // SAFETY: see above; callers ask functions, and the index is below the count.
        unsafe {
            (!LLVMIsAFunction(self.0).is_null() && index < LLVMCountParams(self.0))
                .then(|| Self(LLVMGetParam(self.0, index), PhantomData))
        }
    }

    /// A function's first instruction that is not a `phi` (an entry block has none).
    pub fn entry(self) -> Option<Self> {
        // SAFETY: see above; callers ask functions with a body.
        let first = unsafe { LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(self.0)) };
        (!first.is_null()).then_some(Self(first, PhantomData))
    }
}

/// What is called.
pub(super) enum Callee<'m> {
    /// Inline assembly.
    Assembly,
    /// One of LLVM's own functions.
    Intrinsic(Value<'m>),
    /// A function, or whatever a pointer points to.
    Function,
}

/// A constant of a type that `is_bits`, from bytes in memory order.
pub(super) fn constant<'m>(ty: Type<'m>, bytes: &[u8]) -> Value<'m> {
    let words: Vec<u64> = bytes
        .chunks(8)
        .map(|chunk| {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            u64::from_le_bytes(word)
        })
        .collect();
    let bits = ty
        .integer_bits()
        .unwrap_or(u32::try_from(bytes.len() * 8).unwrap_or(u32::MAX));
    let integer = ty.integer(bits);
    // SAFETY: see above; the words live for the call, and the casts are between types of one size.
    unsafe {
        let value = LLVMConstIntOfArbitraryPrecision(
            integer.0,
            u32::try_from(words.len()).unwrap_or(0),
            words.as_ptr(),
        );
        let value = match ty.kind() {
            LLVMTypeKind::LLVMIntegerTypeKind => value,
            LLVMTypeKind::LLVMPointerTypeKind => LLVMConstIntToPtr(value, ty.0),
            _ => LLVMConstBitCast(value, ty.0),
        };
        Value(value, PhantomData)
    }
}

/// Builds instructions.
pub(super) struct Builder<'m>(LLVMBuilderRef, PhantomData<&'m ()>);

impl<'m> Builder<'m> {
    /// A builder in a module.
    pub fn of(module: &'m Module) -> Self {
        // SAFETY: see above.
        Self(
            unsafe { LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr())) },
            PhantomData,
        )
    }

    /// Builds before an instruction from now on.
    pub fn before(&self, instruction: Value<'m>) {
        // SAFETY: see above; callers give instructions.
        unsafe { LLVMPositionBuilderBefore(self.0, instruction.0) }
    }

    /// The raw builder.
    pub fn raw(&self) -> LLVMBuilderRef {
        self.0
    }

    /// `(value & !mask) | bits` over the bytes of a value of a type that `is_bits`. Also gives the first instruction that it
    /// built, which reads `value`.
    pub fn blend(&self, value: Value<'m>, known: &[Option<u8>]) -> (Value<'m>, Value<'m>) {
        let ty = value.ty();
        let integer = ty.integer(u32::try_from(known.len() * 8).unwrap_or(u32::MAX));
        let kept: Vec<u8> = known
            .iter()
            .map(|byte| if byte.is_some() { 0 } else { 0xff })
            .collect();
        let set: Vec<u8> = known.iter().map(|byte| byte.unwrap_or(0)).collect();
        let (kept, set) = (constant(integer, &kept), constant(integer, &set));
        let name = c"".as_ptr();
        // SAFETY: see above; casts are between types of one size.
        unsafe {
            let (first, bits) = match ty.kind() {
                LLVMTypeKind::LLVMIntegerTypeKind => {
                    let and = LLVMBuildAnd(self.0, value.0, kept.0, name);
                    (and, and)
                }
                LLVMTypeKind::LLVMPointerTypeKind => {
                    let cast = LLVMBuildPtrToInt(self.0, value.0, integer.0, name);
                    (cast, LLVMBuildAnd(self.0, cast, kept.0, name))
                }
                _ => {
                    let cast = LLVMBuildBitCast(self.0, value.0, integer.0, name);
                    (cast, LLVMBuildAnd(self.0, cast, kept.0, name))
                }
            };
            let bits = LLVMBuildOr(self.0, bits, set.0, name);
            let blended = match ty.kind() {
                LLVMTypeKind::LLVMIntegerTypeKind => bits,
                LLVMTypeKind::LLVMPointerTypeKind => LLVMBuildIntToPtr(self.0, bits, ty.0, name),
                _ => LLVMBuildBitCast(self.0, bits, ty.0, name),
            };
            (Value(blended, PhantomData), Value(first, PhantomData))
        }
    }

    /// Stores a constant, with an alignment of one byte.
    pub fn store(&self, value: Value<'m>, to: Value<'m>) {
        // SAFETY: see above; callers give a pointer.
        unsafe {
            let store = LLVMBuildStore(self.0, value.0, to.0);
            LLVMSetAlignment(store, 1);
        }
    }

    /// A pointer so many bytes further.
    pub fn advance(&self, pointer: Value<'m>, bytes: u64) -> Value<'m> {
        let ty = pointer.ty();
        let index = constant(ty.integer(64), &bytes.to_le_bytes());
        let mut indices = [index.0];
        // SAFETY: see above; callers give a pointer.
        Value(
            unsafe {
                llvm_sys::core::LLVMBuildGEP2(
                    self.0,
                    ty.integer(8).0,
                    pointer.0,
                    indices.as_mut_ptr(),
                    1,
                    c"".as_ptr(),
                )
            },
            PhantomData,
        )
    }
}

impl Drop for Builder<'_> {
    fn drop(&mut self) {
        // SAFETY: the builder is ours and is not used any more.
        unsafe { LLVMDisposeBuilder(self.0) }
    }
}
