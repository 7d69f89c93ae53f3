//! One function: its blocks in dominator order, its instructions in the order of the text.

use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue};
use r3_ptx::isa::Mnemonic;
use r3_ptx::typed::{self, FnId, Instruction, Operand};

use super::blocks::Blocks;
use super::cfg::Cfg;
use super::globals::Globals;
use super::mnemonics::{Flow, MnemonicInfo};
use super::mode::Mode;
use super::ops::addresses;
use super::pending::{self, Pending};
use super::pointers::Roots;
use super::{asm, calls, carry, params, ssa};
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
    /// What all functions share.
    pub globals: &'m mut Globals<'ctx>,
    /// Builder at the place of the instruction.
    pub builder: Builder<'ctx>,
    /// Builder before the end of the entry block: for allocations, and what is the same everywhere.
    pub entry_builder: Builder<'ctx>,
    /// The PTX module.
    pub module: &'m typed::Module,
    /// Number of the PTX function.
    pub id: FnId,
    /// The PTX function.
    pub source: &'m typed::Function,
    /// Its body.
    pub body: &'m typed::Body,
    /// Rounding, flushing and contraction of the function.
    pub mode: Mode,
    /// The LLVM function.
    pub function: FunctionValue<'ctx>,
    /// The instruction that is lifted.
    pub instruction: &'m Instruction,
    /// Parameters, results and variables of the function.
    pub frame: params::Frame<'ctx>,
    /// Which registers hold addresses, and into what.
    pub roots: Option<&'m Roots>,
    /// What registers hold at the place of the builder; the last is the carry flag.
    pub(super) values: Vec<Option<BasicValueEnum<'ctx>>>,
    /// What registers hold that nothing has written.
    pub(super) unwritten: Vec<Option<BasicValueEnum<'ctx>>>,
    /// Registers for which instructions wait.
    pub(super) pending: Pending,
    /// `set` keeps the old value where this is false; or true, if so it says.
    pub(super) select: Option<(IntValue<'ctx>, bool)>,
    /// Values that writes have replaced, to go back by.
    pub(super) replaced: Vec<(u32, Option<BasicValueEnum<'ctx>>)>,
}

/// Whether a handler took an instruction: `false` sends it to inline assembly. A handler that returns `false` has built
/// nothing that matters.
pub(crate) type Handled = Result<bool, LiftError>;

/// A handler of one family of instructions.
pub(crate) type Handler =
    for<'ctx, 'm> fn(&mut Lifter<'ctx, 'm>, &Mnemonic, &'m [Operand]) -> Handled;

/// A function of a module.
#[derive(Clone, Copy)]
pub(crate) struct Part<'m> {
    /// The module.
    pub module: &'m typed::Module,
    /// Which function of it.
    pub id: FnId,
    /// The function.
    pub source: &'m typed::Function,
    /// Its body.
    pub body: &'m typed::Body,
}

/// Lifts the body of a function into its declaration.
pub(crate) fn lift<'ctx>(
    globals: &mut Globals<'ctx>,
    llvm: &Module<'ctx>,
    part: Part<'_>,
    function: FunctionValue<'ctx>,
    roots: Option<&Roots>,
) -> Result<(), LiftError> {
    let Part {
        module,
        id,
        source,
        body,
    } = part;
    let context = globals.context;
    // For messages where there is no instruction: the end of the body.
    let none = Instruction {
        pos: source.pos,
        guard: None,
        mnemonic: r3_ptx::tree::MnemonicId(u32::MAX),
        form: r3_ptx::isa::FormId(u16::MAX),
        first_operand: 0,
        operands: 0,
    };
    let cfg = Cfg::new(body, &globals.mnemonics);
    let phis = ssa::phis(module, body, &cfg, &globals.mnemonics);
    let pending = Pending::of(module, body, &cfg, &phis, &globals.mnemonics);
    let slots = body.registers.len() + 1;
    let entry = context.append_basic_block(function, "");
    let mut lifter = Lifter {
        context,
        llvm,
        globals,
        builder: context.create_builder(),
        entry_builder: context.create_builder(),
        module,
        id,
        source,
        body,
        mode: Mode::of(module, body),
        function,
        instruction: &none,
        frame: params::Frame::default(),
        roots,
        values: vec![None; slots],
        unwritten: vec![None; slots],
        pending,
        select: None,
        replaced: Vec::new(),
    };
    for (name, value) in lifter.mode.attributes() {
        let attribute = context.create_string_attribute(name, value);
        function.add_attribute(AttributeLoc::Function, attribute);
    }
    let blocks = lifter.blocks(entry, cfg, &phis)?;
    lifter.begin(entry, &blocks)?;
    lifter.walk(&blocks)
}

impl<'ctx, 'm> Lifter<'ctx, 'm> {
    /// The entry block: parameters, variables, and the way into block 0.
    fn begin(&mut self, entry: BasicBlock<'ctx>, blocks: &Blocks<'ctx>) -> Result<(), LiftError> {
        let Some(first) = blocks.block(0) else {
            return Err(self.inexpressible("a body without a beginning".into()));
        };
        self.builder.position_at_end(entry);
        let end = self.build(|b| b.build_unconditional_branch(first))?;
        self.entry_builder.position_before(&end);
        self.builder.position_before(&end);
        params::enter(self)?;
        self.join(&[(entry, 0)], blocks)
    }

