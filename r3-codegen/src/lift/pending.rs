//! Registers that are written, or read, after the instruction that names them.
//!
//! `wgmma.mma_async` and `tcgen05.ld` return before their results are there; `wgmma.wait_group` and `tcgen05.wait::ld` wait
//! for them. `wgmma.fence` orders what was written into the registers before with the products after it. Assembly that does
//! not name these registers is no reason for LLVM to keep their other uses on the right side of it: so it takes them all
//! and gives them back.

use std::collections::HashMap;

use r3_ptx::isa::{Mnemonic, Opcode, Word};
use r3_ptx::typed::{Body, Instruction, Module, Operand, RegId};

use super::asm::{Assembly, Weight};
use super::cfg::Cfg;
use super::function::Lifter;
use super::mnemonics::MnemonicInfo;
use super::ssa::{self, Phis};
use crate::error::LiftError;

/// Registers that each waiting instruction takes and gives back.
#[derive(Debug, Default)]
pub(super) struct Pending {
    at: HashMap<*const Instruction, Vec<u32>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Product,
    Load,
    WaitsForProducts,
    WaitsForLoads,
}

fn kind(mnemonic: &Mnemonic) -> Option<Kind> {
    match mnemonic.opcode() {
        Opcode::Wgmma if mnemonic.has(Word::MmaAsync) => Some(Kind::Product),
        Opcode::Wgmma if mnemonic.has(Word::WaitGroup) || mnemonic.has(Word::Fence) => {
            Some(Kind::WaitsForProducts)
        }
        Opcode::Tcgen05 if mnemonic.has(Word::Ld) => Some(Kind::Load),
        Opcode::Tcgen05 if mnemonic.has(Word::WaitLd) => Some(Kind::WaitsForLoads),
        _ => None,
    }
}

impl Pending {
    /// Reads a body.
    pub fn of(
        module: &Module,
        body: &Body,
        cfg: &Cfg,
        phis: &Phis,
        infos: &[MnemonicInfo],
    ) -> Self {
        let mut pending = Self::default();
        let kinds: Vec<Option<Kind>> = module.mnemonics.iter().map(kind).collect();
        if kinds.iter().all(Option::is_none) {
            return pending;
        }
        let kind = |instruction: &Instruction| {
            let kind = kinds.get(instruction.mnemonic.0 as usize);
            kind.copied().flatten()
        };
        let (mut of_products, mut of_loads) = (Vec::new(), Vec::new());
        for instruction in &body.instructions {
            let list = match kind(instruction) {
                Some(Kind::Product) => &mut of_products,
                Some(Kind::Load) => &mut of_loads,
                _ => continue,
            };
            // Matrices stand in braces; a single register of a result does not.
            for (i, operand) in body.operands(instruction).iter().enumerate() {
                match *operand {
                    Operand::Vector(first, len) => {
                        let parts = body.list(first, len).iter();
                        list.extend(parts.filter_map(register_of));
                    }
                    Operand::Register(register) if i == 0 => list.push(register.0),
                    _ => {}
                }
            }
        }
        for list in [&mut of_products, &mut of_loads] {
            list.sort_unstable();
            list.dedup();
        }
        for (i, instruction) in body.instructions.iter().enumerate() {
            let list = match kind(instruction) {
                Some(Kind::WaitsForProducts) => &of_products,
                Some(Kind::WaitsForLoads) => &of_loads,
                _ => continue,
            };
            let mut alive = list.clone();
            keep_alive(module, body, cfg, phis, infos, i, &mut alive);
            pending.at.insert(instruction, alive);
        }
        pending
    }

    /// The registers of a waiting instruction.
    fn of_instruction(&self, instruction: &Instruction) -> Option<&[u32]> {
        let found = self.at.get(&std::ptr::from_ref(instruction));
        found.map(Vec::as_slice)
    }
}

fn register_of(operand: &Operand) -> Option<u32> {
    match operand {
        Operand::Register(register) => Some(register.0),
        _ => None,
    }
}

/// Keeps those registers that are read after an instruction.
fn keep_alive(
    module: &Module,
    body: &Body,
    cfg: &Cfg,
    phis: &Phis,
    infos: &[MnemonicInfo],
    at: usize,
    registers: &mut Vec<u32>,
) {
    let Some(block) = cfg.block_of(at as u32) else {
        return;
    };
    let end = cfg.blocks.get(block as usize).map_or(0, |b| b.end as usize);
    let mut known: HashMap<u32, bool> = HashMap::new();
    for instruction in body.instructions.get(at + 1..end).unwrap_or_default() {
        let Some(info) = infos.get(instruction.mnemonic.0 as usize) else {
            continue;
        };
        let guarded = instruction.guard.is_some();
        ssa::registers(module, body, info, instruction, &mut |register, write| {
            if !(write && guarded) {
                known.entry(register).or_insert(!write);
            }
        });
    }
    registers.retain(|&register| match known.get(&register) {
        Some(&read) => read,
        None => cfg
            .successors(block)
            .iter()
            .any(|&next| phis.alive(next, register)),
    });
}

/// A waiting instruction with the registers that it waits for. `false`: it is none.
pub(super) fn wait(lifter: &mut Lifter<'_, '_>, mnemonic: &Mnemonic) -> Result<bool, LiftError> {
    let Some(registers) = lifter.pending.of_instruction(lifter.instruction) else {
        return Ok(false);
    };
    let held: Vec<RegId> = registers
        .iter()
        .filter(|&&register| lifter.holds(register))
        .map(|&register| RegId(register))
        .collect();
    let mut assembly = Assembly::new(held.len(), false);
    for register in held {
        assembly.through(lifter, register)?;
    }
    assembly.text.clear();
    assembly.text.push_str(mnemonic.text());
    let body = lifter.body;
    if let Some(Operand::Number(number)) = body.operands(lifter.instruction).first() {
        assembly.text.push_str(&format!(" {number}"));
    }
    assembly.text.push(';');
    assembly.finish(lifter, Weight::Memory, true)?;
    Ok(true)
}
