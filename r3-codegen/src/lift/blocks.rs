//! LLVM's blocks for the blocks of a body, with their phis.

use inkwell::basic_block::BasicBlock;
use inkwell::values::PhiValue;

use super::cfg::Cfg;
use super::function::Lifter;
use super::ssa::Phis;
use crate::error::LiftError;

/// Blocks of LLVM for the blocks of the body.
pub(super) struct Blocks<'ctx> {
    /// The blocks of the body.
    pub cfg: Cfg,
    blocks: Vec<Option<BasicBlock<'ctx>>>,
    phis: Vec<(u32, PhiValue<'ctx>)>,
    /// First of each block's phis in `phis`; one more at the end.
    first_phi: Vec<u32>,
    /// Blocks that begin with `.pragma "nounroll"`.
    pub nounroll: Vec<bool>,
    /// Some block takes a carry that another made.
    pub carry_crosses: bool,
}

impl<'ctx> Blocks<'ctx> {
    /// Registers and phis of a block.
    pub fn phis(&self, block: u32) -> &[(u32, PhiValue<'ctx>)] {
        let first = self.first_phi.get(block as usize).copied();
        let end = self.first_phi.get(block as usize + 1).copied();
        match (first, end) {
            (Some(first), Some(end)) => self.phis.get(first as usize..end as usize),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// LLVM's block; `None` where nothing leads.
    pub fn block(&self, block: u32) -> Option<BasicBlock<'ctx>> {
        self.blocks.get(block as usize).copied().flatten()
    }
}

impl<'ctx> Lifter<'ctx, '_> {
    /// Makes LLVM's blocks, in the order of the text, and all phis.
    pub(super) fn blocks(
        &mut self,
        entry: BasicBlock<'ctx>,
        cfg: Cfg,
        phis: &Phis,
    ) -> Result<Blocks<'ctx>, LiftError> {
        let mut frame = Blocks {
            blocks: vec![None; cfg.len()],
            phis: Vec::new(),
            first_phi: Vec::with_capacity(cfg.len() + 1),
            nounroll: vec![false; cfg.len()],
            carry_crosses: phis.carry_crosses,
            cfg,
        };
        for (block, made) in frame.blocks.iter_mut().enumerate() {
            let block = block as u32;
            frame.first_phi.push(frame.phis.len() as u32);
            if !frame.cfg.reachable(block) {
                continue;
            }
            let llvm = self.context.append_basic_block(self.function, "");
            *made = Some(llvm);
            self.builder.position_at_end(llvm);
            for &slot in phis.of(block) {
                let ty = self.slot_type(slot);
                let phi = self.build(|b| b.build_phi(ty, ""))?;
                frame.phis.push((slot, phi));
            }
        }
        frame.first_phi.push(frame.phis.len() as u32);
        if self.globals.options.keep_nounroll {
            for (at, text) in &self.body.pragmas {
                if let Some(block) = frame.cfg.block_of(*at)
                    && text.contains("nounroll")
                    && let Some(mark) = frame.nounroll.get_mut(block as usize)
                {
                    *mark = true;
                }
            }
        }
        self.builder.position_at_end(entry);
        Ok(frame)
    }
}
