//! What loads, stores and atomics have in common: order, scope, alignment.

use inkwell::values::{AsValueRef, InstructionValue, IntValue, PointerValue};
use llvm_sys::LLVMAtomicOrdering as Ordering;
use llvm_sys::LLVMAtomicRMWBinOp;
use llvm_sys::core as llvm;
use llvm_sys::prelude::LLVMValueRef;
use r3_ptx::isa::{Mnemonic, Order, ScalarType, Scope, Space, Word};

use crate::lift::function::Lifter;

/// Modifiers of `ld` and `st` that LLVM's own loads and stores can express; types and state spaces apart. Others, of caches
/// above all, are hints that only text keeps.
const EXPRESSIBLE: &[Word] = &[
    Word::Weak,
    Word::Volatile,
    Word::Relaxed,
    Word::Acquire,
    Word::Release,
    Word::Cta,
    Word::Cluster,
    Word::Gpu,
    Word::Sys,
    Word::Nc,
    Word::V2,
    Word::V4,
    Word::V8,
];

/// How memory is accessed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// As LLVM likes.
    Weak,
    /// `.volatile`
    Volatile,
    /// Atomically.
    Atomic(Ordering, Scope),
}

/// A load or store that LLVM can express.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Type of an element.
    pub ty: ScalarType,
    /// Elements.
    pub count: u8,
    /// State space.
    pub space: Option<Space>,
    /// How.
    pub access: Access,
    /// `.nc`: nothing writes there while the kernel runs.
    pub invariant: bool,
}

impl Shape {
    /// What a mnemonic says; `None` where LLVM would lose some of it.
    pub fn of(mnemonic: &Mnemonic) -> Option<Self> {
        let expressible = |word: &Word| {
            word.ty().is_some()
                || Space::from_text(word.text()).is_some()
                || EXPRESSIBLE.contains(word)
        };
        if !mnemonic.words().iter().all(expressible) {
            return None;
        }
        let ordering = match mnemonic.order() {
            None | Some(Order::Weak) => None,
            Some(Order::Volatile) => None,
            Some(order) => Some(ordering(order)?),
        };
        let shape = Self {
            ty: mnemonic.ty()?,
            count: mnemonic.vector(),
            space: mnemonic.space(),
            access: match (mnemonic.order(), ordering) {
                (Some(Order::Volatile), _) => Access::Volatile,
                (_, Some(ordering)) => Access::Atomic(ordering, mnemonic.scope()?),
                _ => Access::Weak,
            },
            invariant: mnemonic.has(Word::Nc),
        };
        shape.printable().then_some(shape)
    }

    /// Whether LLVM prints what it is told.
    fn printable(&self) -> bool {
        let shared = |space: Space| space.is_shared();
        let ordered = match self.space {
            None | Some(Space::Global) => true,
            // LLVM prints a plain access where a volatile or atomic one is to local or constant memory.
            Some(space) => shared(space),
        };
        let bytes = self.ty.bytes() * u64::from(self.count);
        let fits = bytes <= 16 || self.space == Some(Space::Global);
        fits && match self.access {
            Access::Weak => true,
            Access::Volatile => ordered,
            Access::Atomic(..) => ordered && self.count == 1 && self.ty.bytes() <= 8,
        }
    }

    /// The alignment that PTX demands: of the whole vector.
    pub fn align(&self) -> u32 {
        let bytes = self.ty.bytes() * u64::from(self.count);
        bytes as u32
    }
}

/// LLVM's order.
pub(super) fn ordering(order: Order) -> Option<Ordering> {
    match order {
        Order::Relaxed => Some(Ordering::LLVMAtomicOrderingMonotonic),
        Order::Acquire => Some(Ordering::LLVMAtomicOrderingAcquire),
        Order::Release => Some(Ordering::LLVMAtomicOrderingRelease),
        Order::AcqRel => Some(Ordering::LLVMAtomicOrderingAcquireRelease),
        Order::SeqCst => Some(Ordering::LLVMAtomicOrderingSequentiallyConsistent),
        Order::Weak | Order::Volatile | Order::Mmio => None,
    }
}

impl<'ctx> Lifter<'ctx, '_> {
    /// LLVM's number of a scope.
    fn scope(&self, scope: Scope) -> u32 {
        let name = match scope {
            Scope::Cta => "block",
            Scope::Cluster => "cluster",
            Scope::Gpu => "device",
            // LLVM's name of the whole system.
            Scope::Sys => "",
        };
        // SAFETY: the context lives; the name is given with its length.
        unsafe { llvm::LLVMGetSyncScopeID(self.context.raw(), name.as_ptr().cast(), name.len()) }
    }

    /// Makes an access of a built load or store.
    pub(super) fn accessed(&self, instruction: InstructionValue<'ctx>, shape: &Shape) {
        let made = instruction.as_value_ref();
        // SAFETY: `made` is a load or store that this builder has just made, and each of these functions takes both.
        unsafe {
            llvm::LLVMSetAlignment(made, shape.align());
            match shape.access {
                Access::Weak => {}
                Access::Volatile => llvm::LLVMSetVolatile(made, 1),
                Access::Atomic(ordering, scope) => {
                    llvm::LLVMSetOrdering(made, ordering);
                    llvm::LLVMSetAtomicSyncScopeID(made, self.scope(scope));
                }
            }
        }
    }

    /// Builds a fence.
    pub(super) fn fence(&self, ordering: Ordering, scope: Scope) {
        // SAFETY: the builder stands in a block.
        unsafe {
            llvm::LLVMBuildFenceSyncScope(
                self.builder.as_mut_ptr(),
                ordering,
                self.scope(scope),
                c"".as_ptr(),
            );
        }
    }

    /// Builds an atomic operation; the result is what was in memory before. A volatile one is left alone by optimisers.
    pub(super) fn atomic(
        &self,
        operation: LLVMAtomicRMWBinOp,
        pointer: PointerValue<'ctx>,
        value: LLVMValueRef,
        volatile: bool,
    ) -> LLVMValueRef {
        // SAFETY: the builder stands in a block; the operation takes a value of this kind.
        unsafe {
            let made = llvm::LLVMBuildAtomicRMWSyncScope(
                self.builder.as_mut_ptr(),
                operation,
                pointer.as_value_ref(),
                value,
                Ordering::LLVMAtomicOrderingMonotonic,
                self.scope(Scope::Gpu),
            );
            llvm::LLVMSetVolatile(made, volatile.into());
            made
        }
    }

    /// Builds a compare-and-swap; the result is what was in memory before.
    pub(super) fn compare_and_swap(
        &self,
        pointer: PointerValue<'ctx>,
        [compared, new]: [IntValue<'ctx>; 2],
        success: Ordering,
        scope: Scope,
    ) -> LLVMValueRef {
        let failure = match success {
            Ordering::LLVMAtomicOrderingAcquire | Ordering::LLVMAtomicOrderingAcquireRelease => {
                Ordering::LLVMAtomicOrderingAcquire
            }
            _ => Ordering::LLVMAtomicOrderingMonotonic,
        };
        // SAFETY: the builder stands in a block; both integers have the same type.
        unsafe {
            let builder = self.builder.as_mut_ptr();
            let pair = llvm::LLVMBuildAtomicCmpXchgSyncScope(
                builder,
                pointer.as_value_ref(),
                compared.as_value_ref(),
                new.as_value_ref(),
                success,
                failure,
                self.scope(scope),
            );
            llvm::LLVMBuildExtractValue(builder, pair, 0, c"".as_ptr())
        }
    }
}