    /// Lifts the blocks in the order of the dominator tree: what dominates comes first.
    fn walk(&mut self, blocks: &Blocks<'ctx>) -> Result<(), LiftError> {
        // Block, children visited, length of `replaced` before it.
        let mut stack: Vec<(u32, usize, usize)> = vec![(0, 0, self.replaced.len())];
        self.block(0, blocks)?;
        while let Some((block, next, mark)) = stack.last_mut() {
            match blocks.cfg.children(*block).get(*next).copied() {
                Some(child) => {
                    *next += 1;
                    stack.push((child, 0, self.replaced.len()));
                    self.block(child, blocks)?;
                }
                None => {
                    let mark = *mark;
                    stack.pop();
                    self.go_back(mark);
                }
            }
        }
        Ok(())
    }

    fn go_back(&mut self, mark: usize) {
        while self.replaced.len() > mark {
            if let Some((slot, old)) = self.replaced.pop()
                && let Some(value) = self.values.get_mut(slot as usize)
            {
                *value = old;
            }
        }
    }

    pub(super) fn write_slot(&mut self, slot: u32, value: BasicValueEnum<'ctx>) {
        if let Some(place) = self.values.get_mut(slot as usize) {
            let old = place.replace(value);
            self.replaced.push((slot, old));
        }
    }

    /// One block.
    fn block(&mut self, block: u32, blocks: &Blocks<'ctx>) -> Result<(), LiftError> {
        let (Some(llvm), Some(&range)) =
            (blocks.block(block), blocks.cfg.blocks.get(block as usize))
        else {
            return Ok(());
        };
        self.builder.position_at_end(llvm);
        for (slot, phi) in blocks.phis(block) {
            self.write_slot(*slot, phi.as_basic_value());
        }
        let body = self.body;
        let instructions = body
            .instructions
            .get(range.first as usize..range.end as usize)
            .unwrap_or_default();
        let mut rest = instructions;
        while let Some((instruction, after)) = rest.split_first() {
            self.instruction = instruction;
            let info = self.info(instruction);
            let taken = match instruction.guard {
                _ if !matches!(info.flow, Flow::Next | Flow::Call) => {
                    return self.terminator(block, info.flow, blocks);
                }
                None => self.step(rest, blocks.carry_crosses)?,
                Some(guard) if info.harmless => {
                    self.select = Some((self.guard(guard)?, guard.1));
                    let stepped = self.plain(instruction);
                    self.select = None;
                    stepped?;
                    1
                }
                Some(guard) if self.keeps_guard(instruction) => {
                    self.predicated(guard, instruction)?;
                    1
                }
                Some(guard) => self.guarded(guard, rest)?,
            };
            debug_assert!(taken > 0, "each step takes an instruction");
            rest = match taken {
                1 => after,
                _ => rest.get(taken..).unwrap_or_default(),
            };
        }
        self.fall(block, blocks)
    }

    pub(super) fn info(&self, instruction: &Instruction) -> MnemonicInfo {
        let info = self.globals.mnemonics.get(instruction.mnemonic.0 as usize);
        info.copied().unwrap_or(MnemonicInfo {
            handler: None,
            flow: Flow::Next,
            harmless: false,
            carry: false,
        })
    }

    /// One instruction without a guard, or a chain of carries that begins with it. Returns how many it took.
    fn step(&mut self, rest: &'m [Instruction], carry_crosses: bool) -> Result<usize, LiftError> {
        let Some(instruction) = rest.first() else {
            return Ok(1);
        };
        if self.info(instruction).carry && !carry_crosses {
            let taken = carry::chain(self, rest)?;
            if taken > 0 {
                return Ok(taken);
            }
        }
        self.plain(instruction)?;
        Ok(1)
    }

    /// One instruction, of which the guard is taken care of.
    pub(super) fn plain(&mut self, instruction: &'m Instruction) -> Result<(), LiftError> {
        self.instruction = instruction;
        let body = self.body;
        let operands = body.operands(instruction);
        let module = self.module;
        let Some(mnemonic) = module.mnemonics.get(instruction.mnemonic.0 as usize) else {
            return Err(self.inexpressible("an instruction without a mnemonic".into()));
        };
        let info = self.info(instruction);
        if info.flow == Flow::Call {
            self.globals.natively += 1;
            return calls::call(self, mnemonic, operands);
        }
        if info.carry && carry::single(self, mnemonic, operands)? {
            self.globals.natively += 1;
            return Ok(());
        }
        if pending::wait(self, mnemonic)? {
            self.globals.natively += 1;
            return Ok(());
        }
        if let Some(&Operand::Register(to)) = operands.first()
            && self.pointer_space(to).is_some()
            && addresses::define(self, mnemonic, operands)?
        {
            self.globals.natively += 1;
            return Ok(());
        }
        if let Some(handler) = info.handler
            && handler(self, mnemonic, operands)?
        {
            self.globals.natively += 1;
            return Ok(());
        }
        self.count_assembly(instruction);
        asm::instruction(self, mnemonic, operands)
    }

    pub(super) fn count_assembly(&mut self, instruction: &Instruction) {
        let counts = &mut self.globals.assembly;
        if let Some(count) = counts.get_mut(instruction.mnemonic.0 as usize) {
            *count += 1;
        }
    }
}
