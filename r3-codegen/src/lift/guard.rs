//! Instructions under a guard: those that cannot harm select, others get a block of their own.

use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, InstructionValue, IntValue};
use r3_ptx::isa::{Opcode, Space};
use r3_ptx::typed::{Instruction, Operand, RegId};

use super::asm;
use super::function::Lifter;
use super::mnemonics::Flow;
use crate::error::LiftError;

impl<'ctx, 'm> Lifter<'ctx, 'm> {
    /// The register of a guard, whether it is negated or not.
    pub(super) fn guard(&mut self, guard: (RegId, bool)) -> Result<IntValue<'ctx>, LiftError> {
        self.predicate(&Operand::Register(guard.0))
    }

    /// Goes one way where a guard holds, the other way where it does not.
    pub(super) fn fork(
        &mut self,
        guard: (RegId, bool),
        holds: BasicBlock<'ctx>,
        fails: BasicBlock<'ctx>,
    ) -> Result<InstructionValue<'ctx>, LiftError> {
        let condition = self.guard(guard)?;
        let (then, otherwise) = match guard.1 {
            true => (fails, holds),
            false => (holds, fails),
        };
        self.build(|b| b.build_conditional_branch(condition, then, otherwise))
    }

    /// Whether an instruction stays one with its guard: plain loads, stores and reductions, if it is wanted.
    pub(super) fn keeps_guard(&self, instruction: &Instruction) -> bool {
        let mnemonic = self.module.mnemonics.get(instruction.mnemonic.0 as usize);
        let plain = mnemonic.is_some_and(|mnemonic| {
            let opcode = matches!(mnemonic.opcode(), Opcode::Ld | Opcode::St | Opcode::Red);
            opcode && !mnemonic.spaces().any(Space::is_param)
        });
        let bytes = |register: &RegId| {
            let register = self.body.registers.get(register.0 as usize);
            register.is_some_and(|register| register.ty.bits() == 8)
        };
        self.globals.options.keep_guards
            && plain
            && !self
                .body
                .operands(instruction)
                .iter()
                .any(|operand| match operand {
                    Operand::Register(register) => bytes(register),
                    Operand::Vector(first, len) => {
                        self.body.list(*first, *len).iter().any(
                            |part| matches!(part, Operand::Register(register) if bytes(register)),
                        )
                    }
                    _ => false,
                })
    }

    /// One instruction with its guard, as assembly.
    pub(super) fn predicated(
        &mut self,
        guard: (RegId, bool),
        instruction: &'m Instruction,
    ) -> Result<(), LiftError> {
        self.instruction = instruction;
        let (module, body) = (self.module, self.body);
        let Some(mnemonic) = module.mnemonics.get(instruction.mnemonic.0 as usize) else {
            return Err(self.inexpressible("an instruction without a mnemonic".into()));
        };
        self.count_assembly(instruction);
        asm::guarded(self, mnemonic, body.operands(instruction), guard)
    }

    /// Instructions under the same guard, in a block of their own. Returns how many.
    pub(super) fn guarded(
        &mut self,
        guard: (RegId, bool),
        rest: &'m [Instruction],
    ) -> Result<usize, LiftError> {
        let Some(before) = self.builder.get_insert_block() else {
            return Err(self.inexpressible("no place to build at".into()));
        };
        let inside = self.context.insert_basic_block_after(before, "");
        let after = self.context.insert_basic_block_after(inside, "");
        self.fork(guard, inside, after)?;
        self.builder.position_at_end(inside);
        let mark = self.replaced.len();
        let mut taken = 0;
        for instruction in rest {
            let info = self.info(instruction);
            let control = !matches!(info.flow, Flow::Next | Flow::Call);
            if instruction.guard != Some(guard) || control {
                break;
            }
            let before = self.replaced.len();
            self.plain(instruction)?;
            taken += 1;
            let changed = self.replaced.get(before..).unwrap_or_default();
            if changed.iter().any(|(slot, _)| *slot == guard.0.0) {
                break;
            }
        }
        let Some(end) = self.builder.get_insert_block() else {
            return Err(self.inexpressible("no place to build at".into()));
        };
        self.build(|b| b.build_unconditional_branch(after))?;
        self.builder.position_at_end(after);
        // The first replaced value of each register is what it held before.
        let mut written = self.replaced.get(mark..).unwrap_or_default().to_vec();
        written.sort_by_key(|(slot, _)| *slot);
        written.dedup_by_key(|(slot, _)| *slot);
        for (slot, old) in written {
            let new = self.slot(slot)?;
            let old = match old {
                Some(old) => old,
                None => self.unwritten(slot)?,
            };
            let phi = self.build(|b| b.build_phi(new.get_type(), ""))?;
            phi.add_incoming(&[(&new, end), (&old, before)]);
            self.write_slot(slot, phi.as_basic_value());
        }
        Ok(taken)
    }

    pub(super) fn unwritten(&mut self, slot: u32) -> Result<BasicValueEnum<'ctx>, LiftError> {
        let value = match self.values.get_mut(slot as usize) {
            Some(place) => place.take(),
            None => None,
        };
        let unwritten = self.slot(slot);
        if let Some(place) = self.values.get_mut(slot as usize) {
            *place = value;
        }
        unwritten
    }
}
