//! Inline assembly: what any instruction can become.
//!
//! The instruction's own text stands in it, with `$n` for registers and addresses. Names of textures, samplers and surfaces
//! stay names. Constraints follow the classes of registers: `b` predicates, `h` 16 bits, `r` 32, `l` 64, `q` 128, `f` and
//! `d` floats. LLVM knows no class of 8 bits: such registers are declared inside.
//!
//! What an instruction does besides writing its destinations is told to LLVM: nothing (it may be merged, moved, dropped),
//! reading memory, or more. Those that depend on which threads execute them together are `convergent`.

mod assembly;
mod operands;
mod places;
mod weight;

use inkwell::attributes::AttributeLoc;
use inkwell::types::BasicType;
use inkwell::values::BasicValueEnum;
use r3_ptx::isa::{Access, Forms, Mnemonic, OperandSpec, ScalarType, SpecialRegister};
use r3_ptx::typed::{Operand, RegId};

pub(super) use assembly::Assembly;
pub(super) use weight::Weight;

use super::function::Lifter;
use super::globals::effects;
use super::ssa::access;
use crate::error::LiftError;
use assembly::class;
use operands::Writer;

/// An instruction as its own text.
pub(crate) fn instruction(
    lifter: &mut Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
) -> Result<(), LiftError> {
    under(lifter, mnemonic, operands, None)
}

/// An instruction with its guard, as one piece: where that is false, its destinations keep what they hold.
pub(crate) fn guarded(
    lifter: &mut Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
    guard: (RegId, bool),
) -> Result<(), LiftError> {
    under(lifter, mnemonic, operands, Some(guard))
}

fn under(
    lifter: &mut Lifter<'_, '_>,
    mnemonic: &Mnemonic,
    operands: &[Operand],
    guard: Option<(RegId, bool)>,
) -> Result<(), LiftError> {
    let form = Forms::table().get(lifter.instruction.form);
    let Some(form) = form else {
        return Err(lifter.inexpressible("an instruction without a form".into()));
    };
    let specs = places::align(lifter, form, mnemonic, operands);
    let mut expected = 0;
    for (spec, operand) in specs.iter().zip(operands) {
        if writes(spec, operand) {
            expected += count(lifter, operand);
        }
    }
    let mut assembly = Assembly::new(expected, false);
    if let Some((register, negated)) = guard {
        assembly.text.push_str(if negated { "@!" } else { "@" });
        assembly.input_register(lifter, register)?;
        assembly.text.push(' ');
    }
    assembly.text.push_str(mnemonic.text());
    for (i, (spec, operand)) in specs.iter().zip(operands).enumerate() {
        assembly.text.push_str(if i == 0 { " " } else { ", " });
        let mut writer = Writer {
            assembly: &mut assembly,
            lifter,
            mnemonic,
            spec,
            keeps: guard.is_some(),
        };
        writer.operand(operand)?;
    }
    assembly.text.push(';');
    let effects = effects(lifter.instruction.form);
    let special = operands.iter().map(|operand| match operand {
        Operand::Special(register) => weight::of_special(*register),
        _ => Weight::Pure,
    });
    let weight = special.fold(
        weight::of_instruction(mnemonic, effects, expected),
        Weight::max,
    );
    assembly.finish(lifter, weight, effects.convergent)
}

/// A special register for which LLVM has no intrinsic.
pub(crate) fn special<'ctx>(
    lifter: &mut Lifter<'ctx, '_>,
    register: SpecialRegister,
) -> Result<BasicValueEnum<'ctx>, LiftError> {
    let ty = register.ty();
    let (class, llvm) = class(lifter, ty);
    let text = format!("mov.{} $0, {register};", bits_word(ty));
    let weight = weight::of_special(register);
    let (constraints, acts) = match weight {
        Weight::Memory => (format!("={class},~{{memory}}"), true),
        Weight::Acts => (format!("={class}"), true),
        Weight::Reads | Weight::Pure => (format!("={class}"), false),
    };
    let signature = llvm.fn_type(&[], false);
    let asm =
        lifter
            .context
            .create_inline_asm(signature, text, constraints, acts, false, None, false);
    let call = lifter.build(|b| b.build_indirect_call(signature, asm, &[], ""))?;
    let attributes = &lifter.globals.attributes;
    call.add_attribute(AttributeLoc::Function, attributes.nounwind);
    if weight == Weight::Pure {
        call.add_attribute(AttributeLoc::Function, attributes.no_memory);
        call.add_attribute(AttributeLoc::Function, attributes.willreturn);
    }
    match call.try_as_basic_value().basic() {
        Some(value) => Ok(value),
        None => Err(lifter.inexpressible(format!("`{register}` cannot be read"))),
    }
}

fn bits_word(ty: ScalarType) -> &'static str {
    match ty {
        ScalarType::Pred => "pred",
        _ if ty.bits() == 64 => "u64",
        _ => "u32",
    }
}

/// An instruction without operands that ends the thread or the launch.
pub(crate) fn stop(lifter: &mut Lifter<'_, '_>, text: &str) -> Result<(), LiftError> {
    let mut assembly = Assembly::new(0, false);
    assembly.text.push_str(text);
    assembly.finish(lifter, Weight::Memory, false)
}

fn writes(spec: &OperandSpec, operand: &Operand) -> bool {
    matches!(access(spec, operand), Access::Write | Access::ReadWrite)
}

/// Registers of a destination.
fn count(lifter: &Lifter<'_, '_>, operand: &Operand) -> usize {
    let list = |first, len| lifter.body.list(first, len).iter();
    match *operand {
        Operand::Register(_) | Operand::Selected { .. } => 1,
        Operand::Pair(first) => list(first, 2).map(|o| count(lifter, o)).sum(),
        Operand::Vector(first, len) => list(first, len)
            .filter(|o| matches!(o, Operand::Register(_)))
            .count(),
        _ => 0,
    }
}
