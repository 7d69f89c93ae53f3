//! The ends of blocks: branches, tables, returns, and what phis are told.

use inkwell::basic_block::BasicBlock;
use inkwell::values::InstructionValue;

use super::blocks::Blocks;
use super::cfg::{self, NONE};
use super::function::Lifter;
use super::mnemonics::Flow;
use super::{asm, directives, params};
use crate::error::LiftError;

impl<'ctx> Lifter<'ctx, '_> {
    /// The end of a block that does not jump.
    pub(super) fn fall(&mut self, block: u32, blocks: &Blocks<'ctx>) -> Result<(), LiftError> {
        let Some(from) = self.builder.get_insert_block() else {
            return Ok(());
        };
        match blocks.cfg.successors(block) {
            [next] => {
                let Some(to) = blocks.block(*next) else {
                    return Err(self.inexpressible("a way into nowhere".into()));
                };
                let end = self.build(|b| b.build_unconditional_branch(to))?;
                self.latch(block, &[*next], end, blocks)?;
                self.join(&[(from, *next)], blocks)
            }
            _ => params::leave(self),
        }
    }

    /// The last instruction of a block.
    pub(super) fn terminator(
        &mut self,
        block: u32,
        flow: Flow,
        blocks: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        self.globals.natively += 1;
        let Some(from) = self.builder.get_insert_block() else {
            return Err(self.inexpressible("no place to build at".into()));
        };
        let successors = blocks.cfg.successors(block);
        let guard = self.instruction.guard;
        if flow == Flow::Branch {
            let target = successors.first().copied().unwrap_or(NONE);
            let next = successors.get(1).copied();
            let (Some(to), else_) = (blocks.block(target), next.and_then(|n| blocks.block(n)))
            else {
                return Err(self.inexpressible("a way into nowhere".into()));
            };
            return match (guard, else_, next) {
                (Some(guard), Some(else_), Some(next)) if next != target => {
                    let end = self.fork(guard, to, else_)?;
                    self.latch(block, successors, end, blocks)?;
                    self.join(&[(from, target), (from, next)], blocks)
                }
                _ => {
                    let end = self.build(|b| b.build_unconditional_branch(to))?;
                    self.latch(block, successors, end, blocks)?;
                    self.join(&[(from, target)], blocks)
                }
            };
        }
        // The others: the guard leads to a block of their own.
        let mut edges: Vec<(BasicBlock<'ctx>, u32)> = Vec::new();
        let mut at = from;
        if let Some(guard) = guard {
            let next = successors.last().copied().unwrap_or(NONE);
            let Some(to) = blocks.block(next) else {
                return Err(self.inexpressible("a way into nowhere".into()));
            };
            at = self.context.insert_basic_block_after(from, "");
            self.fork(guard, at, to)?;
            edges.push((from, next));
            self.builder.position_at_end(at);
        }
        match flow {
            Flow::Table => self.table(block, at, &mut edges, blocks)?,
            Flow::Return => params::leave(self)?,
            Flow::Exit if self.source.entry => {
                self.build(|b| b.build_return(None))?;
            }
            Flow::Exit | Flow::Trap | Flow::Next | Flow::Call | Flow::Branch => {
                asm::stop(self, if flow == Flow::Trap { "trap;" } else { "exit;" })?;
                self.build(|b| b.build_unreachable())?;
            }
        }
        self.join(&edges, blocks)
    }

    /// `brx.idx`. An index out of range is undefined in PTX, too.
    pub(super) fn table(
        &mut self,
        block: u32,
        at: BasicBlock<'ctx>,
        edges: &mut Vec<(BasicBlock<'ctx>, u32)>,
        blocks: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        let body = self.body;
        let operands = body.operands(self.instruction);
        let Some(index) = operands.first() else {
            return Err(self.inexpressible("a table without an index".into()));
        };
        let index = self.integer(index, 32)?;
        let successors = blocks.cfg.successors(block);
        let count = cfg::targets(body, self.instruction).len();
        let mut cases = Vec::with_capacity(count);
        for (i, &target) in successors.iter().take(count).enumerate() {
            let Some(to) = blocks.block(target) else {
                return Err(self.inexpressible("a way into nowhere".into()));
            };
            cases.push((self.globals.types.i32.const_int(i as u64, false), to));
            edges.push((at, target));
        }
        let nowhere = self.context.insert_basic_block_after(at, "");
        let end = self.build(|b| b.build_switch(index, nowhere, &cases))?;
        self.latch(block, successors, end, blocks)?;
        self.builder.position_at_end(nowhere);
        self.build(|b| b.build_unreachable())?;
        self.builder.position_at_end(at);
        Ok(())
    }

    /// Tells the phis of successors what registers hold at the end of this block.
    pub(super) fn join(
        &mut self,
        edges: &[(BasicBlock<'ctx>, u32)],
        blocks: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        for &(from, to) in edges {
            for (slot, phi) in blocks.phis(to) {
                let value = self.slot(*slot)?;
                phi.add_incoming(&[(&value, from)]);
            }
        }
        Ok(())
    }

    /// Marks the end of a loop that must not be unrolled.
    pub(super) fn latch(
        &mut self,
        block: u32,
        successors: &[u32],
        end: InstructionValue<'ctx>,
        blocks: &Blocks<'ctx>,
    ) -> Result<(), LiftError> {
        for &header in successors {
            let marked = blocks.nounroll.get(header as usize).copied();
            if marked == Some(true) && blocks.cfg.dominates(header, block) {
                return directives::nounroll(self, end, header);
            }
        }
        Ok(())
    }
}
