//! One function: its instructions in order, and what handlers see of it.

use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FloatValue, FunctionValue, IntValue, PointerValue};
use r3_ptx::isa::{Mnemonic, ScalarType, Space};
use r3_ptx::typed::{self, Instruction, Operand, RegId};

use super::{Lifted, Options};
use crate::error::LiftError;

/// What a handler works with: the instruction's operands as values, and a builder at its place.
///
/// A handler reads operands by [`value`](Self::value) and its relatives, builds, and writes by [`set`](Self::set). It need
/// not think of the guard: the driver either put the builder into a block that only threads with a true guard reach, or
/// (for instructions that cannot harm) lets `set` select between new and old value.
pub(crate) struct Lifter<'ctx, 'm> {
    /// LLVM's context.
    pub context: &'ctx Context,
    /// The module being made.
    pub llvm: &'m Module<'ctx>,
    /// Builder at the place of the instruction.
    pub builder: Builder<'ctx>,
    /// The PTX module.
    pub module: &'m typed::Module,
    /// The PTX function.
    pub source: &'m typed::Function,
    /// Its body.
    pub body: &'m typed::Body,
    /// The LLVM function.
    pub function: FunctionValue<'ctx>,
    /// The instruction that is lifted.
    pub instruction: &'m Instruction,
}

/// Whether a handler took an instruction: `false` sends it to inline assembly. A handler that returns `false` has built
/// nothing that matters.
pub(crate) type Handled = Result<bool, LiftError>;

/// A handler of one family of instructions.
pub(crate) type Handler =
    for<'ctx, 'm> fn(&mut Lifter<'ctx, 'm>, &Mnemonic, &'m [Operand]) -> Handled;

impl<'ctx, 'm> Lifter<'ctx, 'm> {
    /// An operand as a value of a type: integers and bits as `iN`, `.f32`/`.f64` as `float`/`double`, `.f16`/`.bf16` as `half`/
    /// `bfloat`, packed types as `iN`, `.pred` as `i1` (`!%p` included). A register of another class is taken bit by bit;
    /// a wider register is cut.
    pub fn value(
        &mut self,
        operand: &Operand,
        ty: ScalarType,
    ) -> Result<BasicValueEnum<'ctx>, LiftError> {
        let _ = (operand, ty);
        todo!("core")
    }

    /// An operand as an integer of so many bits.
    pub fn integer(&mut self, operand: &Operand, bits: u32) -> Result<IntValue<'ctx>, LiftError> {
        let _ = (operand, bits);
        todo!("core")
    }

    /// An operand as a float of a type (`half`, `bfloat`, `float`, `double`).
    pub fn float(
        &mut self,
        operand: &Operand,
        ty: ScalarType,
    ) -> Result<FloatValue<'ctx>, LiftError> {
        let _ = (operand, ty);
        todo!("core")
    }

    /// A predicate operand, negated if it is `!%p`.
    pub fn predicate(&mut self, operand: &Operand) -> Result<IntValue<'ctx>, LiftError> {
        let _ = operand;
        todo!("core")
    }

    /// Address of a memory operand in a space (`None` is generic), as a pointer of that address space: rooted where it can
    /// be, else made of an integer.
    pub fn address(
        &mut self,
        operand: &Operand,
        space: Option<Space>,
    ) -> Result<PointerValue<'ctx>, LiftError> {
        let _ = (operand, space);
        todo!("core, pointers")
    }

    /// Writes a destination register (or `_`). The value may have another class than the register: same bits are cast; an
    /// integer narrower than the register is sign-extended if `ty` is signed, else zero-extended.
    pub fn set(
        &mut self,
        operand: &Operand,
        value: BasicValueEnum<'ctx>,
        ty: ScalarType,
    ) -> Result<(), LiftError> {
        let _ = (operand, value, ty);
        todo!("core")
    }

    /// Writes a pointer register that [`pointers`](super::pointers) found.
    pub fn set_pointer(
        &mut self,
        register: RegId,
        value: PointerValue<'ctx>,
    ) -> Result<(), LiftError> {
        let _ = (register, value);
        todo!("core, pointers")
    }

    /// Calls an LLVM intrinsic by name, with its overloaded types. `None` when this LLVM does not know it.
    pub fn intrinsic(
        &mut self,
        name: &str,
        overloads: &[BasicTypeEnum<'ctx>],
        arguments: &[BasicValueEnum<'ctx>],
    ) -> Result<Option<BasicValueEnum<'ctx>>, LiftError> {
        let _ = (name, overloads, arguments);
        todo!("core")
    }

    /// LLVM's type of a PTX type, as [`value`](Self::value) gives it.
    pub fn llvm_type(&self, ty: ScalarType) -> BasicTypeEnum<'ctx> {
        let _ = ty;
        todo!("core")
    }

    /// An error of LLVM's builder, with its place.
    pub fn failed(&self, error: inkwell::builder::BuilderError) -> LiftError {
        let _ = error;
        todo!("core")
    }
}

/// Lifts all functions of a module.
pub(crate) fn module<'ctx>(
    context: &'ctx Context,
    module: &typed::Module,
    options: &Options,
) -> Result<Lifted<'ctx>, LiftError> {
    let _ = (context, module, options);
    todo!("core")
}
