//! Instructions under a guard: those that cannot harm select, others get a block of their own.

use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, InstructionValue, IntValue};
use r3_ptx::typed::{Instruction, Operand, RegId};

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
